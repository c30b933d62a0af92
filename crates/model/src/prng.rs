//! The simulator's own random numbers.
//!
//! A seed found today must replay the same run for years, so the generator is written out here instead of taken from a
//! crate whose next version may draw differently. It is xoshiro256** (Blackman and Vigna), seeded by splitmix64.

use core::ops::RangeInclusive;

/// Parts per million: how often a fault strikes. Integers, so that a plan prints and compares exactly.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Ppm(pub u32);

impl Ppm {
    /// Never.
    pub const NEVER: Self = Self(0);
    /// Always.
    pub const ALWAYS: Self = Self(1_000_000);

    /// So many percent.
    pub const fn percent(percent: u32) -> Self {
        Self(percent * 10_000)
    }
}

/// A seeded generator of random numbers.
#[derive(Clone, Debug)]
pub struct Prng([u64; 4]);

/// One step of splitmix64: spreads any 64 bits over all 64 bits.
pub const fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Prng {
    /// A generator that is determined by `seed` alone.
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(core::array::from_fn(|_| {
            let word = mix(state);
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            word
        }))
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`; 0 if `bound` is 0. The bias of the multiplication is below 2^-32 for all bounds used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.bits()) * u128::from(bound)) >> 64) as u64
    }

    /// An index below `bound`.
    pub fn index(&mut self, bound: usize) -> usize {
        self.below(bound as u64) as usize
    }

    /// A number in a range, both ends included.
    pub fn within(&mut self, range: RangeInclusive<u64>) -> u64 {
        range.start() + self.below(range.end() - range.start() + 1)
    }

    /// A number up to `max` whose *length in bits* is uniform: as many of about 10 as of about 1,000 or 1,000,000.
    pub fn log_uniform(&mut self, max: u64) -> u64 {
        let bits = self.below(u64::from(64 - max.leading_zeros()) + 1);
        if bits == 0 {
            return 0;
        }
        let low = 1u64 << (bits - 1);
        self.within(low..=low.saturating_mul(2).saturating_sub(1).min(max))
    }

    /// True at a rate of `rate`.
    pub fn chance(&mut self, rate: Ppm) -> bool {
        rate.0 > 0 && self.below(1_000_000) < u64::from(rate.0)
    }

    /// True in so many of 100 cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.chance(Ppm::percent(percent))
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.index(from.len())]
    }

    /// A generator of its own, so that drawing more here does not change what is drawn there.
    pub fn fork(&mut self) -> Self {
        Self::new(self.bits())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If this fails, every recorded seed means another run: don't change the generator.
    #[test]
    fn draws_are_fixed_for_ever() {
        let mut prng = Prng::new(1);
        let drawn: Vec<u64> = (0..3).map(|_| prng.bits()).collect();
        assert_eq!(drawn, [0xb3f2_af6d_0fc7_10c5, 0x853b_5596_4736_4cea, 0x92f8_9756_082a_4514]);
    }

    #[test]
    fn ranges_are_kept() {
        let mut prng = Prng::new(7);
        for _ in 0..10_000 {
            assert!(prng.below(3) < 3);
            assert!((5..=6).contains(&prng.within(5..=6)));
            assert!(prng.log_uniform(1_000_000) <= 1_000_000);
        }
        assert_eq!(prng.below(0), 0);
        assert_eq!(prng.log_uniform(0), 0);
        assert!(!prng.chance(Ppm::NEVER) && prng.chance(Ppm::ALWAYS));
    }
}
