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

/// Turns that each of a trial's two paths has. They alternate, so that what slows a host down for longer than a message slows both.
const TURNS: usize = 4;

/// Messages of a turn: one that wakes the path (a socket that nothing came by is looked at seldom), and those that count.
const TURN_MESSAGES: u8 = 1 + MEDIAN_OF as u8;

/// Messages by the path that is tried.
const TRIAL_MESSAGES: u32 = TURN_MESSAGES as u32 * TURNS as u32;

/// A new median moves the average of the path in use by an eighth, so that noise of a tenth moves it by an eightieth.
const GAIN: u32 = 8;

/// Trials in a row that a path has to win to be taken: paths that are nearly alike would change places with each noise, which costs more
/// than the better one gains.
const WINS: u8 = 3;

/// Trials may cost one part in so many of the time of all messages of the class: less than can be measured.
const CREDIT: u32 = 256;

/// Messages of a class between two trials: where nothing is known of a path, or the last trial was won, and else.
const APART: (u16, u16) = (16, 512);

/// By so small a part of its time another path is not better: of what a message takes there and its acknowledgement back, the two differ in
/// one way only.
const BETTER: u32 = 32;

/// Times of messages, until there are enough for a median.
#[derive(Clone, Copy, Default)]
struct Samples {
    taken: [u32; MEDIAN_OF],
    count: u8,
}

impl Samples {
    /// The median in nanoseconds, never 0, if this is the last that was missing.
    fn take(&mut self, ns: u32) -> Option<u32> {
        self.taken[usize::from(self.count)] = ns;
        self.count += 1;
        if usize::from(self.count) < MEDIAN_OF {
            return None;
        }
        self.rest()
    }

    /// The same of what there is, if that is anything.
    fn rest(&mut self) -> Option<u32> {
        let taken = &mut self.taken[..usize::from(core::mem::take(&mut self.count))];
        taken.sort_unstable();
        Some((*taken.get(taken.len() / 2)?).clamp(1, u32::MAX / 2))
    }
}

/// A path that is compared with the one in use.
#[derive(Clone, Copy)]
struct Trial {
    /// The one that is tried, and the one in use.
    paths: [PathId; 2],
    /// Whose turn it is, and messages of it that are still to arrive.
    turn: usize,
    left: u8,
    samples: Samples,
    /// Medians of each path's turns, in nanoseconds. 0: none of that turn's messages was timed.
    medians: [[u32; TURNS]; 2],
    turns_over: usize,
}

impl Trial {
    fn new(tried: PathId, now: PathId) -> Self {
        Self {
            paths: [tried, now],
            turn: 0,
            left: TURN_MESSAGES,
            samples: Samples::default(),
            medians: [[0; TURNS]; 2],
            turns_over: 0,
        }
    }

    /// The path of the next message.
    const fn path(&self) -> PathId {
        self.paths[self.turn]
    }

    /// A message has arrived by the path whose turn it is. True if the trial is over.
    fn take(&mut self, took_ns: Option<u32>) -> bool {
        let told = took_ns.filter(|_| self.left < TURN_MESSAGES);
        let mut median = told.and_then(|ns| self.samples.take(ns));
        self.left -= 1;
        if self.left == 0 {
            // Others may have been under way beside some of them.
            median = median.or_else(|| self.samples.rest());
        }
        if let Some(median) = median {
            self.medians[self.turn][self.turns_over / 2] = median;
        }
        if self.left > 0 {
            return false;
        }
        (self.turn, self.left, self.samples) = (1 - self.turn, TURN_MESSAGES, Samples::default());
        self.turns_over += 1;
        self.turns_over == 2 * TURNS
    }

    /// Nanoseconds by the path that was tried, and by the one in use. `None`: too little was timed to tell.
    fn result(&self) -> Option<[u32; 2]> {
        let [tried, now] = self.medians.map(|mut medians| {
            medians.sort_unstable();
            let unknown = medians.iter().take_while(|ns| **ns == 0).count();
            // The lowest and the highest count for nothing.
            let middle = medians.get(unknown + 1..TURNS - 1).filter(|middle| !middle.is_empty())?;
            Some(middle.iter().sum::<u32>() / middle.len() as u32)
        });
        Some([tried?, now?])
    }
}

/// What the last trial said of a path.
#[derive(Clone, Copy)]
struct Tried {
    ns: u32,
    /// More than by the path in use.
    more_ns: u32,
}

/// Messages of one size class.
#[derive(Clone, Copy, Default)]
struct Class {
    /// The path in use.
    best: Option<PathId>,
    /// What messages take by it: an average in nanoseconds (0: nothing is known), and those of the next median.
    now_ns: u32,
    samples: Samples,
    tried: [Option<Tried>; PATHS_MAX],
    trial: Option<Trial>,
    /// Nanoseconds that trials may cost.
    credit_ns: u32,
    /// Messages since the last trial.
    since: u16,
    /// The last trial told nothing, as hardly any message was timed.
    told_nothing: bool,
    /// Trials in a row that this path has won, if any.
    won: Option<(PathId, u8)>,
}

impl Class {
    /// A message has arrived by this path; how long that took is known if nothing else was under way. True if it is to be decided anew.
    fn take(&mut self, path: PathId, took_ns: Option<u32>) -> bool {
        if let Some(trial) = self.trial.as_mut().filter(|trial| trial.path() == path) {
            return trial.take(took_ns) && self.end_trial();
        }
        self.since = self.since.saturating_add(1);
        // Where nothing is timed, as in a stream, nothing is tried: a trial would tell nothing.
        let of_best = took_ns.filter(|_| self.best.is_none_or(|best| best == path));
        let Some(median) = of_best.and_then(|ns| self.samples.take(ns)) else { return false };
        let rest = self.now_ns - self.now_ns / GAIN;
        self.now_ns = if self.now_ns == 0 { median } else { rest + median / GAIN };
        true
    }

    /// A trial is over. True if it told anything.
    fn end_trial(&mut self) -> bool {
        (self.since, self.credit_ns) = (0, 0);
        let Some(trial) = self.trial.take() else { return false };
        let result = trial.result();
        self.told_nothing = result.is_none();
        let ([path, now], Some([tried_ns, now_ns])) = (trial.paths, result) else {
            return false;
        };
        // What was seen before was at another time.
        self.now_ns = now_ns;
        self.tried[path.index()] =
            Some(Tried { ns: tried_ns, more_ns: tried_ns.saturating_sub(now_ns) });
        let wins = tried_ns < now_ns - now_ns / BETTER;
        let before = self.won.filter(|(before, _)| *before == path).map_or(0, |(_, wins)| wins);
        self.won = wins.then_some((path, before + 1));
        if before + 1 >= WINS && wins {
            (self.best, self.won, self.now_ns) = (Some(path), None, tried_ns);
            self.tried[now.index()] = Some(Tried { ns: now_ns, more_ns: now_ns - tried_ns });
        }
        true
    }

    /// Sees to it that the path in use is one that can be used, and begins a trial of another if one is due and paid for.
    fn decide(&mut self, costs: &[Option<u64>; PATHS_MAX]) {
        let usable = |path: &PathId| costs[path.index()].is_some();
        let cheapest = || PathId::all().filter(usable).min_by_key(|path| costs[path.index()]);
        let Some(now) = self.best.filter(usable).or_else(cheapest) else { return };
        self.best = Some(now);
        self.trial = self.trial.filter(|trial| trial.paths.iter().all(usable));
        let now_ns = self.now_ns;
        // Of a path of which nothing is known its links' costs tell by how much it differs. What it took, and by how much that was more, are
        // of one time; if the path in use has become slow since, it may be the better one.
        let supposed = |path: PathId| {
            let more = costs[path.index()]?.saturating_sub(costs[now.index()]?);
            let known =
                |Tried { ns, more_ns }: Tried| more_ns.min(ns.saturating_sub(now_ns)).into();
            Some(self.tried[path.index()].map_or(more, known))
        };
        let others = PathId::all().filter(|path| *path != now);
        let next = others.filter_map(|path| Some((supposed(path)?, path))).min();
        self.credit_ns = self.credit_ns.saturating_add(now_ns / (CREDIT / MEDIAN_OF as u32));
        let Some((more_ns, path)) = next.filter(|_| self.trial.is_none()) else { return };
        let won = self.won.is_some_and(|(won, _)| won == path);
        let soon = !self.told_nothing && (self.tried[path.index()].is_none() || won);
        let apart = if soon { APART.0 } else { APART.1 };
        if self.since >= apart && more_ns * u64::from(TRIAL_MESSAGES) <= self.credit_ns.into() {
            self.trial = Some(Trial::new(path, now));
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
        class.trial.as_ref().map(Trial::path).or(class.best)
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
            let costs = core::array::from_fn(|path| costs.get(path).copied());
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
            assert!(sent[slow.index()] <= 2 * TRIAL_MESSAGES, "{slow:?}: {sent:?}");
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

    /// Both paths are slow while a host is busy with something else: that is no reason to change, and none to stay with what was changed to.
    #[test]
    fn what_holds_up_both_paths_changes_nothing() {
        let mut pair = Pair::new([2_000, 1_000]);
        let mut busy = false;
        let mut by_first = 0;
        for phase in 0..40 {
            busy = !busy;
            let times = if busy { 40 } else { 1 };
            // Phases of all lengths, so that trials begin at all places of them.
            let messages = if busy { 37 * phase + 20 } else { 5_000 };
            by_first += pair
                .run(messages, |path, _| times * if path == SECOND { 10_000 } else { 20_000 })[0];
        }
        assert!(by_first < 2_000, "{by_first} of 120,000 messages by the slower path");
    }

    /// The first messages wait for a peer that is not there yet: that says nothing of their path.
    #[test]
    fn a_slow_beginning_is_not_the_paths() {
        for waiting in 1..60 {
            let mut pair = Pair::new([2_000, 1_000]);
            pair.run(waiting, |_, _| 2_000_000);
            let sent = pair.run(5_000, |path, _| if path == SECOND { 18_000 } else { 22_000 });
            assert!(sent[0] < 200, "{waiting} at first: {sent:?}");
        }
    }

    /// Of those that are timed, one in so many, the slower path in use first and then the quicker: messages by the other path, at first and later.
    fn seldom_timed(one_in: u32) -> [u32; 2] {
        let mut pair = Pair::new([1_000, 1_001]);
        let mut noise = 1u32;
        let mut by_second = [0; 2];
        for message in 0..50_000 {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let path = pair.learned.path(2).unwrap_or(FIRST);
            by_second[usize::from(message >= 5_000)] += u32::from(path == SECOND);
            let took = if path == SECOND { 8_000 } else { 12_000 };
            if pair.learned.take(path, 2, (noise >> 16).is_multiple_of(one_in).then_some(took)) {
                pair.learned.decide(2, &pair.costs);
            }
        }
        by_second
    }

    /// Where every second message is followed by another before it is acknowledged the quicker path is found all the same.
    #[test]
    fn half_of_the_messages_timed_are_enough() {
        let [_, later] = seldom_timed(2);
        assert!(later > 43_000, "{later} of 45,000 by the quicker path");
    }

    /// Where too few are, hardly anything is tried.
    #[test]
    fn trials_that_tell_nothing_are_far_apart() {
        let [first, later] = seldom_timed(32);
        assert!(first + later < 2_000, "{first} and {later} of 50,000 by the other path");
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
        assert_eq!(by_second, TRIAL_MESSAGES);
    }
}
