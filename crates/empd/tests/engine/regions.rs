//! Memory of programs that others reach, whose engines are in the service: while they look, compute, are stopped, or are gone.

use std::time::{Duration, Instant};

use emp_host::{
    AtomicOp, Endpoint, PostError, RegionOptions, RemoteRegion, Rights, Segment, Status, WaitError,
};

use crate::common::child::Child;
use crate::exercises::one_sided::{
    at, export, held_back, notifications, reach, refusals, refused_exports, taken_back,
};
use crate::pairs::Pair;
use crate::{LONG, Place, on, pattern};

fn pair(socket: &std::path::Path) -> Pair {
    let (a, b) = crate::pair(socket);
    Pair { a, b }
}

#[test]
fn memory_of_programs_of_one_service_is_reached() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let pair = pair(&socket);
        let a = pair.a.endpoint(1).expect("opens");
        reach(&a, &export(&pair.b, 4 << 20));
        reach(&a, &export(&pair.a, 4 << 20));
    });
}

#[test]
fn memory_is_reached_to_and_from_another_host() {
    let Some(place) = Place::new() else { return };
    let (there, here) = place.elsewhere_and_here();
    let (a, b) = (here.endpoint(1).expect("opens"), there.endpoint(1).expect("opens"));
    here.find("b", LONG).expect("it answers");
    reach(&a, &export(&there, 4 << 20));
    reach(&b, &export(&here, 4 << 20));
}

#[test]
fn what_is_not_allowed_fails_as_on_other_boards() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        refusals(&pair(&socket));
        refused_exports(&pair(&socket));
        taken_back(&pair(&socket));
    });
}

#[test]
fn notifications_come_after_the_bytes_and_hold_their_senders_back() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        notifications(&pair(&socket));
        // As many as wait at an engine (`NOTIFICATIONS_MAX`).
        held_back(&pair(&socket), 16_384);
    });
}

/// Puts, gets and atomics of others go on in the memory of a program that does not run.
#[test]
fn the_memory_of_a_program_that_is_stopped_is_served() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let b = on(&socket, "b").start().expect("anyone may");
        let to_a = b.endpoint(1).expect("opens");
        let child = Child::start(|| {
            let a = on(&socket, "a").start().expect("anyone may");
            let endpoint = a.endpoint(1).expect("opens");
            let options = RegionOptions { key: Some(7), ..RegionOptions::default() };
            let region = a.export_with(pattern(1 << 20, 1), options).expect("anyone may");
            endpoint.send_wait(("b", 1), 1, "here", LONG).expect("it goes");
            // SAFETY: stops this process.
            unsafe { libc::raise(libc::SIGSTOP) };
            let all = region.to_vec(0, 1 << 20);
            endpoint.send_wait(("b", 1), 2, all, LONG).expect("it goes");
        });
        crate::fates::receive(&to_a, 1, 4);
        child.await_stop();
        let target = RemoteRegion {
            to: emp_host::NodeId::from_name("a"),
            to_endpoint: 1,
            key: 7,
            generation: 0,
            offset: 0,
        };
        let got = to_a.get(target, vec![0; 1 << 20]).expect("posted").wait(LONG).expect("served");
        assert!(got.buffer == pattern(1 << 20, 1));
        let put = to_a.put(at(target, 1000), pattern(300_000, 2)).expect("posted");
        put.wait(LONG).expect("served");
        let sum = to_a.atomic(at(target, 0), AtomicOp::Write, &[77u64]).expect("posted");
        sum.wait(LONG).expect("served");
        assert_eq!(
            to_a.fetch_add(target, 3u64)
                .expect("posted")
                .wait(LONG)
                .expect("served")
                .buffer
                .first(),
            77
        );
        child.signal(libc::SIGCONT);
        let all = crate::fates::receive(&to_a, 2, 1 << 20);
        assert_eq!(all[..8], 80u64.to_le_bytes());
        assert!(all[1000..301_000] == pattern(300_000, 2), "what was put is there");
        assert!(all[301_000..] == pattern(1 << 20, 1)[301_000..], "and nothing else");
    });
}

/// A node that says nothing is given up after 10 s. The service is told by the kernel when a program has ended, and goes on with what that has handed
/// over for a second.
const BY_SILENCE: Duration = Duration::from_secs(6);

/// A program that is killed while others reach for its memory: they are told, and the service has let go of it.
#[test]
fn a_program_that_is_killed_amid_puts_and_gets_is_an_error_to_others() {
    let Some(mut place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let pair = pair(&socket);
        let b = pair.b.endpoint(1).expect("opens");
        let other = export(&pair.a, 100_000);
        for round in 0..3u64 {
            let child = Child::start(|| {
                let c = on(&socket, "c").start().expect("its predecessor makes way");
                let endpoint = c.endpoint(1).expect("opens");
                let options = RegionOptions { key: Some(7), ..RegionOptions::default() };
                let _region = c.export_with(vec![1; 8 << 20], options).expect("anyone may");
                endpoint.send_wait(("b", 1), 1, "here", LONG).expect("it goes");
                loop {
                    // Amid puts and gets of its own, too.
                    if let Ok(put) = endpoint.put(other.remote(), vec![2; 100_000]) {
                        let _ = put.wait(LONG);
                    }
                    if let Ok(get) = endpoint.get(other.remote(), vec![2; 100_000]) {
                        let _ = get.wait(LONG);
                    }
                }
            });
            crate::fates::receive(&b, 1, 4);
            let to = emp_host::NodeId::from_name("c");
            let target = RemoteRegion { to, to_endpoint: 1, key: 7, generation: 0, offset: 0 };
            let put = b.put(target, vec![3; 8 << 20]).expect("posted");
            let get = b.get(target, vec![3; 8 << 20]).expect("posted");
            std::thread::sleep(Duration::from_millis(2 * round));
            child.signal(libc::SIGKILL);
            let killed = Instant::now();
            for ended in [put.wait(LONG), get.wait(LONG)] {
                assert!(!matches!(ended, Err(WaitError::TimedOut(_))), "round {round}: no end");
            }
            assert!(killed.elapsed() < BY_SILENCE, "round {round}: {:?}", killed.elapsed());
            drop(child);
            let sum = b.fetch_add(other.remote(), 1u64).expect("posted");
            sum.wait(LONG).expect("others are undisturbed");
        }
    });
    assert!(place.service.is_up());
}

/// What is not there any more, or was not to be written to, is an error to whoever reaches for it.
#[test]
fn memory_that_goes_away_is_an_error() {
    let Some(place) = Place::new() else { return };
    place.as_nobody(|socket| {
        let pair = pair(&socket);
        let (a, b) = pair.endpoints();
        let page = 4096;
        // SAFETY: new memory of our own; of its pages the second goes again, and the third is not written to.
        let address = unsafe {
            let (any, private) = (std::ptr::null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            let at = libc::mmap(any, 3 * page, libc::PROT_READ | libc::PROT_WRITE, private, -1, 0);
            assert_ne!(at, libc::MAP_FAILED);
            at.expose_provenance()
        };
        let memory = Segment { address: address as u64, bytes: 3 * page as u64 };
        // SAFETY: others may do with it what they want; nobody of this process uses it.
        let region = unsafe { b.export_region_raw(None, memory, Rights::BOTH) }.expect("exported");
        assert!(b.set_region_base_raw(region.key, memory.address));
        // SAFETY: see above.
        unsafe {
            let at = std::ptr::with_exposed_provenance_mut::<libc::c_void>(address);
            assert_eq!(libc::munmap(at.byte_add(page), page), 0);
        }
        let to = pair.b.id();
        let at = |pages: usize| RemoteRegion {
            to,
            to_endpoint: 1,
            key: region.key,
            generation: region.generation,
            offset: memory.address + (pages * page) as u64,
        };
        let status = |ended: Result<_, WaitError<Vec<u8>>>| match ended {
            Ok(_) => Status::Ok,
            Err(WaitError::Failed(failed)) => failed.error.status(),
            Err(WaitError::TimedOut(_)) => panic!("no end"),
        };
        let put = |to| status(a.put(to, vec![9; page]).expect("posted").wait(LONG));
        let get = |to| status(a.get(to, vec![9; page]).expect("posted").wait(LONG));
        assert_eq!((put(at(0)), get(at(0))), (Status::Ok, Status::Ok));
        assert_eq!((put(at(1)), get(at(1))), (Status::MemoryFault, Status::MemoryFault));
        assert_eq!((put(at(2)), get(at(2))), (Status::Ok, Status::Ok));
        assert!(b.remove_region_raw(region.key) && !b.remove_region_raw(region.key));
        assert_eq!(put(at(0)), Status::BadKey);
        windows_are_refused(&b, memory);
    });
}

fn windows_are_refused(endpoint: &Endpoint, memory: Segment) {
    // SAFETY: it is not exported.
    let refused = unsafe { endpoint.export_window_raw(None, memory) };
    assert_eq!(refused.err(), Some(PostError::NotOnBoard));
}
