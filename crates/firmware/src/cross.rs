//! What the two paths say to each other. They share nothing else: on one processor these are plain calls, on two they
//! are single-producer rings and a common area (I13, I15).

use emp_wire::{DoneStatus, Sequence};

use crate::chunked::Chunked;

/// From the receive path to the send path.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ToSend {
    /// The peer wants a block of a message.
    PullRequested { peer: u32, handle: u32, offset: u64, bytes: u32, pull: u16 },
    /// The peer said what became of a message.
    DoneReceived { peer: u32, handle: u32, status: DoneStatus },
    /// A control frame is to be sent reliably.
    Control { peer: u32, control: Control },
}

/// From the send path to the node: a peer does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RouteNews {
    /// Nothing heard for half of the time that a peer gets: look for another route.
    Suspect { peer: u32 },
    /// Nothing heard for all of it.
    Lost { peer: u32 },
}

/// Contents of a sequenced frame that carries no user data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Control {
    Pull { handle: u32, offset: u64, bytes: u32, pull: u16 },
    Done { handle: u32, status: DoneStatus },
}

/// The common area: per peer, what the send path needs for piggybacking (V18).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AckCell {
    /// Written by the receive path: the acknowledgement that outgoing frames carry.
    pub(crate) acknowledge: Sequence,
    /// Written by the receive path: an acknowledgement is owed and the cumulative one says it all.
    pub(crate) owed: bool,
    /// Written by the send path: it went out on a frame. Cleared by the receive path.
    pub(crate) carried: bool,
}

/// Everything between the paths.
pub(crate) struct Cross {
    pub(crate) acks: Chunked<AckCell>,
}

impl Cross {
    pub(crate) const fn new() -> Self {
        Self { acks: Chunked::new() }
    }

    pub(crate) fn add_peer(&mut self) {
        self.acks.push(AckCell::default());
    }
}
