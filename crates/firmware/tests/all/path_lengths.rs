//! How long the frames of each path are, whatever the peer says of it (`HELLO-1`, `HELLO-7`, `MSG-1`, `LIMIT-1`).

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{
    Flags, HEADER_BYTES, HELLO_BODY_BYTES_MAX, Hello, Kind, Largest, LinkAddress, Message,
};

const NONE: Flags = Flags(0);
const FIRST: LinkIndex = LinkIndex(0);
const OTHER: LinkIndex = LinkIndex(1);

/// What the node's links take, in bytes.
const LENGTHS: [usize; 2] = [9_000, 1_450];

/// The shortest frame that a node builds whatever it is told: any header with its fields, and a little payload.
const LEAST: usize = 128;

/// Below this nothing is shortened while a pair is open (`LIMIT-1`).
const SHORTENED_LEAST: usize = 288;

/// Where the peer is on the other link.
const THERE: LinkAddress = LinkAddress::index(70);

/// A node with two links of different MTU, of which long trains take the second.
fn two_links() -> Real {
    let mut links = LENGTHS.map(|bytes| LinkInfo::new(bytes, false)).to_vec();
    for (link, cost) in links.iter_mut().zip(LinkCost::divided(5, 5)) {
        link.cost = Some(cost);
    }
    links[0].set_beside(OTHER, LinkAddress::index(1));
    links[1].set_beside(FIRST, LinkAddress::index(0));
    Real::over(&Profile::DEFAULT, links)
}

/// A peer that the node has met by a message that says so of its frames.
fn met(real: &mut Real, largest: Largest) -> Forged {
    let mut peer = Forged::new(2);
    let message = Message {
        node: peer.node,
        source_endpoint: 0,
        destination_endpoint: 0,
        largest,
        match_bits: 0,
        handle: 1,
        long: None,
        immediate: None,
    };
    let mut body = vec![0; message.body_bytes()];
    message.emit(&mut body);
    peer.number += 1;
    let frame = peer.next(Kind::Message, Flags::VOID, 0, &body);
    real.hear(&peer, &frame);
    real.pass(Span::us(100));
    peer
}

fn contact(from: &Forged, kind: Kind, (nonce, arrived): (u64, u32), largest: Largest) -> Vec<u8> {
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let bytes = Hello::new(from.node, OWN, nonce, largest, "").emit(&mut body);
    from.frame(kind, NONE, 0, arrived, &body[..bytes])
}

fn hear_by_other(real: &mut Real, from: LinkAddress, frame: &[u8]) {
    real.firmware.handle_frame(real.now, OTHER, from, frame, &mut real.memory);
}

/// The hellos that the node sends to an address: nonce and bytes of each.
fn asks(real: &mut Real, to: LinkAddress) -> Vec<(u64, usize)> {
    let said = of_kind(&real.speak(), Kind::Hello);
    let to = said.iter().filter(|said| said.to == to);
    to.map(|said| (Hello::parse(&said.body).unwrap().nonce, HEADER_BYTES + said.body.len()))
        .collect()
}

/// Opens the path by the other link: the peer looks for it, is asked back, and answers so.
fn open_other(real: &mut Real, peer: &Forged, largest: Largest) {
    hear_by_other(real, THERE, &contact(peer, Kind::Hello, (5, 0), largest));
    let (nonce, bytes) = asks(real, THERE)[0];
    let arrived = bytes as u32;
    hear_by_other(real, THERE, &contact(peer, Kind::HelloReply, (nonce, arrived), largest));
}

/// The largest frame by each path of the pair.
fn lengths(real: &Real, peer: &Forged) -> Vec<usize> {
    real.firmware.paths(peer.node).iter().map(|path| path.frame_bytes_max).collect()
}

#[test]
fn each_path_takes_what_its_link_takes_at_both_ends() {
    let cases = [
        (Largest::new(1_500, 9_000), Largest::new(1_500, 0), [9_000, 1_450]),
        (Largest::new(1_400, 4_000), Largest::new(1_400, 1_420), [4_000, 1_420]),
        (Largest::new(9_000, 0), Largest::new(9_000, 16_000), [9_000, 1_450]),
        // A node that knows of one number only.
        (Largest::from(1_430), Largest::from(1_430), [1_430, 1_430]),
    ];
    for (first, other, wanted) in cases {
        let mut real = two_links();
        let peer = met(&mut real, first);
        assert_eq!(lengths(&real, &peer), wanted[..1]);
        open_other(&mut real, &peer, other);
        assert_eq!(lengths(&real, &peer), wanted, "{first:?} {other:?}");
        // A message of a frame of the usual length or two takes the first, and fills its frames.
        real.send(&peer, 3_900);
        let said = real.pass(Span::us(10));
        let longest = said.iter().map(|said| HEADER_BYTES + said.body.len()).max().unwrap();
        assert_eq!(longest, wanted[0].min(3_960), "{first:?}");
    }
}

/// Values that no honest node sends make frames neither shorter nor longer than this node would have them.
#[test]
fn lengths_that_cannot_be_are_bounded() {
    let values = [0, 1, 31, 32, 127, 128, 287, 288, 1_449, 9_001, 16_385, u16::MAX];
    for every in values {
        for this in values {
            let largest = Largest::new(every, this);
            let mut real = two_links();
            let peer = met(&mut real, largest);
            open_other(&mut real, &peer, largest);
            let told = usize::from(every.max(this));
            let wanted = LENGTHS.map(|most| told.clamp(LEAST, most));
            assert_eq!(lengths(&real, &peer), wanted, "{largest:?}");
            real.send(&peer, 20_000);
            real.send(&peer, 10);
            for said in real.pass(Span::us(100)) {
                let most = if said.to == THERE { wanted[1] } else { wanted[0] };
                let bytes = HEADER_BYTES + said.body.len();
                assert!(said.kind() == Kind::Hello || bytes <= most, "{said:?} {largest:?}");
            }
        }
    }
}

/// An item of a hello in another form than it has says nothing.
#[test]
fn what_is_told_in_another_form_is_skipped() {
    for value in [&[][..], &[9], &[0x23, 0x28, 0]] {
        let mut real = two_links();
        let peer = met(&mut real, Largest::from(1_400));
        let mut body = [0; HELLO_BODY_BYTES_MAX];
        hear_by_other(&mut real, THERE, &contact(&peer, Kind::Hello, (5, 0), 1_400.into()));
        let nonce = asks(&mut real, THERE)[0].0;
        let bytes = Hello::new(peer.node, OWN, nonce, 1_400, "").emit(&mut body);
        let rest = [&body[..bytes], &[2, value.len() as u8], value].concat();
        hear_by_other(&mut real, THERE, &peer.frame(Kind::HelloReply, NONE, 0, 0, &rest));
        assert_eq!(lengths(&real, &peer), [1_400, 1_400], "{value:?}");
    }
}

/// A hello changes nothing, whatever it says and by whatever link: the peer is asked where it is known to be. Its answer from there
/// counts, for that path alone, and makes frames longer only if it tells that such arrive.
#[test]
fn only_an_answer_from_a_path_changes_its_length() {
    let mut real = two_links();
    let peer = met(&mut real, Largest::new(1_450, 9_000));
    open_other(&mut real, &peer, 1_450.into());
    let elsewhere = LinkAddress::index(71);
    for (every, this) in [(0, 0), (1_000, 0), (1_000, 1_200), (u16::MAX, u16::MAX)] {
        for from in [THERE, elsewhere] {
            real.now = real.now + Span::ms(2);
            let hello = contact(&peer, Kind::Hello, (6, 0), Largest::new(every, this));
            hear_by_other(&mut real, from, &hello);
            assert_eq!(lengths(&real, &peer), LENGTHS, "{every} {this}");
            real.speak();
        }
    }
    // Frames by the other link get shorter, those by the first stay as they are.
    let ask = |real: &mut Real, told: Largest| {
        real.now = real.now + Span::ms(2);
        hear_by_other(real, THERE, &contact(&peer, Kind::Hello, (7, 0), told));
        *asks(real, THERE).last().expect("it asks")
    };
    let low = Largest::new(1_000, 1_200);
    let (nonce, _) = ask(&mut real, low);
    let answer = contact(&peer, Kind::HelloReply, (nonce, 100), low);
    hear_by_other(&mut real, elsewhere, &answer);
    assert_eq!(lengths(&real, &peer), LENGTHS, "it is not there");
    let (nonce, _) = ask(&mut real, low);
    let answer = contact(&peer, Kind::HelloReply, (nonce, 100), low);
    hear_by_other(&mut real, THERE, &answer);
    assert_eq!(lengths(&real, &peer), [LENGTHS[0], 1_200]);
    // Longer again: the question is as long as that, and what arrived decides.
    let (nonce, bytes) = ask(&mut real, Largest::from(u16::MAX));
    assert_eq!(bytes, 1_450);
    let high = contact(&peer, Kind::HelloReply, (nonce, 1_300), u16::MAX.into());
    hear_by_other(&mut real, THERE, &high);
    assert_eq!(lengths(&real, &peer), [LENGTHS[0], 1_200]);
    let (nonce, bytes) = *asks(&mut real, THERE).last().expect("it asks again");
    let high = contact(&peer, Kind::HelloReply, (nonce, bytes as u32), u16::MAX.into());
    hear_by_other(&mut real, THERE, &high);
    assert_eq!(lengths(&real, &peer), LENGTHS);
    // The least that an open pair's frames are shortened to.
    let (nonce, _) = ask(&mut real, Largest::from(0));
    hear_by_other(&mut real, THERE, &contact(&peer, Kind::HelloReply, (nonce, 9), 0.into()));
    assert_eq!(lengths(&real, &peer), [LENGTHS[0], SHORTENED_LEAST]);
}

/// A host that names a link that there is not changes nothing.
#[test]
fn a_link_that_there_is_not_has_no_limit() {
    let mut real = two_links();
    let peer = met(&mut real, Largest::new(1_450, 9_000));
    for link in [LinkIndex(2), LinkIndex(u8::MAX)] {
        assert!(!real.firmware.limit_frame_bytes(real.now, link, 500));
        assert!(!real.firmware.raise_frame_bytes(real.now, link, 5_000));
    }
    assert_eq!(lengths(&real, &peer), [9_000]);
    assert!(real.firmware.limit_frame_bytes(real.now, FIRST, 4_000));
    assert_eq!(lengths(&real, &peer), [4_000]);
}
