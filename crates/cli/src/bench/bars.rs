//! `emp bench bars`: the figures that EMP promises, each as a ratio to something measured in turn with it.

use anyhow::bail;
use serde::{Deserialize, Serialize};

use super::args::{BarsArgs, command_line, effort};
use super::environment::{Environment, load, note_load};
use super::job::{LinkChoice, Measure, Pattern, Spec, SubjectKind};
use super::measure::{Effort, Series, alternate, window_for};
use super::progress::Progress;
use super::results::{Results, Row};
use super::stats;
use crate::bail_user;
use crate::error::{UserError, print};
use crate::output::check_writable;
use crate::report::table;

/// Which figure of a slice counts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Figure {
    OneWay,
    Gbps,
    MessageRate,
}

impl Figure {
    fn of(self, measure: &Measure) -> f64 {
        match self {
            Self::OneWay => measure.one_way_us().unwrap_or(f64::NAN),
            Self::Gbps => measure.gbps(),
            Self::MessageRate => measure.messages_per_s(),
        }
    }

    fn show(self, value: f64) -> String {
        match self {
            Self::OneWay => format!("{value:.2} µs"),
            Self::Gbps => format!("{value:.2} Gb/s"),
            Self::MessageRate => format!("{:.0} k msg/s", value / 1e3),
        }
    }
}

/// Where the bar is.
#[derive(Clone, Copy)]
enum Limit {
    AtMost(f64),
    AtLeast(f64),
}

/// One promise.
struct Bar {
    name: &'static str,
    pattern: Pattern,
    size: usize,
    specs: Vec<Spec>,
    /// The first so many subjects are EMP's; the best of them counts.
    candidates: usize,
    figure: Figure,
    /// Of the ratio to the last subject if there is one besides the candidates, else of the figure itself.
    limit: Limit,
}

/// How a bar came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Its name.
    pub name: String,
    /// The ratio, or the figure where nothing was measured against. Null if it could not be measured.
    pub value: Option<f64>,
    /// `≤ 2` or `≥ 0.9`
    pub limit: String,
    /// It holds; null if it could not be measured.
    pub pass: Option<bool>,
    /// The medians behind it, or why there are none.
    pub figures: String,
}

/// All promises: those of the project's first release.
fn all() -> Vec<Bar> {
    let packet = || Spec::emp(LinkChoice::Packet);
    let udp = || Spec::emp(LinkChoice::Udp);
    let raw = |emp: Spec| emp.against(SubjectKind::Raw);
    let tcp = || packet().against(SubjectKind::Tcp);
    let lossy = |name, emp: Spec| Bar {
        name,
        pattern: Pattern::Stream,
        size: 1 << 20,
        specs: vec![Spec { loss: 0.001, ..emp.clone() }, emp],
        candidates: 1,
        figure: Figure::Gbps,
        limit: Limit::AtLeast(0.9),
    };
    let pingpong = |name, specs, limit| Bar {
        name,
        pattern: Pattern::Pingpong,
        size: 32,
        specs,
        candidates: 1,
        figure: Figure::OneWay,
        limit: Limit::AtMost(limit),
    };
    vec![
        pingpong("32 B one way, packet, to raw ring", vec![packet(), raw(packet())], 2.0),
        pingpong("32 B one way, packet, to spinning TCP", vec![packet(), tcp()], 0.5),
        pingpong("32 B one way, udp, to raw UDP", vec![udp(), raw(udp())], 1.3),
        Bar {
            name: "1 MiB stream, best link, to TCP",
            pattern: Pattern::Stream,
            size: 1 << 20,
            specs: vec![packet(), udp(), tcp()],
            candidates: 2,
            figure: Figure::Gbps,
            limit: Limit::AtLeast(1.0),
        },
        Bar {
            name: "64 B messages, best link, one sender",
            pattern: Pattern::Rate,
            size: 64,
            specs: vec![packet(), udp()],
            candidates: 2,
            figure: Figure::MessageRate,
            limit: Limit::AtLeast(500_000.0),
        },
        lossy("1 MiB stream, packet, 0.1 % loss to none", packet()),
        lossy("1 MiB stream, udp, 0.1 % loss to none", udp()),
        pingpong(
            "32 B one way, guardian, to none",
            vec![packet(), Spec { guardian: false, ..packet() }],
            1.02,
        ),
    ]
}

/// Runs `emp bench bars`.
pub fn run(args: &BarsArgs) -> anyhow::Result<()> {
    let effort = effort(args.seconds, args.runs)?;
    let wanted = args.only.as_deref().unwrap_or_default();
    let bars: Vec<Bar> = all().into_iter().filter(|bar| bar.name.contains(wanted)).collect();
    if bars.is_empty() {
        let names: Vec<_> = all().iter().map(|bar| bar.name).collect();
        bail_user!("no bar's name holds `{wanted}`; there are: {}", names.join("; "));
    }
    check_writable(&args.json)?;
    let load = load();
    let results = args.place.with_peer(|peer| {
        let slices = bars.iter().map(|bar| bar.specs.len() * effort.runs).sum();
        let progress = Progress::new(slices);
        let mut results = Results {
            environment: Environment { load, ..Environment::default() },
            command: command_line(),
            results: Vec::new(),
            bars: Vec::new(),
        };
        for bar in &bars {
            let verdict = judge(bar, args, peer, effort, &progress, &mut results)?;
            progress.line(&format!("{}: {}", verdict.name, verdict.figures));
            results.bars.push(verdict);
        }
        Ok(results)
    })?;
    print(&table::verdicts(&results.bars))?;
    note_load(load);
    if let Some(path) = &args.json {
        results.write(path)?;
    }
    let missed = results.bars.iter().filter(|bar| bar.pass == Some(false)).count();
    if missed > 0 {
        bail!("{missed} of {} bars missed", results.bars.len());
    }
    Ok(())
}

fn judge(
    bar: &Bar,
    args: &BarsArgs,
    peer: &str,
    effort: Effort,
    progress: &Progress,
    results: &mut Results,
) -> anyhow::Result<Verdict> {
    let mut session = match args.place.open(peer, bar.specs.clone()) {
        Ok(session) => session,
        // A link that is not to be had here leaves the other bars to measure.
        Err(error) if error.is::<UserError>() && bar.uses_packet() => {
            return Ok(bar.verdict(None, error.to_string()));
        }
        Err(error) => return Err(error),
    };
    let subjects: Vec<usize> = (0..bar.specs.len()).collect();
    let job = (bar.pattern, bar.size, window_for(bar.size, None));
    let all = alternate(&mut session, &subjects, job, effort, &mut |_| progress.step(bar.name))?;
    results.environment =
        Environment::of(session.place(), args.place.lab, results.environment.load);
    results.results.extend(all.iter().map(|series| Row::of(&session, series)));
    Ok(bar.verdict(bar.value(&all), bar.figures(&all)))
}

impl Bar {
    fn uses_packet(&self) -> bool {
        self.specs.iter().any(|spec| spec.uses_link() && spec.link == LinkChoice::Packet)
    }

    fn value(&self, all: &[Series]) -> Option<f64> {
        let samples = |series: &Series| series.each(|measure| self.figure.of(measure));
        let (candidates, reference) = all.split_at(self.candidates);
        let values = candidates.iter().filter_map(|series| match reference.last() {
            Some(reference) => stats::paired_ratio(&samples(series), &samples(reference)),
            None => stats::median(&samples(series)),
        });
        values.reduce(match self.limit {
            Limit::AtMost(_) => f64::min,
            Limit::AtLeast(_) => f64::max,
        })
    }

    fn figures(&self, all: &[Series]) -> String {
        let figures = all.iter().zip(&self.specs).map(|(series, spec)| {
            let median = series.median(|measure| self.figure.of(measure));
            let median = median.map_or_else(|| "-".to_owned(), |value| self.figure.show(value));
            format!("{} {median}", spec.describe())
        });
        figures.collect::<Vec<_>>().join(", ")
    }

    fn verdict(&self, value: Option<f64>, figures: String) -> Verdict {
        let (limit, holds): (_, fn(f64, f64) -> bool) = match self.limit {
            Limit::AtMost(limit) => (limit, |value, limit| value <= limit),
            Limit::AtLeast(limit) => (limit, |value, limit| value >= limit),
        };
        let sign = if matches!(self.limit, Limit::AtMost(_)) { '≤' } else { '≥' };
        Verdict {
            name: self.name.to_owned(),
            value,
            limit: format!("{sign} {limit}"),
            pass: value.map(|value| holds(value, limit)),
            figures,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::job::Job;
    use std::time::Duration;

    fn series(us: &[u64]) -> Series {
        let job = Job { pattern: Pattern::Pingpong, size: 32, count: 1, window: 1 };
        let elapsed = us.iter().map(|us| Duration::from_micros(2 * us));
        let measures = elapsed.map(|elapsed| Measure { job, elapsed, arrived: 1.0 }).collect();
        Series { subject: 0, job, measures }
    }

    #[test]
    fn ratios_are_judged_from_pairs() {
        let bar = &all()[0];
        let good = [series(&[3, 30, 4]), series(&[2, 20, 2])];
        let verdict = bar.verdict(bar.value(&good), bar.figures(&good));
        assert_eq!((verdict.value, verdict.pass), (Some(1.5), Some(true)));
        assert_eq!(verdict.limit, "≤ 2");
        assert_eq!(verdict.figures, "emp packet 4.00 µs, raw packet 2.00 µs");
        let bad = [series(&[5]), series(&[2])];
        assert_eq!(bar.verdict(bar.value(&bad), String::new()).pass, Some(false));
        assert_eq!(bar.verdict(None, String::new()).pass, None);
    }

    #[test]
    fn the_best_candidate_counts() {
        let bar = all().into_iter().find(|bar| bar.figure == Figure::MessageRate).unwrap();
        let value = bar.value(&[series(&[4]), series(&[1])]).unwrap();
        // Of a ping-pong, two messages in twice the time.
        assert!((value - 1e6).abs() < 1.0, "{value}");
    }
}
