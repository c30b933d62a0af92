//! The types of elements: integers, floats, complex numbers.

use core::cmp::Ordering;

use emp_wire::AtomicOp;

use super::element::Element;

macro_rules! integers {
    ($($type:ty),*) => { $(
        impl Element for $type {
            const BYTES: usize = size_of::<Self>();
            fn load(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the caller cut it to size"))
            }
            fn store(self, into: &mut [u8]) {
                into.copy_from_slice(&self.to_le_bytes());
            }
            fn of(truth: bool) -> Self {
                Self::from(truth)
            }
            fn is_zero(self) -> bool {
                self == 0
            }
            fn sum(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn product(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            fn order(self, other: Self) -> Option<Ordering> {
                Some(self.cmp(&other))
            }
            fn same(self, other: Self) -> bool {
                self == other
            }
            fn bits(self, other: Self, operation: AtomicOp, mask: Self) -> Option<Self> {
                Some(match operation {
                    AtomicOp::Bor => self | other,
                    AtomicOp::Band => self & other,
                    AtomicOp::Bxor => self ^ other,
                    AtomicOp::Mswap => (other & mask) | (self & !mask),
                    _ => return None,
                })
            }
        }
    )* };
}

integers!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);

macro_rules! floats {
    ($($type:ty),*) => { $(
        #[allow(clippy::float_cmp, reason = "equal means equal: the initiator compares with what it fetched")]
        impl Element for $type {
            const BYTES: usize = size_of::<Self>();
            fn load(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().expect("the caller cut it to size"))
            }
            fn store(self, into: &mut [u8]) {
                into.copy_from_slice(&self.to_le_bytes());
            }
            fn of(truth: bool) -> Self {
                if truth { 1.0 } else { 0.0 }
            }
            fn is_zero(self) -> bool {
                self == 0.0
            }
            fn sum(self, other: Self) -> Self {
                self + other
            }
            fn product(self, other: Self) -> Self {
                self * other
            }
            fn order(self, other: Self) -> Option<Ordering> {
                self.partial_cmp(&other)
            }
            fn same(self, other: Self) -> bool {
                self == other
            }
            fn bits(self, _: Self, _: AtomicOp, _: Self) -> Option<Self> {
                None
            }
        }
    )* };
}

floats!(f32, f64);

/// A complex number: real and imaginary part, in this order in memory.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Complex<F> {
    pub(super) re: F,
    pub(super) im: F,
}

macro_rules! complex {
    ($($type:ty),*) => { $(
        impl Element for Complex<$type> {
            const BYTES: usize = 2 * size_of::<$type>();
            fn load(bytes: &[u8]) -> Self {
                let (re, im) = bytes.split_at(size_of::<$type>());
                Self { re: Element::load(re), im: Element::load(im) }
            }
            fn store(self, into: &mut [u8]) {
                let (re, im) = into.split_at_mut(size_of::<$type>());
                self.re.store(re);
                self.im.store(im);
            }
            fn of(truth: bool) -> Self {
                Self { re: Element::of(truth), im: 0.0 }
            }
            fn is_zero(self) -> bool {
                self.re == 0.0 && self.im == 0.0
            }
            fn sum(self, other: Self) -> Self {
                Self { re: self.re + other.re, im: self.im + other.im }
            }
            fn product(self, other: Self) -> Self {
                Self {
                    re: self.re * other.re - self.im * other.im,
                    im: self.re * other.im + self.im * other.re,
                }
            }
            fn order(self, _: Self) -> Option<Ordering> {
                None
            }
            fn same(self, other: Self) -> bool {
                self == other
            }
            fn bits(self, _: Self, _: AtomicOp, _: Self) -> Option<Self> {
                None
            }
        }
    )* };
}

complex!(f32, f64);
