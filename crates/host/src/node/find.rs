//! Finding nodes: by identity, by name, by address.

use std::net::SocketAddr;
use std::time::Duration;

use emp_firmware::LinkIndex;
use emp_wire::{LinkAddress, NodeId};

use crate::node::running::Node;
use crate::told::directory::{Directory, Peer, PeerState};
use crate::told::names;

/// Who is looked for: an identity, or a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Who<'a> {
    /// A node's identity.
    Id(NodeId),
    /// A node's name. Its identity need not be that of the name.
    Name(&'a str),
}

impl From<NodeId> for Who<'_> {
    fn from(node: NodeId) -> Self {
        Self::Id(node)
    }
}

impl<'a> From<&'a str> for Who<'a> {
    fn from(name: &'a str) -> Self {
        Self::Name(name)
    }
}

impl Who<'_> {
    fn found(self, directory: &Directory) -> Option<Peer> {
        let peer = match self {
            Self::Id(node) => directory.get(node),
            Self::Name(name) => {
                directory.get(NodeId::from_name(name)).or_else(|| directory.by_name(name))
            }
        };
        peer.filter(|peer| peer.state == PeerState::Found).cloned()
    }
}

impl std::fmt::Display for Who<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Id(node) => write!(f, "node {}", names::show(*node, "")),
            Self::Name(name) => write!(f, "a node called {name}"),
        }
    }
}

/// A node was not found in the given time.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{wanted} was not found; asked {asked}")]
pub struct NotFound {
    /// What was looked for.
    pub wanted: String,
    /// Where it was looked for.
    pub asked: String,
}

/// Somebody on the way to a node.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stage {
    /// Where, on the cable that leads there.
    pub address: LinkAddress,
    /// Its name and identity. `None`: nobody answered.
    pub who: Option<(String, NodeId)>,
    /// How long an answer took.
    pub round_trip: Option<Duration>,
}

/// After a node was found: how long the answers by other ways are waited for, and how often it is looked whether each link has brought one.
const OTHER_WAYS: (Duration, u32) = (Duration::from_millis(50), 6);

impl Node {
    /// Asks for a node that was found until all links for raw frames have brought a way to it, or for 300 ms: of the answers to one search the first
    /// ends it.
    fn find_other_ways(&self, node: NodeId) {
        let seat = &self.inner.seat;
        let raw =
            self.links().iter().enumerate().filter(|(_, link)| link.address.as_mac().is_some());
        let raw: Vec<_> = raw.map(|(at, _)| LinkIndex(at as u8)).collect();
        let (every, times) = OTHER_WAYS;
        for _ in 0..times {
            let ways = seat.ways(node);
            let missing = |link: &&LinkIndex| !ways.iter().any(|(way, _)| way == *link);
            let missing: Vec<_> = raw.iter().filter(missing).copied().collect();
            if missing.is_empty() {
                return;
            }
            // A neighbour is reached by the cables to it, and relays are not asked for others.
            let beyond = ways.iter().all(|(_, stages)| stages.len() > 1);
            let to = if beyond { LinkAddress::BEYOND } else { LinkAddress::EVERYONE };
            let questions: Vec<_> = missing.into_iter().map(|link| (link, to)).collect();
            seat.find(&questions, &[node], every, |_| None);
        }
    }

    /// The ways by which a node is reached that was [found](Self::find), each by a link, with whoever is on it: relays first and the node itself last. Each is
    /// asked, for at most `timeout`; before that the answers of others are waited for, for 300 ms at most.
    pub fn trace(&self, node: NodeId, timeout: Duration) -> Vec<(LinkIndex, Vec<Stage>)> {
        let seat = &self.inner.seat;
        let stage = |link: LinkIndex, (address, ask): (LinkAddress, LinkAddress), wanted| {
            let asked = seat.ask_at((link, ask), wanted, timeout);
            let (who, round_trip) =
                asked.map(|(peer, took)| ((peer.name, peer.node), took)).unzip();
            Stage { address, who, round_trip }
        };
        self.find_other_ways(node);
        let ways = seat.ways(node).into_iter();
        let each = |(link, stages): (LinkIndex, Vec<_>)| {
            // Its host may have other nodes, and a relay, at its address.
            let last = stages.len().saturating_sub(1);
            let wanted = |at: usize| if at == last { node } else { NodeId::ANY };
            let stages = stages.into_iter().enumerate();
            (link, stages.map(|(at, places)| stage(link, places, wanted(at))).collect())
        };
        ways.map(each).collect()
    }

    /// Finds a node by identity or name: asks everyone on each link, relays there, and the addresses that were hinted for it, until it
    /// answers or the time has passed. Not needed before a send, which does the same by itself.
    pub fn find<'a>(&self, who: impl Into<Who<'a>>, timeout: Duration) -> Result<Peer, NotFound> {
        let who = who.into();
        let everywhere =
            (0..self.inner.seat.links() as u8).map(|link| (LinkIndex(link), LinkAddress::EVERYONE));
        let beyond = everywhere.clone().map(|(link, _)| (link, LinkAddress::BEYOND));
        let mut questions: Vec<_> = everywhere.chain(beyond).collect();
        let id = match who {
            Who::Id(node) => node,
            Who::Name(name) => names::identity(name),
        };
        questions.extend(self.inner.seat.hints(id));
        let asked = || self.inner.seat.asked();
        // By name, it may be somebody whose identity is not that of the name. Beyond relays a search for the one finds the other as well.
        let anyone = matches!(who, Who::Name(_)).then_some(NodeId::ANY);
        let wanted: Vec<NodeId> = [id].into_iter().chain(anyone).collect();
        self.inner
            .seat
            .find(&questions, &wanted, timeout, |known| who.found(known))
            .ok_or_else(|| NotFound { wanted: who.to_string(), asked: asked() })
    }

    /// Finds out who is at an address: a UDP socket address, or a link's own kind of address. The question goes out on
    /// the first link that takes such addresses.
    pub fn resolve_address(
        &self,
        address: LinkAddress,
        timeout: Duration,
    ) -> Result<Peer, NotFound> {
        let nobody = |asked: String| NotFound { wanted: format!("a node at {address}"), asked };
        let link = self
            .link_for(address)
            .ok_or_else(|| nobody("nobody: no link has addresses of this kind".into()))?;
        self.inner
            .seat
            .find(&[(link, address)], &[NodeId::ANY], timeout, |directory| {
                let peer = directory.by_address(link, address)?;
                (peer.state == PeerState::Found).then(|| peer.clone())
            })
            .ok_or_else(|| nobody(format!("for {timeout:?}; is a node running there?")))
    }

    /// As [`resolve_address`](Self::resolve_address), for a UDP socket address.
    pub fn resolve_socket(
        &self,
        address: std::net::SocketAddr,
        timeout: Duration,
    ) -> Result<Peer, NotFound> {
        self.resolve_address(LinkAddress::udp(address), timeout)
    }

    /// Tells where a node may be, learned out of band (for example from an MPI's launcher). Used when it is first needed.
    pub fn hint(&self, node: NodeId, link: LinkIndex, address: LinkAddress) {
        self.inner.seat.note_hint(node, link, address);
    }

    /// Says that a node's process takes datagrams at an address of its host, by whatever link it is reached: while nothing is heard of
    /// it, its host can be asked there whether it is still there (`RESEND-9`).
    pub fn takes_datagrams_at(&self, node: NodeId, address: SocketAddr) {
        self.inner.seat.note_place(node, address);
    }
}
