//! What a simulated application posts, and the judge of what the posts return.

use emp_firmware::{
    CompletionMode, OpKind, PostError, ProbeInfo, ReceiveDescriptor, SendDescriptor, Span,
};

use crate::action::{Action, ClaimUse};
use crate::ledger::{
    Ledger, MessageId, MessageSpec, Posted, Receive, ReceiveId, TAG_BITS, immediate_of, match_bits,
    receive_context, send_context,
};
use crate::memory::{Access, payload};
use crate::prng::mix;
use crate::world::World;

/// Which match bits a receive wants.
#[derive(Clone, Copy, Debug)]
pub enum WantBits {
    /// Any.
    Any,
    /// Those with this tag.
    Tag(u16),
    /// Those whose tag agrees with this one in the bits of the mask.
    TagMasked(u16, u16),
    /// Those of one message.
    Exactly(MessageId),
}

impl WantBits {
    /// Wanted bits and ignored bits.
    pub fn resolve(self, ledger: &Ledger) -> (u64, u64) {
        let number = !0u64 << TAG_BITS;
        match self {
            Self::Any => (0, !0),
            Self::Tag(tag) => (u64::from(tag), number),
            Self::TagMasked(tag, mask) => (u64::from(tag), number | u64::from(!mask)),
            Self::Exactly(message) => (match_bits(message, ledger.messages[message].spec.tag), 0),
        }
    }
}

/// Which messages a receive wants.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// From this node; `None`: from any.
    pub from: Option<usize>,
    /// From this endpoint; `None`: from any.
    pub from_endpoint: Option<u16>,
    /// With these match bits.
    pub bits: WantBits,
}

impl Want {
    /// Every message.
    pub const ANY: Self = Self { from: None, from_endpoint: None, bits: WantBits::Any };

    /// One message.
    pub const fn exactly(message: MessageId) -> Self {
        Self { from: None, from_endpoint: None, bits: WantBits::Exactly(message) }
    }

    /// Messages with this tag, from anyone.
    pub const fn tag(tag: u16) -> Self {
        Self { from: None, from_endpoint: None, bits: WantBits::Tag(tag) }
    }
}

/// A receive as an application means it.
#[derive(Clone, Copy, Debug)]
pub struct ReceiveSpec {
    /// The node.
    pub node: usize,
    /// Its endpoint.
    pub endpoint: u16,
    /// What it takes.
    pub want: Want,
    /// Room.
    pub bytes: u64,
    /// Pieces of memory that it is scattered to.
    pub pieces: usize,
}

/// How long an application waits before it repeats a post that was refused for want of room.
const RETRY_AFTER: Span = Span::us(500);

/// Cuts `bytes` into so many pieces, some of them perhaps empty.
fn cut_into_pieces(bytes: u64, pieces: usize, seed: u64) -> Vec<u64> {
    let mut left = bytes;
    let mut all = Vec::with_capacity(pieces.max(1));
    for i in 1..pieces.max(1) {
        let share = left * 2 / (pieces - i + 1) as u64;
        let piece = if share == 0 { 0 } else { mix(seed ^ i as u64) % (share + 1) };
        all.push(piece.min(left));
        left -= piece.min(left);
    }
    all.push(left);
    all
}

impl World {
    /// Plans and posts a message now.
    pub fn send(&mut self, spec: MessageSpec) -> MessageId {
        let message = self.ledger.plan(spec);
        self.apply(Action::Send(message));
        message
    }

    /// Posts a receive on a node's endpoint 0 now.
    pub fn receive(&mut self, node: usize, want: Want, bytes: u64) -> ReceiveId {
        let now = self.now();
        self.nodes[node].wake(now);
        self.post_receive(&ReceiveSpec { node, endpoint: 0, want, bytes, pieces: 1 })
    }

    /// True if a message arrived in a receive that completed.
    pub fn arrived(&self, message: MessageId) -> bool {
        self.ledger.messages[message].taken.is_some()
    }

    /// How a send ended.
    pub fn sent(&self, message: MessageId) -> Option<emp_firmware::Status> {
        self.ledger.messages[message].ended.map(|(status, _)| status)
    }

    /// How a receive ended.
    pub fn received(&self, receive: ReceiveId) -> Option<emp_firmware::Completion> {
        self.ledger.receives[receive].ended.map(|(completion, _, _)| completion)
    }

    /// Tries to cancel a receive; true if a completion with `Cancelled` was promised.
    pub fn cancel_receive(&mut self, receive: ReceiveId) -> bool {
        let node = self.ledger.receives[receive].node;
        let Some(posted) = self.ledger.receives[receive].posted else { return false };
        let cancelled = self.poke(node, |firmware, _, now| firmware.cancel(now, posted.op));
        self.ledger.receives[receive].cancelled |= cancelled;
        cancelled
    }

    /// Tries to cancel a send; true if a completion with `Cancelled` was promised.
    pub fn cancel_send(&mut self, message: MessageId) -> bool {
        let node = self.ledger.messages[message].spec.from;
        let Some(posted) = self.ledger.messages[message].posted else { return false };
        let cancelled = self.poke(node, |firmware, _, now| firmware.cancel(now, posted.op));
        self.ledger.messages[message].cancelled |= cancelled;
        cancelled
    }

    pub(crate) fn cancel_any(&mut self, node: usize, pick: usize) {
        let open = self.ledger.open_ops(node, self.nodes[node].incarnation);
        if open.is_empty() {
            return;
        }
        match open[pick % open.len()] {
            (OpKind::Send, message) => self.cancel_send(message),
            (OpKind::Receive, receive) => self.cancel_receive(receive),
            // One-sided operations cannot be cancelled.
            _ => false,
        };
    }

    pub(crate) fn post_send(&mut self, id: MessageId) {
        let spec = self.ledger.messages[id].spec.clone();
        let order = self.ledger.tick();
        let (now, to) = (self.now, self.ids[spec.to]);
        let node = &mut self.nodes[spec.from];
        let Some(firmware) = node.firmware.as_mut() else { return };
        let pieces = cut_into_pieces(spec.bytes, spec.pieces, id as u64);
        let (buffer, segments) =
            node.memory.post(&pieces, Access::Read, &payload(id as u64, spec.bytes));
        let descriptor = SendDescriptor {
            to,
            endpoint: spec.endpoint,
            to_endpoint: spec.to_endpoint,
            match_bits: match_bits(id, spec.tag),
            segments,
            immediate: spec.immediate.then(|| immediate_of(id)),
            synchronous: spec.synchronous,
            completion: spec.completion,
            context: send_context(id),
        };
        let fits = spec.bytes <= firmware.buffered_bytes_max() as u64;
        match node.post_send(spec.from, now, descriptor, &mut self.network) {
            Ok(op) => {
                let incarnation = node.incarnation;
                self.ledger.messages[id].posted =
                    Some(Posted { op, at: now, order, incarnation, buffer: Some(buffer) });
            }
            Err(error) => {
                node.memory.release(buffer);
                self.send_refused(id, error, fits);
            }
        }
    }

    fn send_refused(&mut self, id: MessageId, error: PostError, fits: bool) {
        let spec = &mut self.ledger.messages[id].spec;
        let buffered = spec.completion == CompletionMode::Buffered;
        match error {
            PostError::Busy => self.schedule(self.now + RETRY_AFTER, Action::Send(id)),
            PostError::PoolFull if buffered => {
                self.schedule(self.now + RETRY_AFTER, Action::Send(id));
            }
            PostError::TooLong if buffered && !fits => {
                spec.completion = CompletionMode::Auto;
                self.post_send(id);
            }
            PostError::NoEndpoint
                if self.history.was_closed_since(spec.from, spec.endpoint, self.now) => {}
            other => self.fail(format!("send of message {id} was refused with {other:?}")),
        }
    }

    pub(crate) fn post_receive(&mut self, spec: &ReceiveSpec) -> ReceiveId {
        let match_order = self.ledger.tick();
        let incarnation = self.nodes[spec.node].incarnation;
        self.ledger.receives.push(Receive {
            node: spec.node,
            incarnation,
            endpoint: spec.endpoint,
            selector: self.selector(&spec.want),
            bytes: spec.bytes,
            match_order,
            claim: None,
            posted: None,
            ended: None,
            cancelled: false,
        });
        let receive = self.ledger.receives.len() - 1;
        self.post_noted_receive(receive, spec.pieces);
        receive
    }

    fn post_noted_receive(&mut self, id: ReceiveId, pieces: usize) {
        let order = self.ledger.tick();
        let now = self.now;
        let receive = &mut self.ledger.receives[id];
        let node = &mut self.nodes[receive.node];
        let Some(firmware) = node.firmware.as_mut() else { return };
        let pieces = cut_into_pieces(receive.bytes, pieces, !(id as u64));
        let (buffer, segments) = node.memory.post(&pieces, Access::Write, &[]);
        let descriptor = ReceiveDescriptor {
            endpoint: receive.endpoint,
            selector: receive.selector,
            segments,
            claim: receive.claim.map(|(claim, _)| claim),
            context: receive_context(id),
        };
        match firmware.post_receive(now, descriptor, &mut node.memory) {
            Ok(op) => {
                let incarnation = node.incarnation;
                receive.posted =
                    Some(Posted { op, at: now, order, incarnation, buffer: Some(buffer) });
            }
            Err(error) => {
                node.memory.release(buffer);
                let (at, endpoint) = (receive.node, receive.endpoint);
                let source = receive.claim.map(|(_, message)| {
                    let message = &self.ledger.messages[message];
                    (message.spec.from, message.posted.map_or(now, |posted| posted.at))
                });
                let explained = match (error, source) {
                    (PostError::NoEndpoint, _) => self.history.was_closed_since(at, endpoint, now),
                    (PostError::NoClaim, Some((from, since))) => {
                        self.history.pair_broke(from, at, since)
                            || self.history.was_closed_since(at, endpoint, since)
                    }
                    _ => false,
                };
                if !explained {
                    self.fail(format!("receive {id} was refused with {error:?}"));
                }
            }
        }
    }

    /// Probes now; a claim is used as said.
    pub fn probe(
        &mut self,
        node: usize,
        endpoint: u16,
        want: &Want,
        claim: Option<ClaimUse>,
    ) -> Option<MessageId> {
        let selector = self.selector(want);
        let match_order = self.ledger.tick();
        let info =
            self.poke(node, |firmware, _, _| firmware.probe(endpoint, selector, claim.is_some()))?;
        let id = match self.check_probe(node, endpoint, &info, claim.is_some()) {
            Ok(id) => id,
            Err(what) => {
                self.fail(format!("node {node}: probe on endpoint {endpoint}: {what}"));
                return None;
            }
        };
        let (Some(claim), Some(use_of_it)) = (info.claim, claim) else { return Some(id) };
        self.ledger.messages[id].claimed = Some(match_order);
        let incarnation = self.nodes[node].incarnation;
        self.ledger.receives.push(Receive {
            node,
            incarnation,
            endpoint,
            selector,
            bytes: info.total_bytes,
            match_order,
            claim: Some((claim, id)),
            posted: None,
            ended: None,
            cancelled: false,
        });
        let receive = self.ledger.receives.len() - 1;
        let (after, action) = match use_of_it {
            ClaimUse::Receive(after) => (after, Action::ReceiveClaimed(receive)),
            ClaimUse::Discard(after) => (after, Action::DiscardClaimed(receive)),
        };
        self.schedule(self.now + after, action);
        Some(id)
    }

    fn check_probe(
        &self,
        node: usize,
        endpoint: u16,
        info: &ProbeInfo,
        claim: bool,
    ) -> Result<MessageId, String> {
        let id = self.ledger.by_bits(info.match_bits);
        let id = id.ok_or_else(|| format!("found {info:?}, which was never sent"))?;
        let message = &self.ledger.messages[id];
        let spec = &message.spec;
        let wanted = ProbeInfo {
            from: self.ids[spec.from],
            from_endpoint: spec.endpoint,
            match_bits: match_bits(id, spec.tag),
            total_bytes: spec.bytes,
            immediate: spec.immediate.then(|| immediate_of(id)),
            claim: info.claim,
        };
        if (spec.to, spec.to_endpoint) != (node, endpoint) || wanted != *info {
            return Err(format!("should have found {wanted:?}, found {info:?}"));
        }
        if info.claim.is_some() != claim {
            return Err(format!("claim asked {claim}, given {:?}", info.claim));
        }
        if message.taken.is_some() || message.claimed.is_some() || message.cancelled {
            return Err(format!("found message {id}, which is no longer there"));
        }
        Ok(id)
    }

    pub(crate) fn receive_claimed(&mut self, receive: ReceiveId) {
        if self.same_incarnation(receive) {
            self.post_noted_receive(receive, 1);
        }
    }

    pub(crate) fn discard_claimed(&mut self, receive: ReceiveId) {
        if !self.same_incarnation(receive) {
            return;
        }
        let record = &self.ledger.receives[receive];
        let Some((claim, message)) = record.claim else { return };
        let (node, endpoint) = (record.node, record.endpoint);
        self.ledger.messages[message].discarded = true;
        let discarded = self.poke(node, |firmware, _, now| firmware.discard(now, claim));
        let spec = &self.ledger.messages[message].spec;
        let since = self.ledger.messages[message].posted.map_or(self.now, |posted| posted.at);
        let explained = self.history.pair_broke(spec.from, node, since)
            || self.history.was_closed_since(node, endpoint, since);
        if !discarded && !explained {
            self.fail(format!("node {node}: claimed message {message} could not be given up"));
        }
    }

    /// True if the node was not stopped since the claim was made.
    fn same_incarnation(&self, receive: ReceiveId) -> bool {
        let record = &self.ledger.receives[receive];
        self.nodes[record.node].incarnation == record.incarnation
    }
}
