//! Posting: descriptors and what is sent go into the ring, or wait for room there.

use std::time::{Duration, Instant};

use emp_firmware::{
    AtomicDescriptor, BufferPlace, Completion, CompletionMode, GetDescriptor, OpId, OpKind,
    PostError, Posted, PutDescriptor, ReceiveDescriptor, Segment, SegmentList, SendDescriptor,
    Status,
};
use emp_wire::NodeId;

use crate::daemon::descriptor::{Descriptor, Posting};
use crate::daemon::flights::Flight;
use crate::daemon::remote::{Remote, Waiting};
use crate::daemon::{PIECE_BYTES_MAX, said};
use crate::memory::pointer;

/// What may wait for room in the ring: beyond it posts are refused as for now. A ring's worth of the shortest, twice.
const WAITING_MAX: usize = 4096;

/// How long a post goes on copying a long message while the service makes room: a few pieces. What is left goes in later turns.
const COPY_FOR: Duration = Duration::from_micros(300);

/// Parts that are written without a list on the heap.
const PARTS_FEW: usize = 3;

impl Remote {
    /// Posts a send.
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory::process`] until the end was taken, or the post says that it is over.
    #[inline]
    pub(crate) unsafe fn post_send(
        &mut self,
        send: &SendDescriptor,
        context: u64,
        more: bool,
    ) -> Result<Posted, PostError> {
        let bytes = send.segments.bytes();
        let short = bytes <= self.facts.buffered_bytes_max;
        let mode = (send.completion, short);
        self.check_post(send.endpoint, send.to, mode, bytes)?;
        let over = short
            && !send.synchronous
            && send.completion != CompletionMode::Delivered
            && self.may_be_over(send.to);
        let posting = Posting::Send {
            to: send.to,
            to_endpoint: send.to_endpoint,
            match_bits: send.match_bits,
            immediate: send.immediate,
            synchronous: send.synchronous,
            completion: send.completion,
            more,
            over,
        };
        if !over {
            // SAFETY: as the caller promises.
            let op =
                unsafe { self.start(send.endpoint, bytes, posting, &send.segments, None, context) };
            return Ok(Posted { op, over: None });
        }
        let op = OpId::elsewhere(OpKind::Send, u32::MAX, 0);
        let descriptor = Descriptor { op: op.to_bits(), endpoint: send.endpoint, bytes, posting };
        // SAFETY: as the caller promises, for the time of the call.
        unsafe { self.write_copied(&descriptor.emit(), &send.segments) };
        self.unretired += 1;
        let completion = Completion {
            op,
            context,
            status: Status::Ok,
            bytes,
            total_bytes: bytes,
            peer: send.to,
            peer_endpoint: send.to_endpoint,
            match_bits: send.match_bits,
            immediate: None,
            place: BufferPlace::WHOLE,
        };
        Ok(Posted { op, over: Some(completion) })
    }

    /// Posts a put.
    ///
    /// # Safety
    ///
    /// As for [`post_send`](Self::post_send).
    pub(crate) unsafe fn post_put(
        &mut self,
        put: &PutDescriptor,
        context: u64,
    ) -> Result<OpId, PostError> {
        let PutDescriptor { target, endpoint, ref segments, immediate, completion, .. } = *put;
        let bytes = segments.bytes();
        let mode = (completion, bytes <= self.facts.atomic_bytes_max);
        self.check_post(endpoint, target.to, mode, bytes)?;
        let posting = Posting::Put { target, immediate, completion };
        // SAFETY: as the caller promises.
        Ok(unsafe { self.start(endpoint, bytes, posting, segments, None, context) })
    }

    /// Posts a get.
    ///
    /// # Safety
    ///
    /// As for [`post_send`](Self::post_send), for writes.
    pub(crate) unsafe fn post_get(
        &mut self,
        get: GetDescriptor,
        context: u64,
    ) -> Result<OpId, PostError> {
        let GetDescriptor { target, endpoint, segments, .. } = get;
        let bytes = segments.bytes();
        self.check_post(endpoint, target.to, (CompletionMode::Auto, true), bytes)?;
        let (posting, none) = (Posting::Get { target }, SegmentList::empty());
        // SAFETY: as the caller promises.
        Ok(unsafe { self.start(endpoint, bytes, posting, &none, Some(segments), context) })
    }

    /// Posts an atomic operation.
    ///
    /// # Safety
    ///
    /// As for [`post_get`](Self::post_get); operands are read before this returns.
    pub(crate) unsafe fn post_atomic(
        &mut self,
        atomic: AtomicDescriptor,
        context: u64,
    ) -> Result<OpId, PostError> {
        atomic.check(self.facts.atomic_bytes_max)?;
        let AtomicDescriptor { target, endpoint, operation, datatype, count, .. } = atomic;
        let compare = atomic.compare.as_ref().map_or(&[][..], SegmentList::as_slice);
        // Of one frame's length: more parts than a list may have are none that such a frame needs.
        let sent = SegmentList::new(&[atomic.operands.as_slice(), compare].concat());
        let sent = sent.map_err(|_| PostError::TooLong)?;
        let fetch = atomic.fetch_into.is_some();
        let both = sent.bytes() + atomic.fetch_into.as_ref().map_or(0, SegmentList::bytes);
        self.check_post(endpoint, target.to, (CompletionMode::Auto, true), both)?;
        let posting = Posting::Atomic { target, operation, datatype, count, fetch };
        let (bytes, into) = (sent.bytes(), atomic.fetch_into);
        // SAFETY: as the caller promises; what is shorter than a record is copied here.
        Ok(unsafe { self.start(endpoint, bytes, posting, &sent, into, context) })
    }

    /// Keeps an operation, and writes it with what goes with it.
    ///
    /// # Safety
    ///
    /// As for [`post_send`](Self::post_send); `into` is for writes.
    #[inline]
    unsafe fn start(
        &mut self,
        endpoint: u16,
        bytes: u64,
        posting: Posting,
        sent: &SegmentList,
        into: Option<SegmentList>,
        context: u64,
    ) -> OpId {
        let mut descriptor = Descriptor { op: 0, endpoint, bytes, posting };
        let (payload, room) = descriptor.payload_and_room();
        let (kind, bytes) = (posting.kind(), payload + room);
        let to = match posting {
            Posting::Send { to, .. } => to,
            Posting::Put { target, .. }
            | Posting::Get { target }
            | Posting::Atomic { target, .. } => target.to,
            Posting::Receive { .. } | Posting::MultiReceive { .. } => NodeId::ANY,
        };
        let (given_up, lost) = (false, false);
        let flight = Flight { kind, context, endpoint, to, bytes, into, given_up, lost };
        let op = self.flights.add(flight);
        descriptor.op = op.to_bits();
        let head = descriptor.emit();
        if payload > PIECE_BYTES_MAX as u64 {
            let (head, segments) = (Some(head), sent.clone());
            self.waiting.push_back(Waiting::Payload { head, segments, done: 0 });
            self.copy_long();
        } else {
            // SAFETY: as the caller promises.
            unsafe { self.write_short(&head, sent.as_slice()) };
        }
        op
    }

    /// Whether an operation to another node may be posted, which `mode` says when it is complete and whether it is short enough to be copied
    /// in any.
    fn check_post(
        &self,
        endpoint: u16,
        to: NodeId,
        (completion, short): (CompletionMode, bool),
        bytes: u64,
    ) -> Result<(), PostError> {
        if self.is_over() {
            return Err(PostError::Closing);
        }
        if to == NodeId::ANY {
            return Err(PostError::NoDestination);
        }
        if !self.open.contains(&endpoint) {
            return Err(PostError::NoEndpoint);
        }
        let copied = completion == CompletionMode::Buffered;
        if copied && !short || bytes > self.facts.held_bytes_max {
            return Err(PostError::TooLong);
        }
        self.check_room(self.flights.sends() + self.unretired, bytes)
    }

    fn check_room(&self, operations: u64, bytes: u64) -> Result<(), PostError> {
        let full = operations >= self.facts.operations_max
            || self.flights.bytes() + bytes > self.facts.held_bytes_max
            || self.waiting.len() >= WAITING_MAX;
        if full { Err(PostError::Busy) } else { Ok(()) }
    }

    /// Posts a receive; with `least_free`, for several messages.
    ///
    /// # Safety
    ///
    /// As for [`post_send`](Self::post_send), for writes.
    pub(crate) unsafe fn post_receive(
        &mut self,
        receive: ReceiveDescriptor,
        least_free: Option<u64>,
        context: u64,
    ) -> Result<OpId, PostError> {
        let ReceiveDescriptor { endpoint, selector, segments, claim, .. } = receive;
        let bytes = segments.bytes();
        if self.is_over() {
            return Err(PostError::Closing);
        }
        if !self.open.contains(&endpoint) {
            return Err(PostError::NoEndpoint);
        }
        if bytes > self.facts.held_bytes_max {
            return Err(PostError::TooLong);
        }
        self.check_room(self.flights.receives(), bytes)?;
        let posting = match least_free {
            None => Posting::Receive { selector, claim },
            Some(least_free) => Posting::MultiReceive { selector, least_free },
        };
        let none = SegmentList::empty();
        // SAFETY: as the caller promises.
        Ok(unsafe { self.start(endpoint, bytes, posting, &none, Some(segments), context) })
    }

    /// Writes a descriptor and its payload, which fits one record, or a copy of both once there is room.
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory::process`] for the time of the call.
    #[inline]
    unsafe fn write_short(&mut self, head: &[u8; 64], parts: &[Segment]) {
        self.posted = 2;
        if self.waiting.is_empty() && parts.len() <= PARTS_FEW {
            let mut slices: [&[u8]; PARTS_FEW + 1] = [head, &[], &[], &[]];
            for (slice, part) in slices[1..].iter_mut().zip(parts) {
                // SAFETY: as the caller promises.
                *slice = unsafe { pointer::bytes(*part) };
            }
            match self.channel.write(said::POST, &slices[..=parts.len()]) {
                Ok(true) => return,
                Ok(false) => {}
                Err(broken) => return self.end(&broken.to_string()),
            }
        }
        let mut record = head.to_vec();
        for part in parts {
            // SAFETY: as the caller promises.
            record.extend_from_slice(unsafe { pointer::bytes(*part) });
        }
        self.write_or_wait(said::POST, record);
    }

    /// The same of one that may not fit.
    ///
    /// # Safety
    ///
    /// As for [`write_short`](Self::write_short).
    #[inline]
    unsafe fn write_copied(&mut self, head: &[u8; 64], segments: &SegmentList) {
        if segments.bytes() <= PIECE_BYTES_MAX as u64 {
            // SAFETY: as the caller promises.
            return unsafe { self.write_short(head, segments.as_slice()) };
        }
        let mut all = head.to_vec();
        for part in segments.as_slice() {
            // SAFETY: as the caller promises.
            all.extend_from_slice(unsafe { pointer::bytes(*part) });
        }
        let (first, rest) = all.split_at(head.len() + PIECE_BYTES_MAX);
        self.write_or_wait(said::POST, first.to_vec());
        for piece in rest.chunks(PIECE_BYTES_MAX) {
            self.write_or_wait(said::MORE, piece.to_vec());
        }
    }

    pub(super) fn write_or_wait(&mut self, mark: u32, record: Vec<u8>) {
        if self.waiting.is_empty() {
            match self.channel.write(mark, &[&record]) {
                Ok(true) => return,
                Ok(false) => {}
                Err(broken) => return self.end(&broken.to_string()),
            }
        }
        self.waiting.push_back(Waiting::Record(mark, record));
    }

    /// Writes what waits, as long as there is room. True if anything was written.
    pub(super) fn pump(&mut self) -> bool {
        let mut worked = false;
        while let Some(waiting) = self.waiting.front_mut() {
            let wrote = match waiting {
                Waiting::Record(mark, record) => self.channel.write(*mark, &[record]),
                Waiting::Payload { head, segments, done } => {
                    let bytes = (segments.bytes() - *done).min(PIECE_BYTES_MAX as u64);
                    let mark = if head.is_some() { said::POST } else { said::MORE };
                    let mut parts: Vec<&[u8]> = head.iter().map(|head| &head[..]).collect();
                    let _ = segments.range(*done, bytes, |part: Segment| {
                        // SAFETY: the send has not ended, so its segments are valid (invariant of `memory::process`), and lent for this write.
                        parts.push(unsafe { pointer::bytes(part) });
                        Ok::<_, ()>(())
                    });
                    let wrote = self.channel.write(mark, &parts);
                    if wrote == Ok(true) {
                        (*head, *done) = (None, *done + bytes);
                        worked = true;
                        if *done < segments.bytes() {
                            continue;
                        }
                    }
                    wrote
                }
            };
            match wrote {
                Ok(true) => drop(self.waiting.pop_front()),
                Ok(false) => break,
                Err(broken) => {
                    self.end(&broken.to_string());
                    break;
                }
            }
            worked = true;
        }
        worked
    }

    /// Goes on with a long message while the service takes it, for a moment.
    fn copy_long(&mut self) {
        let mut since = Instant::now();
        loop {
            if self.pump() {
                since = Instant::now();
            }
            self.channel.wake();
            if self.waiting.is_empty() || since.elapsed() >= COPY_FOR {
                return;
            }
            std::thread::yield_now();
        }
    }
}
