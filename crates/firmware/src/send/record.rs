//! Transmission records (I1): what was cut into frames and is not yet acknowledged, and the state of each frame.

use emp_wire::Sequence;

use super::SendMessage;
use super::plan::Cut;
use crate::cross::{Control, RegionBlock};
use crate::path::PathId;
use crate::path::recovery::Departure;

/// A run of frames with contiguous sequence numbers (`SEQ-4`).
#[derive(Debug)]
pub(super) struct Record {
    pub(super) first: Sequence,
    pub(super) count: u32,
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
    /// A block of a message that the peer pulled, and payload bytes of its frames.
    Block { message: u32, pull: u16, offset: u64, bytes: u32, fragment: u16 },
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

    /// What frame `place` of its train carries, of this message if it is of one. `None`: nothing of a message or region.
    #[inline]
    pub(super) fn piece(&self, place: u32, message: Option<&SendMessage>) -> Option<Piece> {
        let of_block = |from: u64, bytes: u64, fragment: u16| {
            let start = u64::from(place) * u64::from(fragment);
            Some(Piece { offset: from + start, left: bytes.checked_sub(start)?, fragment })
        };
        match (self, message) {
            (Self::Message { .. }, Some(message)) => {
                let Cut { unscheduled, first_payload, fragment, .. } = message.plan.cut;
                let before =
                    place.checked_sub(1).map(|before| u64::from(before) * u64::from(fragment));
                let offset = before.map_or(0, |before| u64::from(first_payload) + before);
                let end = if place == 0 { first_payload } else { unscheduled };
                Some(Piece { offset, left: u64::from(end).saturating_sub(offset), fragment })
            }
            (Self::Block { offset, bytes, fragment, .. }, Some(_)) => {
                of_block(*offset, (*bytes).into(), *fragment)
            }
            (Self::Region(block), _) => of_block(0, block.memory.bytes, block.fragment),
            _ => None,
        }
    }
}

/// A piece of a message or region.
#[derive(Clone, Copy)]
pub(super) struct Piece {
    /// Where it begins.
    pub(super) offset: u64,
    /// Bytes from there to the end of what its train carries, and of a frame that is not the first or last.
    pub(super) left: u64,
    pub(super) fragment: u16,
}

impl Piece {
    /// Its bytes.
    #[inline]
    pub(super) fn bytes(&self) -> u64 {
        self.left.min(self.fragment.into())
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
