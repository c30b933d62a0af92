//! The bare link: what EMP would be if it cost nothing. Frames, no reliability.
//!
//! Messages longer than a frame are cut up. Like EMP, it copies what arrives to a buffer. In a ping-pong a message that
//! does not come back is counted as lost and the next one sent; streams are in [`super::flow`]. Between processes of
//! one machine a large message of a ping-pong is one read of the other's memory ([`super::memory`]).

use std::io::IoSlice;
use std::time::{Duration, Instant};

use anyhow::bail;
use emp_host::PageBuffer;
use emp_link::{Link, TxFrame};
use emp_wire::{HEADER_BYTES, LinkAddress};

use super::frame::{Head, Kind};
use super::long::Long;
use super::memory::{NOTE, RawMemory};
use super::placing::{Slots, Taker};
use crate::bench::job::{Job, Measure, Pattern};
use crate::bench::patience::Patience;
use crate::bench::subject::kind::{Role, Subject};
use crate::bench::subject::memory;

/// Most frames handed to the link in one call.
pub(super) const BATCH: usize = 64;

/// Frames taken from the link in one call.
pub(super) const BUDGET: usize = 64;

/// A message that is not back after this long is lost: far above any round trip here, far below a person's patience.
const LOST_AFTER: Duration = Duration::from_millis(20);

/// Empty polls between two looks at the clock.
const POLLS_PER_LOOK: u32 = 1 << 10;

/// Times that the end of a job is said before giving up on an answer.
pub(super) const FINS_MAX: u32 = 25;

/// One end of a bare link.
pub struct Raw {
    pub(super) link: Box<dyn Link>,
    memory: RawMemory,
    pub(super) to: LinkAddress,
    /// The other end's tag.
    pub(super) tag: u16,
    /// Payload bytes of a full frame that is not long: what EMP has too.
    pub(super) payload: usize,
    pub(super) long: Long,
    pub(super) job: u16,
    /// Silence after which something is lost.
    pub(super) lost_after: Duration,
    pub(super) out: PageBuffer,
    pub(super) into: PageBuffer,
}

impl Raw {
    /// An end over a link that is open. Long frames, if there are any, have `long_frame_bytes`.
    pub fn new(
        link: Box<dyn Link>,
        to: LinkAddress,
        tag: u16,
        frame_bytes_max: usize,
        long_frame_bytes: usize,
    ) -> Self {
        let payload = frame_bytes_max - HEADER_BYTES;
        Self {
            memory: RawMemory(link.peer_memory()),
            link,
            to,
            tag,
            payload,
            long: Long::new(long_frame_bytes),
            job: 0,
            lost_after: LOST_AFTER,
            out: PageBuffer::default(),
            into: PageBuffer::default(),
        }
    }

    /// Payload of each frame of a message but the last.
    pub(super) fn payload_of(&self, size: usize) -> usize {
        self.long.payload(size, self.payload).unwrap_or(self.payload)
    }

    /// Frames of one message.
    pub(super) fn frames(&self, size: usize) -> usize {
        size.div_ceil(self.payload_of(size)).max(1)
    }

    /// Where the messages of a job lie: long ones of a stream one behind the other, as many as EMP has receives posted for.
    pub(super) fn slots(&self, job: &Job) -> Slots {
        let streams = matches!(job.pattern, Pattern::Stream | Pattern::Rate | Pattern::Bidir);
        let messages = if streams && job.size > self.payload { job.window } else { 1 };
        Slots { messages, frames: self.frames(job.size), size: job.size }
    }

    /// Sends a frame without payload.
    pub(super) fn say(&mut self, kind: Kind, sequence: u32, index: u32) {
        let head = Head { kind, job: self.job, tag: self.tag, sequence, index }.emit(0);
        // Not taken is like lost: whoever says something important says it again.
        self.link.send(&[TxFrame { to: self.to, parts: &[IoSlice::new(&head)] }]);
    }

    /// Sends frames `first..first + count` of a run of messages of `size` bytes each; returns how many were taken.
    /// `sequence` and `index` name a frame to the other end.
    pub(super) fn send_frames(
        &mut self,
        kind: Kind,
        size: usize,
        first: u64,
        count: usize,
        name: impl Fn(u64) -> (u32, u32),
    ) -> usize {
        let (per_message, payload) = (self.frames(size) as u64, self.payload_of(size));
        let part = |at: u64| {
            let start = (at % per_message) as usize * payload;
            &self.out[start..size.min(start + payload)]
        };
        let head = |at: u64| {
            let (sequence, index) = name(at);
            let head = Head { kind, job: self.job, tag: self.tag, sequence, index };
            head.emit(part(at).len())
        };
        if count == 1 {
            let head = head(first);
            let parts = [IoSlice::new(&head), IoSlice::new(part(first))];
            return self.link.send(&[TxFrame { to: self.to, parts: &parts }]);
        }
        let heads: [_; BATCH] = std::array::from_fn(|i| head(first + i as u64));
        let parts: [_; BATCH] = std::array::from_fn(|i| {
            [IoSlice::new(&heads[i]), IoSlice::new(part(first + i as u64))]
        });
        let batch: [_; BATCH] =
            std::array::from_fn(|i| TxFrame { to: self.to, parts: &parts[i][..] });
        self.link.send(&batch[..count.min(BATCH)])
    }

    fn send_message(&mut self, kind: Kind, size: usize, number: u32) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        if let Some(note) = self.memory.note(&self.to, &self.out[..size]) {
            let head = Head { kind, job: self.job, tag: self.tag, sequence: number, index: NOTE };
            let head = head.emit(note.len());
            let parts = [IoSlice::new(&head), IoSlice::new(&note)];
            while self.link.send(&[TxFrame { to: self.to, parts: &parts }]) == 0 {
                patience.idle()?;
            }
            return Ok(());
        }
        let frames = self.frames(size);
        let mut sent = 0;
        while sent < frames {
            let count = (frames - sent).min(BATCH);
            match self.send_frames(kind, size, sent as u64, count, |at| (number, at as u32)) {
                0 => patience.idle()?,
                taken => sent += taken,
            }
        }
        Ok(())
    }

    /// Returns the part of the messages that came back.
    fn ping(&mut self, job: &Job) -> anyhow::Result<f64> {
        let mut arrived = 0u64;
        for number in 0..job.count {
            self.send_message(Kind::Ping, job.size, number as u32)?;
            arrived += u64::from(self.await_pong(job.size, number as u32));
        }
        Ok(arrived as f64 / job.count as f64)
    }

    /// Tells the other end that the ping-pong is over.
    fn end_pingpong(&mut self) {
        for _ in 0..FINS_MAX {
            self.say(Kind::Fin, 0, 0);
            let start = Instant::now();
            while start.elapsed() < self.lost_after {
                let mut heard = false;
                let job = self.job;
                self.link.receive(BUDGET, &mut |frame, _| {
                    let head = Head::parse(frame).map(|(head, _)| head);
                    heard |= head.is_some_and(|head| head.job == job && head.kind == Kind::FinAck);
                });
                if heard {
                    return;
                }
            }
        }
    }

    fn await_pong(&mut self, size: usize, number: u32) -> bool {
        let (frames, job, payload) = (self.frames(size), self.job, self.payload_of(size));
        let long = self.long.payload(size, self.payload);
        let lost_after = self.lost_after;
        let (link, into, memory, to) = (&mut self.link, &mut self.into, &self.memory, &self.to);
        let mut got = 0;
        let mut polls = 0;
        let mut since = None;
        loop {
            let take = |head: Head, bytes: &[u8], into: &mut [u8]| {
                if head.kind == Kind::Pong && head.sequence == number {
                    got += take(memory, to, (head.index, payload), bytes, into);
                }
            };
            let slots = Slots::one(size);
            let mut taker = Taker { into: &mut into[..size], slots, job, long, take };
            let handed = link.receive_into(BUDGET, &mut taker);
            if got >= frames {
                return true;
            }
            if handed == 0 {
                polls += 1;
            }
            if polls == POLLS_PER_LOOK {
                polls = 0;
                if since.get_or_insert_with(Instant::now).elapsed() > lost_after {
                    return false;
                }
            }
        }
    }

    fn pong(&mut self, job: &Job) -> anyhow::Result<()> {
        let (frames, payload) = (self.frames(job.size), self.payload_of(job.size));
        let long = self.long.payload(job.size, self.payload);
        let (mut number, mut got) = (u32::MAX, 0);
        let mut patience = Patience::default();
        loop {
            let (mut fin, own_job) = (false, self.job);
            let (into, memory, to) = (&mut self.into, &self.memory, &self.to);
            let take = |head: Head, bytes: &[u8], into: &mut [u8]| {
                if head.kind == Kind::Ping {
                    if head.sequence != number {
                        (number, got) = (head.sequence, 0);
                    }
                    got += take(memory, to, (head.index, payload), bytes, into);
                }
                fin |= head.kind == Kind::Fin;
            };
            let into = &mut into[..job.size];
            let slots = Slots::one(job.size);
            let mut taker = Taker { into, slots, job: own_job, long, take };
            let handed = self.link.receive_into(BUDGET, &mut taker);
            if got >= frames {
                got = 0;
                self.send_message(Kind::Pong, job.size, number)?;
            }
            if fin {
                self.say(Kind::FinAck, 0, 0);
                return Ok(());
            }
            if handed == 0 { patience.idle()? } else { patience.progress() }
        }
    }
}

/// Takes a frame of a message of a ping-pong, and returns how many of its frames that stands for.
#[inline]
fn take(
    memory: &RawMemory,
    from: &LinkAddress,
    (index, payload): (u32, usize),
    bytes: &[u8],
    into: &mut [u8],
) -> usize {
    if index != NOTE {
        place(into, index as usize * payload, bytes);
        return 1;
    }
    let frames = into.len().div_ceil(payload).max(1);
    if memory.read(from, bytes, into) { frames } else { 0 }
}

/// Copies what arrived to its place; what does not fit is not ours.
#[inline]
pub(super) fn place(into: &mut [u8], at: usize, bytes: &[u8]) {
    // A short UDP or padded Ethernet frame may carry more bytes than the message has left.
    let Some(room) = into.get_mut(at..) else { return };
    let bytes = &bytes[..bytes.len().min(room.len())];
    room[..bytes.len()].copy_from_slice(bytes);
}

impl Subject for Raw {
    fn prepare(&mut self, _role: Role, job: &Job) -> anyhow::Result<()> {
        self.job = self.job.wrapping_add(1);
        if self.out.len() < job.size {
            self.out = memory::filled(job.size)?;
        }
        let bytes = self.slots(job).bytes_in_all();
        if self.into.len() < bytes {
            self.into = memory::one(bytes)?;
        }
        Ok(())
    }

    fn leave_memory(&mut self, job: &Job) {
        if memory::is_shared(job) {
            memory::leave_sent(std::mem::take(&mut self.out));
            memory::leave_received(vec![std::mem::take(&mut self.into)]);
        }
    }

    fn active(&mut self, job: &Job) -> anyhow::Result<Measure> {
        self.meet_long(job.size);
        let start = Instant::now();
        let (elapsed, arrived) = match job.pattern {
            Pattern::Pingpong => {
                let arrived = self.ping(job)?;
                let elapsed = start.elapsed();
                self.end_pingpong();
                (elapsed, arrived)
            }
            Pattern::Stream | Pattern::Rate => self.flow(job, true, false)?,
            Pattern::Bidir => self.flow(job, true, true)?,
            Pattern::Put | Pattern::Get | Pattern::Atomic => bail!("a bare link only sends"),
            Pattern::Verify => bail!("a bare link is not verified"),
        };
        Ok(Measure { job: *job, elapsed, arrived })
    }

    fn passive(&mut self, job: &Job) -> anyhow::Result<()> {
        self.meet_long(job.size);
        match job.pattern {
            Pattern::Pingpong => self.pong(job),
            Pattern::Stream | Pattern::Rate => self.flow(job, false, true).map(drop),
            Pattern::Bidir => self.flow(job, true, true).map(drop),
            Pattern::Put | Pattern::Get | Pattern::Atomic => bail!("a bare link only sends"),
            Pattern::Verify => bail!("a bare link is not verified"),
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
