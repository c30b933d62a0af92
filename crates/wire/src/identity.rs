//! Who a frame is from and for: node identities, epochs, and the short tags that stand for them on the wire.

use core::fmt;

/// The name of one running firmware instance. It never changes while the instance runs (`ID-1`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u64);

impl NodeId {
    /// No particular node: a wildcard in receives and in hello frames. Not a legal identity.
    pub const ANY: Self = Self(0);

    /// The identity that a name stands for: FNV-1a over its bytes, mixed, never zero (`ID-2`).
    ///
    /// Both ends compute it alone, so a name is enough to find a node.
    pub fn from_name(name: &str) -> Self {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in name.bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(mix(hash).max(1))
    }

    /// The 16-bit tag that socket filters look at (`FRAME-3`). Never 0 (unset) nor 0xFFFF (everyone).
    pub const fn destination_tag(self) -> u16 {
        destination_tag_of(self.source_tag())
    }

    /// The 32-bit tag that names the sender in frames without room for the whole identity (`FRAME-4`).
    pub const fn source_tag(self) -> u32 {
        (mix(self.0) >> 32) as u32
    }
}

/// The destination tag of the node that has this source tag: who hears a frame of a node that it does not know can answer it
/// alone.
pub const fn destination_tag_of(source_tag: u32) -> u16 {
    match (source_tag >> 16) as u16 {
        0 => 1,
        0xFFFF => 0xFFFE,
        tag => tag,
    }
}

/// Finaliser of splitmix64: spreads identities that differ in few bits over the whole tag.
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The generation of a node as one peer sees it: drawn at start, moved on when a pair starts afresh (`EPOCH-1`).
///
/// Zero means "not known".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Epoch(pub u32);

impl Epoch {
    /// Not known yet.
    pub const UNKNOWN: Self = Self(0);

    /// Makes an epoch of any bits: the low 16 are never zero, so that the check field tells known from unknown.
    pub const fn new(bits: u32) -> Self {
        if bits & 0xFFFF == 0 { Self(bits | 1) } else { Self(bits) }
    }

    /// The 16 bits that frames carry of their *destination's* epoch; 0 if unknown (`EPOCH-2`).
    pub const fn check(self) -> u16 {
        self.0 as u16
    }

    /// The epoch after this one.
    pub const fn next(self) -> Self {
        Self::new(self.0.wrapping_add(1))
    }

    /// True if this epoch is one of the next after `before`: its node did not start anew, but gave the pair up (`EPOCH-4`), perhaps
    /// a few times. One that was drawn at random looks so once in four million.
    pub const fn follows(self, before: Self) -> bool {
        const STEPS: u32 = 1 << 10;
        let ahead = self.0.wrapping_sub(before.0);
        before.0 != 0 && ahead != 0 && ahead <= STEPS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_avoid_reserved_values() {
        for id in 1..200_000u64 {
            let tag = NodeId(id).destination_tag();
            assert!(tag != 0 && tag != 0xFFFF);
        }
    }

    #[test]
    fn names_give_stable_identities() {
        assert_eq!(NodeId::from_name("emp-a"), NodeId::from_name("emp-a"));
        assert_ne!(NodeId::from_name("emp-a"), NodeId::from_name("emp-b"));
    }

    #[test]
    fn epochs_that_a_node_moved_on_to_follow_the_one_before() {
        for bits in [7, 0xFFFF, 0x1_FFFF, u32::MAX] {
            let before = Epoch::new(bits);
            let after = before.next().next();
            assert!(after.follows(before) && !before.follows(after) && !before.follows(before));
        }
        assert!(!Epoch::new(0x8000_0007).follows(Epoch::new(7)));
        assert!(!Epoch::new(1).follows(Epoch::UNKNOWN));
    }

    /// `EPOCH-1`.
    #[test]
    fn a_known_epoch_never_checks_as_unknown() {
        for bits in [0, 0x1_0000, 0xFFFF_0000, 7] {
            assert_ne!(Epoch::new(bits).check(), 0);
            assert_ne!(Epoch::new(bits).next().check(), 0);
        }
    }
}
