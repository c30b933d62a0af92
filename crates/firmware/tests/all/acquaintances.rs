//! Peers that are asked for other nodes, and tell (`HELLO-10`, `HELLO-11`): what lies cost, and who is told.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{AddressFamily, Flags, HELLO_BODY_BYTES_MAX, Hello, Kind, LinkAddress, NodeId};

const NONE: Flags = Flags(0);

/// A node with a socket, on which it can ask nobody but those that it knows.
fn on_datagrams() -> Real {
    let tells = Some(AddressFamily::Index);
    Real::over(&Profile::DEFAULT, vec![LinkInfo { tells, ..LinkInfo::new(MTU, false) }])
}

fn contact(from: &Forged, kind: Kind, hello: Hello) -> Vec<u8> {
    let mut body = [0; HELLO_BODY_BYTES_MAX];
    let bytes = hello.emit(&mut body);
    from.frame(kind, NONE, 0, 0, &body[..bytes])
}

/// An answer that tells where a node is.
fn tells(from: &Forged, nonce: u64, sought: NodeId, places: &[LinkAddress]) -> Vec<u8> {
    let hello = Hello::new(from.node, OWN, nonce, MTU as u16, "");
    contact(from, Kind::HelloReply, hello.about(sought, places.iter().copied()))
}

fn asks(from: &Forged, nonce: u64, sought: NodeId) -> Vec<u8> {
    let hello = Hello::new(from.node, OWN, nonce, MTU as u16, "");
    contact(from, Kind::Hello, hello.about(sought, [].into_iter()))
}

/// Questions for other nodes among what was said: to where, of whom, and the nonce.
fn questions(said: &[Said]) -> Vec<(LinkAddress, NodeId, u64)> {
    let hellos = of_kind(said, Kind::Hello);
    let read = hellos.iter().map(|said| (said.to, Hello::parse(&said.body).unwrap()));
    read.filter_map(|(to, hello)| Some((to, hello.other()?, hello.nonce))).collect()
}

/// Hellos to an address.
fn hellos_to(said: &[Said], to: LinkAddress) -> usize {
    of_kind(said, Kind::Hello).iter().filter(|said| said.to == to).count()
}

#[test]
fn a_peer_is_asked_and_whom_it_tells_of_is_met_there() {
    let mut real = on_datagrams();
    let (peer, sought) = (Forged::met(2, &mut real), Forged::new(3));
    real.send(&sought, 100);
    assert!(questions(&real.speak()).is_empty(), "not at once");
    let asked = questions(&real.pass(Span::ms(2)));
    let [(to, of, nonce)] = asked[..] else { panic!("{asked:?}") };
    assert_eq!((to, of), (peer.address(), sought.node));
    real.hear(&peer, &tells(&peer, nonce, sought.node, &[sought.address()]));
    let said = real.speak();
    assert_eq!(hellos_to(&said, sought.address()), 1);
    let hello = Hello::parse(&of_kind(&said, Kind::Hello)[0].body).unwrap();
    assert_eq!((hello.target, hello.other()), (sought.node, None));
    let answer = Hello::new(sought.node, OWN, hello.nonce, MTU as u16, "found");
    real.hear(&sought, &contact(&sought, Kind::HelloReply, answer));
    assert_eq!(of_kind(&real.speak(), Kind::Message)[0].to, sought.address());
    assert_eq!(real.count(Counter::ToldTried), 1);
    // Nobody is asked for a node that is known.
    assert!(questions(&real.pass(Span::ms(500))).is_empty());
}

#[test]
fn lies_cost_a_few_hellos_and_move_nothing() {
    let mut real = on_datagrams();
    let peer = Forged::met(2, &mut real);
    let other = Forged::met(4, &mut real);
    let sought = Forged::new(3);
    real.send(&sought, 100);
    let asked = questions(&real.pass(Span::ms(2)));
    let nonce = asked.iter().find(|(to, ..)| *to == peer.address()).unwrap().2;
    let victims = [7, 8, 9].map(LinkAddress::index);
    // A nonce of no question, the right one of another peer, an answer in another epoch.
    real.hear(&peer, &tells(&peer, nonce ^ 1, sought.node, &victims));
    real.hear(&other, &tells(&other, nonce, sought.node, &victims));
    let mut restarted = Forged::new(2);
    restarted.epoch = emp_wire::Epoch::new(77);
    real.hear(&peer, &tells(&restarted, nonce, sought.node, &victims));
    assert_eq!(real.count(Counter::DropBadReply), 3);
    assert_eq!(real.count(Counter::ToldTried), 0);
    // Addresses at which no node elsewhere is.
    let odd = ["127.0.0.1:51966", "239.255.136.181:51966", "10.0.0.1:0"];
    let odd = odd.map(|at| LinkAddress::udp(at.parse().unwrap()));
    real.hear(&peer, &tells(&peer, nonce, sought.node, &odd));
    assert_eq!((real.count(Counter::ToldRefused), real.count(Counter::ToldTried)), (3, 0));
    // The same question is not answered twice.
    real.hear(&peer, &tells(&peer, nonce, sought.node, &victims));
    assert_eq!(real.count(Counter::DropBadReply), 4);
    // Each later question is answered by lies: a hello for each, and no more while nobody is asked.
    let mut hellos = 0;
    let mut answered = 0;
    for _ in 0..500 {
        let said = real.pass(Span::ms(10));
        for (to, _, nonce) in questions(&said) {
            if to == peer.address() {
                // Again and again, and of somebody else.
                real.hear(&peer, &tells(&peer, nonce, NodeId(99), &victims));
                real.hear(&peer, &tells(&peer, nonce, sought.node, &victims));
                answered += 1;
            }
        }
        hellos += victims.map(|at| hellos_to(&said, at)).iter().sum::<usize>();
    }
    assert!((3..20).contains(&answered), "{answered} questions in five seconds");
    // The first answer, of somebody else, ended each question.
    assert_eq!(hellos, 0);
    assert_eq!(real.firmware.route(sought.node), None);
    assert_eq!(real.firmware.route(peer.node), Some((LinkIndex(0), peer.address())));
}

#[test]
fn who_tells_of_strangers_makes_no_flood() {
    let mut real = on_datagrams();
    let peer = Forged::met(2, &mut real);
    let sought = Forged::new(3);
    real.send(&sought, 100);
    let victims = [7, 8, 9].map(LinkAddress::index);
    let (mut answers, mut hellos) = (0, 0);
    for _ in 0..500 {
        let said = real.pass(Span::ms(10));
        for (_, _, nonce) in questions(&said) {
            real.hear(&peer, &tells(&peer, nonce, sought.node, &victims));
            answers += 1;
        }
        hellos += victims.map(|at| hellos_to(&said, at)).iter().sum::<usize>();
    }
    hellos += victims.map(|at| hellos_to(&real.speak(), at)).iter().sum::<usize>();
    assert!(answers > 3 && hellos <= 3 * answers, "{hellos} hellos after {answers} answers");
    assert_eq!(real.count(Counter::ToldTried), 3 * answers as u64);
}

/// A node that has spoken to itself is no peer that it could ask.
#[test]
fn a_node_does_not_ask_itself() {
    let mut real = on_datagrams();
    let itself = Forged { node: OWN, ..Forged::new(2) };
    real.send(&itself, 10);
    real.pass(Span::ms(1));
    real.send(&Forged::new(3), 100);
    assert!(questions(&real.pass(Span::ms(100))).is_empty());
    assert_eq!(real.count(Counter::PeersAsked), 0);
}

#[test]
fn a_node_of_raw_frames_alone_asks_nobody() {
    let mut real = Real::new(&Profile::DEFAULT);
    Forged::met(2, &mut real);
    real.send(&Forged::new(3), 100);
    assert!(questions(&real.pass(Span::ms(1_000))).is_empty());
}

/// All peers have their turn, and however much is looked for, the questions of a second are bounded.
#[test]
fn questions_are_bounded_whatever_is_looked_for() {
    let mut real = on_datagrams();
    let peers: Vec<Forged> = (100..140).map(|id| Forged::met(id, &mut real)).collect();
    for id in 1_000..1_400 {
        real.send(&Forged::new(id), 10);
    }
    let asked = questions(&real.pass(Span::ms(1_000)));
    assert!(asked.len() <= 64 + 1_001, "{}", asked.len());
    for peer in &peers {
        assert!(asked.iter().any(|(to, ..)| *to == peer.address()), "{:?} is asked", peer.node);
    }
    let held = real.firmware.holdings();
    let held = held.iter().find(|held| held.name == "questions to peers").unwrap();
    assert!(held.held <= held.limit && held.held > 0);
}

/// What a node answers to a hello: whom it tells of, and where that is.
fn told(real: &mut Real, from: &Forged, at: LinkAddress, question: &[u8]) -> (usize, usize) {
    real.hear_at(at, question);
    let replies = of_kind(&real.speak(), Kind::HelloReply);
    let to =
        |said: &&Said| said.to == at && said.header.destination_tag == from.node.destination_tag();
    let replies: Vec<_> = replies.iter().filter(to).collect();
    let known = replies.iter().map(|said| Hello::parse(&said.body).unwrap().known().count());
    (replies.len(), known.sum())
}

#[test]
fn only_a_peer_where_it_was_met_is_told_of_others() {
    let mut real = on_datagrams();
    let (asker, other) = (Forged::met(2, &mut real), Forged::met(3, &mut real));
    let at = asker.address();
    assert_eq!(told(&mut real, &asker, at, &asks(&asker, 5, other.node)), (1, 1));
    assert_eq!(real.count(Counter::PeersTold), 1);
    // Of a node that is not known, and of this one, nothing is told; the hello is answered as any.
    for nobody in [NodeId(99), OWN] {
        assert_eq!(told(&mut real, &asker, at, &asks(&asker, 6, nobody)), (1, 0));
    }
    // A stranger, a peer in another epoch, and who claims to be a peer elsewhere are told nothing.
    let stranger = Forged::new(8);
    assert_eq!(
        told(&mut real, &stranger, stranger.address(), &asks(&stranger, 7, other.node)),
        (1, 0)
    );
    let elsewhere = LinkAddress::index(66);
    assert_eq!(told(&mut real, &asker, elsewhere, &asks(&asker, 8, other.node)), (1, 0));
    let mut restarted = Forged::new(2);
    restarted.epoch = emp_wire::Epoch::new(77);
    assert_eq!(told(&mut real, &restarted, at, &asks(&restarted, 9, other.node)), (1, 0));
    assert_eq!(real.count(Counter::PeersTold), 1);
    // Whoever left is not told of.
    let mut gone = [0; 8];
    gone.copy_from_slice(&other.node.0.to_be_bytes());
    real.hear(&other, &other.frame(Kind::Close, NONE, 0, 0, &gone));
    assert_eq!(told(&mut real, &asker, at, &asks(&asker, 10, other.node)), (1, 0));
}

#[test]
fn a_flood_of_questions_is_told_little() {
    let mut real = on_datagrams();
    let (asker, other) = (Forged::met(2, &mut real), Forged::met(3, &mut real));
    let at = asker.address();
    let mut known = 0;
    for nonce in 0..2_000 {
        known += told(&mut real, &asker, at, &asks(&asker, nonce, other.node)).1;
    }
    assert_eq!(known, 256, "at once");
    real.now = real.now + Span::ms(10);
    for nonce in 0..100 {
        known += told(&mut real, &asker, at, &asks(&asker, nonce, other.node)).1;
    }
    assert_eq!(known, 256 + 10);
}
