//! Finding nodes (V26, V27): hellos, their answers, and who is being looked for. Routes themselves are cached per peer in
//! [`peers`](crate::pair::peers), at both ends and at no one else.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use emp_wire::{Epoch, Flags, Header, Kind, LinkAddress, NodeId, Sequence};
use hashbrown::HashMap;

use crate::limits::{DISCOVERIES_MAX, HINTS_MAX, QUESTIONS_MAX, REPLIES_MAX, push_bounded};
use crate::link::LinkIndex;
use crate::pair::searches::Searches;
use crate::pair::siphash::SipKey;

/// A hello or reply that waits to be sent.
pub(crate) struct Contact {
    pub(crate) link: LinkIndex,
    pub(crate) to: LinkAddress,
    pub(crate) kind: Kind,
    /// Who is meant; [`NodeId::ANY`]: whoever hears it.
    pub(crate) target: NodeId,
    /// By it sockets pick their frames: the target's, if that is known.
    pub(crate) destination_tag: u16,
    pub(crate) nonce: u64,
    pub(crate) source_epoch: Epoch,
    pub(crate) destination_epoch: u16,
    /// An answer: what it says of the frame that it answers (`HELLO-8`).
    pub(crate) word: u32,
    /// Bytes that the frame shall have at least.
    pub(crate) frame_bytes: u16,
    /// Another node that it asks for, or tells of (`HELLO-10`); [`NodeId::ANY`]: none.
    pub(crate) other: NodeId,
}

impl Contact {
    /// A hello to an address for a node and its tag.
    pub(crate) const fn hello(
        (link, to): (LinkIndex, LinkAddress),
        (target, destination_tag): (NodeId, u16),
        nonce: u64,
        source_epoch: Epoch,
    ) -> Self {
        Self {
            link,
            to,
            kind: Kind::Hello,
            target,
            destination_tag,
            nonce,
            source_epoch,
            destination_epoch: 0,
            word: 0,
            frame_bytes: 0,
            other: NodeId::ANY,
        }
    }

    /// The common header of the frame.
    pub(crate) fn header(&self, own: NodeId) -> Header {
        Header {
            kind: self.kind,
            flags: Flags::default(),
            length: 0,
            destination_tag: self.destination_tag,
            destination_epoch: self.destination_epoch,
            source_tag: own.source_tag(),
            source_epoch: self.source_epoch,
            sequence: Sequence(0),
            acknowledge: Sequence(0),
            word: self.word,
        }
    }
}

/// Searches, hints, and contact frames to be sent.
pub(crate) struct Routes {
    secret: SipKey,
    pub(crate) searches: Searches,
    hints: HashMap<u64, Vec<(LinkIndex, LinkAddress)>>,
    pub(crate) contacts: VecDeque<Contact>,
    /// Nonces of questions to an address whoever lives there.
    questions: VecDeque<u64>,
    asked: u64,
}

impl Routes {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            secret: SipKey::of(seed),
            searches: Searches::default(),
            hints: HashMap::new(),
            contacts: VecDeque::new(),
            questions: VecDeque::new(),
            asked: 0,
        }
    }

    /// The nonce of the n-th question to a node: nobody else can know it, and nothing needs to be remembered.
    pub(crate) fn nonce(&self, node: NodeId, challenge: u32) -> u64 {
        self.secret.hash([node.0, challenge.into()])
    }

    /// A nonce for a question that its asker remembers.
    pub(crate) fn draw(&mut self) -> u64 {
        self.asked += 1;
        self.secret.hash([self.asked])
    }

    /// A nonce for a question to an address; its last bit says whether to one that spoke and is not known.
    pub(crate) fn ask(&mut self, stranger: bool) -> u64 {
        let nonce = self.draw() & !1 | u64::from(stranger);
        push_bounded(&mut self.questions, nonce, QUESTIONS_MAX);
        nonce
    }

    /// True if a reply answers a question to an address.
    pub(crate) fn was_asked(&self, nonce: u64) -> bool {
        self.questions.contains(&nonce)
    }

    /// True if one to someone who spoke and was not known.
    pub(crate) fn was_stranger(&self, nonce: u64) -> bool {
        nonce & 1 == 1 && self.was_asked(nonce)
    }

    pub(crate) fn hint(&mut self, node: NodeId, link: LinkIndex, address: LinkAddress) {
        if self.hints.len() >= DISCOVERIES_MAX && !self.hints.contains_key(&node.0) {
            return;
        }
        let hints = self.hints.entry(node.0).or_default();
        if hints.contains(&(link, address)) {
            return;
        }
        if hints.len() >= HINTS_MAX {
            hints.remove(0);
        }
        hints.push((link, address));
    }

    pub(crate) fn hints(&self, node: NodeId) -> &[(LinkIndex, LinkAddress)] {
        self.hints.get(&node.0).map_or(&[], Vec::as_slice)
    }

    /// All addresses that somebody told of.
    pub(crate) fn all_hints(&self) -> impl Iterator<Item = LinkAddress> + '_ {
        self.hints.values().flatten().map(|(_, address)| *address)
    }

    /// Nodes with hints, and questions to an address whose answers are believed.
    pub(crate) fn hinted(&self) -> usize {
        self.hints.len()
    }

    pub(crate) fn questions(&self) -> usize {
        self.questions.len()
    }

    /// True if the hellos of one more search fit the queue.
    pub(crate) fn has_room(&self) -> bool {
        self.contacts.len() < REPLIES_MAX / 2
    }

    /// Queues a contact frame. False: too many wait; the asker will ask again.
    pub(crate) fn push_contact(&mut self, contact: Contact) -> bool {
        if self.contacts.len() >= REPLIES_MAX {
            return false;
        }
        self.contacts.push_back(contact);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions to addresses whose answers are believed: of many the latest.
    #[test]
    fn questions_to_addresses_are_bounded() {
        let mut routes = Routes::new(7);
        let asked: Vec<u64> = (0..QUESTIONS_MAX + 3).map(|_| routes.ask(false)).collect();
        let believed = asked.iter().map(|nonce| routes.was_asked(*nonce));
        assert!(believed.enumerate().all(|(at, believed)| believed == (at >= 3)));
        assert_eq!(routes.questions.len(), QUESTIONS_MAX);
    }
}
