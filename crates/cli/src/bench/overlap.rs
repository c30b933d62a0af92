//! `emp bench overlap`: how much of the communication goes on while user code computes (post-work-wait).
//!
//! Both ends post receives, start sends, compute, and wait, over and over. The more they compute, the less the throughput
//! can be; a board that works beside the application keeps it up longest. It is figure 6 and table 2 of EMP (SC 2001).

use std::path::PathBuf;
use std::time::Duration;

use emp_host::Board;

use super::args::{command_line, effort};
use super::calls::{Play, Script, Tally};
use super::congestion;
use super::environment::{Environment, load, note_conditions};
use super::job::{LinkChoice, Spec, SubjectKind};
use super::measure::Effort;
use super::results::{Run, write_json};
use super::session::Session;
use super::stats;
use super::where_args::WhereArgs;
use crate::bail_user;
use crate::error::{print, user_error};
use crate::measured::OverlapRow as Row;
use crate::output::check_writable;
use crate::progress::Progress;
use crate::report::calls_table;
use crate::sizes;

/// Messages of a batch that may be asked for: both ends' descriptors of a round stay well within the firmware's limits.
const BATCH_MAX: usize = 128;

/// Bytes that a batch may have.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Rounds of a slice at least.
const ROUNDS_MIN: u64 = 3;

/// Rounds of the first try, which warms up and estimates how long one takes.
const FIRST_TRY: u64 = 20;

/// The share of user code that the summary speaks of, in percent.
const HALF: f64 = 50.0;

/// Measure how much communication goes on while user code computes: throughput against the share of CPU given to user
/// code, and the cost of each call, for boards inline and thread, beside TCP.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    place: WhereArgs,
    /// The link that carries the frames.
    #[arg(long, value_enum, default_value_t = LinkChoice::Auto)]
    link: LinkChoice,
    /// Where EMP's firmware runs, one or several.
    #[arg(long, value_delimiter = ',', default_value = "inline,thread")]
    boards: Vec<String>,
    /// Leave out TCP.
    #[arg(long)]
    no_tcp: bool,
    /// Bytes of a message; 10000 as in the paper.
    #[arg(long, default_value = "10000")]
    size: String,
    /// Messages that each end sends in a round; 5 as in the paper.
    #[arg(long, default_value_t = 5, value_name = "N")]
    batch: usize,
    /// Work to do in a round, as the percentage it would be of the time if nothing overlapped; 0 is always measured.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "10,20,33,50,67,80,90",
        value_name = "PERCENT"
    )]
    shares: Vec<f64>,
    /// Seconds for each subject at each share.
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Slices that those seconds are cut into; figures are medians over slices.
    #[arg(long, default_value_t = 25)]
    runs: usize,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs `emp bench overlap`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let (specs, size, shares) = (args.specs()?, args.size()?, args.shares()?);
    let effort = effort(args.seconds, args.runs)?;
    check_writable(&args.json)?;
    let load = load();
    let run = args.place.with_session(specs, |session| {
        let results = measure(session, (size, args.batch), &shares, effort)?;
        let environment = Environment::of(session.place(), args.place.lab, load);
        Ok(Run { environment, command: command_line(), results })
    })?;
    print(&calls_table::overlap(&run.results))?;
    print(&format!("\nµs a call when there is most work:\n{}", calls_table::costs(&run.results)))?;
    print(&summary(&run.results))?;
    if args.place.lab
        && run.environment.cores < 4
        && args.boards.iter().any(|board| board == "thread")
    {
        eprintln!(
            "note: each end has one core: a progress thread and user code take turns on it, so the thread board can't overlap"
        );
    }
    note_conditions(load);
    args.json.as_ref().map_or(Ok(()), |path| write_json(path, &run))
}

impl Args {
    fn specs(&self) -> anyhow::Result<Vec<Spec>> {
        let mut specs = Vec::new();
        for board in &self.boards {
            Board::named(board).map_err(user_error)?;
            specs.push(Spec { board: board.clone(), ..Spec::emp(self.link) });
        }
        if !self.no_tcp {
            specs.push(Spec::emp(self.link).against(SubjectKind::Tcp));
        }
        Ok(specs)
    }

    fn size(&self) -> anyhow::Result<usize> {
        if !(1..=BATCH_MAX).contains(&self.batch) {
            bail_user!("a batch of {} is not possible; choose 1 to {BATCH_MAX}", self.batch);
        }
        match sizes::parse(&self.size).as_deref() {
            Ok(&[size]) if size * self.batch <= BATCH_BYTES_MAX => Ok(size),
            Ok(&[_]) => {
                bail_user!("a batch of more than {} is not possible", sizes::show(BATCH_BYTES_MAX))
            }
            _ => bail_user!("`{}` is not one size; write for example 10000 or 64K", self.size),
        }
    }

    /// Shares as parts of one, the first without work.
    fn shares(&self) -> anyhow::Result<Vec<f64>> {
        if let Some(share) = self.shares.iter().find(|share| !(0.0..=99.0).contains(*share)) {
            bail_user!("a share of {share} % is not possible; choose 0 to 99");
        }
        let mut shares: Vec<f64> =
            [0.0].iter().chain(&self.shares).map(|share| share / 100.0).collect();
        shares.sort_by(f64::total_cmp);
        shares.dedup();
        Ok(shares)
    }
}

fn measure(
    session: &mut Session,
    (size, batch): (usize, usize),
    shares: &[f64],
    effort: Effort,
) -> anyhow::Result<Vec<Row>> {
    let subjects = session.specs().len();
    let progress = Progress::new(shares.len() * subjects * effort.runs);
    let script = Script { play: Play::Exchange, size, count: FIRST_TRY, batch, work_ns: 0 };
    // What a round takes without work; known roughly from the first try, better from the first share.
    let mut idle = Vec::new();
    for subject in 0..subjects {
        idle.push(round_seconds(&session.play(subject, script)?, &script));
    }
    let mut rows: Vec<Row> = Vec::new();
    for &share in shares {
        let scripts: Vec<Script> =
            idle.iter().map(|idle| filled(script, *idle, share, effort.slice)).collect();
        let mut tallies = vec![Vec::with_capacity(effort.runs); subjects];
        for run in 0..effort.runs {
            for turn in 0..subjects {
                // Forth and back, so that none always follows the same other.
                let subject = if run % 2 == 0 { turn } else { subjects - 1 - turn };
                tallies[subject].push(session.play(subject, scripts[subject])?);
                progress.step(&format!(
                    "overlap {:.0} % {}",
                    share * 100.0,
                    label(&session.specs()[subject])
                ));
            }
        }
        for subject in 0..subjects {
            if share == 0.0 {
                let rounds: Vec<f64> = tallies[subject]
                    .iter()
                    .map(|tally| round_seconds(tally, &scripts[subject]))
                    .collect();
                idle[subject] = stats::median(&rounds).unwrap_or(idle[subject]);
            }
            rows.push(row(session, subject, &scripts[subject], &tallies[subject], idle[subject]));
        }
        progress.line(&one_line(&rows[rows.len() - subjects..]));
    }
    Ok(without_the_slower(rows, subjects))
}

/// Of TCP only the rows of the congestion control under which it was faster without work, which the first rows tell.
fn without_the_slower(rows: Vec<Row>, subjects: usize) -> Vec<Row> {
    let first = rows[..subjects].to_vec();
    let kept = congestion::fastest(first, |row| row.subject, |row| Some(row.gbps));
    let names: Vec<String> = kept.iter().map(Row::name).collect();
    rows.into_iter().filter(|row| names.contains(&row.name())).collect()
}

fn round_seconds(tally: &Tally, script: &Script) -> f64 {
    (tally.elapsed.as_secs_f64() / script.count as f64).max(1e-9)
}

/// A script of rounds that fill a slice and in which work would have its share if nothing overlapped.
fn filled(script: Script, idle: f64, share: f64, slice: Duration) -> Script {
    let work = idle * share / (1.0 - share);
    let count = ((slice.as_secs_f64() / (idle + work)) as u64).max(ROUNDS_MIN);
    Script { count, work_ns: (work * 1e9) as u64, ..script }
}

fn row(session: &Session, subject: usize, script: &Script, tallies: &[Tally], idle: f64) -> Row {
    let spec = &session.specs()[subject];
    let links = &session.cards()[subject].links;
    let median = |figure: &dyn Fn(&Tally) -> f64| {
        let samples: Vec<f64> = tallies.iter().map(figure).collect();
        stats::median(&samples).unwrap_or(f64::NAN)
    };
    let each = (script.count * script.batch as u64) as f64;
    let us = |duration: Duration| duration.as_secs_f64() * 1e6 / each;
    let seconds = median(&|tally| round_seconds(tally, script));
    let emp = spec.kind == SubjectKind::Emp;
    Row {
        subject: spec.kind,
        board: emp.then(|| spec.board.clone()),
        congestion: session.congestion(subject),
        link: (!links.is_empty()).then(|| links.join("+")),
        size: script.size,
        batch: script.batch,
        work_us: script.work_ns as f64 * 1e-3,
        user_percent: script.work_ns as f64 * 1e-7 / seconds,
        gbps: (script.size * script.batch) as f64 * 8e-9 / seconds,
        of_idle: idle / seconds,
        post_receive_us: median(&|tally| us(tally.post_receive)),
        post_send_us: median(&|tally| us(tally.post_send)),
        wait_us: median(&|tally| us(tally.wait)),
        samples: tallies.len(),
    }
}

/// A subject and its board or what steers it: `emp inline`, `tcp cubic`.
fn label(spec: &Spec) -> String {
    match spec.kind {
        SubjectKind::Emp => format!("{} {}", spec.kind.name(), spec.board),
        _ => spec.describe(),
    }
}

fn one_line(rows: &[Row]) -> String {
    let figures = rows.iter().map(|row| {
        format!("{} {:.2} Gb/s with {:.0} % user code", row.name(), row.gbps, row.user_percent)
    });
    figures.collect::<Vec<_>>().join(", ")
}

/// What is left of the throughput when user code has half of the time.
fn summary(rows: &[Row]) -> String {
    let mut names: Vec<String> = rows.iter().map(Row::name).collect();
    names.dedup();
    names.sort_unstable();
    names.dedup();
    let lines = names.iter().filter_map(|name| {
        let own: Vec<&Row> = rows.iter().filter(|row| row.name() == *name).collect();
        let kept = at_half(&own)?;
        Some(format!(
            "{name}: {:.0} % of its throughput when user code has half of the time\n",
            kept * 100.0
        ))
    });
    lines.collect()
}

/// Between the two rows on both sides of half, if there are any.
fn at_half(rows: &[&Row]) -> Option<f64> {
    let pair = rows
        .windows(2)
        .find(|pair| pair[0].user_percent <= HALF && pair[1].user_percent >= HALF)?;
    let (low, high) = (pair[0], pair[1]);
    let way =
        (HALF - low.user_percent) / (high.user_percent - low.user_percent).max(f64::MIN_POSITIVE);
    Some(low.of_idle + (high.of_idle - low.of_idle) * way.min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::fixtures::overlap_row as row;

    #[test]
    fn work_has_its_share_if_nothing_overlaps() {
        let script = Script { play: Play::Exchange, size: 1, count: 1, batch: 1, work_ns: 0 };
        let half = filled(script, 100e-6, 0.5, Duration::from_millis(20));
        assert_eq!((half.work_ns, half.count), (100_000, 100));
        let most = filled(script, 100e-6, 0.9, Duration::from_micros(10));
        assert_eq!((most.work_ns / 1000, most.count), (900, ROUNDS_MIN));
    }

    #[test]
    fn of_tcp_the_faster_one_without_work_is_kept() {
        let tcp = |congestion: &str, gbps: f64| Row {
            subject: SubjectKind::Tcp,
            board: None,
            congestion: Some(congestion.to_owned()),
            gbps,
            ..row(0.0, 1.0)
        };
        let rows = vec![
            row(0.0, 1.0),
            tcp("cubic", 9.0),
            tcp("bbr", 4.0),
            row(50.0, 0.5),
            tcp("cubic", 2.0),
            tcp("bbr", 3.0),
        ];
        let names: Vec<String> = without_the_slower(rows, 3).iter().map(Row::name).collect();
        assert_eq!(names, ["emp inline", "tcp cubic", "emp inline", "tcp cubic"]);
    }

    #[test]
    fn half_is_found_between_rows() {
        let rows = [row(0.0, 1.0), row(40.0, 0.9), row(60.0, 0.5)];
        let own: Vec<&Row> = rows.iter().collect();
        assert!((at_half(&own).unwrap() - 0.7).abs() < 1e-9);
        assert_eq!(at_half(&own[..2]), None);
        assert!(summary(&rows).starts_with("emp inline: 70 %"), "{}", summary(&rows));
    }
}
