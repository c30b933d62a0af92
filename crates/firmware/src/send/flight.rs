//! What is under way to a peer, by path.

use super::doubt::Doubt;
use super::record::Load;
use crate::limits::PATHS_MAX;
use crate::path::PathId;
use crate::path::recovery::Recovery;
use crate::time::Time;

/// What is under way by one path: frames of one do not show what became of those of the other (`PATH-4`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flight {
    /// Bytes in flight.
    pub(super) in_flight: u32,
    /// Found lost, and not sent again yet.
    pub(super) lost: u32,
    /// Frames found lost since the peer was last idle.
    pub(super) lost_so_far: u32,
    /// Transmissions so far.
    pub(super) order: u32,
    /// What that was when the peer was last idle.
    pub(super) began: u32,
    /// What was lost of them.
    pub(super) recovery: Recovery,
    /// Timer runs since the last progress.
    pub(super) backoff: u32,
    /// Last time something of it was acknowledged, transmission began, or its timer ran.
    pub(super) progress_at: Time,
    /// Whether it is asked after.
    pub(super) doubt: Doubt,
    /// When the last frame left.
    pub(super) left_at: Time,
    /// Last time something of it was acknowledged.
    pub(super) delivered_at: Time,
    /// Long frames that were lost lately, against those that arrived ([`long`](super::long)).
    pub(super) strikes: u32,
}

impl Flight {
    /// Its timer runs.
    pub(super) const fn is_waiting(&self) -> bool {
        self.in_flight > 0 || self.lost > 0
    }
}

/// What paths of a peer have carried before it was last idle, to be shown: each transmission, and those that were found lost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Carried {
    pub(super) sent: [u32; PATHS_MAX],
    pub(super) lost: [u32; PATHS_MAX],
}

impl Carried {
    /// With what was carried since.
    pub(super) fn with(mut self, since: &Flights) -> Self {
        for (at, flight) in since.each.iter().enumerate() {
            let sent = flight.order.wrapping_sub(flight.began);
            self.sent[at] = self.sent[at].wrapping_add(sent);
            self.lost[at] = self.lost[at].wrapping_add(flight.lost_so_far);
        }
        self
    }

    /// Lost by all of them.
    pub(super) fn all_lost(&self) -> u32 {
        self.lost.iter().fold(0, |all, lost| all.wrapping_add(*lost))
    }
}

/// What is under way by all paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Flights {
    pub(super) each: [Flight; PATHS_MAX],
    /// Of all together, bytes in flight, and one for each lost frame: most often that is all that is asked for.
    pub(super) waiting: u32,
    pub(super) lost: u32,
    /// Another path than the first was used.
    pub(super) further: bool,
}

impl Flights {
    /// Makes them as of a peer to which nothing was sent yet. Transmissions are counted on from `order`.
    pub(super) fn restart(&mut self, order: u32, now: Time) {
        let used = if self.further { PATHS_MAX } else { 1 };
        for flight in &mut self.each[..used] {
            *flight = Flight {
                order,
                began: order,
                recovery: Recovery::at(order),
                progress_at: now,
                ..Flight::default()
            };
        }
        (self.waiting, self.lost, self.further) = (0, 0, false);
    }

    #[inline]
    pub(super) const fn of(&self, path: PathId) -> &Flight {
        &self.each[path.index()]
    }

    /// To be changed, but for what is under way and lost.
    #[inline]
    pub(super) const fn of_mut(&mut self, path: PathId) -> &mut Flight {
        &mut self.each[path.index()]
    }

    /// Paths that were used since nothing was under way.
    #[inline]
    pub(super) fn used(&self) -> impl Iterator<Item = PathId> + use<> {
        PathId::all().take(if self.further { PATHS_MAX } else { 1 })
    }

    /// Not all that was carried since the peer was last idle is what the pair has sent: something was lost, or went by another path than the first.
    pub(super) fn are_to_be_counted(&self) -> bool {
        self.further || self.each.iter().any(|flight| flight.lost_so_far > 0)
    }

    pub(super) fn each_mut(&mut self) -> impl Iterator<Item = &mut Flight> {
        self.each.iter_mut()
    }

    /// Bytes in flight by all paths.
    #[inline]
    pub(super) const fn in_flight(&self) -> u32 {
        self.waiting - self.lost
    }

    /// A frame leaves.
    #[inline]
    pub(super) fn departs(&mut self, path: PathId, load: Load) {
        self.each[path.index()].in_flight += u32::from(load.bytes);
        self.waiting += u32::from(load.bytes);
        self.further |= path != PathId::FIRST;
    }

    /// One that was in flight has arrived.
    #[inline]
    pub(super) fn arrives(&mut self, path: PathId, load: Load) {
        self.each[path.index()].in_flight -= u32::from(load.bytes);
        self.waiting -= u32::from(load.bytes);
    }

    /// One that was in flight is found lost.
    pub(super) fn loses(&mut self, path: PathId, load: Load) {
        self.arrives(path, load);
        let flight = &mut self.each[path.index()];
        (flight.lost, flight.lost_so_far) = (flight.lost + 1, flight.lost_so_far.wrapping_add(1));
        (self.waiting, self.lost) = (self.waiting + 1, self.lost + 1);
    }

    /// One that was found lost has arrived, or is sent again.
    pub(super) fn finds(&mut self, path: PathId) {
        self.each[path.index()].lost -= 1;
        (self.waiting, self.lost) = (self.waiting - 1, self.lost - 1);
    }
}
