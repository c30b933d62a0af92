//! Who was met: names, addresses and fates of peers, for people and for error texts.

use std::collections::HashMap;

use emp_firmware::{LinkIndex, NodeEvent};
use emp_wire::{LinkAddress, NodeId};

use crate::told::names;

/// Hints kept for one node: more addresses than machines have.
const HINTS_MAX: usize = 16;

/// A node that was met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its identity.
    pub node: NodeId,
    /// Its name for people; empty if it has none or did not say.
    pub name: String,
    /// The link it was last found on.
    pub link: LinkIndex,
    /// Where.
    pub address: LinkAddress,
    /// What was last heard of it.
    pub state: PeerState,
}

/// What was last heard of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It answered.
    Found,
    /// Nothing was heard of it for too long.
    Unreachable,
    /// It came back in another epoch.
    Restarted,
    /// It heard nothing of this node for too long, and gave it up.
    GaveUp,
    /// It said goodbye.
    Closed,
    /// Its process has ended without that.
    Ended,
}

/// The nodes met so far, and where others may be: each at most as many as the firmware keeps peers.
pub(crate) struct Directory {
    most: usize,
    peers: HashMap<NodeId, Peer>,
    /// Where nodes may be, as the application said.
    hints: HashMap<NodeId, Vec<(LinkIndex, LinkAddress)>>,
}

impl Directory {
    /// Of so many nodes at most.
    pub(crate) fn new(most: usize) -> Self {
        Self { most, peers: HashMap::new(), hints: HashMap::new() }
    }

    /// Learns from an event.
    pub(crate) fn note(&mut self, event: &NodeEvent) {
        match event {
            NodeEvent::Found { node, link, address, name } => {
                if self.peers.len() >= self.most && !self.peers.contains_key(node) {
                    // Those that have left make room, as in the firmware.
                    self.peers.retain(|_, peer| peer.state == PeerState::Found);
                    if self.peers.len() >= self.most {
                        return;
                    }
                }
                let found = Peer {
                    node: *node,
                    name: name.clone(),
                    link: *link,
                    address: *address,
                    state: PeerState::Found,
                };
                self.peers.insert(*node, found);
            }
            NodeEvent::Unreachable(node) => self.set(*node, PeerState::Unreachable),
            NodeEvent::Restarted(node) => self.set(*node, PeerState::Restarted),
            NodeEvent::GaveUp(node) => self.set(*node, PeerState::GaveUp),
            NodeEvent::Closed(node) => self.set(*node, PeerState::Closed),
            NodeEvent::Ended(node) => self.set(*node, PeerState::Ended),
            NodeEvent::Limited { .. }
            | NodeEvent::LimitReached { .. }
            | NodeEvent::LostBySize { .. }
            | NodeEvent::Claimed { .. }
            | NodeEvent::PathLost { .. }
            | NodeEvent::PathFound { .. } => {}
        }
    }

    fn set(&mut self, node: NodeId, state: PeerState) {
        if let Some(peer) = self.peers.get_mut(&node) {
            peer.state = state;
        }
    }

    /// Learns where a node may be, as the application says.
    pub(crate) fn hint(&mut self, node: NodeId, link: LinkIndex, address: LinkAddress) {
        if self.hints.len() < self.most || self.hints.contains_key(&node) {
            let places = self.hints.entry(node).or_default();
            if places.len() < HINTS_MAX && !places.contains(&(link, address)) {
                places.push((link, address));
            }
        }
    }

    /// Where a node may be, as the application said.
    pub(crate) fn hints(&self, node: NodeId) -> &[(LinkIndex, LinkAddress)] {
        self.hints.get(&node).map_or(&[], Vec::as_slice)
    }

    /// A node's name for people.
    pub(crate) fn show(&self, node: NodeId) -> String {
        names::show(node, self.get(node).map_or("", |peer| peer.name.as_str()))
    }

    pub(crate) fn get(&self, node: NodeId) -> Option<&Peer> {
        self.peers.get(&node)
    }

    /// A peer that answered under this name.
    pub(crate) fn by_name(&self, name: &str) -> Option<&Peer> {
        self.peers.values().find(|peer| peer.name == name)
    }

    /// A peer that answered from this address.
    pub(crate) fn by_address(&self, link: LinkIndex, address: LinkAddress) -> Option<&Peer> {
        self.peers.values().find(|peer| peer.link == link && peer.address == address)
    }

    /// Forgets who was found at an address: it is to be found anew.
    pub(crate) fn forget_at(&mut self, link: LinkIndex, address: LinkAddress) {
        self.peers.retain(|_, peer| peer.link != link || peer.address != address);
    }

    pub(crate) fn all(&self) -> Vec<Peer> {
        let mut all: Vec<_> = self.peers.values().cloned().collect();
        all.sort_by_key(|peer| peer.node);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program may tell of any number of nodes that there are not, and who answers may be made up as well.
    #[test]
    fn no_more_nodes_are_remembered_than_the_engine_knows() {
        let mut directory = Directory::new(3);
        for number in 0..10 {
            let (node, link) = (NodeId(number + 1), LinkIndex(0));
            for port in 0..20 {
                directory.hint(node, link, LinkAddress::index(port));
            }
            let address = LinkAddress::index(number as u32);
            directory.note(&NodeEvent::Found { node, link, address, name: String::new() });
        }
        assert_eq!((directory.hints.len(), directory.all().len()), (3, 3));
        assert_eq!((directory.hints(NodeId(1)).len(), directory.hints(NodeId(4)).len()), (16, 0));
        // One that has left makes room.
        directory.note(&NodeEvent::Closed(NodeId(2)));
        let (node, link, name) = (NodeId(9), LinkIndex(0), String::new());
        directory.note(&NodeEvent::Found { node, link, address: LinkAddress::index(9), name });
        assert!(directory.get(NodeId(9)).is_some() && directory.get(NodeId(2)).is_none());
    }
}
