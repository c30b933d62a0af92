//! Atomic operations: `fi_atomic`, `fi_fetch_atomic`, `fi_compare_atomic` and their kin.

use std::ffi::{c_int, c_void};

use emp_host::{AtomicOp, Datatype};

use crate::bindings::*;
use crate::domain::Domain;
use crate::endpoint::Ep;
use crate::entry::enter;
use crate::handle::{list, object, store};
use crate::info::INJECT_BYTES;
use crate::remote::Atomic;
use crate::tables::AtomicOps;

pub static OPS: AtomicOps = AtomicOps {
    size: size_of::<AtomicOps>(),
    write,
    writev,
    writemsg,
    inject,
    readwrite,
    readwritev,
    readwritemsg,
    compwrite,
    compwritev,
    compwritemsg,
    writevalid,
    readwritevalid,
    compwritevalid,
};

const EINVAL: isize = -(libc::EINVAL as isize);
const EOPNOTSUPP: isize = -(libc::EOPNOTSUPP as isize);

/// The three families of calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Family {
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
fn operation(family: Family, datatype: u32, op: u32) -> Option<(Datatype, AtomicOp)> {
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

/// The parts of one call.
struct Call<'a> {
    family: Family,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    operands: &'a [FiIoc],
    compare: &'a [FiIoc],
    result: &'a [FiIoc],
    context: *mut c_void,
    flags: Option<u64>,
    nameless: bool,
}

impl Call<'_> {
    /// # Safety
    ///
    /// As [`crate::endpoint::EpInner::atomic`].
    unsafe fn post(&self, ep: &Ep) -> isize {
        let Some((datatype, operation)) = operation(self.family, self.datatype, self.op) else {
            return EOPNOTSUPP;
        };
        if self.nameless
            && self.operands.iter().map(|part| part.count * datatype.bytes()).sum::<usize>()
                > INJECT_BYTES
        {
            return -(libc::EMSGSIZE as isize);
        }
        let atomic = Atomic {
            peer: self.peer,
            offset: self.offset,
            key: self.key,
            datatype,
            operation,
            operands: self.operands,
            compare: (self.family == Family::Compare).then_some(self.compare),
            result: (self.family != Family::Base).then_some(self.result),
            context: self.context.expose_provenance(),
            flags: self.flags,
            nameless: self.nameless,
        };
        // SAFETY: the caller's promise.
        unsafe { ep.inner.atomic(&atomic) }
    }
}

#[inline]
fn ioc(addr: *const c_void, count: usize) -> [FiIoc; 1] {
    [FiIoc { addr: addr.cast_mut(), count }]
}

/// The call of a `…msg` function, whose remote side is one run of as many elements. `None`: it is not.
fn of_message<'a>(
    family: Family,
    message: &'a FiMsgAtomic,
    operands: &'a [FiIoc],
    remote: &[FiRmaIoc],
    others: (&'a [FiIoc], &'a [FiIoc]),
    flags: u64,
) -> Option<Call<'a>> {
    let [remote] = remote else { return None };
    let counted = if operands.is_empty() { others.1 } else { operands };
    let count = counted.iter().try_fold(0usize, |sum, part| sum.checked_add(part.count))?;
    (count == remote.count).then_some(Call {
        family,
        peer: message.addr,
        offset: remote.addr,
        key: remote.key,
        datatype: message.datatype,
        op: message.op,
        operands,
        compare: others.0,
        result: others.1,
        context: message.context,
        flags: Some(flags),
        nameless: false,
    })
}

unsafe extern "C" fn write(
    ep: *mut Ep,
    buffer: *const c_void,
    count: usize,
    desc: *mut c_void,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let (list, mut desc) = (ioc(buffer, count), desc);
        // SAFETY: the same buffer under the same rules.
        unsafe {
            writev(ep, list.as_ptr(), &raw mut desc, 1, peer, offset, key, datatype, op, context)
        }
    })
}

unsafe extern "C" fn writev(
    ep: *mut Ep,
    iov: *const FiIoc,
    _desc: *mut *mut c_void,
    count: usize,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Base,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: list!(iov, count),
            compare: &[],
            result: &[],
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

unsafe extern "C" fn writemsg(ep: *mut Ep, message: *const FiMsgAtomic, flags: u64) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let message: &FiMsgAtomic = object!(message);
        let operands = list!(message.msg_iov, message.iov_count);
        let remote = list!(message.rma_iov, message.rma_iov_count);
        match of_message(Family::Base, message, operands, remote, (&[], &[]), flags) {
            // SAFETY: libfabric's rules.
            Some(call) => unsafe { call.post(ep) },
            None => EINVAL,
        }
    })
}

unsafe extern "C" fn inject(
    ep: *mut Ep,
    buffer: *const c_void,
    count: usize,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Base,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: &ioc(buffer, count),
            compare: &[],
            result: &[],
            context: std::ptr::null_mut(),
            flags: None,
            nameless: true,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

unsafe extern "C" fn readwrite(
    ep: *mut Ep,
    buffer: *const c_void,
    count: usize,
    _desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Fetch,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: &ioc(buffer, count),
            compare: &[],
            result: &ioc(result, count),
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

unsafe extern "C" fn readwritev(
    ep: *mut Ep,
    iov: *const FiIoc,
    _desc: *mut *mut c_void,
    count: usize,
    resultv: *const FiIoc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Fetch,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: list!(iov, count),
            compare: &[],
            result: list!(resultv, result_count),
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

unsafe extern "C" fn readwritemsg(
    ep: *mut Ep,
    message: *const FiMsgAtomic,
    resultv: *const FiIoc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let message: &FiMsgAtomic = object!(message);
        let operands = list!(message.msg_iov, message.iov_count);
        let remote = list!(message.rma_iov, message.rma_iov_count);
        let others = (&[][..], list!(resultv, result_count));
        match of_message(Family::Fetch, message, operands, remote, others, flags) {
            // SAFETY: libfabric's rules.
            Some(call) => unsafe { call.post(ep) },
            None => EINVAL,
        }
    })
}

unsafe extern "C" fn compwrite(
    ep: *mut Ep,
    buffer: *const c_void,
    count: usize,
    _desc: *mut c_void,
    compare: *const c_void,
    _compare_desc: *mut c_void,
    result: *mut c_void,
    _result_desc: *mut c_void,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Compare,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: &ioc(buffer, count),
            compare: &ioc(compare, count),
            result: &ioc(result, count),
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

unsafe extern "C" fn compwritev(
    ep: *mut Ep,
    iov: *const FiIoc,
    _desc: *mut *mut c_void,
    count: usize,
    comparev: *const FiIoc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *const FiIoc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    peer: FiAddr,
    offset: u64,
    key: u64,
    datatype: u32,
    op: u32,
    context: *mut c_void,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let call = Call {
            family: Family::Compare,
            peer,
            offset,
            key,
            datatype,
            op,
            operands: list!(iov, count),
            compare: list!(comparev, compare_count),
            result: list!(resultv, result_count),
            context,
            flags: None,
            nameless: false,
        };
        // SAFETY: libfabric's rules.
        unsafe { call.post(ep) }
    })
}

unsafe extern "C" fn compwritemsg(
    ep: *mut Ep,
    message: *const FiMsgAtomic,
    comparev: *const FiIoc,
    _compare_desc: *mut *mut c_void,
    compare_count: usize,
    resultv: *const FiIoc,
    _result_desc: *mut *mut c_void,
    result_count: usize,
    flags: u64,
) -> isize {
    enter(|| -> isize {
        let ep: &Ep = object!(ep.cast_const());
        let message: &FiMsgAtomic = object!(message);
        let operands = list!(message.msg_iov, message.iov_count);
        let remote = list!(message.rma_iov, message.rma_iov_count);
        let others = (list!(comparev, compare_count), list!(resultv, result_count));
        match of_message(Family::Compare, message, operands, remote, others, flags) {
            // SAFETY: libfabric's rules.
            Some(call) => unsafe { call.post(ep) },
            None => EINVAL,
        }
    })
}

/// Says how many elements an operation of the family takes at most.
fn valid(ep: *mut Ep, family: Family, datatype: u32, op: u32, count: *mut usize) -> c_int {
    let ep: &Ep = object!(ep.cast_const());
    let bytes = ep.inner.domain.node.atomic_bytes_max();
    match elements_max(bytes, family, datatype, op) {
        Some(most) => {
            store!(count, most);
            0
        }
        None => -libc::EOPNOTSUPP,
    }
}

unsafe extern "C" fn writevalid(ep: *mut Ep, datatype: u32, op: u32, count: *mut usize) -> c_int {
    enter(|| -> c_int { valid(ep, Family::Base, datatype, op, count) })
}

unsafe extern "C" fn readwritevalid(
    ep: *mut Ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    enter(|| -> c_int { valid(ep, Family::Fetch, datatype, op, count) })
}

unsafe extern "C" fn compwritevalid(
    ep: *mut Ep,
    datatype: u32,
    op: u32,
    count: *mut usize,
) -> c_int {
    enter(|| -> c_int { valid(ep, Family::Compare, datatype, op, count) })
}

/// Flags of `fi_query_atomic`.
const FETCH_ATOMIC: u64 = 1 << 58;
const COMPARE_ATOMIC: u64 = 1 << 59;

/// `fi_query_atomic`.
pub unsafe extern "C" fn query(
    domain: *mut Domain,
    datatype: u32,
    op: u32,
    attr: *mut FiAtomicAttr,
    flags: u64,
) -> c_int {
    enter(|| -> c_int {
        let domain: &Domain = object!(domain.cast_const());
        let family = match flags {
            0 => Family::Base,
            FETCH_ATOMIC => Family::Fetch,
            COMPARE_ATOMIC => Family::Compare,
            _ => return -error::BADFLAGS,
        };
        let bytes = domain.inner.node.atomic_bytes_max();
        let Some((known, _)) = operation(family, datatype, op) else { return -libc::EOPNOTSUPP };
        let Some(count) = elements_max(bytes, family, datatype, op) else {
            return -libc::EOPNOTSUPP;
        };
        store!(attr, FiAtomicAttr { count, size: known.bytes() });
        0
    })
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
