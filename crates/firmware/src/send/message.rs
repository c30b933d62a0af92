//! A message as the send side has it: what it is to its receiver, how far it has come, and what its host is told.

use emp_wire::{AtomicOp, Datatype};

use super::plan;
use crate::descriptor::{Completion, OpId, OpKind, SendDescriptor, Status};
use crate::pool::Chain;

/// What a message is to its receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// To be matched.
    Message,
    /// Bytes for a region, whose key stands in place of match bits.
    Put { generation: u32, offset: u64 },
    /// Elements of a region are to be changed; with `fetch`, the receive side's name for the old values.
    Atomic {
        generation: u32,
        offset: u64,
        operation: AtomicOp,
        datatype: Datatype,
        count: u32,
        fetch: Option<u32>,
    },
}

impl Work {
    pub(super) const fn kind(&self) -> OpKind {
        match self {
            Self::Message => OpKind::Send,
            Self::Put { .. } => OpKind::Put,
            Self::Atomic { .. } => OpKind::Atomic,
        }
    }

    /// The target says how it ended: what is not a message, unless its answer goes to the receive side.
    pub(super) const fn needs_done(&self) -> bool {
        matches!(self, Self::Put { .. } | Self::Atomic { fetch: None, .. })
    }

    /// Its answer goes to the receive side: this one tells its host nothing.
    pub(super) const fn ends_elsewhere(&self) -> bool {
        matches!(self, Self::Atomic { fetch: Some(_), .. })
    }
}

/// A message that was posted and is not forgotten yet.
pub(super) struct SendMessage {
    pub(super) descriptor: SendDescriptor,
    pub(super) work: Work,
    pub(super) peer: u32,
    /// Its number in the pair's order, from its first transmission on.
    pub(super) number: Option<u32>,
    /// Where its bytes are, if not in the user's memory.
    pub(super) chain: Option<Chain>,
    /// How it travels; set when its train begins.
    pub(super) plan: plan::Plan,
    pub(super) state: State,
    /// Its receiver has said `done` while its train was not acknowledged, which it says once (`DONE-1`): if that train is withdrawn, the next is not
    /// to wait for another.
    pub(super) is_done: bool,
}

/// How far a message has come. Whether its receiver says `done` is known when its train begins: it does if it pulls, and of what is
/// synchronous or a put.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// It stands in the peer's queue of messages to be sent, for the first time or again.
    Queued,
    /// Its train is in the records. It is over when that is acknowledged.
    Sending,
    /// The same, and its receiver says `done` as well.
    AwaitingBoth,
    /// That has come, and its train is not acknowledged yet.
    AwaitingAck,
    /// Its train is acknowledged.
    AwaitingDone,
    /// The receiver had no room for it: it has its place in the order without its bytes, which it pulls, and then says `done`.
    Held,
    /// The same, because the endpoint is not open that it is for.
    HeldNoEndpoint,
    /// It has ended for its host after it had got its number, which its receiver is still to count (`MSG-5`).
    Void,
    /// Nothing more of it is to leave or to come.
    Over,
}

impl SendMessage {
    /// Its host was told that it is over: it was copied, and nothing more is to be heard of it, or that comes elsewhere.
    #[inline]
    pub(super) const fn is_told(&self) -> bool {
        match self.work {
            _ if matches!(self.state, State::Void) => true,
            Work::Message => self.chain.is_some() && !self.descriptor.synchronous,
            Work::Put { .. } | Work::Atomic { .. } => self.work.ends_elsewhere(),
        }
    }

    /// All of its train is acknowledged, or its receiver has its place in the order.
    pub(super) const fn is_acked(&self) -> bool {
        use State::{AwaitingDone, Held, HeldNoEndpoint, Over};
        matches!(self.state, AwaitingDone | Held | HeldNoEndpoint | Over)
    }

    /// Its receiver says, or has said, `done`.
    pub(super) fn needs_done(&self) -> bool {
        match self.state {
            // Of one that was refused it is known from when it was sent.
            State::Queued => self.number.is_some() && self.shape().needs_done(&self.plan),
            State::Sending | State::Void | State::Over => false,
            _ => true,
        }
    }

    /// What its host is told.
    #[inline]
    pub(super) fn completion(&self, op: OpId, status: Status) -> Completion {
        let SendDescriptor {
            ref segments, to, to_endpoint, match_bits, immediate, context, ..
        } = self.descriptor;
        let bytes = segments.bytes();
        Completion {
            op,
            context,
            status,
            bytes,
            total_bytes: bytes,
            peer: to,
            peer_endpoint: to_endpoint,
            match_bits,
            immediate,
            place: crate::descriptor::BufferPlace::WHOLE,
        }
    }
}
