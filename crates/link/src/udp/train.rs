//! Which frames of a batch may leave together as one segmented datagram.

use super::open::PAYLOAD_BYTES_MAX;
use crate::TxFrame;

/// Most parts of one message: the kernel's `UIO_MAXIOV`.
const MESSAGE_PARTS_MAX: usize = 1024;

/// A run of frames at the front of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Train {
    /// Frames in it, at least one.
    pub(super) frames: usize,
    /// Parts of all of them.
    pub(super) parts: usize,
    /// Bytes of each frame; the last may be shorter.
    pub(super) frame_bytes: usize,
}

/// The longest train at the front of `batch` (which is not empty): frames to one address, all as
/// long as the first, at most `frames_max` of them; one shorter frame may end it.
pub(super) fn longest(batch: &[TxFrame<'_>], frames_max: usize) -> Train {
    let first = &batch[0];
    let frame_bytes = first.len();
    let mut train = Train { frames: 1, parts: first.parts.len(), frame_bytes };
    let mut bytes = frame_bytes;
    for frame in batch[1..].iter().take(frames_max.saturating_sub(1)) {
        let length = frame.len();
        let fits = length <= frame_bytes
            && length > 0
            && bytes + length <= PAYLOAD_BYTES_MAX
            && train.parts + frame.parts.len() <= MESSAGE_PARTS_MAX;
        if !fits || frame.to != first.to {
            break;
        }
        train.frames += 1;
        train.parts += frame.parts.len();
        bytes += length;
        if length < frame_bytes {
            break;
        }
    }
    train
}

#[cfg(test)]
mod tests {
    use std::io::IoSlice;

    use emp_wire::LinkAddress;
    use proptest::prelude::*;

    use super::*;

    fn frames_of(lengths: &[usize], to: &[u32], frames_max: usize) -> usize {
        let zeros = vec![0u8; 65_536];
        let parts: Vec<[IoSlice<'_>; 1]> =
            lengths.iter().map(|length| [IoSlice::new(&zeros[..*length])]).collect();
        let batch: Vec<TxFrame<'_>> = parts
            .iter()
            .zip(to.iter().cycle())
            .map(|(parts, to)| TxFrame { to: LinkAddress::index(*to), parts })
            .collect();
        longest(&batch, frames_max).frames
    }

    #[test]
    fn equal_frames_and_a_shorter_tail_ride_together() {
        assert_eq!(frames_of(&[100, 100, 100], &[1], 64), 3);
        assert_eq!(frames_of(&[100, 100, 40, 40], &[1], 64), 3);
        assert_eq!(frames_of(&[100, 101], &[1], 64), 1);
        assert_eq!(frames_of(&[100, 100], &[1, 2], 64), 1);
        assert_eq!(frames_of(&[100; 70], &[1], 64), 64);
        assert_eq!(frames_of(&[100; 70], &[1], 1), 1);
        assert_eq!(frames_of(&[1472; 60], &[1], 64), PAYLOAD_BYTES_MAX / 1472);
        assert_eq!(frames_of(&[PAYLOAD_BYTES_MAX, 1], &[1], 64), 1);
    }

    proptest! {
        #[test]
        fn a_train_can_always_be_cut_back(lengths in prop::collection::vec(1usize..3000, 1..80)) {
            let frames = frames_of(&lengths, &[1], 64);
            prop_assert!((1..=64).contains(&frames));
            let (last, body) = lengths[..frames].split_last().expect("at least one");
            prop_assert!(body.iter().all(|length| *length == lengths[0]));
            prop_assert!(*last <= lengths[0]);
            prop_assert!(lengths[..frames].iter().sum::<usize>() <= PAYLOAD_BYTES_MAX);
        }
    }
}
