//! The two halves of a threaded link: one puts frames into a ring, the other takes them out of one. Neither knows the other.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emp_rings::{SlotConsumer, SlotProducer};
use emp_wire::LinkAddress;

use crate::{Capabilities, FrameSink, LinkStatistics, TxFrame};

/// Frames that are handed over together: each hand-over takes a cache line from the other core, and what waits for one is late.
pub(super) const TOGETHER: usize = 8;

/// A frame on its way between the threads.
pub(super) struct Frame {
    /// Where to, or where from.
    pub(super) address: LinkAddress,
    pub(super) bytes: Vec<u8>,
    /// When the thread took it from its link, and how long it had been there by then, if anybody knew.
    pub(super) fetched: Instant,
    pub(super) waited: Duration,
    /// A switch marked it (ECN).
    pub(super) marked: bool,
}

impl Default for Frame {
    fn default() -> Self {
        Self {
            address: LinkAddress::EVERYONE,
            bytes: Vec::new(),
            fetched: Instant::now(),
            waited: Duration::ZERO,
            marked: false,
        }
    }
}

/// The sending half.
pub(super) struct Sending {
    ring: SlotProducer<Frame>,
    /// The link took nothing of what it was offered last: it is full, whatever room there is in the ring.
    stuck: Arc<AtomicBool>,
    /// Largest frame that was ever taken, and most parts of one.
    bytes_max: usize,
    parts_max: usize,
    full: u64,
    refused: u64,
    lost: u64,
}

impl Sending {
    pub(super) fn new(
        ring: SlotProducer<Frame>,
        stuck: Arc<AtomicBool>,
        of: &Capabilities,
    ) -> Self {
        let (bytes_max, parts_max) = (of.sent_bytes_max(), of.parts_max);
        Self { ring, stuck, bytes_max, parts_max, full: 0, refused: 0, lost: 0 }
    }

    /// Copies frames into the ring. Returns how many were taken.
    #[inline]
    pub(super) fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        if self.stuck.load(Ordering::Relaxed) {
            self.full += 1;
            return 0;
        }
        let mut taken = 0;
        for frame in batch {
            let fits = (1..=self.bytes_max).contains(&frame.len());
            if !fits || frame.parts.len() > self.parts_max {
                self.refused += 1;
            } else if self.put(frame).is_none() {
                self.full += 1;
                break;
            }
            taken += 1;
            if taken % TOGETHER == 0 {
                self.ring.publish();
            }
        }
        self.ring.publish();
        taken
    }

    #[inline]
    fn put(&mut self, frame: &TxFrame<'_>) -> Option<()> {
        self.ring.fill(|slot| {
            slot.address = frame.to;
            slot.bytes.clear();
            frame.parts.iter().for_each(|part| slot.bytes.extend_from_slice(part));
        })
    }

    /// Nobody sends these any more: they are taken and lost.
    #[cold]
    pub(super) fn lose(&mut self, frames: usize) -> usize {
        self.lost += frames as u64;
        frames
    }

    pub(super) fn must_wake(&self) -> bool {
        self.ring.must_wake()
    }

    /// What the link itself did not hear of.
    pub(super) fn add_to(&self, counts: &mut LinkStatistics) {
        counts.send_full += self.full;
        counts.send_refused += self.refused;
        counts.system_errors += self.lost;
    }
}

/// The receiving half.
pub(super) struct Receiving {
    ring: SlotConsumer<Frame>,
    /// The thread was told to wake who sleeps.
    armed: Cell<bool>,
    frames: u64,
    bytes: u64,
}

impl Receiving {
    pub(super) fn new(ring: SlotConsumer<Frame>) -> Self {
        Self { ring, armed: Cell::new(false), frames: 0, bytes: 0 }
    }

    /// Hands up what is there, up to the budget. Returns how many.
    #[inline]
    pub(super) fn receive(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        let all = self.ring.ready().min(budget);
        let asked_at = (all > 0 && sink.asks_what_waited()).then(Instant::now);
        let (mut left, mut marked) = (all, false);
        while left > 0 {
            let some = left.min(TOGETHER);
            for place in 0..some {
                let Some(frame) = self.ring.get(place) else { break };
                if let Some(now) = asked_at {
                    sink.waited(now.saturating_duration_since(frame.fetched) + frame.waited);
                }
                if frame.marked != marked {
                    marked = frame.marked;
                    sink.marked(marked);
                }
                self.bytes += frame.bytes.len() as u64;
                sink.frame(&frame.bytes, &frame.address);
            }
            self.ring.release(some);
            left -= some;
        }
        self.frames += all as u64;
        all
    }

    pub(super) fn is_armed(&self) -> bool {
        self.armed.get()
    }

    /// Has the thread wake who sleeps from now on. True: something is there already.
    pub(super) fn arm(&self) -> bool {
        self.armed.set(true);
        self.ring.arm()
    }

    pub(super) fn disarm(&mut self) {
        self.armed.set(false);
        self.ring.disarm();
    }

    /// What was handed up: what the link counts may wait in the ring.
    pub(super) fn put_into(&self, counts: &mut LinkStatistics) {
        (counts.frames_received, counts.bytes_received) = (self.frames, self.bytes);
    }
}
