//! Copying and summing (CRC32C) in one pass.
//!
//! Each byte is loaded once and is in a register for both, where the sum alone would wait for memory as long as the copy does. The
//! sum is folded by carry-less multiplication, four times 64 bytes at a time (V. Gopal et al., "Fast CRC Computation for Generic
//! Polynomials Using PCLMULQDQ Instruction", Intel 2009, for bit-reflected polynomials).
//!
//! # Invariant
//!
//! Only processors that have the instructions run [`wide`]; it reads `bytes` bytes from `from` and writes as many to `to`, and
//! touches nothing else. It works on raw pointers, and memory that overlaps only makes for wrong bytes.

use emp_wire::Checksum;

/// Runs shorter than this, in bytes, are copied and then summed: the wide way begins with so many.
const WIDE_BYTES_MIN: usize = 256;

/// Copies `bytes` bytes and takes what was copied into `sum`.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of so many bytes, nobody writes to either meanwhile, and no reference to what
/// is at `to` is in use.
#[inline]
pub(crate) unsafe fn copy_and_sum(from: *const u8, to: *mut u8, bytes: usize, sum: &mut Checksum) {
    #[cfg(target_arch = "x86_64")]
    if bytes >= WIDE_BYTES_MIN && x86::is_wide() {
        // SAFETY: the processor has the instructions; the rest is the caller's promise.
        *sum = Checksum::from_state(unsafe { x86::wide(sum.state(), from, to, bytes) });
        return;
    }
    // SAFETY: by the caller's promise. `copy` and not `copy_nonoverlapping`: a raw caller may send from memory that it also
    // receives into.
    unsafe {
        std::ptr::copy(from, to, bytes);
        sum.update(std::slice::from_raw_parts(to, bytes));
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    /// CRC32C's polynomial without its highest term, the highest bit first.
    const POLYNOMIAL: u32 = 0x1EDC_6F41;

    /// x to the `power`th, modulo the polynomial, reflected, as the multiplication of reflected values wants it.
    const fn power_of_x(power: u32) -> i64 {
        let (mut value, mut done) = (1u32, 0);
        while done < power {
            let carry = value >> 31 == 1;
            value = value << 1 ^ if carry { POLYNOMIAL } else { 0 };
            done += 1;
        }
        (value.reverse_bits() as i64) << 1
    }

    /// What a value's two halves are multiplied by so that it stands `bits` bits further on.
    const fn ahead(bits: u32) -> [i64; 2] {
        [power_of_x(bits + 32), power_of_x(bits - 32)]
    }

    const BLOCK: [i64; 2] = ahead(512);
    const FOUR_BLOCKS: [i64; 2] = ahead(2048);
    const LANES: [[i64; 2]; 3] = [ahead(384), ahead(256), ahead(128)];

    /// True if this processor can. Asked anew each time: the answer is kept by the standard library.
    #[inline]
    pub(super) fn is_wide() -> bool {
        is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("vpclmulqdq")
            && is_x86_feature_detected!("sse4.2")
    }

    /// `value` moved on by what `by` says, plus what stands there.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq")]
    fn fold(value: __m512i, by: __m512i, there: __m512i) -> __m512i {
        let low = _mm512_clmulepi64_epi128::<0x00>(value, by);
        let high = _mm512_clmulepi64_epi128::<0x11>(value, by);
        // Of three, exclusive or.
        _mm512_ternarylogic_epi64::<0x96>(low, high, there)
    }

    /// Copies 64 bytes, and returns them.
    ///
    /// # Safety
    ///
    /// As [`wide`]'s, for 64 bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn pass(from: *const u8, to: *mut u8) -> __m512i {
        // SAFETY: by the caller's promise; neither needs to be aligned.
        unsafe {
            let bytes = _mm512_loadu_si512(from.cast());
            _mm512_storeu_si512(to.cast(), bytes);
            bytes
        }
    }

    /// Copies `bytes` bytes, at least [`WIDE_BYTES_MIN`](super::WIDE_BYTES_MIN), and returns what they make of a sum's `state`.
    ///
    /// # Safety
    ///
    /// `from` is valid for reads and `to` for writes of so many bytes.
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    pub(super) unsafe fn wide(state: u32, from: *const u8, to: *mut u8, bytes: usize) -> u32 {
        let twice =
            |by: [i64; 2]| _mm512_set_epi64(by[1], by[0], by[1], by[0], by[1], by[0], by[1], by[0]);
        let mut at = 256;
        // SAFETY: there are at least 256 bytes.
        let mut sums: [__m512i; 4] =
            std::array::from_fn(|i| unsafe { pass(from.add(64 * i), to.add(64 * i)) });
        let begun = _mm512_zextsi128_si512(_mm_cvtsi32_si128(state.cast_signed()));
        sums[0] = _mm512_xor_si512(sums[0], begun);
        let by = twice(FOUR_BLOCKS);
        while bytes - at >= 256 {
            for (i, sum) in sums.iter_mut().enumerate() {
                // SAFETY: there are 256 more.
                let next = unsafe { pass(from.add(at + 64 * i), to.add(at + 64 * i)) };
                *sum = fold(*sum, by, next);
            }
            at += 256;
        }
        let by = twice(BLOCK);
        let mut sum = fold(fold(fold(sums[0], by, sums[1]), by, sums[2]), by, sums[3]);
        while bytes - at >= 64 {
            // SAFETY: there are 64 more.
            sum = fold(sum, by, unsafe { pass(from.add(at), to.add(at)) });
            at += 64;
        }
        let mut state = narrow(sum);
        while bytes - at >= 8 {
            // SAFETY: there are 8 more; neither needs to be aligned.
            let word = unsafe {
                let word = from.add(at).cast::<u64>().read_unaligned();
                to.add(at).cast::<u64>().write_unaligned(word);
                word
            };
            state = _mm_crc32_u64(state, word);
            at += 8;
        }
        let mut state = state as u32;
        while at < bytes {
            // SAFETY: there is one more.
            let byte = unsafe {
                let byte = from.add(at).read();
                to.add(at).write(byte);
                byte
            };
            state = _mm_crc32_u8(state, byte);
            at += 1;
        }
        state
    }

    /// The sum's state after 64 bytes that are folded into these.
    #[inline]
    #[target_feature(enable = "avx512f,vpclmulqdq,sse4.2")]
    fn narrow(sum: __m512i) -> u64 {
        let [first, second, third] = LANES;
        // The last lane stands where it is to be: times nothing, and added as it is.
        let by =
            _mm512_set_epi64(0, 0, third[1], third[0], second[1], second[0], first[1], first[0]);
        let last = _mm512_maskz_mov_epi64(0b1100_0000, sum);
        let folded = fold(sum, by, last);
        let pairs = _mm256_xor_si256(
            _mm512_castsi512_si256(folded),
            _mm512_extracti64x4_epi64::<1>(folded),
        );
        let one =
            _mm_xor_si128(_mm256_castsi256_si128(pairs), _mm256_extracti128_si256::<1>(pairs));
        let (low, high) = (_mm_cvtsi128_si64(one), _mm_extract_epi64::<1>(one));
        let state = _mm_crc32_u64(0, low.cast_unsigned());
        _mm_crc32_u64(state, high.cast_unsigned())
    }

    #[cfg(test)]
    mod tests {
        /// The constants that the paper's method gives for this polynomial and 512 bits, as published many times.
        #[test]
        fn constants_are_the_known_ones() {
            assert_eq!(super::BLOCK, [0x0_740e_ef02, 0x0_9e4a_ddf8]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Lengths around every step of the wide way, and any alignment of both ends.
        #[test]
        fn as_a_copy_and_then_a_sum(
            bytes in prop::collection::vec(any::<u8>(), 0..2_000),
            before in prop::collection::vec(any::<u8>(), 0..40),
            shift in 0usize..70,
        ) {
            let mut copy = vec![0xEE; shift + bytes.len() + 1];
            let mut sum = Checksum::of(&before);
            // SAFETY: both are as long as said.
            unsafe {
                copy_and_sum(bytes.as_ptr(), copy[shift..].as_mut_ptr(), bytes.len(), &mut sum);
            }
            prop_assert_eq!(&copy[shift..shift + bytes.len()], &bytes[..]);
            prop_assert!(copy[..shift].iter().all(|byte| *byte == 0xEE));
            prop_assert_eq!(copy[shift + bytes.len()], 0xEE);
            let mut expected = Checksum::of(&before);
            expected.update(&bytes);
            prop_assert_eq!(sum.value(), expected.value());
        }
    }

    #[test]
    fn every_length_of_a_frame() {
        let bytes: Vec<u8> = (0..9_000u32).map(|i| ((i * i) >> 3) as u8).collect();
        for length in (0..1_500).chain(8_900..9_000) {
            let mut copy = vec![0; length];
            let (mut sum, mut expected) = (Checksum::of(b"head"), Checksum::of(b"head"));
            // SAFETY: both are as long as said.
            unsafe { copy_and_sum(bytes.as_ptr(), copy.as_mut_ptr(), length, &mut sum) };
            expected.update(&bytes[..length]);
            assert_eq!(sum.value(), expected.value(), "{length}");
            assert!(copy == bytes[..length], "{length}");
        }
    }
}
