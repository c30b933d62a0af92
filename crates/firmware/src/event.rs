//! What a node tells its host of peers and paths, unasked.

use alloc::string::String;

use emp_wire::{LinkAddress, NodeId};

use crate::limits::{
    DISCOVERIES_MAX, ENDPOINTS_MAX, GETS_MAX, NOTIFICATIONS_MAX, SEND_POOL_BYTES,
    WITHOUT_ENDPOINT_MAX,
};
use crate::link::LinkIndex;
use crate::profile::Profile;

/// A bound of a node that its users meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Sends, puts and atomics that are outstanding ([`Profile::operations_max`](crate::Profile::operations_max)).
    Sends,
    /// Receives that are outstanding (likewise).
    Receives,
    /// Messages that arrive or wait unexpected ([`Profile::incoming_max`](crate::Profile::incoming_max)).
    Unexpected,
    /// Gets and fetching atomics that are outstanding, of all peers or of one that has its part of them.
    Gets,
    /// Bytes of buffered sends and of operands of atomics, likewise.
    Buffered,
    /// Notifications of puts that the host has not taken.
    Notifications,
    /// Messages that wait for an endpoint which is not open.
    WithoutEndpoint,
    /// Endpoints that are open.
    Endpoints,
    /// Regions that are exported ([`Profile::regions_max`](crate::Profile::regions_max)).
    Regions,
    /// Peers that are known ([`Profile::peers_max`](crate::Profile::peers_max)).
    Peers,
    /// Nodes that are looked for.
    Searches,
}

impl Limit {
    /// How many there may be on a node of this profile.
    const fn most(self, profile: &Profile) -> usize {
        match self {
            Self::Sends | Self::Receives => profile.operations_max,
            Self::Unexpected => profile.incoming_max,
            Self::Gets => GETS_MAX,
            Self::Buffered => SEND_POOL_BYTES,
            Self::Notifications => NOTIFICATIONS_MAX,
            Self::WithoutEndpoint => WITHOUT_ENDPOINT_MAX,
            Self::Endpoints => ENDPOINTS_MAX,
            Self::Regions => profile.regions_max,
            Self::Peers => profile.peers_max,
            Self::Searches => DISCOVERIES_MAX,
        }
    }

    /// All, by number.
    pub const ALL: [Self; 11] = [
        Self::Sends,
        Self::Receives,
        Self::Unexpected,
        Self::Gets,
        Self::Buffered,
        Self::Notifications,
        Self::WithoutEndpoint,
        Self::Endpoints,
        Self::Regions,
        Self::Peers,
        Self::Searches,
    ];
}

/// Bounds that were reached, each of which the host is told of once. Bits by [`Limit`].
#[derive(Default)]
pub(crate) struct Reached {
    noted: u16,
    told: u16,
}

impl Reached {
    /// There is as much as may be.
    #[cold]
    pub(crate) fn note(&mut self, limit: Limit) {
        self.noted |= 1 << limit as u16;
    }

    /// What the host is to be told of, now.
    #[cold]
    pub(crate) fn news(&mut self, profile: &Profile) -> impl Iterator<Item = NodeEvent> + use<> {
        let news = self.noted & !self.told;
        self.told |= news;
        let most = Limit::ALL.map(|limit| (limit, limit.most(profile)));
        most.into_iter().filter(move |(limit, _)| news >> *limit as u16 & 1 != 0).map(event)
    }
}

const fn event((limit, most): (Limit, usize)) -> NodeEvent {
    NodeEvent::LimitReached { limit, most }
}

/// Something that happened to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// A node answered: after [`Firmware::resolve`](crate::Firmware::resolve), or after discovery.
    Found {
        /// Its identity.
        node: NodeId,
        /// The link it answered on.
        link: LinkIndex,
        /// Where.
        address: LinkAddress,
        /// Its name for people, perhaps empty.
        name: String,
    },
    /// Nothing was heard of it for the profile's time; all that was due is completed with an error (V7).
    Unreachable(NodeId),
    /// It came back in another epoch; all that was due is completed with an error.
    Restarted(NodeId),
    /// It heard nothing of this node for its time, and gave it up, but lives; all that was due is completed with an error.
    GaveUp(NodeId),
    /// Its process has ended without a goodbye, as its host has told; all that was due is completed with an error.
    Ended(NodeId),
    /// It said goodbye.
    Closed(NodeId),
    /// Two nodes use this identity, so whoever talks to it takes each for the other's restart, for ever (`EPOCH-5`).
    /// Told once. If the identity is this node's own, one of the two is this node.
    Claimed {
        /// The identity.
        node: NodeId,
        /// Where the one was last known, unless it is this node.
        known: Option<(LinkIndex, LinkAddress)>,
        /// Where the other is.
        other: (LinkIndex, LinkAddress),
    },
    /// One of several paths to a peer has failed; its frames take another.
    PathLost {
        /// The peer.
        node: NodeId,
        /// The link that the path leads over.
        link: LinkIndex,
    },
    /// A further path to a peer was found, or one that had failed works again.
    PathFound {
        /// The peer.
        node: NodeId,
        /// The link that the path leads over.
        link: LinkIndex,
    },
    /// Frames of `lost_bytes` do not get through to a peer, though shorter ones do: none of more than `passed_bytes` are sent to it
    /// there from now on (`LIMIT-3`). Something on the way has a smaller MTU than both ends.
    LostBySize {
        /// Who.
        node: NodeId,
        /// By which link.
        link: LinkIndex,
        /// The longest frame that was answered, in bytes.
        passed_bytes: usize,
        /// The shortest that was not.
        lost_bytes: usize,
    },
    /// This node has as much of something as it may. Told once of each.
    LimitReached {
        /// Of what.
        limit: Limit,
        /// How many there may be.
        most: usize,
    },
    /// A peer, or this node itself, takes only shorter frames by a link than before: the MTU of an interface was lowered.
    Limited {
        /// Who.
        node: NodeId,
        /// By which link of this node.
        link: LinkIndex,
        /// The largest that it takes now, in bytes.
        frame_bytes_max: usize,
    },
}
