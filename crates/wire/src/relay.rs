//! What stands before frames that relays pass on (`RELAY-1`, `RELAY-2`; V24 to V27): a head, and the list of hops. The frames behind it are the
//! ends' alone: no relay writes to them, and what relays write is under no checksum of theirs.

use crate::header::u16_at;
use crate::{HEADER_BYTES, LinkAddress, Reason, VERSION};

/// Number of the kind in the first byte.
pub const RELAY_KIND: u8 = 16;
/// Bytes of the head, the list not included.
pub const RELAY_HEAD_BYTES: usize = 12;
/// Bytes of one hop of the list: all alike, so that what a relay puts in the place of one always fits.
pub const RELAY_HOP_BYTES: usize = 12;
/// Cables that a frame crosses at most: beyond that a cluster that is cabled box to box wants a switch, and a list of more is longer than
/// what most frames carry.
pub const HOP_LIMIT: u8 = 8;
/// Relays on the way of a frame at most.
pub const RELAYS_MAX: usize = HOP_LIMIT as usize - 1;
/// Bytes of the longest head with its list.
pub const RELAY_BYTES_MAX: usize = RELAY_HEAD_BYTES + RELAYS_MAX * RELAY_HOP_BYTES;
/// Bytes of an address in a hop.
const ADDRESS_BYTES: usize = 8;

const _: () = assert!(RELAY_HOP_BYTES == 4 + ADDRESS_BYTES);

mod field {
    pub const KIND: usize = 0;
    pub const USE: usize = 1;
    pub const LENGTH: usize = 2;
    pub const DESTINATION_TAG: usize = crate::DESTINATION_TAG_OFFSET;
    pub const SOURCE_TAG: usize = 6;
    pub const PLACE: usize = 8;
    pub const HOPS: usize = 9;
    pub const SMALLEST: usize = 10;
}

/// True if what a link received begins with a relay's head.
#[inline(always)]
pub const fn is_relayed(frame: &[u8]) -> bool {
    matches!(frame, [first, ..] if *first == VERSION << 5 | RELAY_KIND)
}

/// True if what a link received is a search, which a relay takes whatever its tag is.
#[inline]
pub const fn is_search(frame: &[u8]) -> bool {
    is_relayed(frame) && matches!(frame, [_, usage, ..] if *usage == RelayUse::Search as u8)
}

/// What a relay has to do with a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum RelayUse {
    /// To send it to the hop at its place (`RELAY-3`).
    Forward = 0,
    /// To repeat it on its other links (`RELAY-4`).
    Search = 1,
    /// As `Forward`; it tells the sender of a frame that this cannot go on (`RELAY-5`).
    CutOff = 2,
}

/// The head.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelayHead {
    /// What a relay has to do with it.
    pub usage: RelayUse,
    /// Bytes behind the head: the list and the frames.
    pub length: u16,
    /// Tag of the node that takes it from this cable: what its socket filters on. In a search, of the node that is looked for, which so gets it
    /// where it is; elsewhere it is a relay's.
    pub destination_tag: u16,
    /// Destination tag of the node that put it on this cable.
    pub source_tag: u16,
    /// The hop of the list that is next; in a search, how many cables it may still cross.
    pub place: u8,
    /// Hops of the list.
    pub hops: u8,
    /// The largest link frame that all links on the way take so far, in bytes.
    pub smallest: u16,
}

/// One hop of the list: where its reader sends the frame. A relay that has done so leaves in its place where the frame came from, so that
/// the list that arrives is the way back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RelayHop {
    /// Destination tag of the node there.
    pub tag: u16,
    /// The link of the relay that reads this, by that relay's numbers.
    pub link: u8,
    /// The address on that link.
    pub address: LinkAddress,
}

/// A frame with a relay's head, in parts.
#[derive(Clone, Copy, Debug)]
pub struct Relayed<'a> {
    /// The head.
    pub head: RelayHead,
    /// All of it, without what the link padded.
    pub whole: &'a [u8],
    /// The list, [`RELAY_HOP_BYTES`] each.
    list: &'a [u8],
    /// The frames of the ends, and in [`RelayUse::CutOff`] the common header of the one that was cut off.
    pub carried: &'a [u8],
}

impl<'a> Relayed<'a> {
    /// Reads head and list; what the link padded is cut off. Hops are read when they are asked for: a relay needs one.
    pub fn parse(frame: &'a [u8]) -> Result<Self, Reason> {
        let Some((head, rest)) = frame.split_first_chunk::<RELAY_HEAD_BYTES>() else {
            return Err(Reason::TooShort);
        };
        if head[field::KIND] >> 5 != VERSION {
            return Err(Reason::Version);
        }
        if head[field::KIND] & 0x1F != RELAY_KIND {
            return Err(Reason::Kind);
        }
        let head = RelayHead {
            usage: match head[field::USE] {
                0 => RelayUse::Forward,
                1 => RelayUse::Search,
                2 => RelayUse::CutOff,
                _ => return Err(Reason::Field),
            },
            length: u16_at(head, field::LENGTH),
            destination_tag: u16_at(head, field::DESTINATION_TAG),
            source_tag: u16_at(head, field::SOURCE_TAG),
            place: head[field::PLACE],
            hops: head[field::HOPS],
            smallest: u16_at(head, field::SMALLEST),
        };
        let rest = rest.get(..usize::from(head.length)).ok_or(Reason::Length)?;
        let inside = match head.usage {
            // Each relay takes one of the cables that are left and adds a hop.
            RelayUse::Search => {
                head.place.checked_add(head.hops).is_some_and(|all| all < HOP_LIMIT)
            }
            RelayUse::Forward | RelayUse::CutOff => head.place <= head.hops,
        };
        if usize::from(head.hops) > RELAYS_MAX || !inside {
            return Err(Reason::Field);
        }
        let list_bytes = usize::from(head.hops) * RELAY_HOP_BYTES;
        let (list, carried) = rest.split_at_checked(list_bytes).ok_or(Reason::BodyShort)?;
        if carried.len() < HEADER_BYTES {
            return Err(Reason::BodyShort);
        }
        let whole = &frame[..RELAY_HEAD_BYTES + rest.len()];
        Ok(Self { head, whole, list, carried })
    }

    /// The hop at a place of the list. The list ends before it, or what stands there is no address: a reason.
    pub fn hop(&self, place: u8) -> Result<RelayHop, Reason> {
        let at = usize::from(place) * RELAY_HOP_BYTES;
        let bytes = self.list.get(at..).and_then(|rest| rest.first_chunk()).ok_or(Reason::Field)?;
        RelayHop::parse(bytes)
    }

    /// The list as it stands there.
    pub const fn list(&self) -> &'a [u8] {
        self.list
    }

    /// True if it has come to the end of its list.
    pub const fn has_arrived(&self) -> bool {
        self.head.place == self.head.hops
    }
}

impl RelayHead {
    /// Writes it.
    pub fn emit(&self, into: &mut [u8; RELAY_HEAD_BYTES]) {
        into[field::KIND] = VERSION << 5 | RELAY_KIND;
        into[field::USE] = self.usage as u8;
        into[field::LENGTH..][..2].copy_from_slice(&self.length.to_be_bytes());
        into[field::DESTINATION_TAG..][..2].copy_from_slice(&self.destination_tag.to_be_bytes());
        into[field::SOURCE_TAG..][..2].copy_from_slice(&self.source_tag.to_be_bytes());
        (into[field::PLACE], into[field::HOPS]) = (self.place, self.hops);
        into[field::SMALLEST..][..2].copy_from_slice(&self.smallest.to_be_bytes());
    }
}

impl RelayHop {
    /// Reads a hop. What names no place on a wire, or has anything behind its address, is none.
    pub fn parse(bytes: &[u8; RELAY_HOP_BYTES]) -> Result<Self, Reason> {
        let [tag @ .., _, _, _, _, _, _, _, _, _, _] = bytes;
        let (link, family, address) = (bytes[2], bytes[3], &bytes[4..]);
        let length = match family {
            1 | 4 => 6,
            9 => 4,
            _ => return Err(Reason::Field),
        };
        let (address, padding) = address.split_at(length);
        let told = LinkAddress::told(family, address).ok_or(Reason::Field)?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(Reason::Field);
        }
        Ok(Self { tag: u16::from_be_bytes(*tag), link, address: told })
    }

    /// Its bytes. `None`: an address of a family that relays do not send to.
    pub fn emit(&self) -> Option<[u8; RELAY_HOP_BYTES]> {
        if !Self::takes(&self.address) {
            return None;
        }
        let mut bytes = [0; RELAY_HOP_BYTES];
        bytes[..2].copy_from_slice(&self.tag.to_be_bytes());
        (bytes[2], bytes[3]) = (self.link, self.address.family() as u8);
        let address = self.address.bytes();
        bytes[4..][..address.len()].copy_from_slice(address);
        Some(bytes)
    }

    /// True if a relay can send to an address of this kind: Ethernet, IPv4, and that of a simulated fabric. IPv6 addresses do not fit a
    /// hop; they are not needed on a link that has Ethernet's own.
    pub fn takes(address: &LinkAddress) -> bool {
        use crate::AddressFamily::{Index, Mac, Udp4};
        matches!(address.family(), Mac | Udp4 | Index)
    }
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use super::*;

    fn frame(head: RelayHead, hops: &[RelayHop], carried: usize) -> Vec<u8> {
        let mut start = [0; RELAY_HEAD_BYTES];
        head.emit(&mut start);
        let hops = hops.iter().flat_map(|hop| hop.emit().expect("an address that relays take"));
        start.into_iter().chain(hops).chain(core::iter::repeat_n(7, carried)).collect()
    }

    fn head(usage: RelayUse, place: u8, hops: u8, carried: usize) -> RelayHead {
        let length = (usize::from(hops) * RELAY_HOP_BYTES + carried) as u16;
        let (destination_tag, source_tag) = (0x1234, 0x5678);
        RelayHead { usage, length, destination_tag, source_tag, place, hops, smallest: 1_500 }
    }

    fn hop(link: u8) -> RelayHop {
        RelayHop { tag: 0x0102, link, address: LinkAddress::mac([2, 0, 0, 0, 0, link]) }
    }

    /// `RELAY-1`, `RELAY-2`.
    #[test]
    fn a_list_of_hops_is_read_as_it_was_written() {
        let hops: Vec<RelayHop> = (0..RELAYS_MAX as u8).map(hop).collect();
        for count in 0..=RELAYS_MAX {
            let head = head(RelayUse::Forward, 0, count as u8, 40);
            let mut bytes = frame(head, &hops[..count], 40);
            bytes.extend([0; 9]);
            assert!(is_relayed(&bytes) && !is_relayed(&[]) && !is_relayed(&[0x23; 64]));
            let read = Relayed::parse(&bytes).expect("it is whole");
            assert_eq!((read.head, read.carried), (head, &[7; 40][..]), "padding is cut off");
            assert_eq!(read.has_arrived(), count == 0);
            for (place, hop) in hops.iter().enumerate() {
                let expected = if place < count { Ok(*hop) } else { Err(Reason::Field) };
                assert_eq!(read.hop(place as u8), expected);
            }
        }
    }

    /// Each is refused for its reason, and none is read beyond its end.
    #[test]
    fn what_is_no_list_is_refused() {
        let good = frame(head(RelayUse::Forward, 1, 1, 40), &[hop(0)], 40);
        assert!(Relayed::parse(&good).is_ok());
        for cut in 0..good.len() {
            let reason = if cut < RELAY_HEAD_BYTES { Reason::TooShort } else { Reason::Length };
            assert_eq!(Relayed::parse(&good[..cut]).err(), Some(reason), "{cut}");
        }
        let changed = |at: usize, byte: u8| {
            let mut bytes = good.clone();
            bytes[at] = byte;
            Relayed::parse(&bytes).err()
        };
        assert_eq!(changed(0, 2 << 5 | RELAY_KIND), Some(Reason::Version));
        assert_eq!(changed(0, VERSION << 5 | 17), Some(Reason::Kind));
        assert_eq!(changed(1, 3), Some(Reason::Field), "an unknown use");
        assert_eq!(changed(8, 2), Some(Reason::Field), "a place beyond the end");
        assert_eq!(changed(9, 8), Some(Reason::Field), "longer than the limit");
        assert_eq!(changed(9, 5), Some(Reason::BodyShort), "longer than the frame");
        let short = frame(head(RelayUse::Forward, 1, 1, 31), &[hop(0)], 31);
        assert_eq!(Relayed::parse(&short).err(), Some(Reason::BodyShort), "it carries no frame");
    }

    /// `RELAY-4`: hops and what is left of the limit are never more than the limit.
    #[test]
    fn a_search_has_its_limit() {
        for (left, hops) in [(7, 0), (0, 7), (3, 4)] {
            let list: Vec<RelayHop> = (0..hops).map(hop).collect();
            let bytes = frame(head(RelayUse::Search, left, hops, 40), &list, 40);
            assert!(Relayed::parse(&bytes).is_ok());
        }
        for (left, hops) in [(8, 0), (255, 1), (1, 7), (255, 255)] {
            let bytes = frame(head(RelayUse::Search, left, hops, 40), &[], 8_000);
            assert_eq!(Relayed::parse(&bytes).err(), Some(Reason::Field), "{left} {hops}");
        }
    }

    #[test]
    fn hops_name_places_on_a_wire() {
        let udp = LinkAddress::udp("10.1.2.3:51966".parse().unwrap());
        for address in [udp, LinkAddress::index(7), LinkAddress::mac([1, 2, 3, 4, 5, 6])] {
            let hop = RelayHop { tag: 9, link: 3, address };
            assert_eq!(RelayHop::parse(&hop.emit().unwrap()), Ok(hop));
        }
        let six = LinkAddress::udp("[fe80::1%2]:51966".parse().unwrap());
        for address in [six, LinkAddress::EVERYONE, LinkAddress::LOOPBACK, LinkAddress::shm(1)] {
            assert_eq!(RelayHop { tag: 9, link: 3, address }.emit(), None, "{address}");
        }
        let mut bytes = hop(1).emit().unwrap();
        bytes[11] = 1;
        assert_eq!(RelayHop::parse(&bytes), Err(Reason::Field), "padding");
        for family in [0, 2, 6, 10, 11, 12, 13, 255] {
            bytes[3] = family;
            assert_eq!(RelayHop::parse(&bytes), Err(Reason::Field), "family {family}");
        }
    }
}
