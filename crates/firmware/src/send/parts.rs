//! How much of a long train leaves at once, where a link takes many frames in a call.
//!
//! Such a link hands over a part of a train as one datagram, and the receiver begins with it when all of it is there. So a
//! message that left as one would take the sender's time and then the receiver's; in parts, both work at the same time, and
//! only the last part's way up comes after the sender's work. Each part costs both ends a call, so parts are as long as they
//! can be while much is left, and become shorter towards the message's end. What is on the wire is the same.

use emp_wire::Sequence;

use super::SendSide;
use super::record::{Piece, Record, What};
use crate::encode::{INLINE_PAYLOAD_BYTES, INLINE_PAYLOAD_BYTES_OF_TRAINS};
use crate::link::LinkIndex;
use crate::path::{Hop, Paths};

/// Payload bytes of the shortest part. One call's fixed costs at both ends (about 3 µs) are what copying and checking 16 KB take,
/// so shorter ones would cost more than they let overlap: 64 KB in two parts take 22.5 µs, in three 25.
const PART_BYTES_MIN: u32 = 24 << 10;

/// Payload bytes of the longest: with its headers what one segmented datagram carries (64 KB).
const PART_BYTES_MAX: u32 = 60 << 10;

/// Frames of the shortest train that is worth a look: one frame may have 60 KB, two of them are two parts.
const TRAIN_FRAMES_MIN: u32 = 2;

/// Frames of the shortest part.
fn least_frames(fragment: u16) -> u32 {
    PART_BYTES_MIN.div_ceil(fragment.max(1).into())
}

/// Frames of the part that begins where so much is left: of the train `train` frames, of the message `left` (no fewer).
fn part_frames(train: u32, left: u32, fragment: u16) -> u32 {
    let least = least_frames(fragment);
    // A frame that is long enough by itself leaves by itself: the next is summed while the receiver is at work.
    let most = if least == 1 { 1 } else { PART_BYTES_MAX.div_ceil(fragment.max(1).into()) };
    let part = (left / 2).clamp(least, most);
    match train {
        // A rest that is not worth its call comes along.
        _ if train <= part + least / 2 && train <= most => train,
        // Nor is it left alone.
        _ if train < part + least => train.div_ceil(2),
        _ => part,
    }
}

impl SendSide {
    /// The link takes many frames in a call.
    pub(super) fn segments(&self, link: LinkIndex) -> bool {
        self.segmenting.checked_shr(link.0.into()).is_some_and(|bits| bits & 1 == 1)
    }

    /// Up to how many bytes the payload of a frame is copied next to its header.
    pub(super) fn inline_bytes(&self, hop: Option<Hop<'_>>, record: &Record) -> u64 {
        let train = record.count >= TRAIN_FRAMES_MIN;
        if train && hop.is_some_and(|(link, _)| self.segments(link)) {
            INLINE_PAYLOAD_BYTES_OF_TRAINS
        } else {
            INLINE_PAYLOAD_BYTES
        }
    }

    /// Frames after which a batch that goes on with this one, the next of the current train, is sent. `None`: as many as it
    /// takes.
    pub(super) fn part_from(&self, peer: u32, sequence: Sequence, paths: &Paths) -> Option<u32> {
        let active = self.peers[peer].active.as_deref()?;
        let record = &active.records[active.record_of(sequence)?];
        let (_, hop) = paths.pick(record.path);
        let (link, _) = hop?;
        // Short trains leave together, as many as there are.
        if !self.segments(link) || record.count < TRAIN_FRAMES_MIN {
            return None;
        }
        let place = sequence.since(record.first) as u32;
        let train = record.count - place;
        let message = record.what.message().and_then(|index| self.messages.at(index));
        let Piece { offset, fragment, .. } = record.what.piece(place, message)?;
        let left = match message {
            Some(message) => message.total().checked_sub(offset)?,
            // What else the peer asks for is not known here.
            None => u64::MAX,
        };
        // The receiver of a message that is pulled should hear of it soon, so as to ask for the rest.
        let hurries = matches!(record.what, What::Message { .. })
            && message
                .is_some_and(|message| u64::from(message.plan.cut.unscheduled) < message.total());
        let early = if hurries { least_frames(fragment).saturating_sub(place) } else { 0 };
        let frames = left.div_ceil(u64::from(fragment.max(1)));
        let more = !active.pending.is_empty() || !active.blocks.is_empty();
        // What follows keeps the receiver busy: nothing is gained by shorter parts at this one's end.
        let left =
            if more { u32::MAX } else { u32::try_from(frames).unwrap_or(u32::MAX).max(train) };
        let part = if early > 0 { early.min(train) } else { part_frames(train, left, fragment) };
        (early > 0 || part >= least_frames(fragment)).then_some(part)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn parts(mut frames: u32, fragment: u16) -> Vec<u32> {
        let mut parts = Vec::new();
        while frames > 0 {
            parts.push(part_frames(frames, frames, fragment));
            frames -= parts.last().unwrap();
        }
        parts
    }

    #[test]
    fn parts_become_shorter_towards_the_end() {
        assert_eq!(parts(6, 1440), [6]);
        assert_eq!(parts(17, 1440), [17]);
        assert_eq!(parts(46, 1440), [23, 23]);
        assert_eq!(parts(182, 1440), [43, 43, 43, 26, 27]);
        assert_eq!(parts(8, 8940), [4, 4]);
        assert_eq!(parts(30, 8940), [7, 7, 7, 4, 3, 2]);
        // Frames longer than the shortest part, and a train that goes on in others.
        assert_eq!(parts(3, 40_000), [1, 1, 1]);
        assert_eq!(parts(6, 25_000), [1; 6]);
        assert_eq!(part_frames(43, 700, 1440), 43);
        assert_eq!(part_frames(46, u32::MAX, 1440), 23);
        assert_eq!(part_frames(43, 0, 1440), 18);
        assert_eq!(part_frames(1, 1, 0), 1);
    }
}
