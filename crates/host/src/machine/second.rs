//! A second processor: a thread that runs what it is given, one piece of work at a time, while who gave it does something else. Between the
//! two are a ring of slots, by which work is given, and words: which piece was begun, and which is done ([`Pieces`]).
//!
//! # Invariant
//!
//! A piece of work is a closure on the stack of [`Second::beside`]. Whoever begins its number runs it, so one thread does, once.
//! `beside` neither returns nor unwinds before the piece is done, or has been begun by `beside` itself; so what it borrows outlives it. The
//! thread looks at a piece's closure only after it has begun it: one that was taken back is a number to it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emp_rings::{Pieces, SlotConsumer, SlotProducer, Worked, slot_ring};

use crate::machine::{processors, signals};

/// Pieces that were taken back, and which the thread has not passed over yet: more are not given until it has.
const WORKS: usize = 64;

/// Looks between two offers of the core to others: some microseconds.
const LOOKS: u32 = 256;

/// A piece of work.
#[derive(Clone, Copy)]
struct Work {
    number: u64,
    run: unsafe fn(*mut ()),
    of: *mut (),
}

// SAFETY: whoever runs it has it alone (module invariant), and what is given by `beside` is `Send`.
unsafe impl Send for Work {}

impl Default for Work {
    fn default() -> Self {
        Self { number: 0, run: |_| (), of: std::ptr::null_mut() }
    }
}

#[derive(Default)]
struct Words {
    pieces: Pieces,
    /// What the thread has worked, and who gives it work has waited for it.
    worked: Arc<Worked>,
    waits: Worked,
    /// Work has panicked.
    broken: AtomicBool,
    stop: AtomicBool,
}

impl Words {
    fn wait(&self, number: u64) {
        let mut looks = 0;
        while !self.pieces.is_done(number) {
            pause(&mut looks);
        }
    }
}

/// Between two looks: offers the core to others now and then.
pub(crate) fn pause(looks: &mut u32) {
    *looks = looks.wrapping_add(1);
    if looks.is_multiple_of(LOOKS) {
        std::thread::yield_now();
    } else {
        std::hint::spin_loop();
    }
}

/// The thread, as who gives it work has it.
pub(crate) struct Second {
    given: SlotProducer<Work>,
    words: Arc<Words>,
    thread: Option<JoinHandle<()>>,
    /// The process that it runs in: a fork's child has no such thread.
    process: u32,
    number: u64,
}

/// Work that was given, until it is over.
struct Given<'a> {
    words: &'a Words,
    number: u64,
    over: bool,
}

impl Drop for Given<'_> {
    fn drop(&mut self) {
        // Unwinding: nobody is to run it any more, or it was run.
        if !self.over && !self.words.pieces.begin(self.number) {
            self.words.wait(self.number);
        }
    }
}

/// Runs a closure, if it was not run yet.
///
/// # Safety
///
/// `of` is a valid pointer to an `Option<F>`, which nothing else uses meanwhile.
unsafe fn run<F: FnOnce()>(of: *mut ()) {
    // SAFETY: as the caller promises.
    let work = unsafe { &mut *of.cast::<Option<F>>() };
    if let Some(work) = work.take() {
        work();
    }
}

impl Second {
    /// Starts it, on this CPU if one is given. With nothing to do it looks for so long before it sleeps; `None`: for ever.
    ///
    /// # Errors
    ///
    /// The system refuses a thread, or the CPU.
    pub(crate) fn start(look_for: Option<Duration>, cpu: Option<usize>) -> io::Result<Self> {
        let (given, taken) = slot_ring(WORKS);
        let words = Arc::<Words>::default();
        let moved = cpu.map(processors::Visit::to).transpose()?;
        let thread = std::thread::Builder::new().name("emp-second".into());
        let of = Arc::clone(&words);
        let thread = signals::blocked(|| thread.spawn(move || serve(taken, &of, look_for)));
        drop(moved);
        let process = std::process::id();
        Ok(Self { given, words, thread: Some(thread?), process, number: 0 })
    }

    /// Runs `mine` here and `other` on the thread, at the same time. With `either`, `other` runs here if the thread has not begun it by when `mine`
    /// is done.
    ///
    /// # Panics
    ///
    /// If either panics.
    pub(crate) fn beside<F: FnOnce() + Send>(
        &mut self,
        mine: impl FnOnce(),
        other: F,
        either: bool,
    ) {
        let mut other = Some(other);
        let number = self.number + 1;
        let work = Work { number, run: run::<F>, of: (&raw mut other).cast() };
        if self.given.fill(|slot| *slot = work).is_none() {
            // The thread has not had a turn for long.
            mine();
            // SAFETY: a pointer to what is above, of which nobody else knows.
            return unsafe { run::<F>(work.of) };
        }
        self.number = number;
        let mut given = Given { words: &self.words, number, over: false };
        self.given.publish();
        if self.given.must_wake() {
            self.wake();
        }
        mine();
        if either && given.words.pieces.begin(number) {
            given.over = true;
            // SAFETY: a pointer to what is above, and this thread is the one that has begun it (module invariant).
            unsafe { run::<F>(work.of) };
            return;
        }
        if !given.words.pieces.is_done(number) {
            given.words.waits.during(|| given.words.wait(number));
        }
        given.over = true;
        assert!(!given.words.broken.load(Ordering::Acquire), "work on the second thread panicked");
    }

    /// What the thread has worked.
    pub(crate) fn worked(&self) -> Arc<Worked> {
        Arc::clone(&self.words.worked)
    }

    /// What was waited for it.
    pub(crate) fn waits(&self) -> &Worked {
        &self.words.waits
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

impl Drop for Second {
    fn drop(&mut self) {
        self.words.stop.store(true, Ordering::Release);
        self.wake();
        if let Some(thread) = self.thread.take()
            && self.process == std::process::id()
        {
            let _ = thread.join();
        }
    }
}

/// The thread's work.
fn serve(mut given: SlotConsumer<Work>, words: &Words, look_for: Option<Duration>) {
    let (mut looks, mut idle_since) = (0, None);
    while !words.stop.load(Ordering::Acquire) {
        let Some(work) = given.take(|slot| *slot) else {
            let idle_since = idle_since.get_or_insert_with(Instant::now);
            pause(&mut looks);
            // A clock is read as seldom as the core is offered.
            let is_over = |most| idle_since.elapsed() >= most;
            if looks.is_multiple_of(LOOKS) && look_for.is_some_and(is_over) {
                if !given.arm() && !words.stop.load(Ordering::Acquire) {
                    std::thread::park();
                }
                given.disarm();
            }
            continue;
        };
        idle_since = None;
        if !words.pieces.begin(work.number) {
            continue;
        }
        // SAFETY: this thread has begun it, so it is valid and nobody else's (module invariant).
        let run = || catch_unwind(AssertUnwindSafe(|| unsafe { (work.run)(work.of) }));
        let ran = words.worked.during(run);
        if ran.is_err() {
            words.broken.store(true, Ordering::Release);
        }
        words.pieces.finish(work.number);
    }
}

#[cfg(test)]
mod tests {
    use std::thread::current;

    use super::*;

    #[test]
    fn each_piece_is_run_once_and_over_before_the_next() {
        for look_for in [Some(Duration::ZERO), Some(Duration::from_micros(100)), None] {
            let mut second = Second::start(look_for, None).unwrap();
            let (mut mine, mut others, mut here) = (0u64, 0u64, 0);
            let caller = current().id();
            for round in 0..if cfg!(miri) { 50 } else { 5_000 } {
                let either = round % 3 == 0;
                let other = || {
                    others += round;
                    here += u32::from(current().id() == caller);
                };
                second.beside(|| mine += round, other, either);
                assert_eq!(mine, others, "round {round}");
                assert!(either || here == 0 || round > 0);
                if round % 500 == 7 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }

    #[test]
    fn where_it_must_run_there_it_does() {
        let mut second = Second::start(Some(Duration::ZERO), None).unwrap();
        let caller = current().id();
        for _ in 0..100 {
            let mut ran_by = None;
            second.beside(|| (), || ran_by = Some(current().id()), false);
            assert!(ran_by.is_some_and(|thread| thread != caller));
        }
    }

    #[test]
    fn panics_of_either_reach_who_gave_the_work_and_nothing_is_left_running() {
        let mut second = Second::start(None, None).unwrap();
        for either in [false, true] {
            let mut ran = 0;
            let both = || second.beside(|| panic!("mine"), || ran += 1, either);
            assert!(catch_unwind(AssertUnwindSafe(both)).is_err());
            assert!(ran <= 1);
        }
        let other = || second.beside(|| (), || panic!("other"), false);
        assert!(catch_unwind(AssertUnwindSafe(other)).is_err());
    }
}
