//! How often, how long, in which order: subjects take turns in short slices, so that whatever else the machine does
//! meets them all alike, and the median over the slices is the figure.

use std::time::{Duration, Instant};

use super::congestion;
use super::job::{Job, Measure, Pattern, Spec};
use super::session::Session;
use super::stats;

/// Messages of the first, shortest try.
const FIRST_TRY: u64 = 4;

/// A try shorter than this part of a slice says little about how many messages fill one: the first megabytes take up to twice as long as
/// those behind them, and of an eighth of a slice they are most.
const TRY_PART: u32 = 2;

/// Tries until one is long enough: each is at least twice the one before, so this many never fail to get there.
const TRIES_MAX: usize = 40;

/// Messages of one slice at most; at 100 ns each, a slice of ten seconds.
const COUNT_MAX: u64 = 100_000_000;

/// How many times longer than asked the slices at one size may take together: where other programs have a core for milliseconds,
/// slices are longer than the one that was tried out, and fewer of them must do.
const OVERTIME: u32 = 2;

/// Rounds that are run however long they take: of fewer the middle one says nothing.
const ROUNDS_MIN: usize = 3;

/// Bytes that a stream keeps in flight unless told otherwise.
const WINDOW_BYTES: usize = 4 << 20;

/// Messages that a stream keeps in flight unless told otherwise, at least and at most.
const WINDOW_MESSAGES: (usize, usize) = (4, 256);

/// How much time to spend.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Length of one slice.
    pub slice: Duration,
    /// Slices per subject and size.
    pub runs: usize,
}

impl Effort {
    /// The longest that so many subjects may take at one size.
    fn limit(&self, subjects: usize) -> Duration {
        let slices = u32::try_from(self.runs * subjects).unwrap_or(u32::MAX);
        self.slice.saturating_mul(slices).saturating_mul(OVERTIME)
    }
}

/// All slices of one subject at one size.
#[derive(Clone, Debug)]
pub struct Series {
    /// Which subject of the session.
    pub subject: usize,
    /// What was done; the count is that of one slice.
    pub job: Job,
    /// One measure a slice, in the order of time.
    pub measures: Vec<Measure>,
}

impl Series {
    /// A figure of every slice.
    pub fn each(&self, figure: impl Fn(&Measure) -> f64) -> Vec<f64> {
        self.measures.iter().map(figure).collect()
    }

    /// The median of a figure.
    pub fn median(&self, figure: impl Fn(&Measure) -> f64) -> Option<f64> {
        stats::median(&self.each(figure))
    }

    /// The mean time of one message, over all messages: what is rare and slow counts, as it does not in the median.
    pub fn mean_us(&self) -> Option<f64> {
        let samples: Vec<f64> = self.measures.iter().filter_map(Measure::one_way_us).collect();
        // Slices have equal numbers of messages.
        stats::mean(&samples)
    }

    /// How fast it was, for comparing it with others of the same job: the more the faster.
    pub fn speed(&self) -> Option<f64> {
        self.one_way_us().map(|us| 1.0 / us).or_else(|| self.median(Measure::gbps))
    }

    /// The median time of one message; what ratios of ping-pongs are made of.
    pub fn one_way_us(&self) -> Option<f64> {
        let samples: Vec<f64> = self.measures.iter().filter_map(Measure::one_way_us).collect();
        stats::median(&samples)
    }
}

/// The window for messages of a size: what was asked for, or about as many bytes as keep any link busy.
pub fn window_for(size: usize, asked: Option<usize>) -> usize {
    let (least, most) = WINDOW_MESSAGES;
    asked.unwrap_or_else(|| (WINDOW_BYTES / size.max(1)).clamp(least, most))
}

/// Runs subjects in turn at one size, and gives what they did: of TCP, under whichever congestion control it was faster.
/// `tick` is called after each slice.
pub fn alternate(
    session: &mut Session,
    subjects: &[usize],
    (pattern, size, window): (Pattern, usize, usize),
    effort: Effort,
    tick: &mut dyn FnMut(&Series),
) -> anyhow::Result<Vec<Series>> {
    let mut all = Vec::with_capacity(subjects.len());
    for &subject in subjects {
        let first = Job { pattern, size, count: FIRST_TRY, window };
        let job = calibrate(first, effort.slice, |job| session.run(subject, job))?;
        all.push(Series { subject, job, measures: Vec::with_capacity(effort.runs) });
    }
    let (start, limit) = (Instant::now(), effort.limit(subjects.len()));
    for run in 0..effort.runs {
        if run >= ROUNDS_MIN && start.elapsed() > limit {
            break;
        }
        // Forth and back, so that none always follows the same other.
        let order: Vec<usize> =
            if run % 2 == 0 { (0..all.len()).collect() } else { (0..all.len()).rev().collect() };
        for at in order {
            let series = &mut all[at];
            series.measures.push(session.run(series.subject, series.job)?);
            tick(series);
        }
    }
    Ok(fastest_series(session.specs(), all))
}

/// Finds how many messages fill a slice, by doing more and more of them; warms everything up on the way.
fn calibrate(
    mut job: Job,
    slice: Duration,
    mut run: impl FnMut(Job) -> anyhow::Result<Measure>,
) -> anyhow::Result<Job> {
    for _ in 0..TRIES_MAX {
        let elapsed = run(job)?.elapsed.max(Duration::from_nanos(1));
        let wanted = job.count as f64 * slice.as_secs_f64() / elapsed.as_secs_f64();
        let wanted = (wanted as u64).clamp(1, COUNT_MAX);
        if elapsed * TRY_PART >= slice || job.count >= COUNT_MAX {
            return Ok(Job { count: wanted, ..job });
        }
        // Towards a whole slice, yet not by leaps: the first messages are the slowest.
        job.count = wanted.clamp(2 * job.count, 32 * job.count).min(COUNT_MAX);
    }
    Ok(job)
}

/// Of series at one size, those of TCP that were the fastest of their kind, and all others ([`congestion::fastest`]).
pub fn fastest_series(specs: &[Spec], all: Vec<Series>) -> Vec<Series> {
    congestion::fastest(all, |series| specs[series.subject].kind, Series::speed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job() -> Job {
        Job { pattern: Pattern::Pingpong, size: 32, count: FIRST_TRY, window: 1 }
    }

    /// A subject that takes a fixed time and so long per message.
    fn calibrated(fixed: Duration, each: Duration, slice: Duration) -> u64 {
        let run = |job: Job| {
            let elapsed = fixed + each.mul_f64(job.count as f64);
            Ok(Measure { job, elapsed, arrived: 1.0 })
        };
        calibrate(job(), slice, run).unwrap().count
    }

    #[test]
    fn a_slice_is_about_as_long_as_asked() {
        let slice = Duration::from_millis(50);
        let count = calibrated(Duration::from_micros(200), Duration::from_micros(1), slice);
        assert!((40_000..60_000).contains(&count), "{count}");
        assert_eq!(calibrated(Duration::ZERO, Duration::from_secs(1), slice), 1);
        let count = calibrated(Duration::ZERO, Duration::ZERO, slice);
        assert_eq!(count, COUNT_MAX);
    }

    #[test]
    fn the_time_that_was_asked_for_is_kept_within_a_factor() {
        let effort = Effort { slice: Duration::from_millis(10), runs: 15 };
        assert_eq!(effort.limit(6), Duration::from_millis(1800));
        let endless = Effort { slice: Duration::MAX, runs: usize::MAX / 4 };
        assert_eq!(endless.limit(2), Duration::MAX);
    }

    #[test]
    fn windows_shrink_with_size_unless_told() {
        assert_eq!(window_for(32, None), 256);
        assert_eq!(window_for(64 << 10, None), 64);
        assert_eq!(window_for(64 << 20, None), 4);
        assert_eq!(window_for(64 << 20, Some(9)), 9);
    }
}
