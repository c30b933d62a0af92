//! Reaching other nodes' regions: put, get, atomics, and hearing of puts into one's own.

use std::time::Duration;

use emp_firmware::{
    AtomicDescriptor, AtomicOp, Completion, CompletionMode, GetDescriptor, PutDescriptor,
    RemoteRegion, Segment, SegmentList,
};
use emp_wire::NodeId;

use crate::endpoint::error::Refused;
use crate::endpoint::mailbox::Endpoint;
use crate::endpoint::request::Request;
use crate::memory::buffer::{Held, ReceiveBuffer, SendBuffer};
use crate::memory::element::{Element, Values, bytes_of};

/// What may be chosen for a put.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PutOptions {
    /// Notify the target of the put's end with these eight bytes.
    pub immediate: Option<u64>,
}

impl PutOptions {
    /// Notifies the target of the put's end with these eight bytes.
    #[must_use]
    pub fn notify(self, immediate: u64) -> Self {
        Self { immediate: Some(immediate) }
    }
}

/// A peer's put with immediate data is wholly in a region of this node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notification {
    /// Who put.
    pub from: NodeId,
    /// From which of its endpoints.
    pub from_endpoint: u16,
    /// Key of the region.
    pub key: u64,
    /// Bytes that were put.
    pub bytes: u64,
    /// The immediate data.
    pub immediate: u64,
}

impl Notification {
    fn new(completion: Completion) -> Self {
        let Completion { peer, peer_endpoint, match_bits, bytes, immediate, .. } = completion;
        Self {
            from: peer,
            from_endpoint: peer_endpoint,
            key: match_bits,
            bytes,
            immediate: immediate.unwrap_or_default(),
        }
    }
}

impl Endpoint {
    /// Writes to a region of another node (or this one). The request ends when all bytes are there; the target's application
    /// has no part in it.
    ///
    /// It fails, besides for the reasons that a send has, with [`Status::BadKey`](crate::Status::BadKey),
    /// [`BadGeneration`](crate::Status::BadGeneration), [`OutOfBounds`](crate::Status::OutOfBounds) or
    /// [`NoRights`](crate::Status::NoRights); then nothing, or only a part, was written.
    pub fn put<B: SendBuffer>(
        &self,
        target: RemoteRegion,
        buffer: B,
    ) -> Result<Request<B>, Refused<B>> {
        self.put_with(target, buffer, PutOptions::default())
    }

    /// As [`put`](Self::put), with options.
    pub fn put_with<B: SendBuffer>(
        &self,
        target: RemoteRegion,
        buffer: B,
        options: PutOptions,
    ) -> Result<Request<B>, Refused<B>> {
        let held = Held::new(buffer);
        let list = held.segments();
        let describe = |segments| PutDescriptor {
            target,
            endpoint: self.inner.number,
            segments,
            immediate: options.immediate,
            completion: CompletionMode::Auto,
            context: 0,
        };
        // SAFETY: the segments are those of `held`; nobody writes to them.
        unsafe { self.post(held, list, false, describe) }
    }

    /// Reads from a region of another node (or this one), as many bytes as the buffer has. The target's application has no
    /// part in it. It fails as a [`put`](Self::put) does.
    pub fn get<B: ReceiveBuffer>(
        &self,
        target: RemoteRegion,
        buffer: B,
    ) -> Result<Request<B>, Refused<B>> {
        let mut held = Held::new(buffer);
        let list = held.segments_mut();
        let endpoint = self.inner.number;
        let describe = |segments| GetDescriptor { target, endpoint, segments, context: 0 };
        // SAFETY: as for a put; and the buffer is initialised memory that is its own.
        unsafe { self.post(held, list, false, describe) }
    }

    /// Changes numbers in a region, each at once and exactly once: they become `target OP operand`.
    ///
    /// Atomic with respect to other atomic operations on the region, of any node, its own included (which reaches its region
    /// like everyone else). The operands must fit one frame
    /// ([`Node::atomic_bytes_max`](crate::Node::atomic_bytes_max)). It fails as a [`put`](Self::put) does.
    pub fn atomic<T: Element>(
        &self,
        target: RemoteRegion,
        operation: AtomicOp,
        operands: &[T],
    ) -> Result<Request<()>, Refused<()>> {
        self.post_elements(target, operation, operands, None, ())
    }

    /// As [`atomic`](Self::atomic), and fetches what was there before.
    pub fn fetch_atomic<T: Element>(
        &self,
        target: RemoteRegion,
        operation: AtomicOp,
        operands: &[T],
    ) -> Result<Request<Values<T>>, Refused<Values<T>>> {
        self.post_elements(target, operation, operands, None, Values::room(operands.len()))
    }

    /// As [`fetch_atomic`](Self::fetch_atomic), for the operators that compare: the target becomes the operand where the
    /// comparison with it holds. There must be as many numbers to compare as operands.
    pub fn compare_atomic<T: Element>(
        &self,
        target: RemoteRegion,
        operation: AtomicOp,
        compare: &[T],
        operands: &[T],
    ) -> Result<Request<Values<T>>, Refused<Values<T>>> {
        let room = Values::room(operands.len());
        self.post_elements(target, operation, operands, Some(compare), room)
    }

    /// Adds to a number in a region and fetches what it was.
    pub fn fetch_add<T: Element>(
        &self,
        target: RemoteRegion,
        operand: T,
    ) -> Result<Request<Values<T>>, Refused<Values<T>>> {
        self.fetch_atomic(target, AtomicOp::Sum, &[operand])
    }

    /// Reads a number in a region, at once.
    pub fn fetch<T: Element>(
        &self,
        target: RemoteRegion,
    ) -> Result<Request<Values<T>>, Refused<Values<T>>> {
        let list: &[T] = &[];
        self.post_elements(target, AtomicOp::Read, list, None, Values::room(1))
    }

    /// Writes a number in a region if it is `expected`; fetches what it was.
    pub fn compare_swap<T: Element>(
        &self,
        target: RemoteRegion,
        expected: T,
        new: T,
    ) -> Result<Request<Values<T>>, Refused<Values<T>>> {
        self.compare_atomic(target, AtomicOp::Cswap, &[expected], &[new])
    }

    fn post_elements<T: Element, B: ReceiveBuffer>(
        &self,
        target: RemoteRegion,
        operation: AtomicOp,
        operands: &[T],
        compare: Option<&[T]>,
        room: B,
    ) -> Result<Request<B>, Refused<B>> {
        let mut operand_bytes = bytes_of(operands);
        let mut compare_bytes = compare.map(bytes_of);
        let mut held = Held::new(room);
        let list = held.segments_mut();
        let describe = |fetched: SegmentList| AtomicDescriptor {
            target,
            endpoint: self.inner.number,
            operation,
            datatype: T::DATATYPE,
            count: if operation.has_operands() { operands.len() as u32 } else { 1 },
            operands: list_of(&mut operand_bytes),
            compare: compare_bytes.as_mut().map(|bytes| list_of(bytes)),
            fetch_into: (fetched.bytes() != 0).then_some(fetched),
            context: 0,
        };
        // SAFETY: operands and what to compare are vectors that live until this has returned; what is fetched goes to `held`.
        unsafe { self.post(held, list, false, describe) }
    }

    /// Begins to take notice of puts with immediate data that are for this endpoint. Those that have ended before go
    /// unnoticed.
    ///
    /// On an endpoint that uses the raw API too, whoever looks first sees them.
    pub fn notifications(&self) -> Notifications {
        self.inner.node.seat.want_notices(self.inner.queue, false);
        Notifications { endpoint: self.clone() }
    }
}

/// Notices of peers' puts with immediate data for one endpoint.
#[derive(Clone)]
pub struct Notifications {
    endpoint: Endpoint,
}

impl Notifications {
    /// The next one, in order of the puts' ends. Makes progress.
    pub fn poll(&self) -> Option<Notification> {
        let endpoint = &self.endpoint.inner;
        endpoint.node.seat.poll_notification(endpoint.queue).map(Notification::new)
    }

    /// Waits for the next one, at most for `timeout` (`None`: without limit).
    pub fn wait(&self, timeout: impl Into<Option<Duration>>) -> Option<Notification> {
        let endpoint = &self.endpoint.inner;
        let notice = endpoint.node.seat.wait_notification(endpoint.queue, timeout.into());
        notice.map(Notification::new)
    }
}

/// Numbers of this process, for the time of a post.
fn list_of(bytes: &mut [u8]) -> SegmentList {
    match bytes.len() {
        0 => SegmentList::empty(),
        length => {
            let address = bytes.as_mut_ptr().expose_provenance() as u64;
            SegmentList::one(Segment { address, bytes: length as u64 })
        }
    }
}
