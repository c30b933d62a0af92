//! Which atomic operations there are: `fi_atomicvalid` and its kin, `fi_query_atomic`.

use std::ffi::{c_int, c_void};

use emp_host::{AtomicOp, Datatype};

use crate::bindings::*;
use crate::domain::Domain;
use crate::endpoint::Ep;
use crate::entry::entry;
use crate::flags::QueryFlags;
use crate::objects::store;

/// The three families of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Family {
    /// Changes only.
    Base,
    /// Gives the old values back.
    Fetch,
    /// Changes what compares well, and gives the old values back.
    Compare,
}

/// libfabric's numbers of datatypes, in order. Long doubles are not offered: their format is not that of each machine.
const DATATYPES: [Option<Datatype>; 16] = [
    Some(Datatype::Int8),
    Some(Datatype::Uint8),
    Some(Datatype::Int16),
    Some(Datatype::Uint16),
    Some(Datatype::Int32),
    Some(Datatype::Uint32),
    Some(Datatype::Int64),
    Some(Datatype::Uint64),
    Some(Datatype::Float),
    Some(Datatype::Double),
    Some(Datatype::FloatComplex),
    Some(Datatype::DoubleComplex),
    None,
    None,
    Some(Datatype::Int128),
    Some(Datatype::Uint128),
];

/// libfabric's numbers of operators, in order.
const OPERATORS: [AtomicOp; 19] = [
    AtomicOp::Min,
    AtomicOp::Max,
    AtomicOp::Sum,
    AtomicOp::Prod,
    AtomicOp::Lor,
    AtomicOp::Land,
    AtomicOp::Bor,
    AtomicOp::Band,
    AtomicOp::Lxor,
    AtomicOp::Bxor,
    AtomicOp::Read,
    AtomicOp::Write,
    AtomicOp::Cswap,
    AtomicOp::CswapNe,
    AtomicOp::CswapLe,
    AtomicOp::CswapLt,
    AtomicOp::CswapGe,
    AtomicOp::CswapGt,
    AtomicOp::Mswap,
];

/// Datatype and operator, if there is such an operation in the family.
pub fn operation(family: Family, datatype: u32, op: u32) -> Option<(Datatype, AtomicOp)> {
    let datatype = (*DATATYPES.get(datatype as usize)?)?;
    let op = *OPERATORS.get(op as usize)?;
    let offered = match family {
        Family::Base => !op.compares() && op != AtomicOp::Read,
        Family::Fetch => !op.compares(),
        Family::Compare => op.compares(),
    };
    (offered && op.defined_for(datatype)).then_some((datatype, op))
}

/// Elements of one operation at most, if there is such an operation.
fn elements_max(domain_bytes: usize, family: Family, datatype: u32, op: u32) -> Option<usize> {
    let (datatype, _) = operation(family, datatype, op)?;
    let lists = if family == Family::Compare { 2 } else { 1 };
    Some(domain_bytes / (lists * datatype.bytes()))
}

/// Says how many elements an operation of the family takes at most.
fn valid(ep: &Ep, family: Family, datatype: u32, op: u32, count: *mut usize) -> c_int {
    let bytes = ep.inner.domain.node().atomic_bytes_max();
    match elements_max(bytes, family, datatype, op) {
        Some(most) => {
            store!(count, most);
            0
        }
        None => -libc::EOPNOTSUPP,
    }
}

entry! {
    pub fn writevalid(ep: &Ep, datatype: u32, op: u32, count: *mut usize) -> c_int {
        valid(ep, Family::Base, datatype, op, count)
    }

    pub fn readwritevalid(ep: &Ep, datatype: u32, op: u32, count: *mut usize) -> c_int {
        valid(ep, Family::Fetch, datatype, op, count)
    }

    pub fn compwritevalid(ep: &Ep, datatype: u32, op: u32, count: *mut usize) -> c_int {
        valid(ep, Family::Compare, datatype, op, count)
    }
}

entry! {
    /// `fi_query_collective`: there are none (decision 61).
    pub fn query_collective(
        domain: &Domain, _collective: u32, _attr: *mut c_void, _flags: u64,
    ) -> c_int {
        let _ = domain;
        -libc::EOPNOTSUPP
    }

    /// `fi_query_atomic`.
    pub fn query(
        domain: &Domain, datatype: u32, op: u32, attr: *mut FiAtomicAttr, flags: QueryFlags,
    ) -> c_int {
        let family = match flags {
            QueryFlags::NONE => Family::Base,
            QueryFlags::FETCH_ATOMIC => Family::Fetch,
            QueryFlags::COMPARE_ATOMIC => Family::Compare,
            _ => return -error::BADFLAGS,
        };
        let bytes = domain.inner.node().atomic_bytes_max();
        let Some((known, _)) = operation(family, datatype, op) else { return -libc::EOPNOTSUPP };
        let Some(count) = elements_max(bytes, family, datatype, op) else {
            return -libc::EOPNOTSUPP;
        };
        store!(attr, FiAtomicAttr { count, size: known.bytes() });
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_operators() {
        let (int32, double, long_double, sum, read, cswap, band) = (4, 9, 12, 2, 10, 12, 7);
        for family in [Family::Base, Family::Fetch] {
            assert_eq!(operation(family, int32, sum), Some((Datatype::Int32, AtomicOp::Sum)));
            assert_eq!(operation(family, int32, cswap), None);
            assert_eq!(operation(family, double, band), None);
            assert_eq!(operation(family, long_double, sum), None);
        }
        assert_eq!(operation(Family::Base, int32, read), None);
        assert!(operation(Family::Fetch, int32, read).is_some());
        assert!(operation(Family::Compare, double, cswap).is_some());
        assert_eq!(operation(Family::Compare, double, sum), None);
        assert_eq!(operation(Family::Base, 99, sum), None);
        assert_eq!(operation(Family::Base, int32, 99), None);
    }

    #[test]
    fn what_is_compared_takes_half_the_room() {
        assert_eq!(elements_max(1000, Family::Fetch, 7, 2), Some(125));
        assert_eq!(elements_max(1000, Family::Compare, 7, 12), Some(62));
    }
}
