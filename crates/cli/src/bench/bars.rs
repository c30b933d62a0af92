//! `emp bench bars`: the figures that EMP promises ([`super::promises`]), measured and judged.

use anyhow::bail;

use super::args::{BarsArgs, command_line, effort};
use super::congestion;
use super::environment::{Environment, load, note_conditions};
use super::job::{LinkChoice, Spec};
use super::measure::{Effort, Series, alternate, window_for};
use super::promises::{Bar, Figure, Group, Limit, Value, all};
use super::results::{Results, Row};
use super::stats;
use crate::bail_user;
use crate::error::{UserError, print};
use crate::measured::Verdict;
use crate::output::check_writable;
use crate::progress::Progress;
use crate::report::table;

/// Runs `emp bench bars`.
pub fn run(args: &BarsArgs) -> anyhow::Result<()> {
    let effort = effort(args.seconds, args.runs)?;
    let groups = wanted(args.only.as_deref().unwrap_or_default())?;
    check_writable(&args.json)?;
    let load = load();
    let results = args.place.with_peer(false, |peer| {
        let slices = groups.iter().map(|group| group.subjects() * effort.runs).sum();
        let progress = Progress::new(slices);
        let mut results = Results {
            environment: Environment { load, ..Environment::default() },
            command: command_line(),
            results: Vec::new(),
            bars: Vec::new(),
        };
        for group in &groups {
            let verdicts = judge(group, args, peer, effort, &progress, &mut results)?;
            for verdict in &verdicts {
                progress.line(&format!("{}: {}", verdict.name, verdict.figures));
            }
            results.bars.extend(verdicts);
        }
        Ok(results)
    })?;
    print(&table::verdicts(&results.bars))?;
    note_conditions(load);
    if let Some(path) = &args.json {
        results.write(path)?;
    }
    let missed = results.bars.iter().filter(|bar| bar.pass == Some(false)).count();
    if missed > 0 {
        bail!("{missed} of {} bars missed", results.bars.len());
    }
    Ok(())
}

/// The bars whose names hold a text.
fn wanted(text: &str) -> anyhow::Result<Vec<Group>> {
    let names: Vec<_> = all().iter().flat_map(|group| &group.bars).map(|bar| bar.name).collect();
    let mut groups = all();
    for group in &mut groups {
        group.bars.retain(|bar| bar.name.contains(text));
    }
    groups.retain(|group| !group.bars.is_empty());
    if groups.is_empty() {
        bail_user!("no bar's name holds `{text}`; there are: {}", names.join("; "));
    }
    Ok(groups)
}

fn judge(
    group: &Group,
    args: &BarsArgs,
    peer: &str,
    effort: Effort,
    progress: &Progress,
    results: &mut Results,
) -> anyhow::Result<Vec<Verdict>> {
    let mut session = match args.place.open(peer, group.specs.clone()) {
        Ok(session) => session,
        // What is not to be had here leaves the other bars to measure.
        Err(error) if error.is::<UserError>() && group.is_special() => {
            let skipped = |bar: &Bar| bar.verdict(None, error.to_string());
            return Ok(group.bars.iter().map(skipped).collect());
        }
        Err(error) => return Err(error),
    };
    let subjects: Vec<usize> = (0..session.specs().len()).collect();
    let job = (group.pattern, group.size, window_for(group.size, group.window));
    let name = group.bars.first().map_or("", |bar| bar.name);
    let all = alternate(&mut session, &subjects, job, effort, &mut |_| progress.step(name))?;
    results.environment =
        Environment::of(session.place(), args.place.lab, results.environment.load);
    results.results.extend(all.iter().map(|series| Row::of(&session, series)));
    let names: Vec<String> =
        all.iter().map(|series| session.specs()[series.subject].describe()).collect();
    let verdict =
        |bar: &Bar| bar.verdict(bar.value(group.figure, &all), group.figures(bar, &all, &names));
    Ok(group.bars.iter().map(verdict).collect())
}

impl Group {
    /// Subjects that take turns: TCP once for each congestion control.
    fn subjects(&self) -> usize {
        self.specs.iter().map(|spec| if spec.is_tcp() { congestion::NAMES.len() } else { 1 }).sum()
    }

    /// Whether it wants what not every place has: a privilege, one machine for both ends, the provider beside this program.
    fn is_special(&self) -> bool {
        let link = |spec: &Spec| {
            let special = [
                LinkChoice::Packet,
                LinkChoice::Lent,
                LinkChoice::Empd,
                LinkChoice::Xdp,
                LinkChoice::Shm,
            ];
            spec.uses_link() && special.contains(&spec.link)
        };
        self.specs.iter().any(|spec| link(spec) || spec.is_face())
    }

    /// `emp packet 1.34 µs, raw packet 0.65 µs`
    fn figures(&self, bar: &Bar, all: &[Series], names: &[String]) -> String {
        // A figure that is alone is told with all that was measured beside it.
        let told = |at: usize| match bar.value.to() {
            Some(to) => at == 0 || at == to,
            None => true,
        };
        let told = all.iter().zip(names).enumerate().filter(|(at, _)| told(*at));
        let figures = told.map(|(_, (series, name))| {
            let figure = match bar.value {
                Value::Means(_) => series.mean_us(),
                _ => series.median(|measure| self.figure.of(measure)),
            };
            let figure = figure.map_or_else(|| "-".to_owned(), |value| self.figure.show(value));
            format!("{name} {figure}")
        });
        figures.collect::<Vec<_>>().join(", ")
    }
}

impl Bar {
    fn value(&self, figure: Figure, all: &[Series]) -> Option<f64> {
        let samples = |at: usize| Some(all.get(at)?.each(|measure| figure.of(measure)));
        let own = samples(0)?;
        match self.value {
            Value::Alone => stats::median(&own),
            Value::Ratio(to) => stats::paired_ratio(&own, &samples(to)?),
            Value::Difference(to) => {
                let differences: Vec<f64> =
                    own.iter().zip(samples(to)?).map(|(own, other)| own - other).collect();
                stats::median(&differences)
            }
            Value::Means(to) => Some(all.first()?.mean_us()? / all.get(to)?.mean_us()?),
        }
    }

    fn verdict(&self, value: Option<f64>, figures: String) -> Verdict {
        let (sign, limit, pass) = match self.limit {
            Limit::AtMost(limit) => ('≤', limit, value.map(|value| value <= limit)),
            Limit::AtLeast(limit) => ('≥', limit, value.map(|value| value >= limit)),
            Limit::Told => return told(self.name, value, figures),
        };
        Verdict {
            name: self.name.to_owned(),
            value,
            limit: format!("{sign} {limit}"),
            pass,
            figures,
        }
    }
}

/// A figure without a limit.
fn told(name: &str, value: Option<f64>, figures: String) -> Verdict {
    Verdict { name: name.to_owned(), value, limit: "-".to_owned(), pass: None, figures }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::job::{Job, Measure, Pattern};
    use std::time::Duration;

    fn series(subject: usize, us: &[u64]) -> Series {
        let job = Job { pattern: Pattern::Pingpong, size: 32, count: 1, window: 1 };
        let elapsed = us.iter().map(|us| Duration::from_micros(2 * us));
        let measures = elapsed.map(|elapsed| Measure { job, elapsed, arrived: 1.0 }).collect();
        Series { subject, job, measures }
    }

    fn verdict(group: &Group, name: &str, all: &[Series]) -> Verdict {
        let bar = group.bars.iter().find(|bar| bar.name.contains(name)).unwrap();
        let names: Vec<String> = group.specs.iter().map(Spec::describe).collect();
        bar.verdict(bar.value(group.figure, all), group.figures(bar, all, &names))
    }

    #[test]
    fn ratios_are_judged_from_pairs() {
        let groups = wanted("packet, to").unwrap();
        let good = [series(0, &[3, 30, 4]), series(1, &[2, 20, 3]), series(2, &[9, 90, 9])];
        let ring = verdict(&groups[0], "to bare ring", &good);
        assert_eq!((ring.value, ring.pass), (Some(1.5), Some(false)));
        assert_eq!(ring.limit, "≤ 1.4");
        assert_eq!(ring.figures, "emp packet 4.00 µs, raw packet 3.00 µs");
        let tcp = verdict(&groups[0], "to TCP", &good);
        assert_eq!(
            (tcp.pass, tcp.figures.as_str()),
            (Some(true), "emp packet 4.00 µs, tcp 9.00 µs")
        );
        assert_eq!(groups[0].bars[0].verdict(None, String::new()).pass, None);
    }

    #[test]
    fn differences_means_and_figures_alone_are_judged() {
        let groups = wanted("less host API").unwrap();
        let all = [series(0, &[5, 50, 7]), series(1, &[4, 49, 2])];
        assert_eq!(verdict(&groups[0], "", &all).value, Some(1.0));
        let groups = wanted("64 B, mean").unwrap();
        let all = [series(0, &[1, 1, 7]), series(1, &[1, 1, 1])];
        let mean = verdict(&groups[0], "", &all);
        assert_eq!((mean.value, mean.pass), (Some(3.0), Some(false)));
        assert_eq!(mean.figures, "emp with loss 3.00 µs, emp 1.00 µs");
        let groups = wanted("adaptive").unwrap();
        let adaptive = verdict(&groups[0], "", &all);
        assert_eq!(
            (adaptive.value, adaptive.pass, adaptive.limit.as_str()),
            (Some(1.0), None, "-")
        );
        assert!(adaptive.figures.starts_with("emp adaptive 1.00 µs, emp 1.00 µs"), "{adaptive:?}");
        let groups = wanted("one sender").unwrap();
        // Of a ping-pong, two messages in twice the time.
        let rate = verdict(&groups[0], "", &[series(0, &[1])]);
        assert_eq!((rate.pass, rate.limit.as_str()), (Some(true), "≥ 1000000"));
    }

    #[test]
    fn only_what_is_asked_for_is_measured() {
        let shm = wanted("shm").unwrap();
        assert!(shm.iter().all(|group| group.bars.iter().all(|bar| bar.name.contains("shm"))));
        assert_eq!(shm.len(), 2);
        assert!(shm.iter().all(Group::is_special));
        assert!(wanted("xyz").err().unwrap().is::<UserError>());
    }
}
