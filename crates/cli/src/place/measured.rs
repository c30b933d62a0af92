//! What the boards that run a scheme do on this machine: both ends here, over datagrams on loopback, each on a core of its own where there are
//! two, and each thread of a board on two where there are four.

use std::env;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use emp_host::stay_on_cpu;

use crate::bench::{
    Effort, LinkChoice, Named, Session, Spec, Work, apart, measure_sizes, usable_cpus,
};
use crate::measured::Pattern;
use crate::progress::Progress;

use super::lengths::{LARGE, MTU, SMALL};

/// Schemes of which there is a board, and its name.
const BOARDS: [(&str, &str); 7] = [
    ("base", "inline"),
    ("io", "split:io"),
    ("SO", "split:SO"),
    ("RO", "split:RO"),
    ("DSR", "split:DSR"),
    ("SR", "split:SR"),
    (DYNAMIC, "split:dynamic"),
];

/// The scheme that is no table: either processor takes what comes next.
pub const DYNAMIC: &str = "dynamic";

/// Time for each board at each pattern, in slices of which the median counts.
const EFFORT: Effort = Effort { slice: Duration::from_millis(25), runs: 11 };

/// What was measured of a scheme, in the units of what is predicted.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Measured {
    /// Microseconds of a small message.
    pub one_way_us: f64,
    /// Gb/s of long messages one way.
    pub one_way_gbps: f64,
    /// Gb/s both ways together.
    pub both_ways_gbps: f64,
}

/// The other end, a process of its own.
struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Listener {
    /// Starts it, on this CPU if one is given. Its address as well.
    fn start(cpu: Option<usize>) -> anyhow::Result<(Self, String)> {
        let program = env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command.args(["bench", "listen", "--quiet", "--bind", "127.0.0.1", "--port", "0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // The child inherits where the thread is that starts it.
        let child = std::thread::scope(|scope| {
            let start =
                scope.spawn(|| cpu.map_or(Ok(()), stay_on_cpu).and_then(|()| command.spawn()));
            start.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        let mut listener = Self(child.context("starting the other end")?);
        let mut greeting = String::new();
        if let Some(output) = listener.0.stdout.take() {
            BufReader::new(output).read_line(&mut greeting)?;
        }
        match greeting.trim().rsplit_once(' ') {
            Some((_, address)) => Ok((listener, address.to_owned())),
            None => bail!("the other end did not start"),
        }
    }
}

/// Measures those of these schemes of which there is a board; in their order.
pub fn measure(schemes: &[&str]) -> anyhow::Result<Vec<Option<Measured>>> {
    let cpus = usable_cpus();
    let pair = cpus.first().copied().zip(cpus.get(1).copied());
    let (_listener, address) = Listener::start(pair.map(|(_, second)| second))?;
    let known = |scheme: &&str| BOARDS.iter().find(|(name, _)| name == scheme);
    let boards: Vec<_> = schemes.iter().filter_map(known).collect();
    let spec = |(_, board): &&(&str, &str)| Spec {
        board: (*board).to_owned(),
        cpus: apart(board, &cpus),
        // Where threads share cores, those that spin take them from those that work.
        wait: Some("adaptive".to_owned()),
        ..Spec::emp(LinkChoice::Udp)
    };
    let specs: Vec<Spec> = boards.iter().map(spec).collect();
    let figures = std::thread::scope(|scope| {
        let work = scope.spawn(|| {
            pair.map_or(Ok(()), |(first, _)| stay_on_cpu(first))?;
            figures(&address, specs)
        });
        work.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let of = |scheme: &&str| {
        let at = boards.iter().position(|(name, _)| name == scheme)?;
        figures.get(at).copied()
    };
    Ok(schemes.iter().map(of).collect())
}

fn figures(peer: &str, specs: Vec<Spec>) -> anyhow::Result<Vec<Measured>> {
    let subjects: Vec<usize> = (0..specs.len()).collect();
    let mut figures = vec![Measured::default(); specs.len()];
    if specs.is_empty() {
        return Ok(figures);
    }
    let mut session = Session::open(peer, specs, &Named::default(), Some(MTU))?;
    let jobs = [(Pattern::Pingpong, SMALL), (Pattern::Stream, LARGE), (Pattern::Bidir, LARGE)];
    let progress = Progress::new(jobs.len() * subjects.len() * EFFORT.runs);
    for (pattern, size) in jobs {
        let work = Work { subjects: &subjects, pattern, window: None, effort: EFFORT };
        let rows = measure_sizes(&mut session, &work, &[size], &progress)?;
        for (figures, row) in figures.iter_mut().zip(rows) {
            match pattern {
                Pattern::Pingpong => figures.one_way_us = row.one_way_us.unwrap_or_default(),
                Pattern::Stream => figures.one_way_gbps = row.gbps.unwrap_or_default(),
                _ => figures.both_ways_gbps = row.gbps.unwrap_or_default(),
            }
        }
    }
    Ok(figures)
}
