//! Times in which this node did not run although something was due: its process was stopped or starved, or the machine
//! stood still. What it did not hear meanwhile is no peer's silence (`RESEND-5`).

use emp_wire::{Flags, Header};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::pair::milliseconds;
use crate::profile::Profile;
use crate::time::{Span, Time};

/// A turn this late shows that the node did not run. Longer than a time slice of an ordinary kernel, so that a node that
/// shares its processor is not held to be away all the time; far shorter than any patience, so that what is not excused does not count.
const ABSENCE_MIN: Span = Span::ms(10);

/// Bytes behind the header of the shortest frames whose payload a link may refer to instead of copying it.
pub const REFERRED_BYTES_MIN: u16 = 16 << 10;

impl Firmware {
    /// To be called first with each event that comes in.
    #[inline]
    pub(crate) fn notice_absence(&mut self, now: Time) {
        let before = core::mem::replace(&mut self.ran_at, now);
        let absent = now.since(before);
        if absent >= ABSENCE_MIN {
            self.excuse_peers(before, now);
            // Half, as clocks differ a little; and its peers may be less patient than this node.
            let patience = self.profile.unreachable_after.min(Profile::DEFAULT.unreachable_after);
            self.distrusts |= absent.0 >= patience.0 / 2;
        }
    }

    /// A frame that may have waited for so long that its sender has given up, and uses the memory for something else: the kernel may have
    /// read its payload out of that only now, and no checksum would tell (`CRC-5`). Shorter ones are always copied when they leave.
    #[inline]
    pub(crate) fn is_stale(&self, header: &Header) -> bool {
        self.distrusts
            && header.flags.has(Flags::PAYLOAD_UNCHECKED)
            && header.length >= REFERRED_BYTES_MIN
    }

    /// Moves the beginnings of all silences on by the time in which nobody looked. What was not due does not count as
    /// absence: an idle node has nothing to look at. Each late turn still counts from the last one to when it was
    /// due, so a peer that has ended is given up after a bounded number of turns, however late they come.
    #[cold]
    fn excuse_peers(&mut self, before: Time, now: Time) {
        let due = [self.send.next_deadline(), self.routes.searches.next_deadline(), self.watch_at];
        let Some(due) = due.into_iter().flatten().min() else { return };
        let absent = now.since(due.max(before));
        if absent < ABSENCE_MIN {
            return;
        }
        self.counters.count(Counter::Absences);
        self.send.excuse(now, absent);
        self.routes.searches.excuse(now, absent);
        self.carriers.excuse(now, absent);
        let absent_ms = milliseconds(Time(absent.0));
        let later = later_by(now, absent_ms);
        for (peer, since_ms) in &mut self.watched {
            *since_ms = later(*since_ms);
            // Who is watched for longer than its patience is judged by when it was last heard, and that alone.
            let heard_ms = self.peers[*peer].heard_ms.get_mut();
            *heard_ms = later(*heard_ms);
        }
        self.receive.excuse(absent_ms);
    }

    /// One peer could not be heard for so long.
    pub(crate) fn excuse_peer(&mut self, now: Time, peer: u32, deaf: Span) {
        self.send.excuse_peer(peer, now, deaf);
        // What was heard since counts from then on.
        let later = later_by(now, milliseconds(Time(deaf.0)));
        let heard_ms = self.peers[peer].heard_ms.get_mut();
        *heard_ms = later(*heard_ms);
        if let Ok(at) = self.watched.binary_search_by_key(&peer, |(watched, _)| *watched) {
            self.watched[at].1 = later(self.watched[at].1);
        }
    }
}

/// Puts off a time, in milliseconds (wrapping), by so many, but never beyond now: one in the future would be taken for one of weeks ago.
fn later_by(now: Time, by_ms: u32) -> impl Fn(u32) -> u32 {
    let now_ms = milliseconds(now);
    move |ms| now_ms.wrapping_sub(now_ms.wrapping_sub(ms).saturating_sub(by_ms))
}
