//! What can go wrong, in words that name the peer and the reason.

use std::fmt;

use emp_firmware::{Completion, OpKind, PostError, Status};
use emp_wire::NodeId;

use crate::boards::seat::is_temporary;
use crate::told::names;

/// Why an endpoint could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// It is open already.
    #[error("endpoint {0} of this node is open already")]
    AlreadyOpen(u16),
    /// The firmware refused it.
    #[error("endpoint {0}: {text}", text = describe(*.1))]
    Refused(u16, PostError),
}

/// Why a post was refused. Nothing was started; the buffer is here.
pub struct Refused<B> {
    /// The reason.
    pub reason: RefusedReason,
    /// The buffer.
    pub buffer: B,
}

/// Why a post was refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefusedReason {
    /// By the firmware. [`PostError::Busy`] and [`PostError::PoolFull`] pass when progress is made.
    Firmware(PostError),
    /// The buffer has more runs of memory than [`SEGMENTS_MAX`](emp_firmware::limits::SEGMENTS_MAX).
    TooManySegments,
}

impl RefusedReason {
    /// True if the same post may be accepted after some progress.
    pub fn is_temporary(self) -> bool {
        matches!(self, Self::Firmware(error) if is_temporary(error))
    }
}

impl fmt::Display for RefusedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Firmware(error) => f.write_str(describe(*error)),
            Self::TooManySegments => write!(
                f,
                "the buffer has more than {} runs of memory",
                emp_firmware::limits::SEGMENTS_MAX
            ),
        }
    }
}

/// A refusal for people.
pub(crate) const fn describe(error: PostError) -> &'static str {
    match error {
        PostError::Busy => "too many operations are outstanding; make progress, then try again",
        PostError::Exhausted => {
            "as many operations are outstanding as may be (EMP_OPERATIONS), and none of them ends: what they wait for does not come"
        }
        PostError::PoolFull => "no room for a buffered send; make progress, then try again",
        PostError::TooLong => "too long: more than is copied before it is sent",
        PostError::NoEndpoint => "the endpoint is not open on this node",
        PostError::NoClaim => "the claimed message is gone: its sender was lost",
        PostError::NoDestination => "the destination is no particular node",
        PostError::TooManyPeers => "too many peers are known already",
        PostError::MemoryFault => "the buffer's memory could not be read",
        PostError::Closing => "the node is closed",
        PostError::KeyTaken => "a region of this key is exported already",
        PostError::TooManyEndpoints => "too many endpoints are open already",
        PostError::TooManyRegions => "too many regions are exported already",
        PostError::Unsupported => "the operator is not defined for these operands",
        PostError::NotOnBoard => {
            "regions, puts, gets and atomics are not done by the daemon board: start the node on another"
        }
    }
}

/// An operation ended with something other than success.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperationError {
    /// How it ended. [`Completion::status`] is not [`Status::Ok`].
    pub completion: Completion,
    /// The peer's name: as this program called it, else as it calls itself, if it was met; else empty.
    pub peer_name: String,
    /// What may be why: if nothing was heard of the peer, where it was looked for, and what is wrong with this node's interfaces
    /// ("interface eth0 is down"); if it seems to have restarted, whether two nodes claim its identity. Else empty.
    pub trouble: String,
}

impl OperationError {
    /// The reason.
    pub fn status(&self) -> Status {
        self.completion.status
    }
}

impl fmt::Display for OperationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Completion { peer, peer_endpoint, status, bytes, total_bytes, .. } = self.completion;
        let what = match self.completion.op.kind() {
            OpKind::Send => "send to",
            OpKind::Receive => "receive from",
            OpKind::Put => "put to",
            OpKind::Get => "get from",
            OpKind::Atomic => "atomic operation at",
            OpKind::Notified => "notification by",
            OpKind::Undelivered => "delivery to",
        };
        match peer {
            NodeId::ANY => write!(f, "{what} any node: ")?,
            _ => {
                let name = names::show(peer, &self.peer_name);
                write!(f, "{what} node {name} endpoint {peer_endpoint}: ")?;
            }
        }
        f.write_str(status.describe())?;
        match status {
            _ if !self.trouble.is_empty() => write!(f, "; {}", self.trouble),
            Status::Truncated => write!(f, " ({bytes} of {total_bytes} bytes fit)"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for OperationError {}

/// An operation that failed, with the buffer.
pub struct Failed<B> {
    /// What happened to which peer.
    pub error: OperationError,
    /// The buffer. After [`Status::Truncated`] it holds the start of the message; after other failures of a receive its
    /// contents are whatever had arrived.
    pub buffer: B,
}

impl<B> fmt::Display for Refused<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.reason.fmt(f)
    }
}

impl<B> fmt::Debug for Refused<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<B> std::error::Error for Refused<B> {}

impl<B> fmt::Display for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<B> fmt::Debug for Failed<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Failed").field("error", &self.error).finish_non_exhaustive()
    }
}

impl<B> std::error::Error for Failed<B> {}
