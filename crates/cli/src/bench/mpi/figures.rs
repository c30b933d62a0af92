//! What is measured, and the figures made of it.

use std::fs;
use std::path::Path;

use anyhow::Context;

use super::super::stats;
use crate::measured::Verdict;
pub use crate::measured::{MpiResults as Results, MpiRow as Row};
use crate::mpi::{Mpi, Transport};
use crate::sizes;

/// Every transport, EMP first.
pub const ALL: [Transport; 4] = [Transport::Emp, Transport::Tcp, Transport::Rxm, Transport::Ucx];

/// A pattern at a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Job {
    pub pattern: &'static str,
    /// Bytes.
    pub size: usize,
}

const fn job(pattern: &'static str, size: usize) -> Job {
    Job { pattern, size }
}

/// Messages and what is made of them.
pub const JOBS_MESSAGES: &[Job] = &[
    job("pingpong", 8),
    job("pingpong", 64),
    job("pingpong", 1 << 10),
    job("pingpong", 8 << 10),
    job("pingpong", 16 << 10),
    job("pingpong", 32 << 10),
    job("pingpong", 64 << 10),
    job("pingpong", 256 << 10),
    job("pingpong", 1 << 20),
    job("stream", 8 << 10),
    job("stream", 64 << 10),
    job("stream", 1 << 20),
    job("rate", 8),
    job("allreduce", 8),
    job("allreduce", 1 << 10),
    job("allreduce", 64 << 10),
    job("allreduce", 1 << 20),
    job("allreduce", 4 << 20),
];

/// One-sided operations, which not every MPI has over every transport.
pub const JOBS_ONE_SIDED: &[Job] = &[
    job("put", 8),
    job("put", 64 << 10),
    job("put", 1 << 20),
    job("get", 8),
    job("get", 64 << 10),
    job("get", 1 << 20),
];

/// Bytes of a ping-pong's message, and how much of the best TCP's time EMP's may be at most: what is aimed at since 22 November 2026.
const BARS: [(usize, f64); 4] = [(8, 0.5), (8 << 10, 0.9), (64 << 10, 0.7), (1 << 20, 1.1)];

/// Where the ping-pong is by that; what was not measured is left out.
pub fn bars(rows: &[Row]) -> Vec<Verdict> {
    let bar = |&(size, limit): &(usize, f64)| {
        let here = || rows.iter().filter(|row| row.pattern == "pingpong" && row.size == size);
        // The best other is the one that EMP's time is the largest part of.
        let ratio = |row: &&Row| row.emp_to_this.unwrap_or(0.0);
        let best = here().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
        let value = best.emp_to_this?;
        let emp = here().find(|row| row.transport == Transport::Emp)?.one_way_us?;
        let steered = best.congestion.as_deref().map(|word| format!(" {word}")).unwrap_or_default();
        Some(Verdict {
            name: format!("ping-pong, {} B, EMP's time to best", sizes::show(size)),
            value: Some(value),
            limit: format!("≤ {limit}"),
            pass: Some(value <= limit),
            figures: format!(
                "EMP {emp:.2} µs, {}{steered} {:.2} µs",
                best.subject, best.one_way_us?
            ),
        })
    };
    BARS.iter().filter_map(bar).collect()
}

/// One timing.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    transport: Transport,
    congestion: Option<String>,
    pattern: String,
    size: usize,
    /// Seconds of one message or operation; of a ping-pong, one way.
    each: f64,
}

impl Sample {
    /// Reads what the program printed; other lines are the MPI's own.
    pub fn read(transport: Transport, congestion: Option<&str>, printed: &str) -> Vec<Self> {
        let all = printed.lines().filter_map(|line| Self::parse(transport, line));
        all.map(|sample| Self { congestion: congestion.map(str::to_owned), ..sample }).collect()
    }

    fn parse(transport: Transport, line: &str) -> Option<Self> {
        let mut words = line.trim().strip_prefix("emp-mpi ")?.split(' ');
        let pattern = words.next()?.to_owned();
        let size = words.next()?.parse().ok()?;
        let count: f64 = words.next()?.parse().ok()?;
        let seconds: f64 = words.next()?.parse().ok()?;
        let ways = if pattern == "pingpong" { 2.0 } else { 1.0 };
        let each = seconds / count / ways;
        (each.is_finite() && each > 0.0).then_some(Self {
            transport,
            congestion: None,
            pattern,
            size,
            each,
        })
    }
}

impl Results {
    /// Writes the file.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }
}

/// A transport's times at a size, under whichever congestion control their median is least, and which that is.
fn fastest(samples: &[Sample], job: &Job, transport: Transport) -> (Option<String>, Vec<f64>) {
    let mut series: Vec<(Option<String>, Vec<f64>)> = Vec::new();
    let here = samples.iter().filter(|sample| {
        (sample.pattern.as_str(), sample.size, sample.transport)
            == (job.pattern, job.size, transport)
    });
    for sample in here {
        match series.iter_mut().find(|(congestion, _)| *congestion == sample.congestion) {
            Some((_, times)) => times.push(sample.each),
            None => series.push((sample.congestion.clone(), vec![sample.each])),
        }
    }
    let median = |times: &[f64]| stats::median(times).unwrap_or(f64::INFINITY);
    series.into_iter().min_by(|a, b| median(&a.1).total_cmp(&median(&b.1))).unwrap_or_default()
}

/// Medians of all samples, in the order of patterns and sizes; of TCP the faster ones.
pub fn rows(mpi: &Mpi, jobs: &[Job], samples: &[Sample]) -> Vec<Row> {
    let mut rows = Vec::new();
    for job in jobs {
        let (_, emp) = fastest(samples, job, Transport::Emp);
        for transport in ALL {
            let (congestion, own) = fastest(samples, job, transport);
            let Some(each) = stats::median(&own) else { continue };
            let streams = matches!(job.pattern, "stream" | "rate");
            rows.push(Row {
                pattern: job.pattern.to_owned(),
                transport,
                congestion,
                subject: transport.name(mpi).to_owned(),
                size: job.size,
                one_way_us: (!streams).then_some(each * 1e6),
                mean_us: stats::mean(&own).filter(|_| !streams).map(|mean| mean * 1e6),
                gbps: Some(job.size as f64 * 8e-9 / each),
                messages_per_s: Some(1.0 / each),
                samples: own.len(),
                emp_to_this: if transport == Transport::Emp {
                    None
                } else {
                    stats::paired_ratio(&emp, &own)
                },
            });
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpi::Family;

    fn mpi() -> Mpi {
        Mpi {
            family: Family::OpenMpi,
            version: "4.1.4".to_owned(),
            launcher: "/usr/bin/mpirun".into(),
            compiler: None,
            libfabric: None,
            module: None,
            ucx: false,
            parameter_file: None,
        }
    }

    #[test]
    fn what_the_program_prints_is_read_and_other_lines_are_not() {
        let printed = "warning: something\nemp-mpi pingpong 8 1000 0.004\nemp-mpi stream 8192 10 0.001\nemp-mpi rate 8 0 1\n";
        let samples = Sample::read(Transport::Emp, None, printed);
        assert_eq!(samples.len(), 2);
        assert!((samples[0].each - 2e-6).abs() < 1e-12, "{samples:?}");
        assert!((samples[1].each - 1e-4).abs() < 1e-12, "{samples:?}");
    }

    #[test]
    fn tcp_counts_under_the_congestion_control_that_is_faster_at_the_size() {
        let read = |congestion, size: usize, seconds: f64| {
            let line = format!("emp-mpi pingpong {size} 1 {seconds}\n");
            Sample::read(Transport::Tcp, Some(congestion), &line)
        };
        let all = [
            read("cubic", 8, 4e-6),
            read("bbr", 8, 3e-6),
            read("cubic", 1 << 20, 1e-4),
            read("bbr", 1 << 20, 4e-4),
            read("cubic", 8, 4e-6),
        ];
        let rows = rows(&mpi(), &[JOBS_MESSAGES, JOBS_ONE_SIDED].concat(), &all.concat());
        let told: Vec<_> = rows
            .iter()
            .map(|row| (row.size, row.congestion.as_deref().unwrap(), row.samples))
            .collect();
        assert_eq!(told, [(8, "bbr", 1), (1 << 20, "cubic", 1)]);
    }

    #[test]
    fn ratios_are_of_the_same_round() {
        let read = |transport, seconds: [f64; 3]| -> Vec<Sample> {
            let lines = seconds.map(|seconds| format!("emp-mpi pingpong 8 1 {seconds}\n"));
            Sample::read(transport, None, &lines.concat())
        };
        let mut all = read(Transport::Emp, [2e-6, 20e-6, 4e-6]);
        all.extend(read(Transport::Tcp, [4e-6, 40e-6, 8e-6]));
        let rows = rows(&mpi(), &[JOBS_MESSAGES, JOBS_ONE_SIDED].concat(), &all);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].emp_to_this, rows[1].emp_to_this), (None, Some(0.5)));
        assert_eq!((rows[0].subject.as_str(), rows[1].subject.as_str()), ("EMP", "btl/tcp"));
        assert!((rows[0].one_way_us.unwrap() - 2.0).abs() < 1e-9);
        let bar = |rows: &[Row]| {
            let told = bars(rows);
            assert_eq!(told.len(), 1, "only what was measured");
            (told[0].value, told[0].pass, told[0].figures.clone())
        };
        let figures = "EMP 2.00 µs, btl/tcp 4.00 µs".to_owned();
        assert_eq!(bar(&rows), (Some(0.5), Some(true), figures));
        // Of several the best counts.
        let mut more = rows.clone();
        more.push(Row { subject: "ucx".into(), emp_to_this: Some(0.8), ..rows[1].clone() });
        assert_eq!((bar(&more).0, bar(&more).1), (Some(0.8), Some(false)));
        assert_eq!(bars(&rows[..1]), [], "with nothing to compare there is no verdict");
        assert!((rows[0].mean_us.unwrap() - 26.0 / 6.0).abs() < 1e-9);
        assert_eq!(rows[0].samples, 3);
    }
}
