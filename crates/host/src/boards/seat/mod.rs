//! The one door to whoever makes progress: all that the API rooms (`node`, `endpoint`, `raw`) know of boards.
//!
//! A seat takes what an application asks for, in words that do not say where the firmware is: posts and their ends, queues of
//! completions, regions, questions about the node. Nobody beyond this door holds the lock, sees the core, or makes a turn, so that an engine
//! elsewhere can take the place of the one in this process. Each call is one visit: it is made with the node's lock held once.

mod closing;
mod desk;
mod node;
mod queues;
mod regions;
mod requests;

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use emp_firmware::{Firmware, PostError, Time};

use crate::boards::compose::Composition;
use crate::boards::lock::{Locked, Shared};
use crate::boards::wait::wait_for;
use crate::choices::{Board, WaitMode};
use crate::flying::sleepers::Interest;
use crate::machine::signals;
use crate::turn::core::Core;

pub(crate) use self::queues::RawBegun;
pub(crate) use crate::turn::core::{Engine, Parts};
pub(crate) use crate::turn::deck::{Beside, Halved, Placed};
pub(crate) use crate::turn::posts::{MultiReceive, Post};

/// True if the same post may be accepted after some progress.
pub(crate) const fn is_temporary(error: PostError) -> bool {
    matches!(error, PostError::Busy | PostError::PoolFull)
}

/// A place at a board: the firmware of one node, for the node's handles.
pub(crate) struct Seat {
    shared: Arc<Shared>,
    /// The node's own threads.
    workers: Mutex<Vec<JoinHandle<()>>>,
}

impl Seat {
    /// A board, composed of these parts and, if it has one, its worker.
    ///
    /// # Errors
    ///
    /// The system refuses what is named: descriptors or a thread.
    pub(crate) fn compose(
        parts: Parts,
        board: Board,
        wait_mode: WaitMode,
    ) -> Result<Self, (&'static str, std::io::Error)> {
        let Composition { habits, worker } = Composition::of(board, wait_mode);
        let mut core = Core::new(parts, habits.wait_mode);
        let now = core.now();
        core.show(now);
        let shared = Shared::new(core, habits).map_err(|e| ("making an event descriptor", e))?;
        let seat = Self { shared: Arc::new(shared), workers: Mutex::default() };
        if let Some(worker) = worker {
            let (shared, thread) = (Arc::clone(&seat.shared), std::thread::Builder::new());
            let thread = thread.name(worker.name.into());
            let thread = signals::blocked(|| thread.spawn(move || (worker.work)(&shared)));
            let thread = thread.map_err(|e| ("starting a thread", e))?;
            seat.workers.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        }
        Ok(seat)
    }

    /// True in the process that the node was started in; false in one that was forked from it. A system call.
    pub(crate) fn is_ours(&self) -> bool {
        self.shared.is_ours()
    }

    /// True if a thread panicked while it made progress: nobody makes any from then on.
    pub(crate) fn is_broken(&self) -> bool {
        self.shared.is_broken()
    }

    #[inline]
    fn lock(&self) -> Locked<'_> {
        self.shared.lock()
    }

    /// For the tests of waits.
    #[cfg(test)]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Asks the firmware for something that it may have to send for. `None`: the node is closed.
    fn ask<T>(&self, ask: impl FnOnce(&mut Firmware, Time) -> T) -> Option<T> {
        let mut core = self.lock();
        let now = core.now();
        let answer = ask(core.firmware_mut()?, now);
        self.shared.posted(&mut core, now);
        Some(answer)
    }

    /// After a question to a firmware that is elsewhere: what came with the answer goes to those who wait for it.
    #[inline]
    fn asked_away(&self, core: &mut Locked<'_>) {
        if core.away.is_some() {
            let now = core.now();
            self.shared.posted(core, now);
        }
    }

    /// Makes what progress there is to be made, if that is the callers' work.
    pub(crate) fn progress(&self) {
        self.shared.turn_now(&mut self.lock());
    }

    /// Makes progress for so long, or lets whoever does.
    pub(crate) fn progress_for(&self, time: Duration) {
        wait_for::<()>(&self.shared, &Interest::Arrivals, Some(time), |_| None);
    }
}
