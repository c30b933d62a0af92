//! `atomic`: elements of a node's exported memory are to be changed, once, in message order (`ATOMIC-1`).
//!
//! The header's word is the message number of the pair. After the target (40 bytes): operator (1), datatype (1), 0 (2),
//! number of elements (4); then, as payload, the operands, and after them what to compare with, if the operator compares.
//! With FETCH the old values are wanted: the handle names the fetch, and the answer is a `done` with REPLY that carries
//! them.

use crate::Reason;
use crate::header::u32_at;
use crate::operation::{AtomicOp, Datatype};
use crate::target::{TARGET_BYTES, Target};

/// Bytes of the body.
pub const ATOMIC_BYTES: usize = TARGET_BYTES + 8;

/// Body of an `atomic` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Atomic {
    /// Where the elements are.
    pub target: Target,
    /// What to do with them.
    pub operation: AtomicOp,
    /// What they are.
    pub datatype: Datatype,
    /// How many there are, at least 1.
    pub count: u32,
}

impl Atomic {
    /// Bytes of all elements together.
    pub const fn element_bytes(operation: (Datatype, u32)) -> u64 {
        operation.0.bytes() as u64 * operation.1 as u64
    }

    /// Bytes of payload that an operator takes for so many bytes of elements.
    pub const fn payload_bytes(operation: AtomicOp, element_bytes: u64) -> u64 {
        let lists = operation.has_operands() as u64 + operation.compares() as u64;
        lists * element_bytes
    }

    /// Writes the body and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        self.target.emit(into);
        (into[40], into[41]) = (self.operation as u8, self.datatype as u8);
        into[42..44].fill(0);
        into[44..48].copy_from_slice(&self.count.to_be_bytes());
        ATOMIC_BYTES
    }

    /// Reads the body; returns it and the payload, which is as long as operator, datatype and count say.
    pub fn parse(body: &[u8]) -> Result<(Self, &[u8]), Reason> {
        if body.len() < ATOMIC_BYTES {
            return Err(Reason::BodyShort);
        }
        let (fields, payload) = body.split_at(ATOMIC_BYTES);
        let (target, _) = Target::parse(fields)?;
        let operation = AtomicOp::from_number(fields[40]).ok_or(Reason::Field)?;
        let datatype = Datatype::from_number(fields[41]).ok_or(Reason::Field)?;
        let atomic = Self { target, operation, datatype, count: u32_at(fields, 44) };
        let elements = Self::element_bytes((datatype, atomic.count));
        let fits = payload.len() as u64 == Self::payload_bytes(operation, elements);
        // The old values must fit one frame too, whether they are wanted or not.
        let sane = elements > 0 && elements <= u64::from(u16::MAX);
        if fits && sane && operation.defined_for(datatype) {
            Ok((atomic, payload))
        } else {
            Err(Reason::Field)
        }
    }
}
