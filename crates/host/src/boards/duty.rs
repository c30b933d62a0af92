//! Who may make a turn now: one state machine for all boards.
//!
//! A turn is made by whoever holds the node's lock, so there is never any doubt about who makes *this* one. What has to be settled is who
//! makes the *next* one when nobody calls, and that it is somebody: a frame that arrives while everyone sleeps elsewhere would wait for
//! ever. Eight fields settle it. Four change under the lock only ([`Duty`]):
//!
//! | field | says |
//! |---|---|
//! | `working` | a caller is awake in its wait and makes turns; where waits are long, others then sleep instead of looking too |
//! | `watch` | who sleeps on the links' descriptors: nobody, a caller, the guardian, or the progress thread |
//! | `until` | until when at most that one sleeps; whoever brings a deadline forward rouses it |
//! | `guardian` | where the guardian sleeps while a caller watches; it is woken when that one leaves with nobody in its place |
//!
//! and four are read without it ([`Signs`]):
//!
//! | field | says |
//! |---|---|
//! | `wanting` | how many threads did not get the lock at once: who spins with it gives way to them |
//! | `ticks` | turns that callers made: the guardian leaves the node to a program that moves it, and a sleeper learns that others are at work |
//! | `news` | moves with whatever may end a wait: what callers beside a progress thread spin on |
//! | `nudges` | moves when waits are to look at something else than completions |
//!
//! The states, by `working` and `watch`, and what leads from one to the next:
//!
//! ```text
//! a program calls     nobody works, nobody watches: turns are made in its calls. ticks stand still between two looks of the guardian
//!                     → the guardian watches. A caller waits → a caller works.
//! a caller works      working. Its wait ends → a program calls, and the next sleeper is woken (hand_over). It looked for long enough
//!                     → a caller watches.
//! a caller watches    watch = Caller; the guardian rests. Frames, the deadline or the bell wake it → a caller works.
//! the guardian        watch = Guardian while it sleeps, nobody while it makes a turn. ticks move → a program calls. A caller
//! watches             wants to watch → a caller watches (watch passes to it, and the guardian is roused and leaves).
//! the thread works    nobody watches: the progress thread is awake. It looked for long enough → the thread watches.
//! the thread watches  watch = Board: callers' posts make turns meanwhile. Frames, the deadline or the bell wake it → the thread works.
//! ```
//!
//! No wake-up is lost: falling asleep is declared under the lock, posts are made under it, and a bell rings until it is hushed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use emp_firmware::Time;

use crate::flying::sleepers::{Bell, Sleepers};
use crate::machine::wakeup::Parker;

/// Who sleeps on the links' descriptors, and makes a turn when something arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Watch {
    /// Nobody.
    Nobody,
    /// A waiting caller.
    Caller,
    /// The guardian.
    Guardian,
    /// The progress thread.
    Board,
}

/// What changes under the lock only.
pub(crate) struct Duty {
    working: bool,
    watch: Watch,
    until: Time,
    guardian: Option<Arc<Parker>>,
}

impl Default for Duty {
    fn default() -> Self {
        Self { working: false, watch: Watch::Nobody, until: Time::NEVER, guardian: None }
    }
}

impl Duty {
    /// A caller that waits makes a turn. True if no other was at it already.
    #[inline]
    pub(crate) fn start_working(&mut self) -> bool {
        !std::mem::replace(&mut self.working, true)
    }

    /// The caller that works does not any more.
    #[inline]
    pub(crate) fn stop_working(&mut self) {
        self.working = false;
    }

    #[inline]
    pub(crate) const fn is_working(&self) -> bool {
        self.working
    }

    #[inline]
    pub(crate) const fn watcher(&self) -> Watch {
        self.watch
    }

    /// Somebody goes to sleep on the descriptors, until then at most. Whoever does so already is relieved.
    pub(crate) fn start_watching(&mut self, who: Watch, until: Time, sleepers: &mut Sleepers) {
        self.rouse(sleepers);
        (self.watch, self.until) = (who, until);
    }

    /// It is awake again; meanwhile another may have relieved it.
    pub(crate) fn stop_watching(&mut self, who: Watch) {
        if self.watch == who {
            self.watch = Watch::Nobody;
        }
    }

    /// Makes whoever sleeps on the descriptors look at the clock again.
    pub(crate) fn rouse(&self, sleepers: &mut Sleepers) {
        match self.watch {
            Watch::Nobody => {}
            Watch::Caller | Watch::Board => sleepers.ring(Bell::Board),
            Watch::Guardian => sleepers.ring(Bell::Guardian),
        }
    }

    /// True if somebody sleeps on the descriptors, who is to be asked whether it sleeps too long.
    #[inline]
    pub(crate) fn is_watched(&self) -> bool {
        self.watch != Watch::Nobody
    }

    /// A turn is due then: whoever would sleep beyond that is roused, once.
    #[inline]
    pub(crate) fn mind(&mut self, next_turn: Time, sleepers: &mut Sleepers) {
        if next_turn < self.until {
            self.rouse(sleepers);
            self.until = Time(0);
        }
    }

    /// The guardian sleeps here until a watching caller leaves.
    pub(crate) fn rest_guardian(&mut self, parker: &Arc<Parker>) {
        self.guardian = Some(Arc::clone(parker));
    }

    /// A waiting caller leaves and nobody works or watches: another sleeper is to take over.
    #[inline]
    pub(crate) fn hand_over(&mut self, sleepers: &mut Sleepers) {
        if self.guardian.is_some() || !sleepers.is_empty() {
            sleepers.wake_parker(self.guardian.take());
            sleepers.wake_one_parked();
        }
    }

    /// The node is closed, or broken: everyone is to look.
    pub(crate) fn dismiss(&mut self, sleepers: &mut Sleepers) {
        sleepers.everyone();
        self.rouse(sleepers);
        sleepers.wake_parker(self.guardian.take());
    }
}

/// What is read without the lock.
#[derive(Default)]
pub(crate) struct Signs {
    wanting: AtomicU32,
    ticks: AtomicU64,
    news: AtomicU64,
    nudges: AtomicU64,
}

impl Signs {
    /// A thread did not get the lock at once and wants it until `got` is called.
    pub(crate) fn want(&self) {
        self.wanting.fetch_add(1, Ordering::Relaxed);
    }

    /// It has it, or gave it up.
    pub(crate) fn got(&self) {
        self.wanting.fetch_sub(1, Ordering::Relaxed);
    }

    /// True if a thread wants the lock.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanting.load(Ordering::Relaxed) != 0
    }

    /// A caller makes a turn. Only with the lock held, so a plain increment will do.
    #[inline]
    pub(crate) fn tick(&self) {
        self.ticks.store(self.ticks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Something has happened that may end a wait.
    #[inline]
    pub(crate) fn announce(&self) {
        self.news.fetch_add(1, Ordering::Release);
    }

    #[inline]
    pub(crate) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// Waits are to look at something else than completions.
    pub(crate) fn nudge(&self) {
        self.nudges.fetch_add(1, Ordering::SeqCst);
        self.announce();
    }

    #[inline]
    pub(crate) fn nudges(&self) -> u64 {
        self.nudges.load(Ordering::SeqCst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flying::sleepers::{How, Interest};

    fn parked(sleepers: &mut Sleepers) {
        sleepers.enter(Interest::Events, How::Parked(Arc::default()));
    }

    #[test]
    fn whoever_watches_is_relieved_and_roused_once() {
        let (mut duty, mut sleepers) = (Duty::default(), Sleepers::default());
        duty.start_watching(Watch::Guardian, Time(100), &mut sleepers);
        assert!(sleepers.are_served(), "nobody was there to be relieved");
        duty.start_watching(Watch::Caller, Time(100), &mut sleepers);
        let after = sleepers.after();
        assert!(after.ring_guardian && !after.ring);
        duty.stop_watching(Watch::Guardian);
        assert_eq!(duty.watcher(), Watch::Caller, "the guardian was relieved before it woke");
        duty.mind(Time(100), &mut sleepers);
        assert!(sleepers.are_served(), "it wakes in time");
        duty.mind(Time(99), &mut sleepers);
        assert!(sleepers.after().ring);
        duty.mind(Time(98), &mut sleepers);
        assert!(sleepers.are_served(), "once is enough");
        duty.stop_watching(Watch::Caller);
        assert!(!duty.is_watched());
    }

    #[test]
    fn whoever_leaves_wakes_the_guardian_and_one_sleeper() {
        let (mut duty, mut sleepers) = (Duty::default(), Sleepers::default());
        assert!(duty.start_working() && !duty.start_working());
        duty.stop_working();
        duty.hand_over(&mut sleepers);
        assert!(sleepers.are_served());
        duty.rest_guardian(&Arc::default());
        parked(&mut sleepers);
        parked(&mut sleepers);
        duty.hand_over(&mut sleepers);
        assert_eq!(sleepers.after().wake.len(), 2);
        duty.hand_over(&mut sleepers);
        assert_eq!(sleepers.after().wake.len(), 1, "the guardian was woken before");
        duty.start_watching(Watch::Board, Time::NEVER, &mut sleepers);
        duty.dismiss(&mut sleepers);
        let after = sleepers.after();
        assert!(after.ring && after.wake.len() == 2);
    }
}
