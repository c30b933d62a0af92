//! The end of a node.

use std::sync::PoisonError;
use std::time::Duration;

use crate::boards::seat::Seat;
use crate::boards::wait::wait_for;
use crate::flying::sleepers::Interest;
use crate::machine::clock;
use crate::told::journal::Level;
use crate::told::losses::CutShort;
use crate::turn::core::Core;

/// Longest time that closing waits at a time before it looks again whether all is acknowledged.
const CLOSE_SLICE: Duration = Duration::from_millis(1);

/// Frames that leave show that a long message goes on, but may be answers to peers that read this node's memory without an end: beyond this
/// time only operations that end count. As long as a message of a gigabyte takes at 100 Mb/s, and some.
const ONE_TAKES: Duration = Duration::from_secs(120);

impl Seat {
    /// Waits until all that was sent is delivered and all operations have ended, at most for `linger`; then says goodbye and ends the
    /// firmware. Does nothing if the node is closed, or belongs to the process that this one was forked from.
    ///
    /// # Errors
    ///
    /// What was cut short.
    pub(crate) fn close(&self, linger: Duration) -> Result<(), CutShort> {
        if !self.is_ours() {
            return Ok(());
        }
        let end = clock::now() + clock::span(linger);
        let mut drained = false;
        while !drained {
            let now = clock::now();
            let slice = clock::duration(end.since(now)).min(CLOSE_SLICE);
            drained = wait_for(&self.shared, &Interest::Arrivals, Some(slice), |core| {
                core.is_all_over().then_some(())
            })
            .is_some();
            if now >= end || self.lock().is_closed() {
                break;
            }
        }
        self.dismiss_workers();
        let mut core = self.lock();
        if core.is_closed() {
            return Ok(());
        }
        let cut = core.cut_short();
        let now = core.now();
        core.close(now);
        let (duty, sleepers) = core.duty_mut();
        duty.dismiss(sleepers);
        core.tell_counters();
        // A waiter beside a progress thread spins on this; whoever sleeps was woken.
        self.shared.signs.announce();
        cut
    }

    /// Waits until all that was sent is delivered and all operations have ended, until nothing of it has happened for `stalled`. True: all of it
    /// is over, or this is another process.
    pub(crate) fn drain(&self, stalled: Duration) -> bool {
        if !self.is_ours() {
            return true;
        }
        let mut before = self.lock().left();
        let look_every = clock::span(stalled / 8);
        let (mut moved, mut ended) = (clock::now(), clock::now());
        loop {
            let end = clock::now() + look_every;
            while clock::now() < end {
                let over = |core: &mut Core| core.is_all_over().then_some(());
                let slice = Some(CLOSE_SLICE);
                if wait_for(&self.shared, &Interest::Arrivals, slice, over).is_some() {
                    return true;
                }
            }
            let (mut core, now) = (self.lock(), clock::now());
            let left = core.left();
            if left.operations < before.operations {
                ended = now;
            }
            if left.is_less_than(before) && now.since(ended) < clock::span(ONE_TAKES) {
                (before, moved) = (left, now);
            } else if core.is_closed() || now.since(moved) >= clock::span(stalled) {
                return core.is_all_over();
            }
        }
    }

    /// Ends the node's own threads.
    pub(crate) fn dismiss_workers(&self) {
        self.shared.stop();
        let workers =
            std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in workers {
            // A buffer that owns a handle of this node may be dropped by the node's own thread.
            if worker.thread().id() != std::thread::current().id() {
                // A panic there has broken the lock, which is noticed by whoever uses the node.
                let _ = worker.join();
            }
        }
    }

    /// In a process that was forked from the node's: the threads are the parent's, and here is nothing to end or to give back.
    pub(crate) fn forget_workers(&mut self) {
        let workers = self.workers.get_mut().unwrap_or_else(PoisonError::into_inner);
        std::mem::forget(std::mem::take(workers));
    }

    /// Nobody uses the node any more. `last`: what is left to be said, and no call is left to say it.
    pub(crate) fn leave(&self, last: Option<&str>) {
        if let Some(mut core) = self.shared.lock_to_drop() {
            if let Some(last) = last {
                core.journal.say(Level::Error, last);
            }
            core.let_packet_links_go();
        }
    }
}
