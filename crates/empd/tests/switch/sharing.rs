//! What clients take from each other: no more than their share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emp_link::{Fabric, Link, LinkAddress};
use empd::switch::rates::Rate;

use crate::frames::{frame, send};
use crate::hostile::Verify;
use crate::service::{PATIENCE, Service, Setup};

const FLOOD: u32 = 0x2E2F_0003;

/// One client floods the wire and another's ring; frames between two others come all, and as they were sent.
#[test]
fn a_flood_loses_nobody_elses_frames() {
    let fabric = Fabric::new(2).expect("descriptors");
    let service = Service::start(Setup::sim(&fabric, 0));
    let mut verify = Verify::new(&service);
    let victim = service.client(0x3333_0000);
    let mut flood = service.client(FLOOD);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let bytes = frame(FLOOD, 0x3333_0000, 1, 0);
            for to in [[2, 0, 0, 0, 0, 0], [2, 0, 0, 0, 0, 1]].into_iter().cycle() {
                if over.load(Ordering::Acquire) {
                    return;
                }
                send(&mut flood, LinkAddress::mac(to), &bytes);
            }
        });
        let (since, mut rounds) = (Instant::now(), 0);
        while rounds < 300 || victim.statistics().receive_lost == 0 {
            verify.round();
            rounds += 1;
            assert!(since.elapsed() < PATIENCE, "the flood is none");
        }
        over.store(true, Ordering::Release);
    });
    verify.is_clean();
}

/// A user's clients send no faster than the user may, together; another's are free.
#[test]
fn a_users_rate_is_its_clients() {
    let fabric = Fabric::new(1).expect("descriptors");
    let rate = Rate { bytes_per_second: 400_000, burst_bytes: 20_000 };
    let service = Service::start(Setup {
        rate: Box::new(move |user| (user == 1000).then_some(rate)),
        users: vec![1, 1, 1000, 1000],
        ..Setup::sim(&fabric, 0)
    });
    let mut verify = Verify::new(&service);
    let mut slow = [0x3333_0000, 0x4444_0000].map(|tag| (tag, service.client(tag)));
    let (start, mut cost) = (Instant::now(), 0);
    // More than both rings hold, so that what was sent was let out.
    for number in 0..600 {
        for (tag, link) in &mut slow {
            let bytes = frame(*tag, *tag, number, 1000);
            cost += bytes.len() as u64 + 1024;
            send(link, LinkAddress::mac([2, 0, 0, 0, 0, 0]), &bytes);
        }
        if number % 10 == 0 {
            verify.round();
        }
    }
    // What the rings hold has not been let out yet.
    let held = 2 * (256 << 10) * 2;
    let least = (cost - held - rate.burst_bytes) as f64 / rate.bytes_per_second as f64;
    let took = start.elapsed();
    let counts = slow.each_ref().map(|(_, link)| link.statistics());
    assert!(took >= Duration::from_secs_f64(least), "{took:?}, not {least} s: {counts:?}");
    verify.is_clean();
}
