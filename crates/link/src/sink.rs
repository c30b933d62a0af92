//! Who takes received frames; and where the payload of a train may go without a copy.

use std::time::Duration;

use emp_wire::{Flags, HEADER_BYTES, Header, Kind, LinkAddress};

/// The common header of a frame, without what follows it.
pub type Head = [u8; HEADER_BYTES];

/// A train that waits in the kernel: frames of one length from one sender, of which the last may be shorter. A frame longer than
/// the MTU is a train of one.
#[derive(Clone, Copy, Debug)]
pub struct Train {
    /// Where it came from.
    pub from: LinkAddress,
    /// The first frame's head, as far as anyone knows: what is fetched may differ, and must be checked.
    pub head: Head,
    /// Bytes of each frame but the last; more than a head's.
    pub frame_bytes: usize,
    /// Bytes of all frames.
    pub bytes: usize,
}

impl Train {
    /// Frames in it, and the length of frame `index`.
    #[must_use]
    pub fn frame_bytes_of(&self, index: usize) -> usize {
        self.bytes.saturating_sub(index * self.frame_bytes).min(self.frame_bytes)
    }

    /// How many frames at its front have exactly so many bytes behind their heads. `None`: it cannot be cut so.
    #[must_use]
    pub fn frames_with(&self, payload_bytes: usize) -> Option<usize> {
        let each = self.frame_bytes.checked_sub(HEADER_BYTES).filter(|each| *each > 0)?;
        let frames = payload_bytes.div_ceil(each);
        let last = self.frame_bytes_of(frames.checked_sub(1)?).checked_sub(HEADER_BYTES)?;
        (payload_bytes == (frames - 1) * each + last && last > 0).then_some(frames)
    }
}

/// Who takes what a link receives.
pub trait FrameSink {
    /// Takes one frame.
    fn frame(&mut self, frame: &[u8], from: &LinkAddress);

    /// As [`frame`](Self::frame), for captures: adds to `verdict` what became of the frame, if that is not that it was taken.
    fn judge(&mut self, frame: &[u8], from: &LinkAddress, verdict: &mut String) {
        let _ = verdict;
        self.frame(frame, from);
    }

    /// May take frames at the front of a train that was fetched in one piece: `frame_bytes` each, only the last perhaps shorter.
    /// Returns how many bytes of it these are, whole frames; what is left comes by [`frame`](Self::frame), or is offered again.
    fn train(&mut self, train: &[u8], frame_bytes: usize, from: &LinkAddress) -> usize {
        let _ = (train, frame_bytes, from);
        0
    }

    /// True: nobody has looked for a while, so [`waited`](Self::waited) is to be told by links that can.
    fn asks_what_waited(&self) -> bool {
        false
    }

    /// What follows had been here for so long when it was fetched.
    fn waited(&mut self, time: Duration) {
        let _ = time;
    }

    /// What follows in this call was marked by a switch on its way, congestion experienced (ECN, RFC 3168), or was not. Told when that
    /// changes; what comes first was not.
    fn marked(&mut self, marked: bool) {
        let _ = marked;
    }

    /// False: [`landing`](Self::landing) would answer `None` whatever waits, so there is no need to look at it first.
    fn lands(&self) -> bool {
        false
    }

    /// A train waits, or should come next. Answers with memory for the payload of some frames at its front: what follows the head of each, one
    /// after the other. Whatever comes is written there, also what nobody expected; so it must be memory where that does no
    /// harm. `None`: the frames come by [`frame`](Self::frame).
    fn landing(&mut self, train: &Train) -> Option<&mut [u8]> {
        let _ = train;
        None
    }

    /// As many frames as [`landing`](Self::landing) answered with memory for were fetched: these are their heads, and what
    /// follows them lies there. Nothing of it was checked.
    fn landed(&mut self, train: &Train, heads: &[Head]) {
        let _ = (train, heads);
    }

    /// This is the head of the last frame that was taken. How many bytes of payload the frame behind it has, if that goes on with the
    /// same message or block.
    fn following(&mut self, head: &Head) -> Option<usize> {
        let header = Header::parse_head(head).ok()?;
        let goes_on = header.kind == Kind::Block && !header.flags.has(Flags::LAST);
        goes_on.then_some(header.length.into())
    }
}

/// Takes every frame by itself.
pub(crate) struct Single<'a>(pub(crate) &'a mut dyn FnMut(&[u8], &LinkAddress));

impl FrameSink for Single<'_> {
    #[inline]
    fn frame(&mut self, frame: &[u8], from: &LinkAddress) {
        (self.0)(frame, from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_ends_where_a_frame_ends() {
        let from = LinkAddress::EVERYONE;
        let train = Train { from, head: [0; HEADER_BYTES], frame_bytes: 132, bytes: 2 * 132 + 72 };
        assert_eq!([0, 1, 2, 3].map(|i| train.frame_bytes_of(i)), [132, 132, 72, 0]);
        for (payload, frames) in [(100, 1), (200, 2), (240, 3)] {
            assert_eq!(train.frames_with(payload), Some(frames));
        }
        for payload in [0, 1, 99, 101, 199, 239, 241, 300, 1000] {
            assert_eq!(train.frames_with(payload), None, "{payload}");
        }
        // A head alone carries nothing.
        let bare = Train { frame_bytes: HEADER_BYTES, ..train };
        assert_eq!(bare.frames_with(100), None);
    }
}
