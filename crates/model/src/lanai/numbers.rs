//! Sequence numbers as VMMC-2's packets carry them: 16 bits (V11), and which of two is later, across the wrap (V21).
//!
//! The engine counts in 32 bits. A card leaves out the upper halves of what it sends, and makes them up from what came last; if it made them up
//! wrongly, the packet's checksum would not hold.

use emp_wire::{Flags, Kind};

/// Where a frame has its number, if its kind is sequenced, and the one that it acknowledges up to, if it does (`FRAME-1`).
const PLACES: [usize; 2] = [16, 20];

/// Which of the two it has.
fn has(frame: &[u8]) -> [bool; 2] {
    let kind = Kind::from_number(frame[0] & 0x1f);
    [kind.is_some_and(Kind::sequenced), Flags(frame[1]).has(Flags::ACK)]
}

/// Leaves out the upper halves.
pub(super) fn narrow(frame: &mut [u8]) {
    for (at, _) in PLACES.into_iter().zip(has(frame)).filter(|(_, has)| *has) {
        frame[at..at + 2].fill(0);
    }
}

/// What came last of a peer's numbers.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    last: [u32; 2],
}

impl Numbers {
    /// Makes up the upper halves.
    pub(super) fn widen(&mut self, frame: &mut [u8]) {
        let has = has(frame);
        for ((at, last), _) in
            PLACES.into_iter().zip(&mut self.last).zip(has).filter(|(_, has)| *has)
        {
            let low = u16::from_be_bytes([frame[at + 2], frame[at + 3]]);
            *last = nearest(*last, low);
            frame[at..at + 4].copy_from_slice(&last.to_be_bytes());
        }
    }

    /// The peer's last number.
    #[cfg(test)]
    pub(super) fn last(&self) -> u32 {
        self.last[0]
    }
}

/// The number with these lower bits that is nearest to another. Two that are alive are never half of the numbers apart: V21's `c` is 2^15.
fn nearest(to: u32, low: u16) -> u32 {
    let ahead = low.wrapping_sub(to as u16).cast_signed();
    to.wrapping_add_signed(ahead.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_of_two_is_told_across_the_wrap() {
        for (to, low, is) in [
            (0, 5, 5),
            (65_530, 3, 65_539),
            (65_539, 65_530, 65_530),
            (3 << 16, 65_535, (3 << 16) - 1),
            (u32::MAX - 1, 4, 4),
            (100_000, 34_464, 100_000),
        ] {
            assert_eq!(nearest(to, low), is, "{to} {low}");
        }
    }

    #[test]
    fn upper_halves_are_made_up_again() {
        let mut numbers = Numbers::default();
        for number in (0..200_000_u32).step_by(30_000) {
            let mut frame = [0; 32];
            (frame[0], frame[1]) = (Kind::Data as u8, Flags::ACK.0);
            frame[16..20].copy_from_slice(&number.to_be_bytes());
            frame[20..24].copy_from_slice(&(number / 2).to_be_bytes());
            let whole = frame;
            narrow(&mut frame);
            assert!(number < 1 << 16 || frame != whole);
            numbers.widen(&mut frame);
            assert_eq!((frame, numbers.last()), (whole, number));
        }
        // An acknowledgement by itself has no number (V18).
        let mut ack = [0; 32];
        (ack[0], ack[1], ack[19], ack[23]) = (Kind::Ack as u8, Flags::ACK.0, 7, 9);
        let number = numbers.last();
        numbers.widen(&mut ack);
        assert_eq!((&ack[16..20], numbers.last()), (&[0, 0, 0, 7][..], number));
    }
}
