//! Puts at their target (`PUT-1`): matched to a region in message order, placed, answered (`PUT-2`), and perhaps
//! notified (`PUT-3`).

use emp_wire::DoneStatus;

use super::bookkeeping::Outcome;
use super::pulling::{Puller, Pulling};
use super::regions::Access;
use super::{Incoming, Place, ReceiveSide, Wants};
use crate::counters::Counter;
use crate::cross::ToSend;
use crate::descriptor::{Completion, OpId, OpKind, Status};
use crate::event::Limit;
use crate::limits::NOTIFICATIONS_MAX;
use crate::memory::{HostMemory, MemoryFault};
use crate::onesided::Rights;

impl ReceiveSide {
    /// A put whose turn it is.
    pub(super) fn take_put(
        &mut self,
        mut incoming: Incoming,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Outcome {
        let found = self.find_region(&wanted(&incoming));
        let (region, offset) = match (found, incoming.wants) {
            (Ok(region), Wants::Put { offset, .. }) => (region, offset),
            (found, _) => {
                // Its other frames find no message, and are discarded.
                self.answer(&incoming, found.err().unwrap_or(DoneStatus::Abandoned));
                return Outcome::Taken;
            }
        };
        let whole = incoming.received == incoming.unscheduled
            && u64::from(incoming.unscheduled) == incoming.total;
        if !whole && self.incoming.is_full() || !self.claim(&mut incoming, false) {
            return Outcome::Refused;
        }
        if whole {
            // One frame: nothing to remember.
            let place = Place::Region { region, offset };
            let status = match self.write_whole(&place, payload, memory) {
                Ok(_) => DoneStatus::Complete,
                Err(_) => {
                    self.counters.count(Counter::RefusedFault);
                    DoneStatus::Fault
                }
            };
            self.put_ended(&incoming, region, status);
            return Outcome::Taken;
        }
        incoming.place = Place::Region { region, offset };
        let (peer, number) = (incoming.peer, incoming.number);
        let index = self.add_incoming(incoming).expect("not full");
        self.order.put_begins(peer, number);
        self.link_progress(peer, index);
        self.pull_rest(index);
        self.place(Puller::Message(index), 0, payload, memory);
        self.advance(index, memory);
        Outcome::Taken
    }

    /// A put that waited in the pool for its turn.
    pub(super) fn take_waiting_put(&mut self, index: u32, memory: &mut impl HostMemory) {
        let arrived = self.arrived(index);
        let incoming = self.incoming.at(index).expect("the caller has it");
        let access = wanted(incoming);
        let (peer, number) = (incoming.peer, incoming.number);
        let region = match self.find_region(&access) {
            Ok(region) => region,
            Err(status) => return self.give_up_with(index, status),
        };
        let incoming = self.incoming.at_mut(index).expect("seen above");
        let place = Place::Region { region, offset: access.offset };
        let Place::Pool(chain) = core::mem::replace(&mut incoming.place, place) else { return };
        self.order.put_begins(peer, number);
        if self.unstore(index, chain, &arrived, memory).is_err() {
            return self.end_faulty(index);
        }
        self.pull_rest(index);
        self.advance(index, memory);
    }

    /// Asks for what the initiator does not send unasked.
    fn pull_rest(&mut self, index: u32) {
        let incoming = self.incoming.at_mut(index).expect("the caller has it");
        incoming.pulling = Pulling::of(incoming.unscheduled.into(), incoming.total);
        self.bring(index);
    }

    /// All bytes of a put are here.
    pub(super) fn put_arrived(&mut self, index: u32, memory: &mut impl HostMemory) {
        let Some(incoming) = self.take_incoming(index) else { return };
        let Place::Region { region, .. } = incoming.place else { return };
        let status = match self.write_kept(&incoming, memory) {
            Ok(()) => DoneStatus::Complete,
            Err(MemoryFault) => {
                self.counters.count(Counter::RefusedFault);
                DoneStatus::Fault
            }
        };
        self.put_ended(&incoming, region, status);
        self.put_over(incoming.peer, incoming.number);
    }

    /// Tells the initiator how a put ended, and the host if it is to be notified.
    fn put_ended(&mut self, incoming: &Incoming, region: u32, status: DoneStatus) {
        let told = incoming.notifies && status == DoneStatus::Complete;
        self.answer_when(incoming, status, told);
        if status != DoneStatus::Complete {
            return self.forget_claims(incoming);
        }
        self.counters.count(Counter::PutsServed);
        if incoming.notifies {
            self.notify(incoming, region);
        }
    }

    /// Says how an operation ended that is not in the table.
    pub(super) fn answer(&mut self, incoming: &Incoming, status: DoneStatus) {
        self.answer_when(incoming, status, false);
    }

    /// The same; with `may_wait` not before the program's answer, if that comes at once.
    fn answer_when(&mut self, incoming: &Incoming, status: DoneStatus, may_wait: bool) {
        let (peer, control) = (incoming.peer, incoming.answer(status));
        if may_wait {
            self.put_down(peer, control);
        } else {
            self.to_send.push_back(ToSend::Control { peer, control });
        }
    }

    fn notify(&mut self, incoming: &Incoming, region: u32) {
        let endpoint = if self.is_open(incoming.endpoint) {
            incoming.endpoint
        } else {
            self.regions.endpoint(region)
        };
        let op = OpId::new(OpKind::Notified, region, incoming.number);
        let envelope = incoming.envelope();
        let completion = envelope.completion(op, endpoint.into(), Status::Ok, incoming.total);
        self.tell_in_order(incoming.peer, incoming.number, completion);
    }

    /// Promises an operation what it needs besides its region: room for a notification or a reply. Those that come
    /// before their turn get no more than half of it, so that they don't lock out what they wait for.
    pub(super) fn claim(&mut self, incoming: &mut Incoming, early: bool) -> bool {
        match incoming.wants {
            _ if incoming.void => true,
            Wants::Receive => true,
            Wants::Put { .. } => {
                let most = if early { NOTIFICATIONS_MAX / 2 } else { NOTIFICATIONS_MAX };
                if incoming.immediate.is_some() {
                    incoming.notifies = self.notifications < most;
                    self.notifications += usize::from(incoming.notifies);
                    if !incoming.notifies && !early {
                        self.reached.note(Limit::Notifications);
                    }
                }
                incoming.notifies || incoming.immediate.is_none()
            }
            Wants::Atomic { fetch, datatype, count, .. } => {
                if fetch {
                    let bytes = datatype.bytes() as u32 * count;
                    incoming.reply = self.replies.reserve(incoming.peer, bytes, early);
                }
                incoming.reply.is_some() || !fetch
            }
        }
    }

    /// Gives back what an operation was promised and does not use.
    pub(super) fn forget_claims(&mut self, incoming: &Incoming) {
        self.notifications -= usize::from(incoming.notifies);
        if let Some(values) = incoming.reply {
            self.to_send.push_back(ToSend::Forget { values });
        }
        if matches!(incoming.place, Place::Region { .. }) {
            self.put_over(incoming.peer, incoming.number);
        }
    }

    /// The next completion for the host.
    pub(crate) fn next_completion(&mut self) -> Option<Completion> {
        let completion = self.completions.pop_front()?;
        self.notifications -= usize::from(completion.op.kind() == OpKind::Notified);
        Some(completion)
    }
}

/// What a put or atomic wants of its region.
pub(super) fn wanted(incoming: &Incoming) -> Access {
    let key = incoming.match_bits;
    match incoming.wants {
        Wants::Atomic { generation, offset, operation, datatype, count, fetch } => {
            let changes = operation != emp_wire::AtomicOp::Read;
            let read = if fetch || !changes { Rights::REMOTE_READ } else { Rights::NONE };
            let write = if changes { Rights::REMOTE_WRITE } else { Rights::NONE };
            let bytes = datatype.bytes() as u64 * u64::from(count);
            Access { key, generation, offset, bytes, rights: read.with(write) }
        }
        Wants::Put { generation, offset } => {
            let (bytes, rights) = (incoming.total, Rights::REMOTE_WRITE);
            Access { key, generation, offset, bytes, rights }
        }
        Wants::Receive => {
            Access { key, generation: 0, offset: 0, bytes: incoming.total, rights: Rights::NONE }
        }
    }
}
