//! One element, whatever its type: what every operator makes of it.

use emp_wire::AtomicOp;

/// A value that atomics work on.
pub(super) trait Element: Copy {
    /// Bytes of it.
    const BYTES: usize;
    /// From as many little-endian bytes.
    fn load(bytes: &[u8]) -> Self;
    /// To as many little-endian bytes.
    fn store(self, into: &mut [u8]);
    /// Zero or one.
    fn of(truth: bool) -> Self;
    fn is_zero(self) -> bool;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    /// `None`: they have no order (complex numbers, and what is not a number).
    fn order(self, other: Self) -> Option<core::cmp::Ordering>;
    fn same(self, other: Self) -> bool;
    /// Works on the bits of integers. `None`: it has none.
    fn bits(self, other: Self, operation: AtomicOp, mask: Self) -> Option<Self>;
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
    let swap = |condition: bool| if condition { operand } else { target };
    match operation {
        AtomicOp::Min => swap(operand.order(target) == Some(Less)),
        AtomicOp::Max => swap(operand.order(target) == Some(Greater)),
        AtomicOp::Sum => target.sum(operand),
        AtomicOp::Prod => target.product(operand),
        AtomicOp::Lor => E::of(!target.is_zero() || !operand.is_zero()),
        AtomicOp::Land => E::of(!target.is_zero() && !operand.is_zero()),
        AtomicOp::Lxor => E::of(target.is_zero() != operand.is_zero()),
        AtomicOp::Bor | AtomicOp::Band | AtomicOp::Bxor | AtomicOp::Mswap => {
            target.bits(operand, operation, compare).unwrap_or(target)
        }
        AtomicOp::Read => target,
        AtomicOp::Write => operand,
        AtomicOp::Cswap => swap(compare.same(target)),
        AtomicOp::CswapNe => swap(!compare.same(target)),
        AtomicOp::CswapLe => swap(matches!(order(), Some(Less | Equal))),
        AtomicOp::CswapLt => swap(order() == Some(Less)),
        AtomicOp::CswapGe => swap(matches!(order(), Some(Greater | Equal))),
        AtomicOp::CswapGt => swap(order() == Some(Greater)),
    }
}
