//! Every operator on every type, against a reference that is written another way: integers as numbers of unbounded
//! width, cut to size afterwards.

use std::vec;
use std::vec::Vec;

use emp_wire::{AtomicOp, Datatype};

use super::apply;

/// What the operator makes of whole numbers, before they are cut to size.
fn reference(operation: AtomicOp, target: i128, operand: i128, compare: i128) -> i128 {
    let choose = |condition: bool| if condition { operand } else { target };
    match operation {
        AtomicOp::Min => target.min(operand),
        AtomicOp::Max => target.max(operand),
        AtomicOp::Sum => target.wrapping_add(operand),
        AtomicOp::Prod => target.wrapping_mul(operand),
        AtomicOp::Lor => i128::from(target != 0 || operand != 0),
        AtomicOp::Land => i128::from(target != 0 && operand != 0),
        AtomicOp::Lxor => i128::from((target != 0) ^ (operand != 0)),
        AtomicOp::Bor => target | operand,
        AtomicOp::Band => target & operand,
        AtomicOp::Bxor => target ^ operand,
        AtomicOp::Read => target,
        AtomicOp::Write => operand,
        AtomicOp::Cswap => choose(compare == target),
        AtomicOp::CswapNe => choose(compare != target),
        AtomicOp::CswapLe => choose(compare <= target),
        AtomicOp::CswapLt => choose(compare < target),
        AtomicOp::CswapGe => choose(compare >= target),
        AtomicOp::CswapGt => choose(compare > target),
        AtomicOp::Mswap => (0..128).fold(0, |bits, i| {
            let from = if compare >> i & 1 == 1 { operand } else { target };
            bits | (from >> i & 1) << i
        }),
    }
}

fn signed(datatype: Datatype) -> bool {
    matches!(
        datatype,
        Datatype::Int8 | Datatype::Int16 | Datatype::Int32 | Datatype::Int64 | Datatype::Int128
    )
}

/// The number that some little-endian bytes are.
fn number(datatype: Datatype, bytes: &[u8]) -> i128 {
    let mut wide = [0; 16];
    wide[..bytes.len()].copy_from_slice(bytes);
    let unused = 128 - 8 * bytes.len() as u32;
    let value = i128::from_le_bytes(wide) << unused;
    if signed(datatype) { value >> unused } else { (value as u128 >> unused) as i128 }
}

/// Applies an operator to one element that lies at an odd address.
fn one(operation: AtomicOp, datatype: Datatype, values: [&[u8]; 3]) -> Vec<u8> {
    let odd = |bytes: &[u8]| [&[0xA5], bytes, &[0x5A]].concat();
    let [mut target, operand, compare] = values.map(odd);
    let within = 1..1 + datatype.bytes();
    let compare = if operation.compares() { &compare[within.clone()] } else { &[] };
    apply(operation, datatype, &mut target[within.clone()], &operand[within.clone()], compare);
    assert_eq!((target[0], target[within.end]), (0xA5, 0x5A), "only the element changes");
    target[within].to_vec()
}

fn integers() -> impl Iterator<Item = Datatype> {
    // Unsigned numbers of 128 bits do not fit the reference: they have a test of their own.
    let fits = |datatype: &Datatype| datatype.integer() && *datatype != Datatype::Uint128;
    Datatype::ALL.iter().copied().filter(fits)
}

fn check(operation: AtomicOp, datatype: Datatype, values: [&[u8]; 3]) {
    let [target, operand, compare] = values.map(|bytes| number(datatype, bytes));
    let expected = reference(operation, target, operand, compare);
    let got = one(operation, datatype, values);
    let cut = &expected.to_le_bytes()[..datatype.bytes()];
    assert_eq!(got, cut, "{operation:?} {datatype:?} {target} {operand} {compare}");
}

#[test]
fn all_pairs_of_bytes() {
    for datatype in [Datatype::Int8, Datatype::Uint8] {
        for operation in AtomicOp::ALL {
            for target in 0..=255u8 {
                for operand in 0..=255u8 {
                    let compare = operand.wrapping_mul(3).wrapping_add(target & 1);
                    check(*operation, datatype, [&[target], &[operand], &[compare]]);
                    check(*operation, datatype, [&[target], &[operand], &[target]]);
                }
            }
        }
    }
}

/// `ATOMIC-2`.
#[test]
fn integers_of_every_width() {
    let edges: [u128; 9] =
        [0, 1, 2, 0x7F, 0x80, 0xFFFF_FFFF, 1 << 63, u128::MAX >> 1, u128::MAX - 1];
    for datatype in integers() {
        // The least and the greatest of its width, too.
        let top = u128::MAX >> (128 - 8 * datatype.bytes());
        let values: Vec<_> = edges.into_iter().chain([top, top >> 1, (top >> 1) + 1]).collect();
        for operation in AtomicOp::ALL {
            for target in &values {
                for operand in &values {
                    for compare in [target, operand, &values[3]] {
                        let cut = |value: &u128| value.to_le_bytes()[..datatype.bytes()].to_vec();
                        let (t, o, c) = (cut(target), cut(operand), cut(compare));
                        check(*operation, datatype, [&t, &o, &c]);
                    }
                }
            }
        }
    }
}

#[test]
fn unsigned_numbers_of_128_bits() {
    let (big, small) = (u128::MAX - 4, 7u128);
    let run = |operation, target: u128, operand: u128, compare: u128| {
        let bytes = [target, operand, compare].map(u128::to_le_bytes);
        let got = one(operation, Datatype::Uint128, [&bytes[0], &bytes[1], &bytes[2]]);
        u128::from_le_bytes(got.try_into().unwrap())
    };
    assert_eq!(run(AtomicOp::Min, big, small, 0), small);
    assert_eq!(run(AtomicOp::Max, small, big, 0), big, "not negative");
    assert_eq!(run(AtomicOp::Sum, big, small, 0), 2);
    assert_eq!(run(AtomicOp::Prod, big, 3, 0), big.wrapping_mul(3));
    assert_eq!(run(AtomicOp::CswapGt, small, 1, big), 1);
    assert_eq!(run(AtomicOp::CswapLt, small, 1, big), small);
    assert_eq!(run(AtomicOp::Mswap, 0, u128::MAX, 1 << 127), 1 << 127);
}

#[test]
fn floats_and_doubles() {
    let values = [0.0f64, -0.0, 1.5, -2.25, 1e30, f64::INFINITY, f64::NAN];
    for target in values {
        for operand in values {
            for compare in [target, operand] {
                for operation in AtomicOp::ALL.iter().filter(|o| o.defined_for(Datatype::Double)) {
                    let swap = |condition| if condition { operand } else { target };
                    let truth = |condition| if condition { 1.0 } else { 0.0 };
                    let expected = match operation {
                        AtomicOp::Min => swap(operand < target),
                        AtomicOp::Max => swap(operand > target),
                        AtomicOp::Sum => target + operand,
                        AtomicOp::Prod => target * operand,
                        AtomicOp::Lor => truth(target != 0.0 || operand != 0.0),
                        AtomicOp::Land => truth(target != 0.0 && operand != 0.0),
                        AtomicOp::Lxor => truth((target != 0.0) != (operand != 0.0)),
                        AtomicOp::Read => target,
                        AtomicOp::Write => operand,
                        AtomicOp::Cswap => swap(compare == target),
                        AtomicOp::CswapNe => swap(compare != target),
                        AtomicOp::CswapLe => swap(compare <= target),
                        AtomicOp::CswapLt => swap(compare < target),
                        AtomicOp::CswapGe => swap(compare >= target),
                        AtomicOp::CswapGt => swap(compare > target),
                        _ => unreachable!("not defined for doubles"),
                    };
                    let d = [target, operand, compare].map(f64::to_le_bytes);
                    let got = one(*operation, Datatype::Double, [&d[0], &d[1], &d[2]]);
                    let got = f64::from_le_bytes(got.try_into().unwrap());
                    let same =
                        got.to_bits() == expected.to_bits() || got.is_nan() && expected.is_nan();
                    assert!(same, "{operation:?} {target} {operand} {compare}: {got}");
                    // The same in single precision: these values have no more bits than it holds, but for one.
                    if target.abs() != 1e30 && operand.abs() != 1e30 {
                        let f =
                            [target, operand, compare].map(|value| (value as f32).to_le_bytes());
                        let got = one(*operation, Datatype::Float, [&f[0], &f[1], &f[2]]);
                        let got = f32::from_le_bytes(got.try_into().unwrap());
                        let same = got == expected as f32 || got.is_nan() && expected.is_nan();
                        assert!(same, "float {operation:?} {target} {operand} {compare}: {got}");
                    }
                }
            }
        }
    }
}

#[test]
fn complex_numbers() {
    let double = |re: f64, im: f64| [re.to_le_bytes(), im.to_le_bytes()].concat();
    let float = |re: f64, im: f64| [(re as f32).to_le_bytes(), (im as f32).to_le_bytes()].concat();
    let cases = [
        (AtomicOp::Sum, (5.0, -1.0)),
        (AtomicOp::Prod, (18.0, 1.0)),
        (AtomicOp::Lor, (1.0, 0.0)),
        (AtomicOp::Land, (1.0, 0.0)),
        (AtomicOp::Lxor, (0.0, 0.0)),
        (AtomicOp::Read, (2.0, 3.0)),
        (AtomicOp::Write, (3.0, -4.0)),
        (AtomicOp::Cswap, (2.0, 3.0)),
        (AtomicOp::CswapNe, (3.0, -4.0)),
    ];
    for (operation, (re, im)) in cases {
        // (2 + 3i) and (3 - 4i); compared with (2 - 3i).
        let values = [double(2.0, 3.0), double(3.0, -4.0), double(2.0, -3.0)];
        let [t, o, c] = [&values[0], &values[1], &values[2]].map(|value| &value[..]);
        assert_eq!(
            one(operation, Datatype::DoubleComplex, [t, o, c]),
            double(re, im),
            "{operation:?}"
        );
        let values = [float(2.0, 3.0), float(3.0, -4.0), float(2.0, -3.0)];
        let [t, o, c] = [&values[0], &values[1], &values[2]].map(|value| &value[..]);
        assert_eq!(
            one(operation, Datatype::FloatComplex, [t, o, c]),
            float(re, im),
            "{operation:?}"
        );
    }
    // Only the imaginary part is not zero: true all the same.
    let (zero, i) = (double(0.0, 0.0), double(0.0, 1.0));
    assert_eq!(one(AtomicOp::Lor, Datatype::DoubleComplex, [&zero, &i, &zero]), double(1.0, 0.0));
}

#[test]
fn every_element_of_a_list() {
    let mut target: Vec<u8> = (0..10u32).flat_map(u32::to_le_bytes).collect();
    let operands: Vec<u8> = (100..110u32).flat_map(u32::to_le_bytes).collect();
    apply(AtomicOp::Sum, Datatype::Uint32, &mut target, &operands, &[]);
    let sums: Vec<u32> =
        target.chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap())).collect();
    assert_eq!(sums, (0..10).map(|i| 100 + 2 * i).collect::<Vec<_>>());
}

#[test]
fn short_lists_change_nothing_beyond_them() {
    let mut target = vec![1; 16];
    apply(AtomicOp::Sum, Datatype::Uint64, &mut target, &[1; 11], &[]);
    assert_eq!(target[..8], [2; 8]);
    assert_eq!(target[8..], [1; 8]);
    apply(AtomicOp::Cswap, Datatype::Uint64, &mut target, &[9; 16], &[2; 8]);
    assert_eq!(target[..8], [9; 8]);
    assert_eq!(target[8..], [1; 8], "nothing to compare with");
}
