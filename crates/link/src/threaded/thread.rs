//! The thread that makes links' calls.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emp_rings::{SlotConsumer, SlotProducer, Worked, cpu_nanoseconds, slot_ring};

use super::served::Served;
use crate::service::yields::Yields;
use crate::system;

/// Links that may be on their way to the thread at a time.
const NEWCOMERS: usize = 16;

/// Longest sleep where nothing would wake the thread: a link is full, or its reader is, or it has no descriptor.
const BY_HAND: Duration = Duration::from_micros(50);

/// While it looks fruitlessly, the thread offers its core to others this often. After each look where others wait for it, as the engine does that it
/// may share a core with: unless it never sleeps, as between two that only yield the scheduler gives turns of milliseconds.
const YIELD_EVERY: Duration = Duration::from_micros(20);

/// What is read from both sides.
struct Signs {
    /// Wakes the thread.
    bell: OwnedFd,
    stop: AtomicBool,
    ended: AtomicBool,
    /// What the thread has worked.
    worked: Arc<Worked>,
}

/// A thread that makes the calls of the links it was given, as long as any of them is there.
pub struct LinkThread {
    signs: Arc<Signs>,
    newcomers: Mutex<SlotProducer<Option<Served>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The process that it was started in.
    process: u32,
}

/// The thread's work, to be run by it.
pub struct LinkWork {
    signs: Arc<Signs>,
    newcomers: SlotConsumer<Option<Served>>,
    served: Vec<Served>,
    /// Readable when the bell or a link is.
    any: OwnedFd,
    look_for: Option<Duration>,
}

impl LinkThread {
    /// Starts it: `spawn` starts a thread that does this work. Without anything to do it looks for so long before it sleeps; `None`: it never does.
    ///
    /// # Errors
    ///
    /// The system has no more descriptors, or threads.
    pub fn start(
        look_for: Option<Duration>,
        spawn: impl FnOnce(LinkWork) -> io::Result<JoinHandle<()>>,
    ) -> io::Result<Arc<Self>> {
        let bell = system::event()?;
        let any = system::any_of([bell.as_fd()])?;
        let (stop, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let signs = Arc::new(Signs { bell, stop, ended, worked: Arc::default() });
        let (producer, newcomers) = slot_ring(NEWCOMERS);
        let work =
            LinkWork { signs: Arc::clone(&signs), newcomers, served: Vec::new(), any, look_for };
        let thread = spawn(work)?;
        Ok(Arc::new(Self {
            signs,
            newcomers: Mutex::new(producer),
            thread: Mutex::new(Some(thread)),
            process: std::process::id(),
        }))
    }

    /// What it has worked: its turns in which anything moved.
    pub fn worked(&self) -> Arc<Worked> {
        Arc::clone(&self.signs.worked)
    }

    /// Has it serve a link.
    pub(super) fn take(&self, served: Served) -> io::Result<()> {
        if self.has_ended() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let mut newcomers = self.newcomers.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = newcomers.fill(|slot| *slot = Some(served));
        newcomers.publish();
        drop(newcomers);
        self.wake();
        taken.ok_or_else(|| io::ErrorKind::ResourceBusy.into())
    }

    pub(super) fn wake(&self) {
        system::event_set(self.signs.bell.as_fd());
    }

    /// It does nothing any more: it panicked, in a link.
    pub(super) fn has_ended(&self) -> bool {
        self.signs.ended.load(Ordering::Relaxed)
    }

    /// False in a process that was forked from the one that it runs in. A system call.
    pub(super) fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }
}

impl Drop for LinkThread {
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        self.signs.stop.store(true, Ordering::Release);
        self.wake();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A panic has been told by then.
            let _ = thread.join();
        }
    }
}

/// A turn is over, at which something moved or not; `last` is the CPU time at the end of the one before.
#[cold]
fn note_turn(last: &mut Option<u64>, moved: bool, worked: &Worked) {
    let now = cpu_nanoseconds();
    let before = last.replace(now);
    if let Some(before) = before.filter(|_| moved) {
        worked.add(now.saturating_sub(before));
    }
}

impl LinkWork {
    /// Works until the [`LinkThread`] is dropped.
    pub fn run(mut self) {
        /// Says that the thread has ended, also by a panic.
        struct Ended(Arc<Signs>);
        impl Drop for Ended {
            fn drop(&mut self) {
                self.0.ended.store(true, Ordering::Relaxed);
            }
        }
        let _ended = Ended(Arc::clone(&self.signs));
        let start = Instant::now();
        let (mut busy_at, mut yielded) = (start, start);
        let mut others = Yields::new();
        let mut turned = None;
        while !self.signs.stop.load(Ordering::Acquire) {
            let now = Instant::now();
            let mut moved = self.welcome();
            for served in &mut self.served {
                moved |= served.turn(now);
            }
            self.served.retain(|served| !served.is_closed());
            if self.signs.worked.is_counting() {
                note_turn(&mut turned, moved, &self.signs.worked);
            }
            let lost = others.is_lost(now - start);
            if moved {
                busy_at = now;
            } else if self.look_for.is_some_and(|time| lost || now - busy_at >= time) {
                self.sleep();
            } else if others.is_crowded() && self.look_for.is_some() || now - yielded >= YIELD_EVERY
            {
                let before = Instant::now();
                std::thread::yield_now();
                yielded = Instant::now();
                others.yielded(before - start, yielded - start);
            } else {
                std::hint::spin_loop();
            }
        }
    }

    /// Takes the links that were handed over. True if there were any.
    fn welcome(&mut self) -> bool {
        let mut came = false;
        while let Some(served) = self.newcomers.take(Option::take) {
            came = true;
            if let Some(served) = served {
                // One without a descriptor, or that the system has no room for, is polled.
                let _ = served.readiness().map(|fd| system::add_to(self.any.as_fd(), fd));
                self.served.push(served);
            }
        }
        came
    }

    /// Sleeps until something arrives, from either side.
    #[cold]
    fn sleep(&mut self) {
        let mut ready = false;
        for served in &mut self.served {
            served.tell();
            ready |= served.arm();
        }
        if !ready && !self.signs.stop.load(Ordering::Acquire) {
            let due = self.served.iter().filter_map(|served| served.next_due(BY_HAND)).min();
            match due {
                Some(due) if due.is_zero() => {}
                // Its descriptor may be readable all the time.
                Some(due) if self.served.iter().any(Served::is_stuck) => std::thread::sleep(due),
                due => {
                    system::poll_until(self.any.as_fd(), due, |_| ());
                    system::event_clear(self.signs.bell.as_fd());
                }
            }
        }
        self.served.iter().for_each(Served::disarm);
    }
}
