//! From the node's completions to entries of completion queues.

use emp_host::{Completion, Endpoint, OpKind, Status};

use crate::bindings::*;
use crate::cq::{Ended, Failure};
use crate::endpoint::{Enabled, EpInner, State};
use crate::events;
use crate::flags::{Caps, CqFlags, Directions};
use crate::operations::{Kind, Operation};
use crate::status::failure;
use emp_face::log;

/// The endpoint's number, of that of either of the two that it is on its node.
fn number_of(endpoint: u16) -> u16 {
    endpoint / 2
}

impl Enabled {
    pub fn endpoint(&self, tagged: bool) -> &Endpoint {
        if tagged { &self.tagged } else { &self.untagged }
    }
}

impl State {
    /// Makes progress and deals with what has ended.
    #[inline]
    pub fn progress(&mut self, ep: &EpInner, enabled: &Enabled) {
        // A buffer for several messages takes as many as peers send, of no bytes too: what its queue cannot be expected to hold
        // stays with the node, which takes no more then.
        let held = enabled.bound.rx_cq.as_ref().is_some_and(|queue| queue.is_overfull());
        let both = [&enabled.tagged, &enabled.untagged];
        Endpoint::poll_completions_of(if held { &both[..1] } else { &both }, &mut self.completions);
        if !self.completions.is_empty() {
            let mut completions = std::mem::take(&mut self.completions);
            for completion in &completions {
                self.end(ep, enabled, completion);
            }
            completions.clear();
            self.completions = completions;
        }
        if !self.parked.is_empty() {
            for slot in std::mem::take(&mut self.parked) {
                self.resume(enabled, slot);
            }
        }
    }

    /// Deals with an operation that has ended.
    fn end(&mut self, ep: &EpInner, enabled: &Enabled, completion: &Completion) {
        let slot = completion.context as usize;
        let usual = matches!(completion.status, Status::Ok | Status::Truncated | Status::Cancelled);
        if !usual {
            self.warn(enabled, completion);
        }
        if completion.op.kind() == OpKind::Undelivered {
            // With a lost peer it is one of many that fail. It has no name left to tell it by, and Open MPI 4.1 follows an entry without one into a
            // segmentation fault. That a peer was lost is said aloud, and whatever has a name and is under way to it ends with an error.
            if !completion.status.is_loss() {
                undelivered(enabled, completion);
            }
            return;
        }
        if completion.op.kind() == OpKind::Notified {
            return notified(ep, enabled, completion);
        }
        let source = self.source(ep, enabled, completion);
        let Some(operation) = self.slots.get(slot) else { return };
        match operation.kind {
            Kind::Multi => return self.end_one_of_several(enabled, (slot, source), completion),
            Kind::Pieces { .. } => return self.end_piece(enabled, slot, completion),
            Kind::Send { .. } => end_send(enabled, operation, completion.status),
            Kind::Remote { told, direction, ref mut event, .. } => {
                let event = event.take();
                end_remote(enabled, operation, completion.status, told, direction);
                self.slots.free(slot);
                if let Some(event) = event.filter(|_| completion.status == Status::Ok) {
                    self.announce(enabled, *event);
                }
                return;
            }
            Kind::Event(_) => {}
            Kind::Receive => {
                let entry =
                    received(operation, completion, source, CqFlags::NONE, operation.buffer);
                hand_over(enabled, operation, entry, true);
            }
            Kind::Discard(_) => {}
        }
        self.slots.free(slot);
    }

    /// Who sent what a receive has ended with, if it is one and that is to be told.
    #[inline]
    fn source(&mut self, ep: &EpInner, enabled: &Enabled, completion: &Completion) -> FiAddr {
        let matched = matches!(completion.status, Status::Ok | Status::Truncated);
        if completion.op.kind() != OpKind::Receive || !matched || !ep.caps.has(Caps::SOURCE) {
            return FI_ADDR_UNSPEC;
        }
        let (av, node) = (&enabled.av, completion.peer);
        let endpoint = number_of(completion.peer_endpoint);
        self.neighbours.number(av.version(), (node, endpoint), || av.number(node, endpoint))
    }

    /// A message has arrived in a buffer for several, or the buffer is not posted any more.
    fn end_one_of_several(
        &mut self,
        enabled: &Enabled,
        (slot, source): (usize, FiAddr),
        completion: &Completion,
    ) {
        let Some(operation) = self.slots.get(slot) else { return };
        let over = !completion.place.is_more();
        let flags = if over { CqFlags::MULTI_RECV } else { CqFlags::NONE };
        let operation = &*operation;
        let buffer = operation.buffer + completion.place.offset() as usize;
        let entry = received(operation, completion, source, flags, buffer);
        // A counter counts what arrives, and every failure.
        hand_over(enabled, operation, entry, true);
        if over {
            self.slots.remove(slot);
        }
    }

    /// Goes on with an operation for which there was no room.
    fn resume(&mut self, enabled: &Enabled, slot: usize) {
        match self.slots.get(slot).map(|operation| &operation.kind) {
            Some(Kind::Pieces { .. }) => self.resume_pieces(enabled, slot),
            Some(Kind::Event(_)) => self.post_event(enabled, slot),
            Some(Kind::Discard(_)) => self.post_discard(enabled, slot),
            _ => {}
        }
    }

    /// Says why an operation failed: MPIs seldom do.
    #[cold]
    fn warn(&mut self, enabled: &Enabled, completion: &Completion) {
        let operation = self.slots.get(completion.context as usize);
        // That an event found nobody is no failure of the operation it tells of.
        if operation.is_some_and(|operation| matches!(operation.kind, Kind::Event(_))) {
            return;
        }
        let (what, why) = (completion.op.kind(), completion.status.describe());
        let peer = enabled.av.describe(completion.peer, number_of(completion.peer_endpoint));
        let way = if what == OpKind::Receive { "from" } else { "to" };
        let lost = completion.status.is_silence();
        let trouble = if lost { enabled.tagged.node().link_troubles() } else { String::new() };
        let because = if trouble.is_empty() { "" } else { "; " };
        log::warn(&format!("{what:?} {way} {peer}: {why}{because}{trouble}"));
    }

    /// The endpoint is being closed: what was not posted yet will not be.
    pub fn drop_parked(&mut self) {
        for slot in std::mem::take(&mut self.parked) {
            self.slots.remove(slot);
        }
    }
}

fn kind_flags(tagged: bool) -> CqFlags {
    if tagged { CqFlags::TAGGED } else { CqFlags::MSG }
}

#[inline(always)]
fn blank(operation: &Operation) -> Ended {
    Ended {
        context: operation.context,
        flags: kind_flags(operation.tagged),
        len: 0,
        buffer: 0,
        data: 0,
        tag: operation.tag,
        source: FI_ADDR_UNSPEC,
        failure: None,
    }
}

/// A send whose buffer was free at once, and that counted as complete then, has failed.
#[cold]
fn undelivered(enabled: &Enabled, completion: &Completion) {
    let Some(queue) = &enabled.bound.tx_cq else { return };
    let (error, detail) = failure(completion.status).unwrap_or((libc::EIO, 0));
    let tagged = completion.peer_endpoint.is_multiple_of(2);
    queue.push(Ended {
        context: 0,
        flags: CqFlags::SEND.with(kind_flags(tagged)),
        len: 0,
        buffer: 0,
        data: completion.immediate.unwrap_or(0),
        tag: completion.match_bits,
        source: FI_ADDR_UNSPEC,
        failure: Some(Failure { error, detail, overflow: 0 }),
    });
}

/// A peer has written to memory of ours, and says so.
fn notified(ep: &EpInner, enabled: &Enabled, completion: &Completion) {
    let counts = ep.caps.has(Caps::RMA_EVENT);
    // From a peer's endpoint for tagged messages.
    if completion.peer_endpoint.is_multiple_of(2) {
        if counts {
            events::arrived(ep, enabled, completion);
        }
        return;
    }
    if counts {
        events::count(ep, enabled, Directions::REMOTE_WRITE, completion.match_bits);
    } else {
        enabled.bound.counters.count(Directions::REMOTE_WRITE, true);
    }
    let Some(queue) = &enabled.bound.rx_cq else { return };
    let source = if ep.caps.has(Caps::SOURCE) {
        enabled.av.number(completion.peer, number_of(completion.peer_endpoint))
    } else {
        FI_ADDR_UNSPEC
    };
    queue.push_unasked(Ended {
        context: 0,
        flags: CqFlags::RMA.with(CqFlags::REMOTE_WRITE).with(CqFlags::REMOTE_CQ_DATA),
        len: completion.bytes as usize,
        buffer: 0,
        data: completion.immediate.unwrap_or(0),
        tag: 0,
        source,
        failure: None,
    });
}

/// The end of a send.
#[inline]
pub fn end_send(enabled: &Enabled, operation: &Operation, status: Status) {
    let told = kind_flags(operation.tagged).with(CqFlags::SEND);
    end_remote(enabled, operation, status, told, Directions::SEND);
}

/// The end of what was posted for a peer: a send or a one-sided operation.
#[inline]
pub fn end_remote(
    enabled: &Enabled,
    operation: &Operation,
    status: Status,
    told: CqFlags,
    direction: Directions,
) {
    let failure = failure(status);
    enabled.bound.counters.count(direction, failure.is_none());
    // A failure is always told, whatever was asked for; but with a lost peer of an inject, which has no context, by counters alone.
    let named = !operation.nameless || !status.is_loss();
    let told_of = operation.report || failure.is_some() && named;
    if !told_of {
        return;
    }
    let Some(queue) = &enabled.bound.tx_cq else { return };
    queue.push(Ended {
        flags: told,
        failure: failure.map(|(error, detail)| Failure { error, detail, overflow: 0 }),
        ..blank(operation)
    });
}

/// The entry for a receive of a message from `source`.
#[inline(always)]
fn received(
    operation: &Operation,
    completion: &Completion,
    source: FiAddr,
    flags: CqFlags,
    buffer: usize,
) -> Ended {
    let failure = failure(completion.status);
    let overflow = completion.total_bytes.saturating_sub(completion.bytes) as usize;
    let data = completion.immediate.map_or(CqFlags::NONE, |_| CqFlags::REMOTE_CQ_DATA);
    let matched = matches!(completion.status, Status::Ok | Status::Truncated);
    Ended {
        flags: kind_flags(operation.tagged).with(CqFlags::RECV).with(data).with(flags),
        len: completion.bytes as usize,
        buffer,
        data: completion.immediate.unwrap_or(0),
        tag: if matched { completion.match_bits } else { operation.tag },
        source,
        failure: failure.map(|(error, detail)| Failure { error, detail, overflow }),
        ..blank(operation)
    }
}

/// Puts the entry of a receive into its queue, if the application wants it. Inlined, so that it is made where it is kept.
#[inline(always)]
pub fn hand_over(enabled: &Enabled, operation: &Operation, entry: Ended, counts: bool) {
    if counts {
        enabled.bound.counters.count(Directions::RECV, entry.failure.is_none());
    }
    let wanted =
        operation.report || entry.failure.is_some() || entry.flags.has(CqFlags::MULTI_RECV);
    if let Some(queue) = enabled.bound.rx_cq.as_ref().filter(|_| wanted) {
        queue.push(entry);
    }
}

/// The entry of a probe that has found a message.
pub fn found(
    ep: &EpInner,
    enabled: &Enabled,
    operation: &Operation,
    info: &emp_host::ProbeInfo,
) -> Ended {
    let data = info.immediate.map_or(CqFlags::NONE, |_| CqFlags::REMOTE_CQ_DATA);
    let source = if ep.caps.has(Caps::SOURCE) {
        enabled.av.number(info.from, number_of(info.from_endpoint))
    } else {
        FI_ADDR_UNSPEC
    };
    Ended {
        flags: kind_flags(operation.tagged).with(CqFlags::RECV).with(data),
        len: info.total_bytes as usize,
        data: info.immediate.unwrap_or(0),
        tag: info.match_bits,
        source,
        ..blank(operation)
    }
}

/// The entry of a probe that has found nothing, or of a discard.
pub fn nothing(operation: &Operation, error: Option<i32>) -> Ended {
    Ended {
        flags: kind_flags(operation.tagged).with(CqFlags::RECV),
        failure: error.map(|error| Failure { error, detail: 0, overflow: 0 }),
        ..blank(operation)
    }
}
