//! What was posted and how it ended: every message and every receive of a run, on all nodes.

use emp_firmware::{ClaimId, Completion, CompletionMode, OpId, OpKind, Selector, Status, Time};

use crate::memory::BufferId;

/// A message's number: its place in [`Ledger::messages`].
pub type MessageId = usize;
/// A receive's number: its place in [`Ledger::receives`].
pub type ReceiveId = usize;

/// A message as an application means it.
#[derive(Clone, Debug)]
pub struct MessageSpec {
    /// The sending node.
    pub from: usize,
    /// The endpoint it is sent from.
    pub endpoint: u16,
    /// The receiving node; may be the sender.
    pub to: usize,
    /// The endpoint it is for.
    pub to_endpoint: u16,
    /// What receives select by. The match bits are the message's number and, in their low 16 bits, the tag.
    pub tag: u16,
    /// Length.
    pub bytes: u64,
    /// Pieces of memory that it is gathered from.
    pub pieces: usize,
    /// With immediate data.
    pub immediate: bool,
    /// Complete only when matched.
    pub synchronous: bool,
    /// When it is complete.
    pub completion: CompletionMode,
}

impl MessageSpec {
    /// A plain message from endpoint 0 to endpoint 0.
    pub fn plain(from: usize, to: usize, bytes: u64) -> Self {
        Self {
            from,
            endpoint: 0,
            to,
            to_endpoint: 0,
            tag: 0,
            bytes,
            pieces: 1,
            immediate: false,
            synchronous: false,
            completion: CompletionMode::Auto,
        }
    }
}

/// A message's way.
#[derive(Clone, Debug)]
pub struct Message {
    /// What it is.
    pub spec: MessageSpec,
    /// Set when the firmware took it.
    pub posted: Option<Posted>,
    /// How the send ended.
    pub ended: Option<(Status, Time)>,
    /// The receive that it completed.
    pub taken: Option<ReceiveId>,
    /// Claimed by a probe that was this late in the run's order.
    pub claimed: Option<u64>,
    /// Claimed and given up.
    pub discarded: bool,
    /// The firmware promised that it is cancelled.
    pub cancelled: bool,
}

/// How an operation was posted.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    /// The firmware's name for it.
    pub op: OpId,
    /// When.
    pub at: Time,
    /// Its place in the order of everything that happened.
    pub order: u64,
    /// The poster's incarnation.
    pub incarnation: u32,
    /// Its memory, until it ended.
    pub buffer: Option<BufferId>,
}

/// A receive's way.
#[derive(Clone, Debug)]
pub struct Receive {
    /// The node.
    pub node: usize,
    /// The node's incarnation when it was noted.
    pub incarnation: u32,
    /// Its endpoint.
    pub endpoint: u16,
    /// What it takes; for a claim what the probe wanted.
    pub selector: Selector,
    /// Room.
    pub bytes: u64,
    /// Its place in the matching order: when it was posted, or when the probe claimed.
    pub match_order: u64,
    /// The message it must get, if it was claimed.
    pub claim: Option<(ClaimId, MessageId)>,
    /// Set when the firmware took it.
    pub posted: Option<Posted>,
    /// How it ended, and where in the run's order.
    pub ended: Option<(Completion, Time, u64)>,
    /// The firmware promised that it is cancelled.
    pub cancelled: bool,
}

/// All messages and receives of a run.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Messages, posted or planned.
    pub messages: Vec<Message>,
    /// Receives.
    pub receives: Vec<Receive>,
    order: u64,
}

/// Contexts of receives have this bit, those of sends don't.
const RECEIVE_CONTEXT: u64 = 1 << 63;
/// Bits of the match bits that hold the tag.
pub const TAG_BITS: u32 = 16;

/// The match bits of a message.
pub fn match_bits(message: MessageId, tag: u16) -> u64 {
    (message as u64) << TAG_BITS | u64::from(tag)
}

/// The immediate data of a message that has some.
pub fn immediate_of(message: MessageId) -> u64 {
    crate::prng::mix(message as u64 ^ 0x1111)
}

/// The context of a send.
pub fn send_context(message: MessageId) -> u64 {
    message as u64
}

/// The context of a receive.
pub fn receive_context(receive: ReceiveId) -> u64 {
    receive as u64 | RECEIVE_CONTEXT
}

/// What a context stands for.
pub fn of_context(context: u64) -> (OpKind, usize) {
    let kind = if context & RECEIVE_CONTEXT == 0 { OpKind::Send } else { OpKind::Receive };
    (kind, (context & !RECEIVE_CONTEXT) as usize)
}

impl Ledger {
    /// Notes a message that will be posted.
    pub fn plan(&mut self, spec: MessageSpec) -> MessageId {
        self.messages.push(Message {
            spec,
            posted: None,
            ended: None,
            taken: None,
            claimed: None,
            discarded: false,
            cancelled: false,
        });
        self.messages.len() - 1
    }

    /// The next place in the order of what happens.
    pub fn tick(&mut self) -> u64 {
        self.order += 1;
        self.order
    }

    /// The message that these match bits name.
    pub fn by_bits(&self, match_bits: u64) -> Option<MessageId> {
        let message = (match_bits >> TAG_BITS) as usize;
        let known = self.messages.get(message)?;
        (known.spec.tag == match_bits as u16).then_some(message)
    }

    /// Messages that were posted and may still be delivered.
    pub fn outstanding(&self) -> impl Iterator<Item = (MessageId, &Message)> {
        self.messages.iter().enumerate().filter(|(_, message)| message.may_arrive())
    }

    /// Sends and receives of this node that have not ended.
    pub fn open_ops(&self, node: usize, incarnation: u32) -> Vec<(OpKind, usize)> {
        let here = |posted: &Option<Posted>| posted.is_some_and(|p| p.incarnation == incarnation);
        let sends = self.messages.iter().enumerate().filter(|(_, message)| {
            message.spec.from == node && message.ended.is_none() && here(&message.posted)
        });
        let receives = self.receives.iter().enumerate().filter(|(_, receive)| {
            receive.node == node && receive.ended.is_none() && here(&receive.posted)
        });
        sends
            .map(|(id, _)| (OpKind::Send, id))
            .chain(receives.map(|(id, _)| (OpKind::Receive, id)))
            .collect()
    }
}

impl Receive {
    /// When it was posted; long ago if it was not.
    pub fn posted_at(&self) -> Time {
        self.posted.map_or(Time(0), |posted| posted.at)
    }
}

impl Message {
    /// True if it was posted, was neither taken nor given up, and its send did not fail.
    pub fn may_arrive(&self) -> bool {
        self.posted.is_some()
            && self.taken.is_none()
            && self.claimed.is_none()
            && !self.cancelled
            && self.ended.is_none_or(|(status, _)| matches!(status, Status::Ok | Status::Truncated))
    }
}
