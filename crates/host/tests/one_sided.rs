//! Regions, puts, gets and atomics: what they do, how they fail, and that the target's application need not lift a finger.

mod common;
use common as pairs;
mod exercises;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use common::{BOARDS, LONG, Pair, SPLIT, impatient, pattern};
use emp_host::{Board, Node, NodeBuilder, NodeId, Profile, PutOptions, RemoteRegion, WaitMode};
use emp_link::{FaultLink, FaultPlan, Link, PacketLink, PacketOptions, UdpLink, UdpOptions};
use emp_testing::lab::{INTERFACE, Lab};
use exercises::one_sided::{
    at, export, held_back, notifications, reach, refusals, refused_exports, taken_back,
};

#[test]
fn memory_is_reached_on_every_board() {
    for board in [Board::Inline { guardian: true }, Board::Thread, SPLIT] {
        let pair = Pair::new(board);
        let a = pair.a.endpoint(1).unwrap();
        reach(&a, &export(&pair.b, 4 << 20));
    }
}

#[test]
fn a_node_reaches_its_own_memory() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let b = pair.b.endpoint(1).unwrap();
        reach(&b, &export(&pair.b, 4 << 20));
    }
}

/// A pair over links that are made by name and side; both know where the other is.
fn linked<L: Link + 'static>(
    link: impl Fn(usize, &str) -> L,
    with: impl Fn(NodeBuilder) -> NodeBuilder,
) -> Pair {
    let start = |side, name| {
        let builder = Node::builder().name(name).link(link(side, name));
        with(builder).start().expect("the node starts")
    };
    Pair { a: start(0, "a"), b: start(1, "b") }
}

const FAULTS: &str = "drop:2%,duplicate:1%,reorder:2%@4,corrupt:1%,truncate:0.5%,seed:3";

#[test]
fn memory_is_reached_over_udp_with_faults() {
    let plan: FaultPlan = FAULTS.parse().unwrap();
    let open = |_, name: &str| {
        let mut options = UdpOptions::new(NodeId::from_name(name).destination_tag());
        (options.bind, options.port) = (Some(Ipv4Addr::LOCALHOST.into()), 0);
        FaultLink::new(UdpLink::open(&options).unwrap(), &plan)
    };
    let pair = linked(open, |node| node);
    let socket = pair.b.links()[0].address.as_udp().unwrap();
    pair.a.resolve_socket(socket, LONG).unwrap();
    reach(&pair.a.endpoint(1).unwrap(), &export(&pair.b, 4 << 20));
}

#[test]
fn memory_is_reached_over_packets_with_faults() {
    let Some(lab) = Lab::build(1500) else { return };
    let plan: FaultPlan = FAULTS.parse().unwrap();
    let open = |side, name: &str| {
        let tag = NodeId::from_name(name).destination_tag();
        let options = PacketOptions::new(INTERFACE, tag);
        FaultLink::new(lab.inside(side, || PacketLink::open(&options).unwrap()), &plan)
    };
    let pair = linked(open, |node| node);
    reach(&pair.a.endpoint(1).unwrap(), &export(&pair.b, 4 << 20));
}

#[test]
fn what_is_not_allowed_fails_with_its_reason() {
    refusals(&Pair::new(Board::Thread));
}

#[test]
fn exports_are_refused_with_their_memory() {
    refused_exports(&Pair::new(Board::Thread));
}

#[test]
#[should_panic(expected = "8 bytes at 3 of a region of 10")]
fn reading_beyond_a_region_panics() {
    let pair = Pair::new(Board::Thread);
    export(&pair.a, 10).to_vec(3, 8);
}

#[test]
fn notifications_come_after_the_bytes() {
    BOARDS.into_iter().for_each(|board| notifications(&Pair::new(board)));
}

#[test]
fn notifications_that_nobody_looks_at_hold_their_senders_back() {
    let most = emp_firmware::limits::NOTIFICATIONS_MAX as u64;
    held_back(&Pair::new(Board::Thread), most);
}

/// The `done` of a put that the target's program is told of waits for that program's answer (`ACK-6`). Where there is none it leaves before the
/// target sleeps, and not with its next deadline.
#[test]
fn what_waits_for_an_answer_leaves_before_a_sleep() {
    let delay = Duration::from_secs(5);
    let mut profile = Profile::DEFAULT;
    profile.ack_delay.0 = delay.as_nanos() as u64;
    // The guardian is the one who takes the put: the program is silent.
    let pair = Pair::with(Board::Inline { guardian: true }, WaitMode::default(), profile);
    let (a, b) = pair.endpoints();
    let region = export(&pair.b, 64);
    let target = RemoteRegion { to_endpoint: 1, ..region.remote() };
    let notifications = b.notifications();
    a.put(target, vec![1; 32]).unwrap().wait(LONG).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let received = || pair.a.link_statistics().iter().map(|link| link.frames_received).sum::<u64>();
    let (before, start) = (received(), Instant::now());
    let options = PutOptions::default().notify(5);
    let _put = a.put_with(target, vec![2; 32], options).unwrap();
    while received() == before {
        // Later than that the initiator has asked whether the target is there.
        assert!(start.elapsed() < Duration::from_millis(400), "nothing came of it");
        pair.a.progress();
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(notifications.wait(LONG).map(|notified| notified.immediate), Some(5));
}

/// The application exports memory and then makes no call: its guardian, or the board's thread, serves its peers.
#[test]
fn the_memory_of_a_silent_application_is_served() {
    for board in [Board::Inline { guardian: true }, Board::Thread, SPLIT] {
        // Long enough for a busy machine, and shorter than the silence.
        let pair = Pair::with(board, WaitMode::default(), impatient(Duration::from_millis(900)));
        let a = pair.a.endpoint(1).unwrap();
        let region = export(&pair.b, 4 << 20);
        let silent_since = Instant::now();
        let target = region.remote();
        while silent_since.elapsed() < Duration::from_secs(2) {
            let bytes = pattern(3 << 20, 1);
            a.put(target, bytes.clone()).unwrap().wait(LONG).unwrap();
            let got = a.get(target, vec![0; 3 << 20]).unwrap().wait(LONG).unwrap();
            assert!(got.buffer == bytes);
            a.fetch_add(at(target, 4_000_000), 1u64).unwrap().wait(LONG).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
        for node in [&pair.a, &pair.b] {
            assert_eq!(node.counters().get(emp_host::Counter::PeersLost), 0, "{board:?}");
        }
    }
}

/// The owner reads and writes while peers put: never is one in the middle of the other.
#[test]
fn a_look_at_a_region_excludes_its_peers() {
    fn shared<T: Send + Sync>(_: &T) {}
    const BYTES: usize = 1_000;
    for board in [Board::Inline { guardian: true }, Board::Thread, SPLIT] {
        let pair = Pair::new(board);
        let a = pair.a.endpoint(1).unwrap();
        let region = export(&pair.b, BYTES);
        shared(&region);
        let target = region.remote();
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..3_000u32 {
                    a.put(target, vec![turn as u8; BYTES]).unwrap().wait(LONG).unwrap();
                }
                done.store(true, std::sync::atomic::Ordering::SeqCst);
            });
            let mut turn = 0u8;
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                let seen = region.to_vec(0, BYTES);
                assert!(seen.iter().all(|byte| *byte == seen[0]), "half of a put was seen");
                turn = turn.wrapping_add(1);
                if turn.is_multiple_of(8) {
                    region.write(0, &[turn; BYTES]);
                }
            }
        });
    }
}

#[test]
fn a_region_that_is_taken_back_ends_what_is_under_way() {
    taken_back(&Pair::new(Board::Thread));
}

#[test]
fn a_dropped_get_keeps_its_buffer_until_it_has_ended() {
    let pair = Pair::new(Board::Thread);
    let a = pair.a.endpoint(1).unwrap();
    let region = export(&pair.b, 4 << 20);
    for _ in 0..20 {
        drop(a.get(region.remote(), vec![0; 4 << 20]).unwrap());
        drop(a.put(region.remote(), vec![0; 4 << 20]).unwrap());
    }
    a.put(region.remote(), vec![1; 8]).unwrap().wait(LONG).unwrap();
}

#[test]
fn a_peer_that_is_gone_is_an_error() {
    let pair =
        Pair::with(Board::Thread, WaitMode::default(), impatient(Duration::from_millis(300)));
    let a = pair.a.endpoint(1).unwrap();
    let region = export(&pair.b, 100);
    let target = region.remote();
    a.put(target, vec![1; 100]).unwrap().wait(LONG).unwrap();
    pair.b.close(Duration::ZERO).ok();
    let ended: Vec<_> = [
        a.put(target, vec![1; 100]).unwrap().wait(LONG).err().map(|e| e.to_string()),
        a.get(target, vec![1; 100]).unwrap().wait(LONG).err().map(|e| e.to_string()),
        a.fetch_add(target, 1u64).unwrap().wait(LONG).err().map(|e| e.to_string()),
    ]
    .into_iter()
    .collect();
    for text in ended {
        let text = text.expect("nobody is there");
        assert!(text.contains("node b"), "{text}");
    }
}
