//! `hello` and `hello-reply`: finding a node and learning or confirming its epoch (`HELLO-1`; V26, V27).
//!
//! A hello goes to everyone on a link, or to one address. The node it names (or any, if it names none) answers with its
//! epoch towards the asker and the same nonce. A reply proves that the node *now* is in that epoch, which a stale frame can't.

use crate::extension::{self, Extensions};
use crate::header::{u16_at, u32_at, u64_at};
use crate::{Largest, LinkAddress, NodeId, Reason};

/// Bytes of the fixed part of the body.
pub const HELLO_BYTES: usize = 32;
/// Longest node name, in bytes of UTF-8: one more than MX has room for in a host's name, which is longer than Linux has.
pub const NAME_BYTES_MAX: usize = 80;
/// As much of it stands in the fixed place; the rest, if there is any, in an extension (`HELLO-9`).
const NAME_FRONT_BYTES: usize = 32;
/// Bytes of the longest further address: type, length, family, IPv6 address, port, scope.
const TOLD_BYTES_MAX: usize = 2 + 1 + 16 + 2 + 4;
/// Addresses of the sender on other links that one hello tells.
pub const TOLD_MAX: usize = 3;
/// Addresses of another node that one answer tells.
pub const KNOWN_MAX: usize = 3;
/// Bytes of the longest item that tells one: type, length, identity, family, IPv6 address, port, scope.
const KNOWN_BYTES_MAX: usize = 2 + 8 + 1 + 16 + 2 + 4;
/// Bytes of the largest body.
pub const HELLO_BODY_BYTES_MAX: usize = HELLO_BYTES
    + NAME_BYTES_MAX
    + extension::HEAD_BYTES
    + extension::LENGTH_ITEM_BYTES
    + TOLD_MAX * TOLD_BYTES_MAX;
// Of another node tells only who has neither name nor addresses of its own in that hello.
const _: () = assert!(
    HELLO_BYTES + extension::LENGTH_ITEM_BYTES + KNOWN_MAX * KNOWN_BYTES_MAX
        <= HELLO_BODY_BYTES_MAX
);

/// What the word of a `hello-reply` tells of the `hello` that it answers (`HELLO-8`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplyWord {
    /// How many bytes it had when it arrived, common header included; 65,535: that or more.
    pub arrived_bytes: u16,
    /// Where it arrived many frames of the longest kind (`LONG-1`) can wait unread.
    pub room_for_many: bool,
}

impl ReplyWord {
    /// The bit above the bytes.
    const MANY: u32 = 1 << 16;

    /// As the header's word.
    pub const fn emit(self) -> u32 {
        self.arrived_bytes as u32 | if self.room_for_many { Self::MANY } else { 0 }
    }

    /// From the header's word.
    pub const fn parse(word: u32) -> Self {
        Self { arrived_bytes: word as u16, room_for_many: word & Self::MANY != 0 }
    }
}

/// Body of a `hello` or `hello-reply` frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello {
    /// The sender.
    pub node: NodeId,
    /// The node that should answer, or [`NodeId::ANY`]; in a reply, the node that asked.
    pub target: NodeId,
    /// Drawn by the asker, repeated in the reply.
    pub nonce: u64,
    /// Optional features that the sender has; bits unknown to the receiver are ignored (`VERSION-2`).
    pub features: u32,
    /// Largest frames that the sender takes, in bytes from the common header on.
    pub largest: Largest,
    /// Where who hears this on one link reaches the sender on others (`PATH-1`): those that are there first.
    told: [Option<LinkAddress>; TOLD_MAX],
    /// Another node that is asked for, or told of (`HELLO-10`); [`NodeId::ANY`]: none is.
    other: NodeId,
    /// Where that is.
    known: [Option<LinkAddress>; KNOWN_MAX],
    name_bytes: u8,
    name: [u8; NAME_BYTES_MAX],
}

impl Hello {
    /// A hello. A name longer than [`NAME_BYTES_MAX`] is cut at a character.
    pub fn new(
        node: NodeId,
        target: NodeId,
        nonce: u64,
        largest: impl Into<Largest>,
        name: &str,
    ) -> Self {
        let end = character_end(name, NAME_BYTES_MAX);
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes[..end].copy_from_slice(&name.as_bytes()[..end]);
        let name_bytes = end as u8;
        let told = [None; TOLD_MAX];
        Self {
            node,
            target,
            nonce,
            features: 0,
            largest: largest.into(),
            told,
            other: NodeId::ANY,
            known: [None; KNOWN_MAX],
            name_bytes,
            name: bytes,
        }
    }

    /// The same with these addresses of the sender, the first [`TOLD_MAX`] of them.
    #[must_use]
    pub fn with_addresses(self, addresses: impl Iterator<Item = LinkAddress>) -> Self {
        let mut told = [None; TOLD_MAX];
        told.iter_mut().zip(addresses).for_each(|(place, address)| *place = Some(address));
        Self { told, ..self }
    }

    /// The same about another node, without name and addresses of the sender: it asks where that is, or tells it, if there are addresses, the
    /// first [`KNOWN_MAX`] of them (`HELLO-10`).
    #[must_use]
    pub fn about(self, other: NodeId, addresses: impl Iterator<Item = LinkAddress>) -> Self {
        let mut known = [None; KNOWN_MAX];
        known.iter_mut().zip(addresses).for_each(|(place, address)| *place = Some(address));
        Self {
            other,
            known,
            told: [None; TOLD_MAX],
            name_bytes: 0,
            name: [0; NAME_BYTES_MAX],
            ..self
        }
    }

    /// Another node that is asked for or told of.
    pub fn other(&self) -> Option<NodeId> {
        Some(self.other).filter(|other| *other != NodeId::ANY)
    }

    /// Where that is, as the sender tells.
    pub fn known(&self) -> impl Iterator<Item = LinkAddress> {
        self.known.into_iter().flatten()
    }

    /// The same with as much of the name as stands in the fixed place, for the shortest frames.
    #[must_use]
    pub fn with_short_name(self) -> Self {
        Self { name_bytes: self.front_bytes() as u8, ..self }
    }

    /// Bytes of the name that stand in the fixed place: nodes that know no extensions show them.
    fn front_bytes(&self) -> usize {
        character_end(self.name(), NAME_FRONT_BYTES)
    }

    /// Where who hears this on one link reaches the sender on others (`PATH-1`).
    pub fn addresses(&self) -> impl Iterator<Item = LinkAddress> {
        self.told.into_iter().flatten()
    }

    /// The sender's name for people; empty if it has none or if it was not UTF-8.
    pub fn name(&self) -> &str {
        core::str::from_utf8(&self.name[..usize::from(self.name_bytes)]).unwrap_or("")
    }

    /// Writes the body and returns its length.
    pub fn emit(&self, into: &mut [u8]) -> usize {
        into[..8].copy_from_slice(&self.node.0.to_be_bytes());
        into[8..16].copy_from_slice(&self.target.0.to_be_bytes());
        into[16..24].copy_from_slice(&self.nonce.to_be_bytes());
        into[24..28].copy_from_slice(&self.features.to_be_bytes());
        into[28..30].copy_from_slice(&self.largest.every_link().to_be_bytes());
        let (front, rest) = self.name[..usize::from(self.name_bytes)].split_at(self.front_bytes());
        into[30] = front.len() as u8;
        into[31] = 0;
        let mut end = HELLO_BYTES + front.len();
        into[HELLO_BYTES..end].copy_from_slice(front);
        if !rest.is_empty() {
            end += extension::emit_name(rest, &mut into[end..]);
        }
        if self.largest.this_link() > 0 {
            end += extension::emit_length(self.largest.this_link(), &mut into[end..]);
        }
        for address in self.addresses() {
            end += extension::emit_address(address, &mut into[end..]);
        }
        if let Some(other) = self.other() {
            let asks = self.known.iter().all(Option::is_none);
            for place in self.known().map(Some).chain(asks.then_some(None)) {
                end += extension::emit_other(other, place, &mut into[end..]);
            }
        }
        end
    }

    /// Reads the body.
    pub fn parse(body: &[u8]) -> Result<Self, Reason> {
        if body.len() < HELLO_BYTES {
            return Err(Reason::BodyShort);
        }
        let mut name_bytes = usize::from(body[30]);
        if name_bytes > NAME_FRONT_BYTES || body.len() < HELLO_BYTES + name_bytes {
            return Err(Reason::Field);
        }
        let mut name = [0; NAME_BYTES_MAX];
        name[..name_bytes].copy_from_slice(&body[HELLO_BYTES..HELLO_BYTES + name_bytes]);
        let node = NodeId(u64_at(body, 0));
        if node == NodeId::ANY {
            return Err(Reason::Field);
        }
        let mut told = [None; TOLD_MAX];
        let mut places = told.iter_mut();
        let (mut other, mut known) = (NodeId::ANY, [None; KNOWN_MAX]);
        let mut known_places = known.iter_mut();
        let mut this_link = 0;
        for item in Extensions::of(&body[HELLO_BYTES + name_bytes..]) {
            let (kind, value) = item?;
            if let Some(rest) = extension::name(kind, value)
                && let Some(room) = name.get_mut(name_bytes..name_bytes + rest.len())
            {
                room.copy_from_slice(rest);
                name_bytes += rest.len();
            }
            this_link = extension::length(kind, value).unwrap_or(this_link);
            if let Some(address) = extension::address(kind, value)
                && let Some(place) = places.next()
            {
                *place = Some(address);
            }
            if let Some((node, address)) = extension::other(kind, value)
                && (other == NodeId::ANY || other == node)
            {
                other = node;
                if address.is_some()
                    && let Some(place) = known_places.next()
                {
                    *place = address;
                }
            }
        }
        Ok(Self {
            node,
            target: NodeId(u64_at(body, 8)),
            nonce: u64_at(body, 16),
            features: u32_at(body, 24),
            told,
            other,
            known,
            largest: Largest::new(u16_at(body, 28), this_link),
            name_bytes: name_bytes as u8,
            name,
        })
    }
}

/// Where a name is cut that has room for so many bytes: at a character.
fn character_end(name: &str, room: usize) -> usize {
    let mut end = name.len().min(room);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    end
}
