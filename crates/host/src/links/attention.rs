//! How often a socket beside rings is looked at: looking is a system call, and nothing may come by it for long (decisions 16, 37).

use emp_firmware::{Span, Time};
use emp_link::Capabilities;

use crate::links::costs::BULK_LOOK_EVERY;
use crate::links::set::is_ring;

/// How often at least while frames come and go by the others: each of them puts the next look off, since a look in a pause costs
/// nothing. A long train that comes while small messages come without a pause waits half of it on average, which is half of what it
/// takes itself; the small ones have 2 % of a core less instead of 6.
const BULK_LOOK_AT_LEAST_EVERY: Span = Span::us(16);

/// How long after a frame by the bulk link every look goes there too: several round trips of long messages.
const BULK_BUSY: Span = Span::us(200);

/// Links that are looked at more seldom than the others, a bit each: sockets beside rings. `None`: there are none.
pub(crate) fn seldom(links: &[Capabilities]) -> Option<u64> {
    let rings = links.iter().any(|link| is_ring(link) || link.kind == "shm");
    let sockets = links.iter().zip(0..).filter(|(link, _)| link.kind == "udp");
    let bits = sockets.fold(0, |bits, (_, index)| bits | 1u64 << index);
    (rings && bits != 0).then_some(bits)
}

/// Links that are not looked at in each turn, because looking is a system call and nothing may come by them for long.
pub(crate) struct Seldom {
    /// A bit each.
    pub(crate) links: u64,
    /// What was found at this time holds for all of them.
    decided: (Time, bool),
    /// When it is looked at again, when at the latest however much comes and goes by the others, and until when each time.
    look_at: Time,
    look_by: Time,
    busy_until: Time,
}

impl Seldom {
    pub(crate) fn new(links: u64) -> Self {
        let start = Time::default();
        Self { links, decided: (start, true), look_at: start, look_by: start, busy_until: start }
    }

    /// It is one of them.
    #[inline]
    pub(crate) const fn has(&self, link: usize) -> bool {
        self.links >> link & 1 == 1
    }

    /// True if it is time to look.
    #[inline]
    pub(crate) fn looks(&mut self, now: Time) -> bool {
        if self.decided.0 != now {
            self.decided = (now, self.decide(now));
        }
        self.decided.1
    }

    #[inline]
    fn decide(&mut self, now: Time) -> bool {
        if now < self.look_at {
            return false;
        }
        (self.look_at, self.look_by) = if now < self.busy_until {
            (now, now)
        } else {
            (now + BULK_LOOK_EVERY, now + BULK_LOOK_AT_LEAST_EVERY)
        };
        true
    }

    /// Frames have come by a link.
    #[inline]
    pub(crate) fn heard(&mut self, link: usize, now: Time) {
        self.sent(self.has(link), now);
    }

    /// Frames have come or gone, some by this link if `by_it`: more may come soon.
    #[inline]
    pub(crate) fn sent(&mut self, by_it: bool, now: Time) {
        if by_it {
            (self.look_at, self.look_by, self.busy_until) = (now, now, now + BULK_BUSY);
        } else {
            self.look_at = (now + BULK_LOOK_EVERY).min(self.look_by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_beside_rings_is_looked_at_in_pauses_and_now_and_then() {
        // Looks within 160 µs, while something comes by the other link so often.
        let looks = |every: u64, seldom: &mut Seldom| {
            let start = 1_000 * BULK_BUSY.0;
            let times = (start..start + 160_000).step_by(100).map(Time);
            let look = |now: &Time| {
                if every != 0 && now.0.is_multiple_of(every) {
                    seldom.sent(false, *now);
                }
                seldom.looks(*now)
            };
            times.filter(look).count()
        };
        assert_eq!(looks(0, &mut Seldom::new(2)), 40);
        assert_eq!(looks(1_000, &mut Seldom::new(2)), 10);
        // Every 8 µs: there are pauses.
        assert!((20..=30).contains(&looks(8_000, &mut Seldom::new(2))));
        let mut busy = Seldom::new(2);
        busy.heard(1, Time(1_000 * BULK_BUSY.0));
        assert_eq!(looks(1_000, &mut busy), 1_600);
    }
}
