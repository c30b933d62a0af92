//! The fault layer's own random numbers.

/// SplitMix64. Chosen because a seed must give the same faults for ever, whatever versions of
/// libraries come: it is five lines, takes any seed, and is far better than faults need.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        // The constants are the generator's definition (Steele, Lea and Flood, 2014).
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// True with this probability.
    pub(super) fn chance(&mut self, probability: f64) -> bool {
        // 53 bits are what a double holds exactly.
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// A number below `bound`; 0 if the bound is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        // The product's upper half: as even as faults need, and always one draw.
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_never_changes() {
        let mut random = Random::new(0);
        assert_eq!(random.next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(random.next(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn chances_are_fair() {
        let mut random = Random::new(7);
        let hits = (0..100_000).filter(|_| random.chance(0.25)).count();
        assert!((24_000..26_000).contains(&hits), "{hits}");
        assert!(!(0..1000).any(|_| random.chance(0.0)));
        assert!((0..1000).all(|_| random.chance(1.0)));
        assert!((0..1000).all(|_| random.below(3) < 3));
        assert_eq!(random.below(0), 0);
    }
}
