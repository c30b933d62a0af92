//! How connections end: by the application, by the other side, by an error of a descriptor, with the peer, with the NIC.

use std::sync::Arc;
use std::time::{Duration, Instant};

use emp_face::handles::Key;
use emp_host::NodeId;

use crate::abi::*;
use crate::connecting::Outcome as Attempt;
use crate::control::Purpose;
use crate::descriptor::Outcome;
use crate::errors::{enter, lacking};
use crate::nic::Nic;
use crate::points::{CQ, VI};
use crate::queue::{Queue, Side, Stage, operation_status};
use crate::state::{State, owner_of};
use crate::vi::Phase;
use crate::wire::Message;

/// What the node may still be doing with descriptors that are flushed ends when the peer answers or is lost; beyond twice the
/// time for that (the longest `EMP_TIMEOUT` of an hour apart) something is wrong.
const FLUSH_MAX: Duration = Duration::from_secs(60);

impl Queue {
    /// Ends what can be ended now; returns what the node is to give up. What ends well in the node nevertheless does so here
    /// if `keep`, and else flushed.
    fn flush(&mut self, side: Side, keep: bool) -> Vec<emp_host::RawOp> {
        let mut under_way = Vec::new();
        for entry in &mut self.entries {
            let flushed = Stage::Ended(Outcome::error(
                operation_status(side, entry.operation),
                FLUSHED_ERROR,
            ));
            if entry.owed.take().is_some() {
                self.owes -= 1;
            }
            match &entry.stage {
                Stage::Held(_) => {
                    self.held -= 1;
                    entry.stage = flushed;
                }
                Stage::Flying { parts: 0, .. } => entry.stage = flushed,
                Stage::Flying { op, .. } => {
                    under_way.extend(*op);
                    if !keep {
                        entry.forced = FLUSHED_ERROR;
                    }
                }
                Stage::Ended(_) => {}
            }
        }
        under_way
    }
}

impl Nic {
    /// Flushes both queues of a VI.
    fn flush(&self, state: &mut State, key: Key, keep: bool) {
        for side in [Side::Send, Side::Receive] {
            let Some(vi) = state.vis.get_mut(key) else { return };
            for op in vi.queue(side).flush(side, keep) {
                // If it is too late for that, it ends as it will.
                self.endpoint.cancel_raw(op);
            }
            self.retire(state, key, side);
        }
        state.note(key);
    }

    fn event(&self, state: &mut State, key: Key, code: ErrorCode) {
        let resource = RESOURCE_VI;
        self.event_of(state, key, (code, resource, 0, 0, 0));
    }

    fn event_of(
        &self,
        state: &mut State,
        key: Key,
        (code, resource, cq, descriptor, operation): (ErrorCode, i32, Handle, u64, u16),
    ) {
        let event = ErrorDescriptor {
            nic: self.handle(),
            vi: key.handle(VI),
            cq,
            descriptor,
            operation: operation.into(),
            resource,
            code,
        };
        state.push_event(event);
        self.service.wake(self);
    }

    /// Ends a connection because of an error here. The consumer is told by `here`, the other side's by `there`.
    pub fn break_vi(&self, state: &mut State, key: Key, here: ErrorCode, there: ErrorCode) {
        self.event(state, key, here);
        self.end(state, key, there);
    }

    /// Ends a connection: the other side hears of it.
    fn end(&self, state: &mut State, key: Key, there: ErrorCode) {
        let Some(vi) = state.vis.get_mut(key) else { return };
        if matches!(vi.phase, Phase::Accepting) {
            vi.outcome = Some(Attempt::Gone);
        }
        vi.phase = Phase::Error;
        let conn = vi.conn;
        if let Some(remote) = &vi.remote {
            let (node, from) = (remote.node, conn);
            let end = Message::End { conn: remote.conn, from, why: there };
            self.send_control(state, node, &end, Purpose::Other);
        }
        self.flush(state, key, false);
        self.discard_unexpected(conn);
    }

    /// A descriptor of a reliable VI has ended in error.
    #[cold]
    pub fn descriptor_failed(
        &self,
        state: &mut State,
        key: Key,
        side: Side,
        (address, operation, status): (u64, u16, u32),
    ) {
        let cq = state.vis.get_mut(key).and_then(|vi| vi.cq(side));
        let cq = cq.map_or(0, |cq| cq.handle(CQ));
        let there = match operation {
            _ if status & RDMA_PROT_ERROR == 0 => ErrorCode::CONN_LOST,
            OP_RDMA_READ => ErrorCode::RDMAR_PROT,
            _ => ErrorCode::RDMAW_PROT,
        };
        if status & (FORMAT_ERROR | PROTECTION_ERROR | LENGTH_ERROR) != 0 {
            let wrong = (ErrorCode::POST_DESC, RESOURCE_DESCRIPTOR, cq, address, operation);
            self.event_of(state, key, wrong);
        } else if status & (TRANSPORT_ERROR | REMOTE_DESC_ERROR) != 0 {
            self.event(state, key, ErrorCode::CONN_LOST);
        }
        self.end(state, key, there);
    }

    /// The other side has ended a connection. True: descriptors may have ended.
    pub fn ended_there(&self, state: &mut State, key: Key, why: ErrorCode) -> bool {
        // What it has sent before is there: it counts.
        self.take_last(state, key);
        let Some(vi) = state.vis.get_mut(key) else { return false };
        let conn = vi.conn;
        match vi.phase {
            Phase::Accepting => {
                self.not_connected(state, key, Attempt::Gone);
                return true;
            }
            Phase::Connected => vi.phase = Phase::Error,
            _ => return false,
        }
        if why != ErrorCode::CONN_LOST {
            self.event(state, key, why);
        }
        self.event(state, key, ErrorCode::CONN_LOST);
        self.flush(state, key, true);
        self.discard_unexpected(conn);
        true
    }

    /// A peer has gone, or nothing is heard of it. True if VIs were connected to it.
    pub fn lost(&self, state: &mut State, node: NodeId) -> bool {
        let of_it = |(key, vi): (Key, &crate::vi::Vi)| {
            let remote = vi.remote.as_ref().filter(|_| vi.is_open())?;
            (remote.node == node).then_some(key)
        };
        let keys: Vec<Key> = state.vis.all().filter_map(of_it).collect();
        for key in &keys {
            self.ended_there(state, *key, ErrorCode::CONN_LOST);
        }
        !keys.is_empty()
    }

    /// Ends the descriptors that use memory which goes away.
    pub fn give_up_memory(&self, state: &mut State, memory: MemHandle) {
        let keys: Vec<Key> = state.vis.all().map(|(key, _)| key).collect();
        for key in keys {
            for side in [Side::Send, Side::Receive] {
                let Some(vi) = state.vis.get_mut(key) else { continue };
                let queue = vi.queue(side);
                let mut under_way = Vec::new();
                for entry in &mut queue.entries {
                    if entry.used.all().all(|used| used != memory) {
                        continue;
                    }
                    let operation = operation_status(side, entry.operation);
                    match &entry.stage {
                        Stage::Held(_) => {
                            queue.held -= 1;
                            entry.stage = Stage::Ended(Outcome::error(operation, PROTECTION_ERROR));
                        }
                        Stage::Flying { op, .. } => {
                            entry.forced = PROTECTION_ERROR;
                            under_way.extend(*op);
                        }
                        Stage::Ended(_) => {}
                    }
                }
                for op in under_way {
                    self.endpoint.cancel_raw(op);
                }
                self.retire(state, key, side);
            }
            state.note(key);
        }
    }

    /// Ends the connection of a VI, or the attempt to make one, and begins to flush.
    fn begin_to_disconnect(&self, key: Key) -> Result<(), Return> {
        let mut state = self.lock()?;
        let vi = state.vi(key)?;
        match vi.phase {
            // A thread waits for that: it has its own end.
            Phase::Requesting => return Err(Return::INVALID_STATE),
            Phase::Peering(_) => self.not_connected(&mut state, key, Attempt::Gone),
            Phase::Connected | Phase::Accepting => self.end(&mut state, key, ErrorCode::CONN_LOST),
            Phase::Idle | Phase::Error => {}
        }
        self.flush(&mut state, key, false);
        drop(state);
        self.tell();
        Ok(())
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipDisconnect(handle: Handle) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        nic.begin_to_disconnect(key)?;
        let flushed = |state: &mut State| match state.vi(key) {
            Ok(vi) => {
                let empty = vi.send.entries.is_empty() && vi.receive.entries.is_empty();
                empty.then_some(Ok(()))
            }
            Err(error) => Some(Err(error)),
        };
        match nic.wait(Some(Instant::now() + FLUSH_MAX), flushed)? {
            Some(flushed) => flushed?,
            None => return Err(lacking(&"descriptors are still in use by the node")),
        }
        let mut state = nic.lock()?;
        let vi = state.vi(key)?;
        (vi.phase, vi.remote) = (Phase::Idle, None);
        (vi.send.doomed, vi.receive.doomed) = (false, false);
        let before = vi.conn;
        state.conns.remove(&before);
        let conn = state.new_conn(key);
        state.vi(key)?.conn = conn;
        state.note(key);
        nic.discard_unexpected(before);
        Ok(())
    })
}

/// Closes a NIC: the other sides are told, threads that wait leave, and nothing uses the application's memory any more.
pub fn close(nic: &Arc<Nic>) {
    {
        let mut state = nic.lock_even_closed();
        let listeners: Vec<u64> = state.listener_ids();
        for listener in listeners {
            nic.unlisten(&mut state, listener);
        }
        let keys: Vec<Key> = state.vis.all().map(|(key, _)| key).collect();
        for key in keys {
            if state.vis.get_mut(key).is_some_and(|vi| vi.is_open()) {
                nic.end(&mut state, key, ErrorCode::CONN_LOST);
            }
        }
        state.closed = true;
        state.events.clear();
    }
    nic.tell();
    nic.service.stop(nic);
    nic.gate.stop();
    nic.close_door();
    nic.face.close();
}
