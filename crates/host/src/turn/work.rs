//! Turns, and what the threads that make them work.

use std::time::Duration;

use emp_firmware::Time;

use crate::told::work::{Work, WorkTime};
use crate::turn::core::Core;

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
        if let Some(halved) = &self.halved {
            halved.second.waits().count();
        }
        self.work = Some(Box::new(Work::new(self.other_worked.clone())));
    }

    /// What they have worked since then.
    pub(crate) fn worked(&self) -> WorkTime {
        let Some(work) = &self.work else { return WorkTime::default() };
        let waited = self.halved.as_ref().map_or(Duration::ZERO, |one| one.second.waits().time());
        work.time(waited)
    }
}
