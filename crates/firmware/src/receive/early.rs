//! Messages that overtook others: they wait in the pool for their turn.

use emp_wire::NotReadyCause;

use super::bookkeeping::{Outcome, Verdict};
use super::{Incoming, ReceiveSide, Wants};
use crate::counters::Counter;
use crate::limits::EARLY_MAX;
use crate::memory::HostMemory;

impl ReceiveSide {
    /// A message that overtook others waits in the pool for its turn.
    pub(super) fn take_early(&mut self, mut incoming: Incoming, payload: &[u8]) -> Verdict {
        let peer = incoming.peer;
        let matched = !incoming.void && matches!(incoming.wants, Wants::Receive);
        let without_endpoint = matched && self.endpoint(incoming.endpoint).is_none();
        // Half of the table is for messages in their turn: early ones must not lock those out that they wait for.
        let crowded = self.incoming.len() >= self.incoming.limit() / 2;
        let many = usize::from(self.peers[peer].early_count) >= EARLY_MAX;
        // What it will need in its turn is promised now: then it cannot be refused any more.
        if without_endpoint || crowded || many || !self.claim(&mut incoming, true) {
            self.counters.count(Counter::DropEarly);
            return Verdict::NotReady(NotReadyCause::Full);
        }
        incoming.early = true;
        let outcome = match self.store(incoming, payload) {
            Ok(_) => Some(Outcome::Taken),
            // It has its place in the order all the same, as in its turn; what needs its bytes then comes again.
            Err(incoming) if matched => {
                self.defer(*incoming, NotReadyCause::NoRoom).map(|(_, outcome)| outcome)
            }
            Err(incoming) => {
                self.forget_claims(&incoming);
                None
            }
        };
        let Some(outcome) = outcome else {
            self.counters.count(Counter::DropEarly);
            return Verdict::NotReady(NotReadyCause::Full);
        };
        self.peers[peer].early_count += 1;
        match outcome {
            Outcome::Deferred(cause) => Verdict::NotReady(cause),
            _ => Verdict::Taken,
        }
    }

    /// After a message was taken: those that waited for it have their turn.
    pub(super) fn take_waiting(&mut self, peer: u32, memory: &mut impl HostMemory) {
        loop {
            let entry = &mut self.peers[peer];
            if entry.early_count == 0 {
                return;
            }
            let name = (peer, entry.next_number);
            let Some(&index) = self.named.get(&name) else { return };
            let Some(incoming) = self.incoming.at_mut(index) else { return };
            incoming.early = false;
            if incoming.deferred.is_none() {
                self.named.remove(&name);
            }
            let (void, number, wants) = (incoming.void, incoming.endpoint, incoming.wants);
            let total = incoming.total;
            let (node, source, bits) =
                (incoming.node, incoming.source_endpoint, incoming.match_bits);
            entry.early_count -= 1;
            entry.next_number = entry.next_number.wrapping_add(1);
            match wants {
                Wants::Receive => {}
                _ if void => {}
                Wants::Put { .. } => {
                    self.take_waiting_put(index, memory);
                    continue;
                }
                Wants::Atomic { .. } => {
                    self.take_waiting_atomic(index, memory);
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
