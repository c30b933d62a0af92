//! Every bound of the firmware in one place: what it bounds, its unit, and why it has this value.
//!
//! Whatever arrives from the wire or from a caller, no queue, pool or table grows past these.

use alloc::collections::VecDeque;

use crate::time::{Span, Time};

/// Adds an item to a queue of at most so many, of which the oldest makes room.
pub(crate) fn push_bounded<T>(queue: &mut VecDeque<T>, item: T, most: usize) {
    if queue.len() >= most {
        queue.pop_front();
    }
    queue.push_back(item);
}

/// The smallest frame that links must take: any header with its body, and a little payload.
pub(crate) const FRAME_BYTES_MIN: usize = 128;

/// The largest frame: its length field has 16 bits, and larger ones would make a batch's memory large for nothing.
pub(crate) const FRAME_BYTES_MAX: usize = 16 << 10;

/// Segments in one scatter/gather list. Enough for any iovec an MPI hands down at once (IOV_MAX is 1024, but MPIs pack
/// beyond a few dozen), and small enough to be walked per frame.
pub const SEGMENTS_MAX: usize = 256;

/// Segments that one frame is gathered from before the firmware copies it together instead: a gather entry costs the
/// kernel about as much as copying 200 bytes.
pub const FRAME_SEGMENTS_MAX: usize = 8;

/// Frames that may be in flight to one peer, and the span of sequence numbers a receiver takes. Four words of selective
/// acknowledgement cover it; 256 frames of 1500 bytes are the bandwidth-delay product of 100 Gb/s at 30 µs.
pub const WINDOW_FRAMES: u32 = 256;

/// Peers a node knows at a time, idle ones included. At 256 bytes each: 32 MiB.
pub const PEERS_MAX: usize = 131_072;

/// Endpoints open on one node: ranks of a process, several libraries; each costs two list heads.
pub const ENDPOINTS_MAX: usize = 1_024;

/// Sends, and receives, posted and not complete on one node, unless the profile says otherwise; it may say less. Their tables grow as they are
/// needed, up to a gigabyte each here: no program that works as it should has four million outstanding, and one that posts without end
/// is told before its machine has no memory left. Their names on the wire have [`NAME_INDEX_BITS`] of index.
pub const OPERATIONS_MAX: usize = 1 << NAME_INDEX_BITS;

/// Bits of index in the name that a pull or `done` has for a message (32 bits): what is left tells the latest 1,024 in one place
/// from each other.
pub(crate) const NAME_INDEX_BITS: u32 = 22;

/// Messages that are arriving or wait unexpected on one node, unless the profile says otherwise. Peers decide how many these are, so they
/// are fewer than operations; a quarter of a kilobyte each, and their table grows as they come.
pub const INCOMING_MAX: usize = 1 << 20;

/// The most that a profile may have of them: four gigabytes.
pub const INCOMING_MOST: usize = 1 << 24;

/// The fewest that a profile may have of either.
pub const OPERATIONS_MIN: usize = 64;

/// The last eighth of that table is for messages that a receive waits for; the one before it for peers that have no more than one in so
/// many of it: one that floods a node does not lock others out.
pub(crate) const INCOMING_FEW: usize = 256;

/// A table that is full, and since when nothing was removed from it.
#[derive(Default)]
pub(crate) struct Pressure {
    /// Of the last time that it was full.
    since: Option<Time>,
    /// What was removed last then.
    removed: (u32, u32),
}

impl Pressure {
    /// The table has no room, and this was removed from it last. True: it has made none for longer than `patience`, so whoever waits for it
    /// waits for itself.
    #[cold]
    pub(crate) fn is_stuck(&mut self, now: Time, removed: (u32, u32), patience: Span) -> bool {
        match self.since {
            Some(since) if removed == self.removed => now.since(since) > patience,
            _ => {
                (self.since, self.removed) = (Some(now), removed);
                false
            }
        }
    }

    /// Nobody could make room for so long.
    pub(crate) fn excuse(&mut self, absent: Span) {
        self.since = self.since.map(|since| since + absent);
    }
}

/// Messages of one peer that arrive before their turn (a message before them is missing). One window's worth.
pub const EARLY_MAX: usize = WINDOW_FRAMES as usize;

/// Messages kept (without their bytes) for endpoints that are not open: a peer that starts a moment earlier is no error.
pub const WITHOUT_ENDPOINT_MAX: usize = 4_096;

/// Bytes of the pool that holds buffered sends and the operands of atomics: a peer's part of it is 1.8 MB (`POOL_SHARE_PARTS`), several windows in
/// frames of any length. It takes memory as it is used.
pub const SEND_POOL_BYTES: usize = 16 << 20;

/// Bytes of the pool that holds unexpected data. MPICH's and Open MPI's default eager traffic fits;
/// beyond it senders hear "not ready" and nothing is lost.
pub const POOL_BYTES: usize = 4 << 20;

/// Bytes of one slot of the pool. Small messages dominate unexpected traffic; a 1500-byte frame takes three.
pub const POOL_SLOT_BYTES: usize = 512;

/// Of what is free of a pool, table or store that all peers share, one may have one of so many parts (`SHARE-1`): with eight, who is alone has a
/// ninth of all, and 32 peers that fall silent one after the other with all that they may have leave a fortieth, of which the next has its part.
pub const POOL_SHARE_PARTS: u32 = 8;

/// Messages that may wait for their turn at one peer and be complete because they were copied. Whoever sends more than two
/// windows faster than they are taken learns from its sends that they are not ([`Auto`](crate::CompletionMode::Auto)),
/// and what is copied stays in a processor's cache.
pub const BUFFERED_MAX: usize = WINDOW_FRAMES as usize;

/// Bytes that hold the answers to fetching atomics until they have arrived. A peer's part (`POOL_SHARE_PARTS`) is three full windows of single
/// elements; beyond it atomics hear "not ready". It takes memory as it is used.
pub const REPLY_POOL_BYTES: usize = 4 << 20;

/// Regions that one node exports: a window or two of each communicator of a large program. About 100 bytes each.
pub const REGIONS_MAX: usize = 65_536;

/// Gets and fetching atomics posted and not complete on one node. Their names have 16 bits of index.
pub const GETS_MAX: usize = 65_536;

/// Notifications of puts that wait for the host, or are still to come of puts that were accepted. Beyond it such puts
/// hear "not ready": a host that does not look stops its peers, and its memory does not grow.
pub const NOTIFICATIONS_MAX: usize = 16_384;

/// Blocks that a node has asked for and not yet received, over all senders. What senders that answer have under way is bounded in bytes; this is
/// for those that do not, and keep two blocks each: more than a network of 4,000 nodes that fails at once. An eighth of all pull identifiers, so that
/// one that was used is not used again soon. Up to 100 bytes each.
pub const PULLS_MAX: usize = 8_192;

/// As many of one sender's, which has room for [`BLOCKS_QUEUED_MAX`].
pub const PULLS_OF_PEER_MAX: usize = 256;

/// Blocks that one peer has asked of us and that wait to be sent. A peer that asks for more gets no answer for them.
pub const BLOCKS_QUEUED_MAX: usize = 1_024;

/// Completions of receives for several messages that wait for the application; messages beyond wait unexpected. Peers decide how many these
/// are: messages without bytes take no room of a buffer.
pub const SHARES_MAX: usize = 131_072;

/// Node events (found, lost, restarted) kept for the host; older ones go first.
pub const EVENTS_MAX: usize = 1_024;

/// Nodes being looked for at a time.
pub const DISCOVERIES_MAX: usize = 4_096;

/// Silent peers that the host is told of at a time: it asks after a few of them at once. The others are silent still when it has.
pub const SILENT_MAX: usize = 64;

/// Replies to hellos that wait to be sent; more are dropped, the asker asks again.
pub const REPLIES_MAX: usize = 256;

/// Shortest time between two hellos to one peer, so that stale frames cannot make a node flood.
pub const HELLO_INTERVAL: Span = Span::ms(1);

/// The same between two to a sender whose frames miss this node and go on missing it: one a second costs nobody anything.
pub const HELLO_INTERVAL_MAX: Span = Span::ms(1_000);

/// Such senders that are told from each other: as many as speak at once to a node that restarts in a large job. 32 bytes each.
pub const GREETED_MAX: usize = 256;

/// How far hellos to all of them may be ahead of one each [`HELLO_INTERVAL`]: 64 of them.
pub const GREETINGS_BURST: Span = Span::ms(64);

/// Floor of the retransmission timer. Below it, timer slack and scheduling noise of an ordinary kernel look like loss.
pub const RETRANSMIT_FLOOR: Span = Span::us(200);

/// Ceiling of the retransmission timer: bounds how late a healed link is noticed. Where round trips are so long it is twice the time-out
/// that they call for, as what is resent sooner was not lost.
pub const RETRANSMIT_CEILING: Span = Span::ms(100);

/// The ceiling's own: longer round trips than this calls for are jams that end, and peers are given up after a few seconds.
pub const RETRANSMIT_CEILING_MAX: Span = Span::ms(2_000);

/// Between two runs of the timers of peers that never acknowledged anything, all together: a hundredth of a processor that takes a
/// microsecond for a frame.
pub const STRANGERS_INTERVAL: Span = Span::us(100);

/// How far those may be ahead of that: 256 runs, so that nobody waits when a job of as many nodes starts at once.
pub const STRANGERS_BURST: Span = Span(256 * STRANGERS_INTERVAL.0);

/// How long such a peer may be silent while there are too many of them: longer than a busy host keeps a process waiting.
pub const STRANGERS_SILENCE: Span = Span::ms(500);

/// Shortest and longest back-off after "not ready".
pub const NOT_READY_BACKOFF: (Span, Span) = (Span::us(50), Span::ms(5));

/// Links of one node: the engine keeps a bit of each.
pub const LINKS_MAX: usize = 64;
/// Paths of one pair: a ring and a socket on each of [`INTERFACES_MAX`] interfaces; what a peer's entry notes of each is a bit in a byte.
pub const PATHS_MAX: usize = 8;

/// Interfaces whose paths to a peer are used at a time: what a machine that is cabled to its neighbours has.
pub const INTERFACES_MAX: usize = 4;

/// Frames on their way through a relay: what 100 Gb/s brings while a processor is away for 60 µs. Each has memory of its own once it was used,
/// as long as the longest frame: 768 KiB of MTU 1500.
pub(crate) const TRANSIT_FRAMES_MAX: usize = 512;

/// Flows that take turns in a relay: two of a dozen share one's turn now and then. A bit of a word each.
pub(crate) const TRANSIT_FLOWS: usize = 64;

/// Neighbours of which a relay counts each for itself; a machine has a handful of cables. All others are counted together.
pub(crate) const RELAY_NEIGHBOURS_MAX: usize = 64;

/// Searches of one neighbour that a relay repeats: so many at once, and then one each interval. 256 nodes that start at once are in the
/// first; 10,000 a second of 150 bytes each are one in a hundred of a cable of 1 Gb/s.
pub(crate) const RELAY_SEARCHES: (u32, Span) = (512, Span::us(100));

/// Frames by which a relay says that others cannot go on: as for those that greet strangers.
pub(crate) const CUT_OFFS: (u32, Span) = (64, Span::ms(1));

/// Searches that are remembered: those of the 256 at once, from each of a relay's neighbours.
pub(crate) const SEARCHES_SEEN_MAX: usize = 4_096;

/// Copies of one search that its target answers, each of which came another way: as many paths as are worth having.
pub(crate) const WAYS_ANSWERED_MAX: usize = 4;

/// Lists of hops that a node keeps: four ways to each of a thousand peers behind relays, which more than fills a cluster without switches.
/// Those that no peer is reached by make room for others. About 400 bytes each: 1.6 MiB.
pub(crate) const HOP_LISTS_MAX: usize = 4_096;

/// Peers with which long trains were exchanged over a path beside the first. Beyond it they take the only path that others have. About
/// 512 bytes each, and as many peers whose first window was too small for something, with 1,056 bytes: 25 MiB. What messages took by several paths
/// is another kilobyte.
pub const FURTHER_PATHS_MAX: usize = 16_384;

/// Questions after paths that bring nothing whose answers are still awaited: two for each of so many peers whose cable is pulled at a time. 24
/// bytes each.
pub const DOUBTED_MAX: usize = 512;

/// Paths beside the first being looked for at a time; trains that begin meanwhile take the path there is.
pub const SEEKS_MAX: usize = 256;

/// Senders of long messages that a node tells apart to divide its room among them (`CREDIT-4`): the busiest incast. Each beyond is told anew
/// with each message. 32 bytes each.
pub const GRANTED_MAX: usize = 4_096;

/// How long a sender heeds a grant that it is not told again, which it is ten times in that as long as it goes on. It ends by itself, as who sends
/// nothing is acknowledged nothing.
pub const GRANT_LASTS: Span = Span::ms(10);

/// Peers at a time to which the longest frame that gets through is looked for: those behind one bad hop, one after the other beyond it.
pub const SIZE_SEARCHES_MAX: usize = 32;

/// Smallest link frame that longer ones are cut for, in bytes: below it slices would be mostly headers. Half of the smallest
/// MTU that IPv4 allows for.
pub const SLICED_FOR_BYTES_MIN: usize = 288;

/// Frames that are put together from slices at a time: peers that send to this node in slices at once take turns beyond it. Of 60 KB
/// each, as the longest frame may come so.
pub const ASSEMBLIES_MAX: usize = 8;

/// As many of one peer's: of a frame that lacks a slice what came is kept, while the next one comes. No peer shuts all others out.
pub const ASSEMBLIES_OF_PEER_MAX: usize = 2;

/// Addresses kept of a node that somebody told us of, of [`DISCOVERIES_MAX`] such nodes.
pub const HINTS_MAX: usize = PATHS_MAX;

/// Questions to an address whose answers are believed: those of a round trip or two, as a program that looks around asks one after the other.
pub const QUESTIONS_MAX: usize = 64;

/// Questions to peers for other nodes whose answers are believed: those of a few round trips. 24 bytes each.
pub const PEERS_ASKED_MAX: usize = 64;

/// Peers that are asked for other nodes: so many at once, and then one each interval, whatever is looked for. A thousand a second of 75 bytes are
/// nothing to a network, and a job that starts looks for all of its nodes at once.
pub(crate) const ASKED_OF_PEERS: (u32, Span) = (64, Span::ms(1));

/// Times that peers are told where others are: as many as a job of 256 nodes asks of one at once.
pub(crate) const TOLD_TO_PEERS: (u32, Span) = (256, Span::ms(1));

/// Names of nodes that have asked and are not met yet: a node that asks is met within a round trip, so these are the questions of one. 80 bytes each.
pub const NAMES_MAX: usize = 256;

/// Epochs remembered that peers have left: two nodes of one identity alternate as fast as they are spoken to, so few others come between.
pub const FORMER_MAX: usize = 64;

/// Questions to different peers at a time whether long frames get through: of 60 KB each they would keep other answers waiting; the next peer's
/// turn comes with its next train.
pub const LONG_QUESTIONS_MAX: usize = 4;

/// Answers to messages that were not taken that wait to be sent: a window's worth of a few busy peers. More are dropped; the messages come again.
pub const NOT_READY_MAX: usize = 1_024;

/// Windows of peers that are idle again which are kept for the next ones: peers that are active at the same time, in a usual burst. 5 KiB each.
pub const SPARE_MAX: usize = 256;
