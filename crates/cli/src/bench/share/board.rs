//! What the threads of a host share, and how they say that they failed.

use std::io::{Write, stdout};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;

use super::order::{Answer, Report};

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
    /// For a host that hears of so many senders.
    pub fn new(senders: usize) -> Arc<Self> {
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

    /// Says it.
    pub fn begin(&self) {
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

    /// What came since, and the round trips.
    pub fn report(&self, since: Instant) -> Report {
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

/// One line, whole.
pub fn say(answer: &impl Serialize) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(answer)?;
    line.push(b'\n');
    let mut out = stdout().lock();
    out.write_all(&line)?;
    Ok(out.flush()?)
}
