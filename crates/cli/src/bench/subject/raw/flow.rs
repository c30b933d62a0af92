//! Streams over a bare link: frames, a window so that the receiver's ring does not overrun, nothing resent.

use std::time::{Duration, Instant};

use super::end::{BATCH, BUDGET, FINS_MAX, Raw, place};
use super::frame::{Head, Kind};
use super::placing::Taker;
use crate::bench::job::Job;
use crate::bench::patience::Patience;

/// Frames in flight. A quarter of the packet link's default ring; more changes nothing.
const WINDOW_FRAMES: u64 = 512;

/// Long frames in flight: nearly a megabyte, as of others, which fits any receive buffer.
const WINDOW_LONG_FRAMES: u64 = 16;

/// Acknowledgements in a window, so that they cost next to nothing and still come well before it ends.
const ACKS_PER_WINDOW: u64 = 8;

/// Idle rounds between two looks at the clock.
const ROUNDS_PER_LOOK: u32 = 1 << 8;

/// What one end of a flow knows.
#[derive(Default)]
struct Flow {
    /// Frames that this end sends in all, and how many may be in flight.
    frames: u64,
    window: u64,
    sent: u64,
    /// The other end has seen frames up to here.
    acked: u64,
    fins: u32,
    /// The other end has received so many frames, and knows that no more come.
    confirmed: Option<u64>,
    /// Frames received.
    received: u64,
    /// One past the newest frame received.
    newest: u64,
    unacknowledged: u64,
    /// The other end has said that it is done.
    ended: bool,
    answer_fin: bool,
}

impl Flow {
    fn take(&mut self, head: Head) {
        match head.kind {
            Kind::Data => {
                self.received += 1;
                self.unacknowledged += 1;
                self.newest = self.newest.max(widen(head.sequence, self.newest) + 1);
            }
            Kind::Ack => self.acked = self.acked.max(widen(head.sequence, self.acked)),
            Kind::Fin => (self.ended, self.answer_fin) = (true, true),
            Kind::FinAck => self.confirmed = Some(widen(head.index, self.sent)),
            Kind::Ping | Kind::Pong | Kind::Try => {}
        }
    }

    fn room(&self) -> u64 {
        self.window.saturating_sub(self.sent - self.acked).min(self.frames - self.sent)
    }

    fn is_over(&self, sends: bool, receives: bool) -> bool {
        let sending_over = !sends || self.confirmed.is_some() || self.fins > FINS_MAX;
        sending_over && (!receives || self.ended)
    }
}

/// The full count whose low 32 bits are `low` and that is nearest to `near`.
fn widen(low: u32, near: u64) -> u64 {
    let ahead = low.wrapping_sub(near as u32).cast_signed();
    near.saturating_add_signed(i64::from(ahead))
}

impl Raw {
    /// Moves frames until all are there, or known to be lost. Returns the time and the part of the own frames that
    /// arrived.
    pub(super) fn flow(
        &mut self,
        job: &Job,
        sends: bool,
        receives: bool,
    ) -> anyhow::Result<(Duration, f64)> {
        let per_message = self.frames(job.size) as u64;
        let frames = if sends { job.count * per_message } else { 0 };
        let long = self.payload_of(job.size) > self.payload;
        let window = if long { WINDOW_LONG_FRAMES } else { WINDOW_FRAMES };
        let mut flow = Flow { frames, window, ..Flow::default() };
        let mut patience = Patience::default();
        let mut moved_at = Instant::now();
        let mut idle = 0;
        let start = Instant::now();
        while !flow.is_over(sends, receives) {
            if self.step(job, &mut flow, sends) {
                patience.progress();
                idle = 0;
                continue;
            }
            if idle == 0 {
                moved_at = Instant::now();
            }
            idle += 1;
            if idle % ROUNDS_PER_LOOK == 0 && moved_at.elapsed() > self.lost_after {
                // The rest of the window is lost, or the end was not heard.
                flow.acked = flow.sent;
                if sends && flow.sent == flow.frames && flow.confirmed.is_none() {
                    self.say(Kind::Fin, flow.sent as u32, 0);
                    flow.fins += 1;
                }
                moved_at = Instant::now();
            }
            patience.idle()?;
        }
        let elapsed = start.elapsed();
        // Without a confirmation nobody knows; such a run does not count.
        let arrived = flow.confirmed.map_or(f64::NAN, |got| got as f64 / frames.max(1) as f64);
        Ok((elapsed, arrived.min(1.0)))
    }

    /// One round. True if anything moved.
    fn step(&mut self, job: &Job, flow: &mut Flow, sends: bool) -> bool {
        let (payload, long) =
            (self.payload_of(job.size), self.long.payload(job.size, self.payload));
        let slots = self.slots(job);
        let take = |head: Head, bytes: &[u8], into: &mut [u8]| {
            if head.kind == Kind::Data {
                place(into, slots.start_of(&head) + head.index as usize * payload, bytes);
            }
            flow.take(head);
        };
        let mut taker = Taker { into: &mut self.into, slots, job: self.job, long, take };
        let handed = self.link.receive_into(BUDGET, &mut taker);
        if flow.unacknowledged >= flow.window / ACKS_PER_WINDOW {
            flow.unacknowledged = 0;
            self.say(Kind::Ack, flow.newest as u32, 0);
        }
        if std::mem::take(&mut flow.answer_fin) {
            self.say(Kind::FinAck, 0, flow.received as u32);
        }
        let room = flow.room();
        if room == 0 {
            return handed > 0;
        }
        let per_message = self.frames(job.size) as u64;
        let name = |at: u64| (at as u32, (at % per_message) as u32);
        let count = room.min(BATCH as u64) as usize;
        let taken = self.send_frames(Kind::Data, job.size, flow.sent, count, name) as u64;
        flow.sent += taken;
        if sends && flow.sent == flow.frames {
            self.say(Kind::Fin, flow.sent as u32, 0);
            flow.fins += 1;
        }
        handed > 0 || taken > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_longer_than_their_field() {
        assert_eq!(widen(5, 3), 5);
        assert_eq!(widen(2, 0xffff_fffe), 0x1_0000_0002);
        assert_eq!(widen(0xffff_fffe, 0x1_0000_0002), 0xffff_fffe);
        assert_eq!(widen(u32::MAX, 0), 0);
    }

    #[test]
    fn the_window_limits_what_is_sent() {
        let mut flow = Flow { frames: 1000, window: WINDOW_FRAMES, ..Flow::default() };
        assert_eq!(flow.room(), WINDOW_FRAMES);
        flow.sent = WINDOW_FRAMES;
        assert_eq!(flow.room(), 0);
        flow.take(Head { kind: Kind::Ack, job: 0, tag: 0, sequence: 64, index: 0 });
        assert_eq!(flow.room(), 64);
        (flow.sent, flow.acked) = (990, 900);
        assert_eq!(flow.room(), 10);
    }
}
