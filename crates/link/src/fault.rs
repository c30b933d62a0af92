//! A wrapper that makes any link as bad as one wants, and does so again the same way.
//!
//! Each frame's fate is drawn from a seeded generator, so a run that found a mistake can be
//! repeated (as far as the frames themselves come in the same order). Untouched frames pass as the
//! batches they came in; only frames that something happens to are copied.

mod injector;
mod plan;
mod random;

pub use plan::{FaultPlan, FaultPlanError};

use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use emp_wire::{KIND_OFFSET, LinkAddress};

use crate::{Capabilities, Condition, FrameSink, Link, LinkStatistics, PeerMemory, TxFrame};
use injector::{Change, Fate, Injector};

/// What a [`FaultLink`] did, both ways together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultCounters {
    /// Frames of the plan's kinds that were judged. A long frame ([`Capabilities::long_frame_bytes`]) counts here, and where
    /// frames are lost, as the pieces that it is on the wire.
    pub frames: u64,
    /// Frames lost, or pieces of long ones, of which each takes its whole frame with it.
    pub dropped: u64,
    /// Frames sent or handed up twice.
    pub duplicated: u64,
    /// Frames held until others overtook them.
    pub reordered: u64,
    /// Frames held for a time.
    pub delayed: u64,
    /// Frames with a flipped bit.
    pub corrupted: u64,
    /// Frames whose end was cut off.
    pub truncated: u64,
    /// Frames that should have been held and were not, because too many already were.
    pub not_held: u64,
}

impl FaultCounters {
    fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames + other.frames,
            dropped: self.dropped + other.dropped,
            duplicated: self.duplicated + other.duplicated,
            reordered: self.reordered + other.reordered,
            delayed: self.delayed + other.delayed,
            corrupted: self.corrupted + other.corrupted,
            truncated: self.truncated + other.truncated,
            not_held: self.not_held + other.not_held,
        }
    }
}

/// A link with faults.
pub struct FaultLink<L> {
    inner: L,
    out: Option<Injector>,
    back: Option<Injector>,
}

impl<L: Link> FaultLink<L> {
    /// Wraps a link. A quiet plan costs nothing.
    pub fn new(inner: L, plan: &FaultPlan) -> Self {
        // What a checksum would have thrown away is lost where there is none, or the carrier's throws it away below this (`CRC-3`,
        // `CRC-4`): flipped bits are for wires.
        let link = inner.capabilities();
        let unsummed = link.address.is_memory() || link.sums;
        let injector = |wanted: bool, seed| {
            (wanted && !plan.is_quiet()).then(|| Injector::new(plan.clone(), unsummed, seed))
        };
        Self {
            inner,
            out: injector(plan.on_send, plan.seed),
            // The ways must not fail in step.
            back: injector(plan.on_receive, !plan.seed),
        }
    }

    /// What went wrong so far.
    pub fn faults(&self) -> FaultCounters {
        let counts = |side: &Option<Injector>| side.as_ref().map(|side| side.counts);
        counts(&self.out).unwrap_or_default().plus(counts(&self.back).unwrap_or_default())
    }

    /// The link inside.
    pub fn inner(&self) -> &L {
        &self.inner
    }

    /// Sends what is due, as far as there is room.
    fn release(&mut self) {
        if let Some(out) = &mut self.out {
            release_to(&mut self.inner, out);
        }
    }
}

fn send_one(link: &mut impl Link, to: LinkAddress, bytes: &[u8]) -> bool {
    link.send(&[TxFrame { to, parts: &[IoSlice::new(bytes)] }]) == 1
}

fn release_to(link: &mut impl Link, out: &mut Injector) {
    let now = Instant::now();
    while let Some(held) = out.take_due(now) {
        if !send_one(link, held.address, &held.bytes) {
            out.put_back(held);
            return;
        }
        out.give_back(held.bytes);
    }
}

/// Lets a frame that is not to pass untouched go its way.
fn send_altered(link: &mut impl Link, out: &mut Injector, frame: &TxFrame<'_>, change: &Change) {
    let now = Instant::now();
    let mut bytes = out.buffer();
    frame.parts.iter().for_each(|part| bytes.extend_from_slice(part));
    out.damage(&mut bytes, change);
    if change.duplicate {
        let mut copy = out.buffer();
        copy.extend_from_slice(&bytes);
        out.counts.duplicated += 1;
        send_or_keep(link, out, frame.to, copy, now);
    }
    if let Some(bytes) = out.hold(change, frame.to, bytes, now) {
        send_or_keep(link, out, frame.to, bytes, now);
    }
}

fn send_or_keep(
    link: &mut impl Link,
    out: &mut Injector,
    to: LinkAddress,
    bytes: Vec<u8>,
    now: Instant,
) {
    if send_one(link, to, &bytes) {
        out.give_back(bytes);
    } else {
        out.keep(to, bytes, now);
    }
}

/// The kinds of the frames in a link frame (`BUNDLE-1`): bit k stands for kind k, the low five bits of a frame's first byte.
fn kinds(link_frame: &[u8]) -> u32 {
    let kind = |frame: &[u8]| frame.get(KIND_OFFSET).map_or(0, |byte| byte & 0x1F);
    emp_wire::frames(link_frame).fold(0, |kinds, frame| kinds | 1 << kind(frame))
}

/// Pieces that a frame is on the wire: more than one only where it is longer than the link's usual ones.
fn pieces(frame_bytes: usize, frame_bytes_max: usize) -> usize {
    frame_bytes.div_ceil(frame_bytes_max.max(1)).max(1)
}

/// The kinds of the frames in what is to be sent, as far as the plan asks.
fn kinds_sent(out: &mut Injector, frame: &TxFrame<'_>) -> u32 {
    if out.means_all() {
        return u32::MAX;
    }
    let mut bytes = out.buffer();
    frame.parts.iter().for_each(|part| bytes.extend_from_slice(part));
    let kinds = kinds(&bytes);
    out.give_back(bytes);
    kinds
}

/// Hands up held frames that are due, at most `budget`.
fn hand_up_due(
    back: &mut Injector,
    budget: usize,
    sink: &mut dyn FnMut(&[u8], &LinkAddress),
) -> usize {
    let now = Instant::now();
    let mut handed = 0;
    while handed < budget {
        let Some(held) = back.take_due(now) else { break };
        sink(&held.bytes, &held.address);
        back.give_back(held.bytes);
        handed += 1;
    }
    handed
}

/// What the frame becomes on its way up. True if it was handed to the sink now.
fn hand_up(
    back: &mut Injector,
    pieces: usize,
    frame: &[u8],
    from: &LinkAddress,
    sink: &mut dyn FnMut(&[u8], &LinkAddress),
) -> bool {
    let change = match back.judge(kinds(frame), pieces) {
        Fate::Pass => {
            sink(frame, from);
            return true;
        }
        Fate::Lose => return false,
        Fate::Alter(change) => change,
    };
    let now = Instant::now();
    let mut bytes = back.buffer();
    bytes.extend_from_slice(frame);
    back.damage(&mut bytes, &change);
    if change.duplicate {
        let mut copy = back.buffer();
        copy.extend_from_slice(&bytes);
        back.counts.duplicated += 1;
        back.keep(*from, copy, now);
    }
    match back.hold(&change, *from, bytes, now) {
        Some(bytes) => {
            sink(&bytes, from);
            back.give_back(bytes);
            true
        }
        None => false,
    }
}

impl<L: Link> Link for FaultLink<L> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.release();
        let Some(out) = &mut self.out else { return self.inner.send(batch) };
        // Frames before `start` are taken; those from it to the one looked at pass untouched.
        let mut start = 0;
        let frame_bytes_max = self.inner.capabilities().frame_bytes_max;
        for (index, frame) in batch.iter().enumerate() {
            let kinds = kinds_sent(out, frame);
            let fate = out.judge(kinds, pieces(frame.len(), frame_bytes_max));
            let overtaken = out.overtaken();
            if fate == Fate::Pass && !overtaken {
                continue;
            }
            let untouched = if fate == Fate::Pass { index + 1 } else { index };
            let run = &batch[start..untouched];
            let taken = if run.is_empty() { 0 } else { self.inner.send(run) };
            if taken < run.len() {
                return start + taken;
            }
            if let Fate::Alter(change) = &fate {
                send_altered(&mut self.inner, out, frame, change);
            }
            if overtaken {
                release_to(&mut self.inner, out);
            }
            start = index + 1;
        }
        let rest = &batch[start..];
        start + if rest.is_empty() { 0 } else { self.inner.send(rest) }
    }

    fn send_lent(&mut self, frame: &TxFrame<'_>) -> bool {
        self.release();
        let Some(out) = &mut self.out else { return self.inner.send_lent(frame) };
        let frame_bytes_max = self.inner.capabilities().frame_bytes_max;
        let kinds = kinds_sent(out, frame);
        let fate = out.judge(kinds, pieces(frame.len(), frame_bytes_max));
        let overtaken = out.overtaken();
        match &fate {
            Fate::Pass if !self.inner.send_lent(frame) => return false,
            Fate::Pass | Fate::Lose => {}
            Fate::Alter(change) => send_altered(&mut self.inner, out, frame, change),
        }
        if overtaken {
            release_to(&mut self.inner, out);
        }
        true
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.release();
        let Some(back) = &mut self.back else { return self.inner.receive(budget, sink) };
        let frame_bytes_max = self.inner.capabilities().frame_bytes_max;
        let mut handed = 0;
        // One by one, so that a held frame goes up right after those that were to overtake it.
        for _ in 0..budget {
            handed += hand_up_due(back, budget - handed, sink);
            if handed == budget {
                break;
            }
            let got = self.inner.receive(1, &mut |frame, from| {
                handed += usize::from(hand_up(
                    back,
                    pieces(frame.len(), frame_bytes_max),
                    frame,
                    from,
                    sink,
                ));
            });
            if got == 0 {
                break;
            }
        }
        handed + hand_up_due(back, budget - handed, sink)
    }

    /// Faults need whole frames. Where nothing that comes is disturbed the link may place them as it would alone, so that
    /// losses on the way out cost what losses cost, and no more.
    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        if self.back.is_none() {
            self.release();
            return self.inner.receive_into(budget, sink);
        }
        self.receive(budget, &mut |frame, from| sink.frame(frame, from))
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        let deadline = timeout.and_then(|time| Instant::now().checked_add(time));
        loop {
            self.release();
            let now = Instant::now();
            let due_back = self.back.as_ref().and_then(|back| back.next_due(now));
            if due_back == Some(Duration::ZERO) {
                return true;
            }
            let due_out = self.out.as_ref().and_then(|out| out.next_due(now));
            // Frames that are due and found no room are tried again soon, not at once.
            let due_out = due_out.map(|due| due.max(RETRY_PAUSE));
            let left = deadline.map(|end| end.saturating_duration_since(now));
            let limit = [due_back, due_out, left].into_iter().flatten().min();
            if self.inner.wait(limit) {
                return true;
            }
            if deadline.is_some_and(|end| Instant::now() >= end) {
                return false;
            }
        }
    }

    fn next_due(&self) -> Option<Duration> {
        let now = Instant::now();
        let due = |side: &Option<Injector>| side.as_ref().and_then(|side| side.next_due(now));
        [self.inner.next_due(), due(&self.out), due(&self.back)].into_iter().flatten().min()
    }

    fn peer_memory(&self) -> Option<std::sync::Arc<PeerMemory>> {
        self.inner.peer_memory()
    }

    fn faults(&self) -> Option<FaultCounters> {
        Some(FaultLink::faults(self))
    }

    fn condition(&mut self) -> Option<Condition<'_>> {
        self.inner.condition()
    }

    fn has_ended(&self, address: &LinkAddress) -> bool {
        self.inner.has_ended(address)
    }

    fn notice(&mut self) -> Option<String> {
        self.inner.notice()
    }

    fn interfaces_changed(&mut self) -> Option<bool> {
        self.inner.interfaces_changed()
    }

    fn statistics(&self) -> LinkStatistics {
        self.inner.statistics()
    }
}

/// Pause before held frames are offered again to a link that is full: the time of some ten frames.
const RETRY_PAUSE: Duration = Duration::from_micros(10);

#[cfg(test)]
mod tests;
