//! Posts to the firmware, with a slot for each.

use emp_firmware::{
    AtomicDescriptor, Exit, Firmware, GetDescriptor, Leaving, OpId, PostError, Posted,
    PutDescriptor, ReceiveDescriptor, Selector, SendDescriptor, Span, Time,
};
use emp_wire::NodeId;

use crate::flying::requests::{Begun, SlotKey, State};
use crate::machine::clock;
use crate::memory::process::ProcessMemory;
use crate::turn::core::Core;

/// Posts after which a caller that never waits makes a whole turn, so that acknowledgements reach its firmware. Not each
/// time: looking at a link without a mapped ring is a system call. Of the smallest messages a frame of MTU 1500 takes as many.
const POSTS_PER_TURN: u32 = 16;

/// Time since the last turn after which a post makes one: where calls are rare, what a turn costs does not show.
const POST_TURN_AFTER: Span = Span::us(20);

/// Of so many receives that are posted one after the other, the clock is read for one: reading it takes 16 ns of the 40 or so of
/// a post, and all that depends on it is when a caller that never waits makes a turn.
const RECEIVES_PER_READING: u32 = 4;

/// What may leave within its post.
pub(super) enum Departing {
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

/// A descriptor that a host posts.
pub(crate) trait Post {
    /// Posts it, and keeps a slot for the operation. Says as well at what time that was; the caller goes on with
    /// [`posted`](Core::posted). If it `departs`, what is small and has nothing in its way is with its link before anything else is done
    /// for it: what the program waits for first is that it arrives. With `more`, others follow at once.
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory::process`].
    unsafe fn post(
        self,
        core: &mut Core,
        state: State,
        leaving: (bool, bool),
    ) -> Result<(Begun, Time), PostError>;
}

/// The descriptors that may leave within their post.
macro_rules! departs {
    ($($descriptor:ty, $kind:ident;)*) => {$(
        impl Post for $descriptor {
            #[inline(always)]
            unsafe fn post(
                self,
                core: &mut Core,
                state: State,
                leaving: (bool, bool),
            ) -> Result<(Begun, Time), PostError> {
                // SAFETY: as the caller promises.
                let begun = unsafe { core.post_departing(Departing::$kind(self), state, leaving) }?;
                Ok((begun, core.last_post))
            }
        }
    )*};
}

departs! {
    SendDescriptor, Send;
    PutDescriptor, Put;
    AtomicDescriptor, Atomic;
}

impl Post for ReceiveDescriptor {
    #[inline(always)]
    unsafe fn post(
        mut self,
        core: &mut Core,
        state: State,
        _: (bool, bool),
    ) -> Result<(Begun, Time), PostError> {
        if core.away.is_some() {
            // SAFETY: as the caller promises.
            return unsafe { core.post_receive_away(self, None, state) };
        }
        let now = core.receive_post_time(&self.selector);
        let key = core.insert(state, |firmware, memory, context| {
            self.context = context;
            firmware.post_receive(now, self, memory)
        })?;
        Ok((Begun::Flying(key), now))
    }
}

/// A receive for several messages, until fewer bytes than this are free ([`Firmware::post_multi_receive`]).
pub(crate) struct MultiReceive(pub(crate) ReceiveDescriptor, pub(crate) u64);

impl Post for MultiReceive {
    unsafe fn post(
        self,
        core: &mut Core,
        state: State,
        _: (bool, bool),
    ) -> Result<(Begun, Time), PostError> {
        let Self(mut receive, least_free) = self;
        if core.away.is_some() {
            // SAFETY: as the caller promises.
            return unsafe { core.post_receive_away(receive, Some(least_free), state) };
        }
        let now = core.receive_post_time(&receive.selector);
        let key = core.insert(state, |firmware, memory, context| {
            receive.context = context;
            firmware.post_multi_receive(now, receive, least_free, memory)
        })?;
        Ok((Begun::Flying(key), now))
    }
}

impl Post for GetDescriptor {
    unsafe fn post(
        mut self,
        core: &mut Core,
        state: State,
        _: (bool, bool),
    ) -> Result<(Begun, Time), PostError> {
        if core.away.is_some() {
            // SAFETY: as the caller promises.
            return unsafe { core.post_get_away(self, state) };
        }
        let now = core.now();
        let key = core.insert(state, |firmware, memory, context| {
            self.context = context;
            firmware.post_get(now, self, memory)
        })?;
        Ok((Begun::Flying(key), now))
    }
}

impl Core {
    /// The time of a post. Those that others follow at once were posted at one time: the clock is read once for them.
    #[inline]
    pub(crate) fn post_time(&mut self, more: bool) -> Time {
        self.guessed = false;
        if !more || !self.outgoing.is_growing() {
            self.last_post = self.now();
        }
        self.last_post
    }

    /// The time of a post of a receive: of those that come one after the other, the clock is read for some. What is known of
    /// the time may be old, but nothing depends on it unless a message waits, something leaves ([`posted`](Self::posted)), or
    /// the receive is from one node only, which is watched from then on, unless others are already.
    #[inline]
    pub(crate) fn receive_post_time(&mut self, selector: &Selector) -> Time {
        let soon = self.posts_since_turn % RECEIVES_PER_READING != RECEIVES_PER_READING - 1;
        let directed = selector.from != NodeId::ANY;
        self.guessed = soon
            && self.firmware().is_some_and(|firmware| {
                !firmware.has_arrivals() && (!directed || firmware.is_watching())
            });
        if self.guessed { self.last_turn.max(self.last_post) } else { self.post_time(false) }
    }

    /// Posts by `post`, which is given the descriptor's context, and keeps a slot for the operation.
    #[inline]
    fn insert(
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

    /// Posts what may leave within its post; `last_post` is its time then.
    ///
    /// # Safety
    ///
    /// As for [`Post::post`].
    #[inline(always)]
    unsafe fn post_departing(
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
            // SAFETY: as the caller promises.
            return unsafe { self.post_away(posted, state, more) };
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

    /// After posts and other requests to the firmware: sends what is to be sent, takes what has ended at once.
    #[inline]
    pub(crate) fn posted(&mut self, now: Time) {
        self.posts_since_turn += 1;
        let late = now.since(self.last_turn) >= POST_TURN_AFTER;
        let whole = late || self.posts_since_turn >= POSTS_PER_TURN;
        let guessed = std::mem::take(&mut self.guessed);
        let leaves = |firmware: &Firmware| firmware.has_transmit(now);
        if guessed && !whole && self.outgoing.is_done() && !self.firmware().is_some_and(leaves) {
            self.timer_moved = true;
            return self.drain();
        }
        let now = if guessed { self.now() } else { now };
        if whole {
            self.dirty = true;
            self.turn(now);
        } else {
            self.transmit(now);
            self.drain();
        }
    }

    /// After a post that others follow at once: they leave together, with the last of them or with the next turn.
    #[inline]
    pub(crate) fn posted_with_more(&mut self, now: Time) {
        // Which makes a turn, too, if so many posts are due for one.
        if (self.posts_since_turn + 1).is_multiple_of(POSTS_PER_TURN) {
            return self.posted(now);
        }
        self.posts_since_turn += 1;
        self.dirty = true;
        self.timer_moved = true;
        self.drain();
    }

    /// As [`posted`](Self::posted), but leaves sending to whoever is making turns already.
    pub(crate) fn posted_for_others(&mut self) {
        self.guessed = false;
        self.dirty = true;
        self.timer_moved = true;
        self.drain();
    }
}
