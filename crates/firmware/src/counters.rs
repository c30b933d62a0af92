//! What the firmware counts. Every frame that is dropped has a reason, and every reason a counter.

use emp_wire::Reason;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// Names of the counters.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(usize)]
        pub enum Counter { $($(#[$doc])* $name,)* }

        impl Counter {
            /// Every counter, in order.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in tables and files.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

counters! {
    /// Sequenced frames sent for the first time.
    FramesSent = "frames_sent",
    /// Sequenced frames sent again.
    FramesResent = "frames_resent",
    /// Explicit acknowledgements sent.
    AcksSent = "acks_sent",
    /// Acknowledgements that rode on data.
    AcksPiggybacked = "acks_piggybacked",
    /// Frames taken: valid, for us, from a known peer and epoch.
    FramesReceived = "frames_received",
    /// Messages sent and complete.
    MessagesSent = "messages_sent",
    /// Messages received and complete.
    MessagesReceived = "messages_received",
    /// Puts complete.
    Puts = "puts",
    /// Gets complete.
    Gets = "gets",
    /// Atomic operations complete.
    Atomics = "atomics",
    /// Puts of peers that are wholly in a region of this node.
    PutsServed = "puts_served",
    /// Blocks of this node's regions that peers asked for.
    GetsServed = "gets_served",
    /// Atomic operations of peers executed.
    AtomicsServed = "atomics_served",
    /// One-sided operations refused: no region of this key (V29).
    RefusedKey = "refused_bad_key",
    /// One-sided operations refused: the region is of another generation.
    RefusedGeneration = "refused_bad_generation",
    /// One-sided operations refused: beyond the region.
    RefusedBounds = "refused_out_of_bounds",
    /// One-sided operations refused: the region does not allow it.
    RefusedRights = "refused_no_rights",
    /// One-sided operations that ended because the region's memory could not be reached.
    RefusedFault = "refused_memory_fault",
    /// Payload bytes placed in posted buffers.
    BytesPlaced = "bytes_placed",
    /// Of the bytes placed, those that the link had put there already: no copy by this process.
    BytesLanded = "bytes_landed",
    /// Payload bytes copied by the firmware beyond that one placement (pool, staging).
    BytesCopied = "bytes_copied",
    /// Payload bytes that were read straight from the memory of their senders (`DIRECT-2`). Also in `bytes_placed`.
    BytesFetched = "bytes_fetched",
    /// Messages whose senders named their memory, but that had to be pulled: it could not be read, or was not theirs any
    /// more.
    FetchRefused = "fetch_refused",
    /// Messages that found no posted receive.
    Unexpected = "unexpected",
    /// Blocks asked for.
    PullsSent = "pulls_sent",
    /// Early retransmissions of a last frame, and questions after a long one.
    TailProbes = "tail_probes",
    /// Retransmission timers that ran out.
    Timeouts = "timeouts",
    /// Times that the node did not run although something was due.
    Absences = "absences",
    /// "Not ready" said.
    NotReadySent = "not_ready_sent",
    /// "Not ready" heard.
    NotReadyReceived = "not_ready_received",
    /// Peers found.
    PeersFound = "peers_found",
    /// Peers given up.
    PeersLost = "peers_lost",
    /// Peers that had long left and whose place another node was given.
    PeersForgotten = "peers_forgotten",
    /// Peers that came back in a new epoch.
    PeersRestarted = "peers_restarted",
    /// Peers that heard nothing of this node for their time and gave it up.
    GivenUp = "given_up",
    /// Sequenced frames that took another path than the first.
    FramesFurther = "frames_further",
    /// Paths found beside a first, or a first found again.
    PathsFound = "paths_found",
    /// Paths that failed: their frames take another.
    PathsFailed = "paths_failed",
    /// Searches for a path or for the longest frame that gets through that did not begin, as too many were under way.
    SearchesRefused = "searches_refused",
    /// Ways by which frames longer than the MTU were found to get through (`LONG-2`).
    LongOpened = "long_opened",
    /// Such ways given up because too many were lost (`LONG-4`).
    LongClosed = "long_closed",
    /// Frames longer than the MTU sent.
    FramesLong = "frames_long",
    /// Messages and blocks of such that were cut anew into shorter ones, as there was no room for longer ones (`LONG-7`).
    CutAnew = "cut_anew",
    /// Peers that take only shorter frames than before.
    PeersLimited = "peers_limited",
    /// Ways on which long frames are lost and short ones are not (`LIMIT-3`).
    PathsLimited = "paths_limited",
    /// Times that longer frames were found to get through to a peer again (`LIMIT-2`).
    PeersRaised = "peers_raised",
    /// Frames that left in slices, being longer than their way takes now.
    FramesSliced = "frames_sliced",
    /// Frames put together from slices.
    FramesAssembled = "frames_assembled",
    /// Dropped: a slice that does not continue what is here of its frame.
    DropSlice = "drop_lone_slice",
    /// Dropped: a long frame without a checksum over its payload that may have waited here for longer than its sender waits (`CRC-5`).
    DropStalePayload = "drop_stale_payload",
    /// Dropped: shorter than a header.
    DropTooShort = "drop_too_short",
    /// Dropped: another version.
    DropVersion = "drop_wrong_version",
    /// Dropped: unknown or not yet spoken kind.
    DropKind = "drop_unknown_kind",
    /// Dropped: length beyond the frame.
    DropLength = "drop_bad_length",
    /// Dropped: body too short for its kind.
    DropBodyShort = "drop_body_short",
    /// Dropped: a field that its kind forbids.
    DropField = "drop_bad_field",
    /// Dropped: names memory on a link to other machines.
    DropPieces = "drop_foreign_memory",
    /// Dropped: checksum.
    DropChecksum = "drop_bad_checksum",
    /// Dropped: for another node.
    DropWrongNode = "drop_wrong_node",
    /// Dropped: for an earlier incarnation of this node.
    DropStaleDestination = "drop_stale_destination",
    /// Dropped: from another incarnation of the peer than the one known.
    DropStaleSource = "drop_stale_source",
    /// Dropped: from a peer that is not known and did not identify itself.
    DropUnknownPeer = "drop_unknown_peer",
    /// Dropped: no room for another peer.
    DropTooManyPeers = "drop_too_many_peers",
    /// Dropped: had arrived before (acknowledged again, V14).
    DropDuplicate = "drop_duplicate",
    /// Dropped: sequence number outside the window.
    DropOutOfWindow = "drop_out_of_window",
    /// Dropped: out of order, and the profile does not take such (V13).
    DropOutOfOrder = "drop_out_of_order",
    /// Dropped: part of a message whose first frame is not here yet.
    DropBeforeMessage = "drop_before_message",
    /// Messages that came before their turn and found no room.
    DropEarly = "drop_early",
    /// First frames of messages that were not taken: answered with "not ready" (`READY-1`).
    NotTaken = "not_taken",
    /// Taken and discarded: part of a message that was not kept or is given up.
    Refused = "discarded_frames",
    /// Dropped: acknowledges what was never sent.
    DropBadAck = "drop_bad_ack",
    /// Dropped: a fragment outside its message, overlapping, or of the wrong length.
    DropBadPlace = "drop_bad_place",
    /// Dropped: names a message or pull that does not exist.
    DropBadHandle = "drop_bad_handle",
    /// Dropped: a hello that nobody here should answer, or too many at a time.
    DropHello = "drop_hello",
    /// Dropped: a reply to a question that was not asked.
    DropBadReply = "drop_bad_reply",
    /// Times that peers were asked where another node is.
    PeersAsked = "peers_asked",
    /// Times that a peer was told where another node is.
    PeersTold = "peers_told",
    /// Hellos to where a peer tells that a node is that is looked for.
    ToldTried = "told_tried",
    /// Addresses that peers told of, and that no node elsewhere has.
    ToldRefused = "told_refused",
    /// Frames of others that this node has sent on as their list of hops says.
    Relayed = "relayed",
    /// Searches of others that it has repeated, on each link once.
    SearchesRelayed = "searches_relayed",
    /// Times that it has told a sender that its frames cannot go on from here.
    CutOffsSent = "cut_offs_sent",
    /// Times that a relay told this node the same, and it left the path.
    CutOffsHeard = "cut_offs_heard",
    /// Dropped: a relay's frame on a link by which none may come.
    DropRelayLink = "drop_relay_link",
    /// Dropped: to be sent on, and this node does not relay.
    DropRelayOff = "drop_relay_off",
    /// Dropped: a list of hops that is too long, a place beyond its end, or no addresses.
    DropHopList = "drop_hop_list",
    /// Dropped: the next hop is no place that frames may be sent on to from here.
    DropHopStranger = "drop_hop_stranger",
    /// Dropped: the next hop is this node, or where the frame came from.
    DropHopSelf = "drop_hop_self",
    /// Dropped: longer than the next hop's link takes.
    DropHopTooLong = "drop_hop_too_long",
    /// Dropped: the next hop's link has no carrier. The sender is told.
    DropHopCut = "drop_hop_cut",
    /// Dropped: too many frames wait to be sent on.
    DropRelayFull = "drop_relay_full",
    /// Dropped: a search that was repeated or answered before.
    DropSearchAgain = "drop_search_again",
    /// Dropped: a search of this node's own that came back.
    DropSearchBack = "drop_search_back",
    /// Dropped: a search that may go no further.
    DropSearchLimit = "drop_search_limit",
    /// Dropped: a search of a neighbour from which too many come.
    DropSearchFlood = "drop_search_flood",
    /// Dropped: what says that frames were cut off which this node has not sent so.
    DropCutOff = "drop_cut_off",
    /// Dropped on the way out: longer than the link takes.
    DropTooLong = "drop_too_long",
    /// Frames to this node itself that found the loopback queue full.
    DropLoopback = "drop_loopback",
}

/// The values.
#[derive(Clone, Debug)]
pub struct Counters {
    values: [u64; Counter::ALL.len()],
}

impl Default for Counters {
    fn default() -> Self {
        Self { values: [0; Counter::ALL.len()] }
    }
}

impl Counters {
    /// The value of one.
    pub fn get(&self, counter: Counter) -> u64 {
        self.values[counter as usize]
    }

    /// Those values, in the order of [`Counter::ALL`]; of fewer, the others are 0. For a host whose firmware is elsewhere.
    pub fn of(values: impl IntoIterator<Item = u64>) -> Self {
        let mut counters = Self::default();
        counters.values.iter_mut().zip(values).for_each(|(into, value)| *into = value);
        counters
    }

    /// All, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Counter::ALL.iter().map(|counter| (counter.name(), self.get(*counter)))
    }

    /// Frames dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.iter().filter(|(name, _)| name.starts_with("drop_")).map(|(_, value)| value).sum()
    }

    #[inline]
    pub(crate) fn add(&mut self, counter: Counter, n: u64) {
        self.values[counter as usize] += n;
    }

    #[inline]
    pub(crate) fn count(&mut self, counter: Counter) {
        self.add(counter, 1);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        for (into, from) in self.values.iter_mut().zip(&other.values) {
            *into += from;
        }
    }
}

impl From<Reason> for Counter {
    fn from(reason: Reason) -> Self {
        match reason {
            Reason::TooShort => Self::DropTooShort,
            Reason::Version => Self::DropVersion,
            Reason::Kind => Self::DropKind,
            Reason::Length => Self::DropLength,
            Reason::BodyShort => Self::DropBodyShort,
            Reason::Field => Self::DropField,
            Reason::Checksum => Self::DropChecksum,
        }
    }
}

/// A table, queue or pool of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Its name.
    pub name: &'static str,
    /// Entries, or slots, in use now; of what there is for each peer, the most that one has.
    pub held: usize,
    /// Most that there may be.
    pub limit: usize,
    /// A node that has nothing to do holds none.
    pub passing: bool,
}

impl Holding {
    pub(crate) const fn new(name: &'static str, held: usize, limit: usize) -> Self {
        Self { name, held, limit, passing: true }
    }

    /// Something that stays when nothing is to be done.
    pub(crate) const fn lasting(name: &'static str, held: usize, limit: usize) -> Self {
        Self { name, held, limit, passing: false }
    }
}
