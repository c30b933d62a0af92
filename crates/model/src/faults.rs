//! What can happen to a frame on its way, and how often: the same faults as the link's fault wrapper, per frame kind.

use emp_firmware::{Span, Time};
use emp_wire::{KIND_OFFSET, Kind};

use crate::prng::{Ppm, Prng};

/// How often each fault strikes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rates {
    /// The frame is lost.
    pub drop: Ppm,
    /// It arrives twice, the second time soon after.
    pub duplicate: Ppm,
    /// It is overtaken by a few later frames.
    pub reorder: Ppm,
    /// It is held up for long.
    pub delay: Ppm,
    /// Some of its bits are flipped.
    pub corrupt: Ppm,
    /// Its end is missing.
    pub truncate: Ppm,
    /// It arrives once more much later, perhaps in another session.
    pub replay: Ppm,
}

impl Rates {
    /// Only losses.
    pub const fn dropping(drop: Ppm) -> Self {
        Self {
            drop,
            duplicate: Ppm::NEVER,
            reorder: Ppm::NEVER,
            delay: Ppm::NEVER,
            corrupt: Ppm::NEVER,
            truncate: Ppm::NEVER,
            replay: Ppm::NEVER,
        }
    }

    /// Of each fault the higher rate.
    fn worse(self, other: Self) -> Self {
        Self {
            drop: self.drop.max(other.drop),
            duplicate: self.duplicate.max(other.duplicate),
            reorder: self.reorder.max(other.reorder),
            delay: self.delay.max(other.delay),
            corrupt: self.corrupt.max(other.corrupt),
            truncate: self.truncate.max(other.truncate),
            replay: self.replay.max(other.replay),
        }
    }
}

/// Frame kinds are five bits on the wire.
const KINDS: usize = 32;

/// Fault rates per frame kind, and losses in bursts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FaultPlan {
    rates: [Rates; KINDS],
    /// How often a burst of losses starts, whatever the kind.
    pub burst_start: Ppm,
    /// Longest that a burst swallows all frames of one path.
    pub burst_max: Span,
}

impl Default for FaultPlan {
    fn default() -> Self {
        Self::uniform(Rates::default())
    }
}

/// What happens to one frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// Lost.
    pub drop: bool,
    /// Extra way in nanoseconds, outside the order of its path; 0: in order.
    pub late_ns: u64,
    /// A copy arrives so many nanoseconds after it; 0: none.
    pub copy_ns: u64,
    /// Bits to flip.
    pub flip_bits: u32,
    /// Bytes left after truncation, if any is cut off.
    pub keep_bytes: Option<usize>,
}

impl FaultPlan {
    /// The same rates for all kinds.
    pub fn uniform(rates: Rates) -> Self {
        Self { rates: [rates; KINDS], burst_start: Ppm::NEVER, burst_max: Span(0) }
    }

    /// Other rates for one kind.
    #[must_use]
    pub fn with(mut self, kind: Kind, rates: Rates) -> Self {
        self.rates[kind as usize % KINDS] = rates;
        self
    }

    /// The rates for one kind.
    pub fn rates(&self, kind: Kind) -> &Rates {
        &self.rates[kind as usize % KINDS]
    }

    /// Any frames are damaged or cut short.
    pub(crate) fn damages(&self) -> bool {
        self.rates.iter().any(|rates| rates.corrupt.0 > 0 || rates.truncate.0 > 0)
    }

    /// The rates for every kind.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Rates> {
        self.rates.iter()
    }

    /// The same, to be changed.
    pub(crate) fn all_mut(&mut self) -> impl Iterator<Item = &mut Rates> {
        self.rates.iter_mut()
    }

    /// The rates for a link frame: of each fault the highest among its frames (`BUNDLE-1`).
    fn rates_of(&self, link_frame: &[u8]) -> Rates {
        let kind = |frame: &[u8]| frame.get(KIND_OFFSET).map_or(0, |byte| usize::from(byte & 0x1F));
        emp_wire::frames(link_frame)
            .map(|frame| self.rates[kind(frame)])
            .reduce(Rates::worse)
            .unwrap_or_default()
    }

    /// Draws what happens to a link frame. `burst` is when the last burst on its path ends.
    pub fn judge(&self, now: Time, frame: &[u8], burst: &mut Time, prng: &mut Prng) -> Verdict {
        let rates = self.rates_of(frame);
        let mut verdict = Verdict::default();
        if now >= *burst && prng.chance(self.burst_start) {
            *burst = now + Span(prng.within(1..=self.burst_max.0.max(1)));
        }
        if now < *burst {
            verdict.drop = true;
            return verdict;
        }
        verdict.drop = prng.chance(rates.drop);
        if prng.chance(rates.reorder) {
            // A few frame times of 1 and 10 Gb/s links.
            verdict.late_ns = prng.within(500..=60_000);
        }
        if prng.chance(rates.delay) {
            // From a busy switch to a host that was not scheduled.
            verdict.late_ns = prng.within(50_000..=5_000_000);
        }
        if prng.chance(rates.duplicate) {
            verdict.copy_ns = prng.within(1..=100_000);
        }
        if prng.chance(rates.replay) {
            // Long enough to meet the sender's next incarnation.
            verdict.copy_ns = prng.within(1_000_000..=2_000_000_000);
        }
        if prng.chance(rates.corrupt) {
            // One bit, or a burst of up to 16.
            verdict.flip_bits = if prng.percent(50) { 1 } else { prng.within(2..=16) as u32 };
        }
        if prng.chance(rates.truncate) {
            verdict.keep_bytes = Some(prng.index(frame.len().max(1)));
        }
        verdict
    }
}

/// Damages a frame as its verdict says.
pub fn damage(frame: &mut Vec<u8>, verdict: &Verdict, prng: &mut Prng) {
    if let Some(keep) = verdict.keep_bytes {
        frame.truncate(keep);
    }
    for _ in 0..verdict.flip_bits {
        if !frame.is_empty() {
            let bit = prng.index(frame.len() * 8);
            frame[bit / 8] ^= 1 << (bit % 8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_per_kind_and_close_to_what_is_asked() {
        let plan = FaultPlan::default().with(Kind::Data, Rates::dropping(Ppm::percent(10)));
        let mut prng = Prng::new(3);
        let mut lost = |kind: Kind| {
            let frame = [0x20 | kind as u8; 40];
            let mut none = Time(0);
            (0..10_000).filter(|_| plan.judge(Time(0), &frame, &mut none, &mut prng).drop).count()
        };
        assert!((900..1100).contains(&lost(Kind::Data)));
        assert_eq!(lost(Kind::Ack), 0);
        // Behind another frame in a link frame it is met as well.
        let mut both = [0x20 | Kind::Ack as u8; 72];
        both[2..4].copy_from_slice(&4u16.to_be_bytes());
        both[36] = 0x20 | Kind::Data as u8;
        let mut met = || plan.judge(Time(0), &both, &mut Time(0), &mut prng).drop;
        let met = (0..10_000).filter(|_| met()).count();
        assert!((900..1100).contains(&met), "{met}");
    }

    #[test]
    fn a_burst_swallows_frames_for_a_while() {
        let plan =
            FaultPlan { burst_start: Ppm::ALWAYS, burst_max: Span(1), ..FaultPlan::default() };
        let mut burst = Time(0);
        let mut prng = Prng::new(3);
        assert!(plan.judge(Time(10), &[], &mut burst, &mut prng).drop);
        assert_eq!(burst, Time(11));
        let calm = FaultPlan::default();
        assert!(calm.judge(Time(10), &[], &mut burst, &mut prng).drop);
        assert!(!calm.judge(Time(11), &[], &mut burst, &mut prng).drop);
    }
}
