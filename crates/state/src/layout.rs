//! What lies where in the file. A change of anything here is a new [`VERSION`].
//!
//! ```text
//! 0          Head, then Identity: written before the file has its name, and never again
//! 1024       a sequence number: odd while what follows is being written
//! 1032       Now, links, counters, notes, who is beside a relay
//! 12288      peers, 256 bytes each: a sequence number, then Peer
//! ```
//!
//! All numbers are little-endian. Times are nanoseconds of `CLOCK_MONOTONIC`, which all processes of a machine share; 0: never.

use crate::field::{Field, Text, record};
use crate::places::Places;

/// The first bytes of every such file.
pub const MAGIC: [u8; 8] = *b"EMPSTATE";

/// The version of this layout.
pub const VERSION: u32 = 4;

/// Where the identity lies.
pub(crate) const IDENTITY_AT: usize = 64;

/// Where the sequence number of what changes lies.
pub(crate) const SEQUENCE_AT: usize = 1_024;

/// Where what changes begins.
pub(crate) const NOW_AT: usize = SEQUENCE_AT + 8;

/// Links that are shown: more than machines have interfaces for one job. All are counted.
pub const LINKS_MAX: usize = 16;

/// Counters that are shown: half as many again as there are.
pub const COUNTERS_MAX: usize = 120;

/// What happened lately, so many lines of it.
pub const NOTES_MAX: usize = 12;

/// Nodes beside a relay that are shown, those that it met first: more than machines have cables.
pub const NEIGHBOURS_MAX: usize = 16;

const LINKS_AT: usize = NOW_AT + 256;
const COUNTERS_AT: usize = LINKS_AT + LINKS_MAX * Link::BYTES;
const NOTES_AT: usize = COUNTERS_AT + COUNTERS_MAX * Counter::BYTES;

const NEIGHBOURS_AT: usize = NOTES_AT + NOTES_MAX * Note::BYTES;

/// Where peers begin: three pages of the usual 4 KB.
pub(crate) const PEERS_AT: usize = 12_288;

/// Bytes of a peer, its sequence number included.
pub(crate) const PEER_BYTES: usize = 256;

/// Room for peers is made so many at a time: a page.
pub const PEERS_STEP: usize = 16;

/// Peers that are shown at most, those that something is under way to or from first: the file is 272 KB then.
pub const PEERS_MAX: usize = 1_024;

/// Paths of a peer that are shown, those in use first: raw frames and datagrams of two interfaces. All are counted.
pub const PATHS_MAX: usize = 4;

const _: () = assert!(Head::BYTES <= IDENTITY_AT);
const _: () = assert!(IDENTITY_AT + Identity::BYTES <= SEQUENCE_AT);
const _: () = assert!(NOW_AT + Now::BYTES <= LINKS_AT);
const _: () = assert!(NEIGHBOURS_AT + NEIGHBOURS_MAX * Neighbour::BYTES <= PEERS_AT);
const _: () = assert!(8 + Peer::BYTES == PEER_BYTES);

record! {
    /// What kind of file this is.
    Head {
        /// [`MAGIC`].
        magic: [u8; 8],
        /// [`VERSION`].
        version: u32,
        /// Bytes before the first peer.
        fixed_bytes: u32,
        /// Bytes of a peer.
        peer_bytes: u32,
    }
}

record! {
    /// Who the node is and whose.
    Identity {
        /// Its identity.
        node: u64,
        /// Its generation.
        epoch: u32,
        /// Its process, as numbered in `pid_namespace`.
        process: u32,
        /// When that began, in clock ticks since the machine started (field 22 of `/proc/PID/stat`).
        process_began: u64,
        /// Where its stack begins (field 28): another program in the same process has another. 0: not known.
        process_stack: u64,
        /// The number of its process namespace. 0: not known.
        pid_namespace: u64,
        /// The machine's run: the first bytes of its boot identity.
        boot: u64,
        /// When the node was started, in nanoseconds since 1970.
        started_real: u64,
        /// The process's user.
        user: u32,
        /// Its rank in its job, as the launcher says. -1: it says nothing.
        rank: i32,
        /// Ranks of the job; 0: not known.
        ranks: u32,
        /// How long a silent peer is waited for, in milliseconds.
        patience_ms: u32,
        /// Its name for people.
        name: Text<80>,
        /// The version of EMP.
        version: Text<24>,
        /// What the process runs.
        command: Text<256>,
        /// Who started it: `slurm`, `openmpi`, …
        launcher: Text<16>,
        /// The job, as that calls it.
        job: Text<64>,
        /// The machine.
        host: Text<64>,
        /// Where its engine runs: `inline`, `thread`, …
        board: Text<16>,
    }
}

record! {
    /// How the node is.
    Now {
        /// When this was written.
        written: u64,
        /// The same in nanoseconds since 1970.
        written_real: u64,
        /// How often it was.
        writes: u64,
        /// Since when no receive from anyone, as posted longest ago, has had its message; 0: there is none.
        receive_since: u64,
        /// Since when no message has been taken that waits for a receive; 0: none waits.
        unexpected_since: u64,
        /// Sends and one-sided operations that have not ended.
        sends: u32,
        /// Receives likewise.
        receives: u32,
        /// Of these, those that take a message from anyone.
        receives_any: u32,
        /// Messages that arrive or wait for a receive.
        incoming: u32,
        /// Peers known.
        peers_known: u32,
        /// Peers that are shown.
        peers: u32,
        /// Peers with something under way that there was no room to show.
        peers_left_out: u32,
        /// Slots of the engine's pool that are free, and all.
        pool_free: u32,
        /// All of them.
        pool_slots: u32,
        /// Links of the node, and of them [`LINKS_MAX`] at most are shown.
        links: u32,
        /// Counters that are shown.
        counters: u32,
        /// Lines that there were so far, of which the last [`NOTES_MAX`] are shown, the n-th in place n modulo that.
        notes: u32,
        /// Nodes from which frames came to be sent on, and of them [`NEIGHBOURS_MAX`] at most are shown.
        neighbours: u32,
    }
}

record! {
    /// A link.
    Link {
        /// `packet`, `udp`, `shm`, …
        kind: Text<8>,
        /// The interface.
        interface: Text<16>,
        /// Where the node is on it.
        address: Address,
        /// Its MTU in bytes, if it has one.
        mtu: u32,
        /// Largest frame in bytes.
        frame_bytes: u32,
        /// Why nothing can cross it now. Empty: all is well.
        trouble: Text<36>,
        /// Frames sent.
        frames_sent: u64,
        /// Frames received.
        frames_received: u64,
        /// Bytes sent.
        bytes_sent: u64,
        /// Bytes received.
        bytes_received: u64,
        /// Times that it took no more.
        send_full: u64,
        /// Frames that the system refused to send.
        send_refused: u64,
        /// Frames lost because nobody fetched them in time.
        receive_lost: u64,
        /// Errors of system calls.
        system_errors: u64,
        /// Frames for other nodes.
        not_for_us: u64,
    }
}

record! {
    /// A place on a link.
    Address {
        /// Of which kind, as on the wire: 1 an Ethernet address, 4 IPv4 and port, 6 IPv6, port and scope, 9 a number in a made-up network, 11
        /// a number in the machine's memory. Others: none.
        family: u8,
        /// The first 6, 6, 22, 4 or 8 bytes, all numbers big-endian.
        bytes: [u8; 22],
    }
}

record! {
    /// What was counted.
    Counter {
        /// Of what.
        name: Text<32>,
        /// How many.
        value: u64,
    }
}

record! {
    /// Something that happened, in a line.
    Note {
        /// When.
        at: u64,
        /// To which peer; 0: to none, or it is not known.
        node: u64,
        /// 1: it was only said. 2: something was lost or works again. 3: something is to be done.
        level: u32,
        /// The line.
        text: Text<152>,
    }
}

record! {
    /// A node from which frames come to be sent on, or all that found no place of their own.
    Neighbour {
        /// The link's place among the node's.
        link: u8,
        /// Where it is on it.
        address: Address,
        /// Frames that were sent on.
        frames: u64,
        /// Bytes of those.
        bytes: u64,
        /// Searches that were repeated.
        searches: u64,
        /// Frames and searches that were not, for any reason.
        dropped: u64,
        /// Of these, those for which there was no room.
        dropped_full: u64,
        /// Those whose next cable was out.
        dropped_cut: u64,
    }
}

record! {
    /// A peer that something is under way to or from, or was lately. All zero: none has this place.
    Peer {
        /// Its identity.
        node: u64,
        /// Its generation; 0: not known.
        epoch: u32,
        /// A [`PeerState`].
        state: u8,
        /// Paths to it that can be used.
        paths_up: u8,
        /// When a frame last came from it.
        heard: u64,
        /// Since when it is in this state.
        state_since: u64,
        /// Since when what waits longest to be acknowledged or answered by it has waited; 0: nothing waits.
        out_since: u64,
        /// Since when a message from it, begun or awaited by name, has made no progress; 0: there is none.
        in_since: u64,
        /// Messages and one-sided operations to it that have not ended.
        out_messages: u32,
        /// Of these, sent and acknowledged: they wait for the peer's program.
        out_awaiting: u16,
        /// Frames under way to it that are not acknowledged.
        out_frames: u32,
        /// Runs of the timer since one last was.
        out_timeouts: u16,
        /// Times that it had no room, since it last had.
        out_refusals: u16,
        /// Messages from it that arrive or wait for a receive.
        in_messages: u32,
        /// Of these, those that wait for a receive.
        in_unexpected: u16,
        /// Blocks of such that were asked for and are not wholly here.
        in_pulls: u16,
        /// Receives that wait for it by name.
        in_receives: u16,
        /// Bytes that it lets this node send unasked; `u32::MAX`: as many as the window has.
        granted: u32,
        /// Frames sent to it for the first time, modulo 2³².
        frames_sent: u32,
        /// Frames sent to it again.
        frames_resent: u32,
        /// Its name for people, as far as it fits.
        name: Text<32>,
        /// Paths to it.
        paths: [Path; PATHS_MAX],
        /// Where they lead, in their order.
        places: Places,
    }
}

record! {
    /// A way to a peer.
    Path {
        /// The link's place among the node's.
        link: u8,
        /// Bit 0: it is there. Bit 1: the pair is known by it. Bit 2: frames longer than the MTU get through.
        flags: u8,
        /// Largest frame in bytes.
        frame_bytes: u16,
        /// Bytes that may be under way.
        window: u32,
        /// Bytes that are.
        flight: u32,
        /// A round trip in microseconds, smoothed; 0: not measured.
        rtt_us: u32,
        /// Frames that left by it, modulo 2³².
        sent: u32,
        /// Of these, those that were found lost.
        lost: u32,
    }
}

impl Path {
    /// Bits of `flags`.
    pub const THERE: u8 = 1;
    /// The pair is known by it.
    pub const FIRST: u8 = 2;
    /// Frames longer than the MTU get through.
    pub const LONG: u8 = 4;
}

/// What is known of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// The file says nothing that this program knows.
    Unknown,
    /// It is being looked for.
    Sought,
    /// It was met.
    Met,
    /// Nothing was heard of it for too long, or it was never found.
    Unreachable,
    /// It came back as another.
    Restarted,
    /// It gave this node up.
    GaveUp,
    /// It said goodbye.
    Closed,
    /// Its process has ended, as its host told.
    Ended,
}

impl PeerState {
    /// All, by their number in the file.
    const ALL: [Self; 8] = [
        Self::Unknown,
        Self::Sought,
        Self::Met,
        Self::Unreachable,
        Self::Restarted,
        Self::GaveUp,
        Self::Closed,
        Self::Ended,
    ];

    /// Its number in the file.
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// A word for tables.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Unknown => "?",
            Self::Sought => "sought",
            Self::Met => "met",
            Self::Unreachable => "lost",
            Self::Restarted => "restarted",
            Self::GaveUp => "gave up",
            Self::Closed => "closed",
            Self::Ended => "ended",
        }
    }
}

impl Peer {
    /// What is known of it.
    pub fn state(&self) -> PeerState {
        PeerState::ALL.get(usize::from(self.state)).copied().unwrap_or(PeerState::Unknown)
    }

    /// Its paths.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter().filter(|path| path.flags & Path::THERE != 0)
    }
}

/// Where the n-th of something lies.
pub(crate) const fn link_at(index: usize) -> usize {
    LINKS_AT + index * Link::BYTES
}

pub(crate) const fn counter_at(index: usize) -> usize {
    COUNTERS_AT + index * Counter::BYTES
}

pub(crate) const fn note_at(index: usize) -> usize {
    NOTES_AT + index * Note::BYTES
}

pub(crate) const fn neighbour_at(index: usize) -> usize {
    NEIGHBOURS_AT + index * Neighbour::BYTES
}

pub(crate) const fn peer_at(index: usize) -> usize {
    PEERS_AT + index * PEER_BYTES
}

/// Where the value of a counter lies behind its name.
pub(crate) const VALUE_AT: usize = 32;
