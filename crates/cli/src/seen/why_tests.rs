use std::path::PathBuf;

use emp_state::layout::Counter;
use emp_state::process::Stat;
use emp_state::{Identity, Note, Now, Path, Text};

use super::*;

const NOW: u64 = 100_000_000_000;

fn link(kind: &str, interface: &str, mtu: u32, trouble: &str) -> Link {
    let (kind, interface) = (Text::new(kind), Text::new(interface));
    Link { kind, interface, mtu, trouble: Text::new(trouble), ..Link::default() }
}

/// What a says of b, of which nothing was heard for 50 s, whose paths are by these of the links.
fn said(links: &[Link], by: &[u8]) -> String {
    said_of(PeerState::Met, links, by)
}

fn said_of(state: PeerState, links: &[Link], by: &[u8]) -> String {
    let mut peer = Peer { node: 2, heard: NOW / 2, out_frames: 1, ..Peer::default() };
    (peer.name, peer.state) = (Text::new("b"), state.number());
    (peer.out_since, peer.out_messages) = (NOW / 2, 1);
    for (path, link) in peer.paths.iter_mut().zip(by) {
        *path = Path { link: *link, flags: Path::THERE, ..Path::default() };
    }
    let node = Snapshot {
        path: PathBuf::new(),
        identity: Identity { name: Text::new("a"), ..Identity::default() },
        life: Life::Elsewhere,
        now: Now::default(),
        links: links.to_vec(),
        counters: Vec::new(),
        notes: Vec::new(),
        peers: vec![peer],
        neighbours: Vec::new(),
        torn: false,
    };
    sentence(&node, &peer, None, NOW)
}

/// The path by raw frames has failed by then, and what is left is a socket that is bound to no interface.
#[test]
fn a_pulled_cable_is_named_by_whatever_path_is_left() {
    let dead = |kind, name| link(kind, name, 1_500, "has no carrier");
    let anywhere = link("udp", "0.0.0.0:51966", 0, "");
    let pulled = "a cannot reach b: interface emp0 has no carrier, and nothing was heard of it";
    let packet = dead("packet", "emp0");
    for by in [&[][..], &[0], &[1], &[0, 1]] {
        let text = said(&[packet, anywhere], by);
        assert!(text.starts_with(pulled), "{by:?}: {text}");
    }
    let both = said(&[packet, dead("packet", "emp1"), anywhere], &[2]);
    assert!(both.contains("emp0 has no carrier, interface emp1 has no carrier"), "{both}");
}

/// What is waited for, and since when, is said of a silent peer also once it is looked for again.
#[test]
fn a_silent_peer_is_told_of_alike_before_and_while_it_is_looked_for() {
    let well = link("packet", "emp0", 1_500, "");
    let met = said(&[well], &[0]);
    let begins = "a waits since 50.0 s for an answer of b, of which nothing was heard for 50.0 s: its process is stopped or has ended";
    assert!(met.starts_with(begins), "{met}");
    assert_eq!(said_of(PeerState::Sought, &[well], &[]), met);
}

/// That one cable is out says nothing of a peer that is reached by another, or within the machine.
#[test]
fn a_cable_that_does_not_lead_there_is_not_named() {
    let dead = link("packet", "emp0", 1_500, "has no carrier");
    let well = link("packet", "emp1", 1_500, "");
    let anywhere = link("udp", "0.0.0.0:51966", 0, "");
    let memory = link("shm", "", 0, "");
    for (links, by) in [([dead, well], [1]), ([dead, memory], [1]), ([anywhere, memory], [0])] {
        let text = said(&links, &by);
        assert!(text.contains("its process is stopped or has ended"), "{text}");
    }
    let text = said(&[dead, well, anywhere], &[2]);
    assert!(text.contains("its process is stopped or has ended"), "{text}");
}

/// A node of this name that has counted nothing and whose process is elsewhere.
fn node(name: &str) -> Snapshot {
    Snapshot {
        path: PathBuf::new(),
        identity: Identity {
            name: Text::new(name),
            process: 7,
            patience_ms: 120_000,
            ..Identity::default()
        },
        life: Life::Elsewhere,
        now: Now::default(),
        links: vec![link("packet", "emp0", 1_500, "")],
        counters: Vec::new(),
        notes: Vec::new(),
        peers: Vec::new(),
        neighbours: Vec::new(),
        torn: false,
    }
}

/// b, heard a moment ago, with nothing under way.
fn peer(state: PeerState) -> Peer {
    let peer = Peer { node: 2, heard: NOW - 1_000_000, state_since: NOW / 2, ..Peer::default() };
    Peer { name: Text::new("b"), state: state.number(), ..peer }
}

fn in_state(state: char) -> Life {
    Life::Alive(Stat { state, began: 1, stack: 2 })
}

const SINCE: u64 = NOW / 2;

/// Every sentence that there is, once, by what leads to it.
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn each_state_has_its_sentence() {
    let met = || peer(PeerState::Met);
    let waits = || Peer { out_since: SINCE, out_messages: 3, ..met() };
    let with = |change: fn(&mut Snapshot)| {
        let mut node = node("a");
        change(&mut node);
        node
    };
    let quiet = || node("a");
    let b = |state| Some(Snapshot { life: in_state(state), ..node("b") });
    let noted = |text: &str| {
        let note = Note { at: NOW - 1, node: 2, level: 2, text: Text::new(text) };
        Snapshot { notes: vec![note], ..node("a") }
    };
    let silent = |peer: Peer| Peer { heard: SINCE, ..peer };
    for (node, peer, other, says) in [
        // Who does not run.
        (
            with(|a| a.life = in_state('T')),
            waits(),
            None,
            "a waits for nobody: process 7 of a is stopped by a signal: kill -CONT 7 lets it go on",
        ),
        (
            with(|a| a.life = in_state('t')),
            waits(),
            None,
            "a waits for nobody: process 7 of a is held by a debugger",
        ),
        (
            quiet(),
            waits(),
            b('T'),
            "a waits since 50.0 s for an answer of b, and process 7 of b is stopped by a signal",
        ),
        (
            quiet(),
            Peer { in_since: SINCE, ..met() },
            b('t'),
            "a waits since 50.0 s for a message from b, and process 7 of b is held",
        ),
        (quiet(), met(), b('T'), "a waits for nothing of b, and process 7 of b is stopped"),
        // Who is not met.
        (
            quiet(),
            Peer { heard: 0, ..peer(PeerState::Sought) },
            None,
            "a looks for b since 50.0 s and nobody answers by packet emp0: it is not started, on another segment, or a firewall is between",
        ),
        (
            quiet(),
            silent(peer(PeerState::Sought)),
            None,
            "a waits for nothing of b, of which nothing was heard for 50.0 s: its process is stopped or has ended",
        ),
        (
            with(|a| {
                a.counters = vec![Counter { name: Text::new("drop_wrong_version"), value: 9 }]
            }),
            peer(PeerState::Sought),
            None,
            "has dropped 9 frames of another version of EMP: two versions are at work",
        ),
        (
            quiet(),
            peer(PeerState::Unknown),
            None,
            "a waits for nothing of b, of which nothing is known yet",
        ),
        // Who is no more.
        (
            quiet(),
            peer(PeerState::Ended),
            None,
            "a lost b 50.0 s ago: its process has ended, as its host tells",
        ),
        (
            quiet(),
            peer(PeerState::Closed),
            None,
            "a waits for nothing of b: it closed its node 50.0 s ago; start it again",
        ),
        (
            quiet(),
            peer(PeerState::Restarted),
            None,
            "a lost b 50.0 s ago: it was restarted, and what was under way is lost",
        ),
        (
            noted("its word"),
            peer(PeerState::GaveUp),
            None,
            "a was given up by b 50.0 s ago, which heard nothing of it for too long (its word); look whether frames leave",
        ),
        (
            noted("because"),
            peer(PeerState::Unreachable),
            None,
            "a gave b up 50.0 s ago (because); operations with it have ended with an error",
        ),
        // Who is to acknowledge, answer or receive.
        (
            quiet(),
            silent(Peer { out_frames: 2, ..waits() }),
            None,
            "a waits since 50.0 s for an answer of b, of which nothing was heard for 50.0 s: its process is stopped or has ended, or its host cannot be reached",
        ),
        (
            noted("frames of 9000 bytes do not reach b"),
            Peer { out_timeouts: 2, ..waits() },
            None,
            "for b: frames of 9000 bytes do not reach b; compare ip link on both hosts",
        ),
        (
            quiet(),
            Peer { out_refusals: 1, ..waits() },
            None,
            "a waits since 50.0 s for b, which has no room for its messages: it is b's turn to receive them",
        ),
        (
            quiet(),
            Peer { out_awaiting: 1, ..waits() },
            b('R'),
            "which has all that was sent and whose program has not received it: it is b's turn (its process 7 computes)",
        ),
        (
            quiet(),
            Peer { out_frames: 4, out_timeouts: 1, ..waits() },
            b('S'),
            "for b to acknowledge 4 frames, 3 messages are under way, and the timer ran 1 times: frames are lost on the way, or b does not run (its process 7 sleeps",
        ),
        (quiet(), Peer { out_frames: 4, ..waits() }, b('D'), "(its process 7 is in the kernel)"),
        (quiet(), Peer { out_frames: 4, ..waits() }, None, "; look on its host with emp why"),
        // Who is to send, and who is to receive here.
        (
            quiet(),
            Peer { in_since: SINCE, in_receives: 1, ..met() },
            None,
            "a waits since 50.0 s for a message that b has not sent: it is b's turn",
        ),
        (
            quiet(),
            Peer { in_since: SINCE, in_messages: 2, ..met() },
            None,
            "a waits since 50.0 s for the rest of 2 messages of b, which has stopped sending; look",
        ),
        (
            quiet(),
            Peer { in_since: SINCE, in_messages: 1, in_pulls: 5, ..met() },
            None,
            "and owes 5 blocks that a asked it for",
        ),
        (
            with(|a| a.now.unexpected_since = SINCE),
            Peer { in_messages: 2, in_unexpected: 2, ..met() },
            None,
            "b has sent 2 messages that a has not received since 50.0 s: it is a's turn",
        ),
        (
            with(|a| a.now.receive_since = SINCE),
            met(),
            None,
            "a waits for nothing of b, but since 50.0 s for a message from anyone; it was heard 1 ms ago",
        ),
        (quiet(), met(), None, "a waits for nothing of b; it was heard 1 ms ago"),
    ] {
        let text = sentence(&node, &peer, other.as_ref(), NOW);
        assert!(text.contains(says) && !text.contains('\n'), "{text:?} and not {says:?}");
    }
}
