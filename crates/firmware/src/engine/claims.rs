//! Who claims to be whom: names that were heard before their nodes were met, and identities that two nodes use at once.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};

use emp_wire::{Epoch, LinkAddress, NodeId};

use crate::engine::Firmware;
use crate::event::NodeEvent;
use crate::limits::{FORMER_MAX, NAMES_MAX, push_bounded};
use crate::link::LinkIndex;
use crate::pair::routes::Contact;

/// A node's epoch towards a peer moves on by one each time that it gives the peer up (`EPOCH-4`). So many steps are one
/// node's; another's epoch, drawn at random, is as near once in a million times.
const STEPS_MAX: u32 = 1 << 12;

/// True if `later` may be the epoch of the node that had `earlier`, which has not restarted in between.
fn is_step(earlier: Epoch, later: Epoch) -> bool {
    later.0.wrapping_sub(earlier.0) <= STEPS_MAX
}

/// Names of nodes that have asked for this one. A hint for people: whoever floods it costs others no more than their names.
#[derive(Default)]
pub(crate) struct Names(VecDeque<(NodeId, String)>);

impl Names {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// It asked, and this is what it is called.
    pub(crate) fn note(&mut self, node: NodeId, name: &str) {
        if name.is_empty() || self.0.iter().any(|(known, _)| *known == node) {
            return;
        }
        push_bounded(&mut self.0, (node, name.to_string()), NAMES_MAX);
    }

    /// It was met: its name, empty if that is not known.
    pub(crate) fn take(&mut self, node: NodeId) -> String {
        let place = self.0.iter().position(|(known, _)| *known == node);
        place.and_then(|place| self.0.remove(place)).map(|(_, name)| name).unwrap_or_default()
    }
}

/// Epochs that peers have left, the oldest first, and identities that were found to be used twice.
#[derive(Default)]
pub(crate) struct Former {
    left: VecDeque<(NodeId, Epoch)>,
    told: VecDeque<NodeId>,
}

impl Former {
    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    /// A peer is in `now` and was in `before`. True if it has been in `now` earlier, which no restart leads back to.
    fn returns(&mut self, node: NodeId, before: Epoch, now: Epoch) -> bool {
        let was = |left: &(NodeId, Epoch)| left.0 == node && is_step(left.1, now);
        let returned = !is_step(before, now) && self.left.iter().any(was);
        if !self.left.contains(&(node, before)) {
            push_bounded(&mut self.left, (node, before), FORMER_MAX);
        }
        returned
    }

    /// True if nobody was told yet that this identity is used twice, as happens now.
    fn is_news(&mut self, node: NodeId) -> bool {
        let news = !self.told.contains(&node);
        if news {
            push_bounded(&mut self.told, node, FORMER_MAX);
        }
        news
    }
}

impl Firmware {
    /// Asks everyone once whether somebody else has this node's identity. Worth while where it comes from a name that people
    /// choose.
    pub fn claim_identity(&mut self) {
        for index in 0..self.links.len() {
            if self.links[index].broadcast {
                self.ask_for_self(LinkIndex(index as u8), LinkAddress::EVERYONE);
            }
        }
    }

    fn ask_for_self(&mut self, link: LinkIndex, to: LinkAddress) {
        let (own, epoch) = (self.peers.own, self.peers.own_epoch);
        // That of no question: nobody answers it with a reply.
        let nonce = self.routes.nonce(own, u32::MAX);
        let whom = (own, own.destination_tag());
        self.routes.push_contact(Contact::hello((link, to), whom, nonce, epoch));
    }

    /// A node that calls itself as this one does asks for someone (`EPOCH-5`). Its epoch tells it from an echo of our own frames.
    /// It is shown this one, once, so that it knows, too.
    #[cold]
    pub(crate) fn note_other_self(&mut self, epoch: Epoch, link: LinkIndex, from: LinkAddress) {
        let own = self.peers.own;
        if !is_step(self.peers.own_epoch, epoch) && self.former.is_news(own) {
            self.push_event(NodeEvent::Claimed { node: own, known: None, other: (link, from) });
            self.ask_for_self(link, from);
        }
    }

    /// A peer is about to be taken for restarted, in this epoch and from there: if it was in it before, it is two (`EPOCH-5`).
    #[cold]
    pub(crate) fn note_return(
        &mut self,
        peer: u32,
        epoch: Epoch,
        link: LinkIndex,
        from: LinkAddress,
    ) {
        let entry = &self.peers[peer];
        let (node, before) = (entry.node, entry.remote_epoch);
        let known = entry.route().map(|(link, address)| (link, *address));
        if self.former.returns(node, before, epoch) && self.former.is_news(node) {
            self.push_event(NodeEvent::Claimed { node, known, other: (link, from) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: NodeId = NodeId(7);

    #[test]
    fn who_comes_back_to_an_epoch_is_two() {
        let mut former = Former::default();
        let (one, two) = (Epoch(0x1234_5678), Epoch(0x8765_4321));
        assert!(!former.returns(NODE, one, two), "a restart");
        assert!(!former.returns(NodeId(8), two, one), "of another node");
        assert!(former.returns(NODE, two, one));
        assert!(former.returns(NODE, one, two));
        assert!(former.is_news(NODE) && !former.is_news(NODE));
    }

    #[test]
    fn each_double_is_told_of_once_and_those_told_of_are_bounded() {
        let mut former = Former::default();
        assert!(former.is_news(NODE) && former.is_news(NodeId(8)));
        assert!(!former.is_news(NODE) && !former.is_news(NodeId(8)));
        (100..10_000).for_each(|id| assert!(former.is_news(NodeId(id))));
        assert_eq!(former.told.len(), FORMER_MAX);
    }

    #[test]
    fn a_node_that_gives_others_up_is_one() {
        let mut former = Former::default();
        let mut epoch = Epoch(u32::MAX - 1);
        for _ in 0..10 {
            let next = epoch.next();
            assert!(!former.returns(NODE, epoch, next));
            epoch = next;
        }
        let mut bits = 99_u32;
        for _ in 0..1_000 {
            bits = bits.wrapping_mul(0x9E37_79B9).wrapping_add(0x7F4A_7C15);
            let next = Epoch(bits);
            assert!(!former.returns(NODE, epoch, next), "restarts, each in another epoch");
            epoch = next;
        }
        assert!(former.left.len() <= FORMER_MAX);
    }

    #[test]
    fn names_are_kept_until_their_nodes_are_met_and_are_bounded() {
        let mut names = Names::default();
        names.note(NODE, "b");
        assert_eq!((names.take(NODE).as_str(), names.take(NODE).as_str()), ("b", ""));
        (0..10_000).for_each(|id| names.note(NodeId(id), "x"));
        assert_eq!(names.0.len(), NAMES_MAX);
    }
}
