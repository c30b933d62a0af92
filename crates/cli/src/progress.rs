//! Signs of life while measuring, on standard error: a bar on a terminal, a line per step elsewhere.

use std::io::{IsTerminal, stderr};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How far a long piece of work has come.
pub struct Progress {
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Work of so many steps.
    pub fn new(steps: usize) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(steps as u64);
            let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {wide_msg}");
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        Self { bar }
    }

    /// A step is done. No thread draws the bar: it would take part of a core that is being measured.
    pub fn step(&self, what: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(what.to_owned());
            bar.inc(1);
        }
    }

    /// Does work that takes a known time, drawing how much of it has passed. Not for work whose speed is measured: the
    /// thread that draws needs a core now and then.
    pub fn during<T>(text: &str, seconds: f64, work: impl FnOnce() -> T) -> T {
        let progress = Self::new((seconds * 10.0) as usize);
        progress.line(text);
        let Some(bar) = progress.bar.clone() else { return work() };
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                let start = Instant::now();
                while !done.load(Ordering::Relaxed) {
                    bar.set_position((start.elapsed().as_secs_f64() * 10.0) as u64);
                    thread::sleep(Duration::from_millis(100));
                }
            });
            let result = catch_unwind(AssertUnwindSafe(work));
            done.store(true, Ordering::Relaxed);
            result.unwrap_or_else(|panic| resume_unwind(panic))
        })
    }

    /// Writes something else without tearing the bar.
    pub fn suspend(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Something worth a line where there is no bar.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.set_message(text.to_owned()),
            None => eprintln!("{text}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
