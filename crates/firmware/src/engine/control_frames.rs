//! Frames that the node sends by itself: explicit acknowledgements, what was not taken, goodbyes.

use emp_wire::{Ack, Close, Epoch, Flags, Kind, LinkAddress, NotReady, Sequence};

use crate::counters::Counter;
use crate::encode::{self, Head, INLINE_PAYLOAD_BYTES, Line, Payload};
use crate::engine::Firmware;
use crate::memory::HostMemory;
use crate::path::PathId;
use crate::profile::RetransmitUnit;
use crate::receive::{AckOut, NotTaken};
use crate::stage::Stage;
use crate::time::{Span, Time};
use crate::transmit::TransmitBatch;

/// Goodbyes that each peer is sent: who goes away does not stay to send them again, and of what one loses the peer would learn by silence.
const GOODBYES: u32 = 3;

/// What a refusal suggests to wait: the time in which a host that polls posts its next receive.
const REFUSAL_BACKOFF: Span = Span::us(50);

impl Firmware {
    /// Adds a frame without user data for a peer, by this path. False: it has no way, or is too long for the batch's frames.
    fn say(
        &mut self,
        (to, path): (u32, PathId),
        head: &Head,
        body: impl Fn(&mut [u8]) -> usize + Copy,
        (memory, batch): (&impl HostMemory, &mut TransmitBatch),
    ) -> bool {
        let paths = self.peers.paths(to);
        let (path, hop) = paths.pick(path);
        let line = Line {
            peers: &self.peers,
            peer: &self.peers[to],
            hop,
            check_payload: true,
            inline_bytes: INLINE_PAYLOAD_BYTES,
            // Several of them in one link frame would be lost together.
            bundles: self.profile.bundles && head.kind != Kind::Close,
            room: paths.bytes(path),
            long: false,
        };
        let said = encode::frame(batch, &line, head, body, Payload::None, memory).is_ok();
        if !said {
            self.counters.count(Counter::DropTooLong);
        }
        said
    }

    /// Explicit acknowledgements (I6); with `riding`, only those that can't ride on a control frame that is about to leave.
    pub(crate) fn emit_acks(
        &mut self,
        now: Time,
        riding: bool,
        (memory, batch): (&impl HostMemory, &mut TransmitBatch),
    ) {
        while !batch.is_full() {
            let send = &self.send;
            // A lost acknowledgement costs a profile that resends whole trains a train: none of its acknowledgements rides.
            let single = riding && self.profile.retransmit == RetransmitUnit::Frame;
            let rides = |peer| single && send.has_control(peer);
            let Some(ack) = self.receive.poll_ack(now, &self.cross, rides) else { return };
            let outer = memory.enter(Stage::SendAcknowledgement);
            self.emit_ack(now, &ack, (memory, batch));
            memory.leave(outer);
        }
    }

    fn emit_ack(
        &mut self,
        now: Time,
        ack: &AckOut,
        (memory, batch): (&impl HostMemory, &mut TransmitBatch),
    ) {
        let own = self.peers.own;
        let peer = &self.peers[ack.peer];
        if peer.route().is_none_or(|(_, to)| *to == LinkAddress::LOOPBACK) {
            // The node's own acknowledgements need no frame.
            if peer.node == own {
                self.send.on_ack(now, ack.peer, ack.cumulative, Some(ack.said));
            }
            return;
        }
        let said = ack.said;
        let head = Head {
            kind: Kind::Ack,
            flags: Flags::ACK
                .with_if(said.untaken, Flags::UNTAKEN)
                .with_if(said.marked, Flags::MARKED),
            sequence: said.latest,
            acknowledge: ack.cumulative,
            word: said.delay.word(),
        };
        let body =
            |into: &mut [u8]| Ack { node: own, sack: said.sack, grant: ack.grant }.emit(into);
        let path = self.receive.path_of_ack(ack.peer, self.peers.path_of_acks(ack.peer));
        if self.say((ack.peer, path), &head, body, (memory, batch)) {
            self.counters.count(Counter::AcksSent);
        }
    }

    /// What there is to say of messages that were not taken.
    pub(crate) fn emit_not_ready(
        &mut self,
        now: Time,
        (memory, batch): (&impl HostMemory, &mut TransmitBatch),
    ) {
        let own = self.peers.own;
        if !self.receive.not_ready.is_empty() {
            self.tell_limits();
        }
        while !batch.is_full() {
            let Some(answer) = self.receive.not_ready.pop_front() else { return };
            let NotTaken { peer: to, path, number, sequence, cause } = answer;
            let peer = &self.peers[to];
            let backoff_us = REFUSAL_BACKOFF.as_us() as u32;
            self.counters.count(Counter::NotReadySent);
            if peer.node == own {
                self.send.on_not_ready(now, to, (number, sequence), cause, backoff_us);
                continue;
            }
            let head = Head {
                kind: Kind::NotReady,
                flags: Flags::default(),
                sequence,
                acknowledge: Sequence(0),
                word: number,
            };
            let body = |into: &mut [u8]| NotReady { node: own, cause, backoff_us }.emit(into);
            self.say((to, path), &head, body, (memory, batch));
        }
    }

    /// True if the node closes, and has not said all its goodbyes.
    pub(crate) fn has_closes(&self) -> bool {
        self.closing.is_some_and(|said| said < GOODBYES * self.peers.len())
    }

    /// Goodbyes, once the node closes: to all, one round after the other.
    pub(crate) fn emit_closes(&mut self, (memory, batch): (&impl HostMemory, &mut TransmitBatch)) {
        let own = self.peers.own;
        while self.has_closes() && !batch.is_full() {
            let said = self.closing.unwrap_or(0);
            self.closing = Some(said + 1);
            let to = said % self.peers.len();
            let peer = &self.peers[to];
            let reachable = peer.route().is_some_and(|(_, to)| *to != LinkAddress::LOOPBACK);
            if !reachable || peer.remote_epoch == Epoch::UNKNOWN {
                continue;
            }
            let head = Head {
                kind: Kind::Close,
                // Acknowledgements that waited for data going back wait for nothing now.
                flags: Flags::ACK,
                sequence: Sequence(0),
                acknowledge: self.cross.acks[to].debt().acknowledge(),
                word: 0,
            };
            let body = |into: &mut [u8]| Close { node: own }.emit(into);
            self.say((to, PathId::FIRST), &head, body, (memory, batch));
        }
    }
}
