//! What the threads of a node share: the core behind its lock, bells, and what is read without the lock; and how the lock is taken,
//! given way with, and left.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use emp_firmware::{Span, Time};

use crate::boards::duty::{Duty, Signs, Watch};
use crate::choices::WaitMode;
use crate::flying::sleepers::Sleepers;
use crate::machine::wakeup::{Bell, Parker, PollSet};
use crate::turn::core::Core;

/// Tries before a thread that wants the lock sleeps for it: a turn is shorter than falling asleep.
const LOCK_TRIES: u32 = 100;

/// Checks for which a spinning thread leaves the lock alone when others want it: enough for a sleeping one to wake.
const GIVE_WAY_CHECKS: u32 = 2_000;

/// What the lock protects.
struct Inside {
    core: Core,
    duty: Duty,
}

/// How threads of a node behave, as its board was composed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Habits {
    /// Callers make turns, in posts, looks and waits. Else a thread of the node's does, and callers only while it sleeps.
    pub(crate) callers_work: bool,
    /// How often a thread that spins offers its core to others.
    pub(crate) yield_every: Span,
    pub(crate) wait_mode: WaitMode,
}

/// Everything that a node's threads share.
pub(crate) struct Shared {
    inside: Mutex<Inside>,
    /// The process that the node was started in.
    process: u32,
    /// Who may make a turn now, as far as that is known without the lock.
    pub(crate) signs: Signs,
    /// Events of the node so far.
    pub(crate) events_told: Arc<AtomicU64>,
    /// The last turn by a caller who did not wait found nothing to do.
    pub(crate) idle: AtomicBool,
    /// The node's own threads are to end.
    stop: AtomicBool,
    pub(crate) habits: Habits,
    /// Wakes the caller or progress thread that sleeps on the links' descriptors.
    pub(crate) bell: Bell,
    /// Wakes the guardian likewise.
    pub(crate) guardian_bell: Bell,
    /// Where the guardian naps.
    pub(crate) guardian_parker: std::sync::Arc<Parker>,
    poll_set: PollSet,
    guardian_poll_set: PollSet,
}

impl Shared {
    pub(crate) fn new(core: Core, habits: Habits) -> std::io::Result<Self> {
        let events_told = Arc::clone(&core.events_told);
        let descriptors = core.descriptors();
        let (bell, guardian_bell) = (Bell::new()?, Bell::new()?);
        let poll_set = PollSet::new(&descriptors, &bell);
        let guardian_poll_set = PollSet::new(&descriptors, &guardian_bell);
        Ok(Self {
            inside: Mutex::new(Inside { core, duty: Duty::default() }),
            process: std::process::id(),
            signs: Signs::default(),
            events_told,
            idle: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            habits,
            bell,
            guardian_bell,
            guardian_parker: std::sync::Arc::default(),
            poll_set,
            guardian_poll_set,
        })
    }

    /// The core, for this thread alone.
    ///
    /// # Panics
    ///
    /// Panics if another thread panicked while it had the core: what the firmware would do then is anybody's guess.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_> {
        match self.inside.try_lock() {
            Ok(core) => Locked::new(self, core),
            Err(TryLockError::WouldBlock) => self.lock_slowly().unwrap_or_else(|| broken()),
            Err(TryLockError::Poisoned(_)) => broken(),
        }
    }

    #[cold]
    fn lock_slowly(&self) -> Option<Locked<'_>> {
        self.signs.want();
        let core = self.lock_wanted();
        self.signs.got();
        core.map(|core| Locked::new(self, core))
    }

    fn lock_wanted(&self) -> Option<MutexGuard<'_, Inside>> {
        for _ in 0..LOCK_TRIES {
            match self.inside.try_lock() {
                Ok(core) => return Some(core),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => return None,
            }
        }
        self.inside.lock().ok()
    }

    /// The core, or `None` if a thread panicked while it had it: for drops and own threads, which must not panic.
    pub(crate) fn lock_unless_broken(&self) -> Option<Locked<'_>> {
        match self.inside.try_lock() {
            Ok(core) => Some(Locked::new(self, core)),
            Err(TryLockError::WouldBlock) => self.lock_slowly(),
            Err(TryLockError::Poisoned(_)) => None,
        }
    }

    /// The same for handles that are dropped: `None` also in a process that was forked from the node's. There nobody may hold the
    /// lock any more who could give it back, and what is sent would be sent by the parent's sockets.
    pub(crate) fn lock_to_drop(&self) -> Option<Locked<'_>> {
        if self.is_ours() { self.lock_unless_broken() } else { None }
    }

    /// True in the process that the node was started in; false in one that was forked from it. A system call.
    pub(crate) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Lets others have the lock if they want it: a thread that spins with it would take it again before they wake.
    #[inline]
    pub(crate) fn give_way<'a>(&'a self, core: Locked<'a>) -> Locked<'a> {
        if !self.signs.is_wanted() {
            return core;
        }
        drop(core);
        self.stand_aside();
        self.lock()
    }

    /// Leaves the lock alone until nobody else wants it, for a bounded time.
    #[cold]
    pub(crate) fn stand_aside(&self) {
        for check in 0..GIVE_WAY_CHECKS {
            if !self.signs.is_wanted() {
                return;
            }
            if check % 64 == 63 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    /// Ends the waits that watch for this. With the lock held, so that nobody falls asleep meanwhile.
    pub(crate) fn nudge(&self, core: &mut Locked<'_>) {
        self.signs.nudge();
        core.sleepers.nudge();
    }

    /// True if a thread panicked while it had the core.
    pub(crate) fn is_broken(&self) -> bool {
        self.inside.is_poisoned()
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Ends the node's own threads.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.bell.ring();
        self.guardian_bell.ring();
        self.guardian_parker.wake();
    }

    /// A set to sleep on the links and the bell; the links live as long as this value.
    pub(crate) fn poll_set(&self) -> PollSet {
        self.poll_set.clone()
    }

    /// Likewise for the guardian.
    pub(crate) fn guardian_poll_set(&self) -> PollSet {
        self.guardian_poll_set.clone()
    }

    /// After a caller has posted something: gets it on its way, by itself or by the progress thread.
    #[inline]
    pub(crate) fn posted(&self, core: &mut Locked<'_>, now: Time) {
        if self.habits.callers_work {
            self.signs.tick();
            core.posted(now);
            core.mind_watcher(now);
        } else if core.duty().watcher() == Watch::Board {
            // Asleep: sending here is faster than waking it. Awake: it will come by in a moment.
            core.posted(now);
            self.signs.announce();
            core.mind_watcher(now);
        } else {
            core.posted_for_others();
            self.signs.announce();
        }
    }

    /// True if a post that no other follows is to be sent by the caller, who need not leave that to the progress thread.
    #[inline]
    pub(crate) fn sends_itself(&self, core: &Locked<'_>, more: bool) -> bool {
        !more && (self.habits.callers_work || core.duty().watcher() == Watch::Board)
    }

    /// The same; with `more`, others follow at once, and what was posted may wait for them.
    #[inline]
    pub(crate) fn posted_with(&self, core: &mut Locked<'_>, now: Time, more: bool) {
        if more && self.habits.callers_work {
            self.signs.tick();
            core.posted_with_more(now);
            core.mind_watcher(now);
        } else {
            self.posted(core, now);
        }
    }

    /// A turn by a caller who wants to see what is there now, but does not wait.
    #[inline]
    pub(crate) fn turn_now(&self, core: &mut Locked<'_>) {
        if self.habits.callers_work {
            let now = core.now();
            self.signs.tick();
            let moved = core.turn(now);
            self.idle.store(!moved, Ordering::Relaxed);
            core.mind_watcher(now);
        }
    }
}

fn broken() -> ! {
    panic!("this EMP node is broken: another thread panicked while it was making progress")
}

/// The core, locked. Whatever was put off until the lock is free happens when this is dropped.
pub(crate) struct Locked<'a> {
    shared: &'a Shared,
    inside: Option<MutexGuard<'a, Inside>>,
}

impl<'a> Locked<'a> {
    #[inline]
    fn new(shared: &'a Shared, inside: MutexGuard<'a, Inside>) -> Self {
        Self { shared, inside: Some(inside) }
    }

    #[inline]
    fn inside(&self) -> &Inside {
        self.inside.as_deref().expect("present until dropped")
    }

    #[inline]
    fn inside_mut(&mut self) -> &mut Inside {
        self.inside.as_deref_mut().expect("present until dropped")
    }

    /// Who may make a turn now.
    #[inline]
    pub(crate) fn duty(&self) -> &Duty {
        &self.inside().duty
    }

    /// The same, to be changed, with the sleepers whom that may wake.
    #[inline]
    pub(crate) fn duty_mut(&mut self) -> (&mut Duty, &mut Sleepers) {
        let Inside { core, duty } = self.inside_mut();
        (duty, &mut core.sleepers)
    }

    /// Wakes whoever sleeps on the descriptors if it would now sleep too long.
    #[inline]
    pub(crate) fn mind_watcher(&mut self, now: Time) {
        if self.duty().is_watched() {
            let next_turn = self.next_turn(now);
            let (duty, sleepers) = self.duty_mut();
            duty.mind(next_turn, sleepers);
        }
    }
}

impl Deref for Locked<'_> {
    type Target = Core;
    #[inline]
    fn deref(&self) -> &Core {
        &self.inside().core
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Core {
        &mut self.inside_mut().core
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(inside) = self.inside.take() else { return };
        if std::thread::panicking() || !inside.core.sleepers.are_served() {
            leave(self.shared, inside);
        }
    }
}

/// Unlocks the core, and does what was put off until then.
#[cold]
#[inline(never)]
fn leave(shared: &Shared, mut inside: MutexGuard<'_, Inside>) {
    let Inside { core, duty } = &mut *inside;
    if std::thread::panicking() {
        // Nobody will make progress any more: wait no longer, but find out by the broken lock.
        shared.signs.announce();
        duty.dismiss(&mut core.sleepers);
    }
    let after = core.sleepers.after();
    drop(inside);
    for parker in &after.wake {
        parker.wake();
    }
    if after.ring {
        shared.bell.ring();
    }
    if after.ring_guardian {
        shared.guardian_bell.ring();
    }
    drop(after.bury);
}
