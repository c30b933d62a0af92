//! Links that a node gets while it runs: an interface was plugged in. What is known of those that it has stays as it is.

use alloc::vec::Vec;

use crate::engine::Firmware;
use crate::limits::LINKS_MAX;
use crate::link::LinkInfo;
use crate::path::unit::HELD_MIN;
use crate::profile::{Integrity, Profile};
use crate::time::Time;

/// What the engine keeps of its links as bits, one a link.
pub(crate) struct LinkBits {
    pub(crate) segmenting: u64,
    pub(crate) summing: u64,
    pub(crate) long: u64,
    /// Many long frames can wait there.
    pub(crate) deep: u64,
}

impl LinkBits {
    pub(crate) fn of(links: &[LinkInfo], profile: &Profile) -> Self {
        let bits = |of: fn(&LinkInfo) -> bool| {
            links.iter().rev().fold(0, |bits, link| bits << 1 | u64::from(of(link)))
        };
        let by_carrier = profile.integrity == Integrity::Carrier;
        Self {
            segmenting: bits(|link| link.segments),
            summing: if by_carrier { bits(|link| link.sums) } else { 0 },
            long: if profile.takes_long_frames() { bits(|link| link.long_frames) } else { 0 },
            deep: bits(|link| link.long_frames_held >= HELD_MIN),
        }
    }
}

/// Several paths to a peer may be used.
pub(crate) fn are_apt(links: &[LinkInfo], profile: &Profile) -> bool {
    profile.is_selective() && links.len() > 1
}

impl Firmware {
    /// The node has these links from now on (`PATH-15`): first those that it had ([`Config::links`](crate::Config::links)), which may stand beside others
    /// now, then more. Frames of a new link are not longer than the longest that some link took when the node started. False, and nothing
    /// changes: there are fewer links than before, or too many.
    pub fn set_links(&mut self, now: Time, links: Vec<LinkInfo>) -> bool {
        if links.len() < self.links.len() || links.len() > LINKS_MAX {
            return false;
        }
        let before = self.links.len();
        let LinkBits { segmenting, summing, long, deep } = LinkBits::of(&links, &self.profile);
        self.peers.set_links(&links, are_apt(&links, &self.profile));
        // Those that there were may have begun or ceased to carry long frames.
        let new = u64::MAX.checked_shl(before as u32).unwrap_or(0);
        self.peers.units.add(long & new, deep);
        (self.send.segmenting, self.send.summing) = (segmenting, summing);
        self.send.times_messages = self.peers.costs.are_corrected();
        self.carriers.extend(links.len());
        self.links = links;
        for peer in 0..self.peers.len() {
            self.peers.forgive_paths(now, peer);
        }
        true
    }
}
