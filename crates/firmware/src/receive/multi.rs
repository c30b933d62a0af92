//! Receives that take several messages (multi-receive). Such a one stays at its place among the posted receives until less than its least
//! room is free; each message that it is matched to gets the next bytes of its buffer, so several may be under way into it at once.

use super::frame::Spot;
use super::placement::Envelope;
use super::{NONE, Posted, ReceiveSide};
use crate::counters::Counter;
use crate::descriptor::{BufferPlace, Completion, OpId, OpKind, Selector, Status};
use crate::limits::SHARES_MAX;
use crate::memory::HostMemory;

/// What such a receive has besides what all have.
pub(super) struct Multi {
    /// With fewer bytes free, at least 1, it takes no more.
    least_free: u64,
    /// Bytes of the buffer that messages have.
    used: u64,
    /// Messages that have their room and whose end was not told.
    under_way: u32,
    /// It stands among the posted receives.
    listed: bool,
    /// How it ends when those under way have.
    ended: Option<Status>,
}

impl ReceiveSide {
    /// What such a receive has besides what all have, for one that is to be posted.
    #[cold]
    pub(super) fn add_multi(&mut self, least_free: u64) -> Option<u32> {
        let least_free = least_free.max(1);
        let multi = Multi { least_free, used: 0, under_way: 0, listed: true, ended: None };
        self.multis.insert(multi).map(|(index, _)| index)
    }

    /// Lists one that is posted, and gives it the unexpected messages that it accepts.
    #[cold]
    pub(super) fn fill_multi(
        &mut self,
        open: usize,
        (receive, multi): (u32, u32),
        selector: &Selector,
        memory: &mut impl HostMemory,
    ) {
        // Listed first: it may be consumed by what is here.
        self.list_posted(open, receive);
        while self.multis.at(multi).is_some_and(|multi| multi.listed)
            && let Some(message) = self.take_unexpected(open, selector)
        {
            let total = self.incoming.at(message).map_or(0, |message| message.total);
            let spot = self.share(receive, total);
            self.hand_over(message, spot, memory);
        }
    }

    /// There is room for another completion of such a receive: its posts do not bound how many it has.
    pub(super) fn may_share(&self) -> bool {
        self.completions.len() + self.incoming.len() + self.unread < SHARES_MAX
    }

    /// Gives a message of so many bytes its room in such a receive.
    pub(super) fn share(&mut self, receive: u32, total: u64) -> Spot {
        let posted = self.posted.at(receive).expect("the caller has found it");
        let size = posted.segments.bytes();
        let multi = self.multis.at_mut(posted.multi).expect("as long as its receive");
        let at = multi.used;
        multi.used = at.saturating_add(total).min(size);
        multi.under_way += 1;
        if size - multi.used < multi.least_free {
            multi.listed = false;
            self.unpost(receive);
        }
        Spot { receive, at }
    }

    /// A message that had its room has ended.
    #[inline(never)]
    pub(super) fn report_share(&mut self, spot: Spot, message: &Envelope, status: Status) {
        let Some(posted) = self.posted.at(spot.receive) else { return };
        let room = posted.segments.bytes() - spot.at;
        let too_long = status == Status::Ok && message.total > room;
        let status = if too_long { Status::Truncated } else { status };
        if matches!(status, Status::Ok | Status::Truncated) {
            self.counters.count(Counter::MessagesReceived);
        }
        let op = OpId::new(OpKind::Receive, spot.receive, self.posted.generation(spot.receive));
        let place = BufferPlace::more(spot.at);
        let completion =
            Completion { place, ..message.completion(op, posted.context, status, room) };
        self.tell_in_order(message.peer, message.number, completion);
    }

    /// Hands a completion to the host; with the last of a receive for several the buffer is its again.
    pub(super) fn tell(&mut self, mut completion: Completion) {
        let last = if completion.place.is_more() { self.end_share(&mut completion) } else { None };
        self.completions.push_back(completion);
        self.completions.extend(last);
    }

    fn end_share(&mut self, completion: &mut Completion) -> Option<Completion> {
        let receive = completion.op.index();
        let index = self.posted.get(receive, completion.op.generation())?.multi;
        let multi = self.multis.at_mut(index)?;
        multi.under_way -= 1;
        if multi.under_way > 0 || multi.listed {
            return None;
        }
        let (ended, used) = (multi.ended, multi.used);
        self.posted.remove(receive);
        self.multis.remove(index);
        match ended {
            None => {
                completion.place = completion.place.last();
                None
            }
            Some(status) => Some(Completion {
                place: BufferPlace::more(used).last(),
                ..Completion::unmatched(completion.op, completion.context, status)
            }),
        }
    }

    /// No more messages for a receive that is off its list. False: some are under way, and its end follows theirs.
    pub(super) fn end_multi(&mut self, receive: u32, status: Status) -> bool {
        let Some(index) = self.posted.at(receive).map(|posted| posted.multi) else { return false };
        if index == NONE {
            return true;
        }
        let Some(multi) = self.multis.at_mut(index) else { return true };
        if multi.under_way > 0 {
            multi.listed = false;
            multi.ended = Some(status);
            return false;
        }
        self.multis.remove(index);
        true
    }

    /// It is a receive for several that takes no more.
    pub(super) fn is_consumed(&self, posted: &Posted) -> bool {
        posted.multi != NONE && self.multis.at(posted.multi).is_none_or(|multi| !multi.listed)
    }
}
