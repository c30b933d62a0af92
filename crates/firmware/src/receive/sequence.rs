//! Which sequence numbers have arrived (`SEQ-3`): each is taken once, in any order within the window.

use emp_wire::{SACK_WORDS_MAX, Sequence};

use crate::limits::WINDOW_FRAMES;

/// The numbers that have arrived from one peer.
#[derive(Clone, Copy)]
pub(super) struct Received {
    /// All before this one are here.
    next: Sequence,
    /// The one that came last, whatever became of it: what an acknowledgement answers (`ACK-5`).
    pub(super) latest: Sequence,
    /// Bit `i`: number `next + 1 + i` is here.
    after: [u64; SACK_WORDS_MAX],
}

const _: () = assert!(SACK_WORDS_MAX * 64 == WINDOW_FRAMES as usize);

/// What a sequence number is to the receiver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arrival {
    /// The next one.
    InOrder,
    /// Further on, with a gap before it.
    Ahead,
    /// Here already.
    Duplicate,
    /// Farther than a window, before or behind.
    OutOfWindow,
}

impl Received {
    /// Nothing has arrived yet, and this number comes first.
    pub(super) const fn new(first: Sequence) -> Self {
        Self { next: first, latest: first, after: [0; SACK_WORDS_MAX] }
    }

    /// The next number that is missing: the cumulative acknowledgement.
    pub(super) const fn next(&self) -> Sequence {
        self.next
    }

    /// The numbers after it that are here.
    pub(super) const fn after(&self) -> &[u64; SACK_WORDS_MAX] {
        &self.after
    }

    /// True if something arrived behind a gap.
    pub(super) fn has_gap(&self) -> bool {
        self.after.iter().any(|word| *word != 0)
    }

    pub(super) fn classify(&self, sequence: Sequence) -> Arrival {
        let ahead = sequence.since(self.next);
        match ahead {
            0 => Arrival::InOrder,
            _ if ahead < -(WINDOW_FRAMES as i32) || ahead >= WINDOW_FRAMES as i32 => {
                Arrival::OutOfWindow
            }
            _ if ahead < 0 || self.bit(ahead as u32 - 1) => Arrival::Duplicate,
            _ => Arrival::Ahead,
        }
    }

    /// True if the number has arrived, or is so old that it must have.
    pub(super) fn contains(&self, sequence: Sequence) -> bool {
        let ahead = sequence.since(self.next);
        ahead < 0 || (1..WINDOW_FRAMES as i32).contains(&ahead) && self.bit(ahead as u32 - 1)
    }

    /// True if the number before this one, which is ahead, is missing: a gap begins here.
    pub(super) fn opens_gap(&self, sequence: Sequence) -> bool {
        !self.contains(sequence.minus(1))
    }

    /// Notes an arrival that [`classify`](Self::classify) found in order or ahead; returns whether it closed a gap.
    #[inline]
    pub(super) fn take(&mut self, sequence: Sequence) -> bool {
        if sequence == self.next && !self.has_gap() {
            // As most often.
            self.next = self.next.plus(1);
            return false;
        }
        self.take_around_gap(sequence)
    }

    fn take_around_gap(&mut self, sequence: Sequence) -> bool {
        let ahead = sequence.since(self.next);
        if ahead > 0 {
            let bit = ahead as u32 - 1;
            self.after[(bit / 64) as usize] |= 1 << (bit % 64);
            return false;
        }
        self.next = self.next.plus(1);
        // Bit 0 is now `next` itself.
        let run = self.trailing_ones();
        self.next = self.next.plus(run);
        self.shift(run + 1);
        run > 0
    }

    /// Notes the arrival of the next so many, where there is no gap.
    pub(super) fn take_run(&mut self, numbers: u32) {
        debug_assert!(!self.has_gap());
        self.next = self.next.plus(numbers);
    }

    fn bit(&self, bit: u32) -> bool {
        bit < WINDOW_FRAMES && self.after[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    fn trailing_ones(&self) -> u32 {
        let mut run = 0;
        for word in self.after {
            run += word.trailing_ones();
            if word != u64::MAX {
                break;
            }
        }
        run
    }

    fn shift(&mut self, bits: u32) {
        let (words, bits) = ((bits / 64) as usize, bits % 64);
        for i in 0..SACK_WORDS_MAX {
            let low = self.after.get(i + words).copied().unwrap_or(0);
            let high = self.after.get(i + words + 1).copied().unwrap_or(0);
            self.after[i] = if bits == 0 { low } else { low >> bits | high << (64 - bits) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Any order of arrival, with repeats, gives what a set gives.
    #[test]
    fn agrees_with_a_set() {
        let mut x = 99u64;
        for start in [0u32, u32::MAX - 100] {
            let mut received = Received::new(Sequence(start));
            let mut set = std::collections::BTreeSet::new();
            let mut base = 0u64;
            for _ in 0..20_000 {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let offset = base + (x >> 40) % 300;
                let offset = offset.saturating_sub(20);
                let sequence = Sequence(start).plus(offset as u32);
                let expected = if offset < base || set.contains(&offset) {
                    Arrival::Duplicate
                } else if offset == base {
                    Arrival::InOrder
                } else if offset >= base + 256 {
                    Arrival::OutOfWindow
                } else {
                    Arrival::Ahead
                };
                assert_eq!(received.classify(sequence), expected);
                assert_eq!(received.contains(sequence), expected == Arrival::Duplicate);
                if matches!(expected, Arrival::InOrder | Arrival::Ahead) {
                    received.take(sequence);
                    set.insert(offset);
                    while set.remove(&base) {
                        base += 1;
                    }
                    assert_eq!(received.next(), Sequence(start).plus(base as u32));
                    assert_eq!(received.has_gap(), !set.is_empty());
                }
            }
        }
    }

    #[test]
    fn far_numbers_are_outside() {
        let received = Received::new(Sequence(1000));
        for far in [1256u32, 1000u32.wrapping_add(1 << 31), 700, 0] {
            assert_eq!(received.classify(Sequence(far)), Arrival::OutOfWindow, "{far}");
        }
    }
}
