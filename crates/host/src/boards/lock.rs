//! What the threads of a node share: the core behind its lock, bells, and the counters that are read without the lock.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use emp_firmware::{OpKind, Span, Time};

use crate::choices::{Board, WaitMode};
use crate::flying::sleepers::Watch;
use crate::flying::slots::SlotKey;
use crate::machine::wakeup::{Bell, Parker, PollSet};
use crate::turn::core::Core;

/// Tries before a thread that wants the lock sleeps for it: a turn is shorter than falling asleep.
const LOCK_TRIES: u32 = 100;

/// Checks for which a spinning thread leaves the lock alone when others want it: enough for a sleeping one to wake.
const GIVE_WAY_CHECKS: u32 = 2_000;

/// While it spins fruitlessly, a thread offers its core to others this often, in case there are fewer cores than
/// spinning threads. The call costs about 0.2 µs.
const YIELD_EVERY: Span = Span::us(20);

/// Everything that a node's threads share.
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// The process that the node was started in.
    process: u32,
    /// Threads that did not get the lock at once and want it.
    wanting: AtomicU32,
    /// Turns made by callers: shows the guardian and sleeping callers that someone is at work.
    ticks: AtomicU64,
    /// Moves when something happened that a waiting thread may wait for; only with a progress thread.
    news: AtomicU64,
    /// Moves when threads that wait are to look at something else than completions ([`Node::nudge`](crate::Node::nudge)).
    nudges: AtomicU64,
    /// Events of the node so far.
    pub(crate) events_told: Arc<AtomicU64>,
    /// The last turn by a caller who did not wait found nothing to do.
    pub(crate) idle: AtomicBool,
    /// The node's own threads are to end.
    stop: AtomicBool,
    pub(crate) board: Board,
    pub(crate) wait_mode: WaitMode,
    /// How often a thread that spins offers its core to others.
    pub(crate) yield_every: Span,
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
    pub(crate) fn new(core: Core, board: Board, wait_mode: WaitMode) -> std::io::Result<Self> {
        let events_told = Arc::clone(&core.events_told);
        let descriptors = core.descriptors();
        let (bell, guardian_bell) = (Bell::new()?, Bell::new()?);
        let poll_set = PollSet::new(&descriptors, &bell);
        let guardian_poll_set = PollSet::new(&descriptors, &guardian_bell);
        Ok(Self {
            core: Mutex::new(core),
            process: std::process::id(),
            wanting: AtomicU32::new(0),
            ticks: AtomicU64::new(0),
            news: AtomicU64::new(0),
            nudges: AtomicU64::new(0),
            events_told,
            idle: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            board,
            wait_mode,
            yield_every: yield_every(board),
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
        match self.core.try_lock() {
            Ok(core) => Locked::new(self, core),
            Err(TryLockError::WouldBlock) => self.lock_slowly().unwrap_or_else(|| broken()),
            Err(TryLockError::Poisoned(_)) => broken(),
        }
    }

    #[cold]
    fn lock_slowly(&self) -> Option<Locked<'_>> {
        self.wanting.fetch_add(1, Ordering::Relaxed);
        let core = self.lock_wanted();
        self.wanting.fetch_sub(1, Ordering::Relaxed);
        core.map(|core| Locked::new(self, core))
    }

    fn lock_wanted(&self) -> Option<MutexGuard<'_, Core>> {
        for _ in 0..LOCK_TRIES {
            match self.core.try_lock() {
                Ok(core) => return Some(core),
                Err(TryLockError::WouldBlock) => std::hint::spin_loop(),
                Err(TryLockError::Poisoned(_)) => return None,
            }
        }
        self.core.lock().ok()
    }

    /// The core, or `None` if a thread panicked while it had it: for drops and own threads, which must not panic.
    pub(crate) fn lock_unless_broken(&self) -> Option<Locked<'_>> {
        match self.core.try_lock() {
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

    /// True if another thread wants the lock.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanting.load(Ordering::Relaxed) != 0
    }

    /// Lets others have the lock if they want it: a thread that spins with it would take it again before they wake.
    #[inline]
    pub(crate) fn give_way<'a>(&'a self, core: Locked<'a>) -> Locked<'a> {
        if !self.is_wanted() {
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
            if !self.is_wanted() {
                return;
            }
            if check % 64 == 63 { std::thread::yield_now() } else { std::hint::spin_loop() }
        }
    }

    /// Says that a caller is making progress. Only with the lock held, so a plain increment will do.
    #[inline]
    pub(crate) fn tick(&self, _proof: &Locked<'_>) {
        self.ticks.store(self.ticks.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Moves with whatever may end a wait.
    #[inline]
    pub(crate) fn news(&self) -> u64 {
        self.news.load(Ordering::Acquire)
    }

    /// Says that something has happened that may end a wait.
    #[inline]
    pub(crate) fn announce(&self) {
        self.news.fetch_add(1, Ordering::Release);
    }

    /// How often waiting threads were nudged.
    #[inline]
    pub(crate) fn nudges(&self) -> u64 {
        self.nudges.load(Ordering::SeqCst)
    }

    /// Ends the waits that watch for this. With the lock held, so that nobody falls asleep meanwhile.
    pub(crate) fn nudge(&self, core: &mut Locked<'_>) {
        self.nudges.fetch_add(1, Ordering::SeqCst);
        self.announce();
        core.sleepers.nudge();
    }

    /// True if a thread panicked while it had the core.
    pub(crate) fn is_broken(&self) -> bool {
        self.core.is_poisoned()
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
        match self.board {
            Board::Inline { .. } => {
                self.tick(core);
                core.posted(now);
                self.mind_watcher(core, now);
            }
            // Asleep: sending here is faster than waking it. Awake: it will come by in a moment.
            Board::Thread if core.sleepers.watch == Watch::Board => {
                core.posted(now);
                self.announce();
                self.mind_watcher(core, now);
            }
            Board::Thread => {
                core.posted_for_others();
                self.announce();
            }
        }
    }

    /// True if a post that no other follows is to be sent by the caller, who need not leave that to the progress thread.
    #[inline]
    pub(crate) fn sends_itself(&self, core: &Core, more: bool) -> bool {
        let itself = match self.board {
            Board::Inline { .. } => true,
            Board::Thread => core.sleepers.watch == Watch::Board,
        };
        itself && !more
    }

    /// The same; with `more`, others follow at once, and what was posted may wait for them.
    #[inline]
    pub(crate) fn posted_with(&self, core: &mut Locked<'_>, now: Time, more: bool) {
        if more && matches!(self.board, Board::Inline { .. }) {
            self.tick(core);
            core.posted_with_more(now);
            self.mind_watcher(core, now);
        } else {
            self.posted(core, now);
        }
    }

    /// A turn by a caller who wants to see what is there now, but does not wait.
    #[inline]
    pub(crate) fn turn_now(&self, core: &mut Locked<'_>) {
        if matches!(self.board, Board::Inline { .. }) {
            let now = core.now();
            self.tick(core);
            let moved = core.turn(now);
            self.idle.store(!moved, Ordering::Relaxed);
            self.mind_watcher(core, now);
        }
    }

    /// Wakes whoever sleeps on the descriptors if it would now sleep too long.
    #[inline]
    pub(crate) fn mind_watcher(&self, core: &mut Locked<'_>, now: Time) {
        if core.sleepers.watch != Watch::Nobody && core.next_turn(now) < core.sleepers.until {
            core.sleepers.rouse_watcher();
            // Once is enough.
            core.sleepers.until = Time(0);
        }
    }

    /// Leaves the buffer of a dropped request with the core until the operation has ended.
    pub(crate) fn orphan(&self, key: SlotKey, buffer: Box<dyn Send>) {
        let Some(mut core) = self.lock_to_drop() else {
            // The firmware is broken but may still be referenced by a thread, or this is not its process: leaking is the sound thing to do.
            std::mem::forget(buffer);
            return;
        };
        match core.requests.orphan(key, buffer) {
            Err(buffer) => core.sleepers.bury(buffer),
            Ok(op) => {
                // A send goes on: its message was promised. A receive would take a message from others.
                if op.kind() == OpKind::Receive {
                    let now = core.now();
                    if let Some(firmware) = core.firmware_mut() {
                        firmware.cancel(now, op);
                    }
                    self.posted(&mut core, now);
                }
            }
        }
    }
}

/// How often a thread that spins offers its core to others.
///
/// If caller and progress thread share the only core that this process may use, what one spins for cannot happen before
/// it gives the core up: then always (a round trip is ten times shorter so). An inline board spins for other processes.
fn yield_every(board: Board) -> Span {
    let one_core = std::thread::available_parallelism().is_ok_and(|cores| cores.get() == 1);
    if one_core && board == Board::Thread { Span(0) } else { YIELD_EVERY }
}

fn broken() -> ! {
    panic!("this EMP node is broken: another thread panicked while it was making progress")
}

/// The core, locked. Whatever was put off until the lock is free happens when this is dropped.
pub(crate) struct Locked<'a> {
    shared: &'a Shared,
    core: Option<MutexGuard<'a, Core>>,
}

impl<'a> Locked<'a> {
    #[inline]
    fn new(shared: &'a Shared, core: MutexGuard<'a, Core>) -> Self {
        Self { shared, core: Some(core) }
    }
}

impl Deref for Locked<'_> {
    type Target = Core;
    #[inline]
    fn deref(&self) -> &Core {
        self.core.as_deref().expect("present until dropped")
    }
}

impl DerefMut for Locked<'_> {
    #[inline]
    fn deref_mut(&mut self) -> &mut Core {
        self.core.as_deref_mut().expect("present until dropped")
    }
}

impl Drop for Locked<'_> {
    #[inline]
    fn drop(&mut self) {
        let Some(core) = self.core.take() else { return };
        if std::thread::panicking() || !core.sleepers.are_served() {
            leave(self.shared, core);
        }
    }
}

/// Unlocks the core, and does what was put off until then.
#[cold]
#[inline(never)]
fn leave(shared: &Shared, mut core: MutexGuard<'_, Core>) {
    if std::thread::panicking() {
        // Nobody will make progress any more: wait no longer, but find out by the broken lock.
        shared.announce();
        core.sleepers.everyone();
    }
    let after = core.sleepers.after();
    drop(core);
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
