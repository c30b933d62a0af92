//! `emp bench pingpong|stream|bidir|rate|put|get|atomic`: sizes one after the other, subjects in turn, a table.

use super::args::{MeasureArgs, command_line};
use super::environment::{Environment, load, note_conditions};
use super::job::{Measure, Pattern, Spec};
use super::measure::{Effort, Series, alternate, window_for};
use super::results::{Results, Row};
use super::session::Session;
use crate::error::print;
use crate::output::check_writable;
use crate::progress::Progress;
use crate::report::{face_costs, plot, table};
use crate::sizes;

/// Runs a pattern and reports.
pub fn run(pattern: Pattern, args: &MeasureArgs) -> anyhow::Result<()> {
    let specs = args.specs(pattern)?;
    let sizes = args.sizes(pattern)?;
    let effort = args.effort()?;
    let load = load();
    check_writable(args.json.iter().chain(&args.svg))?;
    let results = args.place.with_session(specs, |session| {
        let subjects: Vec<usize> = (0..session.specs().len()).collect();
        let progress = Progress::new(sizes.len() * subjects.len() * effort.runs);
        // One at a time shows how long an operation takes.
        let window = args.window.or(pattern.one_sided().then_some(1));
        let work = Work { subjects: &subjects, pattern, window, effort };
        let rows = measure_sizes(session, &work, &sizes, &progress)?;
        let environment = Environment::of(session.place(), args.place.lab, load);
        Ok(Results { environment, command: command_line(), results: rows, bars: Vec::new() })
    })?;
    print(&table::rows(&results.results))?;
    print(&face_costs::added(&results.results))?;
    note_copies(&results.results);
    note_conditions(load);
    if let Some(path) = &args.json {
        results.write(path)?;
    }
    if let Some(path) = &args.svg {
        let title = format!("EMP {}, MTU {}", pattern.name(), results.environment.mtu);
        plot::write(path, &title, &results.results)?;
    }
    Ok(())
}

/// Says how often large messages were copied in user space.
fn note_copies(rows: &[Row]) {
    /// Below, messages are copied to be out of the user's way, and nobody cares how often.
    const LARGE_BYTES: usize = 256 << 10;
    for row in rows.iter().filter(|row| row.size.is_some_and(|size| size >= LARGE_BYTES)) {
        if let (Some(copies), Some(size)) = (row.copies, row.size) {
            let size = sizes::show(size);
            eprintln!("note: {size}: {copies:.2} user-space copies of each payload byte");
        }
    }
}

/// What to measure at each size.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// Which subjects of the session.
    pub subjects: &'a [usize],
    /// What they do.
    pub pattern: Pattern,
    /// Messages outstanding, if it is to be a certain number.
    pub window: Option<usize>,
    /// The time to spend.
    pub effort: Effort,
}

/// Measures subjects at several sizes.
pub fn measure_sizes(
    session: &mut Session,
    work: &Work<'_>,
    sizes: &[usize],
    progress: &Progress,
) -> anyhow::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &size in sizes {
        let job = (work.pattern, size, window_for(size, work.window));
        let names: Vec<String> = session.specs().iter().map(Spec::describe).collect();
        let mut tick = |series: &Series| {
            progress.step(&format!(
                "{} {} {}",
                work.pattern.name(),
                sizes::show(size),
                names[series.subject]
            ));
        };
        let all = alternate(session, work.subjects, job, work.effort, &mut tick)?;
        progress.line(&one_line(work.pattern, size, &names, &all));
        rows.extend(all.iter().map(|series| Row::of(session, series)));
    }
    Ok(rows)
}

/// `pingpong 32: emp 1.21 µs, tcp 2.70 µs`
fn one_line(pattern: Pattern, size: usize, names: &[String], all: &[Series]) -> String {
    let figures: Vec<String> = all
        .iter()
        .map(|series| {
            let name = &names[series.subject];
            let figure = match pattern {
                Pattern::Pingpong => series.one_way_us().map(|us| format!("{us:.2} µs")),
                Pattern::Put | Pattern::Get | Pattern::Atomic if series.job.window == 1 => {
                    series.one_way_us().map(|us| format!("{us:.2} µs one way"))
                }
                Pattern::Rate | Pattern::Atomic => {
                    series.median(Measure::messages_per_s).map(|rate| format!("{rate:.0} msg/s"))
                }
                _ => series.median(Measure::gbps).map(|gbps| format!("{gbps:.2} Gb/s")),
            };
            format!("{name} {}", figure.unwrap_or_else(|| "-".to_owned()))
        })
        .collect();
    format!("{} {}: {}", pattern.name(), sizes::show(size), figures.join(", "))
}
