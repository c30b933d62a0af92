//! Posting: descriptors and what is sent go into the ring, or wait for room there.

use std::time::{Duration, Instant};

use emp_firmware::{
    BufferPlace, Completion, CompletionMode, OpId, OpKind, PostError, Posted, ReceiveDescriptor,
    Segment, SegmentList, SendDescriptor, Status,
};

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
        let short = bytes <= self.facts.buffered_bytes_max && bytes <= PIECE_BYTES_MAX as u64;
        self.check_send(send, short)?;
        let over = short && !send.synchronous && send.completion != CompletionMode::Delivered;
        let op = if over {
            OpId::elsewhere(OpKind::Send, u32::MAX, 0)
        } else {
            let endpoint = send.endpoint;
            let flight = Flight { context, endpoint, bytes, into: None, given_up: false };
            self.flights.add(OpKind::Send, flight)
        };
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
        let descriptor = Descriptor { op: op.to_bits(), endpoint: send.endpoint, bytes, posting };
        let head = descriptor.emit();
        // SAFETY: as the caller promises; what waits for room is either a copy, or of a send that has not ended.
        unsafe {
            if !over && bytes > PIECE_BYTES_MAX as u64 {
                let segments = send.segments.clone();
                self.waiting.push_back(Waiting::Payload { head: Some(head), segments, done: 0 });
                self.copy_long();
            } else {
                self.write_short(&head, &send.segments);
            }
        }
        if !over {
            return Ok(Posted { op, over: None });
        }
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

    fn check_send(&self, send: &SendDescriptor, short: bool) -> Result<(), PostError> {
        let bytes = send.segments.bytes();
        if self.is_over() {
            return Err(PostError::Closing);
        }
        if send.to == emp_wire::NodeId::ANY {
            return Err(PostError::NoDestination);
        }
        if !self.open.contains(&send.endpoint) {
            return Err(PostError::NoEndpoint);
        }
        if send.completion == CompletionMode::Buffered && !short
            || bytes > self.facts.held_bytes_max
        {
            return Err(PostError::TooLong);
        }
        let sends = self.flights.sends() + self.unretired;
        self.check_room(sends, bytes)
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
        let into = Some(segments);
        let flight = Flight { context, endpoint, bytes, into, given_up: false };
        let op = self.flights.add(OpKind::Receive, flight);
        let posting = match least_free {
            None => Posting::Receive { selector, claim },
            Some(least_free) => Posting::MultiReceive { selector, least_free },
        };
        let head = Descriptor { op: op.to_bits(), endpoint, bytes, posting }.emit();
        // SAFETY: no segments.
        unsafe { self.write_short(&head, &SegmentList::empty()) };
        Ok(op)
    }

    /// Writes a descriptor and its payload, which fits one record, or a copy of both once there is room.
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory::process`] for the time of the call.
    #[inline]
    unsafe fn write_short(&mut self, head: &[u8; 64], segments: &SegmentList) {
        let parts = segments.as_slice();
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
