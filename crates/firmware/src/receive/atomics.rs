//! Atomics at their target (`ATOMIC-1`): executed once, in message order, all elements of one operation at once, by
//! whoever has the rights to (`ATOMIC-5`).

use emp_wire::DoneStatus;

use super::bookkeeping::Outcome;
use super::puts::wanted;
use super::{Incoming, Place, ReceiveSide, Wants};
use crate::counters::Counter;
use crate::cross::{Control, ToSend};
use crate::memory::HostMemory;
use crate::onesided::arithmetic;

impl ReceiveSide {
    /// An atomic whose turn it is.
    pub(super) fn take_atomic(
        &mut self,
        mut incoming: Incoming,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Outcome {
        if !self.claim(&mut incoming, false) {
            return Outcome::Refused;
        }
        let bytes = payload.len();
        self.grow_scratch(bytes);
        self.scratch[..bytes].copy_from_slice(payload);
        self.execute(&mut incoming, bytes, memory);
        Outcome::Taken
    }

    /// An atomic that waited in the pool for its turn.
    pub(super) fn take_waiting_atomic(&mut self, index: u32, memory: &mut impl HostMemory) {
        let Some(mut incoming) = self.take_incoming(index) else { return };
        let bytes = incoming.unscheduled as usize;
        self.grow_scratch(bytes);
        if let Place::Pool(chain) = core::mem::replace(&mut incoming.place, Place::Later) {
            self.pool.read(&chain, 0, &mut self.scratch[..bytes]);
            self.pool.free(chain);
        }
        self.execute(&mut incoming, bytes, memory);
    }

    /// Room for operands, what to compare with, and the elements. Stays as large as it once was: three frames at most.
    fn grow_scratch(&mut self, payload_bytes: usize) {
        // A read has no operands and may still fetch a frame of elements.
        let wanted = payload_bytes + usize::from(u16::MAX);
        if self.scratch.len() < wanted {
            self.scratch.resize(wanted, 0);
        }
    }

    /// Executes it with the operands in the scratch memory, and answers.
    fn execute(
        &mut self,
        incoming: &mut Incoming,
        payload_bytes: usize,
        memory: &mut impl HostMemory,
    ) {
        let status = match self.compute(incoming, payload_bytes, memory) {
            Ok(()) => DoneStatus::Complete,
            Err(status) => status,
        };
        if status == DoneStatus::Complete {
            self.counters.count(Counter::AtomicsServed);
        }
        match incoming.reply.take() {
            Some(values) if status == DoneStatus::Complete => {
                let control =
                    Control::Reply { handle: incoming.handle, status, values: Some(values) };
                self.to_send.push_back(ToSend::Control { peer: incoming.peer, control });
            }
            unused => {
                incoming.reply = unused;
                self.forget_claims(incoming);
                self.answer(incoming, status);
            }
        }
    }

    fn compute(
        &mut self,
        incoming: &Incoming,
        payload_bytes: usize,
        memory: &mut impl HostMemory,
    ) -> Result<(), DoneStatus> {
        let access = wanted(incoming);
        let region = self.find_region(&access)?;
        let Wants::Atomic { operation, datatype, .. } = incoming.wants else {
            return Err(DoneStatus::Abandoned);
        };
        let bytes = access.bytes as usize;
        let place = self.regions.part(region, access.offset, access.bytes).unwrap_or_default();
        let (payload, rest) = self.scratch.split_at_mut(payload_bytes);
        let target = rest.get_mut(..bytes).ok_or(DoneStatus::Abandoned)?;
        let fault = |_| DoneStatus::Fault;
        memory.read(place, target).map_err(fault).inspect_err(|_| {
            self.counters.count(Counter::RefusedFault);
        })?;
        if let Some(values) = incoming.reply {
            self.replies.write(values, target);
        }
        if operation.has_operands() {
            let (operands, compare) = payload.split_at(bytes.min(payload_bytes));
            arithmetic::apply(operation, datatype, target, operands, compare);
            memory.write(place, target).map_err(fault).inspect_err(|_| {
                self.counters.count(Counter::RefusedFault);
            })?;
        }
        Ok(())
    }
}
