//! What stands between a node's links and its firmware: a thread that makes their calls (board `split:io`), and a capture.

use std::sync::Arc;
use std::time::Duration;

use emp_link::{CaptureFile, Link, LinkError, LinkThread, LinkWork, ThreadedLink};

use crate::choices::WaitMode;
use crate::links::capture;
use crate::machine::{processors, signals};

/// How long the thread looks before it sleeps, where nobody says otherwise: as long as callers do at least, so that it does not sleep
/// between the frames of those.
const LOOK_FOR: Duration = Duration::from_micros(100);

/// What each link of a node is put behind.
#[derive(Default)]
pub(crate) struct Apart {
    pub(crate) capture: Option<CaptureFile>,
    pub(crate) thread: Option<Arc<LinkThread>>,
}

impl Apart {
    /// A link as the firmware's side has it.
    ///
    /// # Errors
    ///
    /// There is no descriptor left for what wakes who waits.
    pub(crate) fn of(&self, link: Box<dyn Link>) -> Result<Box<dyn Link>, LinkError> {
        let link: Box<dyn Link> = match &self.thread {
            Some(thread) => Box::new(ThreadedLink::new(link, thread)?),
            None => link,
        };
        Ok(match &self.capture {
            Some(file) => capture::of(link, file),
            None => link,
        })
    }
}

/// How long a second thread with nothing to do looks before it sleeps. `None`: for ever.
pub(crate) const fn look_for(wait: WaitMode) -> Option<Duration> {
    match wait {
        WaitMode::Spin => None,
        WaitMode::Adaptive => Some(LOOK_FOR),
        WaitMode::Sleep => Some(Duration::ZERO),
    }
}

/// Starts the thread that makes links' calls, on this CPU if one is given.
///
/// # Errors
///
/// The system refuses a thread, or the CPU.
pub(crate) fn thread(wait: WaitMode, cpu: Option<usize>) -> std::io::Result<Arc<LinkThread>> {
    LinkThread::start(look_for(wait), |work: LinkWork| {
        // Here first: a thread inherits it, and who asked is told.
        let moved = cpu.map(processors::Visit::to).transpose()?;
        let thread = std::thread::Builder::new().name("emp-links".into());
        let started = signals::blocked(|| thread.spawn(move || work.run()));
        drop(moved);
        started
    })
}
