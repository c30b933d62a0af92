//! Posting: descriptors become operations of the node, at once or when their turn comes.

use std::ffi::c_int;

use emp_face::handles::Key;
use emp_face::pointers::store;
use emp_host::{
    CompletionMode, GetDescriptor, PostError, PutDescriptor, RawSend, ReceiveDescriptor,
    RemoteRegion, SegmentList, Selector, SendDescriptor,
};

use crate::abi::*;
use crate::descriptor::{Bounds, Outcome, Work, read};
use crate::errors::{enter, lacking};
use crate::memory::region_key;
use crate::nic::{CHANNEL, DESCRIPTORS_MAX, Nic};
use crate::points::VI;
use crate::progress::{send_error, success};
use crate::queue::{Context, Entry, Side, Stage, operation_status};
use crate::state::{State, owner_of};
use crate::vi::{Phase, Remote, Vi};
use crate::wire::WROTE;

/// A descriptor that was posted: how far it came, and the immediate data that it still owes.
struct Launched {
    stage: Stage,
    owed: Option<u32>,
}

impl Launched {
    fn flying(op: emp_host::RawOp) -> Self {
        Self { stage: Stage::Flying { op: Some(op), parts: 1 }, owed: None }
    }

    /// The node tells the other side of the message of a write only after the bytes are there. If they may be refused without an end of the
    /// connection, no receive must be consumed for them.
    fn tells(&mut self, op: emp_host::RawOp, sent: Result<RawSend, PostError>) {
        match sent {
            Ok(RawSend::Flying(_)) => {
                self.stage = Stage::Flying { op: Some(op), parts: 2 };
                self.owed = None;
            }
            Ok(RawSend::Over(_)) => self.owed = None,
            Err(_) => {}
        }
    }
}

/// What a refused operation means. `None`: it is to be tried again.
fn refusal(error: PostError) -> Option<u32> {
    match error {
        PostError::Busy | PostError::PoolFull => None,
        PostError::MemoryFault => Some(PROTECTION_ERROR),
        _ => Some(TRANSPORT_ERROR),
    }
}

impl Nic {
    fn message(
        &self,
        remote: &Remote,
        segments: SegmentList,
        immediate: Option<u64>,
        synchronous: bool,
        context: u64,
    ) -> Result<RawSend, PostError> {
        let send = SendDescriptor {
            to: remote.node,
            endpoint: CHANNEL,
            to_endpoint: CHANNEL,
            match_bits: remote.conn.into(),
            segments,
            immediate,
            synchronous,
            completion: CompletionMode::Auto,
            context,
        };
        // SAFETY: the segments are in registered memory, which the consumer keeps and does not write to until the descriptor
        // is done; memory is deregistered only after that.
        unsafe { self.endpoint.post_send_raw_or_end(send, false) }
    }

    /// Tells the other side that an RDMA write has consumed a receive.
    fn tell_of_write(
        &self,
        remote: &Remote,
        (immediate, bytes): (u32, u32),
        synchronous: bool,
        context: u64,
    ) -> Result<RawSend, PostError> {
        let told = Some(WROTE | u64::from(bytes) << 32 | u64::from(immediate));
        self.message(remote, SegmentList::empty(), told, synchronous, context)
    }

    /// Posts what a descriptor asks for. `Err`: there is no room now.
    fn launch(&self, vi: &Vi, work: &Work, context: u64) -> Result<Launched, ()> {
        let operation = operation_status(Side::Send, work.operation);
        let ended =
            |error| Launched { stage: Stage::Ended(Outcome::error(operation, error)), owed: None };
        let Some(remote) = &vi.remote else { return Ok(ended(FLUSHED_ERROR)) };
        let segments = work.segments.clone();
        let target = || RemoteRegion {
            to: remote.node,
            to_endpoint: CHANNEL,
            key: region_key(remote.tag, work.remote.handle),
            generation: 0,
            offset: work.remote.address,
        };
        let synchronous = vi.claims();
        let refused = |error| match refusal(error) {
            None => Err(()),
            Some(error) => Ok(ended(error)),
        };
        match work.operation {
            OP_RDMA_WRITE if !remote.offer.rdma_write => Ok(ended(RDMA_PROT_ERROR)),
            OP_RDMA_WRITE => {
                let put = PutDescriptor {
                    target: target(),
                    endpoint: CHANNEL,
                    segments,
                    immediate: None,
                    completion: CompletionMode::Auto,
                    context,
                };
                // SAFETY: as for messages.
                let op = match unsafe { self.endpoint.post_put_raw(put) } {
                    Ok(op) => op,
                    Err(error) => return refused(error),
                };
                let mut launched = Launched::flying(op);
                launched.owed = work.immediate;
                if let Some(immediate) = work.immediate
                    && vi.is_reliable()
                {
                    let told = (immediate, work.bytes());
                    let sent = self.tell_of_write(remote, told, synchronous, context);
                    launched.tells(op, sent);
                }
                Ok(launched)
            }
            OP_RDMA_READ if !remote.offer.rdma_read => Ok(ended(RDMA_PROT_ERROR)),
            OP_RDMA_READ => {
                let get = GetDescriptor { target: target(), endpoint: CHANNEL, segments, context };
                // SAFETY: as for messages; nobody else uses the memory meanwhile.
                match unsafe { self.endpoint.post_get_raw(get) } {
                    Ok(op) => Ok(Launched::flying(op)),
                    Err(error) => refused(error),
                }
            }
            _ => {
                let immediate = work.immediate.map(u64::from);
                match self.message(remote, segments, immediate, synchronous, context) {
                    Ok(RawSend::Flying(op)) => Ok(Launched::flying(op)),
                    Ok(RawSend::Over(status)) => Ok(match send_error(status, vi.is_reliable()) {
                        0 => Launched {
                            stage: Stage::Ended(success(Side::Send, 0, work.bytes())),
                            owed: None,
                        },
                        error => ended(error),
                    }),
                    Err(error) => refused(error),
                }
            }
        }
    }

    /// Posts a receive, into which the node brings whatever comes for the connection.
    fn launch_receive(&self, conn: u32, work: &Work, context: u64) -> Result<Stage, ()> {
        let receive = ReceiveDescriptor {
            endpoint: CHANNEL,
            selector: Selector::bits(conn.into()),
            segments: work.segments.clone(),
            claim: None,
            context,
        };
        // SAFETY: the segments are in registered memory that the consumer keeps, and does not use, until the descriptor is
        // done; memory is deregistered only after that.
        match unsafe { self.endpoint.post_receive_raw(receive) } {
            Ok(op) => Ok(Stage::Flying { op: Some(op), parts: 1 }),
            Err(error) => match refusal(error) {
                None => Err(()),
                Some(error) => Ok(Stage::Ended(Outcome::error(STATUS_RECEIVE, error))),
            },
        }
    }

    /// Posts what waits in a send queue, in order, as far as it can be.
    pub fn post_held(&self, state: &mut State, key: Key) -> bool {
        let Some(vi) = state.vis.get_mut(key) else { return false };
        let place = key;
        while let Some(serial) = vi.send.first_held() {
            if !matches!(vi.phase, Phase::Connected) {
                break;
            }
            let reading = vi.send.reads != 0;
            let Some(work) = vi.send.unhold(serial) else { break };
            let context = Context { vi: place, side: Side::Send, serial }.pack();
            let launched =
                if work.fence && reading { Err(()) } else { self.launch(vi, &work, context) };
            let Some(entry) = vi.send.get_mut(serial) else { break };
            let Ok(launched) = launched else {
                entry.stage = Stage::Held(work);
                vi.send.held += 1;
                break;
            };
            let reads =
                work.operation == OP_RDMA_READ && matches!(launched.stage, Stage::Flying { .. });
            (entry.stage, entry.owed) = (launched.stage, launched.owed);
            vi.send.owes += usize::from(launched.owed.is_some());
            vi.send.reads += usize::from(reads);
        }
        self.retire(state, key, Side::Send)
    }

    /// Sends the immediate data of an RDMA write that is done, or for which there was no room.
    pub fn pay(&self, vi: &mut Vi, key: Key, serial: u32) {
        let (Some(remote), synchronous) = (vi.remote.clone(), vi.claims()) else { return };
        let Some(entry) = vi.send.get_mut(serial) else { return };
        let Some(immediate) = entry.owed else { return };
        let context = Context { vi: key, side: Side::Send, serial }.pack();
        let told = (immediate, entry.bytes);
        match self.tell_of_write(&remote, told, synchronous, context) {
            Ok(sent) => {
                entry.owed = None;
                if let (RawSend::Flying(_), Stage::Flying { parts, .. }) = (sent, &mut entry.stage)
                {
                    *parts += 1;
                }
                vi.send.owes -= 1;
            }
            Err(error) if refusal(error).is_some() => {
                entry.owed = None;
                entry.error = TRANSPORT_ERROR;
                vi.send.owes -= 1;
            }
            // It is tried again by progress.
            Err(_) => {}
        }
    }

    #[inline]
    fn post(&self, key: Key, side: Side, descriptor: u64, memory: MemHandle) -> Result<(), Return> {
        let mut state = self.lock()?;
        let State { vis, regions, .. } = &mut *state;
        let vi = vis.get_mut(key).ok_or(Return::INVALID_PARAMETER)?;
        let receive = side == Side::Receive;
        let bounds = Bounds {
            receive,
            ptag: vi.ptag,
            max_transfer: vi.attributes.max_transfer_size,
            reads: vi.is_reliable(),
        };
        let queue = vi.queue(side);
        if queue.entries.len() + queue.done.len() >= DESCRIPTORS_MAX {
            return Err(lacking(&"a queue has as many descriptors as MaxDescriptorsPerQueue says"));
        }
        let (serial, held, doomed) = (queue.next(), queue.held, queue.doomed);
        let mut work = read(regions, descriptor, memory, &bounds)?;
        let context = Context { vi: key, side, serial }.pack();
        let status = operation_status(side, work.operation);
        let used = std::mem::take(&mut work.used);
        let (operation, bytes) = (work.operation, work.named_bytes());
        let mut owed = None;
        let flushed = || Stage::Ended(Outcome::error(status, FLUSHED_ERROR));
        let ready = match side {
            Side::Send => matches!(vi.phase, Phase::Connected),
            Side::Receive => !matches!(vi.phase, Phase::Error),
        };
        let stage = if doomed || !ready {
            flushed()
        } else if work.error != 0 {
            vi.queue(side).doomed = bounds.reads;
            Stage::Ended(Outcome::error(status, work.error))
        } else if receive && vi.claims() {
            Stage::Held(Box::new(work))
        } else if receive {
            let Ok(stage) = self.launch_receive(vi.conn, &work, context) else {
                regions.release(&used);
                return Err(lacking(&"the node has no room for another receive"));
            };
            stage
        } else if held != 0 || (work.fence && vi.send.reads != 0) {
            Stage::Held(Box::new(work))
        } else {
            match self.launch(vi, &work, context) {
                Ok(launched) => {
                    let flying = matches!(launched.stage, Stage::Flying { .. });
                    vi.send.reads += usize::from(flying && operation == OP_RDMA_READ);
                    owed = launched.owed;
                    launched.stage
                }
                Err(()) => Stage::Held(Box::new(work)),
            }
        };
        let entry =
            Entry { address: descriptor, operation, bytes, used, stage, owed, forced: 0, error: 0 };
        vi.queue(side).push(entry);
        let news = self.retire(&mut state, key, side);
        state.note(key);
        drop(state);
        if news {
            self.tell();
        }
        Ok(())
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipPostSend(handle: Handle, descriptor: u64, memory: MemHandle) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        nic.post(key, Side::Send, descriptor, memory)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipPostRecv(handle: Handle, descriptor: u64, memory: MemHandle) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        nic.post(key, Side::Receive, descriptor, memory)
    })
}

/// Not of VIA, but of Giganet's library, which could leave sends in their queue. Here only those wait that there is no room for:
/// this posts what it can, and says whether any are left.
#[unsafe(no_mangle)]
pub extern "C" fn VipPostDeferredSends(
    handle: Handle,
    _interrupt: c_int,
    deferred: *mut c_int,
) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        nic.glance(|_| None::<()>)?;
        let held = nic.lock()?.vi(key)?.send.held;
        // SAFETY: the header's rules: null or valid.
        unsafe { store(deferred, (held != 0).into()) };
        Ok(())
    })
}
