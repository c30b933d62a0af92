//! Posts to the firmware, with a slot for each.

use emp_firmware::{
    AtomicDescriptor, Completion, Exit, Firmware, GetDescriptor, Leaving, OpId, OpKind, PostError,
    Posted, PutDescriptor, SendDescriptor, Time,
};

use crate::flying::queues::QueueKey;
use crate::flying::slots::{Begun, SlotKey, State};
use crate::machine::clock;
use crate::memory::process::ProcessMemory;
use crate::turn::core::Core;

/// What may leave within its post.
enum Departing {
    Send(SendDescriptor),
    Put(PutDescriptor),
    Atomic(AtomicDescriptor),
}

impl Departing {
    /// Bytes of payload.
    #[inline(always)]
    fn bytes(&self) -> u64 {
        match self {
            Self::Send(send) => send.segments.bytes(),
            Self::Put(put) => put.segments.bytes(),
            Self::Atomic(atomic) => atomic.operands.bytes(),
        }
    }

    /// It brings values back.
    #[inline(always)]
    fn fetches(&self) -> bool {
        matches!(self, Self::Atomic(AtomicDescriptor { fetch_into: Some(_), .. }))
    }

    /// As [`Firmware::post_send_into`], for an operation of this context.
    #[inline(always)]
    fn post_into(
        self,
        context: u64,
        firmware: &mut Firmware,
        last: Time,
        (memory, exit): (&mut ProcessMemory, Option<Exit<'_>>),
        depart: impl FnOnce(Option<Leaving<'_>>) -> Time,
    ) -> Result<Posted, PostError> {
        match self {
            Self::Send(send) => {
                let send = SendDescriptor { context, ..send };
                firmware.post_send_into(last, send, memory, exit, depart)
            }
            Self::Put(put) => {
                let put = PutDescriptor { context, ..put };
                firmware.post_put_into(last, put, memory, exit, depart)
            }
            Self::Atomic(atomic) => {
                let atomic = AtomicDescriptor { context, ..atomic };
                firmware.post_atomic_into(last, atomic, memory, exit, depart)
            }
        }
    }
}

impl Core {
    /// Posts by `post`, which is given the descriptor's context, and keeps a slot for the operation.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        state: State,
        post: impl FnOnce(&mut Firmware, &mut ProcessMemory, u64) -> Result<OpId, PostError>,
    ) -> Result<SlotKey, PostError> {
        let Some(firmware) = &mut self.firmware else { return Err(PostError::Closing) };
        if matches!(state, State::Raw { .. }) && self.queues.is_full() {
            return Err(PostError::Busy);
        }
        let memory = &mut self.memory;
        self.requests.insert(state, |context| post(firmware, memory, context))
    }

    /// Posts a send; `last_post` is its time then. The caller goes on with [`posted`](Self::posted). If `departs`, a
    /// small message for which nothing stands in the way is with its link before anything else is done for it: what the
    /// program waits for first is that it arrives.
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory`].
    #[inline]
    pub(crate) unsafe fn post_send(
        &mut self,
        send: SendDescriptor,
        state: State,
        (more, departs): (bool, bool),
    ) -> Result<Begun, PostError> {
        self.post_departing(Departing::Send(send), state, (more, departs))
    }

    /// Posts what may leave within its post.
    #[inline(always)]
    fn post_departing(
        &mut self,
        posted: Departing,
        state: State,
        (more, departs): (bool, bool),
    ) -> Result<Begun, PostError> {
        // A message of several frames is timed from here, by whatever path and in however many frames it leaves (`PATH-9`); of small ones
        // the reading takes the time in which they are under way.
        let single = self.firmware().map_or(0, Firmware::single_frame_bytes_max) as u64;
        // What waits for an answer begins now: the last turn may have been seconds ago.
        let timed = posted.bytes() > single || posted.fetches();
        let last = if timed { self.post_time(more) } else { self.last_turn.max(self.last_post) };
        let Self { firmware: Some(firmware), outgoing, memory, links, seldom, .. } = self else {
            return Err(PostError::Closing);
        };
        if matches!(state, State::Raw { .. }) && self.queues.is_full() {
            return Err(PostError::Busy);
        }
        let growing = outgoing.is_growing();
        // What a link did not take yet leaves first.
        let (exit, mut offers) = if outgoing.is_open() {
            let (batch, offers) = outgoing.parts();
            // Alone in its batch it is given to its link by itself.
            let lends = departs && batch.is_empty();
            (Some(Exit { batch, lends }), Some(offers))
        } else {
            (None, None)
        };
        let last_post = &mut self.last_post;
        let mut is_lent = false;
        self.guessed = false;
        let begun = self.requests.insert_unless_over(state, |context| {
            posted.post_into(context, firmware, last, (memory, exit), |leaving| {
                let left = leaving.zip(offers.as_deref_mut());
                if let Some((Leaving { batch, lent }, offers)) = left {
                    is_lent = lent;
                    if departs {
                        offers.depart(batch, lent, links);
                    } else {
                        offers.grown(batch);
                    }
                }
                if !timed && (!more || !growing) {
                    *last_post = clock::now();
                }
                if let (Some(seldom), Some(offers)) = (seldom, offers) {
                    seldom.sent(offers.used(seldom.links), *last_post);
                }
                *last_post
            })
        });
        if is_lent && self.outgoing.names_memory() {
            // Its link is full, and the memory is its owner's again.
            self.outgoing.keep_lent(&self.memory);
        }
        begun
    }

    /// The operation that was begun, for the raw API. If it is over, its completion is handed out with the context that its descriptor had.
    #[inline]
    pub(crate) fn raw_op(&mut self, begun: Begun, queue: QueueKey, context: u64) -> OpId {
        match begun {
            Begun::Flying(key) => self.requests.op(key),
            Begun::Over(completion) => {
                self.hand_raw(queue, context, &completion);
                completion.op
            }
        }
    }

    /// Posts a put as [`post_send`](Self::post_send) posts a send.
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory`].
    pub(crate) unsafe fn post_put(
        &mut self,
        put: PutDescriptor,
        state: State,
        departs: bool,
    ) -> Result<Begun, PostError> {
        self.post_departing(Departing::Put(put), state, (false, departs))
    }

    /// Posts a get. The caller goes on with [`posted`](Self::posted).
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory`].
    pub(crate) unsafe fn post_get(
        &mut self,
        now: Time,
        mut get: GetDescriptor,
        state: State,
    ) -> Result<SlotKey, PostError> {
        self.insert(state, |firmware, memory, context| {
            get.context = context;
            firmware.post_get(now, get, memory)
        })
    }

    /// Posts an atomic operation as [`post_send`](Self::post_send) posts a send.
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory`].
    pub(crate) unsafe fn post_atomic(
        &mut self,
        atomic: AtomicDescriptor,
        state: State,
        departs: bool,
    ) -> Result<Begun, PostError> {
        self.post_departing(Departing::Atomic(atomic), state, (false, departs))
    }

    /// Drops frames that are still to be sent and name host memory: the firmware resends what still matters.
    pub(crate) fn let_go_of_memory(&mut self) {
        if self.outgoing.names_memory() {
            self.outgoing.forget();
        }
    }

    /// A completion of nothing that this node's host has in flight: of a peer's doing, or of a send that had ended.
    pub(crate) fn notice(&mut self, completion: Completion) {
        debug_assert!(matches!(completion.op.kind(), OpKind::Notified | OpKind::Undelivered));
        let (number, kind) = (completion.context as u16, completion.op.kind());
        let Some(key) = self.queues.wanting_notices(number, kind) else {
            if kind == OpKind::Undelivered {
                self.losses.note(completion.peer, completion.status);
            }
            return;
        };
        if self.queues.push(key, completion.context, &completion) && kind == OpKind::Notified {
            // Peers are held back when the application does not look.
            if let Some(firmware) = &mut self.firmware {
                firmware.keep_notification();
            }
        }
        self.sleepers.raw(key);
    }
}
