//! Profiles: named sets of protocol parameters. They are data; no code asks which profile runs.

use alloc::collections::BTreeMap;

use crate::limits::{INCOMING_MAX, OPERATIONS_MAX, PEERS_MAX, REGIONS_MAX};
use crate::time::Span;

/// Frames (or messages) that one acknowledgement covers where that is not the profile's: of single peers, by index (E24).
#[derive(Default)]
pub(crate) struct Collections(BTreeMap<u32, u32>);

impl Collections {
    /// A peer has its own from now on.
    pub(crate) fn set(&mut self, peer: u32, frames: u32) {
        self.0.insert(peer, frames.max(1));
    }

    /// No peer has any.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// A peer's; `usual` is that of most.
    #[inline(always)]
    pub(crate) fn of(&self, peer: u32, usual: u32) -> u32 {
        if self.0.is_empty() { usual } else { self.look_up(peer, usual) }
    }

    #[cold]
    fn look_up(&self, peer: u32, usual: u32) -> u32 {
        self.0.get(&peer).copied().unwrap_or(usual)
    }
}

/// What a sender resends when it finds a frame lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetransmitUnit {
    /// Exactly the frame that is missing.
    Frame,
    /// The collection it belongs to (E30).
    Collection,
    /// All of the message's train, or of the block (O4, O7).
    Train,
    /// Everything from the gap on (V15).
    Window,
}

/// What a receiver does with a message that no receive matches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unexpected {
    /// Keeps it in the bounded pool; beyond that only its place in the order.
    Pool,
    /// Drops its bytes and keeps its place: they are sent again when a receive is posted (E20).
    Drop,
}

/// When a receiver acknowledges, besides piggybacking, on request, and by delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AckTrigger {
    /// After this many frames since the last acknowledgement, and at the end of a train whose sender waits (E27, V19).
    Frames,
    /// After this many *messages* (O6, O8).
    Messages,
}

/// Protocol parameters of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Profile {
    /// Name for people.
    pub name: &'static str,
    /// Frames (or messages) that one acknowledgement covers: the collection (E24). Can be changed while running.
    pub collection: u32,
    /// What `collection` counts.
    pub ack_trigger: AckTrigger,
    /// Longest that an acknowledgement waits for data to ride on.
    pub ack_delay: Span,
    /// Frames that arrive out of order are taken (E31) or dropped (V13).
    pub accept_out_of_order: bool,
    /// Explicit acknowledgements carry selective bits.
    pub selective_acks: bool,
    /// What is resent.
    pub retransmit: RetransmitUnit,
    /// The last frame is resent early when its acknowledgement stays out, instead of waiting for the timer.
    pub tail_probe: bool,
    /// Treatment of unexpected messages.
    pub unexpected: Unexpected,
    /// Messages up to this size leave whole, without waiting for the receiver. `u64::MAX`: all of them.
    pub eager_bytes: u64,
    /// The same where frames longer than the MTU get through, if that is more, within what the receiver grants.
    pub long_eager_bytes: u64,
    /// Of longer messages, the bytes that leave unasked.
    pub unscheduled_bytes: u32,
    /// Bytes that several senders of long messages together are granted to send unasked (`CREDIT-4`); `u64::MAX`: this system has no such credit,
    /// grants none and heeds none.
    pub unasked_bytes_max: u64,
    /// Bytes of one pull.
    pub pull_block_bytes: u32,
    /// Blocks of one message that are asked for at a time.
    pub pull_blocks: u32,
    /// Bytes asked for over all senders (incast control).
    pub pull_bytes_max: u64,
    /// Messages longer than this are read from the sender's memory by a receiver that can, instead of sent.
    pub direct_bytes: u64,
    /// Sends up to this size complete when they are copied into the pool.
    pub buffered_bytes: u32,
    /// The same of sends that leave at once in one frame longer than the MTU, while little else is under way to that peer.
    pub long_buffered_bytes: u32,
    /// The sender asks for an acknowledgement when this many frames of its window are left (V20).
    pub request_ack_below: u32,
    /// Frames acknowledged past a missing one before it counts as lost.
    pub reorder_frames: u32,
    /// Payloads are under the checksum, not only headers, where the carrier has none of its own.
    pub checksum_payload: bool,
    /// What payloads are checked by where it has.
    pub integrity: Integrity,
    /// Small frames that leave together share link frames (`BUNDLE-1`).
    pub bundles: bool,
    /// Frames longer than the MTU, where a link carries them (`LONG-1`).
    pub long_frames: bool,
    /// Without a single frame from a peer for this long while something is due from it, it is unreachable.
    pub unreachable_after: Span,
    /// Sends that may be outstanding at a time, and as many receives: 64 to [`OPERATIONS_MAX`].
    pub operations_max: usize,
    /// Messages that may arrive or wait unexpected at a time: 64 to [`INCOMING_MOST`](crate::limits::INCOMING_MOST).
    pub incoming_max: usize,
    /// Peers that it knows at a time, idle ones included: at most [`PEERS_MAX`].
    pub peers_max: usize,
    /// Regions that it exports at a time: at most [`REGIONS_MAX`].
    pub regions_max: usize,
}

/// What payloads are checked by on links whose carrier has a checksum of its own, as UDP (`CRC-3`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Integrity {
    /// By the carrier alone, as TCP's are.
    #[default]
    Carrier,
    /// By the frame's checksum as well, from the sender's memory to the receiver's.
    EndToEnd,
}

impl Integrity {
    /// All, by the names that users have for them.
    pub const ALL: [(&'static str, Self); 2] =
        [("carrier", Self::Carrier), ("end-to-end", Self::EndToEnd)];
}

/// Longest that a silent peer is waited for before it is looked for elsewhere: long for one that is busy, and short for one whose cable was moved.
const SUSPECT_AFTER_MAX: Span = Span::ms(2_500);

/// Longest time between two looks after peers that owe something.
const WATCH_EVERY_MAX: Span = Span::ms(625);

/// How many times the unreachable time a peer may be heard without acknowledging anything that is due (`RESEND-4`): it lives, so what is lost is
/// answers. Of 60 copies, two seconds apart, all are lost once in 4,000 times where seven of eight answers are; of 20 once in 15.
const DEAF_TIMES: u64 = 12;

/// But no longer than this, or than a silence may last if that is more: who acknowledges nothing for ten minutes will not.
const DEAF_MAX: Span = Span::ms(600_000);

/// How many times the unreachable time a carrier may be away without counting as silence (`RESEND-8`). A card that is reset is without one for
/// seconds, and a cable that somebody plugs into another port for half a minute; who waits longer is told what is wrong.
const OUTAGE_TIMES: u64 = 6;

/// But no longer than this.
const OUTAGE_MAX: Span = Span::ms(300_000);

impl Profile {
    /// How long a peer may be silent while something is due from it before it is looked for elsewhere (`RESEND-3`).
    pub(crate) fn suspect_after(&self) -> Span {
        Span(self.unreachable_after.0 / 4).min(SUSPECT_AFTER_MAX)
    }

    /// Time between two looks after peers that owe something.
    pub(crate) fn watch_every(&self) -> Span {
        Span((self.unreachable_after.0 / 16).max(1)).min(WATCH_EVERY_MAX)
    }

    /// How long a peer that may be silent for so long may be heard without acknowledging anything that is due (`RESEND-4`).
    pub(crate) fn deaf_after(silence_max: Span) -> Span {
        Span(silence_max.0.saturating_mul(DEAF_TIMES)).min(DEAF_MAX.max(silence_max))
    }

    /// How long nothing need be heard of a peer whose links have no carrier (`RESEND-8`).
    pub(crate) fn outage_patience(&self) -> Span {
        let usual = self.unreachable_after;
        Span(usual.0.saturating_add(usual.0.saturating_mul(OUTAGE_TIMES).min(OUTAGE_MAX.0)))
    }

    /// Frames may overtake each other, and it is told which are missing: what several paths need (`PATH-7`), and frames longer than
    /// the MTU, of which one lost one must not cost a window of them.
    pub const fn is_selective(&self) -> bool {
        self.accept_out_of_order && self.selective_acks
    }

    /// Frames longer than the MTU are built and asked for (`LONG-3`). A profile that stands for another system has frames as
    /// that has.
    pub const fn takes_long_frames(&self) -> bool {
        self.long_frames && self.is_selective()
    }

    /// Completions that may wait for the host. Posts are refused beyond it, so it only needs to hold every posted operation.
    pub const fn completions_max(&self) -> usize {
        2 * self.operations_max
    }

    /// Control frames (pulls, dones) that may wait to be sent, to all peers together, of which one has no more than are left to others. Each
    /// answers an operation that its peer keeps until it is answered, so a peer within its bounds never reaches this; one that does loses
    /// answers, not memory.
    pub const fn controls_max(&self) -> usize {
        2 * (self.operations_max + 2 * self.incoming_max)
    }

    /// Lets no message leave more than so many bytes unasked, in frames of whatever length: shorter ones leave whole, of longer ones no
    /// more than that leaves before the receiver asks for it.
    #[must_use]
    pub const fn with_eager(mut self, bytes: u64) -> Self {
        (self.eager_bytes, self.long_eager_bytes) = (bytes, bytes);
        if bytes < self.unscheduled_bytes as u64 {
            self.unscheduled_bytes = bytes as u32;
        }
        self
    }

    /// EMP's own parameters.
    pub const DEFAULT: Self = Self {
        name: "default",
        collection: 16,
        ack_trigger: AckTrigger::Frames,
        // Several round trips on a LAN, so that a reply normally comes first; well below the tail probe.
        ack_delay: Span::us(60),
        accept_out_of_order: true,
        selective_acks: true,
        retransmit: RetransmitUnit::Frame,
        tail_probe: true,
        unexpected: Unexpected::Pool,
        // Two trains of 64 KB segmented UDP, about one bandwidth-delay product of a 25 Gb/s LAN at 20 µs.
        eager_bytes: 64 << 10,
        // Asking takes a receiver 4 µs (a request, and a `done`), and so does the sender's wait for it: a tenth
        // of the time of such a message. Beyond it other things count, and eight unexpected ones would fill a pool.
        long_eager_bytes: 512 << 10,
        // What one segmented UDP send carries at MTU 1500 (44 frames): a block of 64 KB would need a second one for its tail.
        unscheduled_bytes: 60 << 10,
        // What a shallow switch's port at 10 Gb/s queues, and the bandwidth-delay product of 100 Gb/s at 40 µs.
        unasked_bytes_max: 512 << 10,
        pull_block_bytes: 60 << 10,
        pull_blocks: 4,
        pull_bytes_max: 1 << 20,
        // Where two copies through a ring (0.2 µs per KB) begin to cost more than the call and the answer.
        direct_bytes: 8 << 10,
        // Up to here two copies (1 µs) cost no more than what a sender that must keep the user's buffer asks for: an
        // acknowledgement at once, a frame that leaves before the receiver's answer (0.9 µs by `packet`, 1.5 by `udp`).
        buffered_bytes: 8 << 10,
        // Who has little under way waits next, and may as well copy. 32 KB, as programs like to send, and a little more: a quarter of
        // the time in which it is under way. From there on the kernel had better refer to the user's pages than copy them.
        long_buffered_bytes: 33 << 10,
        request_ack_below: 96,
        reorder_frames: 3,
        checksum_payload: true,
        integrity: Integrity::Carrier,
        bundles: true,
        long_frames: true,
        // A card that is set down and up again hears nothing for some 5 s (an e1000e: 2 s down, 3 s without a carrier), and its peer,
        // whose own carrier is well, cannot know why.
        unreachable_after: Span::ms(10_000),
        operations_max: OPERATIONS_MAX,
        incoming_max: INCOMING_MAX,
        peers_max: PEERS_MAX,
        regions_max: REGIONS_MAX,
    };

    /// As the SC 2001 paper: collections of three (E24), no unexpected messages (E20), whole messages unasked, the
    /// collection resent on timeout (E30), no selective acknowledgement (E28).
    pub const EMP2001: Self = Self {
        name: "emp2001",
        bundles: false,
        long_frames: false,
        unasked_bytes_max: u64::MAX,
        collection: 3,
        selective_acks: false,
        retransmit: RetransmitUnit::Collection,
        tail_probe: false,
        unexpected: Unexpected::Drop,
        direct_bytes: u64::MAX,
        eager_bytes: u64::MAX,
        // A send is complete when the receiver has it (E32): nothing is buffered.
        buffered_bytes: 0,
        long_buffered_bytes: 0,
        ..Self::DEFAULT
    };

    /// As Open-MX: 32 KB eager (O6), pulls of 32 KB (O7), an acknowledgement per four messages, resend of the message.
    pub const OPENMX: Self = Self {
        name: "openmx",
        bundles: false,
        long_frames: false,
        unasked_bytes_max: u64::MAX,
        collection: 4,
        ack_trigger: AckTrigger::Messages,
        retransmit: RetransmitUnit::Train,
        direct_bytes: u64::MAX,
        eager_bytes: 32 << 10,
        unscheduled_bytes: 0,
        pull_block_bytes: 32 << 10,
        pull_blocks: 4,
        ..Self::DEFAULT
    };

    /// As VMMC-2: go-back-n (V13, V15), cumulative acknowledgement per six packets (V19) or on request (V20).
    pub const VMMC2: Self = Self {
        name: "vmmc2",
        bundles: false,
        long_frames: false,
        unasked_bytes_max: u64::MAX,
        collection: 6,
        accept_out_of_order: false,
        selective_acks: false,
        retransmit: RetransmitUnit::Window,
        direct_bytes: u64::MAX,
        tail_probe: false,
        eager_bytes: u64::MAX,
        ..Self::DEFAULT
    };

    /// All profiles.
    pub const ALL: [&'static Self; 4] =
        [&Self::DEFAULT, &Self::EMP2001, &Self::OPENMX, &Self::VMMC2];

    /// The profile of this name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        Self::ALL.into_iter().find(|profile| profile.name == name)
    }
}

impl Default for Profile {
    fn default() -> Self {
        Self::DEFAULT
    }
}
