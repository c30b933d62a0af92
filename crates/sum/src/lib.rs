//! CRC32C (SPEC `CRC-1`) of short runs of bytes and of words in registers, by the processor's own instruction.
//!
//! A frame of a small message is summed where it lies, its header from the registers in which it was made or read. Summed in
//! memory it would have to be copied first, to put the seed in the place of the checksum, and each load of 8 bytes that lies
//! across two earlier stores waits for both to reach the cache: twice 20 ns of a message's 1,000.
//!
//! # Invariant
//!
//! Only processors that have the instruction run [`x86::run`] and [`x86::run_after`], which read what they are given and nothing else.

/// Most bytes that are worth summing here: the instruction takes 3 cycles for 8 bytes, one after the other, and longer runs
/// are quicker by multiplication without carries.
pub const SHORT_BYTES_MAX: usize = 288;

/// The register of a CRC32C, before its last inversion, after `bytes`. `None`: this processor has no such instruction, or there are
/// more than [`SHORT_BYTES_MAX`].
#[inline]
pub fn short(state: u32, bytes: &[u8]) -> Option<u32> {
    if bytes.len() > SHORT_BYTES_MAX {
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return Some(unsafe { x86::run(state.into(), bytes) });
    }
    let _ = state;
    None
}

/// The same after four words, first byte lowest, and then `bytes`. The words are handed over in registers: where they are stored as well,
/// no load then has to wait for that.
#[inline(always)]
pub fn short_after(state: u32, [a, b, c, d]: [u64; 4], bytes: &[u8]) -> Option<u32> {
    if bytes.len() > SHORT_BYTES_MAX {
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has the instruction.
        return Some(unsafe { x86::run_after(state, a, b, c, d, bytes) });
    }
    let _ = (state, a, b, c, d);
    None
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u16, _mm_crc32_u32, _mm_crc32_u64};

    #[target_feature(enable = "sse4.2")]
    pub(super) fn run_after(state: u32, a: u64, b: u64, c: u64, d: u64, bytes: &[u8]) -> u32 {
        let state = _mm_crc32_u64(_mm_crc32_u64(state.into(), a), b);
        run(_mm_crc32_u64(_mm_crc32_u64(state, c), d), bytes)
    }

    #[target_feature(enable = "sse4.2")]
    #[inline]
    pub(super) fn run(mut state: u64, bytes: &[u8]) -> u32 {
        let (words, mut rest) = bytes.as_chunks::<8>();
        // By fours: of a short run, counting took as many instructions as summing.
        let (fours, words) = words.as_chunks::<4>();
        for [a, b, c, d] in fours {
            state = _mm_crc32_u64(state, u64::from_le_bytes(*a));
            state = _mm_crc32_u64(state, u64::from_le_bytes(*b));
            state = _mm_crc32_u64(state, u64::from_le_bytes(*c));
            state = _mm_crc32_u64(state, u64::from_le_bytes(*d));
        }
        let (twos, word) = words.as_chunks::<2>();
        if let [[a, b]] = twos {
            state = _mm_crc32_u64(state, u64::from_le_bytes(*a));
            state = _mm_crc32_u64(state, u64::from_le_bytes(*b));
        }
        if let [word] = word {
            state = _mm_crc32_u64(state, u64::from_le_bytes(*word));
        }
        // The upper half is zero.
        let mut state = state as u32;
        if let Some((four, others)) = rest.split_first_chunk::<4>() {
            state = _mm_crc32_u32(state, u32::from_le_bytes(*four));
            rest = others;
        }
        if let Some((two, others)) = rest.split_first_chunk::<2>() {
            state = _mm_crc32_u16(state, u16::from_le_bytes(*two));
            rest = others;
        }
        if let [one] = rest {
            state = _mm_crc32_u8(state, *one);
        }
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As another implementation has it.
    fn sum(bytes: &[u8]) -> u32 {
        !crc_fast::crc32_iscsi(bytes)
    }

    proptest! {
        #[test]
        fn words_and_bytes_are_summed_as_they_stand_on_the_wire(
            head in any::<[u64; 4]>(),
            bytes in prop::collection::vec(any::<u8>(), 0..=SHORT_BYTES_MAX),
            shift in 0usize..9,
        ) {
            let mut whole: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
            whole.extend(&bytes);
            let mut shifted = vec![0; shift];
            shifted.extend(&bytes);
            let short = short_after(u32::MAX, head, &shifted[shift..]);
            prop_assert!(short.is_none_or(|state| state == sum(&whole)));
        }
    }

    #[test]
    fn every_length_goes_on_where_another_ended() {
        let bytes: Vec<u8> = (0..SHORT_BYTES_MAX as u32 + 1).map(|i| (i * 7) as u8).collect();
        for length in 0..=SHORT_BYTES_MAX {
            let first = short(u32::MAX, &bytes[..length / 2]);
            let both = first.and_then(|state| short(state, &bytes[length / 2..length]));
            assert!(both.is_none_or(|state| state == sum(&bytes[..length])), "{length}");
        }
        assert_eq!(short(0, &bytes), None);
        assert_eq!(short_after(0, [0; 4], &bytes), None);
    }

    /// Otherwise the tests above would show nothing on machines that have it.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn is_used_where_it_can_be() {
        assert_eq!(short(0, &[]).is_some(), std::is_x86_feature_detected!("sse4.2"));
    }
}
