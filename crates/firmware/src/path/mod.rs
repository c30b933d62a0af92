//! How to get to a peer: a pair has one to [`PATHS_MAX`] paths, each with its own link, next hop, unit, round trip, loss detection,
//! window and health (`PATH-1` to `PATH-8`).
//!
//! The first is the one that the pair is known by; most have no other. Others lead over links beside it, and are looked for when a
//! train would be there sooner by them.

use emp_wire::LinkAddress;

use crate::limits::PATHS_MAX;
use crate::link::LinkIndex;

pub(crate) mod choice;
pub(crate) mod congestion;
pub(crate) mod hop_lists;
pub(crate) mod learned;
pub(crate) mod lengths;
pub(crate) mod mtu;
pub(crate) mod pacing;
pub(crate) mod rate;
pub(crate) mod recovery;
pub(crate) mod rtt;
mod serial;
pub(crate) mod stripe;
pub(crate) mod table;
pub(crate) mod unit;

pub(crate) use choice::Paths;

/// A link and an address on it, where that is stored: a copy of what was just copied waits for that.
pub(crate) type Hop<'a> = (LinkIndex, &'a LinkAddress);

/// A path to a peer that can be used now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathInUse {
    /// The link that it leads over.
    pub link: LinkIndex,
    /// Where the peer is on it.
    pub address: LinkAddress,
    /// The pair is known by it.
    pub first: bool,
    /// Largest frame that its link takes at both ends, in bytes.
    pub frame_bytes_max: usize,
    /// Frames longer than the MTU get through by it.
    pub long_frames: bool,
}

/// How a path fares, beside what [`PathInUse`] says of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathShown {
    /// Bytes that may be under way by it.
    pub window: u32,
    /// Bytes that are.
    pub flight: u32,
    /// A round trip in microseconds, smoothed; 0: not measured.
    pub rtt_us: u32,
    /// Frames that left by it, modulo 2³².
    pub sent: u32,
    /// Of these, those that were found lost.
    pub lost: u32,
}

/// Which of the paths to a peer: its place in the pair's list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct PathId(u8);

impl PathId {
    /// The one that the pair is known by.
    pub(crate) const FIRST: Self = Self(0);
    /// Frames came by a link that is none of this node's paths to the peer.
    pub(crate) const OTHER: Self = Self(PATHS_MAX as u8);

    pub(crate) const fn new(index: usize) -> Self {
        Self(index as u8)
    }

    /// All that a pair may have.
    pub(crate) fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..PATHS_MAX as u8).map(Self)
    }

    /// Those of a set, a bit each.
    #[inline]
    pub(crate) fn of_bits(mut bits: u8) -> impl Iterator<Item = Self> {
        core::iter::from_fn(move || {
            let path = (bits != 0).then(|| Self(bits.trailing_zeros() as u8));
            bits &= bits.wrapping_sub(1);
            path
        })
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Its bit in a set of paths.
    #[inline]
    pub(crate) const fn bit(self) -> u8 {
        // One that is none of them has none.
        (1u16 << self.0) as u8
    }
}
