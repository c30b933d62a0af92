//! One-sided operations between two nodes: put, get, atomics, notifications, refusals, removal of regions.

use crate::common::{HALF, Pair, frames_of, give, ok, step};
use emp_firmware::*;
use emp_wire::{Header, Kind, NodeId};

const KEY: u64 = 0xFEED;

/// Node 1 (identity 2) exports its second half.
fn exported(profile: &Profile, rights: Rights) -> (Pair, RegionId) {
    exported_over(profile, rights, LinkInfo::new(1500, true))
}

fn exported_over(profile: &Profile, rights: Rights, link: LinkInfo) -> (Pair, RegionId) {
    let mut pair = Pair::over(profile, link);
    let memory = Segment { address: HALF, bytes: HALF };
    let region = pair.nodes[1].firmware.export_region(Some(KEY), memory, rights, 0).unwrap();
    (pair, region)
}

fn at(to: u64, offset: u64) -> RemoteRegion {
    RemoteRegion { to: NodeId(to), to_endpoint: 0, key: KEY, generation: 0, offset }
}

fn put(pair: &mut Pair, target: RemoteRegion, bytes: u64, immediate: Option<u64>) -> OpId {
    let node = &mut pair.nodes[0];
    let segments = SegmentList::one(Segment { address: 3, bytes });
    let completion = CompletionMode::Auto;
    let put =
        PutDescriptor { target, endpoint: 0, segments, immediate, completion, context: bytes };
    node.firmware.post_put(pair.now, put, &mut node.memory).unwrap()
}

fn get(pair: &mut Pair, target: RemoteRegion, bytes: u64) -> OpId {
    let node = &mut pair.nodes[0];
    let segments = SegmentList::one(Segment { address: HALF + 5, bytes });
    let get = GetDescriptor { target, endpoint: 0, segments, context: bytes };
    node.firmware.post_get(pair.now, get, &mut node.memory).unwrap()
}

/// An atomic on 64-bit numbers: operands at address 0, compare at 4096, old values to 8192 of node 0.
fn atomic(
    pair: &mut Pair,
    operation: AtomicOp,
    offset: u64,
    count: u32,
    fetch: bool,
) -> Result<OpId, PostError> {
    let node = &mut pair.nodes[0];
    let list = |address| SegmentList::one(Segment { address, bytes: 8 * u64::from(count) });
    let none = SegmentList::empty();
    let atomic = AtomicDescriptor {
        target: at(2, offset),
        endpoint: 0,
        operation,
        datatype: Datatype::Uint64,
        count,
        operands: if operation.has_operands() { list(0) } else { none },
        compare: operation.compares().then(|| list(4096)),
        fetch_into: fetch.then(|| list(8192)),
        context: 9,
    };
    node.firmware.post_atomic(pair.now, atomic, &mut node.memory)
}

fn number(pair: &Pair, node: usize, at: u64) -> u64 {
    let at = at as usize;
    u64::from_le_bytes(pair.nodes[node].memory.0[at..at + 8].try_into().unwrap())
}

fn set(pair: &mut Pair, node: usize, at: u64, value: u64) {
    let at = at as usize;
    pair.nodes[node].memory.0[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

fn sent(pair: &Pair, bytes: u64) -> &[u8] {
    &pair.nodes[0].memory.0[3..3 + bytes as usize]
}

fn placed(pair: &Pair, offset: u64, bytes: u64) -> &[u8] {
    let start = (HALF + offset) as usize;
    &pair.nodes[1].memory.0[start..start + bytes as usize]
}

/// Loses every `n`-th frame of both nodes that is not a hello.
/// One frame in `n` is lost. Not every n-th: exactly every second one can be each answer to the same frames for ever.
fn lossy(pair: &mut Pair, n: u64) {
    let mut x = n;
    pair.drop = Box::new(move |_, frame| {
        let (header, _) = Header::parse(frame).unwrap();
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        !header.kind.contact() && (x >> 33).is_multiple_of(n)
    });
}

fn only(pair: &Pair, node: usize) -> Completion {
    let done = &pair.nodes[node].done;
    assert_eq!(done.len(), 1, "{done:?}");
    done[0]
}

#[test]
fn puts_of_every_size_land_where_they_belong() {
    for profile in Profile::ALL {
        for bytes in [0, 1, 255, 1428, 1429, 1441, 20_000, 65_536, 65_537, 1 << 20] {
            let (mut pair, region) = exported(profile, Rights::REMOTE_WRITE);
            let before = placed(&pair, 76, 1).to_vec();
            let target = RemoteRegion { generation: region.generation, ..at(2, 77) };
            let op = put(&mut pair, target, bytes, None);
            assert_eq!(op.kind(), OpKind::Put);
            pair.run(Span::ms(500));
            let end = only(&pair, 0);
            assert_eq!((end.op, end.status, end.bytes), (op, Status::Ok, bytes), "{bytes}");
            assert_eq!((end.peer, end.match_bits), (NodeId(2), KEY));
            assert_eq!(placed(&pair, 77, bytes), sent(&pair, bytes), "{} {bytes}", profile.name);
            assert_eq!(placed(&pair, 76, 1), before);
            assert!(pair.nodes[1].done.is_empty(), "nobody there is told");
            pair.check_quiet();
        }
    }
}

/// `GET-2`.
#[test]
fn gets_of_every_size_bring_what_is_there() {
    for profile in Profile::ALL {
        for bytes in [0, 1, 255, 1428, 1468, 1469, 61_440, 61_441, 1 << 20] {
            let (mut pair, _) = exported(profile, Rights::REMOTE_READ);
            let op = get(&mut pair, at(2, 99), bytes);
            assert_eq!(op.kind(), OpKind::Get);
            pair.run(Span::ms(500));
            let end = only(&pair, 0);
            assert_eq!((end.op, end.status, end.bytes), (op, Status::Ok, bytes), "{bytes}");
            let here = (HALF + 5) as usize;
            let fetched = &pair.nodes[0].memory.0[here..here + bytes as usize];
            assert_eq!(fetched, placed(&pair, 99, bytes), "{} {bytes}", profile.name);
            pair.check_quiet();
        }
    }
}

/// Also where payloads are the carrier's to check: an atomic's operands count as fields, and are summed (`CRC-3`).
#[test]
fn what_is_lost_comes_again() {
    for (n, sums) in [2, 3, 7].into_iter().flat_map(|n| [(n, false), (n, true)]) {
        let link = LinkInfo { sums, ..LinkInfo::new(1500, true) };
        let (mut pair, _) = exported_over(Profile::ALL[0], Rights::BOTH, link);
        lossy(&mut pair, n);
        put(&mut pair, at(2, 0), 300_000, Some(5));
        get(&mut pair, at(2, 4 << 20), 300_000);
        set(&mut pair, 0, 0, 1);
        set(&mut pair, 1, HALF + HALF - 8, 100);
        for _ in 0..50 {
            atomic(&mut pair, AtomicOp::Sum, HALF - 8, 1, false).unwrap();
        }
        // Where every second frame is lost, losses leave one frame at a time, and many time-outs.
        pair.run(Span::ms(20_000));
        assert_eq!(pair.nodes[0].done.len(), 52);
        assert!(pair.nodes[0].done.iter().all(|end| end.status == Status::Ok));
        assert_eq!(placed(&pair, 1000, 290_000), &sent(&pair, 300_000)[1000..291_000]);
        let here = (HALF + 5) as usize;
        let fetched = &pair.nodes[0].memory.0[here..here + 300_000];
        assert_eq!(fetched, placed(&pair, 4 << 20, 300_000));
        assert_eq!(number(&pair, 1, HALF + HALF - 8), 150, "each once");
        let end = only(&pair, 1);
        assert_eq!((end.op.kind(), end.immediate, end.bytes), (OpKind::Notified, Some(5), 300_000));
    }
}

/// `REGION-2`, `GET-3`.
#[test]
fn every_refusal_has_its_status_and_its_counter() {
    let cases = [
        (Rights::BOTH, RemoteRegion { key: 1, ..at(2, 0) }, 8, Status::BadKey),
        (Rights::BOTH, RemoteRegion { generation: 99, ..at(2, 0) }, 8, Status::BadGeneration),
        (Rights::BOTH, at(2, HALF - 7), 8, Status::OutOfBounds),
        (Rights::BOTH, at(2, u64::MAX), 8, Status::OutOfBounds),
        (Rights::BOTH, at(2, HALF - 7), 200_000, Status::OutOfBounds),
        (Rights::NONE, at(2, 0), 8, Status::NoRights),
        (Rights::NONE, at(2, 0), 200_000, Status::NoRights),
        (Rights::BOTH, at(2, HALF + 1), 0, Status::OutOfBounds),
    ];
    for (rights, target, bytes, status) in cases {
        for is_get in [false, true] {
            let (mut pair, _) = exported(Profile::ALL[0], rights);
            let before = pair.nodes[1].memory.0.clone();
            let op = if is_get {
                get(&mut pair, target, bytes)
            } else {
                put(&mut pair, target, bytes, None)
            };
            pair.run(Span::ms(500));
            let end = only(&pair, 0);
            assert_eq!((end.op, end.status), (op, status), "{target:?} {bytes} {is_get}");
            assert!(pair.nodes[1].memory.0 == before, "nothing was written");
            let counters = pair.nodes[1].firmware.counters();
            let refused: u64 =
                counters.iter().filter(|(name, _)| name.starts_with("refused_")).map(|c| c.1).sum();
            assert!(refused > 0, "{counters:?}");
        }
    }
}

/// `ATOMIC-5`.
#[test]
fn atomics_need_the_rights_for_what_they_do() {
    let cases = [
        (Rights::REMOTE_WRITE, AtomicOp::Sum, false, Status::Ok),
        (Rights::REMOTE_WRITE, AtomicOp::Sum, true, Status::NoRights),
        (Rights::REMOTE_READ, AtomicOp::Read, true, Status::Ok),
        (Rights::REMOTE_READ, AtomicOp::Write, false, Status::NoRights),
        (Rights::REMOTE_READ, AtomicOp::Cswap, true, Status::NoRights),
        (Rights::BOTH, AtomicOp::Mswap, true, Status::Ok),
    ];
    for (rights, operation, fetch, status) in cases {
        let (mut pair, _) = exported(Profile::ALL[0], rights);
        let op = atomic(&mut pair, operation, 1, 3, fetch).unwrap();
        pair.run(Span::ms(500));
        let end = only(&pair, 0);
        assert_eq!((end.op, end.status), (op, status), "{operation:?} {fetch}");
        pair.check_quiet();
    }
}

/// `ATOMIC-4`.
#[test]
fn atomics_fetch_compare_and_swap() {
    let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
    let (place, odd) = (HALF + 13, 13);
    set(&mut pair, 1, place, 40);
    set(&mut pair, 0, 0, 2);
    let op = atomic(&mut pair, AtomicOp::Sum, odd, 1, true).unwrap();
    pair.run(Span::ms(100));
    assert_eq!((only(&pair, 0).op, only(&pair, 0).bytes), (op, 8));
    assert_eq!((number(&pair, 1, place), number(&pair, 0, 8192)), (42, 40));
    // Compare fails, then holds.
    for (compare, after) in [(41, 42), (42, 2)] {
        set(&mut pair, 0, 4096, compare);
        atomic(&mut pair, AtomicOp::Cswap, odd, 1, true).unwrap();
        pair.run(Span::ms(100));
        assert_eq!((number(&pair, 1, place), number(&pair, 0, 8192)), (after, 42));
    }
    atomic(&mut pair, AtomicOp::Read, odd, 1, true).unwrap();
    pair.run(Span::ms(100));
    assert_eq!(number(&pair, 0, 8192), 2);
    pair.check_quiet();
}

#[test]
fn atomics_fill_a_frame_and_no_more() {
    let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
    let most = pair.nodes[0].firmware.atomic_bytes_max() as u32 / 8;
    atomic(&mut pair, AtomicOp::Bxor, 0, most, true).unwrap();
    assert_eq!(atomic(&mut pair, AtomicOp::Bxor, 0, most + 1, true), Err(PostError::TooLong));
    assert_eq!(atomic(&mut pair, AtomicOp::Cswap, 0, most / 2 + 1, true), Err(PostError::TooLong));
    assert_eq!(atomic(&mut pair, AtomicOp::Sum, 0, 0, true), Err(PostError::Unsupported));
    atomic(&mut pair, AtomicOp::Read, 0, most, true).unwrap();
    pair.run(Span::ms(100));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Atomic), 2);
    assert_eq!(number(&pair, 0, 8192), number(&pair, 1, HALF));
    pair.check_quiet();
}

/// A peer with smaller frames: what fits ours may not fit its own, and nothing behind it is held up.
#[test]
fn an_atomic_too_long_for_the_peer_ends_with_an_error() {
    for fetch in [false, true] {
        let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
        pair.nodes[1].firmware = Firmware::new(Config {
            node: NodeId(2),
            epoch: 78,
            name: "n2".into(),
            profile: Profile::DEFAULT,
            links: vec![LinkInfo::new(256, true)],
            seed: 2,
        });
        let memory = Segment { address: HALF, bytes: HALF };
        let firmware = &mut pair.nodes[1].firmware;
        firmware.export_region(Some(KEY), memory, Rights::BOTH, 0).unwrap();
        atomic(&mut pair, AtomicOp::Sum, 0, 100, fetch).unwrap();
        put(&mut pair, at(2, 0), 1000, None);
        get(&mut pair, at(2, 0), 5000);
        pair.run(Span::ms(500));
        let ends: Vec<_> =
            pair.nodes[0].done.iter().map(|end| (end.op.kind(), end.status)).collect();
        assert!(ends.contains(&(OpKind::Atomic, Status::TooLong)), "{ends:?}");
        assert!(ends.contains(&(OpKind::Put, Status::Ok)), "{ends:?}");
        assert!(ends.contains(&(OpKind::Get, Status::Ok)), "{ends:?}");
        pair.check_quiet();
    }
}

/// What is posted after a put is not told before the put is there, whatever is lost (`PUT-4`).
#[test]
fn a_message_after_a_put_is_told_after_it() {
    for bytes in [1u64, 30_000, 400_000] {
        for lose in [None, Some(Kind::Data), Some(Kind::Put), Some(Kind::Block)] {
            let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
            pair.receive(1, Selector::ANY, 100);
            // One frame of that kind is lost, once.
            let mut left = 1;
            pair.drop = Box::new(move |_, frame| {
                let (header, _) = Header::parse(frame).unwrap();
                let hit = Some(header.kind) == lose && left > 0;
                left -= u32::from(hit);
                hit
            });
            // The receive's buffer is the region's start: the put goes elsewhere.
            put(&mut pair, at(2, 1 << 20), bytes, Some(1));
            pair.send(0, 2, 7, 100);
            while pair.nodes[1].done.len() < 2 {
                step(&mut pair);
                if !pair.nodes[1].done.is_empty() {
                    assert_eq!(placed(&pair, 1 << 20, bytes), sent(&pair, bytes), "{lose:?}");
                }
            }
            let kinds: Vec<_> = pair.nodes[1].done.iter().map(|end| end.op.kind()).collect();
            assert_eq!(kinds, [OpKind::Notified, OpKind::Receive], "{bytes} {lose:?}");
            pair.run(Span::ms(500));
            assert_eq!(ok(&pair.nodes[0].done, OpKind::Put), 1);
        }
    }
}

/// A program may poll the end of a put: nothing of it is there before all the rest is, whichever frames come late (`PUT-5`).
#[test]
fn a_puts_last_bytes_come_last() {
    for bytes in [65u64, 1_500, 6_000, 60_000, 400_000] {
        for backwards in [false, true] {
            for late in [Kind::Put, Kind::Data, Kind::Block] {
                let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
                pair.nodes[0].memory.0[..bytes as usize + 3].fill(0x11);
                pair.nodes[1].memory.0[HALF as usize..][..1 << 20].fill(0xEE);
                put(&mut pair, at(2, 5), bytes, None);
                // The first frame of that kind is lost, once; the others come as they are sent, or the last of them first.
                let mut left = 1;
                for _ in 0..20_000 {
                    let mut frames = frames_of(&mut pair, 0);
                    if backwards {
                        frames.reverse();
                    }
                    for frame in frames {
                        let lost = Header::parse(&frame).unwrap().0.kind == late && left > 0;
                        left -= u32::from(lost);
                        if lost {
                            continue;
                        }
                        give(&mut pair, 1, &frame);
                        let (rest, last) = placed(&pair, 5, bytes).split_at(bytes as usize - 1);
                        let early = last[0] == 0x11 && rest.contains(&0xEE);
                        assert!(!early, "{bytes} {backwards} {late:?}: the end before the rest");
                    }
                    for frame in frames_of(&mut pair, 1) {
                        give(&mut pair, 0, &frame);
                    }
                    pair.now = pair.now + Span::us(10);
                }
                pair.run(Span::ms(500));
                assert_eq!(only(&pair, 0).status, Status::Ok);
                assert_eq!(placed(&pair, 5, bytes), sent(&pair, bytes));
                pair.check_idle();
            }
        }
    }
}

/// `REGION-3`.
#[test]
fn nothing_is_written_after_a_region_was_removed() {
    for after in 0..60 {
        let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
        put(&mut pair, at(2, 0), 1 << 20, Some(1));
        get(&mut pair, at(2, 2 << 20), 1 << 20);
        for _ in 0..after {
            step(&mut pair);
        }
        let early = pair.nodes[0].done.len();
        assert!(pair.nodes[1].firmware.remove_region(pair.now, KEY));
        assert!(!pair.nodes[1].firmware.remove_region(pair.now, KEY));
        pair.nodes[1].memory.0[HALF as usize..].fill(0xEE);
        pair.run(Span::ms(500));
        assert!(placed(&pair, 0, HALF).iter().all(|byte| *byte == 0xEE), "after {after}");
        let done = &pair.nodes[0].done;
        assert_eq!(done.len(), 2, "after {after}");
        let late = done[early..].iter().filter(|end| end.status != Status::BadKey).count();
        // What had been answered before may still be on its way.
        assert!(late <= 2 && (after > 2 || late == 0), "after {after}: {done:?}");
        for node in &pair.nodes {
            let (free, all) = node.firmware.pool_slots();
            assert_eq!(free, all);
            assert!(node.firmware.is_drained());
        }
    }
}

#[test]
fn operations_on_oneself_need_no_wire() {
    let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
    let memory = Segment { address: HALF, bytes: HALF };
    let region = pair.nodes[0].firmware.export_region(None, memory, Rights::BOTH, 0).unwrap();
    let here = RemoteRegion { key: region.key, ..at(1, 2 << 20) };
    put(&mut pair, here, 500_000, Some(3));
    pair.run(Span::ms(100));
    let start = (HALF + (2 << 20)) as usize;
    assert!(pair.nodes[0].memory.0[start..start + 500_000] == *sent(&pair, 500_000));
    get(&mut pair, here, 500_000);
    pair.run(Span::ms(100));
    let start = HALF as usize + 5;
    assert!(pair.nodes[0].memory.0[start..start + 500_000] == *sent(&pair, 500_000));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Notified), 1);
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Put), 1);
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Get), 1);
    assert_eq!(pair.frames, 0);
    pair.check_quiet();
}

/// A host that takes no notifications holds up those who send them, and its memory does not grow (`PUT-3`).
#[test]
fn notifications_are_bounded() {
    let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
    let most = limits::NOTIFICATIONS_MAX;
    for _ in 0..most + 100 {
        put(&mut pair, at(2, 0), 1, Some(8));
    }
    // The target's host does not look.
    let mut batch = TransmitBatch::new(1500);
    for _ in 0..20_000 {
        for i in 0..2 {
            batch.clear();
            let node = &mut pair.nodes[i];
            node.firmware.handle_timeout(pair.now, &mut node.memory);
            node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
            for k in 0..batch.frames().len() {
                let bytes = batch.inline(k).to_vec();
                crate::common::give(&mut pair, 1 - i, &bytes);
            }
        }
        while let Some(end) = pair.nodes[0].firmware.poll_completion() {
            pair.nodes[0].done.push(end);
        }
        pair.now = pair.now + Span::us(10);
    }
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Put), most, "the others wait");
    pair.run(Span::ms(2_000));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Put), most + 100);
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Notified), most + 100);
}

#[test]
fn a_lost_peer_ends_everything() {
    let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
    put(&mut pair, at(2, 0), 1 << 20, None);
    get(&mut pair, at(2, 0), 1 << 20);
    atomic(&mut pair, AtomicOp::Sum, 0, 1, true).unwrap();
    atomic(&mut pair, AtomicOp::Sum, 0, 1, false).unwrap();
    for _ in 0..3 {
        step(&mut pair);
    }
    pair.drop = Box::new(|_, _| true);
    // Posted to a silent peer, and to one that was never there.
    get(&mut pair, at(2, 0), 10);
    get(&mut pair, at(77, 0), 10);
    pair.run(Span::ms(60_000));
    let done = &pair.nodes[0].done;
    assert_eq!(done.len(), 6, "{done:?}");
    let never_met = |end: &&Completion| end.peer == NodeId(77);
    assert_eq!(done.iter().find(never_met).map(|end| end.status), Some(Status::NotFound));
    let mut met = done.iter().filter(|end| !never_met(end));
    assert!(met.all(|end| matches!(end.status, Status::Unreachable | Status::Ok)));
    assert!(done.iter().filter(|end| end.status == Status::Ok).count() <= 2);
    for node in &pair.nodes {
        let (free, all) = node.firmware.pool_slots();
        assert_eq!(free, all);
        assert_eq!(node.firmware.poll_timeout(), None);
    }
}

#[test]
fn posts_that_cannot_be_are_refused() {
    let (mut pair, _) = exported(Profile::ALL[0], Rights::BOTH);
    let node = &mut pair.nodes[0];
    let put = |endpoint, to, bytes, completion| PutDescriptor {
        target: at(to, 0),
        endpoint,
        segments: SegmentList::one(Segment { address: 0, bytes }),
        immediate: None,
        completion,
        context: 0,
    };
    let auto = CompletionMode::Auto;
    let mut post = |put| node.firmware.post_put(Time(1), put, &mut node.memory).map(drop);
    assert_eq!(post(put(9, 2, 1, auto)), Err(PostError::NoEndpoint));
    assert_eq!(post(put(0, 0, 1, auto)), Err(PostError::NoDestination));
    assert_eq!(post(put(0, 2, 5000, CompletionMode::Buffered)), Err(PostError::TooLong));
    assert_eq!(post(put(0, 2, 500, CompletionMode::Buffered)), Ok(()));
    // The copy counts, not what becomes of the buffer.
    let copy = node.memory.0[..500].to_vec();
    node.memory.0[..500].fill(0);
    pair.run(Span::ms(100));
    assert_eq!(placed(&pair, 0, 500), copy);
    let firmware = &mut pair.nodes[0].firmware;
    firmware.close(Time(2));
    let memory = Segment::default();
    assert_eq!(firmware.export_region(None, memory, Rights::BOTH, 0), Err(PostError::Closing));
}
