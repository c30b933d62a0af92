//! Gets and fetching atomics at their initiator: what other nodes' memory sends here (`GET-2`, `ATOMIC-4`).

use emp_wire::DoneStatus;

use super::ReceiveSide;
use super::pulling::{Puller, Pulling};
use crate::counters::Counter;
use crate::cross::{Control, GetBlock, ToSend};
use crate::descriptor::{Completion, INDEX_BITS, OpId, OpKind, PostError, Status};
use crate::event::Limit;
use crate::limits::{GETS_MAX, POOL_SHARE_PARTS};
use crate::memory::{HostMemory, SegmentList};
use crate::onesided::{AtomicDescriptor, GetDescriptor, RemoteRegion};

/// Marks operations of this table: the send side has atomics of its own.
const FETCH_MARK: u32 = 1 << (INDEX_BITS - 1);

/// A get or fetching atomic that was posted and is not complete.
pub(super) struct Fetch {
    kind: OpKind,
    pub(super) peer: u32,
    target: RemoteRegion,
    endpoint: u16,
    /// Where the bytes go.
    pub(super) segments: SegmentList,
    context: u64,
    /// What of it is asked for; an atomic asks by itself.
    pub(super) pulling: Pulling,
    /// Payload bytes of the frames that bring it; 0 while the peer is not known.
    pub(super) fragment: u16,
}

impl ReceiveSide {
    /// Starts a get, if the peer is known: then `fragment` is what one of its frames carries.
    pub(crate) fn post_get(
        &mut self,
        peer: u32,
        get: GetDescriptor,
        fragment: Option<u16>,
    ) -> Result<OpId, PostError> {
        let GetDescriptor { target, endpoint, segments, context } = get;
        let pulling = Pulling::of(0, segments.bytes());
        let kind = OpKind::Get;
        let fetch = Fetch { kind, peer, target, endpoint, segments, context, pulling, fragment: 0 };
        let (index, generation) = self.add_fetch(fetch)?;
        if let Some(fragment) = fragment {
            self.start_get(index, fragment);
        }
        Ok(OpId::new(kind, index | FETCH_MARK, generation))
    }

    /// Makes ready for the answer of a fetching atomic. Returns the operation, and its name on the wire.
    pub(crate) fn expect_values(
        &mut self,
        peer: u32,
        atomic: &AtomicDescriptor,
        into: SegmentList,
    ) -> Result<(OpId, u32), PostError> {
        let AtomicDescriptor { target, endpoint, context, .. } = *atomic;
        let kind = OpKind::Atomic;
        let pulling = Pulling::of(0, 0);
        let segments = into;
        let fetch = Fetch { kind, peer, target, endpoint, segments, context, pulling, fragment: 0 };
        let (index, generation) = self.add_fetch(fetch)?;
        Ok((OpId::new(kind, index | FETCH_MARK, generation), name(index, generation)))
    }

    /// The atomic was not posted after all.
    pub(crate) fn forget_fetch(&mut self, op: OpId) {
        self.take_fetch(op.index() & !FETCH_MARK);
    }

    /// Whom the bytes of a get or fetching atomic come from, if it has not ended.
    pub(crate) fn fetched_from(&self, op: OpId) -> Option<u32> {
        let fetch = self.fetches.get(op.index() & !FETCH_MARK, op.generation())?;
        (op.index() & FETCH_MARK != 0).then_some(fetch.peer)
    }

    fn add_fetch(&mut self, fetch: Fetch) -> Result<(u32, u32), PostError> {
        let peer = fetch.peer;
        // One that does not answer leaves room for what is fetched from others.
        let free = GETS_MAX - self.fetches.len();
        if self.fetches_of.count(peer) >= free / POOL_SHARE_PARTS as usize {
            self.reached.note(Limit::Gets);
            return Err(PostError::Busy);
        }
        let (index, generation) = self.fetches.insert(fetch).ok_or(PostError::Busy)?;
        self.fetches_of.add(peer, index);
        Ok((index, generation))
    }

    fn take_fetch(&mut self, index: u32) -> Option<Fetch> {
        let fetch = self.fetches.remove(index)?;
        self.fetches_of.remove(fetch.peer, index);
        Some(fetch)
    }

    fn start_get(&mut self, index: u32, fragment: u16) {
        let Some(get) = self.fetches.at_mut(index) else { return };
        get.fragment = fragment;
        if get.segments.bytes() > 0 {
            return self.pull_more(Puller::Get(index));
        }
        // No bytes, but an answer: whether the place is there.
        let peer = get.peer;
        let control = self.get_block(index, 0, 0, 0);
        self.to_send.push_back(ToSend::Control { peer, control });
    }

    /// A peer's epoch and largest frame are known: gets that waited for that begin.
    pub(crate) fn met(&mut self, peer: u32, fragment: u16) {
        for index in self.fetches_of.of(peer) {
            let fetch = self.fetches.at(index).expect("listed");
            if fetch.kind == OpKind::Get && fetch.fragment == 0 {
                self.start_get(index, fragment);
            }
        }
    }

    /// True if something is to be fetched from a peer.
    pub(crate) fn fetches_from(&self, peer: u32) -> bool {
        self.fetches_of.has(peer)
    }

    /// The frame that asks for a block of a get.
    pub(super) fn get_block(&self, index: u32, offset: u64, bytes: u32, pull: u16) -> Control {
        let get = self.fetches.at(index).expect("the caller has it");
        let RemoteRegion { to_endpoint, key, generation, offset: start, .. } = get.target;
        Control::Get(GetBlock {
            key,
            // Beyond the end of all addresses the target refuses it, whatever comes out here.
            offset: start.saturating_add(offset),
            generation,
            handle: name(index, self.fetches.generation(index)),
            bytes,
            endpoint: get.endpoint,
            to_endpoint,
            pull,
            fragment: get.fragment,
        })
    }

    /// Ends a get if all of it is here.
    pub(super) fn advance_get(&mut self, index: u32) {
        if self.fetches.at(index).is_some_and(|get| get.pulling.is_over()) {
            self.finish_fetch(index, Status::Ok);
        }
    }

    /// The target answers a get that it does not answer with blocks, or an atomic (`GET-3`, `ATOMIC-4`).
    pub(super) fn on_reply(
        &mut self,
        peer: u32,
        handle: u32,
        status: DoneStatus,
        values: &[u8],
        memory: &mut impl HostMemory,
    ) {
        let index = handle & 0xFFFF;
        let current = name(index, self.fetches.generation(index)) == handle;
        let fetch = self.fetches.at(index).filter(|fetch| current && fetch.peer == peer);
        let Some(fetch) = fetch else {
            self.counters.count(Counter::DropBadHandle);
            return;
        };
        let bytes = fetch.segments.bytes();
        let status = match status.into() {
            // "Complete" without the bytes is an answer to another question.
            Status::Ok if values.len() as u64 != bytes => Status::Abandoned,
            Status::Ok => match self.write_to(Puller::Get(index), 0, values, memory) {
                Ok(()) => Status::Ok,
                Err(_) => Status::MemoryFault,
            },
            failed => failed,
        };
        self.finish_fetch(index, status);
    }

    /// Ends a fetching atomic that could not be sent.
    pub(crate) fn end_fetch(&mut self, handle: u32, status: Status) {
        let index = handle & 0xFFFF;
        if name(index, self.fetches.generation(index)) == handle {
            self.finish_fetch(index, status);
        }
    }

    /// A peer is given up.
    pub(super) fn end_fetches_of(&mut self, peer: u32, status: Status) {
        for index in self.fetches_of.of(peer) {
            self.remove_fetch(index, status);
        }
        // Others are asked once for all of them.
        self.serve_pulls();
    }

    pub(super) fn finish_fetch(&mut self, index: u32, status: Status) {
        self.remove_fetch(index, status);
        self.serve_pulls();
    }

    /// Tells the host how a fetch ended, and forgets it.
    fn remove_fetch(&mut self, index: u32, status: Status) {
        self.drop_pulls(Puller::Get(index));
        let generation = self.fetches.generation(index);
        let Some(fetch) = self.take_fetch(index) else { return };
        self.counters.count(match fetch.kind {
            OpKind::Get => Counter::Gets,
            _ => Counter::Atomics,
        });
        let bytes = fetch.segments.bytes();
        let op = OpId::new(fetch.kind, index | FETCH_MARK, generation);
        self.completions.push_back(Completion {
            bytes,
            total_bytes: bytes,
            peer: fetch.target.to,
            peer_endpoint: fetch.target.to_endpoint,
            match_bits: fetch.target.key,
            ..Completion::unmatched(op, fetch.context, status)
        });
    }
}

/// The name of a fetch on the wire: index and part of the generation. `GETS_MAX` fits 16 bits.
const fn name(index: u32, generation: u32) -> u32 {
    generation << 16 | index & 0xFFFF
}
