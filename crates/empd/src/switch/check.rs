//! Which frames of a client leave: those that say of themselves that they are its node's, and could be a node's at all.
//!
//! A frame names its sender in two places (`FRAME-4`): by a tag, and where its kind has room by the whole identity. Both must be the
//! client's, in every frame of a link frame (`BUNDLE-1`): receivers take them apart by the same function.

use emp_wire::{HEADER_BYTES, Header, NodeId, RelayUse, Relayed, frames, is_relayed};

/// Whose frames are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holder {
    node: NodeId,
    source_tag: u32,
}

/// Why a frame does not leave.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Refusal {
    /// It is shorter than a header.
    Short,
    /// It is longer than the interface takes.
    Long,
    /// Its version or kind is none, or it is shorter than its header says.
    Malformed,
    /// It bears another node's tag or identity.
    Forged,
}

impl Refusal {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 4] = [Self::Short, Self::Long, Self::Malformed, Self::Forged];

    /// For people.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Short => "too short",
            Self::Long => "too long",
            Self::Malformed => "no frame of this version",
            Self::Forged => "another node's",
        }
    }
}

impl Holder {
    /// The holder of a node.
    #[must_use]
    pub const fn new(node: NodeId) -> Self {
        Self { node, source_tag: node.source_tag() }
    }

    /// Its node.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// Checks a link frame of this client; returns the destination tag of its first frame. `bytes_max`: what the interface takes.
    ///
    /// # Errors
    ///
    /// Why it is not to leave.
    #[inline]
    pub fn check(&self, link_frame: &[u8], bytes_max: usize) -> Result<u16, Refusal> {
        if link_frame.len() < HEADER_BYTES {
            return Err(Refusal::Short);
        }
        if link_frame.len() > bytes_max {
            return Err(Refusal::Long);
        }
        if is_relayed(link_frame) {
            return self.check_relayed(link_frame);
        }
        self.check_frames(link_frame)
    }

    /// A frame for a node behind relays, or a search for one: the head and what it carries are the client's (`RELAY-1`).
    #[cold]
    fn check_relayed(&self, link_frame: &[u8]) -> Result<u16, Refusal> {
        let Relayed { head, carried, .. } =
            Relayed::parse(link_frame).map_err(|_| Refusal::Malformed)?;
        // What cannot go on is said by relays, which have links of their own.
        if head.usage == RelayUse::CutOff || head.source_tag != self.node.destination_tag() {
            return Err(Refusal::Forged);
        }
        self.check_frames(carried)?;
        Ok(head.destination_tag)
    }

    #[inline]
    fn check_frames(&self, all: &[u8]) -> Result<u16, Refusal> {
        let mut first = None;
        for frame in frames(all) {
            let (header, body) = Header::parse(frame).map_err(|_| Refusal::Malformed)?;
            if header.source_tag != self.source_tag {
                return Err(Refusal::Forged);
            }
            if header.kind.identified() {
                let node = body.first_chunk::<8>().ok_or(Refusal::Malformed)?;
                if u64::from_be_bytes(*node) != self.node.0 {
                    return Err(Refusal::Forged);
                }
            }
            first.get_or_insert(header.destination_tag);
        }
        first.ok_or(Refusal::Short)
    }
}

#[cfg(test)]
mod tests {
    use emp_wire::{Epoch, Flags, Kind, RELAY_HEAD_BYTES, RelayHead, Sequence};

    use super::*;

    const MINE: NodeId = NodeId(7);
    const OTHER: NodeId = NodeId(8);

    fn frame(kind: Kind, from: NodeId, named: NodeId, payload: usize) -> Vec<u8> {
        let mut body = Vec::new();
        if kind.identified() {
            body.extend(named.0.to_be_bytes());
        }
        body.extend(vec![0xAA; payload]);
        let header = Header {
            kind,
            flags: Flags(0),
            length: body.len() as u16,
            destination_tag: 0x1234,
            destination_epoch: 1,
            source_tag: from.source_tag(),
            source_epoch: Epoch(9),
            sequence: Sequence(1),
            acknowledge: Sequence(0),
            word: 0,
        };
        let mut bytes = [0; HEADER_BYTES];
        header.emit(&mut bytes);
        [&bytes[..], &body].concat()
    }

    #[test]
    fn own_frames_leave_and_others_do_not() {
        let holder = Holder::new(MINE);
        for kind in Kind::ALL {
            assert_eq!(holder.check(&frame(kind, MINE, MINE, 40), 1500), Ok(0x1234), "{kind:?}");
            let forged = frame(kind, OTHER, OTHER, 40);
            assert_eq!(holder.check(&forged, 1500), Err(Refusal::Forged), "{kind:?}");
            if kind.identified() {
                let forged = frame(kind, MINE, OTHER, 40);
                assert_eq!(holder.check(&forged, 1500), Err(Refusal::Forged), "{kind:?}");
            }
        }
    }

    #[test]
    fn every_frame_of_a_link_frame_is_looked_at() {
        let holder = Holder::new(MINE);
        let (own, forged) = (frame(Kind::Ack, MINE, MINE, 0), frame(Kind::Data, OTHER, OTHER, 32));
        let both = [own.clone(), own.clone(), own.clone()].concat();
        assert_eq!(holder.check(&both, 1500), Ok(0x1234));
        for at in 0..3 {
            let mut all = vec![own.clone(); 3];
            all[at] = forged.clone();
            assert_eq!(holder.check(&all.concat(), 1500), Err(Refusal::Forged), "frame {at}");
        }
        // What links pad is no frame.
        let padded = [&own[..], &[0; 20]].concat();
        assert_eq!(holder.check(&padded, 1500), Ok(0x1234));
    }

    #[test]
    fn behind_a_relays_head_are_own_frames() {
        let holder = Holder::new(MINE);
        let relayed = |usage, from: NodeId, carried: &[u8]| {
            let head = RelayHead {
                usage,
                length: carried.len() as u16,
                destination_tag: 0x4321,
                source_tag: from.destination_tag(),
                place: 0,
                hops: 0,
                smallest: 1500,
            };
            let mut bytes = [0; RELAY_HEAD_BYTES];
            head.emit(&mut bytes);
            [&bytes[..], carried].concat()
        };
        let (own, others) =
            (frame(Kind::Hello, MINE, MINE, 40), frame(Kind::Data, OTHER, OTHER, 9));
        for usage in [RelayUse::Forward, RelayUse::Search] {
            assert_eq!(holder.check(&relayed(usage, MINE, &own), 1500), Ok(0x4321));
            for forged in [relayed(usage, OTHER, &own), relayed(usage, MINE, &others)] {
                assert_eq!(holder.check(&forged, 1500), Err(Refusal::Forged));
            }
            let short = relayed(usage, MINE, &own[..HEADER_BYTES - 1]);
            assert_eq!(holder.check(&short, 1500), Err(Refusal::Malformed));
        }
        let cut_off = relayed(RelayUse::CutOff, MINE, &own);
        assert_eq!(holder.check(&cut_off, 1500), Err(Refusal::Forged));
    }

    #[test]
    fn what_is_no_frame_does_not_leave() {
        let holder = Holder::new(MINE);
        let good = frame(Kind::Data, MINE, MINE, 100);
        for length in 0..HEADER_BYTES {
            assert_eq!(holder.check(&good[..length], 1500), Err(Refusal::Short));
        }
        assert_eq!(holder.check(&good[..HEADER_BYTES + 99], 1500), Err(Refusal::Malformed));
        assert_eq!(holder.check(&good, good.len() - 1), Err(Refusal::Long));
        for first in [0, 0x04, 0x44, 0xE4, 0x20, 0x3F] {
            let mut bad = good.clone();
            bad[0] = first;
            assert_eq!(holder.check(&bad, 1500), Err(Refusal::Malformed), "{first:#x}");
        }
        let stump = frame(Kind::Message, MINE, MINE, 0);
        let mut short = stump[..HEADER_BYTES + 4].to_vec();
        short[2..4].copy_from_slice(&4u16.to_be_bytes());
        assert_eq!(holder.check(&short, 1500), Err(Refusal::Malformed), "no room for an identity");
    }
}
