//! Clients beside those that are measured: idle ones, and one that sends as fast as it is let.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Clients beside the two that are measured.
pub(super) struct Others {
    /// Kept open.
    pub(super) _idle: Box<dyn std::any::Any>,
    pub(super) flood: Option<Flood>,
}

/// Until this is dropped.
pub(super) struct Flood {
    over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    /// Has a thread do this again and again, which returns what it has sent: 0 for now if there is no room, and `None` if nothing goes any more.
    pub(super) fn start(mut send: impl FnMut() -> Option<usize> + Send + 'static) -> Self {
        let (over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, count) = (Arc::clone(&over), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Relaxed) {
                match send() {
                    None => break,
                    // Its ring is full: whoever it shares a core with is to have it.
                    Some(0) => std::thread::yield_now(),
                    Some(taken) => drop(count.fetch_add(taken as u64, Ordering::Relaxed)),
                }
            }
        });
        Self { over, sent, thread: Some(thread) }
    }

    /// What it has sent so far.
    pub(super) fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
