//! Regions, puts, gets and atomics: what they do, how they fail, and that the target's application need not lift a finger.

mod common;

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use common::{BOARDS, LONG, Pair, both, impatient, pattern};
use emp_host::{
    AtomicOp, Board, Endpoint, Failed, Node, NodeBuilder, NodeId, PostError, Profile, PutOptions,
    RefusedReason, Region, RegionOptions, RemoteRegion, Request, Rights, Status, WaitError,
    WaitMode,
};
use emp_link::{FaultLink, FaultPlan, Link, PacketLink, PacketOptions, UdpLink, UdpOptions};
use emp_testing::lab::{INTERFACE, Lab};

const SIZES: [usize; 8] = [0, 1, 32, 1400, 1500, 9000, 65_537, 2 << 20];

fn export(node: &Node, bytes: usize) -> Region {
    node.export(vec![0; bytes]).unwrap()
}

fn at(target: RemoteRegion, offset: u64) -> RemoteRegion {
    RemoteRegion { offset, ..target }
}

fn status<B: Send + 'static>(request: Request<B>) -> Status {
    let Err(WaitError::Failed(Failed { error, .. })) = request.wait(LONG) else {
        panic!("it must fail")
    };
    let text = error.to_string();
    assert!(text.contains("node b") && text.contains(error.status().describe()), "{text}");
    error.status()
}

/// Puts, gets and atomics of `a` in a region of `b`, whose application is silent.
fn reach(a: &Endpoint, region: &Region) {
    let target = region.remote();
    for (seed, size) in (0..).zip(SIZES) {
        let offset = 100 + seed * 7;
        let sent = pattern(size, seed);
        let put = a.put(at(target, offset), sent.clone()).unwrap().wait(LONG).unwrap();
        assert_eq!((put.bytes(), &put.buffer), (size, &sent));
        assert!(region.to_vec(offset as usize, size) == sent, "{size} bytes put");
        let got = a.get(at(target, offset), vec![0; size]).unwrap().wait(LONG).unwrap();
        assert!(got.bytes() == size && got.buffer == sent, "{size} bytes got");
    }
    region.write(0, &5u64.to_le_bytes());
    for before in 5..25 {
        let fetched = a.fetch_add(at(target, 0), 1u64).unwrap().wait(LONG).unwrap();
        assert_eq!(fetched.buffer.first(), before);
    }
    let swap = |expected: u64, new: u64| {
        a.compare_swap(at(target, 0), expected, new).unwrap().wait(LONG).unwrap().buffer.first()
    };
    assert_eq!((swap(24, 1), swap(25, 7), swap(7, 8)), (25, 25, 7));
    assert_eq!(a.fetch::<u64>(at(target, 0)).unwrap().wait(LONG).unwrap().buffer.first(), 8);
    region.write(16, &[1u8; 12]);
    let numbers = [1.5f32, -2.0, 0.25];
    a.atomic(at(target, 16), AtomicOp::Write, &numbers).unwrap().wait(LONG).unwrap();
    let max = a.fetch_atomic(at(target, 16), AtomicOp::Max, &[0f32; 3]).unwrap();
    assert_eq!(max.wait(LONG).unwrap().buffer.to_vec(), numbers);
    assert_eq!(region.to_vec(16, 12), [1.5f32, 0.0, 0.25].map(f32::to_le_bytes).concat());
}

#[test]
fn memory_is_reached_on_every_board() {
    for board in [Board::Inline { guardian: true }, Board::Thread] {
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
    let pair = Pair::new(Board::Thread);
    let a = pair.a.endpoint(1).unwrap();
    let region = export(&pair.b, 1000);
    let target = region.remote();
    for bytes in [1, 100, 100_000] {
        let beyond = at(target, 1000);
        assert_eq!(status(a.put(beyond, vec![1; bytes]).unwrap()), Status::OutOfBounds);
        assert_eq!(status(a.get(beyond, vec![1; bytes]).unwrap()), Status::OutOfBounds);
    }
    let far = at(target, u64::MAX - 3);
    assert_eq!(status(a.put(far, vec![1; 8]).unwrap()), Status::OutOfBounds);
    assert_eq!(status(a.fetch_add(at(target, 993), 1u64).unwrap()), Status::OutOfBounds);
    let other = RemoteRegion { generation: target.generation.wrapping_add(1).max(1), ..target };
    assert_eq!(status(a.put(other, vec![1; 8]).unwrap()), Status::BadGeneration);
    let unknown = RemoteRegion { key: target.key ^ 0x55, ..target };
    assert_eq!(status(a.get(unknown, vec![1; 8]).unwrap()), Status::BadKey);
    assert_eq!(status(a.fetch_add(unknown, 1u8).unwrap()), Status::BadKey);

    let options = |rights| RegionOptions { rights, ..RegionOptions::default() };
    let closed = pair.b.export_with(vec![7; 100], options(Rights::NONE)).unwrap();
    let readable = pair.b.export_with(vec![7; 100], options(Rights::REMOTE_READ)).unwrap();
    let writable = pair.b.export_with(vec![7; 100], options(Rights::REMOTE_WRITE)).unwrap();
    for region in [&closed, &readable] {
        assert_eq!(status(a.put(region.remote(), vec![1; 8]).unwrap()), Status::NoRights);
        let sum = a.atomic(region.remote(), AtomicOp::Sum, &[1u32]).unwrap();
        assert_eq!(status(sum), Status::NoRights);
        assert_eq!(region.to_vec(0, 100), [7; 100]);
    }
    for region in [&closed, &writable] {
        assert_eq!(status(a.get(region.remote(), vec![1; 8]).unwrap()), Status::NoRights);
        assert_eq!(status(a.fetch_add(region.remote(), 1u32).unwrap()), Status::NoRights);
    }
    a.get(readable.remote(), vec![0; 100]).unwrap().wait(LONG).unwrap();
    a.put(writable.remote(), vec![0; 100]).unwrap().wait(LONG).unwrap();
    // None of it disturbs what is in order.
    a.put(target, vec![9; 1000]).unwrap().wait(LONG).unwrap();
    assert_eq!(region.to_vec(0, 1000), [9; 1000]);
}

#[test]
fn exports_are_refused_with_their_memory() {
    let pair = Pair::new(Board::Thread);
    let options = RegionOptions { key: Some(77), ..RegionOptions::default() };
    let first = pair.b.export_with(vec![1; 10], options).unwrap();
    let refused = pair.b.export_with(vec![2; 10], options).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::Firmware(PostError::KeyTaken));
    assert_eq!(refused.buffer, [2; 10]);
    assert_eq!(first.take_back(), [1; 10]);
    let again = pair.b.export_with(vec![3; 10], options).unwrap();
    assert_eq!((again.id().key, again.len(), again.is_empty()), (77, 10, false));
    pair.b.close(Duration::ZERO).ok();
    let refused = pair.b.export(vec![4; 10]).unwrap_err();
    assert_eq!(refused.reason, RefusedReason::Firmware(PostError::Closing));
    again.write(3, &[9]);
    assert_eq!(again.take_back(), [3, 3, 3, 9, 3, 3, 3, 3, 3, 3]);
}

#[test]
#[should_panic(expected = "8 bytes at 3 of a region of 10")]
fn reading_beyond_a_region_panics() {
    let pair = Pair::new(Board::Thread);
    export(&pair.a, 10).to_vec(3, 8);
}

#[test]
fn notifications_come_after_the_bytes() {
    for board in BOARDS {
        let pair = Pair::new(board);
        let (a, b) = pair.endpoints();
        let region = export(&pair.b, 3 << 20);
        let target = RemoteRegion { to_endpoint: 1, ..region.remote() };
        let notifications = b.notifications();
        assert_eq!(notifications.poll(), None);
        let key = region.id().key;
        both(
            &pair,
            || {
                for (seed, size) in (0..).zip(SIZES) {
                    let options = PutOptions::default().notify(seed << 40);
                    let put = a.put_with(target, pattern(size, seed), options).unwrap();
                    put.wait(LONG).unwrap();
                    // A put that does not notify is not seen.
                    a.put(at(target, 3_000_000), vec![1; 5]).unwrap().wait(LONG).unwrap();
                }
            },
            || {
                for (seed, size) in (0..).zip(SIZES) {
                    let notified = notifications.wait(LONG).expect("in time");
                    assert_eq!((notified.immediate, notified.bytes), (seed << 40, size as u64));
                    assert_eq!((notified.key, notified.from), (key, pair.a.id()));
                    assert_eq!(notified.from_endpoint, 1);
                }
            },
        );
        let last = SIZES.len() as u64 - 1;
        assert!(region.to_vec(0, 2 << 20) == pattern(2 << 20, last));
    }
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

/// Whoever notifies faster than the application looks is held back, and nothing is lost.
#[test]
fn notifications_that_nobody_looks_at_hold_their_senders_back() {
    let pair = Pair::new(Board::Thread);
    let (a, b) = pair.endpoints();
    let region = export(&pair.b, 8);
    let target = RemoteRegion { to_endpoint: 1, ..region.remote() };
    let notifications = b.notifications();
    let most = emp_firmware::limits::NOTIFICATIONS_MAX as u64;
    let options = PutOptions::default();
    let mut puts: Vec<_> = (0..most + 500)
        .map(|nth| a.put_with(target, vec![1; 8], options.notify(nth)).unwrap())
        .collect();
    let ended = |puts: &mut Vec<Request<Vec<u8>>>| {
        puts.retain_mut(|put| !put.test());
        most + 500 - puts.len() as u64
    };
    let start = Instant::now();
    while ended(&mut puts) < most && start.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(ended(&mut puts), most, "the rest has to wait");
    for nth in 0..most + 500 {
        assert_eq!(notifications.wait(LONG).expect("in time").immediate, nth);
    }
    for put in puts {
        put.wait(LONG).unwrap();
    }
}

/// The application exports memory and then makes no call: its guardian, or the board's thread, serves its peers.
#[test]
fn the_memory_of_a_silent_application_is_served() {
    for board in [Board::Inline { guardian: true }, Board::Thread] {
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
    for board in [Board::Inline { guardian: true }, Board::Thread] {
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
    let pair = Pair::new(Board::Thread);
    let a = pair.a.endpoint(1).unwrap();
    for round in 0..20u64 {
        let region = export(&pair.b, 8 << 20);
        let target = region.remote();
        let put = a.put(target, vec![1; 8 << 20]).unwrap();
        let get = a.get(target, vec![2; 8 << 20]).unwrap();
        std::thread::sleep(Duration::from_micros(200 * round));
        let memory = region.take_back();
        assert_eq!(memory.len(), 8 << 20);
        drop(memory);
        for ended in [put.wait(LONG), get.wait(LONG)] {
            match ended {
                Ok(done) => assert_eq!(done.bytes(), 8 << 20),
                Err(WaitError::Failed(failed)) => {
                    let status = failed.error.status();
                    assert!(matches!(status, Status::BadKey | Status::BadGeneration), "{status:?}");
                }
                Err(WaitError::TimedOut(_)) => panic!("round {round}: it never ends"),
            }
        }
    }
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
