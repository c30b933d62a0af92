//! What messages took by each path of a pair, by their size: it corrects the costs that the links were measured to have (`PATH-9`).
//!
//! A message that left while nothing else was under way is timed until it is acknowledged. What differs between two paths is what it took
//! by each; what comes back takes the same way whichever was chosen. Paths that are not in use are tried now and then, at a bounded cost.

use crate::limits::PATHS_MAX;
use crate::path::PathId;

/// Size classes: of 2 frames of the usual length, 3 and 4, 5 to 8, and so on; the last has all that are longer. Half a mebibyte at MTU 1500,
/// the longest that leaves whole, is in the last.
const CLASSES: usize = 9;

/// Of so many messages in a row the one in the middle counts, so that a single one that was held up counts for nothing.
const MEDIAN_OF: usize = 3;

/// Medians of a trial. What hosts do beside moves one by some hundredths.
const TRIAL_MEDIANS: u32 = 5;

/// Messages of a trial: one that wakes the path (a socket that nothing came by is looked at seldom), and those that count.
const TRIAL_MESSAGES: u8 = 1 + (TRIAL_MEDIANS * MEDIAN_OF as u32) as u8;

/// A new median moves the estimate of the path in use by an eighth, so that noise of a tenth moves it by an eightieth.
const GAIN: u32 = 8;

/// Trials in a row that a path has to win to be taken: paths that are nearly alike would change places with each noise, which costs more
/// than the better one gains.
const WINS: u8 = 2;

/// Trials may cost one part in so many of the time of all messages of the class: less than can be measured.
const CREDIT: u32 = 256;

/// Messages of a class between two trials: where nothing is known of a path, or the last trial was won, and else.
const APART: (u16, u16) = (16, 512);

/// By so small a part of its time another path is not better: of what a message takes there and its acknowledgement back, the two differ in
/// one way only.
const BETTER: u32 = 32;

/// What messages of one class took by one path.
#[derive(Clone, Copy, Default)]
struct Estimate {
    /// In nanoseconds. 0: nothing is known.
    ns: u32,
    /// Of the next median.
    taken: [u32; MEDIAN_OF],
    count: u8,
}

impl Estimate {
    /// True if that changes it, which it does by one part in `gain` of the difference.
    fn take(&mut self, ns: u32, gain: u32) -> bool {
        self.taken[usize::from(self.count)] = ns;
        self.count += 1;
        if usize::from(self.count) < MEDIAN_OF {
            return false;
        }
        self.count = 0;
        self.taken.sort_unstable();
        let median = self.taken[MEDIAN_OF / 2].clamp(1, u32::MAX / 2);
        let rest = self.ns - self.ns / gain;
        self.ns = if self.ns == 0 { median } else { rest + median / gain };
        true
    }

    const fn known(&self) -> Option<u32> {
        if self.ns > 0 { Some(self.ns) } else { None }
    }
}

/// A path that is tried.
#[derive(Clone, Copy)]
struct Trial {
    path: PathId,
    /// Messages by it that are still to arrive.
    left: u8,
    /// What it took in this trial, so far.
    took: Estimate,
    medians: u32,
}

/// Messages of one size class.
#[derive(Clone, Copy, Default)]
struct Class {
    estimates: [Estimate; PATHS_MAX],
    /// The path in use.
    best: Option<PathId>,
    trial: Option<Trial>,
    /// Nanoseconds that trials may cost.
    credit_ns: u32,
    /// Messages since the last trial.
    since: u16,
    /// Trials in a row that this path has won, if any.
    won: Option<(PathId, u8)>,
}

impl Class {
    /// A message has arrived by this path; how long that took is known if nothing else was under way. True if it is to be decided anew.
    fn take(&mut self, path: PathId, took_ns: Option<u32>) -> bool {
        let Some(trial) = self.trial.as_mut().filter(|trial| trial.path == path) else {
            self.since = self.since.saturating_add(1);
            // Where nothing is timed, as in a stream, nothing is tried: a trial would tell nothing.
            return took_ns.is_some_and(|ns| self.estimates[path.index()].take(ns, GAIN));
        };
        if let Some(ns) = took_ns.filter(|_| trial.left < TRIAL_MESSAGES)
            && trial.took.take(ns, trial.medians + 1)
        {
            trial.medians += 1;
        }
        trial.left -= 1;
        if trial.left > 0 {
            return false;
        }
        let took = trial.took;
        (self.trial, self.since, self.credit_ns) = (None, 0, 0);
        self.judge(path, took)
    }

    /// A trial is over. True if it told anything.
    fn judge(&mut self, path: PathId, took: Estimate) -> bool {
        let Some(tried_ns) = took.known() else { return false };
        self.estimates[path.index()] = Estimate { count: 0, ..took };
        let now_ns = self.best.and_then(|now| self.estimates[now.index()].known());
        let wins = now_ns.is_none_or(|now_ns| tried_ns < now_ns - now_ns / BETTER);
        let before = self.won.filter(|(before, _)| *before == path).map_or(0, |(_, wins)| wins);
        self.won = wins.then_some((path, before + 1));
        if before + 1 >= WINS && wins {
            (self.best, self.won) = (Some(path), None);
        }
        true
    }

    /// Sees to it that the path in use is one that can be used, and begins a trial of another if one is due and paid for.
    fn decide(&mut self, costs: &[Option<u64>; PATHS_MAX]) {
        let usable = |path: &PathId| costs[path.index()].is_some();
        let known = |path: PathId| self.estimates[path.index()].known();
        let Some(now) = self.best.filter(usable).or_else(|| {
            let known = PathId::all().filter(usable).filter_map(|path| Some((known(path)?, path)));
            known.min().map(|(_, path)| path)
        }) else {
            return;
        };
        let now_ns = known(now).unwrap_or(0);
        // Of a path of which nothing is known its links' costs tell by how much it differs.
        let supposed = |path: PathId| {
            let more = costs[path.index()]?.saturating_sub(costs[now.index()]?);
            Some(known(path).map_or(more, |ns| ns.saturating_sub(now_ns).into()))
        };
        let others = PathId::all().filter(|path| *path != now);
        let next = others.filter_map(|path| Some((supposed(path)?, path))).min();
        let soon = |path| known(path).is_none() || self.won.is_some_and(|(won, _)| won == path);
        let next = next.map(|(more_ns, path)| (more_ns, path, soon(path)));
        self.best = Some(now);
        self.credit_ns = self.credit_ns.saturating_add(now_ns / (CREDIT / MEDIAN_OF as u32));
        let Some((more_ns, path, soon)) = next.filter(|_| self.trial.is_none()) else { return };
        let apart = if soon { APART.0 } else { APART.1 };
        if self.since >= apart && more_ns * u64::from(TRIAL_MESSAGES) <= self.credit_ns.into() {
            let (left, took, medians) = (TRIAL_MESSAGES, Estimate::default(), 0);
            self.trial = Some(Trial { path, left, took, medians });
        }
    }
}

/// What is known of messages to one peer.
#[derive(Clone, Default)]
pub(crate) struct Learned {
    classes: [Class; CLASSES],
}

impl Learned {
    /// The class of messages that take so many frames of the usual length. `None`: those of one frame are not timed.
    fn class(frames: u32) -> Option<usize> {
        let above = frames.checked_sub(1)?.checked_ilog2()?;
        Some((above as usize).min(CLASSES - 1))
    }

    /// The path for a message of so many frames. `None`: nothing is known.
    #[inline]
    pub(crate) fn path(&self, frames: u32) -> Option<PathId> {
        let class = &self.classes[Self::class(frames)?];
        class.trial.map(|trial| trial.path).or(class.best)
    }

    /// The same without trials.
    pub(crate) fn best(&self, frames: u32) -> Option<PathId> {
        self.classes[Self::class(frames)?].best
    }

    /// A message of so many frames has arrived by this path, after so many nanoseconds if that is known. True: [`decide`](Self::decide) is to be
    /// called.
    pub(crate) fn take(&mut self, path: PathId, frames: u32, took_ns: Option<u32>) -> bool {
        Self::class(frames).is_some_and(|class| self.classes[class].take(path, took_ns))
    }

    /// Chooses the path of messages of so many frames, or has another tried. `costs`: what such a message costs by each path that can be used, as
    /// its link was measured.
    pub(crate) fn decide(&mut self, frames: u32, costs: &[Option<u64>; PATHS_MAX]) {
        if let Some(class) = Self::class(frames) {
            self.classes[class].decide(costs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: PathId = PathId::FIRST;
    const SECOND: PathId = PathId::new(1);

    /// What a pair learns whose messages of two frames take so long by its two paths.
    struct Pair {
        learned: Learned,
        costs: [Option<u64>; PATHS_MAX],
        sent: [u32; 2],
    }

    impl Pair {
        fn new(costs: [u64; 2]) -> Self {
            let costs = [Some(costs[0]), Some(costs[1]), None, None];
            Self { learned: Learned::default(), costs, sent: [0; 2] }
        }

        /// So many messages; returns those by each path.
        fn run(&mut self, messages: u32, mut took_ns: impl FnMut(PathId, u32) -> u32) -> [u32; 2] {
            self.sent = [0; 2];
            for message in 0..messages {
                let by_cost = if self.costs[0] <= self.costs[1] { FIRST } else { SECOND };
                let path = self.learned.path(2).unwrap_or(by_cost);
                self.sent[path.index()] += 1;
                if self.learned.take(path, 2, Some(took_ns(path, message))) {
                    self.learned.decide(2, &self.costs);
                }
            }
            self.sent
        }
    }

    #[test]
    fn classes_double() {
        let class = |frames| Learned::class(frames);
        assert_eq!([0, 1].map(class), [None; 2]);
        assert_eq!([2, 3, 4, 5, 8, 9].map(class), [0, 1, 1, 2, 2, 3].map(Some));
        assert_eq!([257, 512, 513, u32::MAX].map(class), [8; 4].map(Some));
    }

    #[test]
    fn what_was_measured_wrong_is_corrected() {
        let mut pair = Pair::new([1_000, 2_000]);
        let took = |path, _| if path == FIRST { 13_000 } else { 9_500 };
        pair.run(1_000, took);
        let [first, second] = pair.run(10_000, took);
        assert!(second > 9_400 && first > 0, "{first} {second}");
    }

    #[test]
    fn what_changes_is_followed_both_ways() {
        let mut pair = Pair::new([1_000, 2_000]);
        let took = |slow: PathId| move |path, _| if path == slow { 20_000 } else { 10_000 };
        for slow in [SECOND, FIRST, SECOND, FIRST] {
            pair.run(2_000, took(slow));
            let sent = pair.run(1_000, took(slow));
            assert!(sent[slow.index()] <= 2 * u32::from(TRIAL_MESSAGES), "{slow:?}: {sent:?}");
        }
    }

    /// Trials of a path that takes ten times as long cost a few hundredths at most.
    #[test]
    fn trials_cost_little() {
        for times in [1, 2, 10, 100] {
            let mut pair = Pair::new([1_000, 1_000 * u64::from(times)]);
            let sent =
                pair.run(100_000, |path, _| if path == FIRST { 8_000 } else { 8_000 * times });
            let more = f64::from(sent[1]) * f64::from(times - 1) / 100_000.0;
            assert!(sent[1] > 0 && more < 0.02, "{times}: {sent:?}");
        }
    }

    /// One message in ten that is held up for a millisecond changes nothing.
    #[test]
    fn single_ones_that_are_held_up_count_for_nothing() {
        let mut pair = Pair::new([1_000, 2_000]);
        let took = |path, message: u32| {
            let held = if message.is_multiple_of(10) { 1_000_000 } else { 0 };
            held + if path == FIRST { 8_000 } else { 9_500 }
        };
        let sent = pair.run(20_000, took);
        assert!(sent[1] < 1_500, "{sent:?}");
    }

    /// Noise of a third does not have paths that are nearly alike change places all the time.
    #[test]
    fn paths_that_are_alike_seldom_change_places() {
        let mut pair = Pair::new([1_000, 1_000]);
        let mut noise = 1u32;
        let mut changes = 0;
        for _ in 0..500 {
            let before = pair.learned.classes[0].best;
            pair.run(100, |path, _| {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (if path == FIRST { 9_900 } else { 10_000 }) + (noise >> 16) % 3_300
            });
            changes += u32::from(pair.learned.classes[0].best != before);
        }
        assert!(changes <= 5, "{changes} changes in 50,000 messages");
    }

    /// Where nothing is timed, as in a stream, a trial that has begun ends.
    #[test]
    fn a_trial_ends_where_nothing_is_timed() {
        let mut pair = Pair::new([1_000, 1_000]);
        let mut tried = false;
        for _ in 0..1_000 {
            pair.run(1, |_, _| 8_000);
            tried |= pair.learned.classes[0].trial.is_some();
            if tried {
                break;
            }
        }
        assert!(tried);
        let mut by_second = 0;
        for _ in 0..100 {
            let path = pair.learned.path(2).unwrap();
            by_second += u32::from(path == SECOND);
            assert!(!pair.learned.take(path, 2, None));
        }
        assert_eq!(by_second, u32::from(TRIAL_MESSAGES));
    }
}
