//! The processes that this one sends to: what is under way to each, and what waits behind it.

use std::collections::{HashMap, VecDeque};

use emp_face::handles::Key;
use emp_host::NodeId;

/// One of them.
pub struct Peer {
    /// Sends that the node has taken and that have not ended.
    pub flying: u32,
    /// One of those is of several frames: what is sent after it must not arrive before it.
    pub long: bool,
    /// Sends that wait, in order.
    pub waiting: VecDeque<Key>,
    /// Bytes up to which a send is one frame.
    pub short_max: usize,
}

/// All of them, by place. They stay: as many as the node knows at most.
#[derive(Default)]
pub struct Peers {
    peers: Vec<Peer>,
    by_node: HashMap<NodeId, usize>,
    /// How many have sends that wait.
    pub crowded: usize,
}

impl Peers {
    /// The place of a process.
    pub fn place(&mut self, node: NodeId, short_max: usize) -> usize {
        let peers = &mut self.peers;
        *self.by_node.entry(node).or_insert_with(|| {
            peers.push(Peer { flying: 0, long: false, waiting: VecDeque::new(), short_max });
            peers.len() - 1
        })
    }

    #[inline]
    pub fn at(&mut self, place: usize) -> &mut Peer {
        &mut self.peers[place]
    }

    pub fn of(&mut self, node: NodeId) -> Option<(usize, &mut Peer)> {
        let place = *self.by_node.get(&node)?;
        Some((place, &mut self.peers[place]))
    }

    /// True if nothing is under way.
    pub fn are_idle(&self) -> bool {
        self.peers.iter().all(|peer| peer.flying == 0 && peer.waiting.is_empty())
    }

    pub fn places(&self) -> std::ops::Range<usize> {
        0..self.peers.len()
    }

    /// Puts a send behind the others.
    pub fn wait(&mut self, place: usize, send: Key) {
        let peer = &mut self.peers[place];
        self.crowded += usize::from(peer.waiting.is_empty());
        peer.waiting.push_back(send);
    }

    /// The first that waits is gone.
    pub fn next(&mut self, place: usize) {
        let peer = &mut self.peers[place];
        peer.waiting.pop_front();
        self.crowded -= usize::from(peer.waiting.is_empty());
    }
}
