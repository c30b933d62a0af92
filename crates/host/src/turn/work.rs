//! What a node's threads do besides looking for something to do: counted if somebody asks for it.

use std::sync::Arc;
use std::thread::ThreadId;
use std::time::Duration;

use emp_firmware::Time;
use emp_rings::{Worked, cpu_nanoseconds};

use crate::turn::core::Core;

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
    fn turned(&mut self, worked: bool) {
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

impl Core {
    /// One turn: everything that can be done now, in the order of a message's way. True if anything was.
    #[inline]
    pub(crate) fn turn(&mut self, now: Time) -> bool {
        let posted = self.posts_since_turn != 0;
        let done = self.make_turn(now);
        if let Some(work) = &mut self.work {
            work.turned(done || posted);
        }
        done
    }

    /// Counts from now on what the threads work.
    pub(crate) fn count_work(&mut self) {
        let other = self.other_worked.clone();
        other.iter().for_each(|other| other.count());
        if let Some(halved) = &self.halved {
            halved.second.waits().count();
        }
        self.work = Some(Box::new(Work { engine: Worked::default(), last: None, other }));
    }

    /// What they have worked since then.
    pub(crate) fn worked(&self) -> WorkTime {
        let Some(work) = &self.work else { return WorkTime::default() };
        let waited = self.halved.as_ref().map_or(Duration::ZERO, |one| one.second.waits().time());
        WorkTime {
            engine: work.engine.time().saturating_sub(waited),
            other: work.other.as_ref().map_or(Duration::ZERO, |other| other.time()),
        }
    }
}
