//! Nodes: one running firmware, its links and threads.

use std::sync::Arc;
use std::time::Duration;

use emp_firmware::{Counters, LinkIndex, NodeEvent, PathInUse, Profile, RelayNeighbour};
use emp_link::{Capabilities, LinkStatistics};
use emp_wire::{Epoch, LinkAddress, NodeId};

use crate::boards::seat::Seat;
use crate::links::choice::Choice;
use crate::links::costs::PathCosts;
use crate::told::counters::HostCounters;
use crate::told::directory::Peer;
use crate::told::work::WorkTime;

/// A running firmware with its links. Cheap to clone; all clones are the same node.
///
/// When the last handle (node, endpoint, or request) goes, the node is closed as by [`close`](Self::close) with the
/// builder's [`linger`](crate::NodeBuilder::linger) time (1 s). Nobody is there then to be told of what is not delivered by the end of
/// it: a line of the log says it (`EMP_LOG`). Programs that must know call `close`, or wait for their sends.
#[derive(Clone)]
pub struct Node {
    pub(crate) inner: Arc<NodeInner>,
}

pub(crate) struct NodeInner {
    pub(crate) seat: Seat,
    pub(crate) id: NodeId,
    pub(crate) epoch: Epoch,
    pub(crate) name: String,
    pub(crate) profile: Profile,
    pub(crate) choice: Choice,
    pub(crate) path_costs: Option<PathCosts>,
    pub(crate) linger: Duration,
    pub(crate) capabilities: Vec<Capabilities>,
}

impl Node {
    /// Its identity.
    pub fn id(&self) -> NodeId {
        self.inner.id
    }

    /// Its name for people.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its generation.
    pub fn epoch(&self) -> Epoch {
        self.inner.epoch
    }

    /// The protocol parameters that it started with.
    pub fn profile(&self) -> &Profile {
        &self.inner.profile
    }

    /// Which links were tried and chosen, and why.
    pub fn choice(&self) -> &Choice {
        &self.inner.choice
    }

    /// What frames cost by the links of a node that may use two for one peer, measured at start. `None`: all frames to a peer take one
    /// link.
    pub fn path_costs(&self) -> Option<PathCosts> {
        self.inner.path_costs
    }

    /// The paths to a node that are used now. Empty: none is known.
    pub fn paths(&self, node: NodeId) -> Vec<PathInUse> {
        self.inner.seat.paths(node)
    }

    /// Makes what progress there is to be made. Needed only by applications that neither post, test nor wait for long,
    /// on an inline board without guardian.
    pub fn progress(&self) {
        self.inner.seat.progress();
    }

    /// What the firmware has counted since the start.
    pub fn counters(&self) -> Counters {
        self.inner.seat.counters()
    }

    /// Of a relay: what came to be sent on from each neighbour.
    pub fn relay_neighbours(&self) -> Vec<RelayNeighbour> {
        self.inner.seat.relay_neighbours()
    }

    /// What the host has counted.
    pub fn host_counters(&self) -> HostCounters {
        self.inner.seat.host_counters()
    }

    /// Has the CPU time counted from now on that the node's threads work. For measurements: it costs each turn a system call.
    pub fn count_work(&self) {
        self.inner.seat.count_work();
    }

    /// CPU time that the node's threads have worked since [`count_work`](Self::count_work), and not looked for work: what a thread that spins
    /// has to do. Zero on the board `daemon`.
    pub fn worked(&self) -> WorkTime {
        self.inner.seat.worked()
    }

    /// What each link can do, in the order of their [`LinkIndex`].
    pub fn links(&self) -> &[Capabilities] {
        &self.inner.capabilities
    }

    /// What each link has counted.
    pub fn link_statistics(&self) -> Vec<LinkStatistics> {
        self.inner.seat.link_statistics()
    }

    /// The nodes met so far, by identity.
    pub fn peers(&self) -> Vec<Peer> {
        self.inner.seat.peers()
    }

    /// The link and address that frames to a node take now, if that is known.
    pub fn route(&self, node: NodeId) -> Option<(LinkIndex, LinkAddress)> {
        self.inner.seat.route(node)
    }

    /// Slots of the firmware's pool that are free, and all of them: equal when nothing is held.
    pub fn pool_slots(&self) -> (usize, usize) {
        self.inner.seat.pool_slots()
    }

    /// Longest message in bytes that can be sent [`Buffered`](emp_firmware::CompletionMode::Buffered).
    pub fn buffered_bytes_max(&self) -> usize {
        self.inner.seat.buffered_bytes_max()
    }

    /// Longest message in bytes that fits one frame to any peer: the limit of buffered one-sided operations.
    pub fn single_frame_bytes_max(&self) -> usize {
        self.inner.seat.single_frame_bytes_max()
    }

    /// Most bytes of operands, with what to compare, that one atomic operation takes.
    pub fn atomic_bytes_max(&self) -> usize {
        self.inner.seat.atomic_bytes_max()
    }

    /// Changes how many frames one acknowledgement covers, at once and for all peers.
    pub fn set_collection(&self, frames: u32) {
        self.inner.seat.set_collection(frames);
    }

    /// The same for one peer, until it is changed for all. False: that peer is not known yet.
    pub fn set_collection_of(&self, peer: NodeId, frames: u32) -> bool {
        self.inner.seat.set_collection_of(peer, frames)
    }

    /// What is wrong with this node's interfaces now, such as "interface eth0 is down", or was in the last minute, with how long that
    /// took; empty if nothing is.
    pub fn link_troubles(&self) -> String {
        self.inner.seat.link_troubles()
    }

    /// The next thing that happened to a peer and was not asked for yet. Makes progress. Beyond 1024, older ones are
    /// dropped.
    pub fn poll_event(&self) -> Option<NodeEvent> {
        self.inner.seat.take_event(true)
    }

    /// As [`poll_event`](Self::poll_event), but without progress: what earlier calls have brought.
    #[inline]
    pub fn take_event(&self) -> Option<NodeEvent> {
        self.inner.seat.take_event(false)
    }

    /// How many things have happened to peers so far: as long as this is the same, [`take_event`](Self::take_event) has nothing
    /// new. Costs no lock.
    #[inline]
    pub fn events_told(&self) -> u64 {
        self.inner.seat.events_told()
    }

    /// Waits for the next thing that happens to a peer, at most for `timeout` (`None`: without limit).
    pub fn wait_event(&self, timeout: impl Into<Option<Duration>>) -> Option<NodeEvent> {
        self.inner.seat.wait_event(timeout.into())
    }

    /// The index of the first link that takes addresses like this one.
    pub(crate) fn link_for(&self, address: LinkAddress) -> Option<LinkIndex> {
        let family = address.family();
        let place =
            self.inner.capabilities.iter().position(|link| link.address.family() == family)?;
        Some(LinkIndex(place as u8))
    }
}
