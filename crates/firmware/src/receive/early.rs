//! Messages that overtook others: they wait in the pool for their turn.

use emp_wire::NotReadyCause;

use super::bookkeeping::Verdict;
use super::{Incoming, NONE, ReceivePath, Wants};
use crate::counters::Counter;
use crate::cross::Cross;
use crate::limits::{EARLY_MAX, INCOMING_MAX};
use crate::memory::HostMemory;

impl ReceivePath {
    /// A message that overtook others waits in the pool for its turn.
    pub(super) fn take_early(
        &mut self,
        mut incoming: Incoming,
        payload: &[u8],
        cross: &mut Cross,
    ) -> Verdict {
        let (peer, number) = (incoming.peer, incoming.number);
        let matched = !incoming.void && matches!(incoming.wants, Wants::Receive);
        let without_endpoint = matched && self.endpoint(incoming.endpoint).is_none();
        // Half of the table is for messages in their turn: early ones must not lock those out that they wait for.
        let crowded = self.incoming.len() >= INCOMING_MAX / 2;
        let many = usize::from(self.peers[peer].early_count) >= EARLY_MAX;
        // What it will need in its turn is promised now: then it cannot be refused any more.
        if without_endpoint || crowded || many || !self.claim(&mut incoming, true, cross) {
            self.counters.count(Counter::DropEarly);
            return Verdict::NotReady(NotReadyCause::Full);
        }
        incoming.early = true;
        let index = match self.store(incoming, payload) {
            Ok(index) => index,
            Err(incoming) => {
                self.forget_claims(&incoming);
                self.counters.count(Counter::DropEarly);
                return Verdict::NotReady(NotReadyCause::Full);
            }
        };
        self.peers[peer].early_count += 1;
        let next = self.peers[peer].next_number;
        let rank = |number: u32| number.wrapping_sub(next);
        let (mut before, mut at) = (NONE, self.peers[peer].early);
        while at != NONE && rank(self.incoming.at(at).expect("listed").number) < rank(number) {
            before = at;
            at = self.incoming.at(at).expect("listed").next_early;
        }
        self.incoming.at_mut(index).expect("just made").next_early = at;
        if before == NONE {
            self.peers[peer].early = index;
        } else {
            self.incoming.at_mut(before).expect("listed").next_early = index;
        }
        Verdict::Taken
    }

    pub(super) fn find_early(&self, peer: u32, number: u32) -> Option<u32> {
        let mut at = self.peers[peer].early;
        while at != NONE {
            let incoming = self.incoming.at(at).expect("listed");
            if incoming.number == number {
                return Some(at);
            }
            at = incoming.next_early;
        }
        None
    }

    /// After a message was taken: those that waited for it have their turn.
    pub(super) fn take_waiting(
        &mut self,
        peer: u32,
        cross: &mut Cross,
        memory: &mut impl HostMemory,
    ) {
        loop {
            let index = self.peers[peer].early;
            if index == NONE {
                return;
            }
            let Some(incoming) = self.incoming.at_mut(index) else { return };
            if incoming.number != self.peers[peer].next_number {
                return;
            }
            incoming.early = false;
            let next = incoming.next_early;
            let (void, number, wants) = (incoming.void, incoming.endpoint, incoming.wants);
            let total = incoming.total;
            let (node, source, bits) =
                (incoming.node, incoming.source_endpoint, incoming.match_bits);
            let entry = &mut self.peers[peer];
            (entry.early, entry.early_count) = (next, entry.early_count - 1);
            entry.next_number = entry.next_number.wrapping_add(1);
            match wants {
                Wants::Receive => {}
                _ if void => {}
                Wants::Put { .. } => {
                    self.take_waiting_put(index, memory);
                    continue;
                }
                Wants::Atomic { .. } => {
                    self.take_waiting_atomic(index, cross, memory);
                    continue;
                }
            }
            let open = if void { None } else { self.endpoint(number) };
            match open {
                // Cancelled, or its endpoint was closed since: it ends as an unexpected message would have.
                None => self.give_up(index),
                Some(open) => match self.take_posted(open, (node, source, bits), total) {
                    Some(posted) => self.hand_over(index, posted, memory),
                    None => {
                        self.counters.count(Counter::Unexpected);
                        self.list_unexpected(open, index);
                    }
                },
            }
        }
    }
}
