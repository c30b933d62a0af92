//! SipHash-2-4 (Aumasson and Bernstein, 2012): a keyed hash of 64 bits that nobody without the key can foretell or invert. Nonces come
//! from it: who has seen some cannot make the next one, as he could from an invertible mix. Own, because it is forty lines that never change,
//! and the engine stays without dependencies.

/// A secret of 128 bits.
#[derive(Clone, Copy)]
pub(crate) struct SipKey(u64, u64);

impl SipKey {
    /// A key from a secret seed of 64 bits: what is drawn from it is as hard to guess as the seed.
    pub(crate) fn of(seed: u64) -> Self {
        let first = Self(seed, 0);
        Self(first.hash([0]), first.hash([1]))
    }

    /// The hash of some words, each as its eight bytes, little endian.
    pub(crate) fn hash<const N: usize>(&self, words: [u64; N]) -> u64 {
        let Self(k0, k1) = *self;
        let mut v = [
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        ];
        // The last block has the length in bytes, modulo 256, on top; whole words leave nothing else for it.
        let last = (8 * N as u64) << 56;
        for word in words.into_iter().chain([last]) {
            v[3] ^= word;
            (0..2).for_each(|_| round(&mut v));
            v[0] ^= word;
        }
        v[2] ^= 0xff;
        (0..4).for_each(|_| round(&mut v));
        v[0] ^ v[1] ^ v[2] ^ v[3]
    }
}

fn round([a, b, c, d]: &mut [u64; 4]) {
    *a = a.wrapping_add(*b);
    *c = c.wrapping_add(*d);
    *b = b.rotate_left(13) ^ *a;
    *d = d.rotate_left(16) ^ *c;
    *a = a.rotate_left(32);
    *c = c.wrapping_add(*b);
    *a = a.wrapping_add(*d);
    *b = b.rotate_left(17) ^ *c;
    *d = d.rotate_left(21) ^ *a;
    *c = c.rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paper's vectors: key 00 01 … 0f, message 00 01 … of 0, 8, 16 and 24 bytes.
    #[test]
    fn agrees_with_the_papers_vectors() {
        let key = SipKey(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);
        let word = |i: u64| 0x0706_0504_0302_0100 + 0x0808_0808_0808_0808 * i;
        assert_eq!(key.hash([]), 0x726f_db47_dd0e_0e31);
        assert_eq!(key.hash([word(0)]), 0x93f5_f579_9a93_2462);
        assert_eq!(key.hash([word(0), word(1)]), 0x3f2a_cc7f_57c2_9bdb);
        assert_eq!(key.hash([word(0), word(1), word(2)]), 0xb8ad_50c6_f649_af94);
    }
}
