//! The arithmetic of atomic operations: elements of any type, little endian, at any address (`ATOMIC-2`, `ATOMIC-3`).

mod element;
mod types;

#[cfg(test)]
mod tests;

use emp_wire::{AtomicOp, Datatype};

use element::apply_all;
use types::Complex;

/// Applies an operator to each element of `target`, with the operand, and what to compare with, that has its place.
/// Elements that the lists do not wholly hold are left as they are.
pub(crate) fn apply(
    operation: AtomicOp,
    datatype: Datatype,
    target: &mut [u8],
    operands: &[u8],
    compare: &[u8],
) {
    let run: fn(AtomicOp, &mut [u8], &[u8], &[u8]) = match datatype {
        Datatype::Int8 => apply_all::<i8>,
        Datatype::Uint8 => apply_all::<u8>,
        Datatype::Int16 => apply_all::<i16>,
        Datatype::Uint16 => apply_all::<u16>,
        Datatype::Int32 => apply_all::<i32>,
        Datatype::Uint32 => apply_all::<u32>,
        Datatype::Int64 => apply_all::<i64>,
        Datatype::Uint64 => apply_all::<u64>,
        Datatype::Int128 => apply_all::<i128>,
        Datatype::Uint128 => apply_all::<u128>,
        Datatype::Float => apply_all::<f32>,
        Datatype::Double => apply_all::<f64>,
        Datatype::FloatComplex => apply_all::<Complex<f32>>,
        Datatype::DoubleComplex => apply_all::<Complex<f64>>,
    };
    run(operation, target, operands, compare);
}
