//! Reads, writes and atomics whose remote side is several runs of memory: a piece for each run, and one end for all.

use std::collections::VecDeque;

use emp_host::{
    AtomicDescriptor, Completion, CompletionMode, GetDescriptor, PostError, PutDescriptor, RawOp,
    RemoteRegion, Segment, SegmentList, Status,
};

use crate::bindings::*;
use crate::ended::end_remote;
use crate::endpoint::{Enabled, EpInner, State};
use crate::events::{Access, Event};
use crate::flags::{Caps, CqFlags, Directions, OpFlags};
use crate::info::{IOV_LIMIT, REMOTE_IOV_LIMIT};
use crate::lend::lend;
use crate::operations::{Kind, Operation};
use crate::remote::{Manner, Transfer};
use crate::status::refusal;
use crate::transfer::{EAGAIN, EINVAL, not_enabled};

/// One run of remote memory, and what is done there with the local memory that belongs to it.
pub struct Piece {
    pub target: RemoteRegion,
    pub work: Work,
}

pub enum Work {
    Put(SegmentList),
    Get(SegmentList),
    Atomic(Box<AtomicDescriptor>),
}

/// What is left of an operation in pieces.
pub struct Pieces {
    /// Not posted yet.
    waiting: VecDeque<Piece>,
    /// Posted and not ended.
    under_way: Vec<RawOp>,
    /// Why the first of those that failed did; nothing is posted after it.
    failed: Option<Status>,
    /// Told to the target when all is there: with the last piece, which waits for the others to end.
    data: Option<u64>,
    /// What the target is told when all has ended: that there is no data does not mean that it counts nothing.
    events: Vec<Event>,
}

impl Pieces {
    /// `tells`: the target is told what was done to its regions.
    pub fn new(waiting: VecDeque<Piece>, data: Option<u64>, tells: Option<Access>) -> Box<Self> {
        let events = tells.map_or_else(Vec::new, |access| {
            let targets: Vec<_> = waiting.iter().map(|piece| piece.target).collect();
            Event::of_several(&targets, access, data.is_some())
        });
        Box::new(Self { waiting, under_way: Vec::new(), failed: None, data, events })
    }

    /// True if the next piece, of which there is one, has to wait for those under way.
    fn holds_back(&self) -> bool {
        self.data.is_some() && self.waiting.len() == 1 && !self.under_way.is_empty()
    }

    /// Those that are posted.
    pub fn under_way(&self) -> &[RawOp] {
        &self.under_way
    }

    fn is_over(&self) -> bool {
        self.under_way.is_empty() && (self.waiting.is_empty() || self.failed.is_some())
    }
}

/// Takes the next `bytes` off the front of `parts`, as a list of segments. `None`: there are not so many, or they lie in
/// too many places.
pub fn take(parts: &mut VecDeque<Segment>, bytes: u64) -> Option<SegmentList> {
    let mut list = [Segment::default(); IOV_LIMIT];
    let (mut used, mut left) = (0, bytes);
    while left > 0 {
        let part = parts.front_mut()?;
        let taken = part.bytes.min(left);
        if taken > 0 {
            *list.get_mut(used)? = Segment { address: part.address, bytes: taken };
            used += 1;
        }
        (part.address, part.bytes) = (part.address + taken, part.bytes - taken);
        left -= taken;
        if part.bytes == 0 {
            parts.pop_front();
        }
    }
    SegmentList::new(&list[..used]).ok()
}

/// Cuts a transfer along its remote runs, which must be as long as the local parts in all.
fn cut(
    mut parts: VecDeque<Segment>,
    remote: &[FiRmaIov],
    region: impl Fn(&FiRmaIov) -> RemoteRegion,
    work: fn(SegmentList) -> Work,
) -> Option<VecDeque<Piece>> {
    let piece = |run: &FiRmaIov| {
        let segments = take(&mut parts, run.len as u64)?;
        Some(Piece { target: region(run), work: work(segments) })
    };
    let pieces = remote.iter().map(piece).collect::<Option<VecDeque<_>>>()?;
    parts.iter().all(|part| part.bytes == 0).then_some(pieces)
}

impl EpInner {
    /// Reads or writes several runs of a peer's memory as one operation. `offset` and `key` of the transfer do not count.
    ///
    /// # Safety
    ///
    /// As [`put`](Self::put) and [`get`](Self::get).
    pub unsafe fn several(
        &self,
        transfer: &Transfer<'_>,
        remote: &[FiRmaIov],
        writes: bool,
    ) -> isize {
        let Some(enabled) = self.enabled.get() else { return not_enabled() };
        let needed = Caps::RMA.with(if writes { Caps::WRITE } else { Caps::READ });
        let target = match self.target(enabled, needed, transfer.peer, 0, 0) {
            Ok(target) => target,
            Err(refused) => return refused,
        };
        if remote.len() > REMOTE_IOV_LIMIT || transfer.parts.len() > self.iov_limits.0 {
            return EINVAL;
        }
        let flags = self.flags(transfer.flags);
        let inject = writes && flags.has(OpFlags::INJECT);
        // The pieces of an inject are taken from a copy that the slot keeps: none of them is the node's at once.
        let level = flags.without(OpFlags::COMPLETION_LEVELS);
        // SAFETY: libfabric's rules.
        let lent = match unsafe { lend(transfer.parts, inject, level, 0) } {
            Ok(lent) => lent,
            Err(refused) => return refused,
        };
        let Some(list) = lent.segments(transfer.parts) else { return EINVAL };
        let parts: VecDeque<_> = list.as_slice().iter().copied().collect();
        let region = |run: &FiRmaIov| RemoteRegion { key: run.key, offset: run.addr, ..target };
        let work = if writes { Work::Put } else { Work::Get };
        let Some(waiting) = cut(parts, remote, region, work) else { return EINVAL };
        let (direction, told) = match writes {
            true => (Directions::WRITE, CqFlags::WRITE),
            false => (Directions::READ, CqFlags::READ),
        };
        let manner = Manner {
            told: CqFlags::RMA.with(told),
            direction,
            context: transfer.context,
            report: Self::reports(enabled, flags, transfer.nameless),
            nameless: transfer.nameless,
            copy: lent.copy,
            event: None,
            tagged: false,
        };
        let access = if writes { Access::Written } else { Access::Read };
        let tells = self.tells().then_some(access);
        let pieces = Pieces::new(waiting, transfer.data, tells);
        self.post_pieces(enabled, pieces, manner)
    }

    /// Posts an operation in pieces. What is left of it when this returns is posted as there is room.
    pub fn post_pieces(&self, enabled: &Enabled, pieces: Box<Pieces>, manner: Manner) -> isize {
        let mut state = self.lock();
        if state.is_crowded(self, enabled) {
            return EAGAIN;
        }
        let Manner { told, direction, copy, .. } = manner;
        let slot = state.slots.insert(Operation {
            kind: Kind::Pieces { told, direction, pieces, _copy: copy },
            raw: None,
            tagged: manner.tagged,
            report: manner.report,
            nameless: manner.nameless,
            context: manner.context,
            buffer: 0,
            tag: 0,
        });
        state.begin_pieces(enabled, slot)
    }
}

impl State {
    /// Posts what can be posted of a new operation; if that is nothing, there is none.
    fn begin_pieces(&mut self, enabled: &Enabled, slot: usize) -> isize {
        let refused = self.post_pieces(enabled, slot);
        let Some(Operation { kind: Kind::Pieces { pieces, .. }, .. }) = self.slots.get(slot) else {
            return 0;
        };
        if !pieces.under_way.is_empty() {
            return 0;
        }
        self.slots.remove(slot);
        refused.map_or(0, refusal)
    }

    /// Posts pieces that wait, as many as are taken. Returns why one was not.
    fn post_pieces(&mut self, enabled: &Enabled, slot: usize) -> Option<PostError> {
        let Kind::Pieces { pieces, .. } = &mut self.slots.get(slot)?.kind else { return None };
        while pieces.failed.is_none()
            && !pieces.holds_back()
            && let Some(piece) = pieces.waiting.front()
        {
            let last = pieces.waiting.len() == 1;
            let data = pieces.data.filter(|_| last);
            match post(enabled, piece, data, slot as u64) {
                Ok(raw) => {
                    pieces.waiting.pop_front();
                    pieces.under_way.push(raw);
                }
                Err(refused) => return Some(refused),
            }
        }
        None
    }

    /// Goes on with an operation of which nothing is under way because there was no room for what is left.
    pub fn resume_pieces(&mut self, enabled: &Enabled, slot: usize) {
        let refused = self.post_pieces(enabled, slot);
        self.settle_pieces(enabled, slot, refused);
    }

    /// One piece has ended.
    pub fn end_piece(&mut self, enabled: &Enabled, slot: usize, completion: &Completion) {
        let Some(Operation { kind: Kind::Pieces { pieces, .. }, .. }) = self.slots.get(slot) else {
            return;
        };
        if let Some(at) = pieces.under_way.iter().position(|raw| *raw == completion.op) {
            pieces.under_way.swap_remove(at);
        }
        if completion.status != Status::Ok {
            pieces.failed.get_or_insert(completion.status);
        }
        let refused = self.post_pieces(enabled, slot);
        self.settle_pieces(enabled, slot, refused);
    }

    /// Tells the end, if this is it, or sees to it that the rest is tried again.
    fn settle_pieces(&mut self, enabled: &Enabled, slot: usize, refused: Option<PostError>) {
        let Some(Operation { kind: Kind::Pieces { pieces, .. }, .. }) = self.slots.get(slot) else {
            return;
        };
        if let Some(refused) = refused {
            if refusal(refused) != EAGAIN {
                pieces.failed.get_or_insert(Status::EndpointClosed);
            } else if pieces.under_way.is_empty() {
                // Otherwise the end of what is under way tries again.
                self.parked.push(slot);
                return;
            }
        }
        if !pieces.is_over() {
            return;
        }
        let status = pieces.failed.unwrap_or(Status::Ok);
        if let Some(operation) = self.slots.remove(slot)
            && let Kind::Pieces { told, direction, pieces, .. } = &operation.kind
        {
            end_remote(enabled, &operation, status, *told, *direction);
            if status == Status::Ok {
                pieces.events.iter().for_each(|event| self.announce(enabled, *event));
            }
        }
    }
}

fn post(
    enabled: &Enabled,
    piece: &Piece,
    immediate: Option<u64>,
    context: u64,
) -> Result<RawOp, PostError> {
    let (target, endpoint) = (piece.target, 0);
    // SAFETY: by libfabric's rules the parts (or the slot's copy of them) stay as they are until the operation is told to have
    // ended, which is after all its pieces have, and what is written to is used by nobody else until then; addresses were
    // exposed when it was cut.
    unsafe {
        match &piece.work {
            Work::Put(segments) => {
                let (segments, completion) = (segments.clone(), CompletionMode::Auto);
                let put =
                    PutDescriptor { target, endpoint, segments, immediate, completion, context };
                enabled.untagged.post_put_raw(put)
            }
            Work::Get(segments) => {
                let segments = segments.clone();
                enabled.untagged.post_get_raw(GetDescriptor { target, endpoint, segments, context })
            }
            Work::Atomic(atomic) => {
                let atomic = AtomicDescriptor { context, ..(**atomic).clone() };
                enabled.untagged.post_atomic_raw(atomic)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(addr: u64, len: usize) -> FiRmaIov {
        FiRmaIov { addr, len, key: addr * 2 }
    }

    /// Address and length of a part.
    type Part = (u64, u64);

    /// Where in its region each piece goes, and its parts.
    fn lists(parts: &[Part], remote: &[FiRmaIov]) -> Option<Vec<(u64, Vec<Part>)>> {
        let parts =
            parts.iter().map(|(address, bytes)| Segment { address: *address, bytes: *bytes });
        let region = |run: &FiRmaIov| RemoteRegion {
            to: emp_wire::NodeId(1),
            to_endpoint: 0,
            key: run.key,
            generation: 0,
            offset: run.addr,
        };
        let pieces = cut(parts.collect(), remote, region, Work::Put)?;
        let list = |piece: &Piece| {
            let Work::Put(segments) = &piece.work else { panic!("it is a put") };
            segments.as_slice().iter().map(|s| (s.address, s.bytes)).collect()
        };
        Some(pieces.iter().map(|piece| (piece.target.offset, list(piece))).collect())
    }

    #[test]
    fn pieces_follow_the_remote_runs() {
        let cut = lists(&[(100, 10), (200, 0), (300, 30)], &[run(1, 4), run(2, 0), run(3, 36)]);
        let wanted = vec![(1, vec![(100, 4)]), (2, vec![]), (3, vec![(104, 6), (300, 30)])];
        assert_eq!(cut, Some(wanted));
    }

    #[test]
    fn both_sides_are_as_long() {
        assert_eq!(lists(&[(100, 10)], &[run(1, 4), run(2, 5)]), None);
        assert_eq!(lists(&[(100, 10)], &[run(1, 4), run(2, 7)]), None);
        assert!(lists(&[(100, 10)], &[run(1, 4), run(2, 6)]).is_some());
    }
}
