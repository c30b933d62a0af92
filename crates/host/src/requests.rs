//! Operations in flight: what the host knows of each until its completion is handed out.
//!
//! An operation's slot is found by its descriptor's context, so that a completion needs no search. Slots are reused:
//! once the slab has grown to what is outstanding at a time, posting allocates nothing.

use emp_firmware::{Completion, OpId, OpKind, PostError, Posted, Status};
use emp_wire::NodeId;
use slab::Slab;

use crate::queues::QueueKey;

/// A slot: the context of the descriptor as the firmware sees it.
pub(crate) type SlotKey = usize;

/// Anything whose drop releases memory.
pub(crate) type Buried = Box<dyn Send>;

/// What is to happen when the operation ends.
pub(crate) enum State {
    /// A request waits for it.
    InFlight,
    /// It has ended; the request has not asked yet.
    Done(Completion),
    /// Its request was dropped; this owns its buffer.
    Orphan(Buried),
    /// It belongs to the raw API: the completion goes to the endpoint's queue, with this context.
    Raw { queue: QueueKey, context: u64 },
}

/// A post that was accepted.
pub(crate) enum Begun {
    /// Its slot.
    Flying(SlotKey),
    /// It was over at once and has none.
    Over(Completion),
}

struct Slot {
    op: OpId,
    state: State,
}

/// What a completion ended.
pub(crate) enum Ended {
    /// A request of the safe API.
    Request(SlotKey),
    /// An operation of the raw API.
    Raw(QueueKey, Completion),
    /// An operation whose request is gone: its buffer.
    Orphan(Buried),
    /// Nothing that is in flight. The firmware completes each operation once, so this does not occur; the check keeps a
    /// mistake there from freeing another request's buffer.
    Unknown,
}

/// The slots.
#[derive(Default)]
pub(crate) struct Requests {
    slots: Slab<Slot>,
}

impl Requests {
    /// Posts by `post`, which is given the context to use, and keeps a slot for the operation if that goes well.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        state: State,
        post: impl FnOnce(u64) -> Result<OpId, PostError>,
    ) -> Result<SlotKey, PostError> {
        let slot = self.slots.vacant_entry();
        let key = slot.key();
        let op = post(key as u64)?;
        slot.insert(Slot { op, state });
        Ok(key)
    }

    /// As [`insert`](Self::insert), but what was over at once gets no slot. Its context means nothing.
    #[inline]
    pub(crate) fn insert_unless_over(
        &mut self,
        state: State,
        post: impl FnOnce(u64) -> Result<Posted, PostError>,
    ) -> Result<Begun, PostError> {
        let slot = self.slots.vacant_entry();
        let key = slot.key();
        let posted = post(key as u64)?;
        if let Some(completion) = posted.over {
            return Ok(Begun::Over(completion));
        }
        slot.insert(Slot { op: posted.op, state });
        Ok(Begun::Flying(key))
    }

    /// The operation of a slot.
    pub(crate) fn op(&self, key: SlotKey) -> OpId {
        self.slots[key].op
    }

    /// Notes a completion.
    #[inline]
    pub(crate) fn end(&mut self, mut completion: Completion) -> Ended {
        let key = completion.context as usize;
        let Some(slot) = self.slots.get_mut(key) else { return Ended::Unknown };
        if slot.op != completion.op {
            return Ended::Unknown;
        }
        match slot.state {
            State::Done(_) => return Ended::Unknown,
            State::InFlight => {
                completion.context = 0;
                slot.state = State::Done(completion);
                return Ended::Request(key);
            }
            State::Orphan(_) | State::Raw { .. } => {}
        }
        match self.slots.remove(key).state {
            State::Raw { queue, context } => {
                completion.context = context;
                Ended::Raw(queue, completion)
            }
            State::Orphan(buffer) => Ended::Orphan(buffer),
            State::InFlight | State::Done(_) => unreachable!("seen above"),
        }
    }

    /// The completion of a request, if it has ended; its slot is free then.
    #[inline]
    pub(crate) fn take_done(&mut self, key: SlotKey) -> Option<Completion> {
        let State::Done(completion) = self.slots.get(key)?.state else { return None };
        self.slots.remove(key);
        Some(completion)
    }

    /// Leaves an operation in flight alone with its buffer. If it has ended, the buffer comes back.
    pub(crate) fn orphan(&mut self, key: SlotKey, buffer: Buried) -> Result<OpId, Buried> {
        if self.take_done(key).is_some() {
            return Err(buffer);
        }
        match self.slots.get_mut(key) {
            Some(slot) => {
                slot.state = State::Orphan(buffer);
                Ok(slot.op)
            }
            None => Err(buffer),
        }
    }

    /// Completions for all operations in flight, for when the firmware is gone.
    pub(crate) fn in_flight(&self, status: Status) -> Vec<Completion> {
        let slots = self.slots.iter().filter(|(_, slot)| !matches!(slot.state, State::Done(_)));
        let completion = |(key, slot): (usize, &Slot)| Completion {
            op: slot.op,
            context: key as u64,
            status,
            bytes: 0,
            total_bytes: 0,
            peer: NodeId::ANY,
            peer_endpoint: 0,
            match_bits: 0,
            immediate: None,
        };
        slots.map(completion).collect()
    }

    /// Operations in flight, of one kind.
    pub(crate) fn flying(&self, kind: OpKind) -> usize {
        let flying = |slot: &Slot| !matches!(slot.state, State::Done(_)) && slot.op.kind() == kind;
        self.slots.iter().filter(|(_, slot)| flying(slot)).count()
    }

    /// Operations in flight or ended and not asked for, of one kind.
    pub(crate) fn count(&self, kind: OpKind) -> usize {
        self.slots.iter().filter(|(_, slot)| slot.op.kind() == kind).count()
    }
}
