//! Receives that take several messages (multi-receive). Such a one stays at its place among the posted receives until less than its least
//! room is free; each message that it is matched to gets the next bytes of its buffer, so several may be under way into it at once.

use super::frame::Spot;
use super::placement::Envelope;
use super::{NONE, Posted, ReceivePath};
use crate::counters::Counter;
use crate::descriptor::{
    BufferPlace, Completion, OpId, OpKind, PostError, ReceiveDescriptor, Status,
};
use crate::limits::{COMPLETIONS_MAX, RECEIVES_MAX};
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

impl ReceivePath {
    /// Posts such a receive, and gives it the unexpected messages that it accepts.
    pub(crate) fn post_multi(
        &mut self,
        receive: ReceiveDescriptor,
        least_free: u64,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        let open = self.endpoint(receive.endpoint).ok_or(PostError::NoEndpoint)?;
        let ReceiveDescriptor { endpoint, selector, segments, claim, context } = receive;
        if claim.is_some() {
            return Err(PostError::NoClaim);
        }
        if self.posted.len() + self.order.held() >= RECEIVES_MAX {
            return Err(PostError::Busy);
        }
        let multi = Multi {
            least_free: least_free.max(1),
            used: 0,
            under_way: 0,
            listed: true,
            ended: None,
        };
        let (multi, _) = self.multis.insert(multi).ok_or(PostError::Busy)?;
        let post = self.posts;
        self.posts += 1;
        let posted = Posted { endpoint, selector, segments, context, bound: false, multi, post };
        let (index, generation) = self.posted.insert(posted).ok_or(PostError::Busy)?;
        // Listed first: it may be consumed by what is here.
        self.endpoints[open].as_mut().expect("open").posted.push_back(index);
        while self.multis.at(multi).is_some_and(|multi| multi.listed)
            && let Some(message) = self.take_unexpected(open, &selector)
        {
            let total = self.incoming.at(message).map_or(0, |message| message.total);
            let spot = self.share(index, total);
            self.hand_over(message, spot, memory);
        }
        Ok(OpId::new(OpKind::Receive, index, generation))
    }

    /// There is room for another completion of such a receive: its posts do not bound how many it has.
    pub(super) fn may_share(&self) -> bool {
        self.completions.len() + self.incoming.len() + self.unread < COMPLETIONS_MAX
    }

    /// The application has not yet asked for so many completions that the host has taken.
    pub(crate) fn set_unread(&mut self, completions: usize) {
        self.unread = completions;
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
