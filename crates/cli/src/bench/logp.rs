//! `emp bench logp`: the LogP parameters of EMP and TCP, after Culler, Liu, Martin and Yoshikawa (IEEE Micro 1996).
//!
//! Requests are sent back to back, with or without computing after each, and answered by the other end. How far apart they
//! can be sent shows the parameters: a few at a time, the send overhead; many at a time, the gap; one at a time with more
//! computing than an answer takes, both overheads. What is left of half a round trip is the latency.

use std::path::PathBuf;
use std::time::Duration;

use super::args::{command_line, effort};
use super::calls::{Play, Script, Tally};
use super::congestion;
use super::emp_args::EmpArgs;
use super::environment::{Environment, load, note_conditions};
use super::job::SubjectKind;
use super::measure::Effort;
use super::results::{Run, write_json};
use super::session::Session;
use super::stats;
use super::where_args::WhereArgs;
use crate::bail_user;
use crate::error::print;
use crate::measured::LogpRow as Row;
use crate::output::check_writable;
use crate::progress::Progress;
use crate::report::calls_table;
use crate::sizes;

/// Requests sent one right after the other for the send overhead: few enough for the window of a new peer and for TCP's
/// smallest buffer.
const BURST: usize = 8;

/// Requests under way for the gap: enough that neither end ever waits for a round trip.
const UNDER_WAY: usize = 64;

/// Largest message: beyond it a request is no longer one frame, and the parameters say little.
const SIZE_MAX: usize = 64 << 10;

/// Computing after a request, in round trips: the answer is certainly there when it ends.
const ROUND_TRIPS: f64 = 4.0;

/// Computing after a request at most, in seconds. Beyond about a millisecond of silence EMP's guardian would do what is to be
/// measured; and a round trip that looks longer than a part of this was held up by other programs.
const WORK_MAX: f64 = 400e-6;

/// Requests of the first try, which warms up and estimates a round trip.
const FIRST_TRY: u64 = 200;

/// Requests of a slice at least.
const COUNT_MIN: u64 = 20;

/// Measure the LogP parameters of EMP and TCP: overheads of sending and receiving, gap, latency.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    #[command(flatten)]
    place: WhereArgs,
    #[command(flatten)]
    emp: EmpArgs,
    /// Leave out TCP.
    #[arg(long)]
    no_tcp: bool,
    /// Message sizes, such as 8,64,1K.
    #[arg(long, default_value = "8")]
    sizes: String,
    /// Seconds for each subject at each size.
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Slices that those seconds are cut into; figures are medians over slices.
    #[arg(long, default_value_t = 51)]
    runs: usize,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Runs `emp bench logp`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let emp = args.emp.spec()?;
    let sizes = sizes::parse(&args.sizes)?;
    if let Some(size) = sizes.iter().find(|size| **size > SIZE_MAX) {
        bail_user!(
            "messages of {} are too long for LogP; choose at most {}",
            sizes::show(*size),
            sizes::show(SIZE_MAX)
        );
    }
    // Each slice is of four scripts.
    let effort = effort(args.seconds / 4.0, args.runs)?;
    check_writable(&args.json)?;
    let mut specs = vec![emp.clone()];
    if !args.no_tcp {
        specs.push(emp.against(SubjectKind::Tcp));
    }
    let load = load();
    let run = args.place.with_session(specs, |session| {
        let progress = Progress::new(sizes.len() * session.specs().len() * effort.runs);
        let mut results = Vec::new();
        for &size in &sizes {
            results.extend(measure(session, size, effort, &progress)?);
        }
        let environment = Environment::of(session.place(), args.place.lab, load);
        Ok(Run { environment, command: command_line(), results })
    })?;
    print(&calls_table::logp(&run.results))?;
    note_conditions(load);
    args.json.as_ref().map_or(Ok(()), |path| write_json(path, &run))
}

/// What to play for each parameter.
struct Scripts {
    round_trip: Script,
    bursts: Script,
    flood: Script,
    spaced: Script,
}

/// One slice of each script, in seconds for a message.
#[derive(Clone, Copy)]
struct Sample {
    round_trip: f64,
    send: f64,
    gap: f64,
    receive: f64,
}

fn measure(
    session: &mut Session,
    size: usize,
    effort: Effort,
    progress: &Progress,
) -> anyhow::Result<Vec<Row>> {
    let subjects = session.specs().len();
    let mut scripts = Vec::with_capacity(subjects);
    for subject in 0..subjects {
        let first = one_by_one(size, FIRST_TRY);
        let tally = session.play(subject, first)?;
        scripts.push(Scripts::of(size, each(&tally, &first), effort.slice));
    }
    let mut samples = vec![Vec::with_capacity(effort.runs); subjects];
    for run in 0..effort.runs {
        for turn in 0..subjects {
            // Forth and back, so that none always follows the same other.
            let subject = if run % 2 == 0 { turn } else { subjects - 1 - turn };
            samples[subject].push(scripts[subject].play(session, subject)?);
            progress.step(&format!(
                "logp {} {}",
                sizes::show(size),
                session.specs()[subject].describe()
            ));
        }
    }
    let rows = (0..subjects).map(|subject| row(session, subject, size, &samples[subject]));
    let speed = |row: &Row| Some(1.0 / row.half_round_trip_us);
    Ok(congestion::fastest(rows.collect(), |row| row.subject, speed))
}

fn one_by_one(size: usize, count: u64) -> Script {
    Script { play: Play::Requests, size, count, batch: 1, work_ns: 0 }
}

/// Seconds for a request.
fn each(tally: &Tally, script: &Script) -> f64 {
    tally.elapsed.as_secs_f64() / script.count as f64
}

impl Scripts {
    fn of(size: usize, round_trip: f64, slice: Duration) -> Self {
        let fill = |seconds: f64| {
            ((slice.as_secs_f64() / seconds.max(1e-9)).round() as u64).max(COUNT_MIN)
        };
        let alone = one_by_one(size, fill(round_trip));
        let work = (round_trip * ROUND_TRIPS).min(WORK_MAX);
        Self {
            round_trip: alone,
            bursts: Script {
                play: Play::Bursts,
                batch: BURST,
                count: fill(2.0 * round_trip),
                ..alone
            },
            // Faster than one by one, by how much is not known: so it lasts as long at most.
            flood: Script { batch: UNDER_WAY, count: alone.count.max(UNDER_WAY as u64), ..alone },
            spaced: Script {
                work_ns: (work * 1e9) as u64,
                count: fill(2.0 * (work + round_trip)),
                ..alone
            },
        }
    }

    fn play(&self, session: &mut Session, subject: usize) -> anyhow::Result<Sample> {
        let round_trip = each(&session.play(subject, self.round_trip)?, &self.round_trip);
        let send = each(&session.play(subject, self.bursts)?, &self.bursts) / BURST as f64;
        let gap = each(&session.play(subject, self.flood)?, &self.flood);
        let spaced = session.play(subject, self.spaced)?;
        let work = spaced.work.as_secs_f64() / self.spaced.count as f64;
        let receive = each(&spaced, &self.spaced) - work - send;
        Ok(Sample { round_trip, send, gap, receive })
    }
}

fn row(session: &Session, subject: usize, size: usize, samples: &[Sample]) -> Row {
    let spec = &session.specs()[subject];
    let links = &session.cards()[subject].links;
    let emp = spec.kind == SubjectKind::Emp;
    let median = |figure: fn(&Sample) -> f64| {
        let seconds: Vec<f64> = samples.iter().map(figure).collect();
        stats::median(&seconds).unwrap_or(f64::NAN) * 1e6
    };
    let (half, send, receive) =
        (median(|s| s.round_trip) / 2.0, median(|s| s.send), median(|s| s.receive));
    Row {
        subject: spec.kind,
        link: (!links.is_empty()).then(|| links.join("+")),
        board: emp.then(|| spec.board.clone()),
        congestion: session.congestion(subject),
        size,
        half_round_trip_us: half,
        latency_us: half - send - receive,
        receive_overhead_us: receive,
        send_overhead_us: send,
        gap_us: median(|s| s.gap),
        samples: samples.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_fill_their_slices() {
        let scripts = Scripts::of(8, 5e-6, Duration::from_millis(10));
        assert_eq!(scripts.round_trip.count, 2000);
        assert_eq!(scripts.spaced.work_ns, 20_000);
        assert_eq!(scripts.spaced.count, 200);
        assert_eq!((scripts.bursts.batch, scripts.flood.batch), (BURST, UNDER_WAY));
        let slow = Scripts::of(8, 1.0, Duration::from_millis(10));
        assert_eq!(slow.spaced.work_ns, 400_000);
        assert_eq!((slow.round_trip.count, slow.flood.count), (COUNT_MIN, UNDER_WAY as u64));
    }
}
