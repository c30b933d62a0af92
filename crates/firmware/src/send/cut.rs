//! How a message is cut into the frames of its trains: how much leaves unasked, and in frames of which length (`MSG-2`, `LONG-3`).

use emp_wire::{
    ATOMIC_BYTES, HEADER_BYTES, IMMEDIATE_BYTES, LONG_BYTES, MESSAGE_BYTES, TARGET_BYTES,
    TRAIN_FRAMES_MAX,
};

use super::{SendMessage, Work};
use crate::limits::FRAME_SEGMENTS_MAX;
use crate::path::unit::LONG_FRAGMENT_BYTES;
use crate::profile::Profile;

/// Payload bytes of the first long frame of a message that is pulled, as its receiver soon asks for the rest, and of the last of one that
/// leaves whole, with which only the receiver is busy. One call's fixed costs at both ends are what copying and checking 16 KB take.
const PART_BYTES_MIN: u64 = 24 << 10;

/// Bytes of a page, the smallest that hosts have.
const PAGE_BYTES: u64 = 4096;

/// How a message is cut into the frames of its train.
pub(super) struct Cut {
    pub(super) unscheduled: u32,
    pub(super) first_payload: u32,
    pub(super) fragment: u16,
    pub(super) frames: u32,
}

impl SendMessage {
    /// Frames of all its trains, about, if none is longer than the MTU: by these its path is chosen, because what is pulled
    /// streams, block behind block.
    pub(super) fn usual_frames(&self, fragment: u16) -> u32 {
        let frames = self.total().div_ceil(u64::from(fragment.max(1)));
        u32::try_from(frames).unwrap_or(u32::MAX)
    }

    /// Bytes of the fields of its first frame: if that is all of it, and if not.
    fn bodies(&self) -> (u64, u64) {
        let fields = match self.work {
            Work::Put { .. } if !self.void => TARGET_BYTES,
            Work::Atomic { .. } if !self.void => ATOMIC_BYTES,
            _ => MESSAGE_BYTES,
        };
        let immediate = self.descriptor.immediate.is_some() && !self.void;
        let short = (fields + if immediate { IMMEDIATE_BYTES } else { 0 }) as u64;
        (short, short + LONG_BYTES as u64)
    }

    /// The cut that it was sent with before, if it was refused and is sent again (`READY-2`).
    pub(super) fn cut_before(&self) -> Option<Cut> {
        let sent = self.number.is_some() && self.fragment > 0 && !self.void && !self.direct;
        let (unscheduled, first_payload) = (self.unscheduled, self.first_payload);
        let frames = 1 + (unscheduled - first_payload).div_ceil(self.fragment.max(1).into());
        sent.then_some(Cut { unscheduled, first_payload, fragment: self.fragment, frames })
    }

    /// Its cut into frames longer than the MTU (`LONG-3`), `crowded`: the receiver had less room than it was sent lately ([`crowded`](super::crowded)). `None`: it is not to have
    /// such.
    pub(super) fn cut_long(&self, profile: &Profile, crowded: bool) -> Option<Cut> {
        let named = self.descriptor.segments.as_slice().len() <= FRAME_SEGMENTS_MAX;
        let able = (named || self.chain.is_some())
            && !self.void
            && matches!(self.work, Work::Message | Work::Put { .. });
        let usual = profile.eager_bytes;
        let most = if crowded { usual } else { usual.max(profile.long_eager_bytes) };
        let whole = self.total() <= most;
        let wanted = if whole { self.total() } else { profile.unscheduled_bytes.into() };
        able.then(|| Cut::new_long(self.total(), self.bodies(), wanted))
    }

    /// Its cut into frames of this size.
    pub(super) fn cut(&self, profile: &Profile, frame_bytes_max: u16) -> Cut {
        let total = self.total();
        let bodies = self.bodies();
        let whole = total <= profile.eager_bytes || matches!(self.work, Work::Atomic { .. });
        let wanted = if whole { total } else { profile.unscheduled_bytes.into() };
        Cut::new(total, bodies, frame_bytes_max, wanted)
    }
}

impl Cut {
    /// For a body of so many bytes: of a message of one frame, and of a longer one's first.
    fn new(total: u64, bodies: (u64, u64), frame_max: u16, wanted: u64) -> Self {
        let fragment = frame_max - HEADER_BYTES as u16;
        let short = u64::from(fragment) - bodies.0;
        let long = u64::from(fragment) - bodies.1;
        if total <= short && wanted >= total {
            let bytes = total as u32;
            return Self { unscheduled: bytes, first_payload: bytes, fragment, frames: 1 };
        }
        let most = long + u64::from(TRAIN_FRAMES_MAX - 1) * u64::from(fragment);
        let unscheduled = wanted.min(total).min(most).min(u64::from(u32::MAX));
        let first = unscheduled.min(long);
        let frames = 1 + (unscheduled - first).div_ceil(u64::from(fragment));
        Self {
            unscheduled: unscheduled as u32,
            first_payload: first as u32,
            fragment,
            frames: frames as u32,
        }
    }

    /// The same for frames longer than the MTU. What leaves whole is cut into as few as can be, of one length but for the last
    /// ([`part_bytes`]), so that both ends work at the same time; of a longer message the first is short, so that the receiver soon asks
    /// for the rest.
    fn new_long(total: u64, bodies: (u64, u64), wanted: u64) -> Self {
        let most = LONG_FRAGMENT_BYTES.into();
        let (first, fragment) = if wanted >= total {
            let part = part_bytes(total, most - bodies.1);
            if part == total { (total, total + bodies.1) } else { (part, part) }
        } else {
            (wanted.min(PART_BYTES_MIN), most)
        };
        let unscheduled = wanted.min(total).min(first + u64::from(TRAIN_FRAMES_MAX - 1) * fragment);
        let unscheduled = unscheduled.min(u32::MAX.into());
        let frames = 1 + (unscheduled - first).div_ceil(fragment);
        Self {
            unscheduled: unscheduled as u32,
            first_payload: first as u32,
            fragment: fragment as u16,
            frames: frames as u32,
        }
    }
}

/// Payload bytes of the long frames of a message that leaves whole, of which each has at most `most`; the last has what is left. With
/// that of three or more the sender has done, and only the receiver works: it is shorter, as far as that takes no frame more. (128 to
/// 256 KB by 5 to 7 % sooner than in frames of one length.)
fn part_bytes(total: u64, most: u64) -> u64 {
    let parts = total.div_ceil(most).max(1);
    if parts == 1 {
        return total;
    }
    // Where the message begins with a page, no page is in two frames.
    let even = total.div_ceil(parts).next_multiple_of(PAGE_BYTES).min(most);
    let longer = ((total - PART_BYTES_MIN) / (parts - 1)).min(most);
    let longer = longer - longer % PAGE_BYTES;
    if parts > 2 { longer.max(even) } else { even }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_to_fill_frames() {
        let bodies = (28, 44);
        let one = Cut::new(1500 - 60, bodies, 1500, u64::MAX);
        assert_eq!((one.frames, one.first_payload), (1, 1440));
        let two = Cut::new(1441, bodies, 1500, u64::MAX);
        assert_eq!((two.frames, two.first_payload, two.fragment), (2, 1424, 1468));
        let rendezvous = Cut::new(100_000, bodies, 1500, 0);
        assert_eq!((rendezvous.frames, rendezvous.unscheduled), (1, 0));
        let huge = Cut::new(1 << 40, bodies, 1500, 1 << 40);
        assert!(huge.frames <= TRAIN_FRAMES_MAX && u64::from(huge.unscheduled) < 1 << 40);
    }

    #[test]
    fn long_frames_hold_messages_in_few_pieces() {
        let bodies = (28, 44);
        let cut = |total, wanted| {
            let cut = Cut::new_long(total, bodies, wanted);
            assert!(cut.first_payload + 44 <= LONG_FRAGMENT_BYTES.into());
            let rest = u64::from(cut.unscheduled - cut.first_payload);
            assert_eq!(rest.div_ceil(cut.fragment.into()) + 1, cut.frames.into());
            (cut.frames, cut.unscheduled, cut.first_payload)
        };
        assert_eq!(cut(2_000, 2_000), (1, 2_000, 2_000));
        assert_eq!(cut(40_000, 40_000), (1, 40_000, 40_000));
        assert_eq!(cut(65_536, 65_536), (2, 65_536, 32_768));
        assert_eq!(cut(61_440, 61_440), (2, 61_440, 32_768));
        assert_eq!(cut(128 << 10, 128 << 10), (3, 128 << 10, 52 << 10));
        assert_eq!(cut(192 << 10, 192 << 10), (4, 192 << 10, 56 << 10));
        assert_eq!(cut(3 * 61_396, 3 * 61_396), (3, 3 * 61_396, 61_396));
        for total in (1..=512 << 10).step_by(97) {
            let (frames, _, part) = cut(total, total);
            assert_eq!(u64::from(frames), total.div_ceil(u64::from(LONG_FRAGMENT_BYTES) - 44));
            // The last is the shortest, but not so short that its loss would be told of late (`ACK-7`).
            let last = total - u64::from(part) * u64::from(frames - 1);
            assert!(last <= u64::from(part), "{total}: {last} after {part}");
            assert!(frames < 3 || last >= PART_BYTES_MIN, "{total}: {last} after {part}");
        }
        assert_eq!(cut(1 << 20, 61_440), (2, 61_440, 24 << 10));
        assert_eq!(cut(1 << 20, 0), (1, 0, 0));
        assert_eq!(cut(1 << 20, 1 << 20).0, 18);
    }
}
