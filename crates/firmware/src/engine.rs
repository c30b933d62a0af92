//! The firmware as its caller sees it.

use emp_wire::{Epoch, LinkAddress, NodeId};

use crate::counters::Counters;
use crate::descriptor::{
    Completion, OpId, PostError, ProbeInfo, ReceiveDescriptor, Selector, SendDescriptor,
};
use crate::memory::HostMemory;
use crate::profile::Profile;
use crate::time::Time;
use crate::transmit::{LinkIndex, TransmitBatch};

/// What the firmware must know of a link. Its place in [`Config::links`] is its [`LinkIndex`].
#[derive(Clone, Copy, Debug)]
pub struct LinkInfo {
    /// Largest frame in bytes, common header included.
    pub frame_bytes_max: usize,
    /// A hello to everyone reaches nodes that are not configured (or configured peers): worth asking when searching.
    pub broadcast: bool,
}

/// How a node starts.
#[derive(Clone, Debug)]
pub struct Config {
    /// The node's identity.
    pub node: NodeId,
    /// Bits for its epoch; must differ from those of earlier runs under the same identity (draw them at random).
    pub epoch: u32,
    /// Name shown to others; at most 32 bytes are used.
    pub name: String,
    /// Protocol parameters.
    pub profile: Profile,
    /// The links, best first: a node that answers on several is reached over the first.
    pub links: Vec<LinkInfo>,
    /// Seed of all randomness (nonces, jitter).
    pub seed: u64,
}

/// Something that happened to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeEvent {
    /// A node answered: after [`Firmware::resolve`], or after discovery.
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
    /// It said goodbye.
    Closed(NodeId),
}

/// A node's protocol engine. No sockets, no clock, no threads; a pure state machine.
///
/// Its methods are of four kinds:
/// - *posts* from the host: [`post_send`](Self::post_send), [`post_receive`](Self::post_receive),
///   [`cancel`](Self::cancel), [`probe`](Self::probe), and settings;
/// - *events in*: [`handle_frame`](Self::handle_frame), [`handle_timeout`](Self::handle_timeout);
/// - *actions out*, to be asked for after any of the above, in this order: [`poll_transmit`](Self::poll_transmit) until
///   the batch stays empty, [`poll_completion`](Self::poll_completion), [`poll_event`](Self::poll_event),
///   [`poll_timeout`](Self::poll_timeout);
/// - *getters*.
pub struct Firmware {
    config: Config,
    counters: Counters,
}

#[allow(unused_variables, clippy::unused_self, reason = "being built")]
impl Firmware {
    /// A node that knows no one.
    pub fn new(config: Config) -> Self {
        Self { config, counters: Counters::default() }
    }

    // ---- posts ----

    /// Opens an endpoint, so that messages for it are taken.
    pub fn open_endpoint(&mut self, endpoint: u16) -> Result<(), PostError> {
        Ok(())
    }

    /// Closes an endpoint: its receives end with `EndpointClosed`, its unexpected messages are given up.
    pub fn close_endpoint(&mut self, now: Time, endpoint: u16) {}

    /// Posts a message to send.
    pub fn post_send(
        &mut self,
        now: Time,
        send: SendDescriptor,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        Err(PostError::Busy)
    }

    /// Posts a receive; an unexpected message that fits completes it at once.
    pub fn post_receive(
        &mut self,
        now: Time,
        receive: ReceiveDescriptor,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        Err(PostError::Busy)
    }

    /// Tries to cancel. True: a completion with `Cancelled` follows. False: too late, it ends as it will.
    pub fn cancel(&mut self, now: Time, op: OpId) -> bool {
        false
    }

    /// Looks for the first unexpected message that `selector` accepts; with `claim` sets it aside for one receive.
    pub fn probe(&mut self, endpoint: u16, selector: Selector, claim: bool) -> Option<ProbeInfo> {
        None
    }

    /// Gives up a claimed message.
    pub fn discard(&mut self, now: Time, claim: crate::descriptor::ClaimId) -> bool {
        false
    }

    /// Learns out of band where a node may be (for example from an MPI's launcher). Used when it is first needed.
    pub fn hint(&mut self, node: NodeId, link: LinkIndex, address: LinkAddress) {}

    /// Asks who is at an address. The answer, if any, comes as [`NodeEvent::Found`]. Asked once: repeat as you like.
    pub fn resolve(&mut self, now: Time, link: LinkIndex, address: LinkAddress) {}

    /// Changes how many frames one acknowledgement covers, at once and for all peers (E24).
    pub fn set_collection(&mut self, frames: u32) {}

    /// Says goodbye to every peer. Call when [`is_drained`](Self::is_drained) or when tired of waiting.
    pub fn close(&mut self, now: Time) {}

    // ---- events in ----

    /// Takes a frame that a link received. Anything that is not a valid frame for this node is counted and dropped.
    pub fn handle_frame(
        &mut self,
        now: Time,
        link: LinkIndex,
        from: LinkAddress,
        frame: &[u8],
        memory: &mut impl HostMemory,
    ) {
    }

    /// To be called when [`poll_timeout`](Self::poll_timeout)'s time has come. Harmless at other times.
    pub fn handle_timeout(&mut self, now: Time, memory: &mut impl HostMemory) {}

    // ---- actions out ----

    /// Adds frames to `batch` until it is full or there is nothing to send now; returns how many.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        memory: &mut impl HostMemory,
        batch: &mut TransmitBatch,
    ) -> usize {
        0
    }

    /// The next operation that ended.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        None
    }

    /// The next thing that happened to a peer.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        None
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called next. `None`: nothing is due, the node is idle.
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    // ---- getters ----

    /// The node's identity.
    pub fn node(&self) -> NodeId {
        self.config.node
    }

    /// The node's epoch.
    pub fn epoch(&self) -> Epoch {
        Epoch::new(self.config.epoch)
    }

    /// The protocol parameters in force.
    pub fn profile(&self) -> &Profile {
        &self.config.profile
    }

    /// Counts since the start.
    pub fn counters(&self) -> Counters {
        self.counters.clone()
    }

    /// True if nothing that was sent waits for an acknowledgement and nothing waits to be sent.
    pub fn is_drained(&self) -> bool {
        true
    }

    /// True if a message is arriving, or pulls are under way: work that must go on even if the application is silent.
    pub fn is_receiving(&self) -> bool {
        false
    }

    /// Slots of the pool that are free, and all slots: they agree when nothing is held.
    pub fn pool_slots(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Largest payload of a message of one frame towards any peer: the limit of buffered sends.
    pub fn single_frame_bytes_max(&self) -> usize {
        0
    }

    /// Peers known.
    pub fn peers(&self) -> usize {
        0
    }

    /// The link that frames to a peer take now, if it is known.
    pub fn route(&self, node: NodeId) -> Option<(LinkIndex, LinkAddress)> {
        None
    }
}
