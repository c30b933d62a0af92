//! Posts: messages, one-sided operations, and the regions that these reach.
//!
//! A message that nothing stands before leaves within its post.

use core::hint::cold_path;

use emp_wire::{Epoch, HEADER_BYTES, NodeId};

use crate::descriptor::{CompletionMode, OpId, PostError, Posted, SendDescriptor};
use crate::engine::Firmware;
use crate::event::Limit;
use crate::memory::{HostMemory, Segment};
use crate::onesided::{AtomicDescriptor, GetDescriptor, PutDescriptor, RegionId, Rights};
use crate::pool::Chain;
use crate::send::{Outlet, Shape, Work};
use crate::stage::Stage;
use crate::time::Time;
use crate::transmit::{Exit, Leaving, TransmitBatch};

/// What is to be copied whatever else happens is no longer than may be, at any time.
#[inline(always)]
fn check_buffered(send: &SendDescriptor, bytes_max: usize) -> Result<(), PostError> {
    let long = send.segments.bytes() > bytes_max as u64;
    let must = matches!(send.completion, CompletionMode::Buffered);
    if must && long { Err(PostError::TooLong) } else { Ok(()) }
}

impl Firmware {
    /// Posts a message to send.
    pub fn post_send(
        &mut self,
        now: Time,
        send: SendDescriptor,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        self.post_send_into(now, send, memory, None, |_| now).map(|posted| posted.op)
    }

    /// The same. A message of one frame that nothing stands before is in the batch when `depart` is called, as if
    /// [`poll_transmit`](Self::poll_transmit) had put it there; what is in there must still be to be sent. `depart` may send it, leaves the batch
    /// as it is, and says what time it is: what is noted of the message takes the time in which it is under way. Its completion may come
    /// with the post. `last` is any earlier time: searches for paths depend on it, and nothing else.
    ///
    /// # Errors
    ///
    /// As for all posts; then nothing was added to the batch.
    #[inline]
    pub fn post_send_into(
        &mut self,
        last: Time,
        send: SendDescriptor,
        memory: &mut impl HostMemory,
        exit: Option<Exit<'_>>,
        depart: impl FnOnce(Option<Leaving<'_>>) -> Time,
    ) -> Result<Posted, PostError> {
        check_buffered(&send, self.buffered_bytes_max())?;
        let outer = memory.enter(Stage::SendBookkeeping);
        let posted = self.post(last, send, (Work::Message, None), memory, exit, depart);
        memory.leave(outer);
        posted
    }

    /// Posts a message, whatever it is to its receiver. What of it was copied before is in a chain.
    #[inline(always)]
    fn post(
        &mut self,
        last: Time,
        send: SendDescriptor,
        (work, chain): (Work, Option<Chain>),
        memory: &mut impl HostMemory,
        exit: Option<Exit<'_>>,
        depart: impl FnOnce(Option<Leaving<'_>>) -> Time,
    ) -> Result<Posted, PostError> {
        if let Some(Exit { batch, lends }) = exit
            && let Some(peer) = self.may_leave_at_once(&send, batch)
        {
            let Self { peers, send: sends, cross, receive, .. } = self;
            let planned = loop {
                let shape = Shape::new(work, &send, chain.as_ref());
                let planned = sends.plan_at_once(last, peer, shape, (peers, batch));
                // What came last may have made room for it; that is taken in once.
                if planned.is_some() || !sends.settle_acks(last) {
                    break planned;
                }
            };
            if let Some(at_once) = planned {
                let replies = Some(&mut receive.replies);
                let mut out = Outlet { peers, cross, replies, memory, batch };
                let depart = |batch: &TransmitBatch, lent| depart(Some(Leaving { batch, lent }));
                let at_once = (&at_once, lends);
                return sends.post_at_once(peer, send, (work, chain), at_once, &mut out, depart);
            }
        }
        cold_path();
        self.post_queued(depart(None), send, (work, chain), memory)
    }

    /// Posts a message to leave in its turn.
    fn post_queued(
        &mut self,
        now: Time,
        send: SendDescriptor,
        (work, chain): (Work, Option<Chain>),
        memory: &mut impl HostMemory,
    ) -> Result<Posted, PostError> {
        let peer = match self.destination(now, send.to, send.endpoint) {
            Ok(peer) => peer,
            Err(error) => return self.send.refuse(chain, error),
        };
        let posted = self.send.post(now, peer, send, (work, chain), memory);
        Ok(Posted { op: self.aloud(posted)?, over: None })
    }

    /// The peer of a message that may leave within its post as far as the node is concerned.
    #[inline(always)]
    fn may_leave_at_once(&mut self, send: &SendDescriptor, batch: &TransmitBatch) -> Option<u32> {
        let open = self.closing.is_none() && self.receive.is_open(send.endpoint);
        // An acknowledgement that is due leaves by itself, and before the message.
        if !open || batch.is_full() || self.receive.has_due_acks() || self.is_full_of_completions()
        {
            cold_path();
            return None;
        }
        let peer = self.peers.find(send.to)?;
        if self.receive.has_waiting_done(peer) {
            cold_path();
            return None;
        }
        Some(peer)
    }

    /// The peer that a post is for; it is looked for if it is not known.
    pub(crate) fn destination(
        &mut self,
        now: Time,
        to: NodeId,
        from_endpoint: u16,
    ) -> Result<u32, PostError> {
        if self.closing.is_some() {
            return Err(PostError::Closing);
        }
        if to == NodeId::ANY {
            return Err(PostError::NoDestination);
        }
        if !self.receive.is_open(from_endpoint) {
            return Err(PostError::NoEndpoint);
        }
        if self.is_full_of_completions() {
            return Err(PostError::Busy);
        }
        let peer = match self.peers.find(to) {
            Some(peer) => peer,
            None => self.add_peer(now, to).ok_or(PostError::TooManyPeers)?,
        };
        if !self.send.is_found(peer) && !self.routes.searches.begin(now, peer) {
            self.receive.reached.note(Limit::Searches);
            self.tell_limits();
            return Err(PostError::Busy);
        }
        // What waits for this post leaves right before it, in one link frame with it if that is short.
        if self.receive.release_done(peer) {
            self.relay(now);
        }
        Ok(peer)
    }

    /// Exports memory, so that other nodes may read and write it without this node's host having a part in it. `None` as
    /// key: one that is free is chosen. Notifications of puts whose endpoint is not open are for `endpoint`.
    ///
    /// Errors: [`PostError::KeyTaken`], [`PostError::TooManyRegions`], [`PostError::Closing`].
    pub fn export_region(
        &mut self,
        key: Option<u64>,
        memory: Segment,
        rights: Rights,
        endpoint: u16,
    ) -> Result<RegionId, PostError> {
        if self.closing.is_some() {
            return Err(PostError::Closing);
        }
        let exported = self.receive.regions.export(key, memory, rights, endpoint);
        if exported == Err(PostError::TooManyRegions) {
            self.receive.reached.note(Limit::Regions);
        }
        self.aloud(exported)
    }

    /// Has offsets in a region count from `base` instead of 0, as for a face whose peers name places by the addresses that
    /// they have in the owner's memory. To be called before peers know the key. False: there is no such region.
    pub fn set_region_base(&mut self, key: u64, base: u64) -> bool {
        self.receive.regions.set_base(key, base)
    }

    /// Takes a region back. What is under way in it ends with an error at its initiator. Once this returns, nothing is
    /// written to its memory any more (`REGION-3`), and nothing read but what frames in a batch name already: send or
    /// drop those before the memory goes away. False: there is no such region.
    pub fn remove_region(&mut self, now: Time, key: u64) -> bool {
        let removed = self.receive.remove_region(key);
        self.relay(now);
        removed
    }

    /// Posts a put. It is complete when the target has placed it.
    ///
    /// Errors: as [`post_send`](Self::post_send).
    pub fn post_put(
        &mut self,
        now: Time,
        put: PutDescriptor,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        self.post_put_into(now, put, memory, None, |_| now).map(|posted| posted.op)
    }

    /// The same; it may leave within its post as a [message](Self::post_send_into) may.
    pub fn post_put_into(
        &mut self,
        last: Time,
        put: PutDescriptor,
        memory: &mut impl HostMemory,
        exit: Option<Exit<'_>>,
        depart: impl FnOnce(Option<Leaving<'_>>) -> Time,
    ) -> Result<Posted, PostError> {
        let (send, work) = put.describe();
        check_buffered(&send, self.atomic_bytes_max())?;
        self.post(last, send, (work, None), memory, exit, depart)
    }

    /// Posts a get. It is complete when all bytes are here.
    ///
    /// Errors: as [`post_send`](Self::post_send).
    pub fn post_get(
        &mut self,
        now: Time,
        get: GetDescriptor,
        _memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        let peer = self.destination(now, get.target.to, get.endpoint)?;
        let known = self.peers[peer].remote_epoch != Epoch::UNKNOWN;
        let fragment = known.then(|| self.fragment_bytes(peer, get.segments.bytes()));
        self.receive.set_time(now);
        let op = self.receive.post_get(peer, get, fragment);
        let op = self.aloud(op)?;
        self.watch(now);
        self.relay(now);
        Ok(op)
    }

    /// Payload bytes of the frames in which a peer is asked for so many: none is longer than the MTU (`LONG-5`) of the path that this
    /// node would take for them, as its peer will.
    pub(crate) fn fragment_bytes(&self, peer: u32, bytes: u64) -> u16 {
        let paths = self.peers.paths(peer);
        let usual = u64::from(paths.usual_bytes()) - HEADER_BYTES as u64;
        let frames = u32::try_from(bytes.div_ceil(usual)).unwrap_or(u32::MAX);
        paths.bytes(paths.choose_for_get(frames)) - HEADER_BYTES as u16
    }

    /// Posts an atomic operation. It is complete when the target has executed it and the old values, if wanted, are here.
    ///
    /// Errors: as [`post_send`](Self::post_send); [`PostError::TooLong`] beyond
    /// [`atomic_bytes_max`](Self::atomic_bytes_max); [`PostError::PoolFull`]; [`PostError::Unsupported`].
    pub fn post_atomic(
        &mut self,
        now: Time,
        atomic: AtomicDescriptor,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        self.post_atomic_into(now, atomic, memory, None, |_| now).map(|posted| posted.op)
    }

    /// The same; it may leave within its post as a [message](Self::post_send_into) may.
    pub fn post_atomic_into(
        &mut self,
        last: Time,
        atomic: AtomicDescriptor,
        memory: &mut impl HostMemory,
        exit: Option<Exit<'_>>,
        depart: impl FnOnce(Option<Leaving<'_>>) -> Time,
    ) -> Result<Posted, PostError> {
        atomic.check(self.atomic_bytes_max() as u64)?;
        let fetch = match atomic.fetch_into.clone() {
            Some(into) => {
                let peer = self.destination(last, atomic.target.to, atomic.endpoint)?;
                let expected = self.receive.expect_values(peer, &atomic, into);
                Some(self.aloud(expected)?)
            }
            None => None,
        };
        let (send, work) = atomic.describe(fetch.map(|(_, name)| name));
        let peer = self.peers.peek(atomic.target.to);
        let gathered = self.send.gather(peer, &atomic, memory);
        let posted = self
            .aloud(gathered)
            .and_then(|chain| self.post(last, send, (work, Some(chain)), memory, exit, depart));
        let Some((op, _)) = fetch else { return posted };
        match posted {
            Ok(_) => self.watch(last),
            Err(_) => self.receive.forget_fetch(op),
        }
        posted.map(|_| Posted { op, over: None })
    }

    /// Most bytes of operands, with what to compare, that one atomic operation takes; of elements, for a read. A peer
    /// that takes smaller frames takes less: then the operation ends with [`Status::TooLong`](crate::Status::TooLong).
    pub fn atomic_bytes_max(&self) -> usize {
        usize::from(self.peers.lengths.usual()) - HEADER_BYTES - emp_wire::ATOMIC_BYTES
    }
}
