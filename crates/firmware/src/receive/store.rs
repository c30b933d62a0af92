//! Messages that no receive is there for: stored in the pool, or, where there is no room, only their place in the order (`READY-1`).

use alloc::boxed::Box;

use emp_wire::NotReadyCause;

use super::bookkeeping::Outcome;
use super::{Incoming, Place, ReceiveSide};
use crate::counters::Counter;
use crate::event::Limit;
use crate::limits::{INCOMING_FEW, POOL_SLOT_BYTES, WITHOUT_ENDPOINT_MAX};
use crate::pair::milliseconds;
use crate::time::Time;

impl ReceiveSide {
    /// Stores a message that nothing waits for (yet) in the pool. No room there: the message comes back.
    pub(super) fn store(
        &mut self,
        mut incoming: Incoming,
        payload: &[u8],
    ) -> Result<u32, Box<Incoming>> {
        if self.crowded(incoming.peer) || self.is_too_much(&incoming) {
            return Err(Box::new(incoming));
        }
        let Some(chain) = self.pool.alloc(incoming.unscheduled as usize) else {
            return Err(Box::new(incoming));
        };
        self.pool.write(&chain, 0, payload);
        self.counters.add(Counter::BytesCopied, payload.len() as u64);
        incoming.place = Place::Pool(chain);
        let (peer, complete) = (incoming.peer, incoming.train_complete());
        let index = self.add_incoming(incoming).expect("not full");
        if !complete {
            self.link_progress(peer, index);
        }
        Ok(index)
    }

    /// A message has its place in the table. `None`: that is full.
    pub(super) fn add_incoming(&mut self, incoming: Incoming) -> Option<u32> {
        let (peer, number) = (incoming.peer, incoming.number);
        let named = incoming.deferred.is_some() || incoming.early;
        let (index, _) = self.incoming.insert(incoming)?;
        self.incoming_of.add(peer, index);
        if named {
            self.named.insert((peer, number), index);
        }
        Some(index)
    }

    /// What is longer than usual, as its sender could not know that nobody waits for it, leaves half of the pool to others.
    fn is_too_much(&self, incoming: &Incoming) -> bool {
        let (free, all) = self.pool.slots();
        u64::from(incoming.unscheduled) > self.profile.eager_bytes
            && u64::from(incoming.unscheduled).div_ceil(POOL_SLOT_BYTES as u64) + all as u64 / 2
                > free as u64
    }

    /// The rest of the table is for messages that a receive waits for, and for peers that have few in it: a flood of others must not lock
    /// them out.
    fn crowded(&self, peer: u32) -> bool {
        let (held, eighth) = (self.incoming.len(), self.incoming.limit() / 8);
        let few = || self.incoming_of.count(peer) <= self.incoming.limit() / INCOMING_FEW;
        held >= 6 * eighth && (held >= 7 * eighth || !few())
    }

    /// Keeps a message's place in the order without its bytes: they are pulled when it is matched.
    pub(super) fn defer(
        &mut self,
        mut incoming: Incoming,
        cause: NotReadyCause,
    ) -> Option<(u32, Outcome)> {
        if self.crowded(incoming.peer) {
            return None;
        }
        incoming.place = Place::Later;
        // A sender that waits for a `done` anyway keeps the bytes; others would forget them, and must be told.
        let outcome = if incoming.needs_done() && cause != NotReadyCause::NoEndpoint {
            Outcome::Taken
        } else {
            incoming.deferred = Some(cause);
            Outcome::Deferred(cause)
        };
        Some((self.add_incoming(incoming)?, outcome))
    }

    /// A message for an endpoint that is not open waits for that, for a while (`READY-3`).
    pub(super) fn keep_without_endpoint(&mut self, now: Time, mut incoming: Incoming) -> Outcome {
        if self.without_endpoint_count >= WITHOUT_ENDPOINT_MAX {
            self.reached.note(Limit::WithoutEndpoint);
            return Outcome::Refused;
        }
        incoming.without_endpoint_ms = Some(milliseconds(now));
        let number = incoming.endpoint.into();
        match self.defer(incoming, NotReadyCause::NoEndpoint) {
            Some((index, outcome)) => {
                self.waiting.push_back(&mut self.without_endpoint, index);
                self.without_endpoint_by_number.add(number, index);
                self.without_endpoint_count += 1;
                outcome
            }
            None => Outcome::Refused,
        }
    }
}
