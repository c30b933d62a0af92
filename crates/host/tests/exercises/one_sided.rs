//! Regions, puts, gets and atomics between two nodes, whatever their boards.

use std::time::{Duration, Instant};

use emp_host::{
    AtomicOp, Endpoint, Failed, Node, PostError, PutOptions, RefusedReason, Region, RegionOptions,
    RemoteRegion, Request, Rights, Status, WaitError,
};

use crate::pairs::{LONG, Pair, both, pattern};

/// Around every boundary.
const SIZES: [usize; 8] = [0, 1, 32, 1400, 1500, 9000, 65_537, 2 << 20];

/// Memory of zeros.
pub fn export(node: &Node, bytes: usize) -> Region {
    node.export(vec![0; bytes]).unwrap()
}

/// Elsewhere in a region.
pub fn at(target: RemoteRegion, offset: u64) -> RemoteRegion {
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
pub fn reach(a: &Endpoint, region: &Region) {
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

/// What is not allowed fails with its reason.
pub fn refusals(pair: &Pair) {
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

/// Exports that are refused come back with their memory.
pub fn refused_exports(pair: &Pair) {
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

/// Notifications come after the bytes.
pub fn notifications(pair: &Pair) {
    let (a, b) = pair.endpoints();
    let region = export(&pair.b, 3 << 20);
    let target = RemoteRegion { to_endpoint: 1, ..region.remote() };
    let notifications = b.notifications();
    assert_eq!(notifications.poll(), None);
    let key = region.id().key;
    both(
        pair,
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

/// Whoever notifies faster than the application looks is held back beyond so many, and nothing is lost.
pub fn held_back(pair: &Pair, most: u64) {
    let (a, b) = pair.endpoints();
    let region = export(&pair.b, 8);
    let target = RemoteRegion { to_endpoint: 1, ..region.remote() };
    let notifications = b.notifications();
    let options = PutOptions::default();
    let post = |nth| loop {
        match a.put_with(target, vec![1; 8], options.notify(nth)) {
            Ok(put) => break put,
            Err(refused) => assert_eq!(refused.reason, RefusedReason::Firmware(PostError::Busy)),
        }
        pair.a.progress();
    };
    let mut puts: Vec<_> = (0..most + 500).map(post).collect();
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

/// A region that is taken back ends what is under way in it.
pub fn taken_back(pair: &Pair) {
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
