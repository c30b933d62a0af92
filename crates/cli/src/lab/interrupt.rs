//! Labs that must be gone when this process is: removed on SIGINT, SIGTERM and SIGHUP too.
//!
//! A thread waits for the signals. It undoes every guarded lab and then lets the signal end the
//! process as it would have. SIGKILL cannot be seen; the lab's record then names a dead owner and
//! whoever makes the next lab, or `emp lab down --stale`, removes it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::state::State;
use super::{carrier, inhabitants, make};
use crate::process::{self, ProcessId};

/// The labs to undo. Held during each step of making or removing one, so that the signal's thread
/// never works on the same lab at the same time.
static GUARDED: Mutex<Vec<State>> = Mutex::new(Vec::new());

/// A signal came: nobody starts anything any more.
static STOPPING: AtomicBool = AtomicBool::new(false);

static WATCHING: OnceLock<()> = OnceLock::new();

/// What else has to be ended before labs are undone, told the signal.
static BEFORE_END: Mutex<Vec<Work>> = Mutex::new(Vec::new());

/// Something to do, told the signal.
type Work = Box<dyn Fn(i32) + Send>;

/// Has something done when a signal ends this process, before its labs are undone.
pub fn before_end(work: impl Fn(i32) + Send + 'static) -> anyhow::Result<()> {
    watch()?;
    BEFORE_END.lock().unwrap_or_else(PoisonError::into_inner).push(Box::new(work));
    Ok(())
}

/// Does something that a signal must not cut in two, unless one is about to end this process: then never.
pub fn undivided<T>(work: impl FnOnce() -> T) -> T {
    let _guarded = lock();
    work()
}

/// A lab under guard, until it is released or dropped.
pub struct Guard {
    /// A copy, complete once the lab is made.
    state: State,
}

impl Guard {
    /// Makes the lab under guard. If that fails, what was made is undone.
    pub fn make(state: State) -> anyhow::Result<Self> {
        watch()?;
        {
            let mut guarded = lock();
            state.create()?;
            guarded.push(state.clone());
        }
        // From here on, returning early drops the guard, which undoes what is there.
        let mut guard = Self { state };
        make::check_free(&guard.state)?;
        for step in make::steps(&guard.state.plan) {
            let mut guarded = lock();
            let entry = guarded.iter_mut().find(|entry| entry.name == guard.state.name);
            let entry = entry.context("a lab was removed while it was being made")?;
            make::perform(entry, step)?;
            guard.state.clone_from(entry);
        }
        // Not under the lock: an interrupt need not wait for it.
        carrier::wait(&guard.state)?;
        Ok(guard)
    }

    /// The lab's record.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Writes down a process that serves the lab, so that it ends with it.
    pub fn note_servant(&mut self, process: ProcessId) -> anyhow::Result<()> {
        let mut guarded = lock();
        let entry = guarded.iter_mut().find(|entry| entry.name == self.state.name);
        let entry = entry.context("a lab was removed while it was being made")?;
        entry.servants.push(process);
        self.state.clone_from(entry);
        entry.save()
    }

    /// Lets the lab live on after this process.
    pub fn release(self) {
        lock().retain(|state| state.name != self.state.name);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut guarded = lock();
        let Some(index) = guarded.iter().position(|state| state.name == self.state.name) else {
            return;
        };
        let state = guarded.swap_remove(index);
        end_services(&state);
        if let Err(error) = make::undo(&state) {
            eprintln!("emp: {error:#}; `emp lab down --stale` tries again");
        }
    }
}

/// Ends what was started on the hosts of a lab that was to stay. Of one that belongs to a process it ends by itself.
fn end_services(state: &State) {
    if state.owner.is_none() {
        inhabitants::end(state);
    }
}

/// The list, or, once a signal came, never: the process is about to end and waits here for it.
fn lock() -> MutexGuard<'static, Vec<State>> {
    let guarded = GUARDED.lock().unwrap_or_else(PoisonError::into_inner);
    if STOPPING.load(Ordering::SeqCst) {
        drop(guarded);
        loop {
            thread::park();
        }
    }
    guarded
}

/// Starts the thread that waits for signals, once in the life of the process.
fn watch() -> anyhow::Result<()> {
    if WATCHING.set(()).is_err() {
        return Ok(());
    }
    let ignored = process::own_mask("SigIgn").unwrap_or(0);
    // What whoever started us chose to ignore (`nohup`) stays ignored.
    let wanted = [SIGINT, SIGTERM, SIGHUP];
    let wanted = wanted.into_iter().filter(|signal| ignored & (1 << (signal - 1)) == 0);
    let mut signals = Signals::new(wanted).context("watching for signals")?;
    thread::Builder::new().name("emp-signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            STOPPING.store(true, Ordering::SeqCst);
            let guarded = GUARDED.lock().unwrap_or_else(PoisonError::into_inner);
            for work in BEFORE_END.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                work(signal);
            }
            for state in guarded.iter() {
                end_services(state);
                let _ = make::undo(state);
            }
            // Ends the process while we hold the list: nobody makes anything in between.
            let _ = emulate_default_handler(signal);
        }
    })?;
    Ok(())
}
