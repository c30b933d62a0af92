//! Frames on their way from a firmware's batch to the network, through links that take some of them now and the rest later, as
//! a card with a full ring does. What it keeps to is what the host's outgoing stage keeps to: the batch is refilled only when all of it
//! was taken, each link's frames leave in order, the end of a send is not told while a frame names its memory, and what a
//! link does not take for too long is dropped.

use emp_firmware::{Firmware, HostMemory, LinkIndex, LinkInfo, Span, Time, TransmitBatch};

use crate::memory::SimMemory;
use crate::network::Network;
use crate::prng::Prng;

/// What a node's links and their host do with batches and trains.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Card {
    /// Frames that a link takes in one call, drawn for each call from 0 to this. `None`: all.
    pub takes_max: Option<u32>,
    /// Posts may wait in the batch for those that follow them.
    pub gathers_posts: bool,
    /// Frames of one length that follow each other are handed up in one piece.
    pub trains: bool,
    /// Where the firmware says where their payload belongs, it is there when the firmware hears of them.
    pub places: bool,
    /// It is known of each frame how long it waited until somebody looked (`ACK-8`).
    pub stamps: bool,
}

/// How long frames that a link does not take are kept: as in the host.
const FULL_MAX: Span = Span::ms(10);

/// When a link that took too little is tried again.
const AGAIN_AFTER: Span = Span::us(3);

/// Frames of a batch: each has a bit.
const _: () = assert!(TransmitBatch::FRAMES_MAX <= 128);

/// The batch being sent, and what of it was not taken yet.
pub struct Outbox {
    batch: TransmitBatch,
    unsent: u128,
    /// Nothing of the batch was offered yet: it may grow.
    open: bool,
    full_since: Option<Time>,
    /// Frames dropped because a link did not take them.
    pub dropped: u64,
    /// The longest frame that each link takes; any if it cuts longer ones.
    lengths: Box<[usize]>,
    /// A frame that was longer: by which link, and how long it was.
    pub overlong: Option<(LinkIndex, usize)>,
}

impl Outbox {
    /// An empty one for frames of these links.
    pub fn new(links: &[LinkInfo]) -> Self {
        let most = links.iter().map(|link| link.frame_bytes_max).max();
        let batch = TransmitBatch::new(most.unwrap_or(0));
        let length = |link: &LinkInfo| match link.long_frames {
            true => usize::MAX,
            false => link.frame_bytes_max,
        };
        let (lengths, overlong) = (links.iter().map(length).collect(), None);
        Self { batch, unsent: 0, open: false, full_since: None, dropped: 0, lengths, overlong }
    }

    /// All was taken.
    pub fn is_done(&self) -> bool {
        self.unsent == 0
    }

    /// When to try again, if a link did not take all.
    pub fn retry(&self, now: Time) -> Option<Time> {
        (!self.is_done()).then_some(now + AGAIN_AFTER)
    }

    /// A frame that was not taken yet names host memory: no end of a send may be told.
    pub fn names_memory(&self) -> bool {
        let frames = self.batch.frames().iter().enumerate();
        frames.filter(|(i, _)| self.unsent >> i & 1 == 1).any(|(_, f)| !f.segments().is_empty())
    }

    /// The batch, if frames may be added to it; then [`grown`](Self::grown).
    pub fn growing(&mut self) -> Option<&mut TransmitBatch> {
        if self.is_done() {
            self.batch.clear();
            self.open = true;
        }
        self.open.then_some(&mut self.batch)
    }

    /// Frames were added, or not.
    pub fn grown(&mut self) {
        let frames = self.batch.frames().len();
        self.unsent = if frames == 0 { 0 } else { u128::MAX >> (128 - frames) };
    }

    /// Has the firmware fill the batch if it may. False: there is nothing to send.
    pub fn refill(&mut self, now: Time, firmware: &mut Firmware, memory: &mut SimMemory) -> bool {
        if self.is_done() {
            let Some(batch) = self.growing() else { return false };
            firmware.poll_transmit(now, memory, batch);
            self.grown();
        }
        !self.is_done()
    }

    /// The batch was ended with fewer frames than it takes.
    pub fn is_ended(&self) -> bool {
        self.batch.is_ended()
    }

    /// Forgets what was not taken.
    pub fn forget(&mut self) {
        (self.unsent, self.full_since) = (0, None);
        self.batch.clear();
    }

    /// Offers what was not taken to the links, each link's frames in order. True: all of it is gone.
    pub fn offer(
        &mut self,
        card: &Card,
        prng: &mut Prng,
        memory: &SimMemory,
        (index, now): (usize, Time),
        network: &mut Network,
    ) -> bool {
        let before = self.unsent;
        self.open = false;
        // Most links take all; no number is drawn for those.
        let mut takes = [None; 8];
        for (at, frame) in self.batch.frames().iter().enumerate() {
            let link = usize::from(frame.link.0) % takes.len();
            let left = takes[link].get_or_insert_with(|| match card.takes_max {
                Some(most) => prng.below(u64::from(most) + 1) as u32,
                None => u32::MAX,
            });
            if before >> at & 1 == 0 || *left == 0 {
                continue;
            }
            *left -= 1;
            self.unsent &= !(1 << at);
            let most = self.lengths.get(usize::from(frame.link.0)).copied().unwrap_or(0);
            if frame.bytes() > most {
                self.overlong.get_or_insert((frame.link, frame.bytes()));
            }
            send_frame(&self.batch, at, memory, (index, now), network);
        }
        if self.unsent == 0 {
            self.full_since = None;
            return true;
        }
        if self.unsent != before {
            self.full_since = Some(now);
        } else if now.since(*self.full_since.get_or_insert(now)) > FULL_MAX {
            self.dropped += u64::from(self.unsent.count_ones());
            self.forget();
            return true;
        }
        false
    }
}

/// A frame leaves: what it names is read now.
fn send_frame(
    batch: &TransmitBatch,
    at: usize,
    memory: &SimMemory,
    (index, now): (usize, Time),
    network: &mut Network,
) {
    let frame = &batch.frames()[at];
    let mut bytes = network.buffer();
    bytes.extend_from_slice(batch.inline(at));
    for segment in frame.segments() {
        let end = bytes.len();
        bytes.resize(end + segment.bytes as usize, 0);
        // A fault is noted by the memory and fails the run.
        let _ = memory.read(*segment, &mut bytes[end..]);
    }
    let link: LinkIndex = frame.link;
    network.send(now, index, link, frame.to, bytes);
}
