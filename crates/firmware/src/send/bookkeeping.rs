//! Send bookkeeping (I1): a posted descriptor becomes a message in a peer's queue; its turn come, a train of frames.

use emp_wire::{
    Atomic, HEADER_BYTES, IMMEDIATE_BYTES, LONG_BYTES, PIECES_MAX, Sequence, TARGET_BYTES,
    TRAIN_FRAMES_MAX, pieces_bytes,
};

use super::cut::Cut;
use super::record::{QueuedBlock, Record, What};
use super::{Held, SendMessage, SendPath, Stage, Work};
use crate::counters::Counter;
use crate::cross::Control;
use crate::descriptor::{CompletionMode, OpId, OpKind, PostError, SendDescriptor, Status};
use crate::limits::{BLOCKS_QUEUED_MAX, BUFFERED_MAX, CONTROLS_MAX};
use crate::memory::HostMemory;
use crate::path::{PathId, Paths};
use crate::pool::Chain;
use crate::profile::Profile;
use crate::time::Time;

pub(super) const fn op_id(kind: OpKind, index: u32, generation: u32) -> OpId {
    OpId::new(kind, index, generation)
}

/// The name of a message in pulls and dones: index and part of the generation. `SENDS_MAX` fits 16 bits.
pub(super) const fn handle(index: u32, generation: u32) -> u32 {
    generation << 16 | index & 0xFFFF
}

/// Smallest window by which long frames leave: most of one of the longest. Less of a port's queue is no room for such bursts, and
/// frames of the MTU can be let out one by one.
const LONG_WINDOW_BYTES: u32 = 48 << 10;

impl SendPath {
    /// Queues a message. `buffered_bytes_max` is what one frame to this peer holds.
    pub(crate) fn post(
        &mut self,
        now: Time,
        peer: u32,
        send: SendDescriptor,
        buffered_bytes_max: usize,
        memory: &impl HostMemory,
    ) -> Result<OpId, PostError> {
        let bytes = send.segments.bytes();
        if self.messages.is_full() {
            return Err(PostError::Busy);
        }
        if send.completion == CompletionMode::Buffered && bytes > buffered_bytes_max as u64 {
            return Err(PostError::TooLong);
        }
        let chain = self.buffer(peer, &send, memory)?;
        // A synchronous message is complete when it is matched, wherever its bytes are.
        let at_once = chain.is_some() && !send.synchronous;
        let op = self.enqueue(now, peer, send, Work::Message, chain)?;
        if at_once {
            self.report(op.index(), Status::Ok);
        }
        Ok(op)
    }

    /// Gives a message its place in the peer's queue. The caller has seen that there is room for it.
    pub(super) fn enqueue(
        &mut self,
        now: Time,
        peer: u32,
        send: SendDescriptor,
        work: Work,
        chain: Option<Chain>,
    ) -> Result<OpId, PostError> {
        let message = SendMessage::new(peer, work, send, chain);
        let (index, generation) = self.messages.insert(message).ok_or(PostError::Busy)?;
        self.activate(peer, now).pending.push_back(index);
        if self.peers[peer].found {
            self.mark_ready(peer);
        }
        Ok(op_id(work.kind(), index, generation))
    }

    /// Copies a message that completes at once into the pool. `None`: it stays in the user's memory.
    fn buffer(
        &mut self,
        peer: u32,
        send: &SendDescriptor,
        memory: &impl HostMemory,
    ) -> Result<Option<Chain>, PostError> {
        let bytes = send.segments.bytes();
        let wanted = match send.completion {
            CompletionMode::Buffered => true,
            CompletionMode::Delivered => false,
            CompletionMode::Auto => {
                let behind = self.peers[peer].active.as_deref();
                let behind = behind.is_some_and(|active| active.pending.len() >= BUFFERED_MAX);
                bytes <= u64::from(self.profile.buffered_bytes) && !behind
            }
        };
        if !wanted {
            return Ok(None);
        }
        let must = send.completion == CompletionMode::Buffered;
        match self.copied(send, memory)? {
            None if must => Err(PostError::PoolFull),
            chain => Ok(chain),
        }
    }

    /// A copy of a message in the pool, or `None` if there is no room.
    #[inline]
    pub(super) fn copied(
        &mut self,
        send: &SendDescriptor,
        memory: &impl HostMemory,
    ) -> Result<Option<Chain>, PostError> {
        let list = &send.segments;
        let bytes = list.bytes();
        let Some(chain) = self.pool.alloc(bytes as usize) else { return Ok(None) };
        let read = |at: usize, slice: &mut [u8]| list.read(memory, at as u64, slice);
        if self.pool.fill(&chain, bytes as usize, read).is_err() {
            self.pool.free(chain);
            return Err(PostError::MemoryFault);
        }
        self.counters.add(Counter::BytesCopied, bytes);
        Ok(Some(chain))
    }

    /// Cancels a message that has not left. One that left once may have arrived, even if the peer had no room for a copy.
    pub(crate) fn cancel(&mut self, op: OpId) -> bool {
        let Some(message) = self.messages.get(op.index(), op.generation()) else { return false };
        if message.completed || message.number.is_some() {
            return false;
        }
        let peer = message.peer;
        if let Some(active) = &mut self.peers[peer].active {
            active.pending.retain(|index| *index != op.index());
        }
        self.finish(op.index(), Status::Cancelled);
        self.settle(peer);
        true
    }

    /// Ends a message that has a number: the receiver still has to be told to count it (`MSG-5`).
    pub(super) fn void(&mut self, index: u32, status: Status) {
        self.report(index, status);
        if let Some(message) = self.messages.at_mut(index) {
            message.void = true;
            if let Some(chain) = message.chain.take() {
                self.pool.free(chain);
            }
        }
    }

    /// Queues a control frame for a peer.
    pub(crate) fn control(&mut self, now: Time, peer: u32, control: Control) {
        let active = self.activate(peer, now);
        if active.controls.len() < CONTROLS_MAX {
            active.controls.push_back(control);
        } else {
            self.replied.extend(control.values());
        }
        if self.peers[peer].found {
            self.mark_ready(peer);
        }
    }

    /// The peer pulls a part of a message (O7).
    pub(crate) fn on_pull(
        &mut self,
        now: Time,
        peer: u32,
        handle: u32,
        offset: u64,
        bytes: u32,
        pull: u16,
    ) {
        let Some((index, generation)) = self.by_handle(peer, handle) else {
            self.counters.count(Counter::DropBadHandle);
            return;
        };
        // A pull of a message that we sent whole: the peer had no room for it, and its word on that was lost.
        self.held(peer, index, Held::Place);
        let Some(message) = self.messages.at(index) else { return };
        let inside = offset
            .checked_add(u64::from(bytes))
            .is_some_and(|end| end <= message.descriptor.segments.bytes());
        let frames = u64::from(bytes).div_ceil(u64::from(message.fragment.max(1)));
        if !inside || !message.needs_done || frames > u64::from(TRAIN_FRAMES_MAX) {
            self.counters.count(Counter::DropBadPlace);
            return;
        }
        let active = self.activate(peer, now);
        if active.blocks.len() >= BLOCKS_QUEUED_MAX {
            self.counters.count(Counter::DropBadPlace);
            return;
        }
        let block = QueuedBlock::Message { message: index, generation, pull, offset, bytes };
        active.blocks.push_back(block);
        self.mark_ready(peer);
    }

    /// The message of this handle, if it goes to this peer.
    pub(super) fn by_handle(&self, peer: u32, handle: u32) -> Option<(u32, u32)> {
        let index = handle & 0xFFFF;
        let generation = self.messages.generation(index);
        let message = self.messages.at(index)?;
        (generation & 0xFFFF == handle >> 16 && message.peer == peer && message.number.is_some())
            .then_some((index, generation))
    }

    /// Begins a message's train, whose receiver is `crowded` or not: it gets its number (`MSG-3`), its cut into frames, and its sequence numbers.
    pub(super) fn begin_message(
        &mut self,
        peer: u32,
        index: u32,
        (frame_bytes_max, crowded): (u16, bool),
        reads: impl Fn() -> bool,
        paths: &Paths,
    ) {
        let own = self.messages.at(index).filter(|message| message.peer == peer);
        let Some(message) = own else { return };
        let mut cut = message.cut(&self.profile, frame_bytes_max);
        let direct = message.may_be_read(&self.profile, frame_bytes_max) && reads();
        if direct {
            // Nothing but the first frame leaves unasked.
            cut = Cut { unscheduled: 0, first_payload: 0, frames: 1, ..cut };
        }
        if matches!(message.work, Work::Atomic { .. }) && cut.frames > 1 {
            // It fits one of our frames, but not one of the peer's: only its number is still needed.
            self.unsent(index);
            let Some(message) = self.messages.at(index) else { return };
            cut = message.cut(&self.profile, frame_bytes_max);
        }
        let Some(message) = self.messages.at(index) else { return };
        let alone = cut.frames == 1;
        let usual = if alone { 1 } else { message.usual_frames(cut.fragment).max(cut.frames) };
        let long = message.total() > u64::from(cut.first_payload) || !alone;
        let long = if long && !direct { message.cut_long(&self.profile, crowded) } else { None };
        let path = paths.choose(usual, long.is_some());
        let wide = |path| {
            let way = paths.way(path);
            self.window_by(&self.peers[peer], path, way) >= LONG_WINDOW_BYTES
        };
        if let Some(long) = long.filter(|_| paths.is_long(path) && wide(path)) {
            cut = long;
        }
        // Its receiver may know its cut by now, and place its blocks by that.
        if let Some(first) = message.cut_before().filter(|_| !direct) {
            cut = first;
        }
        let entry = &mut self.peers[peer];
        let Some(message) = self.messages.at_mut(index) else { return };
        let number = *message.number.get_or_insert_with(|| {
            let number = entry.next_number;
            entry.next_number = number.wrapping_add(1);
            number
        });
        let total = message.total();
        message.unscheduled = cut.unscheduled;
        message.first_payload = cut.first_payload;
        message.fragment = cut.fragment;
        message.direct = direct;
        message.needs_done = !message.void
            && (message.work.needs_done()
                || message.descriptor.synchronous
                || u64::from(cut.unscheduled) < total);
        message.stage = Stage::Sending;
        message.usual_frames = usual;
        let what = What::Message { message: index, number };
        let first = entry.next;
        entry.next = first.plus(cut.frames);
        let active = entry.active.as_mut().expect("a peer with a pending message is active");
        (active.train_next, active.train_end) = (first, entry.next);
        let (count, usual_frames) = (cut.frames, usual);
        active.records.push_back(Record {
            first,
            count,
            sent: 0,
            acked: 0,
            path,
            usual_frames,
            what,
        });
    }

    /// Begins a block's train. False: its message is gone.
    pub(super) fn begin_block(
        &mut self,
        peer: u32,
        block: QueuedBlock,
        frame_bytes_max: u16,
        paths: &Paths,
    ) -> bool {
        let long = |fragment: u16| usize::from(fragment) + HEADER_BYTES > frame_bytes_max.into();
        let (count, frames, long, what) = match block {
            QueuedBlock::Message { message, generation, pull, offset, bytes } => {
                let Some(sending) = self.messages.get(message, generation) else { return false };
                let count = bytes.div_ceil(u32::from(sending.fragment.max(1)));
                let what = What::Block { message, pull, offset, bytes };
                (count, sending.usual_frames, long(sending.fragment), what)
            }
            QueuedBlock::Region(block) => {
                let frames = |fragment: u16| (block.memory.bytes as u32).div_ceil(fragment.into());
                let usual = block.fragment.min(frame_bytes_max - HEADER_BYTES as u16);
                (frames(block.fragment), frames(usual), long(block.fragment), What::Region(block))
            }
        };
        let first = self.begin(peer, count, (paths.choose(frames, long), frames), what);
        let active = self.peers[peer].active.as_mut().expect("only active peers begin trains");
        (active.train_next, active.train_end) = (first, first.plus(count));
        true
    }

    /// Gives a record its sequence numbers.
    pub(super) fn begin(
        &mut self,
        peer: u32,
        count: u32,
        (path, usual_frames): (PathId, u32),
        what: What,
    ) -> Sequence {
        let entry = &mut self.peers[peer];
        let first = entry.next;
        entry.next = first.plus(count);
        let active = entry.active.as_mut().expect("only active peers begin trains");
        active.records.push_back(Record {
            first,
            count,
            sent: 0,
            acked: 0,
            path,
            usual_frames,
            what,
        });
        first
    }
}

/// Header and fields of the longest first frame that names memory.
const DIRECT_HEAD_BYTES: usize = HEADER_BYTES + TARGET_BYTES + LONG_BYTES + IMMEDIATE_BYTES;

impl SendMessage {
    /// One that was posted just now.
    #[inline]
    pub(super) fn new(peer: u32, work: Work, send: SendDescriptor, chain: Option<Chain>) -> Self {
        Self {
            peer,
            work,
            number: None,
            chain,
            unscheduled: 0,
            first_payload: 0,
            fragment: 0,
            usual_frames: 0,
            direct: false,
            stage: Stage::Queued,
            needs_done: false,
            done: None,
            completed: false,
            void: false,
            held: Held::No,
            descriptor: send,
        }
    }

    /// Bytes of payload that it has.
    pub(super) fn total(&self) -> u64 {
        match self.work {
            _ if self.void => 0,
            Work::Atomic { operation, datatype, count, .. } => {
                Atomic::payload_bytes(operation, Atomic::element_bytes((datatype, count)))
            }
            _ => self.descriptor.segments.bytes(),
        }
    }

    /// It is long enough to be read by its receiver, and where that can be said in one frame (`DIRECT-3`: whether the
    /// receiver can is asked elsewhere).
    fn may_be_read(&self, profile: &Profile, frame_bytes_max: u16) -> bool {
        let pieces = self.descriptor.segments.as_slice();
        self.total() > profile.direct_bytes
            && !self.void
            && self.chain.is_none()
            && matches!(self.work, Work::Message | Work::Put { .. })
            && pieces.len() <= PIECES_MAX
            && pieces.iter().all(|piece| piece.bytes > 0)
            && DIRECT_HEAD_BYTES + pieces_bytes(pieces.len()) <= usize::from(frame_bytes_max)
    }
}
