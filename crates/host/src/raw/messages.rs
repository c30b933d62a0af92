//! The raw API: descriptors with plain addresses, for faces (libfabric and others) that manage buffers themselves.
//!
//! Nothing here allocates once the queues have grown to what is outstanding at a time, as long as lists have at most
//! two segments.

use std::time::Duration;

use emp_firmware::{Completion, OpId, PostError, ReceiveDescriptor, SendDescriptor, Status};

use crate::boards::seat::{MultiReceive, RawBegun};
use crate::endpoint::mailbox::Endpoint;

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
    ///
    /// Written they are also by what is received: no byte of them may be part of a receive or a get that is under way at the same time. On one
    /// thread such a message would hold what was there before or after; on a board that has a part of the engine on a second thread
    /// (`split:SO`, `split:RO`, `split:DSR`, `split:SR`, `split:dynamic`) one thread may read while the other writes, which is undefined behaviour. The safe API cannot be used so: its requests own
    /// their buffers.
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
        let to = (self.inner.queue, send.context);
        let send = SendDescriptor { endpoint: self.inner.number, ..send };
        // SAFETY: as the caller promises.
        unsafe { self.inner.node.seat.post_raw(send, to, more) }
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
        // SAFETY: as the caller promises. Told of nothing, it is always posted.
        let begun = unsafe { self.post_or_end(send, more, None) }?;
        Ok(begun.expect("nothing was to be told of"))
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
        // SAFETY: as the caller promises.
        unsafe { self.post_or_end(send, false, Some(told)) }
    }

    /// # Safety
    ///
    /// As for [`post_send_raw_or_end`](Self::post_send_raw_or_end).
    #[inline(always)]
    unsafe fn post_or_end(
        &self,
        send: SendDescriptor,
        more: bool,
        told: Option<u64>,
    ) -> Result<Option<RawSend>, PostError> {
        let (to, seat) = ((self.inner.queue, send.context), &self.inner.node.seat);
        let send = SendDescriptor { endpoint: self.inner.number, ..send };
        // SAFETY: as the caller promises.
        let begun = unsafe { seat.post_raw_or_end(send, to, more, told) }?;
        Ok(begun.map(|begun| match begun {
            RawBegun::Flying(op) => RawSend::Flying(op),
            RawBegun::Over(completion) => RawSend::Over(completion.status),
        }))
    }

    /// Posts a receive into memory that the caller manages. `endpoint` of the descriptor is replaced by this endpoint's
    /// number. The completion comes by [`poll_completions`](Self::poll_completions) with the descriptor's context.
    ///
    /// # Safety
    ///
    /// Each segment's address is a pointer of this process with exposed provenance to as many writable bytes as it says.
    /// They stay so and are not accessed otherwise, by other operations neither ([`post_send_raw`](Self::post_send_raw)), until the completion was returned by `poll_completions` or
    /// `wait_completions`, or the endpoint was dropped (all clones), or [`Node::close`](crate::Node::close) has
    /// returned.
    pub unsafe fn post_receive_raw(
        &self,
        mut receive: ReceiveDescriptor,
    ) -> Result<RawOp, PostError> {
        receive.endpoint = self.inner.number;
        let to = (self.inner.queue, receive.context);
        // SAFETY: the caller keeps the segments valid until the completion is handed out.
        unsafe { self.inner.node.seat.post_raw(receive, to, false) }
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
        let to = (self.inner.queue, receive.context);
        let receive = MultiReceive(receive, least_free);
        // SAFETY: the caller keeps the segments valid until the last completion is handed out.
        unsafe { self.inner.node.seat.post_raw(receive, to, false) }
    }

    /// Tries to cancel an operation of the raw API. True: its completion will say `Cancelled`. False: too late.
    pub fn cancel_raw(&self, op: RawOp) -> bool {
        self.inner.node.seat.cancel_raw(op)
    }

    /// Closes the endpoint before it is dropped, and ends these operations of it, which the raw API posted. Their completions, and those of all
    /// its receives, follow as soon as no frame that waits for its link names their memory: in milliseconds. A send or one-sided operation that a peer may
    /// have begun with costs what else is under way with that peer: it ends with [`Status::Unreachable`](crate::Status::Unreachable).
    pub fn end_raw(&self, operations: impl IntoIterator<Item = RawOp>) {
        self.inner.node.seat.close_and_end(self.inner.number, operations);
    }

    /// Appends ended operations of the raw API to `into`, at most as many as its spare capacity holds; returns how many.
    /// What does not fit is kept for the next call. Makes progress if there are none.
    #[inline]
    pub fn poll_completions(&self, into: &mut Vec<Completion>) -> usize {
        self.inner.node.seat.poll(self.inner.queue, into)
    }

    /// As [`poll_completions`](Self::poll_completions), but waits until there is at least one, at most for `timeout`
    /// (`None`: without limit).
    pub fn wait_completions(
        &self,
        into: &mut Vec<Completion>,
        timeout: impl Into<Option<Duration>>,
    ) -> usize {
        if into.capacity() == into.len() {
            return 0;
        }
        self.inner.node.seat.wait_poll(self.inner.queue, into, timeout.into())
    }
}
