//! What opens a path beside the first, and what has a peer asked whether it moved on it (`PATH-2`, `PATH-8`).

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{
    Epoch, Flags, HELLO_BODY_BYTES_MAX, Hello, Kind, LinkAddress, begin_checksum, store_checksum,
};

const NONE: Flags = Flags(0);
const OTHER: LinkIndex = LinkIndex(1);

/// A node with two links by which the same nodes are reached, of which long trains take the second, and a peer that it knows by the first.
fn acquainted() -> (Real, Forged) {
    let mut links = vec![LinkInfo::new(MTU, false); 2];
    for (link, cost) in links.iter_mut().zip(LinkCost::divided(5, 5)) {
        link.cost = Some(cost);
    }
    links[0].set_beside(OTHER, LinkAddress::index(1));
    links[1].set_beside(LinkIndex(0), LinkAddress::index(0));
    let mut real = Real::over(&Profile::DEFAULT, links);
    let peer = Forged::met(2, &mut real);
    (real, peer)
}

/// Where the peer is on the other link.
const THERE: LinkAddress = LinkAddress::index(70);

fn reply(from: &Forged, nonce: u64, told: Option<LinkAddress>) -> Vec<u8> {
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let hello = Hello::new(from.node, OWN, nonce, MTU as u16, "");
    let bytes = hello.with_addresses(told.into_iter()).emit(&mut body);
    from.frame(Kind::HelloReply, NONE, 0, 0, &body[..bytes])
}

fn hear_by_other(real: &mut Real, from: LinkAddress, frame: &[u8]) {
    real.firmware.handle_frame(real.now, OTHER, from, frame, &mut real.memory);
}

/// Nonces of the hellos that it sends to an address now.
fn asks(real: &mut Real, to: LinkAddress) -> Vec<u64> {
    let said = of_kind(&real.speak(), Kind::Hello);
    let to = said.iter().filter(|said| said.to == to);
    to.map(|said| Hello::parse(&said.body).unwrap().nonce).collect()
}

/// The nonce with which a path is asked for by the first, once a long train would take it.
fn wants_a_path(real: &mut Real, peer: &Forged) -> u64 {
    real.send(peer, 60_000);
    real.speak();
    let asked = asks(real, peer.address());
    real.send(peer, 10);
    assert!(asked.len() <= 1);
    asked.first().copied().unwrap_or_else(|| {
        let said = of_kind(&real.pass(Span::ms(3)), Kind::Hello);
        let first = said.iter().find(|said| said.to == peer.address()).expect("it asks");
        Hello::parse(&first.body).unwrap().nonce
    })
}

#[test]
fn an_answer_by_the_first_path_only_tells_where_to_ask() {
    let (mut real, peer) = acquainted();
    let nonce = wants_a_path(&mut real, &peer);
    real.hear(&peer, &reply(&peer, nonce, Some(THERE)));
    assert_eq!(real.firmware.paths(peer.node).len(), 1, "nothing has come by the other link");
    assert_eq!(asks(&mut real, THERE), [nonce]);
    hear_by_other(&mut real, THERE, &reply(&peer, nonce, None));
    let paths = real.firmware.paths(peer.node);
    assert_eq!(paths.iter().map(|path| path.address).collect::<Vec<_>>(), [peer.address(), THERE]);
    assert_eq!(real.count(Counter::PathsFound), 1);
}

#[test]
fn an_answer_of_another_epoch_opens_no_path() {
    let (mut real, peer) = acquainted();
    let nonce = wants_a_path(&mut real, &peer);
    let earlier = Forged { epoch: Epoch::new(0x0008_0002), ..Forged::new(2) };
    hear_by_other(&mut real, THERE, &reply(&earlier, nonce, None));
    assert_eq!(real.firmware.paths(peer.node).len(), 1);
    // To an earlier epoch of this node: the destination's check is at bytes 6 and 7.
    let mut frame = reply(&peer, nonce, None);
    frame[6] ^= 0x40;
    let sum = begin_checksum(&mut frame, emp_wire::Seed::CONTACT);
    store_checksum(&mut frame, sum);
    hear_by_other(&mut real, THERE, &frame);
    assert_eq!(real.firmware.paths(peer.node).len(), 1);
    assert_eq!(real.count(Counter::DropBadReply), 2);
    hear_by_other(&mut real, THERE, &reply(&peer, nonce, None));
    assert_eq!(real.firmware.paths(peer.node).len(), 2);
}

/// A peer that was given up is looked for wherever it was met, also by links on which nobody can ask everyone (`HELLO-3`).
#[test]
fn a_lost_peer_is_looked_for_by_each_link_that_it_was_met_by() {
    let (mut real, peer) = acquainted();
    let nonce = wants_a_path(&mut real, &peer);
    hear_by_other(&mut real, THERE, &reply(&peer, nonce, None));
    assert_eq!(real.firmware.paths(peer.node).len(), 2);
    while real.count(Counter::PeersLost) == 0 {
        real.pass(Span::ms(500));
        assert!(real.now < Time(600_000_000_000), "it is given up");
    }
    real.speak();
    real.send(&peer, 10);
    let said = of_kind(&real.pass(Span::ms(50)), Kind::Hello);
    for place in [peer.address(), THERE] {
        assert!(said.iter().any(|hello| hello.to == place), "nothing to {place}: {}", said.len());
    }
}

/// A link that nothing can cross any more has no paths, from then on; where there is no other, it is left as it is (`PATH-5`).
#[test]
fn paths_of_a_link_without_a_carrier_have_failed() {
    let (mut real, peer) = acquainted();
    let links = |real: &Real| {
        let paths = real.firmware.paths(peer.node);
        paths.iter().map(|path| path.link.0).collect::<Vec<_>>()
    };
    real.firmware.set_carrier(real.now, LinkIndex(0), false);
    assert_eq!(
        (links(&real), real.count(Counter::PathsFailed)),
        (vec![0], 0),
        "it is the only one"
    );
    real.firmware.set_carrier(real.now, LinkIndex(0), true);
    let nonce = wants_a_path(&mut real, &peer);
    hear_by_other(&mut real, THERE, &reply(&peer, nonce, None));
    assert_eq!(links(&real), [0, 1]);
    real.firmware.set_carrier(real.now, OTHER, false);
    assert_eq!((links(&real), real.count(Counter::PathsFailed)), (vec![0], 1));
    real.firmware.set_carrier(real.now, OTHER, false);
    assert_eq!(real.count(Counter::PathsFailed), 1, "told once");
}

/// Frames from elsewhere have the peer asked there only if nothing came for 50 ms from where the path leads.
#[test]
fn a_peer_that_is_heard_on_its_path_is_not_asked_elsewhere() {
    let (mut real, mut peer) = acquainted();
    let nonce = wants_a_path(&mut real, &peer);
    hear_by_other(&mut real, THERE, &reply(&peer, nonce, None));
    let elsewhere = LinkAddress::index(71);
    let mut say = |real: &mut Real, from: LinkAddress| {
        let frame = peer.message(Flags::VOID, None, 0, &[]);
        hear_by_other(real, from, &frame);
    };
    for _ in 0..5 {
        say(&mut real, THERE);
        real.now = real.now + Span::ms(30);
        say(&mut real, elsewhere);
        assert_eq!(asks(&mut real, elsewhere), []);
        real.now = real.now + Span::ms(15);
    }
    real.now = real.now + Span::ms(10);
    say(&mut real, elsewhere);
    assert_eq!(asks(&mut real, elsewhere).len(), 1, "55 ms without a frame from there");
}

/// Two hellos find out whether a length gets through, a long one and a short one (`LIMIT-3`): which of them is answered, with how many
/// bytes of the long one. Gives back how often they left.
fn doubts(answer: impl Fn(usize) -> (bool, Option<u32>)) -> (u64, usize) {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    real.send(&peer, 1_400);
    let mut pairs = 0;
    let mut long = None;
    for _ in 0..400 {
        for hello in of_kind(&real.pass(Span::ms(1)), Kind::Hello) {
            let nonce = Hello::parse(&hello.body).unwrap().nonce;
            let arrived = 32 + hello.body.len() as u32;
            let say = |real: &mut Real, nonce: u64, arrived: u32| {
                let mut body = [0; HELLO_BODY_BYTES_MAX];
                let bytes = Hello::new(peer.node, OWN, nonce, MTU as u16, "").emit(&mut body);
                let frame = peer.frame(Kind::HelloReply, NONE, 0, arrived, &body[..bytes]);
                real.hear(&peer, &frame);
            };
            if arrived > 300 {
                long = Some(nonce);
            } else if let Some(long) = long.take() {
                let (short, bytes) = answer(pairs);
                pairs += 1;
                if let Some(bytes) = bytes {
                    say(&mut real, long, bytes);
                }
                if short {
                    say(&mut real, nonce, arrived);
                }
            }
        }
        if real.count(Counter::PathsLimited) > 0 {
            break;
        }
    }
    (real.count(Counter::PathsLimited), pairs)
}

#[test]
fn a_length_is_lost_if_three_answers_say_so() {
    let most = MTU as u32;
    assert_eq!(doubts(|pair| (true, (pair % 3 == 2).then_some(most))).0, 0, "the third was there");
    assert_eq!(doubts(|_| (true, Some(most))).0, 0);
    assert_eq!(doubts(|_| (false, None)).0, 0, "that is silence");
    assert_eq!(doubts(|_| (true, None)).0, 1);
    assert_eq!(doubts(|_| (true, Some(most - 1))).0, 1, "what arrived was cut");
}

/// Each run of the timer repairs what is missing first, as the answer tells the rest; after some that brought no answer all of it is
/// taken for lost, and as much is sent again as a window takes that time-outs have shrunk (`WINDOW-3`).
#[test]
fn after_some_runs_without_an_answer_all_is_lost() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    real.send(&peer, 14_000);
    let frames = real.speak().iter().filter(|said| said.kind().sequenced()).count();
    assert!(frames >= 10, "{frames}");
    let mut runs = std::collections::BTreeMap::<u64, usize>::new();
    for said in real.pass(Span::ms(2_000)).iter().filter(|said| said.kind().sequenced()) {
        *runs.entry(said.at.0).or_default() += 1;
    }
    let runs: Vec<usize> = runs.into_values().collect();
    assert!(runs[..4].iter().all(|sent| *sent == 1), "{runs:?}");
    // All that is in the window, which each run halves down to two frames.
    assert!(runs[4] <= frames + 1, "{runs:?}");
    let halves = |pair: &[usize]| (2..=pair[0].div_ceil(2).max(2)).contains(&pair[1]);
    assert!(runs[4..].windows(2).all(halves), "{runs:?}");
    assert_eq!(runs[8..].iter().max(), Some(&2), "{runs:?}");
}

/// A node that closes is nobody's to find.
#[test]
fn who_closes_answers_no_hello() {
    let mut real = Real::new(&Profile::DEFAULT);
    let stranger = Forged::new(9);
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let bytes = Hello::new(stranger.node, OWN, 5, MTU as u16, "").emit(&mut body);
    let hello = stranger.frame(Kind::Hello, NONE, 0, 0, &body[..bytes]);
    real.hear(&stranger, &hello);
    assert_eq!(of_kind(&real.speak(), Kind::HelloReply).len(), 1);
    real.firmware.close(real.now);
    real.hear(&stranger, &hello);
    assert_eq!(of_kind(&real.speak(), Kind::HelloReply).len(), 0);
    assert_eq!(real.count(Counter::DropHello), 1);
}

/// Where a single frame costs less by another link over the first one's interface, as by datagrams beside a service's frames, acknowledgements take
/// that; but the path of what came twice, until something new comes by theirs (`PATH-5`).
#[test]
fn acknowledgements_take_the_cheaper_link_of_an_interface() {
    let mut links = vec![LinkInfo::new(MTU, false); 2];
    let [dear, cheap] =
        [9_000, 2_000].map(|first_ns| LinkCost { first_ns, ..LinkCost::divided(5, 5)[0] });
    (links[0].cost, links[1].cost) = (Some(dear), Some(cheap));
    links[0].set_beside(OTHER, LinkAddress::index(1));
    links[1].set_beside(LinkIndex(0), LinkAddress::index(0));
    let mut real = Real::over(&Profile::DEFAULT, links);
    let mut peer = Forged::met(2, &mut real);
    let nonce = wants_a_path(&mut real, &peer);
    hear_by_other(&mut real, THERE, &reply(&peer, nonce, None));
    assert_eq!(real.firmware.paths(peer.node).len(), 2);
    real.pass(Span::ms(10));
    let acks = |real: &mut Real| {
        let said = of_kind(&real.pass(Span::ms(10)), Kind::Ack);
        said.iter().map(|said| said.to).collect::<Vec<_>>()
    };
    let frame = peer.next(Kind::Data, Flags::ACK_REQUEST, 1, b"x");
    hear_by_other(&mut real, THERE, &frame);
    assert_eq!(acks(&mut real), [THERE]);
    real.hear(&peer, &frame);
    assert_eq!(acks(&mut real), [peer.address()], "by the other it may not have arrived");
    let next = peer.next(Kind::Data, Flags::ACK_REQUEST, 1, b"x");
    real.hear(&peer, &next);
    assert_eq!(acks(&mut real), [peer.address()], "nothing has come by the other");
    let next = peer.next(Kind::Data, Flags::ACK_REQUEST, 1, b"x");
    hear_by_other(&mut real, THERE, &next);
    assert_eq!(acks(&mut real), [THERE]);
}

/// A path has failed if others bring answers meanwhile: a peer that is silent on all has other trouble (`PATH-5`).
#[test]
fn a_silent_peer_fails_no_path() {
    let (mut real, peer) = acquainted();
    let nonce = wants_a_path(&mut real, &peer);
    hear_by_other(&mut real, THERE, &reply(&peer, nonce, None));
    real.send(&peer, 10);
    real.pass(Span::ms(1_500));
    assert!(real.count(Counter::Timeouts) > 3);
    assert_eq!(real.count(Counter::PathsFailed), 0);
    assert_eq!(real.firmware.paths(peer.node).len(), 2);
}

/// Nobody is looked for any more once nothing is to be sent to it.
#[test]
fn a_search_that_nobody_wants_ends() {
    let mut real = Real::new(&Profile::DEFAULT);
    let op = real.send(&Forged::new(9), 10);
    assert!(!of_kind(&real.pass(Span::ms(100)), Kind::Hello).is_empty());
    assert!(real.firmware.cancel(real.now, op));
    real.pass(Span::ms(200));
    assert!(of_kind(&real.pass(Span::ms(3_000)), Kind::Hello).is_empty());
    assert_eq!(real.count(Counter::PeersLost), 0);
    assert_eq!(real.firmware.poll_timeout(), None);
}

/// Where a node is said to be it most likely is: everyone is asked only if no answer comes from there (`HELLO-3`).
#[test]
fn who_is_hinted_at_is_asked_there_first() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::new(9);
    real.firmware.hint(peer.node, LinkIndex(0), peer.address());
    real.send(&peer, 10);
    let to = |said: Vec<Said>| said.iter().map(|said| said.to).collect::<Vec<_>>();
    assert_eq!(to(real.pass(Span::us(500))), [peer.address()]);
    assert!(to(real.pass(Span::ms(10))).contains(&LinkAddress::EVERYONE));
}

/// Somebody unknown spoke, and answers who it is: not to an earlier incarnation of this node.
#[test]
fn a_strangers_answer_to_an_earlier_epoch_is_not_believed() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut stranger = Forged::new(9);
    let frame = stranger.next(Kind::Data, NONE, 1, b"x");
    real.hear(&stranger, &frame);
    let nonce = asks(&mut real, stranger.address())[0];
    let mut old = reply(&stranger, nonce, None);
    old[6] ^= 0x40;
    let sum = begin_checksum(&mut old, emp_wire::Seed::CONTACT);
    store_checksum(&mut old, sum);
    real.hear(&stranger, &old);
    assert_eq!(real.firmware.peers(), 0);
    real.hear(&stranger, &reply(&stranger, nonce, None));
    assert_eq!(real.firmware.peers(), 1);
}

/// Whoever is met by the worse of two links that stand beside each other is looked for by the better one: at the address that it has on
/// it, once it tells. A link that reaches not everyone at once is not asked for everyone.
#[test]
fn everyone_is_asked_only_where_a_link_reaches_everyone() {
    for broadcast in [false, true] {
        let mut links = vec![LinkInfo::new(MTU, broadcast); 2];
        links[0].set_beside(OTHER, LinkAddress::index(1));
        links[1].set_beside(LinkIndex(0), LinkAddress::index(0));
        let mut real = Real::over(&Profile::DEFAULT, links);
        let mut peer = Forged::new(2);
        let frame = peer.message(Flags::VOID, None, 0, &[]);
        hear_by_other(&mut real, THERE, &frame);
        real.pass(Span::us(100));
        let mut everyone = 0;
        for _ in 0..5 {
            real.send(&peer, 10);
            let said = real.pass(Span::ms(2));
            let next = said.iter().map(|said| said.header.sequence.0 + 1).max().unwrap_or(0);
            everyone += said.iter().filter(|said| said.to == LinkAddress::EVERYONE).count();
            hear_by_other(&mut real, THERE, &peer.ack(next, next - 1, 0));
        }
        assert_eq!(everyone > 0, broadcast, "{everyone} hellos to everyone");
    }
}

/// While neither of the two hellos of a search for a length is answered the peer is silent, which is another matter: they leave ever more
/// seldom, and end long before the peer is given up (`LIMIT-3`).
#[test]
fn lengths_are_asked_ever_more_seldom_of_who_is_silent() {
    let mut real = Real::new(&Profile::DEFAULT);
    let peer = Forged::met(2, &mut real);
    real.send(&peer, 1_400);
    let said = real.pass(Span::ms(9_000));
    assert_eq!(real.count(Counter::PeersLost), 0, "it is not given up yet");
    let long = said.iter().filter(|said| said.kind() == Kind::Hello && said.body.len() > 300);
    let at: Vec<u64> = long.map(|said| said.at.0).collect();
    let gaps: Vec<u64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.len() >= 5, "{gaps:?}");
    // Each wait is twice the one before. Six in 1.3 s, and a run of the timer begins another search.
    assert!(gaps[..5].windows(2).all(|pair| pair[1] >= 2 * pair[0] - 10_000_000), "{gaps:?}");
    assert!(at.len() <= 48, "{} in 9 s", at.len());
}

/// Frames by several paths come in another order than they left: a profile that does not acknowledge them one by one has one path (`PATH-7`).
#[test]
fn a_profile_without_selective_acknowledgements_has_one_path() {
    for (profile, several) in [(Profile::DEFAULT, true), (Profile::EMP2001, false)] {
        let mut links = vec![LinkInfo::new(MTU, false); 2];
        for (link, cost) in links.iter_mut().zip(LinkCost::divided(5, 5)) {
            link.cost = Some(cost);
        }
        links[0].set_beside(OTHER, LinkAddress::index(1));
        links[1].set_beside(LinkIndex(0), LinkAddress::index(0));
        let mut real = Real::over(&profile, links);
        let peer = Forged::met(2, &mut real);
        real.send(&peer, 60_000);
        real.send(&peer, 60_000);
        let asked = of_kind(&real.pass(Span::ms(3)), Kind::Hello);
        assert_eq!(!asked.is_empty(), several, "{}", asked.len());
    }
}

/// Two links that stand beside each other are no better than a third that stands alone, which leads elsewhere.
#[test]
fn a_link_that_stands_alone_has_no_better_one() {
    let mut links = vec![LinkInfo::new(MTU, true); 3];
    links[0].set_beside(OTHER, LinkAddress::index(1));
    links[1].set_beside(LinkIndex(0), LinkAddress::index(0));
    let mut real = Real::over(&Profile::DEFAULT, links);
    let mut peer = Forged::new(2);
    let hear = |real: &mut Real, frame: &[u8]| {
        real.firmware.handle_frame(real.now, LinkIndex(2), THERE, frame, &mut real.memory);
    };
    let frame = peer.message(Flags::VOID, None, 0, &[]);
    hear(&mut real, &frame);
    real.pass(Span::us(100));
    for _ in 0..5 {
        real.send(&peer, 10);
        let said = real.pass(Span::ms(2));
        assert!(said.iter().all(|said| said.kind() != Kind::Hello), "{:?}", kinds(&said));
        let last = said.iter().map(|said| said.header.sequence.0).max().expect("it leaves");
        hear(&mut real, &peer.ack(last + 1, last, 0));
    }
}

/// Once a path is found nobody looks for it any more, whatever takes it.
#[test]
fn a_path_that_is_there_is_not_looked_for() {
    let (mut real, mut peer) = acquainted();
    let nonce = wants_a_path(&mut real, &peer);
    hear_by_other(&mut real, THERE, &reply(&peer, nonce, None));
    assert_eq!(real.firmware.paths(peer.node).len(), 2);
    let mut next = 0;
    for _ in 0..300 {
        real.send(&peer, 60_000);
        let said = real.pass(Span::us(500));
        assert!(said.iter().all(|said| said.kind() != Kind::Hello), "{:?}", kinds(&said));
        let ends = said.iter().filter(|said| said.kind().sequenced());
        next = ends.map(|said| said.header.sequence.0 + 1).max().unwrap_or(next);
        let ack = peer.ack(next, next.wrapping_sub(1), 0);
        real.hear(&peer, &ack);
        let frame = peer.message(Flags::VOID, None, 0, &[]);
        hear_by_other(&mut real, THERE, &frame);
        real.now = real.now + Span::ms(10);
    }
}

/// A socket may reach another cable's address, by the kernel's ways: where the peer is met by it is the address that is beside its own (`PATH-14`).
#[test]
fn a_peer_is_met_where_the_socket_s_own_cable_leads() {
    let udp = |ip: &str| LinkAddress::udp(format!("{ip}:51966").parse().unwrap());
    let own = [udp("10.77.0.1"), udp("10.78.0.1")];
    let theirs = [udp("10.77.0.2"), udp("10.78.0.2")];
    let node = || {
        let mut links = vec![LinkInfo::new(MTU, true); 2];
        links[0].set_beside(OTHER, own[1]);
        links[1].set_beside(LinkIndex(0), own[0]);
        Real::over(&Profile::DEFAULT, links)
    };
    let peer = Forged::new(2);
    let nonce = |said: &[Said]| {
        Hello::parse(&of_kind(said, Kind::Hello).last().expect("it asks").body).unwrap().nonce
    };
    let mut real = node();
    real.send(&peer, 100);
    let asked = nonce(&real.pass(Span::us(1)));
    hear_by_other(&mut real, theirs[0], &reply(&peer, asked, Some(theirs[1])));
    assert_eq!(real.firmware.route(peer.node), None);
    assert_eq!(asks(&mut real, theirs[1]), [asked]);
    hear_by_other(&mut real, theirs[1], &reply(&peer, asked, Some(theirs[0])));
    assert_eq!(real.firmware.route(peer.node), Some((OTHER, theirs[1])));
    // Nobody answers there: it is met where it does.
    let mut real = node();
    real.send(&peer, 100);
    let asked = nonce(&real.pass(Span::ms(20)));
    hear_by_other(&mut real, theirs[0], &reply(&peer, asked, Some(theirs[1])));
    assert_eq!(real.firmware.route(peer.node), Some((OTHER, theirs[0])));
    // The first's own, and who tells no address that is nearer, are believed at once.
    let mut real = node();
    real.send(&peer, 100);
    let asked = nonce(&real.pass(Span::us(1)));
    real.firmware.handle_frame(
        real.now,
        LinkIndex(0),
        theirs[0],
        &reply(&peer, asked, Some(theirs[1])),
        &mut real.memory,
    );
    assert_eq!(real.firmware.route(peer.node), Some((LinkIndex(0), theirs[0])));
    // By then the other socket's answer is late: it is no path, and tells where to look for one.
    let taken = asks(&mut real, theirs[1]);
    hear_by_other(&mut real, theirs[0], &reply(&peer, asked, Some(theirs[1])));
    let sought = asks(&mut real, theirs[1]);
    assert_eq!((taken.len(), sought.len()), (0, 1));
    assert!(real.firmware.paths(peer.node).iter().all(|path| path.link != OTHER));
    hear_by_other(&mut real, theirs[1], &reply(&peer, sought[0], Some(theirs[0])));
    let paths = real.firmware.paths(peer.node);
    assert!(paths.iter().any(|path| (path.link, path.address) == (OTHER, theirs[1])), "{paths:?}");
}
