//! What the firmware must know of the node's links.

use emp_wire::{AddressFamily, LinkAddress};

use crate::limits::PATHS_MAX;

/// Which of a node's links, in the order they were given at start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct LinkIndex(pub u8);

/// Links whose bits are set.
pub(crate) fn set_bits(mut bits: u64) -> impl Iterator<Item = LinkIndex> {
    core::iter::from_fn(move || {
        let link = bits.trailing_zeros();
        bits &= bits.checked_sub(1)?;
        Some(LinkIndex(link as u8))
    })
}

/// What the firmware must know of a link. Its place in [`Config::links`](crate::Config::links) is its [`LinkIndex`](crate::LinkIndex).
#[derive(Clone, Copy, Debug)]
pub struct LinkInfo {
    /// Largest frame in bytes, common header included.
    pub frame_bytes_max: usize,
    /// A hello to everyone reaches nodes that are not configured (or configured peers): worth asking when searching.
    pub broadcast: bool,
    /// Its peers are on this machine, and may name their memory to be read ([`HostMemory::fetch`](crate::HostMemory::fetch), `DIRECT-1`).
    pub reads_memory: bool,
    /// Frames of one train leave in one call, and arrive together: long trains are given to it in parts.
    pub segments: bool,
    /// Its carrier has a checksum over what it carries: payloads need none of EMP's (`CRC-3`).
    pub sums: bool,
    /// Frames of up to [`LONG_FRAME_BYTES`](emp_wire::LONG_FRAME_BYTES) arrive whole or not at all, whatever `frame_bytes_max` is
    /// (`LONG-1`).
    pub long_frames: bool,
    /// As many of them can wait unread, of whatever senders. 0: nobody knows.
    pub long_frames_held: u32,
    /// What frames cost by it: trains take the link by which they are there soonest (`PATH-3`). `None`: it takes no part in the choice,
    /// and is taken only if the pair is known by it.
    pub cost: Option<LinkCost>,
    /// This node's address on it, if frames with a list of hops may come and go by it (`RELAY-3`): a raw link's.
    pub hops_from: Option<LinkAddress>,
    /// By it come searches for nodes that are not here, on the interface of this link (`RELAY-7`); nothing else does, and nothing leaves by it.
    pub hears_for: Option<LinkIndex>,
    /// The family of addresses that it leads to, if they mean the same at other nodes, which may be asked for them (`HELLO-11`): datagrams'.
    pub tells: Option<AddressFamily>,
    /// The interface that it leads over: links of one share its wire, so paths by them are alternatives, and those of others are additions
    /// (`PATH-13`).
    pub interface: u8,
    /// Links by which the same nodes may be reached, best first, and this node's address on each, which is told on this link (`PATH-1`).
    pub beside: [Option<(LinkIndex, LinkAddress)>; PATHS_MAX - 1],
}

impl LinkInfo {
    /// A link that takes small and large alike, and stands beside no other.
    pub const fn new(frame_bytes_max: usize, broadcast: bool) -> Self {
        Self {
            frame_bytes_max,
            broadcast,
            reads_memory: false,
            segments: false,
            sums: false,
            long_frames: false,
            long_frames_held: 0,
            cost: None,
            hops_from: None,
            interface: 0,
            hears_for: None,
            tells: None,
            beside: [None; PATHS_MAX - 1],
        }
    }

    /// It stands beside this one, where the node has this address. False: there is no room for more.
    pub fn set_beside(&mut self, link: LinkIndex, address: LinkAddress) -> bool {
        let known = |place: &&mut Option<(LinkIndex, LinkAddress)>| {
            place.is_none_or(|(other, _)| other == link)
        };
        let place = self.beside.iter_mut().find(known);
        place.map(|place| *place = Some((link, address))).is_some()
    }
}

/// What the frames of a train cost by a link, sender and receiver together, in nanoseconds: as far as it differs between links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkCost {
    /// The first frame of the usual length.
    pub first_ns: u64,
    /// Each further one.
    pub further_ns: u64,
    /// The same where they leave as parts of frames longer than the MTU, if the link carries such.
    pub long_ns: Option<(u64, u64)>,
    /// It is so only while the link carries several frames in a call.
    pub segments: bool,
    /// Somebody named it, and nothing that is found later corrects it (`PATH-9`).
    pub named: bool,
}

impl LinkCost {
    /// Of a train of so many frames of the usual length; `long`: it may leave in longer ones.
    #[inline]
    pub const fn of(&self, frames: u32, long: bool) -> u64 {
        let further = frames.saturating_sub(1) as u64;
        let usual = self.first_ns + further * self.further_ns;
        match self.long_ns {
            Some((first, each)) if long && first + further * each < usual => first + further * each,
            _ => usual,
        }
    }

    /// Of two links of which trains of at least `frames` frames shall take the second, and of those that leave in longer ones as few as
    /// `long_frames`: for who names the division instead of measuring it. Neither may be 0.
    pub const fn divided(frames: u32, long_frames: u32) -> [Self; 2] {
        /// What a frame costs by the first; any figure will do.
        const FRAME_NS: u64 = 1_000;
        const fn from(frames: u32) -> u64 {
            FRAME_NS * (frames as u64 - 1) + FRAME_NS / 2
        }
        let first = Self {
            first_ns: FRAME_NS,
            further_ns: FRAME_NS,
            long_ns: None,
            segments: false,
            named: true,
        };
        let second = Self {
            first_ns: from(frames),
            further_ns: 0,
            long_ns: Some((from(long_frames), 0)),
            segments: true,
            named: true,
        };
        [first, second]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_costs_its_first_frame_and_each_further_one() {
        let usual = LinkCost {
            first_ns: 700,
            further_ns: 30,
            long_ns: None,
            segments: false,
            named: false,
        };
        let costs = [1, 2, 5].map(|frames| [usual.of(frames, false), usual.of(frames, true)]);
        assert_eq!(costs, [[700; 2], [730; 2], [820; 2]]);
        let cost = LinkCost { long_ns: Some((900, 7)), ..usual };
        assert_eq!(cost.of(5, false), 820, "it may not leave in longer ones");
        // Longer frames are taken where that is cheaper.
        assert_eq!([5, 9, 10, 11, 21].map(|n| cost.of(n, true)), [820, 940, 963, 970, 1_040]);
    }

    #[test]
    fn a_division_is_where_it_was_said() {
        for (frames, long_frames) in [(1, 1), (2, 1), (5, 3), (40, 7)] {
            let [first, second] = LinkCost::divided(frames, long_frames);
            for n in 1..60 {
                assert_eq!(
                    second.of(n, false) < first.of(n, false),
                    n >= frames,
                    "{n} of {frames}"
                );
                let shorter = long_frames.min(frames);
                assert_eq!(second.of(n, true) < first.of(n, true), n >= shorter, "{n} long");
            }
        }
    }
}
