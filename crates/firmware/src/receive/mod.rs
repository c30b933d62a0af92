//! The receive side: receive bookkeeping, placement, matching, sequence, and what is owed to the sender (I4–I6).
//!
//! It shares nothing with the send side; they talk through [`cross`](crate::cross).

use alloc::vec::Vec;

mod acknowledge;
mod atomics;
mod bins;
mod bookkeeping;
mod credit;
mod describe;
mod direct;
mod directed;
mod early;
mod fetching;
mod frame;
mod holdings;
mod kept;
mod matching;
mod multi;
mod ordering;
mod placement;
mod pulling;
mod pulls;
mod puts;
mod regions;
mod runs;
mod sequence;
mod shown;
mod store;
mod unasked;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use emp_wire::{AtomicOp, Datatype, DoneStatus, NodeId, NotReadyCause, Sequence};
use hashbrown::HashMap;

use crate::counters::Counters;
use crate::cross::{Control, FirstNumbers, Replies, ToSend};
use crate::descriptor::{Completion, Selector};
use crate::event::Reached;
use crate::limits::{GETS_MAX, POOL_BYTES, Pressure};
use crate::memory::SegmentList;
use crate::path::PathId;
use crate::pool::{Chain, Pool};
use crate::profile::{Collections, Profile};
use crate::tables::by_peer::{ByPeer, Links, List};
use crate::tables::per_peer::PerPeer;
use crate::tables::slots::Slots;

pub(crate) use acknowledge::{AckOut, IDLE};
use pulling::Pulling;
pub(crate) use runs::{Outline, Run, Taken};
use sequence::Received;

/// End of a list of incoming messages.
const NONE: u32 = u32::MAX;

/// A posted receive.
struct Posted {
    endpoint: u16,
    selector: Selector,
    segments: SegmentList,
    context: u64,
    /// It was matched to a message, which arrives.
    bound: bool,
    /// What it has if it is for several messages, or [`NONE`].
    multi: u32,
    /// Its number among all posts.
    post: u64,
}

/// Where a message's bytes go.
enum Place {
    /// To a posted receive.
    Posted(frame::Spot),
    /// To the pool, until one is posted.
    Pool(Chain),
    /// To what a get or fetching atomic of this node names.
    Fetch(u32),
    /// To a region, from this offset on: a put whose turn it was.
    Region { region: u32, offset: u64 },
    /// Nowhere: there was no room. All of it will be pulled when it is matched.
    Later,
}

/// What a message is for.
#[derive(Clone, Copy, Debug)]
enum Wants {
    /// For a posted receive.
    Receive,
    /// For a region, whose key stands in place of match bits.
    Put { generation: u32, offset: u64 },
    /// To change elements of a region; with `fetch`, and to bring back the old values.
    Atomic {
        generation: u32,
        offset: u64,
        operation: AtomicOp,
        datatype: Datatype,
        count: u32,
        fetch: bool,
    },
}

/// A message that arrives or waits to be matched.
struct Incoming {
    peer: u32,
    wants: Wants,
    /// Room among the replies that an atomic has been promised before its turn.
    reply: Option<u32>,
    /// Room among the notifications that a put has been promised.
    notifies: bool,
    node: NodeId,
    number: u32,
    endpoint: u16,
    source_endpoint: u16,
    match_bits: u64,
    immediate: Option<u64>,
    total: u64,
    unscheduled: u32,
    first_payload: u32,
    fragment: u16,
    handle: u32,
    synchronous: bool,
    void: bool,
    /// Sequence number of its first frame: the name of its train.
    first: Sequence,
    /// Bytes of the unscheduled part that are here.
    received: u32,
    /// A frame of its train was withdrawn: another copy of it comes.
    withdrawn: bool,
    place: Place,
    /// The sender is told, whenever it sends the message again, that its bytes were not stored and will be pulled (`READY-1`).
    deferred: Option<NotReadyCause>,
    early: bool,
    claimed: bool,
    /// Its train is under way in long frames, which are put where they belong by links that can.
    lands: bool,
    /// When it came for an endpoint that is not open, in milliseconds (wrapping).
    without_endpoint_ms: Option<u32>,
    /// The last bytes of a put, until the others are in their place.
    kept: Option<Box<kept::Kept>>,
    /// What is pulled of it.
    pulling: Pulling,
    /// Where its sender has it, if that may be read.
    direct: Option<Box<direct::Direct>>,
    /// Next in the peer's list of messages whose train is not wholly here.
    next_progress: u32,
}

impl Incoming {
    /// All of the unscheduled part is here (or will be pulled).
    fn train_complete(&self) -> bool {
        matches!(self.place, Place::Later) || self.received == self.unscheduled
    }

    /// The sender waits for a `done`.
    fn needs_done(&self) -> bool {
        self.deferred.is_some()
            || self.synchronous
            || u64::from(self.unscheduled) < self.total
            || !matches!(self.wants, Wants::Receive)
    }

    /// What tells its sender how it ended.
    const fn answer(&self, status: DoneStatus) -> Control {
        let handle = self.handle;
        match self.wants {
            Wants::Atomic { fetch: true, .. } => Control::Reply { handle, status, values: None },
            _ => Control::Done { handle, status },
        }
    }
}

/// An open endpoint: receives in post order, unexpected messages in their senders' order.
#[derive(Default)]
struct Endpoint {
    posted: List,
    posted_count: usize,
    /// Where they are found if they are many.
    wanted: Option<Box<bins::Wanted>>,
    unexpected: List,
    unexpected_count: usize,
    /// The same of these.
    waiting: Option<Box<bins::Waiting>>,
}

/// A peer as the receive side sees it. Small: there may be a hundred thousand idle ones.
struct ReceivePeer {
    received: Received,
    next_number: u32,
    progress: u32,
    early_count: u16,
    ack: acknowledge::Owed,
}

/// A first frame that was not taken, and why.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotTaken {
    pub(crate) peer: u32,
    /// The path that it came by, and the answer leaves by.
    pub(crate) path: PathId,
    pub(crate) number: u32,
    pub(crate) sequence: Sequence,
    pub(crate) cause: NotReadyCause,
}

/// The receive side of a node.
pub(crate) struct ReceiveSide {
    profile: Profile,
    collections: Collections,
    pub(crate) counters: Counters,
    /// For so long nobody may have looked for what comes now, in microseconds.
    pub(crate) unseen_us: u16,
    /// What comes now was marked by the network: congestion experienced (`ACK-9`).
    pub(crate) marked: bool,
    pub(crate) completions: VecDeque<Completion>,
    pub(crate) to_send: VecDeque<ToSend>,
    peers: PerPeer<ReceivePeer>,
    /// Endpoint number to index, plus one; 0 is not open.
    endpoint_index: Vec<u16>,
    endpoints: Vec<Option<Endpoint>>,
    open: usize,
    /// Messages for endpoints that are not open, in order of arrival.
    without_endpoint: List,
    without_endpoint_count: usize,
    /// The same by the number of their endpoint.
    without_endpoint_by_number: ByPeer,
    /// Messages in these lists, and in those of endpoints.
    waiting: Links,
    posted: Slots<Posted>,
    /// Those that wait for messages, in the lists of endpoints.
    posted_links: Links,
    /// There is no room for more, or there was none.
    posting: Pressure,
    /// Receives posted so far, and which of them wait for a node by name.
    posts: u64,
    directed: directed::Directed,
    multis: Slots<multi::Multi>,
    /// Completions that the host has taken and the application has not.
    pub(crate) unread: usize,
    incoming: Slots<Incoming>,
    /// There is no room for more, or there was none.
    arriving: Pressure,
    pub(crate) reached: Reached,
    incoming_of: ByPeer,
    pub(crate) pool: Pool,
    pulls: pulls::Pulls,
    /// Peers that are reached over several interfaces, and over how many.
    lanes: HashMap<u32, u32>,
    /// What is asked of whom.
    credit: credit::Credit<pulling::Puller>,
    /// What is granted to whom to be sent unasked.
    grants: unasked::Grants,
    /// Messages that go to a posted receive.
    bound: usize,
    /// Messages that [`lands`](Incoming::lands) says it of.
    long_trains: u32,
    /// Messages that are read from their senders' memory, by index and generation.
    direct: VecDeque<(u32, u32)>,
    acks: acknowledge::AckQueues,
    /// Messages that were not taken, of which their senders are still to be told.
    pub(crate) not_ready: VecDeque<NotTaken>,
    pub(crate) regions: regions::Regions,
    /// What atomics fetched.
    pub(crate) replies: Replies,
    /// Gets and fetching atomics of this node.
    fetches: Slots<fetching::Fetch>,
    fetches_of: ByPeer,
    /// Puts that are arriving, and what may not be told before they are here.
    order: ordering::Order,
    /// Messages before their turn, and those that are deferred, by peer and number.
    named: HashMap<(u32, u32), u32>,
    /// Notifications that wait for the host, or were promised to puts.
    pub(crate) notifications: usize,
    /// Where atomics are computed.
    scratch: Vec<u8>,
    pub(crate) first: FirstNumbers,
}

impl ReceiveSide {
    pub(crate) fn new(profile: Profile) -> Self {
        let (operations, messages) = (profile.operations_max, profile.incoming_max);
        let regions = profile.regions_max;
        let pool = Pool::with_cells(POOL_BYTES, messages);
        let usual = profile.eager_bytes;
        let unasked = (usual, usual.max(profile.long_eager_bytes));
        let spared = pool.bytes_free() / 2;
        let grants = unasked::Grants::new(profile.unasked_bytes_max, unasked, spared);
        Self {
            profile,
            collections: Collections::default(),
            counters: Counters::default(),
            unseen_us: 0,
            marked: false,
            completions: VecDeque::new(),
            to_send: VecDeque::new(),
            peers: PerPeer::new(),
            endpoint_index: Vec::new(),
            endpoints: Vec::new(),
            open: 0,
            without_endpoint: List::default(),
            without_endpoint_count: 0,
            without_endpoint_by_number: ByPeer::default(),
            waiting: Links::default(),
            posted: Slots::new(operations),
            posted_links: Links::default(),
            posting: Pressure::default(),
            posts: 0,
            directed: directed::Directed::default(),
            multis: Slots::new(operations),
            unread: 0,
            incoming: Slots::new(messages),
            arriving: Pressure::default(),
            reached: Reached::default(),
            incoming_of: ByPeer::default(),
            pool,
            pulls: pulls::Pulls::default(),
            lanes: HashMap::new(),
            credit: credit::Credit::new(),
            grants,
            bound: 0,
            long_trains: 0,
            direct: VecDeque::new(),
            acks: acknowledge::AckQueues::default(),
            not_ready: VecDeque::new(),
            regions: regions::Regions::new(regions),
            replies: Replies::new(),
            fetches: Slots::new(GETS_MAX),
            fetches_of: ByPeer::default(),
            order: ordering::Order::default(),
            named: HashMap::new(),
            notifications: 0,
            scratch: Vec::new(),
            first: FirstNumbers::default(),
        }
    }

    /// A peer was added to the node's table, at the next index.
    pub(crate) fn add_peer(&mut self) {
        self.peers.push(ReceivePeer::new(self.first));
    }

    pub(crate) fn set_collection(&mut self, frames: u32) {
        self.profile.collection = frames.max(1);
        self.collections.clear();
    }

    pub(crate) fn set_collection_of(&mut self, peer: u32, frames: u32) {
        self.collections.set(peer, frames);
    }

    /// Some message is not wholly here.
    pub(crate) fn has_arrivals(&self) -> bool {
        self.incoming.len() > 0 || self.fetches.len() > 0
    }

    /// Peers that still owe us parts of a message, in no order, and some of them more than once.
    pub(crate) fn peers_with_arrivals(&self) -> Vec<u32> {
        let arrive = |peer: &u32| {
            let ReceivePeer { progress, early_count, .. } = self.peers[*peer];
            progress != NONE || early_count > 0
        };
        let arriving = self.incoming_of.peers().filter(arrive);
        arriving.chain(self.credit.asked_peers()).chain(self.fetches_of.peers()).collect()
    }

    /// True if a message of this peer is still here, be it one that was whole when the peer left.
    pub(crate) fn holds(&self, peer: u32) -> bool {
        self.incoming_of.has(peer)
    }

    /// A message is on its way into a posted buffer, or being pulled.
    pub(crate) fn is_receiving(&self) -> bool {
        self.bound > 0 || self.pulls.len() > 0 || self.fetches.len() > 0 || !self.order.is_idle()
    }
}

impl ReceivePeer {
    const fn new(first: FirstNumbers) -> Self {
        Self {
            received: Received::new(first.sequence),
            next_number: first.message,
            progress: NONE,
            early_count: 0,
            ack: acknowledge::Owed::new(),
        }
    }
}
