//! Copying to where another thread is looking: whoever sees the last bytes sees all before them.
//!
//! A plain copy promises no order: long ones are string instructions or stores past the caches, short ones overlap from both
//! ends. Programs that poll the end of an RDMA write need one, as a card's writes have it.
//!
//! # Invariant
//!
//! [`copy_in_order`] reads `bytes` bytes from `from` and writes as many to `to`, and touches nothing else. It works on raw
//! pointers, and memory that overlaps only makes for wrong bytes.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// Bytes at the end that are stored one word after the other. The rest is copied as usual before them.
const ORDERED_BYTES: usize = 64;

const WORD: usize = size_of::<u64>();

/// Copies `bytes` bytes so that its last ones, word by word as they are aligned at `to`, become visible in their order, and after
/// all that this thread has written before.
///
/// # Safety
///
/// `from` is valid for reads and `to` for writes of so many bytes, and nobody else writes to `to` meanwhile.
#[inline]
pub(crate) unsafe fn copy_in_order(from: *const u8, to: *mut u8, bytes: usize) {
    let mut at = bytes.saturating_sub(ORDERED_BYTES);
    // SAFETY: as long as the caller says. `copy` and not `copy_nonoverlapping`: a raw caller may send from memory that it also
    // receives into.
    unsafe { std::ptr::copy(from, to, at) };
    // Not only of this copy: of all that lies before.
    fence(Ordering::Release);
    while at < bytes {
        // SAFETY: `at` and the word's or byte's end lie within both; a word is stored only where it is aligned. The program that
        // looks at it meanwhile does so by volatile or atomic loads.
        unsafe {
            let (here, there) = (from.add(at), to.add(at));
            if bytes - at >= WORD && there.addr().is_multiple_of(WORD) {
                let word = here.cast::<u64>().read_unaligned();
                AtomicU64::from_ptr(there.cast()).store(word, Ordering::Release);
                at += WORD;
            } else {
                AtomicU8::from_ptr(there).store(here.read(), Ordering::Release);
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn every_length_and_alignment_is_copied() {
        let from: Vec<u8> = (0..400u32).map(|i| (i * 7 + 1) as u8).collect();
        for shift in 0..17 {
            for bytes in 0..300 {
                let mut to = vec![0; 400];
                // SAFETY: both are longer.
                unsafe { copy_in_order(from[3..].as_ptr(), to[shift..].as_mut_ptr(), bytes) };
                assert_eq!(to[shift..shift + bytes], from[3..3 + bytes], "{shift} {bytes}");
                assert!(to[..shift].iter().chain(&to[shift + bytes..]).all(|byte| *byte == 0));
            }
        }
    }

    /// One thread looks at the last word while the other writes.
    #[test]
    fn whoever_sees_the_end_sees_the_rest() {
        const WORDS: usize = 600;
        const ROUNDS: u64 = 20_000;
        let shared: Arc<Vec<AtomicU64>> = Arc::new((0..WORDS).map(|_| AtomicU64::new(0)).collect());
        let theirs = Arc::clone(&shared);
        let looks = std::thread::spawn(move || {
            let mut seen = 0;
            while seen < ROUNDS {
                let last = theirs[WORDS - 1].load(Ordering::Acquire);
                // What is written meanwhile may be newer, never older.
                let older = theirs.iter().any(|word| word.load(Ordering::Relaxed) < last);
                assert!(!older, "round {last}");
                seen = last;
                std::thread::yield_now();
            }
        });
        for round in 1..=ROUNDS {
            let from = vec![round; WORDS];
            let to = shared.as_ptr().cast::<u8>().cast_mut();
            // SAFETY: as long as each other; the other thread only reads, word by word.
            unsafe { copy_in_order(from.as_ptr().cast(), to, WORDS * WORD) };
        }
        looks.join().unwrap();
    }
}
