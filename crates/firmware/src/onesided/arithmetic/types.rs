//! The types of elements: integers, floats, complex numbers.

use core::cmp::Ordering;
use core::ops::{Add as _, BitAnd, BitOr, BitXor, Mul as _, Not};

use emp_wire::AtomicOp;

use super::element::Element;

macro_rules! numbers {
    ($($type:ty),*; $sum:ident, $product:ident, $bits:expr) => { $(
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
            fn sum(self, other: Self) -> Self {
                self.$sum(other)
            }
            fn product(self, other: Self) -> Self {
                self.$product(other)
            }
            fn order(self, other: Self) -> Option<Ordering> {
                self.partial_cmp(&other)
            }
            fn bits(self, other: Self, operation: AtomicOp, mask: Self) -> Option<Self> {
                $bits(self, other, operation, mask)
            }
        }
    )* };
}

numbers!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128; wrapping_add, wrapping_mul, bits_of);
numbers!(f32, f64; add, mul, |_, _, _, _| None);

fn bits_of<T>(target: T, operand: T, operation: AtomicOp, mask: T) -> Option<T>
where
    T: Copy + BitAnd<Output = T> + BitOr<Output = T> + BitXor<Output = T> + Not<Output = T>,
{
    Some(match operation {
        AtomicOp::Bor => target | operand,
        AtomicOp::Band => target & operand,
        AtomicOp::Bxor => target ^ operand,
        AtomicOp::Mswap => (operand & mask) | (target & !mask),
        _ => return None,
    })
}

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
            fn sum(self, other: Self) -> Self {
                Self { re: self.re + other.re, im: self.im + other.im }
            }
            fn product(self, other: Self) -> Self {
                Self {
                    re: self.re * other.re - self.im * other.im,
                    im: self.re * other.im + self.im * other.re,
                }
            }
        }
    )* };
}

complex!(f32, f64);
