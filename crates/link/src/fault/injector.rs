//! One direction's faults: decides each frame's fate, and keeps the frames that come later.

use std::time::{Duration, Instant};

use emp_wire::LinkAddress;

use super::FaultCounters;
use super::plan::FaultPlan;
use super::random::Random;

/// Most frames held at once: at 9000 bytes each they are 9 MB, and 63 MB of long ones. Beyond it frames are not held.
const HELD_MAX: usize = 1024;
/// A reordered frame that nothing overtakes comes after this time anyway: the last frame of a
/// message must not stay away for ever. Well above the time between two frames of a burst.
const REORDER_PATIENCE: Duration = Duration::from_millis(1);

/// A frame that comes later.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) address: LinkAddress,
    pub(super) bytes: Vec<u8>,
    /// Due when the clock says so.
    at: Instant,
    /// Due when so many frames were judged, if that is sooner.
    after: u64,
}

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It passes untouched.
    Pass,
    /// It is lost.
    Lose,
    /// It is changed, held, or doubled: see the [`Change`].
    Alter(Change),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Change {
    corrupt: bool,
    truncate: bool,
    pub(super) duplicate: bool,
    delay: Option<Duration>,
    reorder: Option<u32>,
    /// Where a bit flips and where the end is cut, as a part of the frame's length (of 2^64).
    place: u64,
}

/// Decides and remembers.
#[derive(Debug)]
pub(super) struct Injector {
    plan: FaultPlan,
    /// What it damages would not be noticed by its receiver, as no checksum is on it.
    unsummed: bool,
    random: Random,
    held: Vec<Held>,
    spare: Vec<Vec<u8>>,
    judged: u64,
    pub(super) counts: FaultCounters,
}

impl Injector {
    pub(super) fn new(plan: FaultPlan, unsummed: bool, seed: u64) -> Self {
        Self {
            unsummed,
            random: Random::new(seed),
            plan,
            held: Vec::new(),
            spare: Vec::new(),
            judged: 0,
            counts: FaultCounters::default(),
        }
    }

    /// True if every kind of frame is meant, so that it does not matter what is in one.
    pub(super) fn means_all(&self) -> bool {
        self.plan.kinds == u32::MAX
    }

    /// Decides the fate of a link frame that has frames of these kinds (bit k: kind k). Each that has one of the plan's kinds
    /// takes the same number of draws, so that one fault's schedule does not hang on another's. On the wire it is so many
    /// pieces: each may be lost, and the frame is, if one is; for every other fault it is one frame.
    pub(super) fn judge(&mut self, kinds: u32, pieces: usize) -> Fate {
        self.judged += 1;
        if self.plan.kinds & kinds == 0 {
            return Fate::Pass;
        }
        self.counts.frames += pieces as u64;
        let (plan, random) = (&self.plan, &mut self.random);
        let lost = (0..pieces).filter(|_| random.chance(plan.drop)).count();
        let duplicate = random.chance(plan.duplicate);
        let corrupt = random.chance(plan.corrupt);
        let truncate = random.chance(plan.truncate);
        let reorder = random.chance(plan.reorder);
        let delay = random.chance(plan.delay);
        let distance = 1 + random.below(u64::from(plan.reorder_distance.max(1))) as u32;
        let (from, to) = plan.delay_range;
        let spread = to.saturating_sub(from).as_nanos() as u64;
        let time = from + Duration::from_nanos(random.below(spread.saturating_add(1)));
        let place = random.next();
        if lost > 0 {
            self.counts.dropped += lost as u64;
            return Fate::Lose;
        }
        if corrupt && self.unsummed {
            self.counts.corrupted += 1;
            return Fate::Lose;
        }
        if !(duplicate || corrupt || truncate || reorder || delay) {
            return Fate::Pass;
        }
        Fate::Alter(Change {
            corrupt,
            truncate,
            duplicate,
            delay: delay.then_some(time),
            reorder: reorder.then_some(distance),
            place,
        })
    }

    /// An empty buffer.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Takes a buffer back for later use.
    pub(super) fn give_back(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < HELD_MAX {
            self.spare.push(buffer);
        }
    }

    /// Corrupts and truncates a frame as decided.
    pub(super) fn damage(&mut self, bytes: &mut Vec<u8>, change: &Change) {
        let part = |whole: usize| ((u128::from(change.place) * whole as u128) >> 64) as usize;
        if change.corrupt && !bytes.is_empty() {
            let bit = part(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            self.counts.corrupted += 1;
        }
        // One byte is always left: no link carries empty frames.
        if change.truncate && bytes.len() > 1 {
            bytes.truncate(1 + part(bytes.len() - 1));
            self.counts.truncated += 1;
        }
    }

    /// Holds a frame if the change says so and there is room; else gives it back.
    pub(super) fn hold(
        &mut self,
        change: &Change,
        address: LinkAddress,
        bytes: Vec<u8>,
        now: Instant,
    ) -> Option<Vec<u8>> {
        if change.delay.is_none() && change.reorder.is_none() {
            return Some(bytes);
        }
        if self.held.len() >= HELD_MAX {
            self.counts.not_held += 1;
            return Some(bytes);
        }
        self.counts.delayed += u64::from(change.delay.is_some());
        self.counts.reordered += u64::from(change.reorder.is_some());
        // A delayed frame waits for its time, however many overtake it.
        let (at, after) = match (change.delay, change.reorder) {
            (Some(time), _) => (now + time, u64::MAX),
            (None, distance) => {
                (now + REORDER_PATIENCE, self.judged + u64::from(distance.unwrap_or(0)))
            }
        };
        self.held.push(Held { address, bytes, at, after });
        None
    }

    /// Keeps a frame that should have gone but found no room, to go as soon as possible. Without
    /// room here either it is lost, and counted.
    pub(super) fn keep(&mut self, address: LinkAddress, bytes: Vec<u8>, now: Instant) {
        if self.held.len() >= HELD_MAX {
            self.counts.not_held += 1;
            self.counts.dropped += 1;
            self.give_back(bytes);
            return;
        }
        self.held.push(Held { address, bytes, at: now, after: 0 });
    }

    /// Puts a frame that [`Self::take_due`] gave back in its place.
    pub(super) fn put_back(&mut self, held: Held) {
        self.held.insert(0, held);
    }

    /// True if a frame is held that enough others have overtaken.
    pub(super) fn overtaken(&self) -> bool {
        self.held.iter().any(|held| held.after <= self.judged)
    }

    /// The first held frame that is due.
    pub(super) fn take_due(&mut self, now: Instant) -> Option<Held> {
        let due = |held: &Held| held.at <= now || held.after <= self.judged;
        let at = self.held.iter().position(due)?;
        Some(self.held.remove(at))
    }

    /// How long until the next held frame is due.
    pub(super) fn next_due(&self, now: Instant) -> Option<Duration> {
        self.held
            .iter()
            .map(|held| if held.after <= self.judged { now } else { held.at })
            .min()
            .map(|at| at.saturating_duration_since(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_that_nobody_would_notice_is_a_loss() {
        let judged = |unsummed| {
            let plan = "corrupt:1".parse().expect("a plan");
            let mut injector = Injector::new(plan, unsummed, 1);
            (injector.judge(1 << 4, 1), injector.counts.corrupted)
        };
        assert_eq!(judged(true), (Fate::Lose, 1));
        // Counted when it is done.
        assert!(matches!(judged(false), (Fate::Alter(_), 0)));
    }
}
