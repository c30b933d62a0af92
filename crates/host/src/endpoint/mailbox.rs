//! Endpoints: mailboxes of a node, and the safe way to send and receive through them.

use std::sync::Arc;

use emp_firmware::{
    CompletionMode, ProbeInfo, ReceiveDescriptor, SegmentList, Selector, SendDescriptor,
};
use emp_wire::NodeId;

use crate::boards::seat::Post;
use crate::endpoint::error::{OpenError, Refused, RefusedReason};
use crate::endpoint::request::{ReceiveRequest, Request, SendRequest, Ticket};
use crate::flying::queues::QueueKey;
use crate::memory::buffer::{Held, ReceiveBuffer, SendBuffer};
use crate::node::running::{Node, NodeInner};
use crate::told::names;

/// A mailbox of a node: messages are sent from it and received in it.
///
/// Cheap to clone; all clones are the same endpoint. When the last one goes the endpoint is closed: its receives end
/// with [`Status::EndpointClosed`](emp_firmware::Status::EndpointClosed), its sends go on.
#[derive(Clone)]
pub struct Endpoint {
    pub(crate) inner: Arc<EndpointInner>,
}

pub(crate) struct EndpointInner {
    pub(crate) node: Arc<NodeInner>,
    pub(crate) number: u16,
    pub(crate) queue: QueueKey,
}

/// Where a message goes: a node, and an endpoint of it.
///
/// Made of a pair: `(node_id, 3)`, or `("name", 3)` for a node whose identity is that of its name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Address {
    /// The node; may be the sending node itself.
    pub node: NodeId,
    /// Its endpoint.
    pub endpoint: u16,
}

impl From<(NodeId, u16)> for Address {
    fn from((node, endpoint): (NodeId, u16)) -> Self {
        Self { node, endpoint }
    }
}

impl From<(&str, u16)> for Address {
    fn from((name, endpoint): (&str, u16)) -> Self {
        Self { node: names::identity(name), endpoint }
    }
}

/// What may be chosen for a send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendOptions {
    /// Eight bytes that the receiver's completion shows.
    pub immediate: Option<u64>,
    /// Complete only when a receive has matched the message.
    pub synchronous: bool,
    /// When the send is complete.
    pub completion: CompletionMode,
    /// Other sends follow at once: they may leave together, with the first one that is not followed, or when the node makes
    /// progress. Small ones share frames then, which takes less time each.
    pub more: bool,
}

impl SendOptions {
    /// With eight bytes that the receiver's completion shows.
    #[must_use]
    pub fn immediate(self, immediate: u64) -> Self {
        Self { immediate: Some(immediate), ..self }
    }

    /// Complete only when a receive has matched the message.
    #[must_use]
    pub fn synchronous(self) -> Self {
        Self { synchronous: true, ..self }
    }

    /// Other sends follow at once.
    #[must_use]
    pub fn more(self, more: bool) -> Self {
        Self { more, ..self }
    }

    /// Complete in this manner.
    #[must_use]
    pub fn completion(self, completion: CompletionMode) -> Self {
        Self { completion, ..self }
    }
}

impl Node {
    /// Opens an endpoint.
    pub fn endpoint(&self, number: u16) -> Result<Endpoint, OpenError> {
        Endpoint::open(&self.inner, number)
    }
}

impl Endpoint {
    fn open(node: &Arc<NodeInner>, number: u16) -> Result<Self, OpenError> {
        let opened = node.seat.open(number).map_err(|error| OpenError::Refused(number, error))?;
        let queue = opened.ok_or(OpenError::AlreadyOpen(number))?;
        Ok(Self { inner: Arc::new(EndpointInner { node: Arc::clone(node), number, queue }) })
    }

    /// Its number on its node.
    pub fn number(&self) -> u16 {
        self.inner.number
    }

    /// Its node.
    pub fn node(&self) -> Node {
        Node { inner: Arc::clone(&self.inner.node) }
    }

    /// Where others send to reach this endpoint.
    pub fn address(&self) -> Address {
        Address { node: self.inner.node.id, endpoint: self.inner.number }
    }

    /// Posts a send. The request owns the buffer until the send has ended.
    pub fn send<B: SendBuffer>(
        &self,
        to: impl Into<Address>,
        match_bits: u64,
        buffer: B,
    ) -> Result<SendRequest<B>, Refused<B>> {
        self.send_with(to, match_bits, buffer, SendOptions::default())
    }

    /// As [`send`](Self::send), with options.
    #[inline(always)]
    pub fn send_with<B: SendBuffer>(
        &self,
        to: impl Into<Address>,
        match_bits: u64,
        buffer: B,
        options: SendOptions,
    ) -> Result<SendRequest<B>, Refused<B>> {
        let to = to.into();
        let held = Held::new(buffer);
        let list = held.segments();
        let describe = |segments| SendDescriptor {
            to: to.node,
            endpoint: self.inner.number,
            to_endpoint: to.endpoint,
            match_bits,
            segments,
            immediate: options.immediate,
            synchronous: options.synchronous,
            completion: options.completion,
            context: 0,
        };
        // SAFETY: the segments are those of `held`; nobody writes to them.
        unsafe { self.post(held, list, options.more, describe) }
    }

    /// Posts a receive. The request owns the buffer until the receive has ended.
    #[inline(always)]
    pub fn receive<B: ReceiveBuffer>(
        &self,
        selector: Selector,
        buffer: B,
    ) -> Result<ReceiveRequest<B>, Refused<B>> {
        self.receive_claimed(selector, None, buffer)
    }

    #[inline(always)]
    pub(crate) fn receive_claimed<B: ReceiveBuffer>(
        &self,
        selector: Selector,
        claim: Option<emp_firmware::ClaimId>,
        buffer: B,
    ) -> Result<ReceiveRequest<B>, Refused<B>> {
        let mut held = Held::new(buffer);
        let list = held.segments_mut();
        let endpoint = self.inner.number;
        let describe =
            |segments| ReceiveDescriptor { endpoint, selector, segments, claim, context: 0 };
        // SAFETY: as for a send; and the buffer is initialised memory that is its own.
        unsafe { self.post(held, list, false, describe) }
    }

    /// Posts what `describe` makes of the segments of `held`, and makes a request that keeps it. Inlined, so that the request is made where
    /// its owner keeps it: copies of what was just written wait for the stores.
    ///
    /// # Safety
    ///
    /// The segments are those of `held`, which the request keeps until the completion is handed out, so they stay valid; nobody writes to
    /// them meanwhile, or, if they are to be written to, uses them. What else is described may be used until this has returned.
    #[inline(always)]
    pub(crate) unsafe fn post<B: Send + 'static, P: Post>(
        &self,
        held: Held<B>,
        segments: Option<SegmentList>,
        more: bool,
        describe: impl FnOnce(SegmentList) -> P,
    ) -> Result<Request<B>, Refused<B>> {
        let node = &self.inner.node;
        let reason = match segments {
            None => RefusedReason::TooManySegments,
            // SAFETY: as the caller promises.
            Some(segments) => match unsafe { node.seat.post(describe(segments), more) } {
                Ok(begun) => return Ok(Request::new(Ticket::new(node, begun), held)),
                Err(error) => RefusedReason::Firmware(error),
            },
        };
        // SAFETY: nothing was posted.
        Err(Refused { reason, buffer: unsafe { held.release() } })
    }

    /// Looks for the first message that has arrived, that no receive has taken, and that `selector` accepts. Makes
    /// progress.
    pub fn probe(&self, selector: Selector) -> Option<ProbeInfo> {
        self.look(selector, false)
    }

    pub(crate) fn look(&self, selector: Selector, claim: bool) -> Option<ProbeInfo> {
        self.inner.node.seat.probe(self.inner.number, selector, (claim, true))
    }
}

impl Drop for EndpointInner {
    fn drop(&mut self) {
        self.node.seat.close_dropped(self.number);
    }
}
