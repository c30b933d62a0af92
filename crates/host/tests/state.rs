//! What a node shows of itself to whoever looks from outside: by its state file, without its help.

mod common;

use std::time::{Duration, Instant};

use common::{BOARDS, LONG, impatient, on};
use emp_host::{Board, Counter, Node, NodeId, Selector, StateFile, link::Fabric};
use emp_state::{Peer, PeerState, Snapshot};

/// What this process's node of this name shows.
fn shown(name: &str) -> Option<Snapshot> {
    let own = std::process::id();
    emp_state::look().into_iter().find_map(|(_, found)| {
        let found = found.ok()?;
        (found.identity.process == own && found.identity.name.show() == name).then_some(found)
    })
}

fn peer(found: &Snapshot, name: &str) -> Option<Peer> {
    found.peers.iter().find(|peer| peer.node == NodeId::from_name(name).0).copied()
}

/// Waits until a node shows something.
fn until<T>(name: &str, looks: impl Fn(&Snapshot) -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        let found = shown(name);
        if let Some(value) = found.as_ref().and_then(&looks) {
            return value;
        }
        assert!(begin.elapsed() < LONG, "{name} shows {found:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Two nodes of names of their own, as tests of this process run side by side.
fn nodes(names: [&'static str; 2], board: Board) -> [Node; 2] {
    let fabric = Fabric::new(2).expect("descriptors");
    let start = |index: u32, name: &str| {
        on(&fabric, index, name)
            .board(board)
            .state(StateFile::Own)
            .start()
            .expect("the node starts")
    };
    [start(0, names[0]), start(1, names[1])]
}

#[test]
fn a_node_shows_itself_and_its_peers_on_every_board() {
    let all: [[&str; 2]; BOARDS.len()] = [
        ["sa0", "sb0"],
        ["sa1", "sb1"],
        ["sa2", "sb2"],
        ["sa3", "sb3"],
        ["sa4", "sb4"],
        ["sa5", "sb5"],
        ["sa6", "sb6"],
        ["sa7", "sb7"],
        ["sa8", "sb8"],
    ];
    for (board, names) in BOARDS.into_iter().zip(all) {
        let [a, b] = nodes(names, board);
        let found = shown(names[0]).expect("from its start on");
        assert_eq!((found.now.links, found.peers.len()), (1, 0));
        assert_eq!(found.identity.version.show(), env!("CARGO_PKG_VERSION"));

        let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
        let both = [a.clone(), b.clone()];
        for number in 0..20 {
            let mut got = to.receive(Selector::bits(number), vec![0; 100]).unwrap();
            let mut sent = from.send((names[1], 1), number, "hello").unwrap();
            let begin = Instant::now();
            while !(got.test() && sent.test()) {
                both.iter().for_each(Node::progress);
                assert!(begin.elapsed() < LONG);
            }
        }
        // Whoever makes turns now and then shows what was; without anybody, the program must.
        let met = {
            let begin = Instant::now();
            loop {
                both.iter().for_each(Node::progress);
                let found = shown(names[0]).expect("it runs");
                match peer(&found, names[1]) {
                    Some(peer)
                        if peer.frames_sent >= 20 && found.counter("messages_sent") >= 20 =>
                    {
                        break (found, peer);
                    }
                    _ => assert!(begin.elapsed() < LONG, "{found:#?}"),
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        let (found, met) = met;
        assert_eq!((met.state(), met.name.show()), (PeerState::Met, names[1].to_owned()));
        assert!(met.heard > 0 && met.paths().count() == 1, "{met:?}");
        assert!(found.links[0].frames_sent > 0, "{found:?}");
        let path = found.path.clone();
        drop((from, to, both));
        a.close(LONG).expect("all is delivered");
        assert!(!path.exists(), "the file goes with the node");
    }
}

/// Nobody calls: the guardian, or the progress thread, shows what there was last, and then sleeps.
#[test]
fn what_happened_last_is_shown_though_nothing_happens_any_more() {
    for (board, names) in
        [(Board::Inline { guardian: true }, ["sl0", "sm0"]), (Board::Thread, ["sl1", "sm1"])]
    {
        let [a, b] = nodes(names, board);
        let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
        let waits = from
            .receive(Selector { from: NodeId::from_name(names[1]), ..Selector::ANY }, vec![0; 10])
            .unwrap();
        from.send_wait((names[1], 1), 7, "hello", LONG).unwrap();
        let first = until(names[0], |found| {
            let peer = peer(found, names[1])?;
            (found.counter("messages_sent") == 1 && peer.in_receives == 1).then_some(peer)
        });
        assert!(first.in_since > 0 && first.out_messages == 0, "{first:?}");
        let unexpected = until(names[1], |found| {
            let peer = peer(found, names[0])?;
            (peer.in_unexpected == 1).then_some((found.now.unexpected_since, peer))
        });
        assert!(unexpected.0 > 0, "{unexpected:?}");
        std::thread::sleep(Duration::from_millis(100));
        let later = peer(&shown(names[0]).unwrap(), names[1]).unwrap();
        assert_eq!(later.in_since, first.in_since, "nothing has moved");
        drop((waits, to));
    }
}

/// What was asked for of a long message shows while its sender does nothing, and goes with what comes.
#[test]
fn blocks_that_a_silent_sender_owes_are_shown() {
    let [a, b] = nodes(["owes", "asks"], Board::Inline { guardian: false });
    let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    let bytes: Vec<u8> = (0..4 << 20).map(|at: u32| at as u8).collect();
    let mut got = to.receive(Selector::bits(1), vec![0; bytes.len()]).unwrap();
    let mut sent = from.send(("asks", 1), 1, bytes.clone()).unwrap();
    let owed = || {
        let found = shown("asks").expect("it runs");
        peer(&found, "owes").map_or(0, |peer| peer.in_pulls)
    };
    let begin = Instant::now();
    // Both, until the receiver has asked; then it alone.
    while b.counters().get(Counter::PullsSent) == 0 {
        [&a, &b].into_iter().for_each(Node::progress);
        assert!(begin.elapsed() < LONG && !got.test());
    }
    while owed() == 0 {
        b.progress();
        assert!(begin.elapsed() < LONG);
    }
    while !(got.test() && sent.test()) {
        [&a, &b].into_iter().for_each(Node::progress);
        assert!(begin.elapsed() < LONG);
    }
    while owed() > 0 {
        b.progress();
        assert!(begin.elapsed() < LONG);
    }
    assert!(got.wait(LONG).unwrap().buffer == bytes);
}

#[test]
fn who_is_not_there_is_sought_and_then_lost() {
    let fabric = Fabric::new(2).expect("descriptors");
    let profile = impatient(Duration::from_millis(1_500));
    let a = on(&fabric, 0, "seeker").profile(profile).state(StateFile::Own).start().unwrap();
    let from = a.endpoint(1).unwrap();
    let sent = from.send(("nobody-of-state", 1), 0, "hello").unwrap();
    let sought = until("seeker", |found| {
        peer(found, "nobody-of-state").filter(|peer| peer.state() == PeerState::Sought)
    });
    assert_eq!(sought.name.show(), "nobody-of-state");
    assert!(sought.out_messages == 1 && sought.out_since > 0 && sought.heard == 0, "{sought:?}");
    // It was copied, so its sender is not told; whoever looks is.
    assert!(sent.wait(LONG).is_ok());
    until("seeker", |found| {
        let lost = peer(found, "nobody-of-state")?;
        let said = found.notes.iter().any(|note| note.node == lost.node);
        (lost.state() == PeerState::Unreachable && lost.out_messages == 0 && said).then_some(())
    });
}

#[test]
fn a_node_shows_nothing_if_it_is_told_so() {
    let fabric = Fabric::new(1).expect("descriptors");
    let _a = on(&fabric, 0, "hidden").state(StateFile::Off).start().unwrap();
    assert!(shown("hidden").is_none());
}
