//! Frames on their way out: what [`poll_transmit`](crate::Firmware::poll_transmit) fills and a link sends.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use arrayvec::ArrayVec;
use emp_wire::{LONG_FRAME_BYTES, LinkAddress, NodeId, RELAY_BYTES_MAX, RELAY_HEAD_BYTES};

use crate::limits::FRAME_SEGMENTS_MAX;
use crate::link::LinkIndex;
use crate::memory::{HostMemory, MemoryFault, Segment};
use crate::path::hop_lists::Prefix;

/// Where a message may leave within its post.
pub struct Exit<'a> {
    /// Its frame is added to these.
    pub batch: &'a mut TransmitBatch,
    /// A frame may name the memory of a message that is over with its post: it must be gone, [taken in](TransmitBatch::take_in), or forgotten
    /// as if it were lost, when that is done.
    pub lends: bool,
}

/// A message leaves within its post.
pub struct Leaving<'a> {
    /// Its frame is the last of these.
    pub batch: &'a TransmitBatch,
    /// It may name memory that is its owner's again with the post. Otherwise what it names stays as it is until its completion, and it may
    /// wait or be sent by reference like others.
    pub lent: bool,
}

/// Pieces of host memory in one frame.
pub(crate) type FrameSegments = ArrayVec<Segment, FRAME_SEGMENTS_MAX>;

/// One link frame to send: inline bytes (header and small payload, of one frame or of several that follow each other,
/// `BUNDLE-1`) and, after them, pieces of host memory.
#[derive(Clone, Debug)]
pub struct TransmitFrame {
    /// The link to send it on.
    pub link: LinkIndex,
    /// Where to.
    pub to: LinkAddress,
    /// Where its inline bytes are in the batch, and how many.
    inline: u32,
    inline_bytes: u32,
    /// How many of them are a relay's head and list (`RELAY-1`).
    prefix_bytes: u8,
    /// The node it is for, if others for that node may follow it in the same link frame. Two nodes may have one address.
    bundles: Option<NodeId>,
    segments: FrameSegments,
}

/// A batch of frames, made once and reused. Frames with large payloads name host memory; only heads and small payloads
/// are copied into the batch, each frame's bytes right behind those of the one before: a train that is all inline is one
/// piece of memory.
pub struct TransmitBatch {
    /// Filled where they lie: one has 200 bytes, and moving it into a list took as long as the rest of building a frame.
    frames: Box<[TransmitFrame]>,
    count: usize,
    /// Frames that it takes: fewer than it has room for once it was ended.
    count_max: usize,
    inline: Box<[u8]>,
    /// Inline bytes of all frames so far.
    used: usize,
    /// Room for the inline bytes of one frame, beside what stands before it if it goes behind relays.
    room_bytes: usize,
    /// The frame that is being cut into slices. No memory until there is one.
    pub(crate) whole: Vec<u8>,
    /// Frames that were cut into slices since this was last asked.
    pub(crate) sliced: u64,
    /// Frames that were too many slices for one batch.
    parted: u32,
    /// What stands before the next frame that goes behind relays, and where that goes first.
    pub(crate) before: Prefix,
}

impl TransmitBatch {
    /// Frames in one batch: about three segmented UDP sends of 64 KB at MTU 1500, so that few of them are cut short.
    pub const FRAMES_MAX: usize = 128;

    /// An empty batch for frames of up to `frame_bytes_max` bytes.
    pub fn new(frame_bytes_max: usize) -> Self {
        let room_bytes = frame_bytes_max.max(emp_wire::HEAD_BYTES_MAX);
        // One frame may be as long as any. What is never written to is memory of no page.
        let all = (room_bytes + RELAY_BYTES_MAX) * Self::FRAMES_MAX + LONG_FRAME_BYTES;
        let inline = vec![0; all].into_boxed_slice();
        let frames = vec![TransmitFrame::none(); Self::FRAMES_MAX].into_boxed_slice();
        let (whole, sliced, parted) = (Vec::new(), 0, 0);
        let count_max = Self::FRAMES_MAX;
        let before = Prefix::default();
        Self {
            frames,
            count: 0,
            count_max,
            inline,
            used: 0,
            room_bytes,
            whole,
            sliced,
            parted,
            before,
        }
    }

    /// Forgets the frames.
    pub fn clear(&mut self) {
        (self.count, self.count_max, self.used) = (0, self.frames.len(), 0);
    }

    /// The frames, in the order to send them.
    #[inline]
    pub fn frames(&self) -> &[TransmitFrame] {
        &self.frames[..self.count]
    }

    /// True if there is no frame.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// True if no further frame fits.
    pub fn is_full(&self) -> bool {
        self.count == self.count_max
    }

    /// Takes no further frame until it is cleared: a link may send what stands together in a batch in one segmented call.
    pub(crate) fn end(&mut self) {
        self.count_max = self.count;
    }

    /// It was ended with fewer frames than it could take.
    pub const fn is_ended(&self) -> bool {
        self.count_max < self.frames.len()
    }

    /// Frames that still fit.
    pub(crate) fn room(&self) -> u32 {
        (self.count_max - self.count) as u32
    }

    /// The longest frame that fits, in bytes.
    pub(crate) fn frame_bytes_max(&self) -> usize {
        self.room_bytes
    }

    /// The bytes of frame `index` that come before its segments.
    #[inline]
    pub fn inline(&self, index: usize) -> &[u8] {
        let frame = &self.frames()[index];
        &self.inline[frame.inline as usize..][..frame.inline_bytes as usize]
    }

    /// The last `bytes` bytes of what was written last.
    #[inline]
    pub(crate) fn last_bytes(&self, bytes: usize) -> &[u8] {
        &self.inline[self.used - bytes..self.used]
    }

    /// Adds a frame that `build` writes where it lies: room for its inline bytes, whose number it returns, and its list of
    /// segments. If it fails there is no frame. The caller has seen that the batch is not full. With `small` it may share its
    /// link frame with others to the same place (`BUNDLE-1`).
    #[inline(always)]
    pub(crate) fn add<E>(
        &mut self,
        hop: (LinkIndex, &LinkAddress),
        small: Option<Small>,
        build: impl FnOnce(&mut [u8], &mut FrameSegments) -> Result<usize, E>,
    ) -> Result<(), E> {
        let alone = self.open(hop, small);
        let (inline, segments) = self.opened();
        let built = build(inline, segments);
        self.close(alone, built)
    }

    /// Begins what [`add`](Self::add) adds. True: it is a link frame of its own.
    #[inline(always)]
    pub(crate) fn open(&mut self, hop: (LinkIndex, &LinkAddress), small: Option<Small>) -> bool {
        let alone = small.is_none_or(|small| !self.joins(hop, small));
        if alone {
            let frame = &mut self.frames[self.count];
            (frame.link, frame.to) = (hop.0, *hop.1);
            (frame.inline, frame.inline_bytes) = (self.used as u32, 0);
            frame.bundles = small.map(|small| small.node);
            frame.prefix_bytes = 0;
            frame.segments.clear();
            self.count += 1;
            if hop.1.is_behind_relays() {
                self.open_behind_relays();
            }
        }
        alone
    }

    /// Puts what stands before the frame that was begun where that begins. Without it the frame stays one to an address that no link has.
    #[cold]
    fn open_behind_relays(&mut self) {
        let frame = &mut self.frames[self.count - 1];
        if let Some(to) = self.before.to.take() {
            let bytes = &self.before.bytes;
            self.inline[self.used..][..bytes.len()].copy_from_slice(bytes);
            (frame.to, frame.bundles) = (to, None);
            (frame.inline_bytes, frame.prefix_bytes) = (bytes.len() as u32, bytes.len() as u8);
            self.used += bytes.len();
        }
    }

    /// The last frame is whole: how much stands behind its relay's head.
    #[cold]
    fn close_behind_relays(&mut self) {
        let frame = &self.frames[self.count - 1];
        let bytes = (frame.bytes() - RELAY_HEAD_BYTES) as u16;
        self.inline[frame.inline as usize + 2..][..2].copy_from_slice(&bytes.to_be_bytes());
    }

    /// Room for the inline bytes of the frame that was begun, and its list of segments.
    #[inline(always)]
    pub(crate) fn opened(&mut self) -> (&mut [u8], &mut FrameSegments) {
        let frame = &mut self.frames[self.count - 1];
        let room = self.room_bytes + usize::from(frame.prefix_bytes) - frame.inline_bytes as usize;
        (&mut self.inline[self.used..][..room], &mut frame.segments)
    }

    /// Ends it, with so many inline bytes; if it could not be built there is no frame.
    #[inline(always)]
    pub(crate) fn close<E>(&mut self, alone: bool, built: Result<usize, E>) -> Result<(), E> {
        let last = self.count - 1;
        match built {
            Ok(bytes) => {
                let frame = &mut self.frames[last];
                frame.inline_bytes += bytes as u32;
                frame.bundles = frame.bundles.filter(|_| frame.segments.is_empty());
                self.used += bytes.min(self.room_bytes);
                if frame.prefix_bytes > 0 {
                    self.close_behind_relays();
                }
                Ok(())
            }
            Err(error) => {
                if alone {
                    self.count = last;
                    self.used = self.frames[last].inline as usize;
                }
                Err(error)
            }
        }
    }

    /// Bytes that one frame and what stands before it may take.
    const fn place_bytes(&self) -> usize {
        self.room_bytes + RELAY_BYTES_MAX
    }

    /// A frame fits whose inline bytes are so many: more than other frames' only in a batch without such a one.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        let left = self.inline.len() - self.used;
        let others = (self.room() as usize).saturating_sub(1) * self.place_bytes();
        !self.is_full() && bytes.max(self.room_bytes) + RELAY_BYTES_MAX + others <= left
    }

    /// Such a frame fits an empty batch.
    pub(crate) fn would_fit(&self, bytes: usize) -> bool {
        let others = (self.frames.len() - 1) * self.place_bytes();
        bytes + RELAY_BYTES_MAX + others <= self.inline.len()
    }

    /// As [`add`](Self::add), for a frame of up to so many inline bytes, which [`fits`](Self::fits).
    pub(crate) fn add_long<E>(
        &mut self,
        hop: (LinkIndex, &LinkAddress),
        bytes: usize,
        build: impl FnOnce(&mut [u8], &mut FrameSegments) -> Result<usize, E>,
    ) -> Result<(), E> {
        let room = self.room_bytes;
        self.room_bytes = bytes.max(room);
        let added = self.add(hop, None, build);
        self.room_bytes = room;
        added
    }

    /// Copies what the only frame of the batch names in host memory behind its inline bytes, if there is room for it: then it names
    /// none. False: it still does.
    pub fn take_in(&mut self, memory: &impl HostMemory) -> bool {
        let [frame] = &mut self.frames[..self.count] else { return false };
        let mut end = frame.inline as usize + frame.inline_bytes as usize;
        let start = end;
        for segment in &frame.segments {
            let into = self.inline.get_mut(end..end + segment.bytes as usize);
            if into.is_none_or(|into| memory.read(*segment, into).is_err()) {
                return false;
            }
            end += segment.bytes as usize;
        }
        frame.segments.clear();
        frame.inline_bytes += (end - start) as u32;
        self.used = self.used.max(end);
        true
    }

    /// Frames that were cut into slices since the last call.
    pub(crate) fn take_sliced(&mut self) -> u64 {
        core::mem::take(&mut self.sliced)
    }

    /// With which of so many slices the next frame begins that is too many for one batch: spread evenly over all (Fibonacci hashing),
    /// so that no rhythm in which such frames take turns leaves out the same slices of one.
    pub(crate) fn next_slice(&mut self, slices: usize) -> usize {
        self.parted = self.parted.wrapping_add(1);
        let spread = u64::from(self.parted.wrapping_mul(0x9e37_79b9));
        ((spread * slices as u64) >> 32) as usize
    }

    /// Takes the last frame out of the batch, its bytes into `whole`; tells where it was to go.
    pub(crate) fn take_last(
        &mut self,
        whole: &mut Vec<u8>,
        memory: &impl HostMemory,
    ) -> Result<(LinkIndex, LinkAddress), MemoryFault> {
        self.count -= 1;
        let frame = &self.frames[self.count];
        let inline = &self.inline[frame.inline as usize..][..frame.inline_bytes as usize];
        let (prefix, inline) = inline.split_at(frame.prefix_bytes.into());
        whole.clear();
        whole.extend_from_slice(inline);
        let behind_relays = !prefix.is_empty();
        if behind_relays {
            self.before.bytes = prefix.iter().copied().collect();
            self.before.to = Some(frame.to);
        }
        self.used = frame.inline as usize;
        for segment in &frame.segments {
            let end = whole.len();
            whole.resize(end + segment.bytes as usize, 0);
            memory.read(*segment, &mut whole[end..])?;
        }
        // Such a place has nothing but what stands before its frames.
        let to = if behind_relays { LinkAddress::BEYOND } else { frame.to };
        Ok((frame.link, to))
    }

    /// Such a frame may join the last link frame.
    #[inline(always)]
    fn joins(&self, hop: (LinkIndex, &LinkAddress), small: Small) -> bool {
        let Some(last) = self.count.checked_sub(1).map(|last| &self.frames[last]) else {
            return false;
        };
        if last.bundles != Some(small.node) {
            return false;
        }
        let bytes = last.inline_bytes as usize + small.most;
        bytes <= small.room.min(self.room_bytes) && last.link == hop.0 && last.to == *hop.1
    }
}

/// What is known of a frame before it is built.
#[derive(Clone, Copy)]
pub(crate) struct Small {
    /// The node it is for.
    pub(crate) node: NodeId,
    /// Bytes that it has at most, none of them in host memory.
    pub(crate) most: usize,
    /// Bytes that the link frame may have.
    pub(crate) room: usize,
}

impl TransmitFrame {
    const fn none() -> Self {
        Self {
            link: LinkIndex(0),
            to: LinkAddress::EVERYONE,
            inline: 0,
            inline_bytes: 0,
            prefix_bytes: 0,
            bundles: None,
            segments: ArrayVec::new_const(),
        }
    }

    /// Pieces of host memory that follow the inline bytes.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Bytes of the whole frame.
    pub fn bytes(&self) -> usize {
        self.inline_bytes as usize + self.segments.iter().map(|s| s.bytes as usize).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_fit_an_empty_batch_fits_one() {
        for frame_bytes_max in [600, 1_500, 9_000] {
            let batch = TransmitBatch::new(frame_bytes_max);
            let most = LONG_FRAME_BYTES + frame_bytes_max;
            for bytes in (0..2 * most).step_by(61).chain([most - 1, most, most + 1]) {
                assert_eq!(batch.fits(bytes), bytes <= most, "{bytes}");
                assert_eq!(batch.would_fit(bytes), bytes <= most, "{bytes}");
            }
        }
    }

    /// What is here takes its room: behind a long frame there is room for all others, and not for a second long one.
    #[test]
    fn a_batch_has_room_for_one_long_frame() {
        let mut batch = TransmitBatch::new(1_500);
        let to = LinkAddress::index(1);
        let hop = (LinkIndex(0), &to);
        let long = LONG_FRAME_BYTES;
        assert!(batch.fits(long));
        batch.add_long(hop, long, |_, _| Ok::<_, ()>(long)).expect("it fits");
        assert!(!batch.fits(long) && batch.fits(1_500));
        while batch.room() > 0 {
            assert!(batch.fits(1_500));
            batch.add(hop, None, |_, _| Ok::<_, ()>(1_500)).expect("it fits");
        }
        assert!(!batch.fits(1_500));
    }

    /// Frames that are too many slices for a batch begin with each of them about as often, whatever turns they take.
    #[test]
    fn frames_in_many_slices_begin_with_any_of_them() {
        for (slices, turns) in [(129_usize, 1), (200, 2), (961, 3)] {
            let mut batch = TransmitBatch::new(600);
            let mut begun = vec![0_u32; slices];
            for turn in 0..slices * turns * 20 {
                let first = batch.next_slice(slices);
                begun[first] += u32::from(turn % turns == 0);
            }
            assert!(begun.iter().all(|times| (15..=25).contains(times)), "{begun:?}");
        }
    }
}
