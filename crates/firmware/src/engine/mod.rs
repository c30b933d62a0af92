//! The firmware as its caller sees it: posts, events, actions, getters.

pub(crate) mod absence;
mod acquaintances;
mod assembly;
mod cancelling;
mod carrier;
mod claims;
mod contact;
mod control_frames;
mod dispatch;
mod ended;
pub(crate) mod halves;
pub(crate) mod landing;
mod limited;
mod links;
mod long_frames;
mod looks;
mod posts;
mod relays;
mod seek;
pub(crate) mod shown;
mod size_search;
mod usage;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use arrayvec::ArrayVec;
use emp_wire::{Epoch, LinkAddress, NodeId, TAG_EVERYONE};

use crate::counters::{Counter, Counters};
use crate::cross::Cross;
use crate::descriptor::{
    ClaimId, Completion, OpId, PostError, ProbeInfo, ReceiveDescriptor, Selector, Status,
};
use crate::engine::acquaintances::Acquaintances;
use crate::engine::assembly::Assembly;
use crate::engine::carrier::Carriers;
use crate::engine::ended::Silent;
use crate::engine::links::{LinkBits, are_apt};
use crate::engine::relays::Relays;
use crate::event::{Limit, NodeEvent};
use crate::limits::{EVENTS_MAX, PATHS_MAX, push_bounded};
use crate::link::LinkIndex;
use crate::link::LinkInfo;
use crate::memory::HostMemory;
use crate::pair::Peers;
use crate::pair::greetings::Greetings;
use crate::pair::routes::Routes;
use crate::path::mtu::SizeSearches;
use crate::path::unit::Units;
use crate::path::{Hop, PathId, PathInUse};
use crate::profile::Profile;
use crate::receive::ReceiveSide;
use crate::send::{Outlet, SendSide};
use crate::stage::Stage;
use crate::time::{Span, Time};
use crate::transmit::TransmitBatch;

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
    /// The links, best first: a node that answers on several is reached over the first that brings an answer.
    pub links: Vec<LinkInfo>,
    /// Seed of all randomness: secret, as nonces are only as hard to guess as it is. Draw it from the system's generator.
    pub seed: u64,
}

/// Times after which a silent peer counts as lost that a departed one is remembered at least: it is as patient as we are, and
/// gives up the pair within one of them, or hears of our new epoch.
const DEPARTED_SILENCES: u64 = 4;

/// Bytes of a message that are read from its sender's memory before acknowledgements leave: a copy of some 30 µs, half of
/// what an acknowledgement may wait for data to ride on.
const FETCH_AT_ONCE_BYTES: u64 = 256 << 10;

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
    pub(crate) name: String,
    pub(crate) links: Vec<LinkInfo>,
    pub(crate) profile: Profile,
    pub(crate) assembly: Assembly,
    pub(crate) peers: Peers,
    pub(crate) send: SendSide,
    pub(crate) receive: ReceiveSide,
    pub(crate) cross: Cross,
    /// What the send side was told while it was busy.
    told: halves::Told,
    pub(crate) routes: Routes,
    pub(crate) sizes: SizeSearches,
    pub(crate) counters: Counters,
    pub(crate) events: VecDeque<NodeEvent>,
    pub(crate) loopback: TransmitBatch,
    pub(crate) scratch: Box<[u8]>,
    /// The node closes, and has said so many of its goodbyes.
    pub(crate) closing: Option<u32>,
    /// When peers that owe us something are looked after next.
    pub(crate) watch_at: Option<Time>,
    /// Those peers, and since when (in milliseconds, wrapping), by index.
    pub(crate) watched: Vec<(u32, u32)>,
    /// Peers whose hosts may be asked what became of them.
    pub(crate) silent: Silent,
    /// Names of those who asked for this node, until they are met.
    pub(crate) names: claims::Names,
    /// Epochs that peers have left: who comes back to one is two.
    pub(crate) former: claims::Former,
    /// Who was told lately that its frames miss this node.
    pub(crate) greetings: Greetings,
    /// Nothing came in for long, and what waits in the links may be as old (`CRC-5`).
    pub(crate) distrusts: bool,
    /// When an event last came in.
    pub(crate) ran_at: Time,
    /// Links that nothing can cross now.
    /// Questions after paths that bring nothing: nonce, peer, path.
    pub(crate) doubted: VecDeque<(u64, u32, PathId)>,
    pub(crate) carriers: Carriers,
    /// What relays bring, and what is sent on for others.
    pub(crate) relays: Relays,
    /// Peers that were asked where others are.
    pub(crate) acquaintances: Acquaintances,
}

impl Firmware {
    /// A node that knows no one.
    pub fn new(config: Config) -> Self {
        let Config { node, epoch, name, profile, links, seed } = config;
        let apt = are_apt(&links, &profile);
        let LinkBits { segmenting, summing, long, deep } = LinkBits::of(&links, &profile);
        let units = Units::new(long, deep);
        let who = (node, Epoch::new(epoch));
        let peers = Peers::new(who, profile.peers_max, &links, apt, units);
        let mut send = SendSide::new(profile.clone(), segmenting, summing);
        send.times_messages = peers.costs.are_corrected();
        let loopback_bytes = usize::from(peers.lengths.usual());
        Self {
            name,
            links,
            assembly: Assembly::new(),
            peers,
            send,
            receive: ReceiveSide::new(profile.clone()),
            cross: Cross::new(),
            told: halves::Told::new(),
            routes: Routes::new(seed ^ u64::from(epoch)),
            sizes: SizeSearches::new(),
            counters: Counters::default(),
            events: VecDeque::new(),
            loopback: TransmitBatch::new(loopback_bytes),
            scratch: vec![0; loopback_bytes].into_boxed_slice(),
            profile,
            closing: None,
            watch_at: None,
            watched: Vec::new(),
            silent: Silent::default(),
            names: claims::Names::default(),
            former: claims::Former::default(),
            greetings: Greetings::new(),
            distrusts: false,
            ran_at: Time::default(),
            doubted: VecDeque::new(),
            carriers: Carriers::default(),
            relays: Relays::new(),
            acquaintances: Acquaintances::new(),
        }
    }

    // ---- posts ----

    /// Opens an endpoint, so that messages for it are taken. Opening an open one changes nothing.
    pub fn open_endpoint(&mut self, endpoint: u16) -> Result<(), PostError> {
        let opened = self.receive.open_endpoint(endpoint);
        self.aloud(opened)
    }

    /// Too many operations have ended that the host has not asked for.
    pub(crate) fn is_full_of_completions(&self) -> bool {
        let held = self.send.completions.len() + self.receive.completions.len();
        held >= self.profile.completions_max()
    }

    /// Posts a receive; an unexpected message that fits completes it at once.
    pub fn post_receive(
        &mut self,
        now: Time,
        receive: ReceiveDescriptor,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        self.post_receive_for(now, receive, None, memory)
    }

    #[inline]
    fn post_receive_for(
        &mut self,
        now: Time,
        receive: ReceiveDescriptor,
        least_free: Option<u64>,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        if self.closing.is_some() {
            return Err(PostError::Closing);
        }
        if self.is_full_of_completions() {
            return Err(PostError::Busy);
        }
        let directed = receive.selector.from != NodeId::ANY;
        self.receive.set_time(now);
        let op = self.receive.post(receive, least_free, memory);
        let op = self.aloud(op)?;
        if directed {
            self.watch(now);
        }
        self.relay(now);
        Ok(op)
    }

    /// Posts a receive for several messages, one behind the other in its buffer, until fewer than `least_free` bytes are free. Each has a
    /// completion of its own, which says [where](Completion::place) it is; the buffer is the host's again with the one that does not say that
    /// [more follow](BufferPlace::is_more). Cancelled, it ends with another completion when the messages under way have ended.
    pub fn post_multi_receive(
        &mut self,
        now: Time,
        receive: ReceiveDescriptor,
        least_free: u64,
        memory: &mut impl HostMemory,
    ) -> Result<OpId, PostError> {
        self.post_receive_for(now, receive, Some(least_free), memory)
    }

    /// The application has not yet asked for so many completions that the host has taken: what bounds receives for several messages.
    #[inline]
    pub fn set_unread(&mut self, completions: usize) {
        self.receive.unread = completions;
    }

    /// Frames that are handed over from now on may have waited for so long in their link, because nobody looked: no delay of the path.
    #[inline]
    pub fn set_unseen(&mut self, unseen: Span) {
        let unseen_us = (unseen.0 / 1_000).min(u64::from(u16::MAX)) as u16;
        (self.receive.unseen_us, self.send.unseen_us) = (unseen_us, unseen_us);
    }

    /// Frames that are handed over from now on were marked by the network: congestion experienced (ECN, RFC 3168; `ACK-9`). Or they were not.
    #[inline]
    pub fn set_marked(&mut self, marked: bool) {
        self.receive.marked = marked;
    }

    /// Looks for the first unexpected message that `selector` accepts; with `claim` sets it aside for one receive.
    pub fn probe(&mut self, endpoint: u16, selector: Selector, claim: bool) -> Option<ProbeInfo> {
        self.receive.probe(endpoint, &selector, claim)
    }

    /// Gives up a claimed message. False: there is no such claim (any more).
    pub fn discard(&mut self, now: Time, claim: ClaimId) -> bool {
        let discarded = self.receive.discard(claim);
        self.relay(now);
        discarded
    }

    /// Learns out of band where a node may be (for example from an MPI's launcher). Used when it is first needed.
    pub fn hint(&mut self, node: NodeId, link: LinkIndex, address: LinkAddress) {
        if usize::from(link.0) < self.links.len() {
            self.routes.hint(node, link, address);
        }
    }

    /// Asks at an address for a node, or with [`NodeId::ANY`] who is there: if several are, one of them may be all that hears
    /// it. The answer, if any, comes as [`NodeEvent::Found`]. Asked once: repeat as you like. At [`LinkAddress::BEYOND`] relays are asked for a
    /// node, by links that lead to such (`RELAY-10`), and for whoever has the name of which that is the identity (`RELAY-11`); each time is a
    /// flood, so that more and more seldom is better.
    pub fn resolve(&mut self, _now: Time, link: LinkIndex, address: LinkAddress, node: NodeId) {
        let Some(info) = self.links.get(usize::from(link.0)) else { return };
        let may_relay = info.hops_from.is_some() && node != NodeId::ANY;
        if address != LinkAddress::BEYOND || may_relay {
            let by_name = address == LinkAddress::BEYOND;
            let everyone = by_name || node == NodeId::ANY;
            let tag = if everyone { TAG_EVERYONE } else { node.destination_tag() };
            self.ask_address(link, address, (node, tag), false);
        }
    }

    /// Changes how many frames one acknowledgement covers, at once and for all peers (E24).
    pub fn set_collection(&mut self, frames: u32) {
        self.profile.collection = frames.max(1);
        self.receive.set_collection(frames);
        self.send.set_collection(frames);
    }

    /// The same for one peer, which keeps it until [`set_collection`](Self::set_collection) is called (E24: "per application"). False: it is
    /// not known.
    pub fn set_collection_of(&mut self, node: NodeId, frames: u32) -> bool {
        let Some(peer) = self.peers.find(node) else { return false };
        self.receive.set_collection_of(peer, frames);
        self.send.set_collection_of(peer, frames);
        true
    }

    /// Whether frames of one train are built in one go (at first they are) or one by one. Nothing that can be seen from
    /// outside depends on it but the time that it takes: tests hold the one against the other.
    pub fn set_whole_trains(&mut self, whole: bool) {
        self.send.whole_trains = whole;
    }

    /// Says goodbye to every peer; posts are refused from now on. Call when [`is_drained`](Self::is_drained), or when
    /// tired of waiting for that, and send what [`poll_transmit`](Self::poll_transmit) then gives: acknowledgements and
    /// goodbyes, as what is cut short would only keep those from leaving.
    pub fn close(&mut self, _now: Time) {
        self.closing.get_or_insert(0);
    }

    // ---- actions out (events in are in `dispatch.rs`) ----

    /// Adds frames to `batch` until it is full or there is nothing to send now; returns how many.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        memory: &mut impl HostMemory,
        batch: &mut TransmitBatch,
    ) -> usize {
        let before = batch.frames().len();
        let outer = memory.enter(Stage::ReceiveAcknowledgement);
        self.send.settle_acks(now);
        memory.enter(Stage::Transmission);
        self.fetch(now, memory, FETCH_AT_ONCE_BYTES);
        self.emit(now, memory, batch);
        if batch.frames().len() == before && self.receive.is_fetching() {
            // Nothing waited to leave: acknowledgements are not held up by a long copy.
            self.fetch(now, memory, u64::MAX);
            self.emit(now, memory, batch);
        }
        let sliced = batch.take_sliced();
        self.counters.add(Counter::FramesSliced, sliced);
        memory.leave(outer);
        batch.frames().len() - before
    }

    /// Everything that may leave now, in order of urgency.
    fn emit(&mut self, now: Time, memory: &mut impl HostMemory, batch: &mut TransmitBatch) {
        if self.closing.is_some() {
            self.emit_acks(now, true, (memory, batch));
            return self.emit_closes((memory, batch));
        }
        // Whoever asks again and again, or as many as ask at once, keeps no acknowledgement from leaving.
        self.emit_contacts(batch, TransmitBatch::FRAMES_MAX / 2);
        self.emit_not_ready(now, (memory, batch));
        self.emit_acks(now, true, (memory, batch));
        // A `done` that has waited with an acknowledgement leaves with it.
        self.relay(now);
        self.turn_loopback(now, memory);
        let share = self.transit_share(batch);
        self.emit_transit(batch, share);
        let before = batch.frames().len();
        let (peers, cross, replies) = (&self.peers, &self.cross, Some(&mut self.receive.replies));
        self.send.poll(now, &mut Outlet { peers, cross, replies, memory, batch });
        if share > 0 {
            self.note_own(batch.frames().len() - before);
        }
        // What was to ride, and did not.
        self.emit_acks(now, false, (memory, batch));
        self.emit_transit(batch, usize::MAX);
        self.emit_contacts(batch, usize::MAX);
        self.relay(now);
    }

    /// Reads some of the next message that peers of this machine have named, if at most `bytes_max` are left of it.
    fn fetch(&mut self, now: Time, memory: &mut impl HostMemory, bytes_max: u64) {
        if !self.receive.is_fetching() {
            return;
        }
        if let Some(gone) = self.receive.fetch_some(&self.peers, memory, bytes_max) {
            self.give_up(now, gone, Status::Unreachable);
        }
        self.relay(now);
    }

    /// The next operation that ended.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.receive.next_completion().or_else(|| self.send.completions.pop_front())
    }

    /// A notification that was polled still waits for the application: it counts until it is released, so that
    /// peers who notify faster than the application looks hear "not ready" (`NOTIFICATIONS_MAX`).
    pub fn keep_notification(&mut self) {
        self.receive.notifications += 1;
    }

    /// The application has taken so many of the notifications that were kept.
    pub fn release_notifications(&mut self, count: usize) {
        let left = &mut self.receive.notifications;
        *left = left.saturating_sub(count);
    }

    /// The next thing that happened to a peer.
    pub fn poll_event(&mut self) -> Option<NodeEvent> {
        self.events.pop_front()
    }

    // ---- getters ----

    /// The node's identity.
    pub fn node(&self) -> NodeId {
        self.peers.own
    }

    /// The node's epoch.
    pub fn epoch(&self) -> Epoch {
        self.peers.own_epoch
    }

    /// The protocol parameters in force.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Counts since the start.
    pub fn counters(&self) -> Counters {
        let mut all = self.counters.clone();
        all.merge(&self.send.counters);
        all.merge(&self.receive.counters);
        all
    }

    /// True if nothing that was sent waits for an acknowledgement and nothing waits to be sent.
    pub fn is_drained(&self) -> bool {
        let speaks = self.receive.has_due_acks() || self.receive.has_any_waiting_done();
        self.send.is_drained() && !speaks
    }

    /// Messages and puts whose host was told that they are over, as they were copied, and which are not known to have
    /// been delivered: who each is for.
    pub fn undelivered(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.send.undelivered()
    }

    /// True if a message is arriving, or pulls are under way: work that must go on even if the application is silent.
    pub fn is_receiving(&self) -> bool {
        self.receive.is_receiving()
    }

    /// True if a message waits or arrives, so that a receive that is posted may have something to do.
    #[inline]
    pub fn has_arrivals(&self) -> bool {
        self.receive.has_arrivals()
    }

    /// Messages so far that no receive was posted for when they came, those among them that there was no room for counted
    /// each time that they were turned away.
    #[inline]
    pub fn unexpected_so_far(&self) -> u64 {
        self.receive.counters.get(Counter::Unexpected) + self.counters.get(Counter::NotTaken)
    }

    /// Slots of the pool that are free, and all slots, cells included: they agree when nothing is held.
    pub fn pool_slots(&self) -> (usize, usize) {
        let (send, receive) = (self.send.pool.slots(), self.receive.pool.slots());
        let (replies, cells) = (self.receive.replies.slots(), self.receive.pool.cells());
        let all = send.1 + receive.1 + replies.1 + self.profile.incoming_max;
        (send.0 + receive.0 + replies.0 + self.profile.incoming_max - cells, all)
    }

    /// Peers known.
    pub fn peers(&self) -> usize {
        self.peers.len() as usize
    }

    /// The link that frames to a peer take now, if it is known.
    pub fn route(&self, node: NodeId) -> Option<(LinkIndex, LinkAddress)> {
        let peer = self.peers.peek(node)?;
        let route = self.peers[peer].route().map(|(link, address)| (link, *address));
        route.filter(|(_, address)| *address != LinkAddress::LOOPBACK)
    }

    /// Where a node is said to be, or was when it was given up: by which links, and at which addresses.
    pub fn places(&self, node: NodeId) -> &[(LinkIndex, LinkAddress)] {
        self.routes.hints(node)
    }

    /// The paths to a peer: the first of them first. Empty: it is not known, or nowhere.
    pub fn paths(&self, node: NodeId) -> ArrayVec<PathInUse, PATHS_MAX> {
        let Some(peer) = self.peers.peek(node) else { return ArrayVec::new() };
        let paths = self.peers.paths(peer);
        let in_use = |(path, (link, to)): (PathId, Hop<'_>)| PathInUse {
            link,
            address: *to,
            first: path == PathId::FIRST,
            frame_bytes_max: paths.bytes(path).into(),
            long_frames: paths.is_long(path),
        };
        paths.each().map(in_use).collect()
    }

    /// Notes an event for the host; if nobody asks for them the oldest go.
    pub(crate) fn push_event(&mut self, event: NodeEvent) {
        push_bounded(&mut self.events, event, EVENTS_MAX);
    }

    /// Adds a peer to the table and to both sides. The node itself is found at once.
    pub(crate) fn add_peer(&mut self, now: Time, node: NodeId) -> Option<u32> {
        let Some(peer) = self.peers.add(node) else {
            let peer = self.add_in_place_of_departed(now, node);
            if peer.is_none() {
                self.receive.reached.note(Limit::Peers);
                self.tell_limits();
            }
            return peer;
        };
        let is_self = node == self.peers.own;
        self.send.add_peer(is_self);
        self.receive.add_peer();
        self.cross.add_peer(self.receive.first);
        if is_self {
            self.peers.set_remote_epoch(peer, self.peers.own_epoch);
            let loopback = (LinkIndex(u8::MAX), LinkAddress::LOOPBACK);
            self.peers.set_route(now, peer, loopback, self.peers.lengths.usual());
            self.send.found(peer, now);
        }
        Some(peer)
    }

    /// The table is full: the peer that left first makes room, if it left so long ago that it must have noticed, too, and
    /// will not go on with the pair that was given up (`EPOCH-4`).
    fn add_in_place_of_departed(&mut self, now: Time, node: NodeId) -> Option<u32> {
        let age = self.profile.unreachable_after.0 * DEPARTED_SILENCES;
        let (send, receive, routes) = (&self.send, &self.receive, &self.routes);
        let is_gone =
            |peer| !send.is_active(peer) && !routes.searches.contains(peer) && !receive.holds(peer);
        let departed = now.0.checked_sub(age).map(Time);
        let peer = self.peers.take_departed(departed?, is_gone)?;
        self.peers.replace(peer, node);
        self.counters.count(Counter::PeersForgotten);
        Some(peer)
    }
}
