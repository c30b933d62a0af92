//! Operations in flight: what the host knows of each until its completion is handed out.
//!
//! An operation's slot is found by its descriptor's context, so that a completion needs no search. Slots are reused:
//! once the slab has grown to what is outstanding at a time, posting allocates nothing.

use emp_firmware::{Completion, OpId, OpKind, PostError, Posted, Status};

use crate::flying::queues::QueueKey;

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
    /// `None`: the slot is free.
    state: Option<State>,
}

/// What a completion ended.
pub(crate) enum Ended {
    /// A request of the safe API.
    Request(SlotKey),
    /// An operation of the raw API: its queue and context.
    Raw(QueueKey, u64),
    /// An operation whose request is gone: its buffer.
    Orphan(Buried),
    /// Nothing that is in flight. The firmware completes each operation once, so this does not occur; the check keeps a
    /// mistake there from freeing another request's buffer.
    Unknown,
}

/// The slots.
#[derive(Default)]
pub(crate) struct Requests {
    /// Written where they lie: what is made elsewhere and copied at once waits for the first stores (one in a dozen
    /// nanoseconds of a post).
    slots: Vec<Slot>,
    /// Free slots: the last freed is the first used, as it is in the cache.
    free: Vec<SlotKey>,
}

impl Requests {
    /// A slot for what is being posted.
    #[inline]
    fn vacant(&self) -> SlotKey {
        self.free.last().copied().unwrap_or(self.slots.len())
    }

    /// Fills the slot that is [`vacant`](Self::vacant).
    #[inline]
    fn fill(&mut self, op: OpId, state: State) {
        match self.free.pop() {
            Some(key) => {
                let slot = &mut self.slots[key];
                (slot.op, slot.state) = (op, Some(state));
            }
            None => self.slots.push(Slot { op, state: Some(state) }),
        }
    }

    /// Frees a slot.
    #[inline]
    fn remove(&mut self, key: SlotKey) -> Option<State> {
        let state = self.slots.get_mut(key)?.state.take()?;
        self.free.push(key);
        Some(state)
    }

    fn used(&self) -> impl Iterator<Item = (SlotKey, OpId, &State)> {
        let slots = self.slots.iter().enumerate();
        slots.filter_map(|(key, slot)| Some((key, slot.op, slot.state.as_ref()?)))
    }

    /// Posts by `post`, which is given the context to use, and keeps a slot for the operation if that goes well.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        state: State,
        post: impl FnOnce(u64) -> Result<OpId, PostError>,
    ) -> Result<SlotKey, PostError> {
        let key = self.vacant();
        let op = post(key as u64)?;
        self.fill(op, state);
        Ok(key)
    }

    /// As [`insert`](Self::insert), but what was over at once gets no slot. Its context means nothing.
    #[inline]
    pub(crate) fn insert_unless_over(
        &mut self,
        state: State,
        post: impl FnOnce(u64) -> Result<Posted, PostError>,
    ) -> Result<Begun, PostError> {
        let key = self.vacant();
        let posted = post(key as u64)?;
        if let Some(completion) = posted.over {
            return Ok(Begun::Over(completion));
        }
        self.fill(posted.op, state);
        Ok(Begun::Flying(key))
    }

    /// The operation of a slot.
    pub(crate) fn op(&self, key: SlotKey) -> OpId {
        self.slots[key].op
    }

    /// Notes a completion if it is of a request in flight that can get its result at once.
    #[inline]
    pub(crate) fn end_flying(&mut self, completion: &Completion) -> Option<SlotKey> {
        let key = completion.context as usize;
        let slot = self.slots.get_mut(key)?;
        let its = slot.op == completion.op && matches!(slot.state, Some(State::InFlight));
        its.then(|| {
            slot.state = Some(State::Done(*completion));
            key
        })
    }

    /// Notes a completion if it is of an operation of the raw API. Returns the queue to which it goes, and its context there.
    #[inline]
    pub(crate) fn end_raw(&mut self, completion: &Completion) -> Option<(QueueKey, u64)> {
        let key = completion.context as usize;
        let slot = self.slots.get_mut(key).filter(|slot| slot.op == completion.op)?;
        let Some(State::Raw { queue, context }) = slot.state else { return None };
        if !completion.place.is_more() {
            slot.state = None;
            self.free.push(key);
        }
        Some((queue, context))
    }

    /// Notes a completion. That of a request keeps the slot's key as its context, which means nothing to its owner.
    #[inline]
    pub(crate) fn end(&mut self, completion: &Completion) -> Ended {
        let key = completion.context as usize;
        let Some(slot) = self.slots.get_mut(key) else { return Ended::Unknown };
        if slot.op != completion.op {
            return Ended::Unknown;
        }
        match slot.state {
            None | Some(State::Done(_)) => return Ended::Unknown,
            Some(State::Raw { queue, context }) if completion.place.is_more() => {
                return Ended::Raw(queue, context);
            }
            Some(State::InFlight) => {
                slot.state = Some(State::Done(*completion));
                return Ended::Request(key);
            }
            Some(State::Orphan(_) | State::Raw { .. }) => {}
        }
        match self.remove(key) {
            Some(State::Raw { queue, context }) => Ended::Raw(queue, context),
            Some(State::Orphan(buffer)) => Ended::Orphan(buffer),
            None | Some(State::InFlight | State::Done(_)) => unreachable!("seen above"),
        }
    }

    /// The completion of a request, if it has ended; its slot is free then.
    #[inline]
    pub(crate) fn take_done(&mut self, key: SlotKey) -> Option<Completion> {
        let slot = self.slots.get_mut(key)?;
        let Some(State::Done(completion)) = slot.state else { return None };
        slot.state = None;
        self.free.push(key);
        Some(completion)
    }

    /// Leaves an operation in flight alone with its buffer. If it has ended, the buffer comes back.
    pub(crate) fn orphan(&mut self, key: SlotKey, buffer: Buried) -> Result<OpId, Buried> {
        if self.take_done(key).is_some() {
            return Err(buffer);
        }
        match self.slots.get_mut(key) {
            Some(slot) if slot.state.is_some() => {
                slot.state = Some(State::Orphan(buffer));
                Ok(slot.op)
            }
            _ => Err(buffer),
        }
    }

    /// Completions for all operations in flight, for when the firmware is gone.
    pub(crate) fn in_flight(&self, status: Status) -> Vec<Completion> {
        let slots = self.used().filter(|(_, _, state)| !matches!(state, State::Done(_)));
        slots.map(|(key, op, _)| Completion::unmatched(op, key as u64, status)).collect()
    }

    /// Operations in flight, of one kind.
    pub(crate) fn flying(&self, kind: OpKind) -> usize {
        let flying =
            |op: OpId, state: &State| !matches!(state, State::Done(_)) && op.kind() == kind;
        self.used().filter(|(_, op, state)| flying(*op, state)).count()
    }

    /// Operations in flight or ended and not asked for, of one kind.
    pub(crate) fn count(&self, kind: OpKind) -> usize {
        self.used().filter(|(_, op, _)| op.kind() == kind).count()
    }
}
