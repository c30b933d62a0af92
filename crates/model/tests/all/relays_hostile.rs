//! What relays are sent that they must not send on: each is dropped, and counted for its reason.

use emp_firmware::{Counter, LinkIndex, Profile, Span};
use emp_model::{Prng, Wiring, World, WorldSetup};
use emp_wire::{
    Checksum, Epoch, Flags, HEAD_BYTES_MAX, HEADER_BYTES, Header, Hello, Kind, LinkAddress, NodeId,
    RELAY_HEAD_BYTES, RelayHead, RelayHop, RelayUse, Sequence, TAG_EVERYONE, store_checksum,
};

use crate::support::cabled::{HOPS, arrive, cabled, say};
use crate::support::count;

/// A line of three, whose middle relays; the first cable's first end is ours. Beside it a node with nothing in its only link, whose name
/// a stranger uses.
fn line() -> World {
    line_of(true)
}

fn line_of(relays: bool) -> World {
    let mut wiring = Wiring::line(3);
    wiring.links.push(1);
    cabled(wiring.relayed_by(HOPS, |_| relays), &Profile::DEFAULT)
}

/// Who that is.
fn stranger() -> NodeId {
    NodeId::from_name("node-3")
}

/// Hands a frame to a node as if it had come by that link from that address.
fn deliver(line: &mut World, node: usize, link: u8, from: LinkAddress, frame: &[u8]) {
    line.poke(node, |firmware, memory, now| {
        firmware.handle_frame(now, LinkIndex(link), from, frame, memory);
    });
    line.pass(Span(1));
    assert_eq!(line.violation(), None);
}

fn frames(line: &World) -> u64 {
    line.network().totals().sent
}

fn at(line: &World, node: usize, link: usize) -> LinkAddress {
    line.network().link_address(node, link)
}

/// A hello with its checksum.
fn hello(from: NodeId, target: NodeId, nonce: u64) -> Vec<u8> {
    let mut body = [0; HEAD_BYTES_MAX];
    let length = Hello::new(from, target, nonce, 1_500, "x").emit(&mut body);
    let header = Header {
        kind: Kind::Hello,
        flags: Flags::default(),
        length: length as u16,
        destination_tag: target.destination_tag(),
        destination_epoch: 0,
        source_tag: from.source_tag(),
        source_epoch: Epoch(5),
        sequence: Sequence(0),
        acknowledge: Sequence(0),
        word: 0,
    };
    let mut head = [0; HEADER_BYTES];
    header.emit(&mut head);
    let mut frame = [&head[..], &body[..length]].concat();
    let sum = Checksum::of(&frame);
    store_checksum(&mut frame, sum);
    frame
}

fn relayed(head: RelayHead, hops: &[RelayHop], carried: &[u8]) -> Vec<u8> {
    let list: Vec<u8> = hops.iter().flat_map(|hop| hop.emit().expect("a hop")).collect();
    let (length, hops) = ((list.len() + carried.len()) as u16, hops.len() as u8);
    let mut start = [0; RELAY_HEAD_BYTES];
    RelayHead { length, hops, ..head }.emit(&mut start);
    [&start[..], &list, carried].concat()
}

/// A search of a stranger's for a node that nobody is.
fn search(nonce: u64, place: u8, hops: &[RelayHop]) -> Vec<u8> {
    let nobody = NodeId(0x1234);
    let head = RelayHead {
        usage: RelayUse::Search,
        length: 0,
        destination_tag: nobody.destination_tag(),
        source_tag: 9,
        place,
        hops: 0,
        smallest: 1_500,
    };
    relayed(head, hops, &hello(stranger(), nobody, nonce))
}

/// Checks that a frame that comes to the relay is dropped for one reason, and that nothing leaves for it.
fn dropped(line: &mut World, frame: &[u8], reason: Counter, what: &str) {
    let from = at(line, 0, 0);
    let (before, sent) = (count(line, 1, reason), frames(line));
    deliver(line, 1, 0, from, frame);
    assert_eq!(count(line, 1, reason), before + 1, "{what}: {:?}", line.firmware(1).counters());
    assert_eq!(frames(line), sent, "{what}: something left");
}

/// `RELAY-6`: a list that is too long, a place beyond its end, a next hop that is a stranger's or the relay itself, or back where it came from.
#[test]
fn lists_that_lead_nowhere_are_dropped() {
    let mut line = line();
    let relay = line.id(1).destination_tag();
    let head = RelayHead {
        usage: RelayUse::Forward,
        length: 0,
        destination_tag: relay,
        source_tag: 9,
        place: 0,
        hops: 0,
        smallest: 1_500,
    };
    let carried = hello(stranger(), line.id(2), 1);
    let there = at(&line, 2, 0);
    let hop = |link: u8, address: LinkAddress| RelayHop { tag: 7, link, address };
    let good = relayed(head, &[hop(1, there)], &carried);
    let sent = frames(&line);
    let from = at(&line, 0, 0);
    deliver(&mut line, 1, 0, from, &good);
    assert_eq!(frames(&line), sent + 1, "that one goes on");

    let changed = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        frame
    };
    dropped(&mut line, &changed(9, 8), Counter::DropHopList, "eight hops");
    dropped(&mut line, &changed(8, 2), Counter::DropHopList, "a place beyond the end");
    dropped(&mut line, &changed(15, 77), Counter::DropHopList, "no family");
    dropped(&mut line, &changed(1, 9), Counter::DropHopList, "no use");
    dropped(&mut line, &changed(4, 1), Counter::DropWrongNode, "another's tag");
    dropped(&mut line, &good[..good.len() - 1], Counter::DropLength, "cut");
    dropped(&mut line, &good[..11], Counter::DropTooShort, "shorter than its head");
    let mut to = |hop: RelayHop, reason, what| {
        dropped(&mut line, &relayed(head, &[hop], &carried), reason, what);
    };
    to(hop(2, there), Counter::DropHopStranger, "a link that is not there");
    to(hop(255, there), Counter::DropHopStranger, "nor is this");
    to(hop(1, LinkAddress::mac([2; 6])), Counter::DropHopStranger, "an address of another kind");
    to(RelayHop { tag: TAG_EVERYONE, ..hop(1, there) }, Counter::DropHopStranger, "everyone");
    to(hop(0, from), Counter::DropHopSelf, "back where it came from");
    let own = at(&line, 1, 1);
    dropped(&mut line, &relayed(head, &[hop(1, own)], &carried), Counter::DropHopSelf, "itself");
    let long = relayed(head, &[hop(1, there)], &[carried.clone(), vec![0; 1_600]].concat());
    dropped(&mut line, &long, Counter::DropHopTooLong, "longer than the next link takes");
    // One that has arrived may not carry another list.
    let nested = relayed(head, &[], &good);
    dropped(&mut line, &nested, Counter::DropHopList, "a list in a list");
    let mut off = line_of(false);
    dropped(&mut off, &good, Counter::DropRelayOff, "it does not relay");
    // From an address that no hop can have, and at a node whose links are none by which lists of hops come.
    let socket = LinkAddress::udp("[fd00::1]:7".parse().unwrap());
    deliver(&mut line, 1, 0, socket, &good);
    assert_eq!(count(&line, 1, Counter::DropRelayLink), 1);
    let mut plain = World::new(WorldSetup::lan(3, &Profile::DEFAULT));
    dropped(&mut plain, &good, Counter::DropRelayLink, "no link for relays");
}

/// `RELAY-6`: more than there is room for is dropped and counted, and nothing of it is left when the rest has gone on.
#[test]
fn a_flood_to_be_sent_on_is_dropped_beyond_its_bound() {
    const FRAMES: u64 = 5_000;
    let mut line = line();
    let head = RelayHead {
        usage: RelayUse::Forward,
        length: 0,
        destination_tag: line.id(1).destination_tag(),
        source_tag: 9,
        place: 0,
        hops: 0,
        smallest: 1_500,
    };
    let hop = RelayHop { tag: 7, link: 1, address: at(&line, 2, 0) };
    let good = relayed(head, &[hop], &hello(stranger(), line.id(2), 1));
    let (from, before) = (at(&line, 0, 0), count(&line, 1, Counter::Relayed));
    line.poke(1, |firmware, memory, now| {
        for _ in 0..FRAMES {
            firmware.handle_frame(now, LinkIndex(0), from, &good, memory);
        }
        let held = firmware.holdings();
        assert!(held.iter().all(|holding| holding.held <= holding.limit), "{held:?}");
    });
    line.pass(Span::ms(10));
    let held = line.firmware(1).holdings();
    let waiting = held.iter().find(|holding| holding.name == "frames in transit").unwrap();
    assert_eq!(waiting.held, 0);
    // What was lost is not among what was sent on, of its neighbour's neither.
    let room = waiting.limit as u64;
    assert_eq!(count(&line, 1, Counter::Relayed) - before, room);
    assert_eq!(count(&line, 1, Counter::DropRelayFull), FRAMES - room);
    let of = line.firmware(1).relay_neighbours().iter().find(|of| of.address == from).copied();
    let of = of.expect("it is counted");
    assert_eq!((of.frames, of.dropped()), (room, FRAMES - room));
    assert!(of.reasons().eq([(Counter::DropRelayFull, FRAMES - room)]));
    assert_eq!(line.violation(), None);
}

/// `RELAY-7`: a search that comes back, again, too far, damaged, or too often.
#[test]
fn searches_are_repeated_once_and_within_bounds() {
    let mut line = line();
    let from = at(&line, 0, 0);
    let sent = frames(&line);
    deliver(&mut line, 1, 0, from, &search(1, 7, &[]));
    assert_eq!((frames(&line), count(&line, 1, Counter::SearchesRelayed)), (sent + 1, 1));
    dropped(&mut line, &search(1, 7, &[]), Counter::DropSearchAgain, "again");
    dropped(&mut line, &search(1, 6, &[]), Counter::DropSearchAgain, "again, by another way");
    dropped(&mut line, &search(2, 0, &[]), Counter::DropSearchLimit, "no further");
    dropped(&mut line, &search(2, 8, &[]), Counter::DropHopList, "more than the limit");
    let mut damaged = search(3, 7, &[]);
    *damaged.last_mut().unwrap() ^= 1;
    dropped(&mut line, &damaged, Counter::DropChecksum, "damaged");
    let own = hello(line.id(1), NodeId(0x1234), 9);
    let mut back = search(4, 7, &[]);
    back.truncate(RELAY_HEAD_BYTES);
    back.extend(&own);
    back[2..4].copy_from_slice(&(own.len() as u16).to_be_bytes());
    dropped(&mut line, &back, Counter::DropSearchBack, "its own");
    // A flood of one neighbour's is cut, and another's search is repeated all the same.
    for nonce in 100..5_000 {
        deliver(&mut line, 1, 0, from, &search(nonce, 7, &[]));
    }
    assert!(count(&line, 1, Counter::DropSearchFlood) > 4_000);
    assert!(count(&line, 1, Counter::SearchesRelayed) < 600);
    let others = at(&line, 2, 0);
    let before = count(&line, 1, Counter::SearchesRelayed);
    deliver(&mut line, 1, 1, others, &search(7_777, 7, &[]));
    assert_eq!(count(&line, 1, Counter::SearchesRelayed), before + 1);
    let held = line.firmware(1).holdings();
    assert!(held.iter().all(|holding| holding.held <= holding.limit), "{held:?}");
}

/// What says that frames were cut off is believed only of frames that were sent so (`RELAY-9`); a target answers few of the copies of one
/// search (`RELAY-8`), and a stranger's lists of hops take no more room than there is.
#[test]
fn a_stranger_makes_no_path_fail_and_nothing_grow() {
    let mut line = line();
    let message = say(&mut line, 0, 2, 1_000);
    arrive(&mut line, Span::ms(5_000), &[message]);
    let relay = at(&line, 1, 0);
    let head = RelayHead {
        usage: RelayUse::CutOff,
        length: 0,
        destination_tag: line.id(0).destination_tag(),
        source_tag: line.id(1).destination_tag(),
        place: 0,
        hops: 0,
        smallest: 1_500,
    };
    for carried in [hello(stranger(), line.id(2), 1), hello(line.id(0), line.id(2), 1)] {
        let before = count(&line, 0, Counter::DropCutOff);
        deliver(&mut line, 0, 0, relay, &relayed(head, &[], &carried));
        assert_eq!(count(&line, 0, Counter::DropCutOff), before + 1);
    }
    assert_eq!(count(&line, 0, Counter::CutOffsHeard), 0);

    // Ten thousand ways to one node, all of them made up.
    let target = line.id(2);
    let from = at(&line, 1, 1);
    let answered = frames(&line);
    for number in 0..10_000_u32 {
        let hop =
            |n: u32| RelayHop { tag: 3, link: 0, address: LinkAddress::index(number ^ n << 20) };
        let search =
            RelayHead { usage: RelayUse::Search, destination_tag: TAG_EVERYONE, place: 3, ..head };
        let nonce = 7 + u64::from(number / 100);
        let frame = relayed(search, &[hop(1), hop(2)], &hello(stranger(), target, nonce));
        deliver(&mut line, 2, 0, from, &frame);
    }
    // The relay sends each on, once, to nobody.
    assert!(frames(&line) - answered <= 2 * 4 * 100, "four answers to each of a hundred searches");
    assert!(count(&line, 2, Counter::DropSearchAgain) >= 9_600);
    let held = line.firmware(2).holdings();
    assert!(held.iter().all(|holding| holding.held <= holding.limit), "{held:?}");
    // The pair goes on.
    let next = say(&mut line, 2, 0, 100_000);
    arrive(&mut line, Span::ms(5_000), &[next]);
}

/// Any bytes behind a relay's first byte: a reason, and no panic; traffic goes on.
#[test]
fn random_bytes_behind_a_relays_head_do_no_harm() {
    let mut line = line();
    let mut prng = Prng::new(11);
    let relay = line.id(1).destination_tag().to_be_bytes();
    let from = at(&line, 0, 0);
    for round in 0..20_000 {
        let mut frame: Vec<u8> = (0..prng.below(160)).map(|_| prng.bits() as u8).collect();
        frame.insert(0, 0x30);
        let length = (frame.len() as u16).saturating_sub(12);
        for (at, byte) in [(1, (prng.below(4)) as u8), (4, relay[0]), (5, relay[1])] {
            if let Some(place) = frame.get_mut(at) {
                *place = byte;
            }
        }
        if round % 4 != 0 && frame.len() > 12 {
            frame[2..4].copy_from_slice(&length.to_be_bytes());
            (frame[8], frame[9]) = (prng.below(9) as u8, prng.below(9) as u8);
            if frame[1] == 1 {
                (frame[4], frame[5]) = (0xFF, 0xFF);
            }
        }
        deliver(&mut line, 1, (round % 2) as u8, from, &frame);
    }
    let next = say(&mut line, 0, 2, 100_000);
    arrive(&mut line, Span::ms(5_000), &[next]);
}
