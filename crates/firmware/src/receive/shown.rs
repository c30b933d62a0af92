//! What the receive side shows of a peer, and of what waits, to whoever looks from outside ([`Firmware::shown`](crate::Firmware::shown)).

use emp_wire::NodeId;

use super::{ReceiveSide, Wants};

/// What is under way from a peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ingoing {
    pub(crate) messages: u32,
    /// Blocks that were asked for and are not wholly here.
    pub(crate) pulls: u32,
    pub(crate) mark: u64,
}

impl ReceiveSide {
    pub(crate) fn shown(&self, peer: u32) -> Ingoing {
        let entry = &self.peers[peer];
        let messages = self.incoming_of.count(peer) + self.fetches_of.count(peer);
        // It moves with whatever comes.
        let mark = u64::from(entry.received.next().0) << 32 | u64::from(entry.received.latest.0);
        let pulls = self.credit.blocks(peer) as u32;
        Ingoing { messages: messages as u32, pulls, mark }
    }

    /// Receives that have no message yet, in post order by endpoint, at most so many of each: from whom, and their number among all posts.
    pub(crate) fn waiting_receives(&self, most: usize, mut each: impl FnMut(NodeId, u64)) {
        for endpoint in self.endpoints.iter().flatten() {
            for index in self.posted_links.iter(endpoint.posted).take(most) {
                if let Some(receive) = self.posted.at(index).filter(|receive| !receive.bound) {
                    each(receive.selector.from, receive.post);
                }
            }
        }
    }

    /// Messages that wait for a receive, in their senders' order by endpoint, at most so many of each: from which peer, and their name.
    pub(crate) fn waiting_messages(&self, most: usize, mut each: impl FnMut(u32, u64)) {
        let endpoints = self.endpoints.iter().flatten().map(|endpoint| endpoint.unexpected);
        for list in endpoints.chain([self.without_endpoint]) {
            for index in self.waiting.iter(list).take(most) {
                let message = self.incoming.at(index);
                if let Some(message) = message.filter(|it| matches!(it.wants, Wants::Receive)) {
                    let name = u64::from(self.incoming.generation(index)) << 32 | u64::from(index);
                    each(message.peer, name);
                }
            }
        }
    }

    /// Moves with each post.
    pub(crate) const fn posts(&self) -> u64 {
        self.posts
    }

    /// Receives that have not ended, and messages that are here or arrive.
    pub(crate) fn outstanding(&self) -> (usize, usize) {
        (self.posted.len(), self.incoming.len())
    }
}
