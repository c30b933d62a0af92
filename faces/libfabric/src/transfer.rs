//! Posting: what all the send and receive functions come down to.

use std::sync::atomic::Ordering;

use emp_host::{
    ClaimId, NodeId, PostError, RawSend, ReceiveDescriptor, Segment, SegmentList, Selector,
    SendDescriptor,
};

use crate::bindings::*;
use crate::ended::{end_send, found, hand_over, nothing};
use crate::endpoint::{Enabled, EpInner, State, tagged_number, untagged_number};
use crate::flags::{Caps, OpFlags};
use crate::info::IOV_LIMIT;
use crate::lend::{is_refused, lend};
use crate::objects::aloud;
use crate::operations::{Kind, Operation};
use crate::status::refusal;

pub const EAGAIN: isize = -(libc::EAGAIN as isize);
pub const EINVAL: isize = -(libc::EINVAL as isize);

/// Operations of one endpoint that may be outstanding: as many sends and receives as a node may have.
const OUTSTANDING_MAX: usize = 2 * emp_host::limits::OPERATIONS_MAX;

/// So many may be outstanding of an application that posts and never looks; beyond it posts look how others have ended, one in so many.
const UNSEEN_MAX: usize = 64 << 10;
const POSTS_PER_LOOK: usize = 1 << 10;

/// What operations return that come before [`EpInner::enable`].
#[cold]
pub fn not_enabled() -> isize {
    aloud("an endpoint is not enabled", -error::OPBADSTATE) as isize
}

/// A message to be sent.
pub struct Send<'a> {
    pub tagged: bool,
    pub parts: &'a [iovec],
    pub to: FiAddr,
    pub tag: u64,
    pub data: Option<u64>,
    pub context: usize,
    /// Flags of this call; `None`: those of the endpoint.
    pub flags: Option<OpFlags>,
    /// An inject: the buffer is free at once and nothing is told.
    pub nameless: bool,
}

/// A receive.
pub struct Receive<'a> {
    pub tagged: bool,
    pub parts: &'a [iovec],
    pub from: FiAddr,
    pub tag: u64,
    pub ignore: u64,
    pub context: usize,
    pub flags: Option<OpFlags>,
}

impl Receive<'_> {
    #[inline(always)]
    fn operation(&self, kind: Kind, report: bool) -> Operation {
        Operation {
            kind,
            raw: None,
            tagged: self.tagged,
            report,
            nameless: false,
            context: self.context,
            buffer: self.parts.first().map_or(0, |part| part.iov_base.expose_provenance()),
            tag: self.tag,
        }
    }
}

/// A part as a segment, or `None` if it has bytes and no address (Open MPI 4.1.4 sends from `MPI_BOTTOM` so), or goes on
/// behind the end of all addresses.
#[inline]
pub fn segment(part: &iovec) -> Option<Segment> {
    let address = part.iov_base.expose_provenance() as u64;
    let bytes = part.iov_len as u64;
    let somewhere = (address != 0 || bytes == 0) && address.checked_add(bytes).is_some();
    somewhere.then_some(Segment { address, bytes })
}

/// The list of segments, or `None` if it is too long or one of them is nowhere.
#[inline(always)]
pub fn segments(parts: &[iovec]) -> Option<SegmentList> {
    match parts {
        [one] => segment(one).map(SegmentList::one),
        several => segments_of_several(several),
    }
}

fn segments_of_several(parts: &[iovec]) -> Option<SegmentList> {
    let mut list = [Segment::default(); IOV_LIMIT];
    let list = list.get_mut(..parts.len())?;
    for (place, part) in list.iter_mut().zip(parts) {
        *place = segment(part)?;
    }
    SegmentList::new(list).ok()
}

impl EpInner {
    /// True if the endpoint was not opened for this.
    #[inline]
    fn lacks(&self, tagged: bool, direction: Caps) -> bool {
        !self.caps.has(direction.with(if tagged { Caps::TAGGED } else { Caps::MSG }))
    }

    /// Posts a send.
    ///
    /// # Safety
    ///
    /// libfabric's rules: the parts are readable until the send is told to have ended, or for the call with an inject.
    #[inline]
    pub unsafe fn send(&self, send: &Send<'_>) -> isize {
        let Some(enabled) = self.enabled.get() else { return not_enabled() };
        // SAFETY: as for this call.
        unsafe { self.send_copying(send, enabled, enabled.copied) }
    }

    /// The same; injects of up to so many bytes are copied by the node, longer ones by the provider.
    ///
    /// # Safety
    ///
    /// As for [`send`](Self::send).
    #[inline]
    unsafe fn send_copying(&self, send: &Send<'_>, enabled: &Enabled, most_copied: usize) -> isize {
        if self.lacks(send.tagged, Caps::SEND) {
            return -(libc::EOPNOTSUPP as isize);
        }
        if send.parts.len() > self.iov_limits.0 {
            return EINVAL;
        }
        if enabled.bound.tx_cq.as_ref().is_some_and(|queue| queue.is_full()) {
            return EAGAIN;
        }
        let flags = send.flags.unwrap_or_else(|| self.tx_flags.get());
        let inject = send.nameless || flags.has(OpFlags::INJECT);
        // An inject call has no completion that could wait.
        let level = if send.nameless { flags.without(OpFlags::COMPLETION_LEVELS) } else { flags };
        // SAFETY: libfabric's rules.
        let lent = match unsafe { lend(send.parts, inject, level, most_copied) } {
            Ok(lent) => lent,
            Err(refused) => return refused,
        };
        let mut state = self.lock();
        if state.is_crowded(self, enabled) {
            return EAGAIN;
        }
        let to = state.find(enabled, send.to);
        let Some((node, endpoint)) = to else { return EINVAL };
        let to_endpoint =
            if send.tagged { tagged_number(endpoint) } else { untagged_number(endpoint) };
        let Some(segments) = lent.segments(send.parts) else { return EINVAL };
        let descriptor = SendDescriptor {
            to: node,
            endpoint: 0,
            to_endpoint,
            match_bits: send.tag,
            segments,
            immediate: send.data,
            synchronous: level.has(OpFlags::MATCH_COMPLETE),
            completion: lent.completion,
            // The lock is held: nobody looks for it before it is there.
            context: state.slots.next() as u64,
        };
        let more = flags.has(OpFlags::MORE);
        // SAFETY: the caller keeps the buffer (or the slot its copy) until the completion is dealt with, which is before
        // the application is told; a send that is over has copied it. Addresses are exposed in `segments`.
        let posted =
            unsafe { enabled.endpoint(send.tagged).post_send_raw_or_end(descriptor, more) };
        // After the post: what matters most is that the message leaves.
        let report =
            !send.nameless && (!enabled.bound.tx_selective || flags.has(OpFlags::COMPLETION));
        let operation = |raw| Operation {
            kind: Kind::Send { _copy: lent.copy },
            raw,
            tagged: send.tagged,
            report,
            nameless: send.nameless,
            context: send.context,
            buffer: 0,
            tag: send.tag,
        };
        match posted {
            Ok(RawSend::Over(status)) => end_send(enabled, &operation(None), status),
            Ok(RawSend::Flying(raw)) => {
                state.slots.insert(operation(Some(raw)));
            }
            // The node's room for copies is the same for all peers, and one that takes nothing may have filled it.
            Err(PostError::PoolFull) if inject && most_copied > 0 => {
                drop(state);
                // SAFETY: as for this call.
                return unsafe { self.send_copying(send, enabled, 0) };
            }
            Err(refused) => return refusal(refused),
        }
        0
    }

    /// Posts a receive, or looks for a message.
    ///
    /// # Safety
    ///
    /// libfabric's rules: the parts are writable and not used otherwise until the receive is told to have ended.
    #[inline]
    pub unsafe fn receive(&self, receive: &Receive<'_>) -> isize {
        let Some(enabled) = self.enabled.get() else { return not_enabled() };
        if self.lacks(receive.tagged, Caps::RECV) {
            return -(libc::EOPNOTSUPP as isize);
        }
        if receive.parts.len() > self.iov_limits.1 {
            return EINVAL;
        }
        if enabled.bound.rx_cq.as_ref().is_some_and(|queue| queue.is_full()) {
            return EAGAIN;
        }
        let flags = receive.flags.unwrap_or_else(|| self.rx_flags.get());
        if is_refused(flags) {
            return EINVAL;
        }
        // A look that finds something has no other way to say so.
        let report =
            !enabled.bound.rx_selective || flags.has_any(OpFlags::COMPLETION.with(OpFlags::PEEK));
        let mut state = self.lock();
        if state.is_crowded(self, enabled) {
            return EAGAIN;
        }
        let mut selector = Selector {
            from: NodeId::ANY,
            from_endpoint: None,
            match_bits: receive.tag,
            ignore_bits: receive.ignore,
        };
        if self.caps.has(Caps::DIRECTED_RECV) && receive.from != FI_ADDR_UNSPEC {
            let from = state.find(enabled, receive.from);
            let Some((node, endpoint)) = from else { return EINVAL };
            selector.from = node;
            selector.from_endpoint = Some(if receive.tagged {
                tagged_number(endpoint)
            } else {
                untagged_number(endpoint)
            });
        }
        if flags.has_any(OpFlags::PEEK.with(OpFlags::CLAIM)) {
            // SAFETY: the same buffers under the same rules.
            return unsafe { state.peek(self, enabled, receive, selector, report, flags) };
        }
        // SAFETY: the same buffers under the same rules.
        unsafe { state.post(self, enabled, receive, selector, report, flags, None) }
    }
}

impl State {
    /// The node and endpoint of an entry of the address vector.
    #[inline]
    fn find(&mut self, enabled: &Enabled, address: FiAddr) -> Option<(NodeId, u16)> {
        let av = &enabled.av;
        self.neighbours.find(av.version(), address, || av.find(address))
    }

    /// True if there are as many operations as may be outstanding. Their ends are only seen by progress, so posts see to it where they are
    /// many.
    #[inline]
    pub fn is_crowded(&mut self, ep: &EpInner, enabled: &Enabled) -> bool {
        self.slots.used() >= UNSEEN_MAX && self.is_crowded_after_a_look(ep, enabled)
    }

    #[cold]
    fn is_crowded_after_a_look(&mut self, ep: &EpInner, enabled: &Enabled) -> bool {
        if self.slots.used().is_multiple_of(POSTS_PER_LOOK) {
            self.progress(ep, enabled);
        }
        self.slots.used() >= OUTSTANDING_MAX
    }

    /// Posts a receive. Inlined, so that the operation is made where it is kept.
    ///
    /// # Safety
    ///
    /// As [`EpInner::receive`].
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "the pieces of one receive")]
    unsafe fn post(
        &mut self,
        ep: &EpInner,
        enabled: &Enabled,
        receive: &Receive<'_>,
        selector: Selector,
        report: bool,
        flags: OpFlags,
        claim: Option<ClaimId>,
    ) -> isize {
        let several = flags.has(OpFlags::MULTI_RECV) && claim.is_none() && !receive.tagged;
        if several && receive.parts.len() != 1 {
            return EINVAL;
        }
        let Some(segments) = segments(receive.parts) else { return EINVAL };
        let kind = if several { Kind::Multi } else { Kind::Receive };
        let slot = self.slots.insert(receive.operation(kind, report));
        let endpoint = enabled.endpoint(receive.tagged);
        let context = slot as u64;
        let receive = ReceiveDescriptor { endpoint: 0, selector, segments, claim, context };
        // SAFETY: the caller leaves the buffer alone until the completion is told; addresses are exposed in `segments`.
        let posted = unsafe {
            if several {
                let least_free = ep.min_multi_recv.load(Ordering::Relaxed);
                endpoint.post_multi_receive_raw(receive, least_free as u64)
            } else {
                endpoint.post_receive_raw(receive)
            }
        };
        match posted {
            Ok(raw) => {
                if let Some(operation) = self.slots.get(slot) {
                    operation.raw = Some(raw);
                }
                0
            }
            Err(refused) => {
                self.slots.remove(slot);
                refusal(refused)
            }
        }
    }

    /// Looks for a message, claims one, receives a claimed one, throws one away. Makes no progress: an MPI that asks two
    /// transports in turn whether there is a message counts on the second not to see newer ones than the first.
    ///
    /// # Safety
    ///
    /// As [`EpInner::receive`].
    unsafe fn peek(
        &mut self,
        ep: &EpInner,
        enabled: &Enabled,
        receive: &Receive<'_>,
        selector: Selector,
        report: bool,
        flags: OpFlags,
    ) -> isize {
        let operation = receive.operation(Kind::Receive, report);
        let context = operation.context;
        if flags.has(OpFlags::PEEK) {
            let claim = flags.has_any(OpFlags::CLAIM.with(OpFlags::DISCARD));
            let endpoint = enabled.endpoint(operation.tagged);
            let Some(info) = endpoint.probe_raw(selector, claim) else {
                hand_over(enabled, &operation, nothing(&operation, Some(libc::ENOMSG)), false);
                return 0;
            };
            hand_over(enabled, &operation, found(ep, enabled, &operation, &info), false);
            match info.claim {
                Some(claim) if flags.has(OpFlags::DISCARD) => {
                    self.discard(enabled, operation.tagged, claim);
                }
                Some(claim) => self.claims.push((context, claim)),
                None => {}
            }
            0
        } else {
            let Some(place) = self.claims.iter().position(|(claimed, _)| *claimed == context)
            else {
                return EINVAL;
            };
            let (_, claim) = self.claims[place];
            let result = if flags.has(OpFlags::DISCARD) {
                self.discard(enabled, operation.tagged, claim);
                hand_over(enabled, &operation, nothing(&operation, None), false);
                0
            } else {
                let flags = flags.without(OpFlags::MULTI_RECV);
                // SAFETY: the same buffers under the same rules.
                unsafe { self.post(ep, enabled, receive, selector, report, flags, Some(claim)) }
            };
            if result != EAGAIN {
                self.claims.swap_remove(place);
            }
            result
        }
    }

    /// Throws a claimed message away, at once or when there is room to receive none of it: the program has been told that
    /// it is gone, so that no call has to be made again.
    fn discard(&mut self, enabled: &Enabled, tagged: bool, claim: ClaimId) {
        let slot = self.slots.insert(Operation {
            kind: Kind::Discard(claim),
            raw: None,
            tagged,
            report: false,
            nameless: true,
            context: 0,
            buffer: 0,
            tag: 0,
        });
        self.post_discard(enabled, slot);
    }

    /// Posts what throws a message away, or sees to it that this is tried again.
    pub fn post_discard(&mut self, enabled: &Enabled, slot: usize) {
        let Some(&mut Operation { kind: Kind::Discard(claim), tagged, .. }) = self.slots.get(slot)
        else {
            return;
        };
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector: Selector::ANY,
            segments: SegmentList::empty(),
            claim: Some(claim),
            context: slot as u64,
        };
        // SAFETY: there is no memory.
        match unsafe { enabled.endpoint(tagged).post_receive_raw(receive) } {
            Ok(_) => {}
            Err(refused) if refusal(refused) == EAGAIN => self.parked.push(slot),
            // The message is gone already, or the endpoint is.
            Err(_) => {
                self.slots.remove(slot);
            }
        }
    }

    /// Cancels the operation with this context.
    pub fn cancel(&mut self, enabled: &Enabled, context: usize) -> isize {
        let named = |operation: &Operation| !operation.nameless && operation.context == context;
        let receive = |operation: &Operation| named(operation) && !operation.is_send();
        let found = self.slots.all().find(|(_, operation)| receive(operation));
        let found = found.or_else(|| self.slots.all().find(|(_, operation)| named(operation)));
        let Some((slot, _)) = found else { return -(libc::ENOENT as isize) };
        let Some(operation) = self.slots.get(slot) else { return -(libc::ENOENT as isize) };
        let (raw, tagged) = (operation.raw, operation.tagged);
        if let Kind::Pieces { .. } = operation.kind {
            // As with all one-sided operations it is too late.
            return 0;
        }
        if let Some(raw) = raw {
            // If it is too late, it ends as it will.
            enabled.endpoint(tagged).cancel_raw(raw);
        }
        0
    }
}
