//! Every order of memory accesses in which a piece of work is offered, taken back, run and waited for, by loom: what it borrows is touched by one
//! thread at a time, and it is run once. Built only with `--cfg loom` (`make loom`).
#![cfg(loom)]

use emp_rings::{Pieces, slot_ring};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;

/// What pieces borrow: as `Second::beside` has it on its stack.
struct Work {
    pieces: Pieces,
    stop: AtomicBool,
    borrowed: UnsafeCell<u32>,
}

/// Offers `count` pieces, each of which adds one; those that `takes_back` says are taken back if nobody has begun them.
fn offers_and_runs(count: u64, takes_back: impl Fn(u64) -> bool + Send + Sync + Copy + 'static) {
    let mut orders = loom::model::Builder::new();
    orders.preemption_bound = Some(3);
    orders.check(move || {
        let work = Arc::new(Work {
            pieces: Pieces::default(),
            stop: AtomicBool::new(false),
            borrowed: UnsafeCell::new(0),
        });
        let (mut given, mut taken) = slot_ring::<u64>(2);
        let other = {
            let work = Arc::clone(&work);
            thread::spawn(move || {
                while !work.stop.load(Ordering::Acquire) {
                    let Some(number) = taken.take(|slot| *slot) else {
                        thread::yield_now();
                        continue;
                    };
                    if work.pieces.begin(number) {
                        work.borrowed.with_mut(|of| unsafe { *of += 1 });
                        work.pieces.finish(number);
                    }
                }
            })
        };
        for number in 1..=count {
            assert!(given.fill(|slot| *slot = number).is_some(), "the ring has room for all");
            given.publish();
            if takes_back(number) && work.pieces.begin(number) {
                work.borrowed.with_mut(|of| unsafe { *of += 1 });
            } else {
                while !work.pieces.is_done(number) {
                    thread::yield_now();
                }
            }
            // It is over: what it borrowed is ours again.
            let ran = work.borrowed.with(|of| unsafe { *of });
            assert_eq!(u64::from(ran), number, "each once");
        }
        work.stop.store(true, Ordering::Release);
        other.join().expect("it ends");
    });
}

#[test]
fn a_piece_that_is_waited_for_is_over_then() {
    offers_and_runs(2, |_| false);
}

#[test]
fn a_piece_that_either_may_run_is_run_by_one() {
    offers_and_runs(2, |_| true);
}

#[test]
fn one_that_was_taken_back_is_not_run_with_the_next() {
    offers_and_runs(2, |number| number == 1);
}
