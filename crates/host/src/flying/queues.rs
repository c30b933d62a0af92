//! Completion queues of the raw API, one for each open endpoint.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use emp_firmware::{Completion, OpKind};
use slab::Slab;

use crate::flying::alarm::Alarm;

/// Names the queue of one opening of an endpoint: when an endpoint is closed and opened again, what was posted before
/// does not end up in the new queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QueueKey {
    slot: u32,
    serial: u32,
}

struct Queue {
    serial: u32,
    completions: VecDeque<Completion>,
    /// To be rung with each completion.
    alarms: Vec<Arc<Alarm>>,
    /// Notices of these kinds are to be put here, too.
    notified: bool,
    undelivered: bool,
}

/// The queues. Found by place, not by number: they are looked at each time a spinning thread looks for completions.
#[derive(Default)]
pub(crate) struct Queues {
    slots: Slab<Queue>,
    by_number: HashMap<u16, QueueKey>,
    /// The queue of endpoints that have none of their own.
    common: Option<QueueKey>,
    last_serial: u32,
    /// Notifications that were taken out, or thrown away, since this was last asked.
    taken: usize,
    /// Completions in all queues together.
    held: usize,
    /// Completions that were handed out and wait for the application elsewhere.
    elsewhere: usize,
    /// How many may wait for the application. Posts are refused beyond it, so that whoever posts and never asks is told instead of growing;
    /// what is in flight then still finds its place.
    held_max: usize,
}

impl Queues {
    pub(crate) fn new(held_max: usize) -> Self {
        Self { held_max, ..Self::default() }
    }

    /// True if the endpoint is open.
    pub(crate) fn is_open(&self, number: u16) -> bool {
        self.by_number.contains_key(&number)
    }

    /// A queue for an endpoint that is being opened.
    pub(crate) fn open(&mut self, number: u16) -> QueueKey {
        let key = self.add();
        self.by_number.insert(number, key);
        key
    }

    /// The queue of all endpoints that have none of their own. All notices of theirs go there, too; notifications among them count until
    /// [`release`](Self::release).
    pub(crate) fn common(&mut self) -> QueueKey {
        if let Some(key) = self.common {
            return key;
        }
        let key = self.add();
        self.common = Some(key);
        self.want_notices(key, true);
        key
    }

    fn add(&mut self) -> QueueKey {
        self.last_serial = self.last_serial.wrapping_add(1);
        let serial = self.last_serial;
        let slot = self.slots.insert(Queue {
            serial,
            completions: VecDeque::new(),
            alarms: Vec::new(),
            notified: false,
            undelivered: false,
        });
        QueueKey { slot: slot as u32, serial }
    }

    /// Removes the queue of an endpoint that is being closed, with what is in it.
    pub(crate) fn close(&mut self, number: u16) {
        if let Some(key) = self.by_number.remove(&number) {
            let queue = self.slots.remove(key.slot as usize);
            self.held -= queue.completions.len();
            self.taken += queue.completions.iter().filter(|done| is_notification(done)).count();
        }
    }

    /// Adds a completion with this context; false if the endpoint is not open any more.
    #[inline]
    pub(crate) fn push(&mut self, key: QueueKey, context: u64, completion: &Completion) -> bool {
        let Some(queue) = self.find(key) else { return false };
        queue.completions.push_back(Completion { context, ..*completion });
        queue.alarms.iter().for_each(|alarm| alarm.ended());
        self.held += 1;
        true
    }

    /// Has an alarm rung with each completion from now on.
    pub(crate) fn add_alarm(&mut self, key: QueueKey, alarm: &Arc<Alarm>) {
        if let Some(queue) = self.find(key) {
            queue.alarms.push(Arc::clone(alarm));
        }
    }

    /// Has notices of puts that notify put into the queue from now on; if `undelivered`, of lost sends too.
    pub(crate) fn want_notices(&mut self, key: QueueKey, undelivered: bool) {
        if let Some(queue) = self.find(key) {
            queue.notified = true;
            queue.undelivered |= undelivered;
        }
    }

    /// The queue of an open endpoint, if it wants notices of this kind.
    pub(crate) fn wanting_notices(&mut self, number: u16, kind: OpKind) -> Option<QueueKey> {
        let key = self.by_number.get(&number).copied().or(self.common)?;
        let queue = self.find(key)?;
        let wanted = if kind == OpKind::Notified { queue.notified } else { queue.undelivered };
        wanted.then_some(key)
    }

    #[inline]
    fn find(&mut self, key: QueueKey) -> Option<&mut Queue> {
        let queue = self.slots.get_mut(key.slot as usize)?;
        (queue.serial == key.serial).then_some(queue)
    }

    /// True if so many completions wait that nothing more may be posted whose completion would join them.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.held >= self.held_max
    }

    /// Completions that wait for the application.
    #[inline]
    pub(crate) const fn held(&self) -> usize {
        self.held
    }

    /// The same with those that wait for it elsewhere.
    #[inline]
    pub(crate) const fn unread(&self) -> usize {
        self.held.saturating_add(self.elsewhere)
    }

    /// So many that were handed out wait for the application elsewhere.
    pub(crate) fn set_elsewhere(&mut self, count: usize) {
        self.elsewhere = count;
    }

    /// True if the queue has nothing to hand out.
    #[inline]
    pub(crate) fn is_empty(&mut self, key: QueueKey) -> bool {
        self.held == 0 || self.find(key).is_none_or(|queue| queue.completions.is_empty())
    }

    /// Moves as many completions as fit without an allocation.
    #[inline]
    pub(crate) fn hand_out(&mut self, key: QueueKey, into: &mut Vec<Completion>) -> usize {
        let Some(queue) = self.find(key) else { return 0 };
        let (mut count, mut taken) = (0, 0);
        while into.len() < into.capacity()
            && let Some(one) = queue.completions.front()
        {
            taken += usize::from(is_notification(one));
            // From where it lies to where it is wanted.
            into.push(*one);
            queue.completions.pop_front();
            count += 1;
        }
        if taken != 0 && self.common != Some(key) {
            self.taken += taken;
        }
        self.held -= count;
        count
    }

    /// So many notifications that were handed out of the common queue, or to nobody, are over.
    pub(crate) fn release(&mut self, count: usize) {
        self.taken += count;
    }

    /// Takes the first notification.
    pub(crate) fn take_notification(&mut self, key: QueueKey) -> Option<Completion> {
        let queue = self.find(key)?;
        let place = queue.completions.iter().position(is_notification)?;
        let taken = queue.completions.remove(place);
        self.taken += 1;
        self.held -= 1;
        taken
    }

    /// True if notifications were taken out since [`notifications_taken`](Self::notifications_taken) was last asked.
    #[inline]
    pub(crate) const fn has_taken(&self) -> bool {
        self.taken != 0
    }

    /// How many notifications were taken out since this was last asked.
    #[inline]
    pub(crate) fn notifications_taken(&mut self) -> usize {
        std::mem::take(&mut self.taken)
    }
}

fn is_notification(completion: &Completion) -> bool {
    completion.op.kind() == OpKind::Notified
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queue_ends_with_its_endpoint() {
        let mut queues = Queues::default();
        let first = queues.open(7);
        assert!(queues.is_open(7) && queues.find(first).is_some());
        queues.close(7);
        assert!(!queues.is_open(7) && queues.find(first).is_none());
        let second = queues.open(7);
        assert!(queues.find(first).is_none() && queues.find(second).is_some());
    }
}
