//! Threads that sleep until something happens on a node, and what is to be done once its lock is free again.
//!
//! Waking a thread and dropping an application's buffer are both left until after the lock is released: the first
//! because the woken thread wants the lock, the second because a drop may run the application's code.

use std::sync::Arc;

use crate::flying::queues::QueueKey;
use crate::flying::requests::{Buried, SlotKey};
use crate::machine::wakeup::Parker;

/// What a sleeper sleeps for.
#[derive(Clone, Debug)]
pub(crate) enum Interest {
    /// The end of one request.
    One(SlotKey),
    /// The end of any of these.
    Any(Vec<SlotKey>),
    /// A completion of the raw API in this queue.
    Raw(QueueKey),
    /// Likewise, in any of these.
    RawAny(Vec<QueueKey>),
    /// Something that happened to a peer.
    Events,
    /// Any frame that arrived.
    Arrivals,
}

/// A bell that wakes whoever sleeps on the links' descriptors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bell {
    /// A caller's, or the progress thread's.
    Board,
    /// The guardian's.
    Guardian,
}

/// How a sleeper is woken.
pub(crate) enum How {
    /// By its parker.
    Parked(Arc<Parker>),
    /// Likewise, but it wakes by itself in a moment: it need not be asked to watch.
    Napping(Arc<Parker>),
    /// By the node's bell: it sleeps on the links' descriptors.
    Watching,
}

struct Sleeper {
    ticket: u64,
    interest: Interest,
    how: How,
}

/// What is to be done after the lock was released.
#[derive(Default)]
pub(crate) struct After {
    /// Threads to wake.
    pub(crate) wake: Vec<Arc<Parker>>,
    /// Ring the bell of the caller or progress thread that sleeps on the descriptors.
    pub(crate) ring: bool,
    /// Ring the guardian's bell.
    pub(crate) ring_guardian: bool,
    /// Buffers to drop.
    pub(crate) bury: Vec<Buried>,
}

impl After {
    #[inline]
    fn is_empty(&self) -> bool {
        !self.ring && !self.ring_guardian && self.wake.is_empty() && self.bury.is_empty()
    }
}

/// All sleepers of a node.
#[derive(Default)]
pub(crate) struct Sleepers {
    sleepers: Vec<Sleeper>,
    next_ticket: u64,
    after: After,
}

impl Sleepers {
    /// Registers a thread that is about to sleep; the ticket is to be returned with [`leave`](Self::leave).
    pub(crate) fn enter(&mut self, interest: Interest, how: How) -> u64 {
        self.next_ticket += 1;
        self.sleepers.push(Sleeper { ticket: self.next_ticket, interest, how });
        self.next_ticket
    }

    /// Takes a sleeper off the list.
    pub(crate) fn leave(&mut self, ticket: u64) {
        self.sleepers.retain(|sleeper| sleeper.ticket != ticket);
    }

    #[inline]
    fn wake(&mut self, wanted: impl Fn(&Interest) -> bool) {
        for sleeper in &self.sleepers {
            if wanted(&sleeper.interest) {
                match &sleeper.how {
                    How::Parked(parker) | How::Napping(parker) => {
                        self.after.wake.push(Arc::clone(parker));
                    }
                    How::Watching => self.after.ring = true,
                }
            }
        }
    }

    /// A request has ended.
    #[inline]
    pub(crate) fn request(&mut self, key: SlotKey) {
        self.wake(|interest| match interest {
            Interest::One(wanted) => *wanted == key,
            Interest::Any(wanted) => wanted.contains(&key),
            _ => false,
        });
    }

    /// A raw completion was queued.
    #[inline]
    pub(crate) fn raw(&mut self, queue: QueueKey) {
        self.wake(|interest| match interest {
            Interest::Raw(wanted) => *wanted == queue,
            Interest::RawAny(wanted) => wanted.contains(&queue),
            _ => false,
        });
    }

    /// An event was queued.
    pub(crate) fn event(&mut self) {
        self.wake(|interest| matches!(interest, Interest::Events));
    }

    /// Frames have arrived.
    #[inline]
    pub(crate) fn arrival(&mut self) {
        self.wake(|interest| matches!(interest, Interest::Arrivals));
    }

    /// Whoever waits for completions of the raw API, or for messages, is to look at something else.
    pub(crate) fn nudge(&mut self) {
        self.wake(|interest| {
            matches!(interest, Interest::Raw(_) | Interest::RawAny(_) | Interest::Arrivals)
        });
    }

    /// The node is closed.
    pub(crate) fn everyone(&mut self) {
        self.wake(|_| true);
    }

    /// Whoever sleeps on the links' descriptors is to look.
    pub(crate) fn ring(&mut self, bell: Bell) {
        match bell {
            Bell::Board => self.after.ring = true,
            Bell::Guardian => self.after.ring_guardian = true,
        }
    }

    /// A thread that is not on the list is to wake, if there is one.
    pub(crate) fn wake_parker(&mut self, parker: Option<Arc<Parker>>) {
        self.after.wake.extend(parker);
    }

    /// One of those that sleep until they are woken is to wake.
    pub(crate) fn wake_one_parked(&mut self) {
        let parked = self.sleepers.iter().find_map(|sleeper| match &sleeper.how {
            How::Parked(parker) => Some(Arc::clone(parker)),
            How::Napping(_) | How::Watching => None,
        });
        self.after.wake.extend(parked);
    }

    /// True if nobody sleeps.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.sleepers.is_empty()
    }

    /// A buffer is to be dropped.
    pub(crate) fn bury(&mut self, buffer: Buried) {
        self.after.bury.push(buffer);
    }

    /// Threads that sleep away from the links' descriptors until they are woken.
    #[cfg(test)]
    pub(crate) fn parked(&self) -> usize {
        self.sleepers.iter().filter(|sleeper| matches!(sleeper.how, How::Parked(_))).count()
    }

    /// True if nothing is to be done after the lock is released.
    #[inline]
    pub(crate) fn are_served(&self) -> bool {
        self.after.is_empty()
    }

    /// What is to be done after the lock is released.
    pub(crate) fn after(&mut self) -> After {
        std::mem::take(&mut self.after)
    }
}
