//! Endpoints, and operations whose ends come by their queues: those of the raw API, and notices.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use emp_firmware::{ClaimId, Completion, OpId, PostError, ProbeInfo, Selector};

use crate::boards::lock::Locked;
use crate::boards::seat::requests::begin;
use crate::boards::seat::{Post, Seat};
use crate::boards::wait::wait_for;
use crate::daemon::Tell;
use crate::flying::alarm::Alarm;
use crate::flying::queues::QueueKey;
use crate::flying::requests::{Begun, State};
use crate::flying::sleepers::Interest;
use crate::machine::clock;
use crate::turn::core::Core;

/// A post of the raw API that was accepted.
pub(crate) enum RawBegun {
    /// It is under way; its completion follows.
    Flying(OpId),
    /// It is over, and no completion follows.
    Over(Completion),
}

impl Seat {
    /// Opens an endpoint. `None`: it is open already.
    pub(crate) fn open(&self, number: u16) -> Result<Option<QueueKey>, PostError> {
        let mut core = self.lock();
        if core.queues.is_open(number) {
            return Ok(None);
        }
        match &mut core.away {
            Some(away) => away.open_endpoint(number)?,
            None => core.firmware_mut().ok_or(PostError::Closing)?.open_endpoint(number)?,
        }
        Ok(Some(core.queues.open(number)))
    }

    /// Closes an endpoint whose handles are gone.
    pub(crate) fn close_dropped(&self, number: u16) {
        let Some(mut core) = self.shared.lock_to_drop() else { return };
        core.queues.close(number);
        let now = core.now();
        if core.away.is_some() {
            return self.close_away(&mut core, number, []);
        }
        if let Some(firmware) = core.firmware_mut() {
            firmware.close_endpoint(now, number);
            self.shared.posted(&mut core, now);
        }
    }

    /// Closes an endpoint in the firmware, and ends these operations of it.
    pub(crate) fn close_and_end(&self, number: u16, operations: impl IntoIterator<Item = OpId>) {
        let mut core = self.lock();
        if core.away.is_some() {
            return self.close_away(&mut core, number, operations);
        }
        drop(core);
        self.ask(|firmware, now| {
            firmware.close_endpoint(now, number);
            operations.into_iter().for_each(|op| firmware.abort(now, op));
        });
    }

    /// The same, of the daemon board.
    fn close_away(
        &self,
        core: &mut Locked<'_>,
        number: u16,
        operations: impl IntoIterator<Item = OpId>,
    ) {
        let now = core.now();
        if let Some(away) = &mut core.away {
            away.close_endpoint(number);
            operations.into_iter().for_each(|op| away.tell(Tell::Abort(op.to_bits())));
        }
        self.shared.posted(core, now);
    }

    /// Posts an operation whose end goes to a queue, with this context.
    ///
    /// # Safety
    ///
    /// As for [`Post::post`]: the segments stay valid until the end was handed out by the queue.
    #[inline(always)]
    pub(crate) unsafe fn post_raw(
        &self,
        what: impl Post,
        (queue, context): (QueueKey, u64),
        more: bool,
    ) -> Result<OpId, PostError> {
        let (shared, state) = (&*self.shared, State::Raw { queue, context });
        let mut core = shared.lock();
        // SAFETY: as the caller promises.
        let (begun, now) = unsafe { begin(shared, &mut core, what, state, more) }?;
        let op = core.raw_op(begun, queue, context);
        shared.posted_with(&mut core, now, more);
        Ok(op)
    }

    /// The same, but what is over at once has no completion in the queue. With `told`, only if nothing has happened to any peer since
    /// [`events_told`](Self::events_told) was that: `None` if something has, and nothing was posted.
    ///
    /// # Safety
    ///
    /// As for [`post_raw`](Self::post_raw).
    #[inline(always)]
    pub(crate) unsafe fn post_raw_or_end(
        &self,
        what: impl Post,
        (queue, context): (QueueKey, u64),
        more: bool,
        told: Option<u64>,
    ) -> Result<Option<RawBegun>, PostError> {
        let (shared, state) = (&*self.shared, State::Raw { queue, context });
        let mut core = shared.lock();
        // Told under this lock.
        if told.is_some_and(|told| shared.events_told.load(Ordering::Relaxed) != told) {
            return Ok(None);
        }
        // SAFETY: as the caller promises.
        let (begun, now) = unsafe { begin(shared, &mut core, what, state, more) }?;
        let posted = match begun {
            Begun::Flying(key) => RawBegun::Flying(core.requests.op(key)),
            Begun::Over(completion) => RawBegun::Over(completion),
        };
        shared.posted_with(&mut core, now, more);
        Ok(Some(posted))
    }

    /// Tries to cancel an operation. False: too late.
    pub(crate) fn cancel_raw(&self, op: OpId) -> bool {
        self.cancel_op(&mut self.lock(), op)
    }

    /// Takes out of a queue what has ended, as much as fits. Makes progress if there is nothing.
    #[inline]
    pub(crate) fn poll(&self, queue: QueueKey, into: &mut Vec<Completion>) -> usize {
        let mut core = self.lock();
        if core.queues.is_empty(queue) {
            self.shared.turn_now(&mut core);
        }
        core.queues.hand_out(queue, into)
    }

    /// The same of several queues. A look that finds nothing takes the lock once and touches as little as it can.
    #[inline]
    pub(crate) fn poll_all(
        &self,
        queues: impl Iterator<Item = QueueKey> + Clone,
        into: &mut Vec<Completion>,
    ) -> usize {
        let mut core = self.lock();
        if queues.clone().all(|queue| core.queues.is_empty(queue)) {
            self.shared.turn_now(&mut core);
            if core.queues.held() == 0 {
                return 0;
            }
        }
        let mut count = 0;
        for queue in queues {
            count += core.queues.hand_out(queue, into);
        }
        count
    }

    /// As [`poll`](Self::poll), once there is at least one.
    pub(crate) fn wait_poll(
        &self,
        queue: QueueKey,
        into: &mut Vec<Completion>,
        timeout: Option<Duration>,
    ) -> usize {
        wait_for(&self.shared, &Interest::Raw(queue), timeout, |core| {
            let count = core.queues.hand_out(queue, into);
            (count != 0).then_some(count)
        })
        .unwrap_or(0)
    }

    /// Waits until there is something in one of these queues, or, if `nudges` are given, until there were others since. True if so.
    pub(crate) fn wait_queues(
        &self,
        queues: &[QueueKey],
        nudges: Option<u64>,
        timeout: Option<Duration>,
    ) -> bool {
        let interest = match queues {
            [one] => Interest::Raw(*one),
            some => Interest::RawAny(some.to_vec()),
        };
        wait_for(&self.shared, &interest, timeout, |core| {
            let over = nudges.is_some_and(|nudges| nudges != self.nudges()) || any(core, queues);
            over.then_some(())
        })
        .is_some()
    }

    /// Waits until there is something in one of these queues, there were other nudges since, or a message has come that no receive of this
    /// endpoint has taken. True if so.
    pub(crate) fn wait_message(
        &self,
        (number, selector): (u16, Selector),
        queues: &[QueueKey],
        nudges: u64,
        timeout: Option<Duration>,
    ) -> bool {
        wait_for(&self.shared, &Interest::Arrivals, timeout, |core| {
            let over = nudges != self.nudges()
                || any(core, queues)
                || core.probe(number, selector, false).is_some();
            over.then_some(())
        })
        .is_some()
    }

    /// How often threads that wait were nudged so far.
    #[inline]
    pub(crate) fn nudges(&self) -> u64 {
        self.shared.signs.nudges()
    }

    /// Ends the waits that watch for this.
    pub(crate) fn nudge(&self) {
        self.shared.nudge(&mut self.lock());
    }

    /// True if the last look found nothing to do at all.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.idle.load(Ordering::Relaxed)
    }

    /// True if the links were looked at within this time, and what that brought was handed out.
    #[inline]
    pub(crate) fn has_given_all(&self, within: Duration) -> bool {
        let core = self.lock();
        core.queues.held() == 0 && core.now().since(core.last_turn) < clock::span(within)
    }

    /// Has an alarm rung with each completion of a queue from now on.
    pub(crate) fn add_alarm(&self, queue: QueueKey, alarm: &Arc<Alarm>) {
        self.lock().queues.add_alarm(queue, alarm);
    }

    /// Has notices of puts that notify put into the queue from now on; if `undelivered`, of lost sends too.
    pub(crate) fn want_notices(&self, queue: QueueKey, undelivered: bool) {
        self.lock().queues.want_notices(queue, undelivered);
    }

    /// Takes the first notification. Makes progress if the queue is empty.
    pub(crate) fn poll_notification(&self, queue: QueueKey) -> Option<Completion> {
        let mut core = self.lock();
        if core.queues.is_empty(queue) {
            self.shared.turn_now(&mut core);
        }
        core.queues.take_notification(queue)
    }

    /// The same, once there is one.
    pub(crate) fn wait_notification(
        &self,
        queue: QueueKey,
        timeout: Option<Duration>,
    ) -> Option<Completion> {
        wait_for(&self.shared, &Interest::Raw(queue), timeout, |core| {
            core.queues.take_notification(queue)
        })
    }

    /// Looks for a message that no receive has taken, after some progress if `turn`; with `claim` it is set aside.
    pub(crate) fn probe(
        &self,
        number: u16,
        selector: Selector,
        (claim, turn): (bool, bool),
    ) -> Option<ProbeInfo> {
        let mut core = self.lock();
        if turn {
            self.shared.turn_now(&mut core);
        }
        let found = core.probe(number, selector, claim);
        self.asked_away(&mut core);
        found
    }

    /// Looks for such a message until there is one.
    pub(crate) fn wait_probe(
        &self,
        number: u16,
        selector: Selector,
        timeout: Option<Duration>,
    ) -> Option<ProbeInfo> {
        wait_for(&self.shared, &Interest::Arrivals, timeout, |core| {
            core.probe(number, selector, false)
        })
    }

    /// The same where the claim is dropped.
    pub(crate) fn discard_dropped(&self, claim: ClaimId) {
        let Some(mut core) = self.shared.lock_to_drop() else { return };
        self.discard_now(&mut core, claim);
    }

    fn discard_now(&self, core: &mut Locked<'_>, claim: ClaimId) {
        let now = core.now();
        if let Some(away) = &mut core.away {
            away.discard(claim);
        } else if let Some(firmware) = core.firmware_mut() {
            firmware.discard(now, claim);
        }
        self.shared.posted(core, now);
    }

    /// Gives up a message that was set aside.
    pub(crate) fn discard(&self, claim: ClaimId) {
        self.discard_now(&mut self.lock(), claim);
    }
}

/// True if there is something in one of the queues.
fn any(core: &mut Core, queues: &[QueueKey]) -> bool {
    queues.iter().any(|queue| !core.queues.is_empty(*queue))
}
