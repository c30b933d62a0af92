//! What a node's threads do besides looking for something to do: counted if somebody asks for it.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use emp_rings::{Worked, cpu_nanoseconds};

/// CPU time that a node's threads have worked ([`Node::worked`](crate::Node::worked)).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WorkTime {
    /// Of whoever makes the engine's turns, from the end of one to the end of the next if that or a post between them did anything. What the
    /// program does between its calls is part of it; waiting for the other thread is not.
    pub engine: Duration,
    /// Of the board's other thread, if it has one.
    pub other: Duration,
}

/// Counts of a node's threads.
pub(crate) struct Work {
    engine: Worked,
    /// Who made the last turn, and the CPU time that it had at its end.
    last: Option<(ThreadId, u64)>,
    other: Option<Arc<Worked>>,
}

impl Work {
    /// Counts from now on, also what the board's other thread works.
    pub(crate) fn new(other: Option<Arc<Worked>>) -> Self {
        other.iter().for_each(|other| other.count());
        Self { engine: Worked::default(), last: None, other }
    }

    /// Since then, where so long was waited for the other thread.
    pub(crate) fn time(&self, waited: Duration) -> WorkTime {
        WorkTime {
            engine: self.engine.time().saturating_sub(waited),
            other: self.other.as_ref().map_or(Duration::ZERO, |other| other.time()),
        }
    }

    /// A turn is over, in which anything was done or not.
    pub(crate) fn turned(&mut self, worked: bool) {
        let (thread, now) = (std::thread::current().id(), cpu_nanoseconds());
        if let Some((before, since)) = self.last
            && worked
            && before == thread
        {
            self.engine.add(now.saturating_sub(since));
        }
        self.last = Some((thread, now));
    }
}
