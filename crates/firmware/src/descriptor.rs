//! What a host posts and what it gets back (E39, E46).

use emp_wire::{DoneStatus, NodeId};

use crate::memory::SegmentList;

/// An operation that a host posted. Unique while the operation lives and for long after.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct OpId(u64);

/// Bits of an [`OpId`] for the place; the rest above them for the kind, and as much as a generation has below.
pub(crate) const INDEX_BITS: u32 = 28;

impl OpId {
    /// One word, since it is handed on several times for each message: kind, place, generation.
    #[inline]
    pub(crate) const fn new(kind: OpKind, index: u32, generation: u32) -> Self {
        debug_assert!(index < 1 << INDEX_BITS);
        Self((kind as u64) << (32 + INDEX_BITS) | (index as u64) << 32 | generation as u64)
    }

    /// Of an operation that another's firmware has, as the host calls it that posted it there: its kind, and 28 and 32 bits that tell it from
    /// others.
    pub const fn elsewhere(kind: OpKind, index: u32, generation: u32) -> Self {
        Self::new(kind, index & ((1 << INDEX_BITS) - 1), generation)
    }

    /// All of it, for [`from_bits`](Self::from_bits).
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// Which of the operations of its kind it is at a time.
    pub const fn place(self) -> u32 {
        self.index()
    }

    /// The operation of these bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// What was posted.
    #[inline]
    pub const fn kind(self) -> OpKind {
        OpKind::ALL[(self.0 >> (32 + INDEX_BITS)) as usize & 7]
    }

    #[inline]
    pub(crate) const fn index(self) -> u32 {
        (self.0 >> 32) as u32 & ((1 << INDEX_BITS) - 1)
    }

    #[inline]
    pub(crate) const fn generation(self) -> u32 {
        self.0 as u32
    }
}

/// What was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum OpKind {
    /// A send.
    Send,
    /// A receive.
    Receive,
    /// A put.
    Put,
    /// A get.
    Get,
    /// An atomic operation.
    Atomic,
    /// Not a post of ours: a peer's put with immediate data is wholly in a region of ours. The completion's
    /// [`context`](Completion::context) is the endpoint that it is for, its [`match_bits`](Completion::match_bits) are
    /// the region's key, its status is always [`Status::Ok`].
    Notified,
    /// Not a post either: a send that was complete when it was buffered is not known to have been delivered. The completion's
    /// [`context`](Completion::context) is the endpoint that it was sent from, its status says why.
    Undelivered,
}

impl Status {
    /// All, by number.
    pub const ALL: [Self; 19] = [
        Self::Ok,
        Self::Truncated,
        Self::Cancelled,
        Self::Unreachable,
        Self::NotFound,
        Self::PeerRestarted,
        Self::GivenUp,
        Self::PeerClosed,
        Self::PeerEnded,
        Self::NoEndpoint,
        Self::EndpointClosed,
        Self::MemoryFault,
        Self::Abandoned,
        Self::BadKey,
        Self::BadGeneration,
        Self::OutOfBounds,
        Self::NoRights,
        Self::TooLong,
        Self::ReceiverFull,
    ];
}

impl OpKind {
    /// By number; the last stands for all that there are not.
    pub const ALL: [Self; 8] = [
        Self::Send,
        Self::Receive,
        Self::Put,
        Self::Get,
        Self::Atomic,
        Self::Notified,
        Self::Undelivered,
        Self::Undelivered,
    ];
}

/// When a send is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CompletionMode {
    /// Small messages when they are copied into the pool, others when the peer has them. While 256 operations wait to be sent
    /// to the peer, which may still be looked for, small ones are not copied either.
    #[default]
    Auto,
    /// At once: the bytes are copied before the post returns, or it fails with [`PostError::PoolFull`]. Only for
    /// messages up to [`buffered_bytes_max`](crate::Firmware::buffered_bytes_max), and for puts of up to one frame's payload.
    Buffered,
    /// When the peer's firmware has all of it (E32).
    Delivered,
}

/// A message to send.
#[derive(Clone, Debug)]
pub struct SendDescriptor {
    /// The node it is for; may be the sending node itself.
    pub to: NodeId,
    /// The endpoint it is sent from.
    pub endpoint: u16,
    /// The endpoint it is for.
    pub to_endpoint: u16,
    /// Match bits.
    pub match_bits: u64,
    /// Where the bytes are. They must not change or go away before completion, unless that comes at once.
    pub segments: SegmentList,
    /// Eight bytes that the receiver's completion will show.
    pub immediate: Option<u64>,
    /// Complete only when the message is matched at the receiver.
    pub synchronous: bool,
    /// When it is complete.
    pub completion: CompletionMode,
    /// Given back in the completion.
    pub context: u64,
}

/// Which messages a receive or probe wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selector {
    /// The sending node, or [`NodeId::ANY`].
    pub from: NodeId,
    /// The sending endpoint; `None` for any.
    pub from_endpoint: Option<u16>,
    /// Wanted match bits.
    pub match_bits: u64,
    /// Bits that don't have to match.
    pub ignore_bits: u64,
}

impl Selector {
    /// Every message.
    pub const ANY: Self =
        Self { from: NodeId::ANY, from_endpoint: None, match_bits: 0, ignore_bits: u64::MAX };

    /// Messages with exactly these match bits, from anyone.
    pub const fn bits(match_bits: u64) -> Self {
        Self { match_bits, ignore_bits: 0, ..Self::ANY }
    }

    /// True if a message is one of those wanted.
    pub fn accepts(&self, from: NodeId, from_endpoint: u16, match_bits: u64) -> bool {
        (self.match_bits ^ match_bits) & !self.ignore_bits == 0
            && (self.from == NodeId::ANY || self.from == from)
            && self.from_endpoint.is_none_or(|endpoint| endpoint == from_endpoint)
    }
}

/// A receive to post.
#[derive(Clone, Debug)]
pub struct ReceiveDescriptor {
    /// The endpoint.
    pub endpoint: u16,
    /// Which messages it takes. Ignored with `claim`.
    pub selector: Selector,
    /// Where the bytes go. A longer message is cut, and reported as truncated.
    pub segments: SegmentList,
    /// Take exactly this message, which a probe set aside.
    pub claim: Option<ClaimId>,
    /// Given back in the completion.
    pub context: u64,
}

/// A message that [`probe`](crate::Firmware::probe) set aside for one receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ClaimId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

impl ClaimId {
    /// All of it, for [`from_bits`](Self::from_bits).
    pub const fn to_bits(self) -> u64 {
        (self.index as u64) << 32 | self.generation as u64
    }

    /// The claim of these bits: those of another firmware's, or of none that there is, mean nothing.
    pub const fn from_bits(bits: u64) -> Self {
        Self { index: (bits >> 32) as u32, generation: bits as u32 }
    }
}

/// What a probe found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProbeInfo {
    /// The sender.
    pub from: NodeId,
    /// Its endpoint.
    pub from_endpoint: u16,
    /// Match bits.
    pub match_bits: u64,
    /// Bytes of the whole message.
    pub total_bytes: u64,
    /// Immediate data.
    pub immediate: Option<u64>,
    /// Set if the probe was to claim the message.
    pub claim: Option<ClaimId>,
}

/// How an operation ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Status {
    /// All is well.
    Ok,
    /// The message was longer than the buffer; the buffer holds its start.
    Truncated,
    /// Cancelled by the host.
    Cancelled,
    /// The peer was met, and then not heard of for too long (V7). What was under way may have arrived.
    Unreachable,
    /// Nobody of that identity answered for as long (`HELLO-3`). Nothing of the operation has left.
    NotFound,
    /// The peer was restarted; what was under way to or from it is lost.
    PeerRestarted,
    /// The peer heard nothing of this node for too long, and gave it up; what was under way to or from it is lost (`EPOCH-4`).
    GivenUp,
    /// The peer's node was closed.
    PeerClosed,
    /// The peer's process has ended without closing its node, as its host has told (`RESEND-9`).
    PeerEnded,
    /// The peer has no such endpoint.
    NoEndpoint,
    /// The endpoint was closed under the operation.
    EndpointClosed,
    /// Host memory could not be reached.
    MemoryFault,
    /// The receiver gave the message up.
    Abandoned,
    /// The target has no region of this key (any more).
    BadKey,
    /// The target's region of this key is another one.
    BadGeneration,
    /// The operation reaches beyond the target's region.
    OutOfBounds,
    /// The target's region does not allow it.
    NoRights,
    /// More than fits one frame that the peer takes.
    TooLong,
    /// The receiver has as many unexpected messages as it may, and receives none of them.
    ReceiverFull,
}

impl From<DoneStatus> for Status {
    fn from(done: DoneStatus) -> Self {
        match done {
            DoneStatus::Complete | DoneStatus::Matched => Self::Ok,
            DoneStatus::Abandoned => Self::Abandoned,
            DoneStatus::BadKey => Self::BadKey,
            DoneStatus::BadGeneration => Self::BadGeneration,
            DoneStatus::OutOfBounds => Self::OutOfBounds,
            DoneStatus::NoRights => Self::NoRights,
            DoneStatus::Fault => Self::MemoryFault,
        }
    }
}

impl Status {
    /// True if nothing is heard of the peer, or it has heard nothing: an interface or a cable may be why.
    pub const fn is_silence(self) -> bool {
        matches!(self, Self::Unreachable | Self::NotFound | Self::GivenUp)
    }

    /// True if the peer is gone, or this node is for it: all that is under way between the two has ended so.
    pub const fn is_loss(self) -> bool {
        self.is_silence()
            || matches!(self, Self::PeerRestarted | Self::PeerClosed | Self::PeerEnded)
    }

    /// For people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Truncated => "message longer than the buffer",
            Self::Cancelled => "cancelled",
            Self::Unreachable => "peer unreachable",
            Self::NotFound => "no such node was found",
            Self::PeerRestarted => "peer was restarted",
            Self::GivenUp => "peer heard nothing of this node for too long and gave it up",
            Self::PeerClosed => "peer closed its node",
            Self::PeerEnded => "peer's process has ended",
            Self::NoEndpoint => "peer has no such endpoint",
            Self::EndpointClosed => "endpoint closed",
            Self::MemoryFault => "host memory could not be reached",
            Self::Abandoned => "receiver gave the message up",
            Self::BadKey => "target has no region of this key",
            Self::BadGeneration => "target's region of this key is another one",
            Self::OutOfBounds => "operation reaches beyond the target's region",
            Self::NoRights => "target's region does not allow the operation",
            Self::TooLong => "operation does not fit one of the peer's frames",
            Self::ReceiverFull => {
                "receiver has as many unexpected messages as it may (EMP_UNEXPECTED), and receives none of them"
            }
        }
    }
}

/// The end of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The operation.
    pub op: OpId,
    /// The descriptor's context.
    pub context: u64,
    /// How it ended.
    pub status: Status,
    /// Receives: bytes placed in the buffer. Others: bytes of the message or operation.
    pub bytes: u64,
    /// Bytes of the whole message or operation.
    pub total_bytes: u64,
    /// The other node. For receives that ended before they matched: [`NodeId::ANY`].
    pub peer: NodeId,
    /// The other endpoint.
    pub peer_endpoint: u16,
    /// Match bits of the message; of a one-sided operation, the region's key.
    pub match_bits: u64,
    /// Immediate data of a received message, or of a put.
    pub immediate: Option<u64>,
    /// Where in its buffer a received message is.
    pub place: BufferPlace,
}

impl Completion {
    /// Of an operation without a message: a receive that none was matched to, or whatever was under way when the engine ended.
    pub const fn unmatched(op: OpId, context: u64, status: Status) -> Self {
        Self {
            op,
            context,
            status,
            bytes: 0,
            total_bytes: 0,
            peer: NodeId::ANY,
            peer_endpoint: 0,
            match_bits: 0,
            immediate: None,
            place: BufferPlace::WHOLE,
        }
    }
}

/// Where in its buffer a received message is, and whether others may follow it there.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BufferPlace(u64);

impl BufferPlace {
    /// At the start, and the buffer is the host's again: as of all but receives for several messages.
    pub const WHOLE: Self = Self(0);
    /// Above all offsets: buffers have fewer than 2^63 bytes.
    const MORE: u64 = 1 << 63;

    /// So many bytes in, and the operation goes on.
    pub(crate) const fn more(offset: u64) -> Self {
        Self(offset | Self::MORE)
    }

    /// The same, and the operation is over.
    pub(crate) const fn last(self) -> Self {
        Self(self.0 & !Self::MORE)
    }

    /// All of it, for [`from_bits`](Self::from_bits).
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The place of these bits.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// Bytes of the buffer before the message.
    #[inline]
    pub const fn offset(self) -> u64 {
        self.0 & !Self::MORE
    }

    /// True: the buffer is the firmware's still, and other completions of the operation follow.
    #[inline]
    pub const fn is_more(self) -> bool {
        self.0 & Self::MORE != 0
    }
}

/// A send that was posted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Posted {
    /// The operation.
    pub op: OpId,
    /// It is over already, as most small sends are when they are copied: this is its completion, and no other follows.
    pub over: Option<Completion>,
}

/// Why a post was refused. Nothing was started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PostError {
    /// Too many operations are outstanding: progress, then try again.
    Busy,
    /// As many operations are outstanding as may be ([`Profile::operations_max`](crate::Profile::operations_max)), and none of them has ended for
    /// the profile's `unreachable_after`: to go on trying is to wait for oneself.
    Exhausted,
    /// A buffered send found no room in the pool: progress, then try again.
    PoolFull,
    /// A buffered send, or an atomic operation, is longer than one frame's payload.
    TooLong,
    /// The endpoint is not open on this node.
    NoEndpoint,
    /// Too many endpoints are open already.
    TooManyEndpoints,
    /// The claimed message is gone (its sender was lost), or was never claimed.
    NoClaim,
    /// The destination is [`NodeId::ANY`].
    NoDestination,
    /// Too many peers are known already.
    TooManyPeers,
    /// Host memory could not be reached.
    MemoryFault,
    /// The node is closing.
    Closing,
    /// A region of this key is exported already.
    KeyTaken,
    /// Too many regions are exported already.
    TooManyRegions,
    /// The operator is not defined for the datatype, or the lists do not fit operator and count.
    Unsupported,
    /// The firmware is elsewhere, and does not do that for this host. Never said by a firmware.
    NotOnBoard,
}
