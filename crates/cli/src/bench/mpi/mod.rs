//! `emp bench mpi`: an MPI over EMP and, in turn, over what it has for TCP.
//!
//! A program of ours, written against MPI alone, is compiled with the MPI's own compiler and run on two hosts of a lab:
//! once for each transport, round after round, so that whatever else the machine does meets them all alike. What EMP's
//! provider adds to the host API is measured beside it ([`provider`]). Transports of TCP run under each congestion control, which
//! the lab's routes choose for them, and the faster one counts at each size.

mod compiled;
mod figures;
mod provider_cost;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;

use self::figures::{ALL, JOBS_MESSAGES, JOBS_ONE_SIDED, Job, Sample, bars, rows};
use super::args::{check_seconds, command_line};
use super::congestion;
use super::environment::{Environment, load, note_conditions};
use super::pair::MTU_DEFAULT;
use crate::bail_user;
use crate::error::print;
use crate::lab::{Capture, Launch, capture_each};
use crate::mpi::{self, Family, Settings, Transport};
use crate::output::check_writable;
use crate::progress::Progress;
use crate::report::{mpi as page, plot};

use self::figures::{Results, Row};

/// Seconds that a launch may take besides measuring: on a busy machine the ranks take their time to start.
const START: f64 = 60.0;

/// How much longer than asked a measurement may take: it is tried out with more and more messages first.
const SLACK: f64 = 20.0;

/// Options of `emp bench mpi`.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// Which MPI [default: the first that is found and can take EMP].
    #[arg(long, value_enum)]
    mpi: Option<Family>,
    /// Both hosts here, in a lab: the one that is up, else one made for this run. Always so.
    #[arg(long)]
    lab: bool,
    /// Transports to compare [default: all that the MPI has].
    #[arg(long, value_enum, value_delimiter = ',')]
    over: Vec<Transport>,
    /// Only patterns whose name begins with this: pingpong, stream, rate, allreduce, put, get.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
    /// Seconds for each transport at each size.
    #[arg(long, default_value_t = 0.35)]
    seconds: f64,
    /// Rounds that those seconds are cut into; figures are medians over rounds.
    #[arg(long, default_value_t = 7)]
    runs: usize,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the ping-pong's throughput and signature curves to a file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// One program run: a transport and jobs that stand or fall together.
struct Unit {
    transport: Transport,
    /// What steers TCP meanwhile; `None`: as the hosts have it.
    congestion: Option<String>,
    settings: Settings,
    jobs: Vec<Job>,
    /// It failed, and is left out from then on.
    failed: bool,
}

/// Runs `emp bench mpi`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    check_seconds(args.seconds)?;
    if !(1..=1000).contains(&args.runs) {
        bail_user!("{} runs are not possible; choose 1 to 1000", args.runs);
    }
    check_writable(args.json.iter().chain(&args.svg))?;
    let mpi = mpi::choose(args.mpi)?;
    let mut units = units(&mpi, args)?;
    let program = compiled::compile(&mpi)?;
    let load = load();
    let progress = Progress::new(units.len() * args.runs + 1);
    let slice = args.seconds / args.runs as f64;
    let samples = measure(&mpi, &program, &mut units, (slice, args.runs), &progress)?;
    let provider = if args.tells_of_the_provider() {
        progress.step("libfabric and the host API");
        provider_cost::measure()?
    } else {
        None
    };
    drop(progress);
    let rows = rows(&mpi, &[JOBS_MESSAGES, JOBS_ONE_SIDED].concat(), &samples);
    let results = Results {
        environment: Environment::of_lab(MTU_DEFAULT, load),
        command: command_line(),
        mpi: mpi.name(),
        bars: bars(&rows),
        results: rows,
        provider,
    };
    print(&page::table(&results))?;
    note_conditions(load);
    if let Some(path) = &args.json {
        results.write(path)?;
    }
    if let Some(path) = &args.svg {
        plot::write_curves(path, &page::title(&results), page::curves(&results))?;
    }
    Ok(())
}

/// Runs the units in turn, `runs` times, each measurement `slice` seconds long.
fn measure(
    mpi: &mpi::Mpi,
    program: &compiled::Program,
    units: &mut [Unit],
    (slice, runs): (f64, usize),
    progress: &Progress,
) -> anyhow::Result<Vec<Sample>> {
    let limit = |unit: &Unit| START + SLACK * slice.max(0.05) * unit.jobs.len() as f64;
    let longest = units.iter().map(limit).fold(START, f64::max);
    let mut samples: Vec<Sample> = Vec::new();
    let mut turns = turns(units.len(), runs).into_iter();
    let mut running: Option<usize> = None;
    capture_each(mpi, Duration::from_secs_f64(longest), |ended| {
        if let (Some(capture), Some(at)) = (ended, running) {
            take_in(&mut units[at], mpi, &capture, &mut samples)?;
        }
        running = turns.find(|at| !units[*at].failed);
        let Some(at) = running else { return Ok(None) };
        progress.step(&format!("{} over {}", mpi.name(), units[at].transport.name(mpi)));
        let words = units[at].jobs.iter().map(|job| format!("{}:{}", job.pattern, job.size).into());
        let head = [program.path().into(), format!("{slice:.6}").into()];
        Ok(Some(Launch {
            settings: units[at].settings.clone(),
            program: head.into_iter().chain(words).collect(),
            congestion: units[at].congestion.clone(),
        }))
    })?;
    Ok(samples)
}

/// The shortest messages that the program measures, in bytes: they carry a number.
pub const BYTES_MIN: usize = 4;

/// Ping-pongs of an MPI at these sizes, over EMP and over what it has for TCP; with its name. For those who compare them with
/// something else.
pub fn pingpongs(
    sizes: &[usize],
    slice: Duration,
    runs: usize,
) -> anyhow::Result<(String, Vec<Row>)> {
    let mpi = mpi::choose(None)?;
    let provider = mpi::provider_directory()?;
    let jobs: Vec<Job> =
        sizes.iter().map(|size| Job { pattern: "pingpong", size: *size }).collect();
    let mut units = Vec::new();
    for transport in [Transport::Emp, Transport::Tcp].into_iter().filter(|one| one.is_there(&mpi)) {
        units.extend(units_of(&mpi, transport, &provider, &jobs));
    }
    let program = compiled::compile(&mpi)?;
    let progress = Progress::new(units.len() * runs);
    let samples = measure(&mpi, &program, &mut units, (slice.as_secs_f64(), runs), &progress)?;
    Ok((mpi.name(), rows(&mpi, &jobs, &samples)))
}

/// The runs of one transport: all but EMP carry messages by TCP, under whichever congestion control it is faster.
fn units_of(
    mpi: &mpi::Mpi,
    transport: Transport,
    provider: &std::path::Path,
    jobs: &[Job],
) -> Vec<Unit> {
    let names = if transport == Transport::Emp { Vec::new() } else { congestion::available() };
    let each = names.iter().cloned().map(Some).chain(names.is_empty().then_some(None));
    let unit = |congestion| Unit {
        transport,
        congestion,
        settings: Settings::new(mpi, transport, provider),
        jobs: jobs.to_vec(),
        failed: false,
    };
    each.map(unit).collect()
}

impl Args {
    /// Whether EMP's ping-pong is measured, and with it what the provider has of its time.
    fn tells_of_the_provider(&self) -> bool {
        let pingpong = self.only.as_deref().is_none_or(|only| "pingpong".starts_with(only));
        pingpong && (self.over.is_empty() || self.over.contains(&Transport::Emp))
    }
}

fn units(mpi: &mpi::Mpi, args: &Args) -> anyhow::Result<Vec<Unit>> {
    let provider = mpi::provider_directory()?;
    if let Some(missing) = args.over.iter().find(|over| !over.is_there(mpi)) {
        bail_user!("{} has no {}", mpi.name(), missing.name(mpi));
    }
    let wanted =
        |over: &Transport| over.is_there(mpi) && (args.over.is_empty() || args.over.contains(over));
    let only = args.only.as_deref().unwrap_or_default();
    let names = congestion::available();
    if let Some(text) = congestion::missing(&names) {
        eprintln!("note: {text}");
    }
    let mut units = Vec::new();
    for transport in ALL.into_iter().filter(wanted) {
        for all in [JOBS_MESSAGES, JOBS_ONE_SIDED] {
            let jobs: Vec<Job> =
                all.iter().filter(|job| job.pattern.starts_with(only)).copied().collect();
            if !jobs.is_empty() {
                units.extend(units_of(mpi, transport, &provider, &jobs));
            }
        }
    }
    if units.is_empty() {
        bail_user!(
            "no pattern begins with `{only}`; there are pingpong, stream, rate, allreduce, put, get"
        );
    }
    Ok(units)
}

/// The order of program runs: forth and back, so that none always follows the same other.
fn turns(units: usize, rounds: usize) -> Vec<usize> {
    let round = |round: usize| -> Vec<usize> {
        if round.is_multiple_of(2) { (0..units).collect() } else { (0..units).rev().collect() }
    };
    (0..rounds).flat_map(round).collect()
}

/// Keeps what a run has measured. A transport of others that fails is left out with a word; EMP must not fail.
fn take_in(
    unit: &mut Unit,
    mpi: &mpi::Mpi,
    capture: &Capture,
    samples: &mut Vec<Sample>,
) -> anyhow::Result<()> {
    samples.extend(Sample::read(unit.transport, unit.congestion.as_deref(), &capture.printed));
    if capture.ended_well {
        return Ok(());
    }
    let said =
        capture.complained.lines().find(|line| !line.trim().is_empty() && !line.starts_with("---"));
    let said = said.unwrap_or("it did not end in time");
    let what = format!("{} over {}", mpi.name(), unit.transport.name(mpi));
    if unit.transport == Transport::Emp {
        bail!("{what}: {said}");
    }
    eprintln!("note: {what} is left out where it fails: {said}");
    unit.failed = true;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_has_its_turn_in_every_round() {
        assert_eq!(turns(3, 3), [0, 1, 2, 2, 1, 0, 0, 1, 2]);
        assert!(turns(3, 0).is_empty());
    }
}
