//! One-sided operations as a host posts them: exported regions, put, get, atomics (V8, V29).

pub(crate) mod arithmetic;

use emp_wire::{Atomic, AtomicOp, Datatype, NodeId};

use crate::descriptor::{CompletionMode, PostError};
use crate::memory::SegmentList;

/// What other nodes may do with an exported region (V29). Atomics that change memory need
/// [`REMOTE_WRITE`](Self::REMOTE_WRITE); those that fetch need [`REMOTE_READ`](Self::REMOTE_READ) too.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Rights(u8);

impl Rights {
    /// Nothing: the region is only known.
    pub const NONE: Self = Self(0);
    /// Gets, and fetching atomics.
    pub const REMOTE_READ: Self = Self(1);
    /// Puts and atomics.
    pub const REMOTE_WRITE: Self = Self(2);
    /// Everything.
    pub const BOTH: Self = Self(3);

    /// These and those.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// True if all of `other` is among them.
    pub const fn allow(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// An exported region as its owner names it to others, out of band.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct RegionId {
    /// The key, unique on the node while the region lives.
    pub key: u64,
    /// Distinguishes it from other regions that have had the key. Never 0.
    pub generation: u32,
}

/// A place in another node's exported memory (or in one's own).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RemoteRegion {
    /// The node that exported it.
    pub to: NodeId,
    /// The endpoint there that notifications are for; if it is not open, the region's own endpoint.
    pub to_endpoint: u16,
    /// Key of the region.
    pub key: u64,
    /// Its generation, or 0: not to be checked.
    pub generation: u32,
    /// First byte, counted from the region's start.
    pub offset: u64,
}

/// Bytes to be written to another node's memory. The length is that of the segments; it may be zero.
///
/// The operation is complete when the target has placed all bytes, and says so, or says why not.
#[derive(Clone, Debug)]
pub struct PutDescriptor {
    /// Where they go.
    pub target: RemoteRegion,
    /// The endpoint they are sent from.
    pub endpoint: u16,
    /// Where they are.
    pub segments: SegmentList,
    /// Notify the target of the end with these eight bytes ([`OpKind::Notified`](crate::OpKind::Notified)).
    pub immediate: Option<u64>,
    /// With [`Buffered`](CompletionMode::Buffered) the bytes (one frame's at most) are copied before the post returns.
    /// The completion comes when the target is done, in every mode: only then is it known how the operation ended.
    pub completion: CompletionMode,
    /// Given back in the completion.
    pub context: u64,
}

/// Bytes to be read from another node's memory. The length is that of the segments; it may be zero.
#[derive(Clone, Debug)]
pub struct GetDescriptor {
    /// Where they are.
    pub target: RemoteRegion,
    /// The endpoint that asks.
    pub endpoint: u16,
    /// Where they go.
    pub segments: SegmentList,
    /// Given back in the completion.
    pub context: u64,
}

/// Elements of another node's memory to be changed, each at once, exactly once, in the order of posts to that node.
///
/// Atomic with respect to other operations of any node on that node's region; what the target's own processors do to the
/// memory meanwhile is not in the firmware's hands.
#[derive(Clone, Debug)]
pub struct AtomicDescriptor {
    /// Where they are. No alignment is needed.
    pub target: RemoteRegion,
    /// The endpoint that asks.
    pub endpoint: u16,
    /// What to do.
    pub operation: AtomicOp,
    /// With which kind of elements.
    pub datatype: Datatype,
    /// How many elements, at least 1. Operands, with what to compare, must fit one frame
    /// ([`Firmware::atomic_bytes_max`](crate::Firmware::atomic_bytes_max)).
    pub count: u32,
    /// `count` operands; empty for [`AtomicOp::Read`]. Copied before the post returns.
    pub operands: SegmentList,
    /// `count` elements to compare with (or the mask), for the operators that compare. Copied before the post returns.
    pub compare: Option<SegmentList>,
    /// Where the `count` old values go, if they are wanted.
    pub fetch_into: Option<SegmentList>,
    /// Given back in the completion.
    pub context: u64,
}

impl AtomicDescriptor {
    /// Whether it is one, of at most so many bytes of operands ([`Firmware::atomic_bytes_max`](crate::Firmware::atomic_bytes_max)).
    ///
    /// # Errors
    ///
    /// [`PostError::Unsupported`]; [`PostError::TooLong`].
    pub fn check(&self, bytes_max: u64) -> Result<(), PostError> {
        let Self { operation, datatype, count, .. } = *self;
        let bytes = Atomic::element_bytes((datatype, count));
        let fits = |list: &Option<SegmentList>, wanted: bool| match list {
            Some(list) => wanted && list.bytes() == bytes,
            None => !wanted,
        };
        let operand_bytes = if operation.has_operands() { bytes } else { 0 };
        let fetch = &self.fetch_into;
        let sane = count > 0
            && operation.defined_for(datatype)
            && self.operands.bytes() == operand_bytes
            && fits(&self.compare, operation.compares())
            && fits(fetch, fetch.is_some());
        if !sane {
            return Err(PostError::Unsupported);
        }
        let payload = Atomic::payload_bytes(operation, bytes).max(bytes);
        if payload > bytes_max { Err(PostError::TooLong) } else { Ok(()) }
    }
}
