//! Heads of frames, without what they have in common with the frame before. Of the 60 bytes in front of a short message's payload 36
//! say the same in each of many: who sends it, to whom, and how long it is. Without them 32 bytes of payload are in one cache
//! line instead of two, and each line that one processor has written costs the other time (`docs/decisions/0030-one-line.md`).
//!
//! A packed frame's record is the frame without these bytes. Both ends know the frame before, as a ring loses nothing. Who lies
//! about it spoils only its own frames.

use std::ops::Range;

/// Bytes of a head: a frame's header, and the fields of a message.
pub(super) const HEAD_BYTES: usize = 60;

/// What seldom changes: kind, flags, length and nodes; the sum (of frames in memory it is none); the sender's name and the endpoints.
const SAME: [Range<usize>; 2] = [0..16, 28..48];
/// What is new each time: sequence, acknowledgement and word.
const NEW: Range<usize> = SAME[0].end..SAME[1].start;
const NEW_BYTES: usize = NEW.end - NEW.start;

/// Bytes that a packed frame is shorter by.
pub(super) const SAVED_BYTES: usize = SAME[1].end - NEW_BYTES;

/// What is the same in frames that follow each other in one ring.
#[derive(Debug)]
pub(super) struct Heads {
    /// Of the last frame that has a head.
    last: [u8; HEAD_BYTES],
}

impl Heads {
    pub(super) const fn new() -> Self {
        Self { last: [0; HEAD_BYTES] }
    }

    /// The two pieces of a frame that make its record, if its head is like that of the frame before.
    #[inline]
    pub(super) fn pack<'a>(&self, frame: &'a [u8]) -> Option<[&'a [u8]; 2]> {
        let head: &[u8; HEAD_BYTES] = frame.first_chunk()?;
        let [a, b] = SAME;
        let same = head[a.clone()] == self.last[a] && head[b.clone()] == self.last[b];
        same.then(|| [&frame[NEW], &frame[SAME[1].end..]])
    }

    /// A frame was sent or has come whole.
    #[inline]
    pub(super) fn note(&mut self, frame: &[u8]) {
        if let Some(head) = frame.first_chunk() {
            self.last = *head;
        }
    }

    /// Makes a frame of a packed record, which lies in `bytes` from [`SAVED_BYTES`] on: then it is all of them. False: it is too
    /// short for one.
    #[inline]
    pub(super) fn unpack(&self, bytes: &mut [u8]) -> bool {
        let Some(head) = bytes.first_chunk_mut::<HEAD_BYTES>() else { return false };
        let [a, b] = SAME;
        let mut new = [0; NEW_BYTES];
        new.copy_from_slice(&head[SAVED_BYTES..SAVED_BYTES + NEW_BYTES]);
        head[a.clone()].copy_from_slice(&self.last[a]);
        head[NEW].copy_from_slice(&new);
        head[b.clone()].copy_from_slice(&self.last[b]);
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unpacked(heads: &Heads, record: &[u8]) -> Option<Vec<u8>> {
        let mut bytes = [&[0xEE; SAVED_BYTES], record].concat();
        heads.unpack(&mut bytes).then_some(bytes)
    }

    #[test]
    fn what_is_the_same_is_left_out() {
        let mut heads = Heads::new();
        let mut frame: Vec<u8> = (1..=92).collect();
        assert_eq!(heads.pack(&frame), None);
        heads.note(&frame);
        frame[NEW].fill(0xAA);
        frame[SAME[1].end..].fill(0xBB);
        let record = heads.pack(&frame).expect("only that has changed").concat();
        assert_eq!(record.len(), frame.len() - SAVED_BYTES);
        assert_eq!(unpacked(&heads, &record), Some(frame.clone()));
        for place in SAME.into_iter().flatten() {
            frame[place] ^= 1;
            assert_eq!(heads.pack(&frame), None, "byte {place}");
            frame[place] ^= 1;
        }
        assert_eq!(heads.pack(&frame[..HEAD_BYTES - 1]), None);
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let heads = Heads::new();
        for length in 0..HEAD_BYTES - SAVED_BYTES {
            assert_eq!(unpacked(&heads, &vec![0xFF; length]), None, "{length}");
        }
        assert!(unpacked(&heads, &[0xFF; HEAD_BYTES - SAVED_BYTES]).is_some());
    }

    proptest! {
        #[test]
        fn what_is_packed_is_unpacked(
            frames in prop::collection::vec(
                (0..3u8, prop::collection::vec(any::<u8>(), 0..20), 50..120usize),
                1..20,
            ),
        ) {
            let (mut sends, mut takes) = (Heads::new(), Heads::new());
            for (common, other, length) in frames {
                let mut frame = vec![common; length];
                let from = NEW.start.min(length);
                let to = (from + other.len().min(NEW_BYTES)).min(length);
                frame[from..to].copy_from_slice(&other[..to - from]);
                match sends.pack(&frame) {
                    Some(record) => prop_assert_eq!(unpacked(&takes, &record.concat()), Some(frame)),
                    None => {
                        sends.note(&frame);
                        takes.note(&frame);
                    }
                }
            }
        }
    }
}
