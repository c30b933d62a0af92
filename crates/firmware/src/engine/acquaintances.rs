//! Asking peers that were met for a node that is looked for: who knows it tells where (`HELLO-10`, `HELLO-11`). What is told is somewhere to ask, and
//! is not kept; so who tells lies makes a node send a few hellos, and nothing else.

use alloc::collections::VecDeque;
use core::net::IpAddr;

use emp_wire::{AddressFamily, Epoch, Header, Hello, KNOWN_MAX, LinkAddress, NodeId};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::limits::{ASKED_OF_PEERS, PEERS_ASKED_MAX, TOLD_TO_PEERS, push_bounded};
use crate::link::LinkIndex;
use crate::pair::routes::Contact;
use crate::time::Time;
use crate::transit::Bucket;

/// Peers that are asked each time for a node. Whom a small cluster lists as known to all is among them.
const ASKED_AT_ONCE: usize = 8;

/// Peers that are looked at for these: a table of those that are not met is not walked through in one go.
const LOOKED_AT: u32 = 64;

/// A peer was asked for a node.
#[derive(Clone, Copy)]
struct Question {
    nonce: u64,
    whom: u32,
    sought: NodeId,
}

/// What was asked, and how much may be.
pub(crate) struct Acquaintances {
    asked: VecDeque<Question>,
    /// The peer that is asked next, so that each has its turn.
    next: u32,
    asks: Bucket,
    tells: Bucket,
}

impl Acquaintances {
    pub(crate) const fn new() -> Self {
        Self {
            asked: VecDeque::new(),
            next: 0,
            asks: Bucket::new(ASKED_OF_PEERS.0, ASKED_OF_PEERS.1),
            tells: Bucket::new(TOLD_TO_PEERS.0, TOLD_TO_PEERS.1),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.asked.len()
    }

    /// The node that a peer was asked for with this nonce; each question is answered once.
    fn take(&mut self, whom: u32, nonce: u64) -> Option<NodeId> {
        let place =
            self.asked.iter().position(|asked| (asked.whom, asked.nonce) == (whom, nonce))?;
        self.asked.remove(place).map(|asked| asked.sought)
    }
}

impl Firmware {
    /// Asks some of the peers that were met where another is, that is looked for.
    pub(crate) fn ask_acquaintances(&mut self, now: Time, sought: u32) {
        if self.links.iter().all(|link| link.tells.is_none()) {
            return;
        }
        let (node, peers) = (self.peers[sought].node, self.peers.len());
        let mut left = ASKED_AT_ONCE;
        for _ in 0..peers.min(LOOKED_AT) {
            let whom = self.acquaintances.next % peers;
            let route = self.peers[whom].route().map(|(link, to)| (link, *to));
            let is_met = self.peers[whom].remote_epoch != Epoch::UNKNOWN;
            // One that is looked for itself does not answer, and a node that speaks to itself knows no more than it does.
            let asks = whom != sought && is_met && !self.routes.searches.contains(whom);
            let by_link =
                |(link, _): &(LinkIndex, LinkAddress)| usize::from(link.0) < self.links.len();
            if let Some(hop) = route.filter(by_link).filter(|_| asks) {
                if left == 0 || !self.acquaintances.asks.take(now) {
                    return;
                }
                left -= 1;
                self.ask_acquaintance(whom, hop, node);
            }
            self.acquaintances.next = (whom + 1) % peers;
        }
    }

    fn ask_acquaintance(&mut self, whom: u32, hop: (LinkIndex, LinkAddress), sought: NodeId) {
        let nonce = self.routes.draw();
        let asked = &mut self.acquaintances.asked;
        push_bounded(asked, Question { nonce, whom, sought }, PEERS_ASKED_MAX);
        let entry = &self.peers[whom];
        let destination_epoch = entry.remote_epoch.check();
        let hello = Contact::hello(hop, (entry.node, entry.tag), nonce, entry.local_epoch);
        self.routes.push_contact(Contact { destination_epoch, other: sought, ..hello });
        self.counters.count(Counter::PeersAsked);
    }

    /// The node that an answer to a peer's question shall tell of. `None`: of none is told to who asks from there, or so often.
    pub(crate) fn may_tell(
        &mut self,
        now: Time,
        (asker, header): (u32, &Header),
        (link, from): (LinkIndex, LinkAddress),
        hello: &Hello,
    ) -> Option<NodeId> {
        let other = hello.other()?;
        let is_current = self.peers[asker].remote_epoch == header.source_epoch;
        if !is_current || !self.peers.known_places(asker).contains(&(link, from)) {
            return None;
        }
        self.whereabouts(other, &from).next()?;
        let may = self.acquaintances.tells.take(now);
        if may {
            self.counters.count(Counter::PeersTold);
        }
        may.then_some(other)
    }

    /// Where a node was met, as far as that means the same to who asks from there.
    pub(crate) fn whereabouts(
        &self,
        node: NodeId,
        asker: &LinkAddress,
    ) -> impl Iterator<Item = LinkAddress> + use<> {
        let met = self.peers.peek(node).filter(|peer| {
            let peer = &self.peers[*peer];
            peer.remote_epoch != Epoch::UNKNOWN
        });
        let places = met.map(|peer| self.peers.known_places(peer)).unwrap_or_default();
        let near = is_of_one_machine(asker);
        let means_the_same = move |address: &LinkAddress| {
            is_told_of(address, near) && !address.as_udp().is_some_and(|at| is_of_one_link(at.ip()))
        };
        places.into_iter().map(|(_, to)| to).filter(means_the_same).take(KNOWN_MAX)
    }

    /// Takes a reply that answers such a question. False: it is none.
    pub(crate) fn answers_for_other(
        &mut self,
        whom: u32,
        from: LinkAddress,
        hello: &Hello,
    ) -> bool {
        let Some(sought) = self.acquaintances.take(whom, hello.nonce) else { return false };
        let told = hello.other().filter(|other| *other == sought);
        let peer = told.and_then(|other| self.peers.peek(other));
        let Some(peer) = peer.filter(|peer| self.routes.searches.contains(*peer)) else {
            return true;
        };
        for address in hello.known() {
            if !is_told_of(&address, is_of_one_machine(&from)) {
                self.counters.count(Counter::ToldRefused);
                continue;
            }
            for index in 0..self.links.len() {
                if self.links[index].tells == Some(address.family()) {
                    self.ask_peer(LinkIndex(index as u8), address, peer);
                    self.counters.count(Counter::ToldTried);
                }
            }
        }
        true
    }
}

/// An address that a hello may go to because a peer tells of it: of one node. `near`: the peer is on this machine.
fn is_told_of(address: &LinkAddress, near: bool) -> bool {
    let Some(at) = address.as_udp() else { return address.family() == AddressFamily::Index };
    let ip = at.ip();
    let many = ip.is_multicast() || matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    at.port() != 0 && !many && !ip.is_unspecified() && (near || !is_of_one_machine(address))
}

fn is_of_one_machine(address: &LinkAddress) -> bool {
    address.is_memory()
        || address.as_udp().is_some_and(|at| match at.ip() {
            IpAddr::V4(ip) => ip.is_loopback(),
            IpAddr::V6(ip) => {
                ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback())
            }
        })
}

fn is_of_one_link(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_go_to_addresses_of_one_node_elsewhere_only() {
        let told = |at: &str, near| is_told_of(&LinkAddress::udp(at.parse().unwrap()), near);
        for at in ["10.0.0.1:51966", "192.0.2.7:1", "[fd00::1]:51966", "[2001:db8::1]:9"] {
            assert!(told(at, false) && told(at, true), "{at}");
        }
        for at in ["127.0.0.1:51966", "127.9.9.9:1", "[::1]:51966", "[::ffff:127.0.0.1]:7"] {
            assert!(!told(at, false) && told(at, true), "{at}");
        }
        for at in [
            "10.0.0.1:0",
            "0.0.0.0:51966",
            "[::]:51966",
            "239.255.136.181:51966",
            "255.255.255.255:51966",
            "[ff12::88b5]:51966",
        ] {
            assert!(!told(at, false) && !told(at, true), "{at}");
        }
        for address in [LinkAddress::mac([2; 6]), LinkAddress::EVERYONE, LinkAddress::shm(7)] {
            assert!(!is_told_of(&address, true), "{address}");
        }
        assert!(is_told_of(&LinkAddress::index(3), false));
    }
}
