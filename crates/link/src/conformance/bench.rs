//! What the checks share: frames that can be told apart, and sending and collecting with patience.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use emp_wire::{DESTINATION_TAG_OFFSET, HEADER_BYTES, Kind, LinkAddress};

use super::{Outcome, Pair};
use crate::{Link, TxFrame};

/// The tags of the two ends.
pub(super) const TAGS: [u16; 2] = [0x0A0B, 0x1C1D];

/// Longest time that a frame may take: far beyond any real delay, for machines under load.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Frames shorter than this, in bytes, may come with padding: Ethernet's shortest payload.
const PADDED_BELOW_BYTES: usize = 46;

/// First byte of each frame: format version 1, data.
const VERSION_AND_KIND: u8 = 1 << 5 | Kind::Data as u8;

/// Where a frame has its source tag.
const SOURCE_TAG_AT: std::ops::Range<usize> = 8..12;

/// How long nothing must come before a queue counts as empty.
pub(super) const QUIET: Duration = Duration::from_millis(50);

/// Numbers of frames that only show that all before them has come.
const MARKS: u64 = 1 << 40;

/// Frames received together in one call.
pub(super) const BUDGET: usize = 64;

/// Fails with a text unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Err(format!($($text)+));
        }
    };
}
pub(super) use ensure;

/// Two open ends and what the checks need to know about them.
pub(super) struct Ends {
    pub(super) a: Box<dyn Link>,
    pub(super) b: Box<dyn Link>,
    /// Where end b is, as end a sees it.
    pub(super) to_b: LinkAddress,
    pub(super) to_a: LinkAddress,
    /// Largest frame that both take, in bytes.
    pub(super) bytes_max: usize,
    /// Largest long frame that both carry, in bytes; 0 for none.
    pub(super) long_bytes: usize,
}

impl Ends {
    pub(super) fn open(pair: &dyn Pair) -> Result<Self, String> {
        let [a, b] = pair.open(TAGS)?;
        let bytes_max = a.capabilities().frame_bytes_max.min(b.capabilities().frame_bytes_max);
        ensure!(bytes_max >= HEADER_BYTES, "frames of {bytes_max} bytes do not fit a header");
        let long_bytes = a.capabilities().long_frame_bytes.min(b.capabilities().long_frame_bytes);
        let (to_a, to_b) = (a.capabilities().address, b.capabilities().address);
        Ok(Self { a, b, to_b, to_a, bytes_max, long_bytes })
    }

    /// Sends frames from a to b as one batch, and checks that b gets exactly them, in order.
    pub(super) fn deliver(&mut self, frames: &[Vec<u8>]) -> Outcome {
        send_all(&mut *self.a, self.to_b, frames)?;
        let got = collect(&mut *self.b, frames.len())?;
        same(&got, frames)
    }
}

/// Frame number `number` to the node with `tag`, `bytes` long, with contents that no other frame
/// has.
pub(super) fn frame(tag: u16, number: u64, bytes: usize) -> Vec<u8> {
    let mut state = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut frame: Vec<u8> = (0..bytes)
        .map(|_| {
            // Xorshift: cheap, and no two frames look alike.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect();
    if let Some(first) = frame.first_mut() {
        *first = VERSION_AND_KIND;
    }
    // Who finds frames in what the kernel merged goes by the length behind the header, so it must be true.
    if let Some(length) = bytes.checked_sub(HEADER_BYTES).and_then(|rest| u16::try_from(rest).ok())
    {
        // No flags: one of them says that a payload is not summed, and must be copied.
        frame[1] = 0;
        frame[2..4].copy_from_slice(&length.to_be_bytes());
    }
    let tag_at = DESTINATION_TAG_OFFSET;
    if bytes >= tag_at + 2 {
        frame[tag_at..tag_at + 2].copy_from_slice(&tag.to_be_bytes());
    }
    // And the sender's, which some links look at: whatever is not for end 0 is from there.
    if let Some(source) = frame.get_mut(SOURCE_TAG_AT) {
        let sender = if tag == TAGS[0] { TAGS[1] } else { TAGS[0] };
        source.copy_from_slice(&source_tag_of(sender).to_be_bytes());
    }
    frame
}

/// The source tag (`FRAME-4`) of the frames that the end with this destination tag sends.
pub const fn source_tag_of(tag: u16) -> u32 {
    (tag as u32) << 16
}

/// `count` frames of one size, numbered from `first`.
pub(super) fn frames(tag: u16, first: u64, count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count as u64).map(|number| frame(tag, first + number, bytes)).collect()
}

/// Offers frames, each in one part, until all are taken.
pub(super) fn send_all(link: &mut dyn Link, to: LinkAddress, frames: &[Vec<u8>]) -> Outcome {
    let parts: Vec<[IoSlice<'_>; 1]> = frames.iter().map(|bytes| [IoSlice::new(bytes)]).collect();
    let batch: Vec<TxFrame<'_>> = parts.iter().map(|parts| TxFrame { to, parts }).collect();
    send_batch(link, &batch)
}

/// Offers a batch until all of it is taken.
pub(super) fn send_batch(link: &mut dyn Link, batch: &[TxFrame<'_>]) -> Outcome {
    let start = Instant::now();
    let mut taken = 0;
    while taken < batch.len() {
        taken += link.send(&batch[taken..]);
        ensure!(
            start.elapsed() < PATIENCE,
            "only {taken} of {} frames were taken in time",
            batch.len()
        );
    }
    Ok(())
}

/// Receives until `count` frames are there, or nothing comes for too long, which is an error.
pub(super) fn collect(link: &mut dyn Link, count: usize) -> Result<Vec<Vec<u8>>, String> {
    let start = Instant::now();
    let mut got = Vec::new();
    while got.len() < count {
        if link.receive(BUDGET, &mut |bytes, _| got.push(bytes.to_vec())) == 0 {
            ensure!(start.elapsed() < PATIENCE, "{} of {count} frames arrived", got.len());
            link.wait(Some(Duration::from_millis(1)));
        }
    }
    Ok(got)
}

/// Receives whatever comes until nothing has come for `quiet`. Returns the number of frames.
pub(super) fn drain(link: &mut dyn Link, quiet: Duration) -> usize {
    let (start, mut last) = (Instant::now(), Instant::now());
    let mut count = 0;
    while last.elapsed() < quiet && start.elapsed() < PATIENCE {
        let more = link.receive(BUDGET, &mut |_, _| ());
        count += more;
        if more > 0 {
            last = Instant::now();
        }
    }
    count
}

/// Receives until nothing that was sent before is under way any more: what is not at the receiver at once, as others carry it on, may come
/// long after what was before it on a busy machine. Returns the number of frames.
pub(super) fn settle(
    (from, to): (&mut dyn Link, &mut dyn Link),
    (address, tag): (LinkAddress, u16),
) -> Result<usize, String> {
    let start = Instant::now();
    let mut count = drain(to, QUIET);
    // A mark may be lost as well; of several each is another.
    for number in MARKS.. {
        let mark = frame(tag, number, 100);
        send_all(from, address, std::slice::from_ref(&mark))?;
        let mut came = false;
        while !came && start.elapsed() < PATIENCE && to.wait(Some(QUIET)) {
            count += to.receive(1, &mut |bytes, _| came |= matches(bytes, &mark));
        }
        if came {
            return Ok(count.saturating_sub((number - MARKS) as usize + 1));
        }
        ensure!(start.elapsed() < PATIENCE, "what was sent last does not arrive");
    }
    Ok(count)
}

/// Whether `got` is `sent`, but for the padding that Ethernet adds to short frames.
pub(super) fn matches(got: &[u8], sent: &[u8]) -> bool {
    let padded = sent.len() < PADDED_BELOW_BYTES && got.len() == PADDED_BELOW_BYTES;
    got.starts_with(sent) && (got.len() == sent.len() || padded)
}

/// Checks that the same frames arrived in the same order.
pub(super) fn same(got: &[Vec<u8>], sent: &[Vec<u8>]) -> Outcome {
    ensure!(got.len() == sent.len(), "{} frames came instead of {}", got.len(), sent.len());
    for (place, (got, sent)) in got.iter().zip(sent).enumerate() {
        ensure!(
            matches(got, sent),
            "frame {place} of {} bytes came changed, or out of order, with {} bytes",
            sent.len(),
            got.len()
        );
    }
    Ok(())
}
