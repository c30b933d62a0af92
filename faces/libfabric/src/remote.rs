//! Posting one-sided operations: what all functions of remote memory and atomics come down to.

use std::collections::VecDeque;

use emp_host::{
    AtomicDescriptor, AtomicOp, Datatype, GetDescriptor, PostError, PutDescriptor, RawOp,
    RemoteRegion, Segment, SegmentList,
};

use crate::bindings::*;
use crate::endpoint::{Enabled, EpInner, untagged_number};
use crate::events::{Access, Event};
use crate::flags::{Caps, CqFlags, Directions, OpFlags};
use crate::info::{IOV_LIMIT, MESSAGE_BYTES_MAX, REMOTE_IOV_LIMIT};
use crate::lend::{self, is_refused, lend};
use crate::operations::{Kind, Operation};
use crate::pieces::{Piece, Pieces, Work, take};
use crate::status::refusal;
use crate::transfer::{EAGAIN, EINVAL, not_enabled, segment, segments};

/// Bytes to be moved between memory of ours and a region of a peer.
pub struct Transfer<'a> {
    pub parts: &'a [iovec],
    pub peer: FiAddr,
    /// Where in the region.
    pub offset: u64,
    pub key: u64,
    /// Told to the target when all is there.
    pub data: Option<u64>,
    pub context: usize,
    /// Flags of this call; `None`: those of the endpoint.
    pub flags: Option<OpFlags>,
    /// An inject: the buffer is free at once and success is not told.
    pub nameless: bool,
}

/// An atomic operation.
pub struct Atomic<'a> {
    pub peer: FiAddr,
    /// Where the elements are.
    pub remote: &'a [FiRmaIoc],
    /// How many they are in all: as many as in each list.
    pub count: usize,
    pub datatype: Datatype,
    pub operation: AtomicOp,
    pub operands: &'a [FiIoc],
    pub compare: Option<&'a [FiIoc]>,
    pub result: Option<&'a [FiIoc]>,
    pub context: usize,
    pub flags: Option<OpFlags>,
    pub nameless: bool,
}

/// What posting needs to know beside the descriptor.
pub struct Manner {
    /// Flags of the completion.
    pub told: CqFlags,
    /// What counters count it as.
    pub direction: Directions,
    pub context: usize,
    pub report: bool,
    pub nameless: bool,
    pub copy: Option<Box<[u8]>>,
    /// What the target is told when it has ended.
    pub event: Option<Box<Event>>,
    /// It is posted from the endpoint for tagged messages.
    pub tagged: bool,
}

/// Elements of these parts together.
pub fn count(list: &[FiIoc]) -> usize {
    list.iter().map(|part| part.count).fold(0, usize::saturating_add)
}

/// The list of the segments of elements, or `None` if it is longer than `most` or one of them is nowhere.
fn elements(list: &[FiIoc], bytes: usize, most: usize) -> Option<SegmentList> {
    if list.len() > most.min(IOV_LIMIT) {
        return None;
    }
    let mut segments = [Segment::default(); IOV_LIMIT];
    for (place, part) in segments.iter_mut().zip(list) {
        let iov_len = part.count.checked_mul(bytes)?;
        *place = segment(&iovec { iov_base: part.addr, iov_len })?;
    }
    SegmentList::new(&segments[..list.len()]).ok()
}

/// Cuts an atomic operation along its remote runs. The pieces take operands and what to compare with from the copy, as some of
/// them are posted when the application may have its memory back. `None`: there are too many runs, or places for results.
///
/// # Safety
///
/// libfabric's rules: both are readable.
unsafe fn cut_atomic(
    atomic: &Atomic<'_>,
    whole: &AtomicDescriptor,
) -> (Option<VecDeque<Piece>>, Box<[u8]>) {
    let element = whole.datatype.bytes();
    let has_operands = whole.operation.has_operands();
    let operands = if has_operands { atomic.operands } else { &[] };
    let lists = operands.iter().chain(atomic.compare.unwrap_or(&[]));
    let part = |part: &FiIoc| iovec { iov_base: part.addr, iov_len: part.count * element };
    // SAFETY: the caller says so.
    let copy = unsafe { lend::copy(&lists.map(part).collect::<Vec<_>>()) };
    let all =
        Segment { address: copy.as_ptr().expose_provenance() as u64, bytes: copy.len() as u64 };
    let bytes = (whole.count as usize * element) as u64;
    let behind = if has_operands { bytes } else { 0 };
    let results = whole.fetch_into.as_ref().map_or(&[][..], |list| list.as_slice());
    let mut results: VecDeque<Segment> = results.iter().copied().collect();
    let mut at = 0;
    let piece = |run: &FiRmaIoc| {
        let bytes = (run.count * element) as u64;
        let from = |start: u64| SegmentList::one(all.part(start + at, bytes));
        let target = RemoteRegion { key: run.key, offset: run.addr, ..whole.target };
        let piece = AtomicDescriptor {
            target,
            count: run.count as u32,
            operands: if has_operands { from(0) } else { SegmentList::empty() },
            compare: whole.compare.as_ref().map(|_| from(behind)),
            fetch_into: match whole.fetch_into {
                Some(_) => Some(take(&mut results, bytes)?),
                None => None,
            },
            ..whole.clone()
        };
        at += bytes;
        Some(Piece { target, work: Work::Atomic(Box::new(piece)) })
    };
    let few = atomic.remote.len() <= REMOTE_IOV_LIMIT;
    let runs = atomic.remote.iter().filter(|run| run.count > 0 && few);
    let pieces = runs.map(piece).collect::<Option<VecDeque<_>>>();
    (pieces.filter(|_| few), copy)
}

impl EpInner {
    /// The target of an operation; an error as the call is to return it.
    pub(crate) fn target(
        &self,
        enabled: &Enabled,
        needed: Caps,
        peer: FiAddr,
        offset: u64,
        key: u64,
    ) -> Result<RemoteRegion, isize> {
        if !self.caps.has(needed) {
            return Err(-(libc::EOPNOTSUPP as isize));
        }
        let Some((to, endpoint)) = enabled.av.find(peer) else { return Err(EINVAL) };
        if enabled.bound.tx_cq.as_ref().is_some_and(|queue| queue.is_full()) {
            return Err(EAGAIN);
        }
        let to_endpoint = untagged_number(endpoint);
        Ok(RemoteRegion { to, to_endpoint, key, generation: 0, offset })
    }

    /// True if targets are told of what is done to them, and this one listens (`FI_RMA_EVENT`): its domain was opened for that
    /// (Sandia's SHMEM asks for it there, and not of the endpoints that it writes by), or it was itself.
    pub(crate) fn tells(&self) -> bool {
        self.domain.tells || self.caps.has(Caps::RMA_EVENT)
    }

    pub(crate) fn flags(&self, of_call: Option<OpFlags>) -> OpFlags {
        of_call.unwrap_or_else(|| self.tx_flags.get())
    }

    pub(crate) fn reports(enabled: &Enabled, flags: OpFlags, nameless: bool) -> bool {
        !nameless && (!enabled.bound.tx_selective || flags.has(OpFlags::COMPLETION))
    }

    /// Keeps a slot for the operation that `post` posts with the context that it is given.
    fn post_remote(
        &self,
        enabled: &Enabled,
        manner: Manner,
        post: impl FnOnce(u64) -> Result<RawOp, PostError>,
    ) -> isize {
        let mut state = self.lock();
        if state.is_crowded(self, enabled) {
            return EAGAIN;
        }
        let slot = state.slots.insert(Operation {
            kind: Kind::Remote {
                told: manner.told,
                direction: manner.direction,
                event: manner.event,
                _copy: manner.copy,
            },
            raw: None,
            tagged: manner.tagged,
            report: manner.report,
            nameless: manner.nameless,
            context: manner.context,
            buffer: 0,
            tag: 0,
        });
        match post(slot as u64) {
            Ok(raw) => {
                if let Some(operation) = state.slots.get(slot) {
                    operation.raw = Some(raw);
                }
                0
            }
            Err(refused) => {
                state.slots.remove(slot);
                refusal(refused)
            }
        }
    }

    /// Writes to a peer's memory.
    ///
    /// # Safety
    ///
    /// libfabric's rules: the parts are readable until the operation is told to have ended, or for the call with an inject.
    pub unsafe fn put(&self, transfer: &Transfer<'_>) -> isize {
        let Some(enabled) = self.enabled.get() else { return not_enabled() };
        let Transfer { peer, offset, key, .. } = *transfer;
        let needed = Caps::RMA.with(Caps::WRITE);
        let target = match self.target(enabled, needed, peer, offset, key) {
            Ok(target) => target,
            Err(refused) => return refused,
        };
        if transfer.parts.len() > self.iov_limits.0 {
            return EINVAL;
        }
        let flags = self.flags(transfer.flags);
        let inject = transfer.nameless || flags.has(OpFlags::INJECT);
        // They end when the target is done, whatever level is asked for; the node keeps what it has copied until then.
        let level = flags.without(OpFlags::COMPLETION_LEVELS);
        // SAFETY: libfabric's rules.
        let lent = match unsafe { lend(transfer.parts, inject, level, enabled.copied_remote) } {
            Ok(lent) => lent,
            Err(refused) => return refused,
        };
        let Some(segments) = lent.segments(transfer.parts) else { return EINVAL };
        let completion = lent.completion;
        // The event goes with the write, unless it has data to be told already.
        let carries = self.tells() && transfer.data.is_none();
        let immediate = transfer.data.or(carries.then_some(0));
        let manner = Manner {
            told: CqFlags::RMA.with(CqFlags::WRITE),
            direction: Directions::WRITE,
            context: transfer.context,
            report: Self::reports(enabled, flags, transfer.nameless),
            nameless: transfer.nameless,
            copy: lent.copy,
            event: None,
            tagged: carries,
        };
        self.post_remote(enabled, manner, |context| {
            let put =
                PutDescriptor { target, endpoint: 0, segments, immediate, completion, context };
            // SAFETY: the caller keeps the buffer (or the slot its copy) until the completion is dealt with; addresses are
            // exposed in `segments`.
            unsafe { enabled.endpoint(carries).post_put_raw(put) }
        })
    }

    /// Reads a peer's memory.
    ///
    /// # Safety
    ///
    /// libfabric's rules: the parts are writable and not used otherwise until the operation is told to have ended.
    pub unsafe fn get(&self, transfer: &Transfer<'_>) -> isize {
        let Some(enabled) = self.enabled.get() else { return not_enabled() };
        let Transfer { peer, offset, key, .. } = *transfer;
        let needed = Caps::RMA.with(Caps::READ);
        let target = match self.target(enabled, needed, peer, offset, key) {
            Ok(target) => target,
            Err(refused) => return refused,
        };
        let most = self.iov_limits.0;
        let list = segments(transfer.parts).filter(|_| transfer.parts.len() <= most);
        let Some(segments) = list else { return EINVAL };
        if segments.bytes() > MESSAGE_BYTES_MAX as u64 {
            return -(libc::EMSGSIZE as isize);
        }
        let flags = self.flags(transfer.flags);
        if is_refused(flags) {
            return EINVAL;
        }
        let manner = Manner {
            told: CqFlags::RMA.with(CqFlags::READ),
            direction: Directions::READ,
            context: transfer.context,
            report: Self::reports(enabled, flags, transfer.nameless),
            nameless: transfer.nameless,
            copy: None,
            event: self.tells().then(|| Box::new(Event::of(Access::Read, target))),
            tagged: false,
        };
        self.post_remote(enabled, manner, |context| {
            let get = GetDescriptor { target, endpoint: 0, segments, context };
            // SAFETY: the caller leaves the buffer alone until the completion is told; addresses are exposed in `segments`.
            unsafe { enabled.untagged.post_get_raw(get) }
        })
    }

    /// Changes elements of a peer's memory.
    ///
    /// # Safety
    ///
    /// libfabric's rules: operands and what to compare with are readable for the call; where results go is writable and not
    /// used otherwise until the operation is told to have ended.
    pub unsafe fn atomic(&self, atomic: &Atomic<'_>) -> isize {
        let Some(enabled) = self.enabled.get() else { return not_enabled() };
        let Atomic { peer, datatype, operation, .. } = *atomic;
        let fetches = atomic.result.is_some();
        let (direction, cap) =
            if fetches { (Directions::READ, Caps::READ) } else { (Directions::WRITE, Caps::WRITE) };
        let Some(run) = atomic.remote.first() else { return EINVAL };
        let target = match self.target(enabled, Caps::ATOMIC.with(cap), peer, run.addr, run.key) {
            Ok(target) => target,
            Err(refused) => return refused,
        };
        let access = Access::of_atomic(fetches, operation.has_operands());
        let bytes = datatype.bytes();
        let count = atomic.count;
        let same = |list: Option<&[FiIoc]>| list.is_none_or(|list| self::count(list) == count);
        let operands = operation.has_operands().then_some(atomic.operands);
        if count == 0 || ![operands, atomic.compare, atomic.result].into_iter().all(same) {
            return EINVAL;
        }
        let operands = operands.unwrap_or(&[]);
        let elements = |list| elements(list, bytes, self.iov_limits.0);
        let lists = (elements(operands), atomic.compare.map(elements), atomic.result.map(elements));
        let (Some(operands), None | Some(Some(_)), None | Some(Some(_))) = &lists else {
            return EINVAL;
        };
        let operands = operands.clone();
        let (compare, fetch_into) = (lists.1.flatten(), lists.2.flatten());
        let Ok(count) = u32::try_from(count) else { return -(libc::EMSGSIZE as isize) };
        let flags = self.flags(atomic.flags);
        if is_refused(flags) {
            return EINVAL;
        }
        let mut manner = Manner {
            told: CqFlags::ATOMIC.with(if fetches { CqFlags::READ } else { CqFlags::WRITE }),
            direction,
            context: atomic.context,
            report: Self::reports(enabled, flags, atomic.nameless),
            nameless: atomic.nameless,
            copy: None,
            event: self.tells().then(|| Box::new(Event::of(access, target))),
            tagged: false,
        };
        let descriptor = AtomicDescriptor {
            target,
            endpoint: 0,
            operation,
            datatype,
            count,
            operands,
            compare,
            fetch_into,
            context: 0,
        };
        if atomic.remote.len() > 1 {
            // Before anything is copied or sent: none of the runs is done if one of them cannot be.
            let lists = bytes << u32::from(operation.compares());
            let most = self.domain.node().atomic_bytes_max() / lists;
            if atomic.remote.iter().any(|run| run.count > most) {
                return -(libc::EMSGSIZE as isize);
            }
            // SAFETY: the lists are readable, by libfabric's rules.
            let (cut, copy) = unsafe { cut_atomic(atomic, &descriptor) };
            let Some(cut) = cut else { return EINVAL };
            manner.copy = Some(copy);
            let tells = manner.event.take().map(|_| access);
            return self.post_pieces(enabled, Pieces::new(cut, None, tells), manner);
        }
        self.post_remote(enabled, manner, |context| {
            let descriptor = AtomicDescriptor { context, ..descriptor };
            // SAFETY: operands are copied before this returns; the caller leaves the place of the results alone until the
            // completion is told; addresses are exposed in `elements`.
            unsafe { enabled.untagged.post_atomic_raw(descriptor) }
        })
    }
}
