//! The engine in two halves, which two threads may run at the same time (I13, I17): one sends what there is to send, the other takes frames
//! that came. Each has its side to itself. Both look at the peers and at the words between the sides, which neither changes but for words
//! of its own; what else one has to say to the other waits until the engine is whole again.
//!
//! Only what happens with nearly every frame is done so. A half leaves the rest to the whole engine: who somebody is and where, restarts,
//! goodbyes, relays, slices, operations on regions.

use alloc::vec::Vec;

use emp_wire::{Ack, Flags, Header, Kind, LinkAddress, NodeId, NotReady, names_memory};

use crate::counters::Counter;
use crate::cross::{Cross, Heard};
use crate::engine::Firmware;
use crate::engine::dispatch::check;
use crate::link::LinkIndex;
use crate::memory::HostMemory;
use crate::pair::{Peers, milliseconds};
use crate::path::Hop;
use crate::receive::ReceiveSide;
use crate::send::{Outlet, SendSide};
use crate::time::{Span, Time};
use crate::transmit::TransmitBatch;

/// What arriving frames are to the send side, for one that is busy: in order, with when they came.
pub(crate) type Told = Vec<(Time, u32, Heard)>;

/// The half that sends.
pub struct SendHalf<'a> {
    send: &'a mut SendSide,
    peers: &'a Peers,
    cross: &'a Cross,
}

/// The half that takes frames.
pub struct ReceiveHalf<'a> {
    receive: &'a mut ReceiveSide,
    peers: &'a Peers,
    cross: &'a Cross,
    told: &'a mut Told,
}

impl Firmware {
    /// The engine in halves; when both are gone, [`join`](Self::join) is to be called before anything else. `None`: something is under way that
    /// needs the whole engine.
    pub fn halves(&mut self, now: Time) -> Option<(SendHalf<'_>, ReceiveHalf<'_>)> {
        self.notice_absence(now);
        let Self { send, receive, peers, cross, told, .. } = self;
        // Two threads at once in memory that both sides use: only what was posted is one side's alone.
        let shared = receive.regions.len() > 0 || !receive.replies.is_empty();
        if shared || self.distrusts || self.closing.is_some() {
            return None;
        }
        let (peers, cross) = (&*peers, &*cross);
        Some((SendHalf { send, peers, cross }, ReceiveHalf { receive, peers, cross, told }))
    }

    /// The engine is whole again: each side hears what the other has to say.
    pub fn join(&mut self) {
        let mut told = core::mem::take(&mut self.told);
        let last = told.last().map(|(now, ..)| *now);
        for (now, peer, heard) in told.drain(..) {
            self.send.hear(now, peer, heard);
        }
        self.told = told;
        let now = last.unwrap_or(self.ran_at);
        if self.watch_at.is_none() && self.receive.has_arrivals() || self.send.take_awaits() {
            self.watch(now);
        }
        self.relay(now);
    }
}

impl SendHalf<'_> {
    /// As [`Firmware::poll_transmit`], of messages and what belongs to them alone: acknowledgements of their own and all that the node says
    /// by itself have to wait.
    pub fn poll_transmit(
        &mut self,
        now: Time,
        memory: &impl HostMemory,
        batch: &mut TransmitBatch,
    ) -> usize {
        let before = batch.frames().len();
        let Self { send, peers, cross } = self;
        send.settle_acks(now);
        send.poll(now, &mut Outlet { peers, cross, replies: None, memory, batch });
        batch.frames().len() - before
    }

    /// There may be something to send.
    pub fn has_transmit(&self) -> bool {
        self.send.has_ready()
    }
}

impl ReceiveHalf<'_> {
    /// As [`Firmware::set_unseen`] and [`Firmware::set_marked`] together.
    pub fn set_came(&mut self, unseen: Span, marked: bool) {
        self.receive.unseen_us = (unseen.0 / 1_000).min(u64::from(u16::MAX)) as u16;
        self.receive.marked = marked;
    }

    /// As [`Firmware::handle_frame`].
    ///
    /// # Errors
    ///
    /// From this byte on the whole engine must take it, and all frames that came after it.
    pub fn handle_frame(
        &mut self,
        now: Time,
        link: LinkIndex,
        from: &LinkAddress,
        frame: &[u8],
        memory: &mut impl HostMemory,
    ) -> Result<(), usize> {
        for part in emp_wire::frames(frame) {
            let at = part.as_ptr() as usize - frame.as_ptr() as usize;
            self.take(now, (link, from), part, memory).ok_or(at)?;
        }
        Ok(())
    }

    /// Takes a frame. `None`: it is nothing for this half, and nothing has come of it.
    fn take(
        &mut self,
        now: Time,
        (link, from): Hop<'_>,
        frame: &[u8],
        memory: &mut impl HostMemory,
    ) -> Option<()> {
        let (header, body) = Header::parse(frame).ok()?;
        let Self { peers, cross, told, .. } = self;
        if header.destination_tag != peers.destination_tag || !is_usual(&header, body) {
            return None;
        }
        let peer = if header.kind.identified() {
            let node = NodeId(u64::from_be_bytes(*body.first_chunk::<8>()?));
            peers.find_identified(node, header.source_tag)??
        } else {
            peers.find_by_tag(&header)?
        };
        let entry = &peers[peer];
        // From elsewhere it may have moved.
        if !entry.is_answered_by(&header) || !entry.is_at(link, from) {
            return None;
        }
        check(&header, frame, from, entry.incoming).ok()?;
        let heard = match header.kind {
            Kind::Ack => Some(Heard::ack(&header, &Ack::parse(body).ok()?)),
            Kind::NotReady => Some(Heard::not_ready(&header, &NotReady::parse(body).ok()?)),
            _ => header.flags.has(Flags::ACK).then_some(Heard::Riding(header.acknowledge)),
        };
        entry.heard(milliseconds(now), link, from);
        self.receive.counters.count(Counter::FramesReceived);
        note(told, (now, peer, Heard::Frame));
        if let Some(heard) = heard {
            note(told, (now, peer, heard));
        }
        if header.kind.sequenced() {
            let path = peers.path_of(peer, link);
            self.receive.handle(now, (peer, path), &header, body, cross, memory);
        }
        Some(())
    }
}

/// It is a message's, or an answer: whatever else there is changes more than its side.
fn is_usual(header: &Header, body: &[u8]) -> bool {
    let kind = header.kind;
    let one_sided = matches!(kind, Kind::Put | Kind::Get | Kind::Atomic);
    let says = kind.sequenced() && !one_sided || matches!(kind, Kind::Ack | Kind::NotReady);
    says && header.source_epoch.check() != 0 && !names_memory(header, body)
}

/// Adds it, unless it says no more than what was said last of this peer.
fn note(told: &mut Told, news: (Time, u32, Heard)) {
    let again = told.iter().rev().take(2).any(|(_, peer, before)| {
        *peer == news.1
            && match (before, &news.2) {
                (Heard::Frame, Heard::Frame) => true,
                (Heard::Riding(before), Heard::Riding(now)) => before == now,
                _ => false,
            }
    });
    if !again {
        told.push(news);
    }
}
