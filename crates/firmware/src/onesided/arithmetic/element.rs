//! One element, whatever its type: what every operator makes of it.

use emp_wire::AtomicOp;

/// A value that atomics work on.
pub(super) trait Element: Copy + PartialEq {
    /// Bytes of it.
    const BYTES: usize;
    /// From as many little-endian bytes.
    fn load(bytes: &[u8]) -> Self;
    /// To as many little-endian bytes.
    fn store(self, into: &mut [u8]);
    /// Zero or one.
    fn of(truth: bool) -> Self;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    /// `None`: they have no order (complex numbers, and what is not a number).
    fn order(self, _other: Self) -> Option<core::cmp::Ordering> {
        None
    }
    /// Works on the bits of integers. `None`: it has none.
    fn bits(self, _other: Self, _operation: AtomicOp, _mask: Self) -> Option<Self> {
        None
    }
}

/// Applies an operator to each element.
pub(super) fn apply_all<E: Element>(
    operation: AtomicOp,
    target: &mut [u8],
    operands: &[u8],
    compare: &[u8],
) {
    let mut compare = compare.chunks_exact(E::BYTES);
    for (place, operand) in target.chunks_exact_mut(E::BYTES).zip(operands.chunks_exact(E::BYTES)) {
        let with = match compare.next() {
            Some(bytes) => E::load(bytes),
            None if operation.compares() => return,
            None => E::of(false),
        };
        combine(operation, E::load(place), E::load(operand), with).store(place);
    }
}

/// What becomes of a target.
fn combine<E: Element>(operation: AtomicOp, target: E, operand: E, compare: E) -> E {
    use core::cmp::Ordering::{Equal, Greater, Less};
    let order = || compare.order(target);
    let truth = |value: E| value != E::of(false);
    let swap = |condition: bool| if condition { operand } else { target };
    match operation {
        AtomicOp::Min => swap(operand.order(target) == Some(Less)),
        AtomicOp::Max => swap(operand.order(target) == Some(Greater)),
        AtomicOp::Sum => target.sum(operand),
        AtomicOp::Prod => target.product(operand),
        AtomicOp::Lor => E::of(truth(target) || truth(operand)),
        AtomicOp::Land => E::of(truth(target) && truth(operand)),
        AtomicOp::Lxor => E::of(truth(target) != truth(operand)),
        AtomicOp::Bor | AtomicOp::Band | AtomicOp::Bxor | AtomicOp::Mswap => {
            target.bits(operand, operation, compare).unwrap_or(target)
        }
        AtomicOp::Read => target,
        AtomicOp::Write => operand,
        AtomicOp::Cswap => swap(compare == target),
        AtomicOp::CswapNe => swap(compare != target),
        AtomicOp::CswapLe => swap(matches!(order(), Some(Less | Equal))),
        AtomicOp::CswapLt => swap(order() == Some(Less)),
        AtomicOp::CswapGe => swap(matches!(order(), Some(Greater | Equal))),
        AtomicOp::CswapGt => swap(order() == Some(Greater)),
    }
}
