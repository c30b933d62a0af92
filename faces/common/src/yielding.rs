//! Giving the core away when there is nothing to read.
//!
//! Programs spin on calls that only look, as an MPI library does on its completion queues. With more ranks than cores, what a rank spins for cannot happen before
//! it gives its core up; left to the scheduler, that takes milliseconds for each message.
//!
//! Not where several threads look by turns: they have a lock of their own around these calls, which the one that gives its core away keeps. The others then
//! run into it and sleep, and are to be woken one by one. Such programs give their cores away themselves, without the lock.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Empty looks after which the core is offered to others, as long as nobody takes it: about 20 µs, of which the call
/// costs one part in fifty.
const PATIENCE_MAX: u32 = 256;

/// Once others have taken the core: each such look holds up the rank that is waited for.
const PATIENCE_CROWDED: u32 = 1;

/// An offer that took longer was taken: the call alone is below a microsecond.
const TAKEN: Duration = Duration::from_micros(3);

/// Taken offers in a row, with nothing found, after which a rank naps as well: it has waited for milliseconds, and each time
/// that it looks others wait for the core.
const NAP_AFTER: u32 = 500;
const NAP_MIN: Duration = Duration::from_micros(50);
/// Doublings of the nap, and the looks for each: 400 µs at most, which is what a rank that was idle for so long may be late.
const NAP_DOUBLINGS: u32 = 3;
const LOOKS_PER_DOUBLING: u32 = 100;

/// How an object that is looked at again and again deals with empty looks. Its numbers guide; that threads mix them up does no harm.
pub struct Yielding {
    empty: AtomicU32,
    patience: AtomicU32,
    /// Offers that were taken since something was found; halved by one that was not.
    crowded: AtomicU32,
}

impl Default for Yielding {
    fn default() -> Self {
        Self {
            empty: AtomicU32::new(0),
            patience: AtomicU32::new(PATIENCE_MAX),
            crowded: AtomicU32::new(0),
        }
    }
}

/// How long threads count as looking by turns after one has looked after another: such threads take turns every few microseconds.
const BY_TURNS: Duration = Duration::from_millis(1);

/// The thread of this process that looked last.
static LOOKER: AtomicUsize = AtomicUsize::new(0);

/// What is known of a thread that looks at queues.
#[derive(Default)]
struct Looker {
    /// Of all queues that it looks at in turn: that one of them is empty says nothing of the others.
    all: Yielding,
    /// It has looked before. That others looked before a thread's first look makes no turns yet.
    looked: Cell<bool>,
    /// Others have looked between two looks of its own; until when it looks by turns with them.
    others: Cell<bool>,
    by_turns: Cell<Option<Instant>>,
}

thread_local! {
    static OF_THIS_THREAD: Looker = Looker::default();
}

/// A queue that this thread looks at had something.
#[inline]
pub fn found() {
    // A thread that is ending has nothing to offer any more.
    let _ = OF_THIS_THREAD.try_with(|own| {
        own.looks();
        own.all.found();
    });
}

/// A queue that this thread looks at had nothing.
#[inline]
pub fn nothing() {
    let _ = OF_THIS_THREAD.try_with(|own| {
        own.looks();
        own.all.nothing_unless(|| own.is_by_turns(Instant::now()));
    });
}

impl Looker {
    /// It is the one that looks now.
    #[inline]
    fn looks(&self) {
        let own = std::ptr::from_ref(self).addr();
        if LOOKER.load(Ordering::Relaxed) != own {
            LOOKER.store(own, Ordering::Relaxed);
            self.others.set(self.looked.replace(true));
        }
    }

    /// Others have looked lately.
    fn is_by_turns(&self, now: Instant) -> bool {
        if self.others.take() {
            self.by_turns.set(Some(now + BY_TURNS));
        }
        self.by_turns.get().is_some_and(|until| now < until)
    }
}

impl Yielding {
    /// There was something.
    #[inline]
    pub fn found(&self) {
        self.empty.store(0, Ordering::Relaxed);
        self.crowded.store(0, Ordering::Relaxed);
    }

    /// There was nothing.
    #[inline]
    pub fn nothing(&self) {
        self.nothing_unless(|| false);
    }

    /// The same; the core is kept if `keeps` says so when it is to be offered.
    #[inline]
    fn nothing_unless(&self, keeps: impl FnOnce() -> bool) {
        let empty = self.empty.load(Ordering::Relaxed) + 1;
        if empty < self.patience.load(Ordering::Relaxed) {
            self.empty.store(empty, Ordering::Relaxed);
        } else if keeps() {
            self.found();
            self.patience.store(PATIENCE_MAX, Ordering::Relaxed);
        } else {
            self.offer();
        }
    }

    #[cold]
    fn offer(&self) {
        self.empty.store(0, Ordering::Relaxed);
        let start = Instant::now();
        std::thread::yield_now();
        let taken = start.elapsed() > TAKEN;
        let before = self.patience.load(Ordering::Relaxed);
        self.patience.store(patience(before, taken), Ordering::Relaxed);
        let before = self.crowded.load(Ordering::Relaxed);
        let crowded = if taken { before.saturating_add(1) } else { before / 2 };
        self.crowded.store(crowded, Ordering::Relaxed);
        if let Some(nap) = nap(crowded) {
            std::thread::sleep(nap);
        }
    }
}

/// The patience after an offer.
fn patience(before: u32, taken: bool) -> u32 {
    if taken { PATIENCE_CROWDED } else { (2 * before).min(PATIENCE_MAX) }
}

/// How long to nap after so many taken offers.
fn nap(crowded: u32) -> Option<Duration> {
    let looks = crowded.checked_sub(NAP_AFTER)?;
    Some(NAP_MIN * (1 << (looks / LOOKS_PER_DOUBLING).min(NAP_DOUBLINGS)))
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use super::*;

    /// Tests in which threads look, one at a time.
    fn alone() -> MutexGuard<'static, ()> {
        static LOOKS: Mutex<()> = Mutex::new(());
        LOOKS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[test]
    fn with_others_about_the_core_is_offered_at_once_and_alone_hardly_ever() {
        let crowded = patience(PATIENCE_MAX, true);
        assert_eq!(crowded, 1);
        let mut alone = crowded;
        for _ in 0..8 {
            alone = patience(alone, false);
        }
        assert_eq!(alone, PATIENCE_MAX);
        assert_eq!(patience(alone, false), PATIENCE_MAX);
    }

    #[test]
    fn a_thread_that_finds_something_in_one_queue_is_not_idle() {
        let _alone = alone();
        for _ in 1..PATIENCE_MAX {
            nothing();
        }
        let empty = || OF_THIS_THREAD.with(|own| own.all.empty.load(Ordering::Relaxed));
        assert_eq!(empty(), PATIENCE_MAX - 1);
        found();
        assert_eq!(empty(), 0);
        nothing();
        let elsewhere =
            std::thread::spawn(|| OF_THIS_THREAD.with(|own| own.all.empty.load(Ordering::Relaxed)));
        assert_eq!((empty(), elsewhere.join().unwrap()), (1, 0));
    }

    #[test]
    fn threads_that_look_by_turns_keep_their_cores() {
        let _alone = alone();
        let (own, start) = (Looker::default(), Instant::now());
        let somebody_looks = || LOOKER.store(1, Ordering::Relaxed);
        somebody_looks();
        own.looks();
        assert!(!own.is_by_turns(start), "it has looked once");
        own.looks();
        assert!(!own.is_by_turns(start), "and again, alone");
        somebody_looks();
        own.looks();
        assert!(own.is_by_turns(start));
        assert!(own.is_by_turns(start + BY_TURNS / 2));
        assert!(!own.is_by_turns(start + BY_TURNS), "not any more");
        // Then nothing is offered, and the next time only after many looks.
        own.all.patience.store(PATIENCE_CROWDED, Ordering::Relaxed);
        own.all.crowded.store(u32::MAX, Ordering::Relaxed);
        own.others.set(true);
        own.all.nothing_unless(|| own.is_by_turns(start));
        let kept = [&own.all.patience, &own.all.crowded].map(|one| one.load(Ordering::Relaxed));
        assert_eq!(kept, [PATIENCE_MAX, 0]);
    }

    #[test]
    fn a_look_of_another_thread_is_noticed() {
        let _alone = alone();
        let of_others = || OF_THIS_THREAD.with(|own| own.others.get());
        nothing();
        std::thread::spawn(nothing).join().unwrap();
        nothing();
        assert!(of_others());
    }

    #[test]
    fn naps_are_for_those_who_wait_long_and_stay_short() {
        assert_eq!(nap(0), None);
        assert_eq!(nap(NAP_AFTER - 1), None);
        assert_eq!(nap(NAP_AFTER), Some(NAP_MIN));
        assert_eq!(nap(u32::MAX), Some(Duration::from_micros(400)));
    }
}
