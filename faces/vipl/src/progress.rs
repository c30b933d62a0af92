//! Progress: what has ended in the node ends descriptors, and the consumer is told in the order of each queue.

use emp_face::handles::Key;
use emp_face::log;
use emp_host::{Completion, NodeEvent, NodeId, OpKind, Status};

use crate::abi::*;
use crate::control::{is_arrived, is_sent};
use crate::descriptor::{Outcome, finish};
use crate::nic::Nic;
use crate::queue::{Context, Side, Stage, operation_status};
use crate::state::State;
use crate::wire::WROTE;

/// The end of a descriptor that went well.
pub fn success(side: Side, operation: u16, length: u32) -> Outcome {
    Outcome { status: operation_status(side, operation), length, immediate: None }
}

/// How a send, RDMA write or RDMA read has ended, as its status says it; 0: well.
pub fn send_error(status: Status, reliable: bool) -> u32 {
    match status {
        Status::Ok => 0,
        Status::Abandoned if reliable => REMOTE_DESC_ERROR,
        Status::BadKey | Status::NoRights | Status::BadGeneration | Status::OutOfBounds => {
            RDMA_PROT_ERROR
        }
        Status::Cancelled => FLUSHED_ERROR,
        Status::MemoryFault => PROTECTION_ERROR,
        _ if reliable => TRANSPORT_ERROR,
        // Nobody says what became of it.
        _ => 0,
    }
}

/// What a receive says that has less memory than a message of so many bytes needs, and whose segments name so many: they run
/// past their region, or are too short.
pub fn too_short(message: u64, named: u32) -> u32 {
    if message <= u64::from(named) { PROTECTION_ERROR } else { LENGTH_ERROR }
}

/// How a receive of so many bytes has ended.
fn received(completion: &Completion, named: u32) -> Outcome {
    let length = u32::try_from(completion.bytes).unwrap_or(u32::MAX);
    let error = match completion.status {
        Status::Ok => 0,
        Status::Truncated => too_short(completion.total_bytes, named),
        Status::Cancelled | Status::EndpointClosed => FLUSHED_ERROR,
        Status::MemoryFault => PROTECTION_ERROR,
        _ => TRANSPORT_ERROR,
    };
    if error & !LENGTH_ERROR != 0 {
        return Outcome::error(STATUS_RECEIVE, error);
    }
    if let Some(told) = completion.immediate.filter(|told| told & WROTE != 0) {
        return Outcome {
            status: STATUS_REMOTE_RDMA_WRITE,
            length: ((told & !WROTE) >> 32) as u32,
            immediate: Some(told as u32),
        };
    }
    let immediate = completion.immediate.map(|immediate| immediate as u32);
    Outcome { status: STATUS_RECEIVE | error, length, immediate }
}

impl Nic {
    /// Makes progress. True if anything has ended that somebody may wait for.
    #[inline]
    pub fn progress(&self, state: &mut State) -> bool {
        self.face.hint_later();
        let mut completions = std::mem::take(&mut state.completions);
        // What connections have brought comes before what is said of them.
        let count = emp_host::Endpoint::poll_completions_of(&self.both(), &mut completions);
        let mut news = false;
        for completion in completions.drain(..) {
            news |= self.ended(state, &completion);
        }
        state.completions = completions;
        // Also what the node has taken in while nobody called.
        if state.starving != 0 {
            news |= self.take_unexpected(state);
        }
        if count == 0 && self.endpoint.is_idle() && state.peering + state.owing == 0 {
            return news;
        }
        if count == 0 {
            news |= self.take_events(state);
        }
        if state.owing != 0 {
            news |= self.post_owed(state);
        }
        if state.peering != 0 {
            news |= self.ask_peers(state);
        }
        news
    }

    /// Notes which peers have gone.
    pub fn take_events(&self, state: &mut State) -> bool {
        let mut news = false;
        while let Some(event) = self.face.node.take_event() {
            match event {
                NodeEvent::Closed(node)
                | NodeEvent::Ended(node)
                | NodeEvent::Restarted(node)
                | NodeEvent::GaveUp(node)
                | NodeEvent::Unreachable(node) => news |= self.lost(state, node),
                // Others say how a peer is reached, not that it is gone.
                _ => {}
            }
        }
        news
    }

    /// One operation has ended in the node.
    #[inline]
    fn ended(&self, state: &mut State, completion: &Completion) -> bool {
        match completion.op.kind() {
            OpKind::Undelivered => {
                let peer: NodeId = completion.peer;
                log::inform(&format!(
                    "VIPL: a message of {} bytes is lost: {}",
                    completion.total_bytes,
                    completion.status.describe()
                ));
                return self.lost(state, peer);
            }
            OpKind::Notified => return false,
            _ => {}
        }
        if let Some(number) = is_arrived(completion.context) {
            return self.control_arrived(state, number, completion);
        }
        if let Some(slot) = is_sent(completion.context) {
            return self.control_sent(state, slot, completion);
        }
        self.descriptor_ended(state, completion)
    }

    /// An operation of a descriptor has ended.
    #[inline]
    fn descriptor_ended(&self, state: &mut State, completion: &Completion) -> bool {
        let context = Context::of(completion.context, self.place());
        let Some(vi) = state.vis.get_mut(context.vi) else { return false };
        let (reliable, peer) = (vi.is_reliable(), completion.peer);
        let queue = vi.queue(context.side);
        let Some(entry) = queue.get_mut(context.serial) else { return false };
        let Stage::Flying { parts, .. } = &mut entry.stage else { return false };
        *parts -= 1;
        let last = *parts == 0;
        let mut outcome = match context.side {
            Side::Receive => received(completion, entry.bytes),
            Side::Send => {
                let error = send_error(completion.status, reliable);
                if entry.error == 0 {
                    entry.error = error;
                }
                success(Side::Send, entry.operation, entry.bytes)
            }
        };
        outcome.status |= entry.error;
        let (owes, reads) = (entry.owed.is_some(), entry.operation == OP_RDMA_READ);
        if last && owes && entry.error == 0 {
            // The bytes of an RDMA write are there.
            self.pay(vi, context.vi, context.serial);
            let Some(entry) = vi.send.get_mut(context.serial) else { return false };
            if entry.owed.is_some() || matches!(entry.stage, Stage::Flying { parts: 1.., .. }) {
                state.note(context.vi);
                return false;
            }
        } else if !last {
            return false;
        }
        let queue = vi.queue(context.side);
        if let Some(entry) = queue.get_mut(context.serial) {
            let owed = entry.owed.take().is_some();
            if entry.forced != 0 {
                outcome =
                    Outcome::error(operation_status(context.side, entry.operation), entry.forced);
            }
            entry.stage = Stage::Ended(outcome);
            queue.owes -= usize::from(owed);
        }
        if reads && context.side == Side::Send {
            queue.reads -= 1;
        }
        if completion.status.is_silence() {
            // All of this peer's, so that nobody waits for what cannot come.
            self.lost(state, peer);
        }
        let news = self.retire(state, context.vi, context.side);
        state.note(context.vi);
        news
    }

    /// Posts what could not be posted before.
    #[cold]
    fn post_owed(&self, state: &mut State) -> bool {
        let owing =
            |(key, vi): (Key, &crate::vi::Vi)| (vi.send.held + vi.send.owes != 0).then_some(key);
        let keys: Vec<Key> = state.vis.all().filter_map(owing).collect();
        let mut news = false;
        for key in keys {
            if let Some(vi) = state.vis.get_mut(key)
                && vi.send.owes != 0
            {
                self.pay_all(vi, key);
            }
            news |= self.post_held(state, key);
            state.note(key);
        }
        news
    }

    /// Sends immediate data that is owed: of reliable VIs at once, of others once the bytes are there.
    fn pay_all(&self, vi: &mut crate::vi::Vi, key: Key) {
        let (next, count) = (vi.send.next(), vi.send.entries.len() as u32);
        let reliable = vi.is_reliable();
        for serial in (0..count).map(|back| next.wrapping_sub(count - back)) {
            let Some(entry) = vi.send.get_mut(serial) else { return };
            let placed = matches!(entry.stage, Stage::Flying { parts: 0, .. });
            if entry.owed.is_none() || !(reliable || placed) {
                continue;
            }
            self.pay(vi, key, serial);
            let Some(entry) = vi.send.get_mut(serial) else { return };
            if entry.owed.is_none() && matches!(entry.stage, Stage::Flying { parts: 0, .. }) {
                let mut outcome = success(Side::Send, entry.operation, entry.bytes);
                outcome.status |= entry.error;
                entry.stage = Stage::Ended(outcome);
            }
        }
    }

    /// Tells the consumer what has ended at the front of a queue. An error there ends a reliable connection. True if there
    /// was anything to tell.
    #[inline]
    pub fn retire(&self, state: &mut State, key: Key, side: Side) -> bool {
        let State { vis, regions, cqs, .. } = state;
        let Some(vi) = vis.get_mut(key) else { return false };
        let cq = vi.cq(side);
        let (mut told, mut failed) = (0, None);
        while let Some((entry, outcome)) = vi.queue(side).take_ended() {
            finish(entry.address, &outcome);
            regions.release(&entry.used);
            vi.queue(side).done.push_back((entry.address, outcome.is_error()));
            if outcome.is_error() && failed.is_none() {
                failed = Some((entry.address, entry.operation, outcome.status));
            }
            told += 1;
        }
        if told == 0 {
            return false;
        }
        let mut wanted = !vi.queue(side).notify.is_empty();
        if let Some(cq) = cq.and_then(|cq| cqs.get_mut(cq)) {
            cq.entries.extend(std::iter::repeat_n((key, side), told));
            wanted |= !cq.notify.is_empty();
        }
        if let Some(failed) = failed
            && vi.is_reliable()
            && vi.is_open()
        {
            self.descriptor_failed(state, key, side, failed);
        }
        if wanted {
            self.service.wake(self);
        }
        true
    }
}
