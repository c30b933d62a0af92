//! Send bookkeeping (I1): a posted descriptor becomes a message in a peer's queue; its turn come, a train of frames.

use core::hint::cold_path;

use emp_wire::{HEADER_BYTES, Sequence, TRAIN_FRAMES_MAX};

use super::active::Active;
use super::build::First;
use super::leaving::Leaving;
use super::plan::{AtOnce, Plan, Shape};
use super::record::{Record, What};
use super::transmission::Outlet;
use super::{SendMessage, SendPeer, SendSide, State, Work};
use crate::counters::Counter;
use crate::cross::Control;
use crate::descriptor::{CompletionMode, OpId, OpKind, PostError, Posted, SendDescriptor, Status};
use crate::encode::EncodeError;
use crate::event::Limit;
use crate::limits::{BLOCKS_QUEUED_MAX, NAME_INDEX_BITS, OPERATIONS_MAX};
use crate::memory::HostMemory;
use crate::path::{PathId, Paths};
use crate::pool::Chain;
use crate::stage::Stage;
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Bytes from which on the payload of a message that leaves at once is not copied next to its header: what that saves is then more than what
/// one more piece of memory costs the kernel, and summing while copying gains.
const LENT_BYTES_MIN: u64 = 4096;

pub(super) const fn op_id(kind: OpKind, index: u32, generation: u32) -> OpId {
    OpId::new(kind, index, generation)
}

/// The name of a message in pulls and dones: index and part of the generation.
pub(super) const fn handle(index: u32, generation: u32) -> u32 {
    generation << NAME_INDEX_BITS | index & (OPERATIONS_MAX as u32 - 1)
}

/// Why a message is refused whose frame could not be built.
const fn refusal(error: EncodeError) -> PostError {
    match error {
        EncodeError::Full => PostError::Busy,
        EncodeError::Unsendable => PostError::TooLong,
        EncodeError::Fault => PostError::MemoryFault,
    }
}

impl SendSide {
    /// Queues a message, to be sent in its turn. What of it was copied before is in a chain.
    pub(crate) fn post(
        &mut self,
        now: Time,
        peer: u32,
        send: SendDescriptor,
        (work, chain): (Work, Option<Chain>),
        memory: &impl HostMemory,
    ) -> Result<OpId, PostError> {
        if self.messages.is_full() {
            self.reached.note(Limit::Sends);
            let removed = self.messages.last_removed();
            let stuck = self.posting.is_stuck(now, removed, self.profile.unreachable_after);
            return self.refuse(chain, if stuck { PostError::Exhausted } else { PostError::Busy });
        }
        let chain = match chain {
            None => self.buffer(peer, &send, memory)?,
            copied => copied,
        };
        self.activate(peer, now);
        self.charge(peer, chain.as_ref());
        let message = SendMessage::new(peer, work, send, chain);
        // A synchronous message is complete when it is matched, a put when it is placed, wherever its bytes are.
        let over = message.is_told() && !work.ends_elsewhere();
        let (index, generation) = self.messages.insert(message).ok_or(PostError::Busy)?;
        let entry = self.activate(peer, now);
        entry.active_mut().pending.push_back(index);
        if entry.is_found() {
            self.mark_ready(peer);
        }
        let op = op_id(work.kind(), index, generation);
        if let Some(message) = self.messages.at(index).filter(|_| over) {
            self.completions.push_back(message.completion(op, Status::Ok));
        }
        Ok(op)
    }

    /// A message is not posted: what was copied of it is forgotten.
    pub(crate) fn refuse<T>(
        &mut self,
        chain: Option<Chain>,
        error: PostError,
    ) -> Result<T, PostError> {
        chain.into_iter().for_each(|chain| self.pool.free(chain));
        Err(error)
    }

    /// Posts a message that leaves at once, as planned: its frame is added to the batch like any other's. Then `depart` is called, which
    /// may send it and says what time it is; what is to be noted is noted while it is under way. With `lends` its frame may name memory
    /// that is its owner's again with the post, and must be gone or taken in when that is done.
    #[inline(always)]
    pub(crate) fn post_at_once(
        &mut self,
        peer: u32,
        send: SendDescriptor,
        (work, chain): (Work, Option<Chain>),
        (at_once, lends): (&AtOnce<'_>, bool),
        out: &mut Outlet<'_, impl HostMemory>,
        depart: impl FnOnce(&TransmitBatch, bool) -> Time,
    ) -> Result<Posted, PostError> {
        let AtOnce { plan, hop, load, copied, window } = *at_once;
        let (path, long) = (plan.path, load.long);
        let (index, generation) = self.messages.next_name().ok_or(PostError::Busy)?;
        let entry = &self.peers[peer];
        let (sequence, number) = (entry.next, entry.next_number);
        let over = copied && matches!(work, Work::Message);
        // In one piece of memory, and long: then it pays to name it.
        let named = long && (lends || !copied) && send.segments.as_slice().len() == 1;
        let leaving = Leaving {
            first: sequence,
            frames: 1,
            path,
            hop: Some(hop),
            load,
            window,
            last: true,
            // What the target answers brings the acknowledgement with it.
            requests: !copied && matches!(work, Work::Message),
            inline_bytes: if named { LENT_BYTES_MIN } else { u64::MAX },
            bundles: self.profile.bundles,
            // It was cut for its path: nothing of it leaves in slices.
            room: plan.cut.fragment + HEADER_BYTES as u16,
            long,
        };
        let shape = Shape::new(work, &send, chain.as_ref());
        let mut first = First { shape, plan, handle: handle(index, generation), number };
        let line = self.line(out.peers, peer, &leaving);
        let debt = out.cross.acks[peer].debt();
        let outer = out.memory.enter(Stage::Transmission);
        let emitted = self.emit(peer, (&leaving, 0), (&line, debt, &mut first), out);
        out.memory.leave(outer);
        let (bytes, requested) = match emitted {
            Ok(built) => built,
            Err(error) => {
                cold_path();
                return self.refuse(chain, refusal(error));
            }
        };
        let now = depart(out.batch, lends && copied);

        self.counters.add(Counter::BytesCopied, bytes);
        let inline = bytes == send.segments.bytes();
        let op = op_id(work.kind(), index, generation);
        let state = if shape.needs_done(&plan) { State::AwaitingBoth } else { State::Sending };
        let chain = if copied { Some(self.copy_of_left(&send, inline, out)) } else { chain };
        self.activate(peer, now);
        self.charge(peer, chain.as_ref());
        let (place, ..) = self.messages.take_place().ok_or(PostError::Busy)?;
        let message = place.get_or_insert_with(|| SendMessage {
            descriptor: send,
            work,
            peer,
            number: Some(number),
            chain,
            plan,
            state,
            is_done: false,
        });
        let over = over.then(|| message.completion(op, Status::Ok));
        // Behind the message, whose place is named in its frame, and before its frame, which may be the only one under way.
        self.settle_ack_beside(now, peer);
        let entry = self.activate(peer, now);
        entry.next_number = number.wrapping_add(1);
        let what = What::Message { message: index, number };
        entry.open_train(1, (path, plan.usual_frames), what);
        let resent = entry.note_left(now, &leaving, (0, requested));
        self.carried(now, &out.cross.acks[peer], debt);
        self.on_sent(&leaving, (1, resent));
        if long {
            self.arm(peer, now);
        } else {
            self.arm_later(peer, now);
        }
        Ok(Posted { op, over })
    }

    /// A copy of what has just left, and may have to be sent again: from the batch, if it is `inline` there. There is room for it.
    #[inline(always)]
    fn copy_of_left(
        &mut self,
        send: &SendDescriptor,
        inline: bool,
        out: &Outlet<'_, impl HostMemory>,
    ) -> Chain {
        let list = &send.segments;
        let bytes = list.bytes() as usize;
        let chain = self.pool.alloc(bytes).expect("it was planned so");
        if inline {
            self.pool.write(&chain, 0, out.batch.last_bytes(bytes));
        } else {
            let read = |at: usize, slice: &mut [u8]| list.read(out.memory, at as u64, slice);
            self.pool.fill(&chain, bytes, read).expect("memory that lends has no faults");
        }
        self.counters.add(Counter::BytesCopied, bytes as u64);
        chain
    }

    /// Copies a message that completes at once into the pool. `None`: it stays in the user's memory.
    fn buffer(
        &mut self,
        peer: u32,
        send: &SendDescriptor,
        memory: &impl HostMemory,
    ) -> Result<Option<Chain>, PostError> {
        if !self.is_over_when_copied(peer, send) {
            return Ok(None);
        }
        let must = send.completion == CompletionMode::Buffered;
        match self.copy(Some(peer), &[&send.segments], memory) {
            Err(PostError::PoolFull) if !must => Ok(None),
            copied => self.said_if_full(copied).map(Some),
        }
    }

    /// Cancels a message that has not left. One that left once may have arrived, even if the peer had no room for a copy.
    pub(crate) fn cancel(&mut self, op: OpId) -> bool {
        let Some(message) = self.messages.get(op.index(), op.generation()) else { return false };
        if message.is_told() || message.number.is_some() {
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

    /// Whom a message, put or atomic goes to that has not ended.
    pub(crate) fn sent_to(&self, op: OpId) -> Option<u32> {
        let message = self.messages.get(op.index(), op.generation())?;
        (!message.is_told()).then_some(message.peer)
    }

    /// Ends a message that has a number: the receiver still has to be told to count it (`MSG-5`).
    pub(super) fn void(&mut self, index: u32, status: Status) {
        self.report(index, status);
        if let Some(message) = self.messages.at_mut(index) {
            message.state = State::Void;
            if let Some(chain) = message.chain.take() {
                let peer = message.peer;
                self.give_back(peer, chain);
            }
        }
    }

    /// Queues a control frame for a peer.
    pub(crate) fn control(&mut self, now: Time, peer: u32, control: Control) {
        let left = self.profile.controls_max().saturating_sub(self.controls);
        let active = self.activate(peer, now).active_mut();
        if active.controls.len() < left {
            active.controls.push_back(control);
            self.controls += 1;
        } else {
            self.replied.extend(control.values());
        }
        if self.peers[peer].is_found() {
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
        let Some(index) = self.by_handle(peer, handle) else {
            self.counters.count(Counter::DropBadHandle);
            return;
        };
        // A pull of a message that we sent whole: the peer had no room for it, and the `not-ready` that said so was lost.
        self.held(peer, index, State::Held);
        let Some(message) = self.messages.at(index) else { return };
        let inside = offset
            .checked_add(u64::from(bytes))
            .is_some_and(|end| end <= message.descriptor.segments.bytes());
        let fragment = message.plan.cut.fragment;
        let frames = u64::from(bytes).div_ceil(u64::from(fragment.max(1)));
        if !inside || !message.needs_done() || frames > u64::from(TRAIN_FRAMES_MAX) {
            self.counters.count(Counter::DropBadPlace);
            return;
        }
        let active = self.activate(peer, now).active_mut();
        if active.blocks.len() >= BLOCKS_QUEUED_MAX {
            self.counters.count(Counter::DropBadPlace);
            return;
        }
        active.blocks.push_back(What::Block { message: index, pull, offset, bytes, fragment });
        self.mark_ready(peer);
    }

    /// The message of this handle, if it goes to this peer.
    pub(super) fn by_handle(&self, peer: u32, handle: u32) -> Option<u32> {
        let index = handle & (OPERATIONS_MAX as u32 - 1);
        let named = self::handle(index, self.messages.generation(index)) == handle;
        let message = self.messages.at(index)?;
        (named && message.peer == peer && message.number.is_some()).then_some(index)
    }

    /// Begins the train of a message whose turn has come.
    pub(super) fn begin_message(
        &mut self,
        peer: u32,
        index: u32,
        granted: u64,
        reads: impl Fn() -> bool,
        paths: &Paths,
    ) {
        let plan = |sends: &Self| {
            let message = sends.messages.at(index).filter(|message| message.peer == peer)?;
            let receiver = (granted, message.cut_before());
            let wide = |path| {
                let hop = paths.hop(path);
                sends.is_wide(&sends.peers[peer], path, hop)
            };
            Some(message.shape().plan(&sends.profile, receiver, (&reads, wide), paths))
        };
        let Some(mut planned) = plan(self) else { return };
        let is_atomic = |message: &SendMessage| matches!(message.work, Work::Atomic { .. });
        if planned.cut.frames > 1 && self.messages.at(index).is_some_and(is_atomic) {
            // It fits one of our frames, but not one of the peer's: only its number is still needed.
            self.unsent(index);
            let Some(void) = plan(self) else { return };
            planned = void;
        }
        self.begin(peer, index, planned);
    }

    /// Begins a message's train as planned: it gets its number (`MSG-3`), its cut into frames, and its sequence numbers.
    fn begin(&mut self, peer: u32, index: u32, plan: Plan) {
        let entry = &mut self.peers[peer];
        let message = self.messages.at_mut(index).expect("it was planned");
        let number = *message.number.get_or_insert_with(|| {
            let number = entry.next_number;
            entry.next_number = number.wrapping_add(1);
            number
        });
        message.plan = plan;
        if message.state != State::Void {
            message.state = match (message.shape().needs_done(&plan), message.is_done) {
                (false, _) => State::Sending,
                (true, false) => State::AwaitingBoth,
                (true, true) => State::AwaitingAck,
            };
        }
        let what = What::Message { message: index, number };
        entry.open_train(plan.cut.frames, (plan.path, plan.usual_frames), what);
    }

    /// Begins a block's train. False: its message is gone.
    /// `lane`: the path that it is to take, if that was chosen before.
    pub(super) fn begin_block(
        &mut self,
        peer: u32,
        what: What,
        lane: Option<PathId>,
        paths: &Paths,
    ) -> bool {
        let message = what.message().and_then(|index| self.messages.at(index));
        let message = message.filter(|message| message.peer == peer);
        let Some(block) = what.piece(0, message) else { return false };
        let frames = |fragment: u16| block.left.div_ceil(fragment.max(1).into()) as u32;
        let usual = block.fragment.min(paths.usual_bytes() - HEADER_BYTES as u16);
        let usual = message.map_or_else(|| frames(usual), |message| message.plan.usual_frames);
        let path = lane.unwrap_or_else(|| {
            paths.choose_for_cut(usual, block.bytes() as u32 + HEADER_BYTES as u32)
        });
        let (what, fragment) = match self.cut_anew(peer, what, path, paths) {
            Some(cut) => cut,
            None => (what, block.fragment),
        };
        self.peers[peer].open_train(frames(fragment), (path, usual), what);
        true
    }
}

impl SendPeer {
    /// What is kept while something is under way, which is.
    #[inline(always)]
    pub(super) fn active_mut(&mut self) -> &mut Active {
        self.active.as_deref_mut().expect("something is under way")
    }

    /// Opens the record of a train, whose frames leave from now on.
    #[inline(always)]
    fn open_train(&mut self, count: u32, path: (PathId, u32), what: What) {
        let first = self.open(count, path, what);
        let active = self.active_mut();
        (active.train_next, active.train_end) = (first, first.plus(count));
    }

    /// Opens the record of a frame of no train, which is the next to leave.
    pub(super) fn open_alone(&mut self, path: PathId, what: What) -> Sequence {
        let sequence = self.open(1, (path, 1), what);
        self.active_mut().alone = Some(sequence);
        sequence
    }

    /// Gives a record its place and its sequence numbers, of which it returns the first.
    #[inline(always)]
    fn open(&mut self, count: u32, (path, usual_frames): (PathId, u32), what: What) -> Sequence {
        let first = self.next;
        self.next = first.plus(count);
        let record = Record { first, count, acked: 0, path, usual_frames, what };
        self.active_mut().records.push_back(record);
        first
    }
}

impl SendMessage {
    /// One that was posted just now.
    #[inline]
    pub(super) fn new(peer: u32, work: Work, send: SendDescriptor, chain: Option<Chain>) -> Self {
        Self {
            peer,
            work,
            number: None,
            chain,
            plan: Plan::default(),
            state: State::Queued,
            is_done: false,
            descriptor: send,
        }
    }
}
