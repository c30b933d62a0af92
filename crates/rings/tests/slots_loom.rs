//! Every order of memory accesses that the ring of slots between threads allows, by loom. Built only with `--cfg loom` (`make loom`): the
//! ring's own words and slots are loom's then, and touching a slot that the other end may touch fails the test.
#![cfg(loom)]

use emp_rings::slot_ring;
use loom::sync::{Arc, Notify};
use loom::thread;

/// What was filled comes once and in order, also where slots are filled again.
#[test]
fn slots_come_once_and_in_order() {
    // All orders were tried once and take over a minute; those in which a thread is interrupted three times at most take seconds.
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(3);
    orders.check(|| {
        let (mut from, mut to) = slot_ring::<u32>(2);
        let filler = thread::spawn(move || {
            for number in 1..=3 {
                while from.fill(|slot| *slot = number).is_none() {
                    thread::yield_now();
                }
                from.publish();
            }
        });
        let mut next = 1;
        while next <= 3 {
            let ready = to.ready();
            for place in 0..ready {
                assert_eq!(to.get(place), Some(&next));
                next += 1;
            }
            to.release(ready);
            if ready == 0 {
                thread::yield_now();
            }
        }
        assert_eq!(to.take(|_| ()), None);
        filler.join().expect("it ends");
    });
}

/// Slots that were filled together are handed over together.
#[test]
fn what_is_published_is_whole() {
    loom::model(|| {
        let (mut from, mut to) = slot_ring::<u32>(2);
        let filler = thread::spawn(move || {
            from.fill(|slot| *slot = 7);
            from.fill(|slot| *slot = 8);
            from.publish();
        });
        let ready = to.ready();
        assert!(ready == 0 || ready == 2);
        assert_eq!(to.get(1).copied(), (ready == 2).then_some(8));
        filler.join().expect("it ends");
    });
}

/// A consumer that goes to sleep is woken for all that it did not see before; if it were not, loom would report that nobody can go on.
#[test]
fn no_wakeup_is_lost() {
    loom::model(|| {
        let (mut from, mut to) = slot_ring::<u32>(2);
        let bell = Arc::new(Notify::new());
        let rings = Arc::clone(&bell);
        let filler = thread::spawn(move || {
            for number in 1..=2 {
                assert!(from.fill(|slot| *slot = number).is_some());
                from.publish();
                if from.must_wake() {
                    rings.notify();
                }
            }
        });
        let mut next = 1;
        while next <= 2 {
            if let Some(number) = to.take(|slot| *slot) {
                assert_eq!(number, next);
                next += 1;
            } else if !to.arm() {
                bell.wait();
                to.disarm();
            } else {
                to.disarm();
            }
        }
        filler.join().expect("it ends");
    });
}
