//! The send side's part of one-sided operations: puts and atomics as numbered messages, and blocks of regions that peers
//! asked for.

use arrayvec::ArrayVec;
use emp_wire::{Atomic, DoneStatus, TRAIN_FRAMES_MAX};

use super::record::What;
use super::{SendSide, Work};
use crate::counters::Counter;
use crate::cross::{Control, RegionBlock, RouteNews};
use crate::descriptor::{CompletionMode, PostError, SendDescriptor, Status};
use crate::event::Limit;
use crate::limits::BLOCKS_QUEUED_MAX;
use crate::memory::{HostMemory, SegmentList};
use crate::onesided::{AtomicDescriptor, PutDescriptor, RemoteRegion};
use crate::pool::Chain;
use crate::time::Time;

impl PutDescriptor {
    /// The message that it is: it goes to a region.
    pub(crate) fn describe(self) -> (SendDescriptor, Work) {
        let Self { target, endpoint, segments, immediate, completion, context } = self;
        let work = Work::Put { generation: target.generation, offset: target.offset };
        let mut send =
            SendDescriptor { immediate, context, ..describe(&target, endpoint, segments) };
        if completion == CompletionMode::Buffered {
            send.completion = completion;
        }
        (send, work)
    }
}

impl AtomicDescriptor {
    /// The message that it is. With `fetch`, the receive side's name for the old values, its answer goes there, and it is complete there.
    pub(crate) fn describe(&self, fetch: Option<u32>) -> (SendDescriptor, Work) {
        let Self { target, endpoint, operation, datatype, count, context, .. } = self;
        let work = Work::Atomic {
            generation: target.generation,
            offset: target.offset,
            operation: *operation,
            datatype: *datatype,
            count: *count,
            fetch,
        };
        // What completions show of its length is that of the elements.
        let bytes = Atomic::element_bytes((*datatype, *count));
        let shown = SegmentList::one(crate::memory::Segment { address: 0, bytes });
        (SendDescriptor { context: *context, ..describe(target, *endpoint, shown) }, work)
    }
}

impl SendSide {
    /// Copies what an atomic operation brings: its operands, and what to compare with.
    pub(crate) fn gather(
        &mut self,
        peer: Option<u32>,
        atomic: &AtomicDescriptor,
        memory: &impl HostMemory,
    ) -> Result<Chain, PostError> {
        let operands = atomic.operation.has_operands().then_some(&atomic.operands);
        let lists: ArrayVec<_, 2> = operands.into_iter().chain(&atomic.compare).collect();
        let copied = self.copy(peer, &lists, memory);
        self.said_if_full(copied)
    }

    /// What was not copied is refused: the host is to hear why.
    pub(super) fn said_if_full<T>(&mut self, copied: Result<T, PostError>) -> Result<T, PostError> {
        if matches!(copied, Err(PostError::PoolFull)) {
            self.reached.note(Limit::Buffered);
        }
        copied
    }

    /// Copies lists, one after the other, into a chain of the pool, as far as this peer's part of it goes. `None`: it has none of it.
    pub(super) fn copy(
        &mut self,
        peer: Option<u32>,
        lists: &[&SegmentList],
        memory: &impl HostMemory,
    ) -> Result<Chain, PostError> {
        let bytes: u64 = lists.iter().map(|list| list.bytes()).sum();
        let has = peer.map_or(0, |peer| self.copied_slots(peer));
        if !self.pool.has_room(bytes, has) {
            return Err(PostError::PoolFull);
        }
        let chain = self.pool.alloc(bytes as usize).ok_or(PostError::PoolFull)?;
        let read = |at: usize, slice: &mut [u8]| {
            let (mut from, mut done) = (at as u64, 0);
            for list in lists {
                let here = list.bytes().saturating_sub(from).min((slice.len() - done) as u64);
                list.read(memory, from, &mut slice[done..done + here as usize])?;
                done += here as usize;
                from = (from + here).saturating_sub(list.bytes());
            }
            Ok::<_, crate::memory::MemoryFault>(())
        };
        if self.pool.fill(&chain, bytes as usize, read).is_err() {
            self.pool.free(chain);
            return Err(PostError::MemoryFault);
        }
        self.counters.add(Counter::BytesCopied, bytes);
        Ok(chain)
    }

    /// An atomic operation turns out not to fit one of the peer's frames.
    pub(super) fn unsent(&mut self, index: u32) {
        let status = Status::TooLong;
        if let Some(Work::Atomic { fetch: Some(fetch), .. }) =
            self.messages.at(index).map(|message| message.work)
        {
            self.route_news.push_back(RouteNews::Unsent { fetch, status });
        }
        self.void(index, status);
    }

    /// The peer wants a block of a region (`GET-1`); the receive side has found that it may have it.
    pub(crate) fn on_get(
        &mut self,
        now: Time,
        peer: u32,
        block: RegionBlock,
        fragment_bytes_max: u16,
    ) {
        let frames = block.memory.bytes.div_ceil(block.fragment.max(1).into());
        let sane = (1..=fragment_bytes_max).contains(&block.fragment)
            && frames <= u64::from(TRAIN_FRAMES_MAX);
        let active = self.activate(peer, now).active_mut();
        if !sane || active.blocks.len() >= BLOCKS_QUEUED_MAX {
            self.counters.count(Counter::DropBadPlace);
            let handle = block.handle;
            let control = Control::Reply { handle, status: DoneStatus::Abandoned, values: None };
            return self.control(now, peer, control);
        }
        active.blocks.push_back(What::Region(block));
        self.mark_ready(peer);
    }

    /// A region is no more: blocks of it that were asked for are not sent (any further), and those who asked are told.
    pub(crate) fn drop_region(&mut self, now: Time, region: u32) {
        let mut refused = alloc::vec::Vec::new();
        for peer in 0..self.peers.len() {
            let Some(active) = self.peers[peer].active.as_deref_mut() else { continue };
            active.skip_region(region, |handle| refused.push((peer, handle)));
        }
        for (peer, handle) in refused {
            let status = DoneStatus::BadKey;
            self.control(now, peer, Control::Reply { handle, status, values: None });
        }
    }
}

fn describe(target: &RemoteRegion, endpoint: u16, segments: SegmentList) -> SendDescriptor {
    SendDescriptor {
        to: target.to,
        endpoint,
        to_endpoint: target.to_endpoint,
        match_bits: target.key,
        segments,
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Delivered,
        context: 0,
    }
}
