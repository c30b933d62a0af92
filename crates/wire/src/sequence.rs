//! Serial arithmetic on 32-bit sequence numbers (`SEQ-1`; V21 of the VMMC-2 paper with c = 2^31).

/// A sequence number. It wraps; compare only through these methods.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sequence(pub u32);

impl Sequence {
    /// The number `n` places later.
    pub const fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }

    /// The number `n` places earlier.
    pub const fn minus(self, n: u32) -> Self {
        Self(self.0.wrapping_sub(n))
    }

    /// Signed distance from `earlier` to `self`: positive if `self` is later.
    pub const fn since(self, earlier: Self) -> i32 {
        self.0.wrapping_sub(earlier.0) as i32
    }

    /// True if `self` comes before `other`.
    pub const fn before(self, other: Self) -> bool {
        self.since(other) < 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_survives_the_wrap() {
        let last = Sequence(u32::MAX);
        assert!(last.before(last.plus(1)));
        assert!(!last.before(last) && !last.plus(1).before(last));
        assert_eq!(last.plus(3).since(last), 3);
        assert_eq!(last.since(last.plus(3)), -3);
        assert_eq!(Sequence(2).minus(5), Sequence(u32::MAX - 2));
    }

    /// V21's comparison, written as the paper's formula, agrees with ours for every live distance.
    #[test]
    fn agrees_with_the_vmmc2_formula() {
        const C: i64 = 1 << 31;
        let mr = |x: i64, y: i64| (x > y && x < y + C) || (x < y && x < y - C);
        for base in [0u32, 1, 77, u32::MAX - 300, u32::MAX, 1 << 31] {
            for step in [1u32, 2, 255, 256, 65_535, (1 << 31) - 1] {
                let (y, x) = (base, base.wrapping_add(step));
                assert!(mr(i64::from(x), i64::from(y)), "{x} is more recent than {y}");
                assert!(Sequence(y).before(Sequence(x)));
            }
        }
    }
}
