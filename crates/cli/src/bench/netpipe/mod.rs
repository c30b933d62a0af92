//! `emp bench netpipe`: NetPIPE's method, many sizes and several subjects in turn, and a report of it.
//!
//! Each size is measured in several trials, each of as many round trips as fill a certain time. The best trial is
//! NetPIPE's figure, the median ours: it does not depend on how many trials there were.

mod np_out;
mod schedule;
mod subjects;
mod trial;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;

use self::np_out::Columns;
use self::schedule::{PERTURBATION_DEFAULT, Size, schedule};
use self::trial::{Effort, Outcome, Runners};
use super::args::{check_seconds, command_line, faces};
use super::emp_args::EmpArgs;
use super::environment::{Environment, load, note_conditions};
use super::job::{Pattern, SubjectKind};
use super::mpi::{BYTES_MIN, pingpongs};
use super::results::{Row, write_json};
use super::session::Session;
use super::where_args::WhereArgs;
use crate::bail_user;
use crate::error::{UserError, print};
use crate::measured::{MpiRow, NetpipeRun as Run, Point};
use crate::mpi::Transport;
use crate::output::{check_directory, check_writable};
use crate::progress::Progress;
use crate::report::{face_costs, html, ratio, table};
use crate::sizes;

/// Trials per subject and size, as in NetPIPE.
const TRIALS_DEFAULT: usize = 7;

/// Trials that `--trials` may ask for.
const TRIALS_MAX: usize = 1_000;

/// Seconds of a trial. NetPIPE takes 0.25, for one subject; here several take turns, and a shorter trial is likelier to
/// pass without another program on the same core. 124 sizes of five subjects take a minute and a half.
const SECONDS_DEFAULT: f64 = 0.02;

/// What `--quick` takes instead.
const QUICK: Effort = Effort { trial: Duration::from_millis(3), trials: 5 };

/// Largest size unless asked for another: the last step below NetPIPE's 10,000,000.
const END_DEFAULT: &str = "8M";

/// Measure as NetPIPE does: ping-pong at many sizes, best and median of several trials; write a report.
///
/// With --link auto, EMP is measured as it chooses its links and over each link that is to be had here.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    place: WhereArgs,
    #[command(flatten)]
    emp: EmpArgs,
    /// Measure these in turn with EMP: raw (the bare links), tcp (spinning), tcp-block (sleeping); or none.
    #[arg(long, value_delimiter = ',', value_name = "SUBJECTS", default_value = "raw,tcp")]
    vs: Vec<String>,
    /// And EMP's faces, and an MPI over EMP and over TCP: libfabric, mx, vipl, vmmc, mpi, or all. EMP is measured as it chooses its links
    /// then, not over each.
    #[arg(long, value_delimiter = ',', value_name = "FACES")]
    faces: Vec<String>,
    /// Smallest message.
    #[arg(long, default_value = "1", value_name = "SIZE")]
    start: String,
    /// Largest message.
    #[arg(long, default_value = END_DEFAULT, value_name = "SIZE")]
    end: String,
    /// Bytes that each size is varied by, down and up; 0: not at all.
    #[arg(long, default_value_t = PERTURBATION_DEFAULT, value_name = "BYTES")]
    pert: usize,
    /// Seconds of a trial.
    #[arg(long, default_value_t = SECONDS_DEFAULT)]
    seconds: f64,
    /// Trials for each subject at each size.
    #[arg(long, default_value_t = TRIALS_DEFAULT)]
    trials: usize,
    /// Five trials of 3 ms, sizes not varied: under 10 seconds instead of a minute and a half.
    #[arg(long, conflicts_with_all = ["pert", "seconds", "trials"])]
    quick: bool,
    /// Write a page with curves, table and environment.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write one file a subject as NetPIPE does: np.emp-packet.out, np.tcp.out.
    #[arg(long, value_name = "DIRECTORY")]
    np_out: Option<PathBuf>,
    /// Columns of those files: those of NetPIPE 3.7 or of 5.
    #[arg(long, value_enum, default_value_t = Columns::Three, value_name = "VERSION")]
    np_format: Columns,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Point {
    fn of(session: &Session, size: Size, outcome: &Outcome) -> Self {
        Self {
            row: Row::of(session, &outcome.series),
            best_us: outcome.best_us,
            worst_us: outcome.worst_us,
            repeats: outcome.series.job.count,
            round: size.round,
        }
    }
}

/// Runs `emp bench netpipe`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let emp = args.emp.spec()?;
    let mut yardsticks = subjects::yardsticks(&args.vs)?;
    let by_name: Vec<String> = args.faces.iter().filter(|name| *name != MPI).cloned().collect();
    let faces = faces(&by_name)?;
    let sizes = args.sizes()?;
    let effort = args.effort()?;
    check_writable(args.json.iter().chain(&args.html))?;
    args.np_out.as_ref().map_or(Ok(()), |directory| check_directory(directory, "np.out"))?;
    if !args.faces.is_empty() {
        // Links apart are another page's.
        yardsticks.retain(|kind| *kind != SubjectKind::Raw);
        yardsticks.extend(faces);
    }
    let load = load();
    let mut run = args.place.with_peer(emp.needs_service(), |peer| {
        let open = |specs| args.place.open(peer, specs);
        let (specs, auto) = if args.faces.is_empty() {
            subjects::all(&emp, &yardsticks, open)?
        } else {
            let others = yardsticks.iter().map(|kind| emp.against(*kind));
            (std::iter::once(emp.clone()).chain(others).collect(), None)
        };
        let mut session = args.place.open(peer, specs)?;
        let results = measure(&mut session, &sizes, effort)?;
        let environment = Environment::of(session.place(), args.place.lab, load);
        let seconds = effort.trial.as_secs_f64();
        Ok(Run {
            environment,
            command: command_line(),
            auto,
            trials: effort.trials,
            seconds,
            results,
        })
    })?;
    let mut failure = None;
    if args.faces.iter().any(|name| name == MPI || name == "all") {
        match mpis(&sizes, effort, &run) {
            Ok(points) => run.results.extend(points),
            // What was measured before is not lost.
            Err(error) => failure = Some(error),
        }
    }
    let rows: Vec<Row> =
        run.results.iter().filter(|point| point.round).map(|point| point.row.clone()).collect();
    print(&table::pivot(&rows))?;
    print(&face_costs::added(&rows))?;
    print(&ratio::show(&ratio::all(&run.results)))?;
    note_conditions(load);
    args.write(&run)?;
    failure.map_or(Ok(()), Err)
}

/// What `--faces` calls an MPI over EMP and over TCP.
const MPI: &str = "mpi";

/// The steps of the schedule by an MPI. Without one, the page says what the others are.
fn mpis(sizes: &[Size], effort: Effort, run: &Run) -> anyhow::Result<Vec<Point>> {
    let steps = sizes.iter().filter(|size| size.round && size.bytes >= BYTES_MIN);
    let steps: Vec<usize> = steps.map(|size| size.bytes).collect();
    if steps.is_empty() {
        eprintln!("note: without an MPI: it is measured from {BYTES_MIN} bytes on");
        return Ok(Vec::new());
    }
    let (mpi, rows) = match pingpongs(&steps, effort.trial, effort.trials) {
        Ok(found) => found,
        Err(error) if error.is::<UserError>() => {
            eprintln!("note: without an MPI: {error}");
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    eprintln!("note: the MPI is {mpi}");
    let point = |row: MpiRow| {
        let [over_emp, over_tcp] = SubjectKind::MPIS;
        let us = row.one_way_us?;
        let row = Row {
            pattern: Pattern::Pingpong,
            subject: if row.transport == Transport::Emp { over_emp } else { over_tcp },
            link: None,
            mtu: run.environment.mtu,
            congestion: row.congestion,
            size: Some(row.size),
            one_way_us: Some(us),
            mean_us: row.mean_us,
            gbps: row.gbps,
            messages_per_s: row.messages_per_s,
            samples: row.samples,
            copies: None,
            pair: None,
        };
        // The program counts its round trips itself, and tells of their mean in each round.
        Some(Point { row, best_us: us, worst_us: us, repeats: 0, round: true })
    };
    Ok(rows.into_iter().filter_map(point).collect())
}

fn measure(session: &mut Session, sizes: &[Size], effort: Effort) -> anyhow::Result<Vec<Point>> {
    let progress = Progress::new(sizes.len() * session.specs().len() * effort.trials);
    let mut runners = Runners::start(session, sizes[0])?;
    let mut points = Vec::new();
    for &size in sizes {
        let text = format!("netpipe {}", sizes::show(size.bytes));
        let outcomes = runners.measure(session, size, effort, &mut || progress.step(&text))?;
        let here = outcomes.iter().map(|outcome| Point::of(session, size, outcome));
        let here: Vec<Point> = here.collect();
        if size.round {
            progress.line(&format!("{text}: {}", one_line(&here)));
        }
        points.extend(here);
    }
    Ok(points)
}

/// `EMP packet 1.21 µs, TCP spinning 2.70 µs`
fn one_line(points: &[Point]) -> String {
    let figures = points.iter().filter_map(|point| {
        Some(format!("{} {:.2} µs", table::subject(&point.row), point.row.one_way_us?))
    });
    figures.collect::<Vec<_>>().join(", ")
}

impl Args {
    fn sizes(&self) -> anyhow::Result<Vec<Size>> {
        let one = |name: &str, text: &str| match sizes::parse(text).as_deref() {
            Ok(&[size]) => Ok(size),
            _ => bail_user!("--{name} `{text}` is not one size; write for example 1, 64K or 8M"),
        };
        let (start, end) = (one("start", &self.start)?, one("end", &self.end)?);
        if start > end {
            bail_user!("sizes from {} to {} run backwards", self.start, self.end);
        }
        Ok(schedule(start, end, if self.quick { 0 } else { self.pert }))
    }

    fn effort(&self) -> anyhow::Result<Effort> {
        if self.quick {
            return Ok(QUICK);
        }
        check_seconds(self.seconds)?;
        if !(1..=TRIALS_MAX).contains(&self.trials) {
            bail_user!("{} trials are not possible; choose 1 to {TRIALS_MAX}", self.trials);
        }
        Ok(Effort { trial: Duration::from_secs_f64(self.seconds), trials: self.trials })
    }

    fn write(&self, run: &Run) -> anyhow::Result<()> {
        if let Some(path) = &self.json {
            write_json(path, run)?;
        }
        if let Some(directory) = &self.np_out {
            for path in np_out::write(directory, self.np_format, &run.results)? {
                print(&format!("np.out: {}\n", path.display()))?;
            }
        }
        if let Some(path) = &self.html {
            fs::write(path, html::page(run))
                .with_context(|| format!("writing {}", path.display()))?;
            print(&format!("report: {}\n", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::fixtures::point;

    #[test]
    fn json_rows_are_those_of_the_other_patterns_and_more() {
        let value = serde_json::to_value(point(SubjectKind::Emp, 64, 1.5)).unwrap();
        for key in ["subject", "link", "size", "one_way_us", "gbps", "best_us", "repeats"] {
            assert!(!value[key].is_null(), "{key}: {value}");
        }
        let back: Point = serde_json::from_value(value).unwrap();
        assert_eq!(back, point(SubjectKind::Emp, 64, 1.5));
    }
}
