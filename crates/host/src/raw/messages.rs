//! The raw API: descriptors with plain addresses, for faces (libfabric and others) that manage buffers themselves.
//!
//! Nothing here allocates once the queues have grown to what is outstanding at a time, as long as lists have at most
//! two segments.

use std::sync::atomic::Ordering;
use std::time::Duration;

use emp_firmware::{Completion, OpId, PostError, ReceiveDescriptor, SendDescriptor, Status};

use crate::boards::lock::Locked;
use crate::boards::wait::wait_for;
use crate::endpoint::handle::{Endpoint, make_room};
use crate::flying::sleepers::Interest;
use crate::flying::slots::{Begun, State};

/// An operation of the raw API, for [`Endpoint::cancel_raw`].
pub type RawOp = OpId;

/// A send of the raw API that was posted ([`Endpoint::post_send_raw_or_end`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RawSend {
    /// It is under way; its completion follows.
    Flying(RawOp),
    /// It has ended like this, and no completion follows.
    Over(Status),
}

impl Endpoint {
    /// Posts a send of memory that the caller manages. `endpoint` of the descriptor is replaced by this endpoint's
    /// number. The completion comes by [`poll_completions`](Self::poll_completions) with the descriptor's context.
    ///
    /// # Safety
    ///
    /// Each segment's address is a pointer of this process with exposed provenance
    /// (`expose_provenance`) to as many readable bytes as it says. They stay readable and
    /// are not written until the completion was returned by `poll_completions` or `wait_completions`, or
    /// [`Node::close`](crate::Node::close) has returned. Dropping the endpoint does not end a send.
    pub unsafe fn post_send_raw(&self, send: SendDescriptor) -> Result<RawOp, PostError> {
        // SAFETY: as the caller promises.
        unsafe { self.post_send_raw_with(send, false) }
    }

    /// The same; with `more`, other posts follow at once, and the message may wait to leave with them.
    ///
    /// # Safety
    ///
    /// As for [`post_send_raw`](Self::post_send_raw).
    pub unsafe fn post_send_raw_with(
        &self,
        send: SendDescriptor,
        more: bool,
    ) -> Result<RawOp, PostError> {
        let (shared, queue, context) = (&self.inner.node.shared, self.inner.queue, send.context);
        // SAFETY: as the caller promises.
        let (mut core, begun) = unsafe { self.begin_send_raw(send, more) }?;
        let now = core.last_post;
        let op = core.raw_op(begun, queue, context);
        shared.posted_with(&mut core, now, more);
        Ok(op)
    }

    /// The same for callers who can do with less: if the send was over when it was posted, as most small ones are, no
    /// completion follows. Whoever has one to tell of tells it at once.
    ///
    /// # Safety
    ///
    /// As for [`post_send_raw`](Self::post_send_raw); the segments of a send that is over are the caller's again.
    #[inline]
    pub unsafe fn post_send_raw_or_end(
        &self,
        send: SendDescriptor,
        more: bool,
    ) -> Result<RawSend, PostError> {
        // SAFETY: as the caller promises.
        let (core, begun) = unsafe { self.begin_send_raw(send, more) }?;
        Ok(self.end_or_fly(core, begun, more))
    }

    /// The same, but only if nothing has happened to any peer since [`Node::events_told`](crate::Node::events_told) was as `told`
    /// says. `None`: something has, perhaps to the one that the message is for, and nothing was posted. A message for a node
    /// that has gone would else reach the one that is started in its place.
    ///
    /// # Safety
    ///
    /// As for [`post_send_raw_or_end`](Self::post_send_raw_or_end).
    #[inline]
    pub unsafe fn post_send_raw_unless_told(
        &self,
        send: SendDescriptor,
        told: u64,
    ) -> Result<Option<RawSend>, PostError> {
        let shared = &self.inner.node.shared;
        let core = shared.lock();
        // Told under this lock.
        if shared.events_told.load(Ordering::Relaxed) != told {
            return Ok(None);
        }
        // SAFETY: as the caller promises.
        let (core, begun) = unsafe { self.begin_locked(core, send, false) }?;
        Ok(Some(self.end_or_fly(core, begun, false)))
    }

    #[inline]
    fn end_or_fly(&self, mut core: Locked<'_>, begun: Begun, more: bool) -> RawSend {
        let now = core.last_post;
        let posted = match begun {
            Begun::Flying(key) => RawSend::Flying(core.requests.op(key)),
            Begun::Over(completion) => RawSend::Over(completion.status),
        };
        self.inner.node.shared.posted_with(&mut core, now, more);
        posted
    }

    /// Posts a send, and hands back the core as it was locked for that.
    ///
    /// # Safety
    ///
    /// As for [`post_send_raw`](Self::post_send_raw).
    #[inline]
    unsafe fn begin_send_raw(
        &self,
        send: SendDescriptor,
        more: bool,
    ) -> Result<(Locked<'_>, Begun), PostError> {
        // SAFETY: as the caller promises.
        unsafe { self.begin_locked(self.inner.node.shared.lock(), send, more) }
    }

    /// The same with the core that is locked already.
    ///
    /// # Safety
    ///
    /// As for [`post_send_raw`](Self::post_send_raw).
    #[inline]
    unsafe fn begin_locked<'a>(
        &self,
        mut core: Locked<'a>,
        mut send: SendDescriptor,
        more: bool,
    ) -> Result<(Locked<'a>, Begun), PostError> {
        send.endpoint = self.inner.number;
        let state = State::Raw { queue: self.inner.queue, context: send.context };
        let departs = self.inner.node.shared.sends_itself(&core, more);
        // SAFETY: the caller keeps the segments valid until the completion is handed out.
        match unsafe { core.post_send(send, state, (more, departs)) } {
            Ok(begun) => Ok((core, begun)),
            Err(error) => {
                let now = core.now();
                make_room(&mut core, error, now);
                Err(error)
            }
        }
    }

    /// Posts a receive into memory that the caller manages. `endpoint` of the descriptor is replaced by this endpoint's
    /// number. The completion comes by [`poll_completions`](Self::poll_completions) with the descriptor's context.
    ///
    /// # Safety
    ///
    /// Each segment's address is a pointer of this process with exposed provenance to as many writable bytes as it says.
    /// They stay so and are not accessed otherwise until the completion was returned by `poll_completions` or
    /// `wait_completions`, or the endpoint was dropped (all clones), or [`Node::close`](crate::Node::close) has
    /// returned.
    pub unsafe fn post_receive_raw(
        &self,
        mut receive: ReceiveDescriptor,
    ) -> Result<RawOp, PostError> {
        receive.endpoint = self.inner.number;
        let state = State::Raw { queue: self.inner.queue, context: receive.context };
        let shared = &self.inner.node.shared;
        let mut core = shared.lock();
        let now = core.receive_post_time(&receive.selector);
        // SAFETY: the caller keeps the segments valid until the completion is handed out.
        match unsafe { core.post_receive(now, receive, state) } {
            Ok(key) => {
                let op = core.requests.op(key);
                shared.posted(&mut core, now);
                Ok(op)
            }
            Err(error) => {
                make_room(&mut core, error, now);
                Err(error)
            }
        }
    }

    /// Posts a receive for several messages into memory that the caller manages: one behind the other, until fewer than `least_free` bytes are
    /// free. Each has a completion, which says where it is ([`Completion::place`]); after the one of which no more follow the memory is the
    /// caller's. Cancelled, it has one more, which says `Cancelled`, when the messages under way have ended.
    ///
    /// # Safety
    ///
    /// As for [`post_receive_raw`](Self::post_receive_raw), until the completion of which no more follow. What a completion has told of may be
    /// read before.
    pub unsafe fn post_multi_receive_raw(
        &self,
        mut receive: ReceiveDescriptor,
        least_free: u64,
    ) -> Result<RawOp, PostError> {
        receive.endpoint = self.inner.number;
        let state = State::Raw { queue: self.inner.queue, context: receive.context };
        let shared = &self.inner.node.shared;
        let mut core = shared.lock();
        let now = core.receive_post_time(&receive.selector);
        // SAFETY: the caller keeps the segments valid until the last completion is handed out.
        match unsafe { core.post_multi_receive(now, receive, least_free, state) } {
            Ok(key) => {
                let op = core.requests.op(key);
                shared.posted(&mut core, now);
                Ok(op)
            }
            Err(error) => {
                make_room(&mut core, error, now);
                Err(error)
            }
        }
    }

    /// Tries to cancel an operation of the raw API. True: its completion will say `Cancelled`. False: too late.
    pub fn cancel_raw(&self, op: RawOp) -> bool {
        let shared = &self.inner.node.shared;
        let mut core = shared.lock();
        let now = core.now();
        let cancelled = core.firmware_mut().is_some_and(|firmware| firmware.cancel(now, op));
        shared.posted(&mut core, now);
        cancelled
    }

    /// Closes the endpoint before it is dropped, and ends these operations of it, which the raw API posted. Their completions, and those of all
    /// its receives, follow as soon as no frame that waits for its link names their memory: in milliseconds. A send or one-sided operation that a peer may
    /// have begun with costs what else is under way with that peer: it ends with [`Status::Unreachable`](crate::Status::Unreachable).
    pub fn end_raw(&self, operations: impl IntoIterator<Item = RawOp>) {
        let shared = &self.inner.node.shared;
        let mut core = shared.lock();
        let now = core.now();
        if let Some(firmware) = core.firmware_mut() {
            firmware.close_endpoint(now, self.inner.number);
            operations.into_iter().for_each(|op| firmware.abort(now, op));
        }
        shared.posted(&mut core, now);
    }

    /// Appends ended operations of the raw API to `into`, at most as many as its spare capacity holds; returns how many.
    /// What does not fit is kept for the next call. Makes progress if there are none.
    #[inline]
    pub fn poll_completions(&self, into: &mut Vec<Completion>) -> usize {
        let shared = &self.inner.node.shared;
        let mut core = shared.lock();
        if core.queues.is_empty(self.inner.queue) {
            shared.turn_now(&mut core);
        }
        core.queues.hand_out(self.inner.queue, into)
    }

    /// As [`poll_completions`](Self::poll_completions), but waits until there is at least one, at most for `timeout`
    /// (`None`: without limit).
    pub fn wait_completions(
        &self,
        into: &mut Vec<Completion>,
        timeout: impl Into<Option<Duration>>,
    ) -> usize {
        let key = self.inner.queue;
        if into.capacity() == into.len() {
            return 0;
        }
        wait_for(&self.inner.node.shared, &Interest::Raw(key), timeout.into(), |core| {
            let count = core.queues.hand_out(key, into);
            (count != 0).then_some(count)
        })
        .unwrap_or(0)
    }
}
