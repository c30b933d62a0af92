//! A host's process: does what its first line orders, and answers the lines that follow.

use std::io::{BufRead, Write, stdin, stdout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::Serialize;

use super::order::{Answer, Command, Order, Report, Role, SubjectName};
use super::{emp_flows, tcp_flows};
use crate::bench::control::Card;

/// Bytes of the small ping-pong's messages.
pub const SMALL_BYTES: usize = 64;

/// Round trips that are kept between two marks: more than the quickest does in the longest time that is measured.
const ROUND_TRIPS_MAX: usize = 4_000_000;

/// What the threads of a host share.
#[derive(Default)]
pub struct Board {
    /// Payload received from each sender.
    bytes: Vec<AtomicU64>,
    round_trips: Mutex<Vec<Duration>>,
    started: Mutex<bool>,
    start: Condvar,
    /// Something has failed: the first reason has been told.
    failed: AtomicBool,
}

impl Board {
    fn new(senders: usize) -> Arc<Self> {
        let bytes = (0..senders).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { bytes, ..Self::default() })
    }

    /// So many bytes came from a sender.
    pub fn received(&self, sender: usize, bytes: usize) {
        self.bytes[sender].fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// A round trip took so long.
    pub fn round_trip(&self, took: Duration) {
        let mut kept = self.round_trips.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < ROUND_TRIPS_MAX {
            kept.push(took);
        }
    }

    /// Waits until it is said to begin.
    pub fn wait_for_start(&self) {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.start.wait_while(started, |started| !*started));
    }

    fn begin(&self) {
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.start.notify_all();
    }

    /// Does work on a thread of its own; if that fails, the host says so.
    pub fn spawn(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) -> anyhow::Result<()> + Send + 'static,
    ) {
        let board = Arc::clone(self);
        thread::spawn(move || {
            if let Err(problem) = work(&board)
                && !board.failed.swap(true, Ordering::SeqCst)
            {
                // Whoever gave the order may be gone.
                let _ = say(&Answer::Failed(format!("{problem:#}")));
            }
        });
    }

    fn report(&self, since: Instant) -> Report {
        let mut kept = self.round_trips.lock().unwrap_or_else(PoisonError::into_inner);
        let mut round_trips_us: Vec<f64> =
            std::mem::take(&mut *kept).iter().map(|took| took.as_secs_f64() * 1e6).collect();
        round_trips_us.sort_by(f64::total_cmp);
        Report {
            seconds: since.elapsed().as_secs_f64(),
            bytes: self.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect(),
            round_trips_us,
        }
    }
}

/// Runs the hidden subcommand.
pub fn run() -> anyhow::Result<()> {
    let mut lines = stdin().lock().lines();
    let Some(first) = lines.next() else { bail!("no order came") };
    let order: Order = serde_json::from_str(&first?).context("an order")?;
    let senders = match order.role {
        Role::Receiver { senders } => senders,
        Role::Sender { .. } | Role::Prober { .. } => 0,
    };
    let board = Board::new(senders);
    let opened = open(&order, &board);
    let card = match opened {
        Ok(card) => card,
        Err(problem) => return say(&Answer::Failed(format!("{problem:#}"))),
    };
    let since = Instant::now();
    say(&Answer::Ready(card))?;
    for line in lines {
        match serde_json::from_str(&line?).context("a command")? {
            Command::Start => board.begin(),
            Command::Mark => say(&Answer::Marked(board.report(since)))?,
        }
    }
    Ok(())
}

/// Opens this host's part, or both parts where EMP and TCP share the port.
fn open(order: &Order, board: &Arc<Board>) -> anyhow::Result<Card> {
    let is_emp = match (&order.role, order.subject) {
        (Role::Receiver { .. }, SubjectName::EmpBesideCubic) => {
            let (emp, tcp) = (emp_flows::open(order, board)?, tcp_flows::open(order, board)?);
            return Ok(Card { tcp_port: tcp.tcp_port, ..emp });
        }
        (Role::Sender { number, .. }, subject) => subject.is_emp(*number),
        // As the first sender.
        (Role::Receiver { .. } | Role::Prober { .. }, subject) => subject.is_emp(0),
    };
    if is_emp { emp_flows::open(order, board) } else { tcp_flows::open(order, board) }
}

/// One line, whole.
fn say(answer: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let mut out = stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}
