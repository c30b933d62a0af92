//! Matching: posted receives in post order, unexpected messages in their senders' order, and what the host may ask of both.

use super::bins::WALKED_MAX;
use super::frame::Spot;
use super::pulling::Puller;
use super::{Endpoint, Incoming, NONE, Place, Posted, ReceivePeer, ReceiveSide};
use crate::cross::Cross;
use crate::descriptor::{
    ClaimId, Completion, OpId, OpKind, PostError, ProbeInfo, ReceiveDescriptor, Selector, Status,
};
use crate::event::Limit;
use crate::limits::ENDPOINTS_MAX;
use crate::memory::HostMemory;
use crate::time::Span;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::hint::cold_path;
use emp_wire::NodeId;

impl Incoming {
    /// What selectors look at first.
    const fn matched_by(&self) -> (NodeId, u64) {
        (self.node, self.match_bits)
    }
}

impl ReceiveSide {
    /// Opens an endpoint; opening an open one changes nothing.
    pub(crate) fn open_endpoint(&mut self, number: u16) -> Result<(), PostError> {
        if self.endpoint(number).is_some() {
            return Ok(());
        }
        if self.open >= ENDPOINTS_MAX {
            self.reached.note(Limit::Endpoints);
            return Err(PostError::TooManyEndpoints);
        }
        let index = match self.endpoints.iter().position(Option::is_none) {
            Some(index) => index,
            None => {
                self.endpoints.push(None);
                self.endpoints.len() - 1
            }
        };
        self.endpoints[index] = Some(Endpoint::default());
        self.open += 1;
        if self.endpoint_index.len() <= usize::from(number) {
            self.endpoint_index.resize(usize::from(number) + 1, 0);
        }
        self.endpoint_index[usize::from(number)] = index as u16 + 1;
        self.take_home(number, index);
        Ok(())
    }

    /// Messages that came before their endpoint was opened are its first unexpected ones.
    fn take_home(&mut self, number: u16, open: usize) {
        for index in self.without_endpoint_by_number.in_order(number.into()) {
            self.unlist(index, number, true);
            if let Some(message) = self.incoming.at_mut(index) {
                message.without_endpoint_ms = None;
            }
            self.list_unexpected(open, index);
            self.counters.count(crate::counters::Counter::Unexpected);
        }
    }

    /// Takes a message off the list that it waits in, if any: that of its endpoint, or of those whose endpoint is not open.
    pub(super) fn unlist(&mut self, index: u32, endpoint: u16, without_endpoint: bool) {
        if !self.waiting.has(index) {
            return;
        }
        if without_endpoint {
            self.waiting.remove(&mut self.without_endpoint, index);
            self.without_endpoint_by_number.remove(endpoint.into(), index);
            self.without_endpoint_count -= 1;
        } else if let Some(open) = self.endpoint(endpoint) {
            self.unlist_unexpected(open, index);
        }
    }

    /// Gives up messages whose endpoint was not opened in time. True: others still wait.
    pub(crate) fn expire_without_endpoint(&mut self, now_ms: u32, patience_ms: u32) -> bool {
        while let Some(index) = self.without_endpoint.first() {
            let since = self.incoming.at(index).and_then(|message| message.without_endpoint_ms);
            if since.is_some_and(|since| now_ms.wrapping_sub(since) <= patience_ms) {
                return true;
            }
            self.give_up(index);
        }
        false
    }

    /// Nobody could open an endpoint for so many milliseconds.
    pub(crate) fn excuse(&mut self, absent_ms: u32) {
        let absent = Span::ms(absent_ms.into());
        self.posting.excuse(absent);
        self.arriving.excuse(absent);
        for index in self.waiting.iter(self.without_endpoint) {
            if let Some(since) =
                self.incoming.at_mut(index).and_then(|m| m.without_endpoint_ms.as_mut())
            {
                *since = since.wrapping_add(absent_ms);
            }
        }
    }

    /// Closes an endpoint: its receives end, its messages are given up.
    pub(crate) fn close_endpoint(&mut self, number: u16) {
        let Some(index) = self.endpoint(number) else { return };
        let unexpected = self.endpoints[index].as_ref().expect("it is open").unexpected;
        let unexpected: Vec<u32> = self.waiting.iter(unexpected).collect();
        for message in unexpected {
            self.give_up(message);
        }
        let posted = self.endpoints[index].as_ref().expect("it is open").posted;
        let posted: Vec<u32> = self.posted_links.iter(posted).collect();
        posted.iter().for_each(|receive| self.unlist_posted(index, *receive));
        self.endpoints[index] = None;
        self.endpoint_index[usize::from(number)] = 0;
        self.open -= 1;
        for posted in posted {
            self.end_unmatched(posted, Status::EndpointClosed);
        }
        let left: Vec<u32> = self
            .incoming
            .indices()
            .filter(|i| self.incoming.at(*i).is_some_and(|message| message.endpoint == number))
            .collect();
        for message in left {
            match self.incoming.at(message) {
                Some(Incoming { place: Place::Posted(_), .. }) => {
                    self.fail(message, Status::EndpointClosed);
                }
                Some(Incoming { claimed: true, .. }) => self.give_up(message),
                _ => {}
            }
        }
    }

    /// Index of an open endpoint.
    pub(super) fn endpoint(&self, number: u16) -> Option<usize> {
        match self.endpoint_index.get(usize::from(number)) {
            None | Some(0) => None,
            Some(index) => Some(usize::from(*index) - 1),
        }
    }

    pub(crate) fn is_open(&self, number: u16) -> bool {
        self.endpoint(number).is_some()
    }

    /// Posts a receive, and gives it the first unexpected message that it accepts. With `least_free` it is for several messages.
    #[inline]
    pub(crate) fn post(
        &mut self,
        receive: ReceiveDescriptor,
        least_free: Option<u64>,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        let open = self.endpoint(receive.endpoint).ok_or(PostError::NoEndpoint)?;
        let ReceiveDescriptor { endpoint, selector, segments, claim, context } = receive;
        if let Some(claim) = claim {
            let claimed = self.incoming.get(claim.index, claim.generation);
            let single = |message: &&Incoming| message.claimed && least_free.is_none();
            claimed.filter(single).ok_or(PostError::NoClaim)?;
        }
        if self.posted.len() + self.order.held() >= self.posted.limit() {
            return Err(self.refuse_post());
        }
        let multi = match least_free {
            None => NONE,
            Some(least_free) => self.add_multi(least_free).ok_or(PostError::Busy)?,
        };
        let bound = false;
        let post = self.posts;
        self.posts += 1;
        let posted = || Posted { endpoint, selector, segments, context, bound, multi, post };
        let (index, generation) = self.posted.insert_with(posted).ok_or(PostError::Busy)?;
        let op = OpId::new(OpKind::Receive, index, generation);
        if multi != NONE {
            self.fill_multi(open, (index, multi), &selector, memory);
            return Ok(op);
        }
        let message = match claim {
            Some(claim) => Some(claim.index),
            None => self.take_unexpected(open, &selector),
        };
        match message {
            Some(message) => {
                self.incoming.at_mut(message).expect("listed").claimed = false;
                self.hand_over(message, Spot { receive: index, at: 0 }, memory);
            }
            None => self.list_posted(open, index),
        }
        Ok(op)
    }

    /// There are as many receives as may be: one more is posted when one of them has ended, unless none does.
    #[cold]
    fn refuse_post(&mut self) -> PostError {
        self.reached.note(Limit::Receives);
        let (now, patience) = (self.credit.now(), self.profile.unreachable_after);
        let stuck = self.posting.is_stuck(now, self.posted.last_removed(), patience);
        if stuck { PostError::Exhausted } else { PostError::Busy }
    }

    /// A receive waits for a message, after all others of its endpoint.
    #[inline(always)]
    pub(super) fn list_posted(&mut self, open: usize, index: u32) {
        let endpoint = self.endpoints[open].as_mut().expect("it is open");
        self.posted_links.push_back(&mut endpoint.posted, index);
        endpoint.posted_count += 1;
        if endpoint.posted_count > WALKED_MAX || endpoint.wanted.is_some() {
            self.sort_posted(open, index);
        }
    }

    /// Puts a receive that has just been listed where it is found among many.
    #[inline(never)]
    fn sort_posted(&mut self, open: usize, index: u32) {
        let Self { endpoints, posted, posted_links, .. } = self;
        let Endpoint { posted: list, wanted, .. } = endpoints[open].as_mut().expect("it is open");
        let selector = |index| posted.at(index).map(|receive| &receive.selector);
        if let Some(wanted) = wanted {
            return selector(index).into_iter().for_each(|selector| wanted.add(selector, index));
        }
        let wanted = wanted.insert(Box::default());
        for index in posted_links.iter(*list) {
            selector(index).into_iter().for_each(|selector| wanted.add(selector, index));
        }
    }

    /// Takes a receive off its endpoint's list, if it is there: it was matched, or ends.
    pub(super) fn unpost(&mut self, index: u32) {
        let Some(posted) = self.posted.at(index) else { return };
        let Some(open) = self.endpoint(posted.endpoint) else { return };
        self.unlist_posted(open, index);
    }

    #[inline(always)]
    fn unlist_posted(&mut self, open: usize, index: u32) {
        if !self.posted_links.has(index) {
            return;
        }
        let endpoint = self.endpoints[open].as_mut().expect("it is open");
        self.posted_links.remove(&mut endpoint.posted, index);
        endpoint.posted_count -= 1;
        if let Some(wanted) = &mut endpoint.wanted {
            cold_path();
            if let Some(posted) = self.posted.at(index) {
                wanted.remove(&posted.selector, index);
            }
            if endpoint.posted_count == 0 {
                endpoint.wanted = None;
            }
        }
    }

    /// The first posted receive that accepts a message. It stays posted.
    pub(super) fn match_posted(
        &self,
        open: usize,
        node: NodeId,
        source: u16,
        bits: u64,
    ) -> Option<u32> {
        let endpoint = self.endpoints[open].as_ref()?;
        let accepts = |index: &u32| {
            self.posted.at(*index).is_some_and(|p| p.selector.accepts(node, source, bits))
        };
        let Some(wanted) = &endpoint.wanted else {
            return self.posted_links.iter(endpoint.posted).find(accepts);
        };
        // In each bin they stand in post order.
        let first_of_each = wanted.of(node, bits).filter_map(|mut bin| bin.find(accepts));
        first_of_each.min_by_key(|index| self.posted.at(*index).map(|posted| posted.post))
    }

    /// Room for a message of so many bytes in the first posted receive that accepts it; that is taken off its endpoint's list, unless it
    /// takes more.
    #[inline(always)]
    pub(super) fn take_posted(
        &mut self,
        open: usize,
        message: (NodeId, u16, u64),
        total: u64,
    ) -> Option<Spot> {
        let endpoint = self.endpoints[open].as_mut().expect("it is open");
        let receive = endpoint.posted.first()?;
        let (node, source, bits) = message;
        let posted = self.posted.at(receive)?;
        if posted.selector.accepts(node, source, bits)
            && posted.multi == NONE
            && endpoint.wanted.is_none()
        {
            // As most often.
            self.posted_links.remove_first(&mut endpoint.posted);
            endpoint.posted_count -= 1;
            return Some(Spot { receive, at: 0 });
        }
        self.find_posted(open, message, total)
    }

    #[inline(never)]
    fn find_posted(
        &mut self,
        open: usize,
        (node, source, bits): (NodeId, u16, u64),
        total: u64,
    ) -> Option<Spot> {
        let receive = self.match_posted(open, node, source, bits)?;
        if self.posted.at(receive)?.multi == NONE {
            self.unlist_posted(open, receive);
            return Some(Spot { receive, at: 0 });
        }
        self.may_share().then(|| self.share(receive, total))
    }

    /// A message waits for a receive to be posted at this endpoint.
    pub(super) fn list_unexpected(&mut self, open: usize, index: u32) {
        let endpoint = self.endpoints[open].as_mut().expect("it is open");
        self.waiting.push_back(&mut endpoint.unexpected, index);
        endpoint.unexpected_count += 1;
        if let Some(waiting) = &mut endpoint.waiting
            && let Some(message) = self.incoming.at(index)
        {
            waiting.add(message.matched_by(), index);
        }
    }

    /// Takes a message off its endpoint's list.
    fn unlist_unexpected(&mut self, open: usize, index: u32) {
        let Some(endpoint) = &mut self.endpoints[open] else { return };
        self.waiting.remove(&mut endpoint.unexpected, index);
        endpoint.unexpected_count -= 1;
        if let Some(waiting) = &mut endpoint.waiting {
            if let Some(message) = self.incoming.at(index) {
                waiting.remove(message.matched_by(), index);
            }
            if endpoint.unexpected_count == 0 {
                endpoint.waiting = None;
            }
        }
    }

    fn find_unexpected(&mut self, open: usize, selector: &Selector) -> Option<u32> {
        let Self { endpoints, incoming, waiting: links, .. } = self;
        let endpoint = endpoints[open].as_mut()?;
        let accepts = |index: &u32| {
            incoming.at(*index).is_some_and(|message| {
                selector.accepts(message.node, message.source_endpoint, message.match_bits)
            })
        };
        let all = links.iter(endpoint.unexpected);
        if endpoint.waiting.is_none() && endpoint.unexpected_count <= WALKED_MAX {
            return all.into_iter().find(accepts);
        }
        // Who receives them in their order wants the first.
        let first = endpoint.unexpected.first()?;
        if accepts(&first) {
            return Some(first);
        }
        let described = |index| Some((index, incoming.at(index)?.matched_by()));
        let waiting = endpoint.waiting.get_or_insert_default();
        match waiting.of(selector, all.filter_map(described)) {
            Some(mut found) => found.find(accepts),
            None => links.iter(endpoint.unexpected).find(accepts),
        }
    }

    #[inline(always)]
    pub(super) fn take_unexpected(&mut self, open: usize, selector: &Selector) -> Option<u32> {
        // Most often none waits.
        self.endpoints[open].as_ref()?.unexpected.first()?;
        self.take_waiting_one(open, selector)
    }

    #[inline(never)]
    fn take_waiting_one(&mut self, open: usize, selector: &Selector) -> Option<u32> {
        let index = self.find_unexpected(open, selector)?;
        self.unlist_unexpected(open, index);
        Some(index)
    }

    pub(crate) fn cancel(&mut self, op: OpId) -> bool {
        match self.posted.get(op.index(), op.generation()) {
            Some(posted) if !posted.bound && !self.is_consumed(posted) => {}
            _ => return false,
        }
        self.unpost(op.index());
        self.end_unmatched(op.index(), Status::Cancelled);
        true
    }

    pub(crate) fn probe(
        &mut self,
        number: u16,
        selector: &Selector,
        claim: bool,
    ) -> Option<ProbeInfo> {
        let open = self.endpoint(number)?;
        let index = match claim {
            true => self.take_unexpected(open, selector)?,
            false => self.find_unexpected(open, selector)?,
        };
        let generation = self.incoming.generation(index);
        let message = self.incoming.at_mut(index).expect("listed");
        message.claimed = claim;
        Some(ProbeInfo {
            from: message.node,
            from_endpoint: message.source_endpoint,
            match_bits: message.match_bits,
            total_bytes: message.total,
            immediate: message.immediate,
            claim: claim.then_some(ClaimId { index, generation }),
        })
    }

    pub(crate) fn discard(&mut self, claim: ClaimId) -> bool {
        let found = self.incoming.get(claim.index, claim.generation).is_some_and(|m| m.claimed);
        if found {
            self.give_up(claim.index);
        }
        found
    }

    /// Ends a receive that no message was matched to.
    fn end_unmatched(&mut self, index: u32, status: Status) {
        let op = OpId::new(OpKind::Receive, index, self.posted.generation(index));
        if !self.end_multi(index, status) {
            return;
        }
        let Some(posted) = self.posted.remove(index) else { return };
        self.completions.push_back(Completion::unmatched(op, posted.context, status));
    }

    /// A peer is given up. Receives that its messages were bound to end with `status`; messages that are wholly here may
    /// stay if `keep` (their sender was told that they were delivered). Receives that can only be matched by this peer
    /// end too, unless it may come back unnoticed (`keep`).
    pub(crate) fn reset(
        &mut self,
        peer: u32,
        node: NodeId,
        status: Status,
        keep: bool,
        cross: &Cross,
    ) {
        self.end_puts_of(peer, status);
        self.end_fetches_of(peer, status);
        let all = self.incoming_of.of(peer);
        let mut gone = Vec::new();
        for index in all {
            let message = self.incoming.at(index).expect("listed");
            if let Place::Posted(_) = message.place {
                self.fail_quietly(index, status);
                continue;
            }
            let whole = matches!(message.place, Place::Pool(_))
                && message.train_complete()
                && u64::from(message.unscheduled) == message.total
                && !message.early
                && !message.needs_done();
            if !(keep && whole) {
                gone.push(index);
            }
        }
        for index in gone {
            self.forget_incoming(index);
        }
        self.not_ready.retain(|answer| answer.peer != peer);
        self.acks.take_done(peer);
        self.grants.forget(peer);
        // Only now that no message of the peer is left: others may take the room.
        self.serve_pulls();
        for posted in self.waiting_for(node) {
            self.unpost(posted);
            self.end_unmatched_of(posted, node, status);
        }
        let ack = self.peers[peer].ack;
        self.peers[peer] = ReceivePeer::new(self.first);
        self.peers[peer].ack.succeed(ack);
        cross.acks[peer].owe(self.first.sequence, false);
    }

    fn end_unmatched_of(&mut self, index: u32, node: NodeId, status: Status) {
        self.end_unmatched(index, status);
        if let Some(completion) = self.completions.back_mut() {
            completion.peer = node;
        }
    }

    /// As `fail`, without telling the sender.
    fn fail_quietly(&mut self, index: u32, status: Status) {
        self.unlink_progress(index);
        self.drop_pulls(Puller::Message(index));
        let Some(mut message) = self.take_incoming(index) else { return };
        if let Place::Posted(spot) = core::mem::replace(&mut message.place, Place::Later) {
            self.report(spot, &message.envelope(), status);
        }
    }
}
