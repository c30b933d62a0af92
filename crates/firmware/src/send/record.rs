//! Transmission records (I1): what was cut into frames and is not yet acknowledged, and the state of each frame.

use emp_wire::Sequence;

use crate::cross::{Control, RegionBlock};
use crate::path::PathId;
use crate::path::recovery::Departure;

/// A run of frames with contiguous sequence numbers (`SEQ-4`).
#[derive(Debug)]
pub(super) struct Record {
    pub(super) first: Sequence,
    pub(super) count: u32,
    /// Frames that were sent at least once: a prefix.
    pub(super) sent: u32,
    pub(super) acked: u32,
    /// The path that it takes (`PATH-3`), and the frames of the usual length that it was chosen for.
    pub(super) path: PathId,
    pub(super) usual_frames: u32,
    pub(super) what: What,
}

/// Where a record's frames come from.
#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The unscheduled part of a message.
    Message { message: u32, number: u32 },
    /// A block of a message that the peer pulled.
    Block { message: u32, pull: u16, offset: u64, bytes: u32 },
    /// A block of a region that the peer asked for.
    Region(RegionBlock),
    /// One control frame.
    Control(Control),
    /// The message is gone or withdrawn: its frames are replaced by `skip` frames (`SEQ-5`).
    Skip,
    /// A `skip` that asks what became of the long frame that left last (`RESEND-6`).
    Question,
}

impl What {
    /// The message behind it.
    pub(super) const fn message(&self) -> Option<u32> {
        match self {
            Self::Message { message, .. } | Self::Block { message, .. } => Some(*message),
            Self::Region(_) | Self::Control(_) | Self::Skip | Self::Question => None,
        }
    }

    /// The stored values that it carries.
    pub(super) const fn values(&self) -> Option<u32> {
        match self {
            Self::Control(control) => control.values(),
            _ => None,
        }
    }
}

/// How long a frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Load {
    /// Bytes of it, header included.
    pub(crate) bytes: u16,
    /// It is longer than the MTU (`LONG-3`).
    pub(crate) long: bool,
}

impl Load {
    /// A control frame with its fields, or nearly.
    pub(crate) const SHORT: Self = Self { bytes: 64, long: false };

    pub(crate) fn of(bytes: u64, long: bool) -> Self {
        Self { bytes: bytes.min(u16::MAX.into()) as u16, long }
    }
}

/// State of one frame in the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum FrameState {
    #[default]
    Unsent,
    InFlight,
    Lost,
    Acked,
}

/// One frame in the window.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Frame {
    /// Number of its last transmission among all of its path: what loss detection goes by.
    pub(super) order: u32,
    /// When that was, in microseconds (wrapping).
    pub(super) sent_us: u32,
    pub(super) state: FrameState,
    pub(super) resent: bool,
    /// The path that it took last.
    pub(super) path: PathId,
    /// How long it is.
    pub(super) load: Load,
}

impl Frame {
    /// It is longer than the MTU.
    pub(super) const fn is_long(&self) -> bool {
        self.load.long
    }

    /// Its last transmission.
    pub(super) const fn departure(&self) -> Departure {
        Departure { order: self.order, sent_us: self.sent_us }
    }
}

/// A block that a peer asked for and that waits for its turn.
#[derive(Clone, Copy, Debug)]
pub(super) enum QueuedBlock {
    /// Of a message.
    Message { message: u32, generation: u32, pull: u16, offset: u64, bytes: u32 },
    /// Of a region.
    Region(RegionBlock),
}

impl QueuedBlock {
    /// It is of this message.
    pub(super) const fn is_of(&self, index: u32) -> bool {
        matches!(self, Self::Message { message, .. } if *message == index)
    }
}
