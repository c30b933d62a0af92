//! When a link that stands still is to be set going again, and how often to look.

use std::time::{Duration, Instant};

use crate::namespace::Namespace;

/// A send ring that is full and from which nothing leaves for so long is stuck. Far longer than any
/// driver takes for a ring of 512 chunks (at 10 Mb/s, 0.6 s would be the ring's whole length).
const STUCK_AFTER: Duration = Duration::from_millis(1000);
/// After an error that will not go away by itself soon, frames are offered again so often.
const RETRY_EVERY: Duration = Duration::from_millis(10);
/// How often to look whether the program is still attached.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What is known of the link's health.
#[derive(Debug)]
pub(super) struct Watch {
    home: Option<Namespace>,
    looked: Instant,
    /// Last time that the interface was seen to be down.
    dead: Option<Instant>,
    /// Since when the ring is full and nothing has left.
    full_since: Option<Instant>,
    /// Since when the kernel has frames that it does not look at.
    kicked: Option<Instant>,
    rearmed: u64,
}

impl Watch {
    pub(super) fn new(home: Option<Namespace>) -> Self {
        let looked = Instant::now();
        Self { home, looked, dead: None, full_since: None, kicked: None, rearmed: 0 }
    }

    /// Frames have left.
    pub(super) fn moved(&mut self) {
        (self.dead, self.full_since, self.kicked) = (None, None, None);
    }

    /// The interface is down, or gone.
    pub(super) fn dead(&mut self, now: Instant) {
        self.dead = Some(now);
    }

    /// Whether frames that the kernel does not look at are worth a call now. Counts each series of
    /// such calls as one stall.
    pub(super) fn may_kick(&mut self, now: Instant) -> bool {
        let last = self.dead.max(self.kicked);
        if last.is_some_and(|last| now.saturating_duration_since(last) < RETRY_EVERY) {
            return false;
        }
        if self.kicked.is_none() && self.dead.is_none() {
            self.rearmed += 1;
        }
        self.kicked = Some(now);
        true
    }

    /// Told that a full ring has no room: whether to give frames up.
    pub(super) fn is_stuck(&mut self, now: Instant) -> bool {
        let since = *self.full_since.get_or_insert(now);
        self.dead.is_some() || now.saturating_duration_since(since) >= STUCK_AFTER
    }

    /// Whether it is time to look at what changes seldom.
    pub(super) fn is_time_to_look(&mut self, now: Instant) -> bool {
        let due = now.saturating_duration_since(self.looked) >= LOOK_EVERY;
        if due {
            self.looked = now;
        }
        due
    }

    /// Whether the calling thread is in the namespace that the link was opened in.
    pub(super) fn is_at_home(&self) -> bool {
        Namespace::is_here(self.home)
    }

    /// The program was attached anew.
    pub(super) fn count_rearmed(&mut self) {
        self.rearmed += 1;
    }

    pub(super) fn rearmed(&self) -> u64 {
        self.rearmed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_counted_once_and_retried_at_leisure() {
        let mut watch = Watch::new(None);
        let start = Instant::now();
        assert!(watch.may_kick(start));
        assert!(!watch.may_kick(start + RETRY_EVERY / 2));
        assert!(watch.may_kick(start + RETRY_EVERY));
        assert_eq!(watch.rearmed(), 1);
        watch.moved();
        assert!(watch.may_kick(start + RETRY_EVERY));
        assert_eq!(watch.rearmed(), 2);
    }

    #[test]
    fn a_full_ring_is_given_up_in_time() {
        let mut watch = Watch::new(None);
        let start = Instant::now();
        assert!(!watch.is_stuck(start));
        assert!(!watch.is_stuck(start + STUCK_AFTER / 2));
        assert!(watch.is_stuck(start + STUCK_AFTER));
        watch.moved();
        assert!(!watch.is_stuck(start + STUCK_AFTER));
        watch.dead(start);
        assert!(watch.is_stuck(start), "no one waits for a cable");
    }

    #[test]
    fn seldom_means_seldom() {
        let mut watch = Watch::new(None);
        let later = Instant::now() + LOOK_EVERY;
        assert!(watch.is_time_to_look(later));
        assert!(!watch.is_time_to_look(later + LOOK_EVERY / 2));
    }
}
