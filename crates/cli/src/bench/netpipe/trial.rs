//! NetPIPE's timing: how many round trips a trial has follows from the size before; subjects take turns trial by trial.

use std::time::Duration;

use super::schedule::Size;
use crate::bench::congestion;
use crate::bench::job::{Job, Measure, Pattern, SubjectKind};
use crate::bench::measure::Series;
use crate::bench::session::Session;
use crate::bench::stats;

/// Round trips of the first try, which only estimates how long one takes; as in NetPIPE.
const FIRST_TRY: u64 = 100;

/// Fewest round trips of a trial, as in NetPIPE 5: one alone would mostly show how cold the caches were.
const REPEATS_MIN: u64 = 3;

/// Most round trips of a trial: at 100 ns each, ten seconds.
const REPEATS_MAX: u64 = 100_000_000;

/// A subject whose messages take longer than this one way is left out of larger sizes, as in NetPIPE 3.
const STOP_AFTER: Duration = Duration::from_secs(1);

/// Sizes in a row that did not arrive whole, after which a bare link is left out of larger ones.
const MISSED_MAX: u32 = 2;

/// The time to spend.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// How long a trial is to take.
    pub trial: Duration,
    /// Trials per subject and size.
    pub trials: usize,
}

/// What a subject showed at one size.
pub struct Outcome {
    /// All trials in which everything arrived; the count is that of one trial.
    pub series: Series,
    /// The shortest time of one way in µs.
    pub best_us: f64,
    /// The longest time of one way in µs.
    pub worst_us: f64,
}

/// A subject on its way through the sizes.
struct Runner {
    subject: usize,
    /// One way at the size before.
    last: Duration,
    last_bytes: usize,
    missed: u32,
    retired: bool,
}

/// All subjects of a session on their way through the sizes, from small to large.
pub struct Runners(Vec<Runner>);

impl Runners {
    /// Estimates how long each subject takes at the first size.
    pub fn start(session: &mut Session, first: Size) -> anyhow::Result<Self> {
        let subjects = 0..session.specs().len();
        let runners = subjects.map(|subject| {
            let measure = session.run(subject, job(first.bytes, FIRST_TRY))?;
            let last = one_way(&measure);
            Ok(Runner { subject, last, last_bytes: first.bytes, missed: 0, retired: false })
        });
        runners.collect::<anyhow::Result<_>>().map(Self)
    }

    /// Measures one size. Subjects that have become too slow, or a bare link that loses too much, give nothing; of TCP counts
    /// the congestion control under which it was faster.
    pub fn measure(
        &mut self,
        session: &mut Session,
        size: Size,
        effort: Effort,
        tick: &mut dyn FnMut(),
    ) -> anyhow::Result<Vec<Outcome>> {
        let mut going: Vec<(&mut Runner, Series)> = self
            .0
            .iter_mut()
            .filter(|runner| !runner.retired)
            .map(|runner| {
                let job = job(size.bytes, runner.repeats(size.bytes, effort.trial));
                let series = Series { subject: runner.subject, job, measures: Vec::new() };
                (runner, series)
            })
            .collect();
        for trial in 0..effort.trials {
            // Forth and back, so that none always follows the same other.
            let count = going.len();
            for turn in 0..count {
                let at = if trial % 2 == 0 { turn } else { count - 1 - turn };
                let series = &mut going[at].1;
                let measure = session.run(series.subject, series.job)?;
                // Where nothing is resent, the time of a trial with a loss is the time-out's, not the link's.
                if measure.arrived >= 1.0 {
                    series.measures.push(measure);
                }
                tick();
            }
        }
        let kinds: Vec<SubjectKind> = session.specs().iter().map(|spec| spec.kind).collect();
        let outcomes = going.into_iter().filter_map(|(runner, series)| {
            let outcome = Outcome::of(series);
            let raw = kinds[runner.subject] == SubjectKind::Raw;
            runner.learn(size.bytes, outcome.as_ref(), raw);
            outcome
        });
        let kind = |outcome: &Outcome| kinds[outcome.series.subject];
        Ok(congestion::fastest(outcomes.collect(), kind, |outcome| outcome.series.speed()))
    }
}

impl Runner {
    /// Round trips that fill a trial, if the time grows no more than the size does.
    fn repeats(&self, bytes: usize, trial: Duration) -> u64 {
        let growth = (bytes as f64 / self.last_bytes as f64).max(1.0);
        let round_trip = 2.0 * self.last.as_secs_f64().max(1e-9) * growth;
        ((trial.as_secs_f64() / round_trip) as u64).clamp(REPEATS_MIN, REPEATS_MAX)
    }

    fn learn(&mut self, bytes: usize, outcome: Option<&Outcome>, raw: bool) {
        match outcome {
            Some(outcome) => {
                self.last = Duration::from_secs_f64(outcome.best_us * 1e-6);
                self.last_bytes = bytes;
                self.missed = 0;
            }
            None => self.missed += 1,
        }
        self.retired = self.last > STOP_AFTER || (raw && self.missed >= MISSED_MAX);
    }
}

impl Outcome {
    fn of(series: Series) -> Option<Self> {
        let times: Vec<f64> = series.measures.iter().filter_map(Measure::one_way_us).collect();
        stats::median(&times)?;
        let (best_us, worst_us) = times
            .iter()
            .fold((f64::INFINITY, 0.0), |(best, worst), time| (time.min(best), time.max(worst)));
        Some(Self { series, best_us, worst_us })
    }
}

fn job(size: usize, count: u64) -> Job {
    Job { pattern: Pattern::Pingpong, size, count, window: 1 }
}

fn one_way(measure: &Measure) -> Duration {
    measure.elapsed.div_f64(2.0 * measure.job.count as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runner(last: Duration, last_bytes: usize) -> Runner {
        Runner { subject: 0, last, last_bytes, missed: 0, retired: false }
    }

    fn outcome(us: &[u64]) -> Option<Outcome> {
        let job = job(64, 10);
        let measure =
            |us: &u64| Measure { job, elapsed: Duration::from_micros(20 * us), arrived: 1.0 };
        let measures = us.iter().map(measure).collect();
        Outcome::of(Series { subject: 0, job, measures })
    }

    #[test]
    fn trials_last_about_as_long_as_asked() {
        let trial = Duration::from_millis(10);
        // 1 µs one way: 5000 round trips; four times the size may take four times as long.
        assert_eq!(runner(Duration::from_micros(1), 64).repeats(64, trial), 5000);
        assert_eq!(runner(Duration::from_micros(1), 64).repeats(256, trial), 1250);
        assert_eq!(runner(Duration::from_micros(1), 64).repeats(61, trial), 5000);
        assert_eq!(runner(Duration::from_secs(1), 64).repeats(64, trial), REPEATS_MIN);
        assert_eq!(runner(Duration::ZERO, 1).repeats(1, Duration::from_secs(9)), REPEATS_MAX);
    }

    #[test]
    fn best_mean_and_worst_are_of_the_trials() {
        let outcome = outcome(&[5, 3, 7]).unwrap();
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        assert!(close(outcome.best_us, 3.0) && close(outcome.worst_us, 7.0));
        assert!(
            close(outcome.series.mean_us().unwrap(), 5.0)
                && close(outcome.series.one_way_us().unwrap(), 5.0)
        );
    }

    #[test]
    fn the_slow_and_the_lossy_retire() {
        let mut slow = runner(Duration::from_micros(5), 64);
        slow.learn(128, outcome(&[2_000_000]).as_ref(), false);
        assert!(slow.retired);
        let mut lossy = runner(Duration::from_micros(5), 64);
        lossy.learn(128, None, true);
        assert!(!lossy.retired);
        lossy.learn(192, outcome(&[9]).as_ref(), true);
        lossy.learn(256, None, true);
        assert!(!lossy.retired, "what arrived in between counts");
        lossy.learn(384, outcome(&[]).as_ref(), true);
        assert!(lossy.retired);
    }
}
