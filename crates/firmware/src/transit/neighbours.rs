//! What a relay counts of each node from which frames come to it.

use alloc::vec::Vec;

use emp_wire::LinkAddress;

use crate::counters::Counter;
use crate::limits::{RELAY_NEIGHBOURS_MAX, RELAY_SEARCHES};
use crate::link::LinkIndex;
use crate::time::Time;
use crate::transit::Bucket;

/// Why a relay drops what comes to be sent on or repeated.
pub const RELAY_REASONS: [Counter; 12] = [
    Counter::DropRelayFull,
    Counter::DropHopCut,
    Counter::DropHopTooLong,
    Counter::DropHopStranger,
    Counter::DropHopSelf,
    Counter::DropHopList,
    Counter::DropRelayLink,
    Counter::DropRelayOff,
    Counter::DropSearchLimit,
    Counter::DropSearchFlood,
    Counter::DropSearchAgain,
    Counter::DropHello,
];

/// Frames from one neighbour that a relay passed on, or did not.
#[derive(Clone, Copy, Debug)]
pub struct RelayNeighbour {
    /// The link on which it is.
    pub link: LinkIndex,
    /// Its address there; [`LinkAddress::EVERYONE`]: all that found no place of their own.
    pub address: LinkAddress,
    /// Frames passed on, and their bytes.
    pub frames: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Searches repeated.
    pub searches: u64,
    /// Frames and searches of it that were dropped, by reason, in the order of [`RELAY_REASONS`].
    pub dropped_for: [u64; RELAY_REASONS.len()],
    bucket: Bucket,
}

impl RelayNeighbour {
    /// Frames and searches of it that were dropped, for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_for.iter().sum()
    }

    /// The same by reason, those for which any was.
    pub fn reasons(&self) -> impl Iterator<Item = (Counter, u64)> + '_ {
        let all = RELAY_REASONS.into_iter().zip(self.dropped_for);
        all.filter(|(_, count)| *count > 0)
    }
}

/// All of them: the first so many that came, and one for all others.
#[derive(Default)]
pub(crate) struct Neighbours {
    known: Vec<RelayNeighbour>,
    /// The one that the last frame came from: most come from there.
    last: usize,
}

impl Neighbours {
    pub(crate) fn all(&self) -> &[RelayNeighbour] {
        &self.known
    }

    /// The one in a place.
    pub(crate) fn at(&mut self, place: u8) -> Option<&mut RelayNeighbour> {
        self.known.get_mut(usize::from(place))
    }

    /// The one that the last frame came from, and its place.
    pub(crate) fn of(
        &mut self,
        link: LinkIndex,
        address: &LinkAddress,
    ) -> (u8, &mut RelayNeighbour) {
        let is = |known: &RelayNeighbour| known.link == link && known.address == *address;
        if !self.known.get(self.last).is_some_and(is) {
            let full = self.known.len() >= RELAY_NEIGHBOURS_MAX;
            self.last = self.known.iter().position(is).unwrap_or(self.known.len());
            if self.last == self.known.len() && full {
                // The last place is everybody else's.
                self.last -= 1;
            } else if self.last == self.known.len() {
                let others = self.known.len() == RELAY_NEIGHBOURS_MAX - 1;
                let address = if others { LinkAddress::EVERYONE } else { *address };
                self.known.push(RelayNeighbour {
                    link,
                    address,
                    frames: 0,
                    bytes: 0,
                    searches: 0,
                    dropped_for: [0; RELAY_REASONS.len()],
                    bucket: Bucket::new(RELAY_SEARCHES.0, RELAY_SEARCHES.1),
                });
            }
        }
        (self.last as u8, &mut self.known[self.last])
    }
}

impl RelayNeighbour {
    /// A frame or search of it was dropped.
    pub(crate) fn drops(&mut self, reason: Counter) {
        let at = RELAY_REASONS.iter().position(|known| *known == reason);
        self.dropped_for[at.unwrap_or(RELAY_REASONS.len() - 1)] += 1;
    }

    /// Another search of it may be repeated now.
    pub(crate) fn may_search(&mut self, now: Time) -> bool {
        self.bucket.take(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_counted_apart_as_far_as_there_is_room() {
        let mut neighbours = Neighbours::default();
        let link = LinkIndex(0);
        for round in 0..3_u32 {
            for index in 0..2 * RELAY_NEIGHBOURS_MAX as u32 {
                neighbours.of(link, &LinkAddress::index(index)).1.frames +=
                    u64::from(index + round);
            }
        }
        let all = neighbours.all();
        assert_eq!(all.len(), RELAY_NEIGHBOURS_MAX);
        let (others, known) = all.split_last().expect("some");
        assert!((0_u64..).zip(known).all(|(index, known)| known.frames == 3 * index + 3));
        let rest: u64 = (known.len() as u64..2 * RELAY_NEIGHBOURS_MAX as u64).sum();
        let count = 2 * RELAY_NEIGHBOURS_MAX as u64 - known.len() as u64;
        assert_eq!((others.address, others.frames), (LinkAddress::EVERYONE, 3 * rest + 3 * count));
        assert_eq!(
            neighbours.of(LinkIndex(1), &LinkAddress::index(0)).1.frames,
            others_frames(rest, count)
        );
    }

    fn others_frames(rest: u64, count: u64) -> u64 {
        3 * rest + 3 * count
    }
}
