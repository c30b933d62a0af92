//! Events in: a frame or a timer reaches the side that it concerns.

use alloc::vec::Vec;
use emp_wire::{
    Ack, Epoch, Flags, HEADER_BYTES, Header, Kind, LinkAddress, Message, NodeId, NotReady, Reason,
    Seed, SliceWord, TAG_EVERYONE, Target, covered_bytes, is_relayed, names_memory, verify,
    verify_unsummed,
};

use crate::counters::Counter;
use crate::cross::{Heard, RouteNews, ToSend};
use crate::descriptor::Status;
use crate::engine::Firmware;
use crate::engine::assembly::{SlicedFrame, Whole};
use crate::event::NodeEvent;
use crate::link::LinkIndex;
use crate::memory::HostMemory;
use crate::pair::{mark, milliseconds};
use crate::path::{Hop, PathId};
use crate::send::{ASK_HOST_AFTER, Outlet};
use crate::stage::Stage;
use crate::time::{Span, Time};

/// Turns of the loopback within one poll: enough for a large message to finish its windows, and bounded all the same.
const LOOPBACK_TURNS: usize = 64;

impl Firmware {
    // ---- events in ----

    /// Takes a frame that a link received, which may hold several of ours (`BUNDLE-2`). Anything that is not a valid frame
    /// for this node is counted and dropped.
    pub fn handle_frame(
        &mut self,
        now: Time,
        link: LinkIndex,
        from: LinkAddress,
        frame: &[u8],
        memory: &mut impl HostMemory,
    ) {
        let outer = memory.enter(Stage::ReceiveBookkeeping);
        self.notice_absence(now);
        for frame in emp_wire::frames(frame) {
            self.handle_one(now, (link, &from), frame, memory);
        }
        memory.leave(outer);
    }

    pub(crate) fn handle_one(
        &mut self,
        now: Time,
        hop @ (link, from): Hop<'_>,
        frame: &[u8],
        memory: &mut impl HostMemory,
    ) {
        let result = match Header::parse(frame) {
            Err(Reason::Kind) if is_relayed(frame) => self.handle_relayed(now, hop, frame, memory),
            Err(reason) => Err(reason.into()),
            Ok((header, _)) if !self.is_for_us(&header) => Err(Counter::DropWrongNode),
            Ok((header, body)) if header.kind.contact() => {
                self.on_contact(now, link, *from, &header, frame, body)
            }
            // Addresses of another machine's memory, or of nobody's: they say nothing here.
            Ok((header, body)) if names_memory(&header, body) && !self.reads_memory(link) => {
                Err(Counter::DropPieces)
            }
            Ok((header, _)) if self.is_stale(&header) => Err(Counter::DropStalePayload),
            Ok((header, body)) => self.admit(now, hop, &header, frame, body).map(|peer| {
                self.counters.count(Counter::FramesReceived);
                self.deliver(now, peer, hop, &header, body, memory);
            }),
        };
        if let Err(counter) = result {
            self.counters.count(counter);
        }
        self.relay(now);
    }

    /// To be called when [`poll_timeout`](Self::poll_timeout)'s time has come. Harmless at other times.
    pub fn handle_timeout(&mut self, now: Time, _memory: &mut impl HostMemory) {
        self.notice_absence(now);
        let Self { send, carriers, peers, profile, .. } = self;
        send.handle_timeout(now, |peer| carriers.patience(peers, peer, profile));
        self.run_searches(now);
        self.run_seeks(now);
        self.run_long_questions(now);
        self.run_size_searches(now);
        self.receive.look_for_silence(now);
        if self.watch_at.is_some_and(|at| at <= now) {
            self.look_after(now);
        }
        self.relay(now);
    }

    fn is_for_us(&self, header: &Header) -> bool {
        let tag = header.destination_tag;
        tag == self.peers.destination_tag || header.kind.contact() && tag == TAG_EVERYONE
    }

    fn reads_memory(&self, link: LinkIndex) -> bool {
        self.links.get(usize::from(link.0)).is_some_and(|link| link.reads_memory)
    }

    /// Finds the peer of a frame and checks checksum and epochs (`EPOCH-3`, `CRC-2`, `CRC-4`).
    #[inline(always)]
    fn admit(
        &mut self,
        now: Time,
        hop @ (link, from): Hop<'_>,
        header: &Header,
        frame: &[u8],
        body: &[u8],
    ) -> Result<u32, Counter> {
        if header.source_epoch.check() == 0 {
            return Err(Counter::DropField);
        }
        let (node, known) = if header.kind.identified() {
            let bytes = body.first_chunk::<8>().ok_or(Counter::DropBodyShort)?;
            let node = NodeId(u64::from_be_bytes(*bytes));
            let known = self.peers.find_identified(node, header.source_tag);
            (node, known.filter(|_| node != NodeId::ANY).ok_or(Counter::DropField)?)
        } else {
            let Some(peer) = self.peers.find_by_tag(header) else {
                self.greet_unknown(now, link, *from, header);
                return Err(Counter::DropUnknownPeer);
            };
            (self.peers[peer].node, Some(peer))
        };
        let peer = match known {
            // As nearly all: of both ends' present epochs.
            Some(peer) if self.peers[peer].is_answered_by(header) => {
                check(header, frame, from, self.peers[peer].incoming)?;
                peer
            }
            _ => self.admit_other(now, hop, &{ *header }, (frame, body), (node, known))?,
        };
        self.send.hear(now, peer, Heard::Frame);
        if self.peers.heard_from(now, peer, link, from) {
            self.challenge(now, link, *from, peer);
        }
        Ok(peer)
    }

    /// The same for a frame of a node that is not known, or not in these epochs.
    #[cold]
    fn admit_other(
        &mut self,
        now: Time,
        (link, from): Hop<'_>,
        header: &Header,
        (frame, body): (&[u8], &[u8]),
        (node, known): (NodeId, Option<u32>),
    ) -> Result<u32, Counter> {
        let (local, seed) = match known {
            Some(peer) => (self.peers[peer].local_epoch, self.peers[peer].incoming),
            None => (self.peers.own_epoch, self.peers.incoming_of_stranger(node)),
        };
        // A goodbye that came before already: there is nobody to talk to (`CLOSE-1`).
        let leaves = header.kind == Kind::Close;
        if header.destination_epoch != local.check() {
            // It speaks to an earlier incarnation: let it know of this one.
            if !leaves {
                self.greet(now, (link, *from), header, node, known);
            }
            return Err(Counter::DropStaleDestination);
        }
        check(header, frame, from, seed)?;
        let peer = match known {
            Some(peer) => peer,
            None if header.kind.sequenced() => {
                self.add_peer(now, node).ok_or(Counter::DropTooManyPeers)?
            }
            None => return Err(Counter::DropUnknownPeer),
        };
        let remote = self.peers[peer].remote_epoch;
        if remote == Epoch::UNKNOWN && header.kind.sequenced() {
            let told = largest_frame(header, body).unwrap_or(self.peers.lengths.usual());
            let told = self.told_by(link, from, told);
            self.meet(now, peer, header.source_epoch, (link, *from), told);
            let name = self.names.take(node);
            self.push_event(NodeEvent::Found { node, link, address: *from, name });
        } else if remote != header.source_epoch {
            // Another incarnation, or a stale frame: only the node itself can tell (`EPOCH-3`).
            if !leaves {
                self.challenge(now, link, *from, peer);
            }
            return Err(Counter::DropStaleSource);
        }
        Ok(peer)
    }

    /// Hands a checked frame to the side that it concerns.
    fn deliver(
        &mut self,
        now: Time,
        peer: u32,
        hop @ (link, _): Hop<'_>,
        header: &Header,
        body: &[u8],
        memory: &mut impl HostMemory,
    ) {
        if header.kind.sequenced() {
            if header.flags.has(Flags::ACK) {
                let outer = memory.enter(Stage::ReceiveAcknowledgement);
                self.send.hear(now, peer, Heard::Riding(header.acknowledge));
                memory.leave(outer);
            }
            let path = self.peers.path_of(peer, link);
            let cross = &self.cross;
            self.receive.handle(now, (peer, path), header, body, cross, memory);
            if self.watch_at.is_none() && self.receive.has_arrivals() {
                self.watch(now);
            }
        } else {
            self.deliver_control(now, peer, hop, header, body, memory);
        }
        if self.send.take_awaits() {
            self.watch(now);
        }
    }

    /// The same for a frame that is not acknowledged itself. Apart from the others, which come more often and are to be dealt with
    /// by a short run of instructions.
    #[inline(never)]
    fn deliver_control(
        &mut self,
        now: Time,
        peer: u32,
        (link, from): Hop<'_>,
        header: &Header,
        body: &[u8],
        memory: &mut impl HostMemory,
    ) {
        match header.kind {
            Kind::Ack => match Ack::parse(body) {
                Ok(ack) => {
                    let outer = memory.enter(Stage::ReceiveAcknowledgement);
                    self.send.hear(now, peer, Heard::ack(header, &ack));
                    memory.leave(outer);
                }
                Err(reason) => self.counters.count(reason.into()),
            },
            Kind::NotReady => match NotReady::parse(body) {
                Ok(answer) => self.send.hear(now, peer, Heard::not_ready(header, &answer)),
                Err(reason) => self.counters.count(reason.into()),
            },
            Kind::Close => {
                if header.flags.has(Flags::ACK) {
                    self.send.on_ack(now, peer, header.acknowledge, None);
                }
                self.give_up(now, peer, Status::PeerClosed);
            }
            // No sum would tell slices of different frames apart.
            Kind::Slice if from.is_memory() => self.counters.count(Counter::DropSlice),
            Kind::Slice => match self.assemble(now, (peer, link), header, body) {
                Ok(Some(whole)) => {
                    self.handle_one(now, (link, from), whole.bytes(), memory);
                    self.assembly.back(whole);
                }
                Ok(None) => {}
                Err(counter) => self.counters.count(counter),
            },
            _ => self.counters.count(Counter::DropKind),
        }
    }

    /// Adds a slice to the frame that it belongs to, which may be whole now (`SLICE-2`).
    #[cold]
    fn assemble(
        &mut self,
        now: Time,
        (peer, link): (u32, LinkIndex),
        header: &Header,
        bytes: &[u8],
    ) -> Result<Option<Whole>, Counter> {
        let word = SliceWord::parse(header.word, bytes.len())?;
        let path = self.peers.path_of(peer, link);
        // One that does not tell all the same that the frame was taken is enough.
        let tells = word.offset == 0 || usize::from(word.offset) + bytes.len() == word.total.into();
        if !self.receive.wants_slice(now, (peer, path), header.sequence, tells, &self.cross) {
            return Ok(None);
        }
        let of = SlicedFrame {
            peer,
            source_epoch: header.source_epoch,
            destination_epoch: header.destination_epoch,
            sequence: header.sequence,
        };
        let receive = &self.receive;
        let taken = |of: &SlicedFrame| receive.has_taken(of.peer, of.sequence);
        let whole = self.assembly.add(now, of, word, bytes, taken);
        let Some(whole) = whole.map_err(|()| Counter::DropSlice)? else { return Ok(None) };
        // Of the sender of its slices, and nobody else: who lets frames out by the sender that they name looks at the slices alone.
        let node = self.peers[peer].node.0.to_be_bytes();
        let is_its = |(inner, body): (Header, &[u8])| {
            inner.kind.sequenced()
                && inner.sequence == header.sequence
                && inner.source_tag == header.source_tag
                && (!inner.kind.identified() || body.starts_with(&node))
        };
        if Header::parse(whole.bytes()).is_ok_and(is_its) {
            self.counters.count(Counter::FramesAssembled);
            return Ok(Some(whole));
        }
        self.assembly.back(whole);
        Err(Counter::DropSlice)
    }

    // ---- between the sides ----

    /// Carries the sides' messages to each other until none is left.
    #[inline]
    pub(crate) fn relay(&mut self, now: Time) {
        self.receive.send_ended();
        let (send, receive) = (&self.send, &self.receive);
        let any =
            !receive.to_send.is_empty() || !send.route_news.is_empty() || !send.replied.is_empty();
        if any {
            self.relay_all(now);
        }
    }

    #[inline(never)]
    fn relay_all(&mut self, now: Time) {
        loop {
            self.tell_all(now);
            let Some(news) = self.send.route_news.pop_front() else { break };
            match news {
                RouteNews::Suspect { peer } => {
                    self.routes.searches.begin(now, peer);
                }
                RouteNews::Silent { peer } => self.silent.note(peer),
                RouteNews::Lost { peer } => self.give_up(now, peer, Status::Unreachable),
                RouteNews::Doubted { peer, path } => self.doubt(peer, path),
                RouteNews::SizeDoubted { peer, path } => self.doubt_size(now, peer, path),
                RouteNews::PathWanted { peer, target } => {
                    self.seek_path(now, peer, target, None);
                }
                RouteNews::PathsWanted { peer } => self.seek_paths(now, peer),
                RouteNews::LongWanted { peer, path } => self.seek_long(now, peer, path),
                RouteNews::LongFailed { peer, path } => self.long_failed(now, peer, path),
                RouteNews::PathDoubted { peer, path } => self.ask_after_path(peer, path),
                RouteNews::PathFailed { peer, path } => self.path_failed(now, peer, path),
                RouteNews::Arrived { peer, path, frames, took_ns } => {
                    self.peers.learn(peer, path, frames, took_ns);
                }
                RouteNews::Measured { peer } => {
                    self.peers.weigh(peer, |path| self.send.recent_us(now, peer, path));
                }
                RouteNews::Unsent { fetch, status } => self.receive.end_fetch(fetch, status),
            }
        }
        while let Some(values) = self.send.replied.pop_front() {
            self.receive.replies.free(values);
        }
    }

    pub(crate) fn path_failed(&mut self, now: Time, peer: u32, path: PathId) {
        let link = self.peers.paths(peer).hop(path).map(|(link, _)| link);
        if self.peers.path_failed(now, peer, path) {
            self.counters.count(Counter::PathsFailed);
            self.send.path_failed(peer, path);
            self.note_lanes(peer);
            let node = self.peers[peer].node;
            link.into_iter().for_each(|link| self.push_event(NodeEvent::PathLost { node, link }));
        }
    }

    /// The paths to a peer may lead over more or fewer interfaces than before.
    pub(crate) fn note_lanes(&mut self, peer: u32) {
        let lanes = self.peers.interfaces(peer);
        self.receive.set_lanes(peer, lanes);
    }

    /// All that the receive side has to say to the send side.
    fn tell_all(&mut self, now: Time) {
        while let Some(message) = self.receive.to_send.pop_front() {
            self.tell_send(now, message);
        }
    }

    fn tell_send(&mut self, now: Time, message: ToSend) {
        match message {
            ToSend::PullRequested { peer, handle, offset, bytes, pull } => {
                self.send.on_pull(now, peer, handle, offset, bytes, pull);
            }
            ToSend::DoneReceived { peer, handle, status } => {
                self.send.on_done(peer, handle, status);
            }
            ToSend::GetRequested { peer, block } => {
                // It may have asked before it knew that this node takes only shorter ones now.
                let fragment_max = self.peers.lengths.most() - HEADER_BYTES as u16;
                self.send.on_get(now, peer, block, fragment_max);
            }
            ToSend::Forget { values } => self.send.replied.push_back(values),
            ToSend::RegionRemoved { region } => self.send.drop_region(now, region),
            ToSend::Control { peer, control } => {
                if self.peers[peer].remote_epoch != Epoch::UNKNOWN {
                    self.send.control(now, peer, control);
                } else {
                    self.send.replied.extend(control.values());
                }
            }
        }
    }

    /// Ends all that is under way with a peer, on both sides; as the send side and the receive side have it, it may go on at once, and what
    /// is wholly here stays.
    pub(crate) fn reset_pair(
        &mut self,
        now: Time,
        peer: u32,
        status: Status,
        (found, keep): (bool, bool),
    ) {
        let node = self.peers[peer].node;
        self.receive.reset(peer, node, status, keep, &self.cross);
        // What was to be said of its messages means nothing to another incarnation: it gets to the send side, and ends there with the rest.
        self.tell_all(now);
        self.send.reset(peer, status, found);
    }

    /// Gives a pair up from this side: nothing of it is valid any more, in either direction (V7, `EPOCH-4`).
    pub(crate) fn give_up(&mut self, now: Time, peer: u32, status: Status) {
        let node = self.peers[peer].node;
        if node == self.peers.own {
            // The node cannot lose itself; only a fault in its own memory leads here.
            self.reset_pair(now, peer, status, (true, true));
            return;
        }
        self.reset_pair(now, peer, status, (false, true));
        self.routes.searches.stop(peer);
        let entry = &mut self.peers[peer];
        let met = entry.remote_epoch != Epoch::UNKNOWN || entry.has(mark::LOST);
        // Of one that has said goodbye nothing more is expected, until it comes again.
        entry.set(mark::LOST, met && status != Status::PeerClosed);
        self.peers.set_remote_epoch(peer, Epoch::UNKNOWN);
        self.peers.bump_local_epoch(peer);
        if status == Status::Unreachable {
            // It is looked for there as well, should anyone want it again: by links on which nobody can ask everyone there is no other way.
            for (link, address) in self.peers.known_places(peer) {
                self.routes.hint(node, link, address);
            }
        }
        self.peers.clear_route(peer);
        self.note_lanes(peer);
        self.peers.note_departed(now, peer);
        self.silent.forget(peer);
        self.push_event(match status {
            Status::PeerClosed => NodeEvent::Closed(node),
            Status::PeerEnded => NodeEvent::Ended(node),
            _ => NodeEvent::Unreachable(node),
        });
        if status != Status::PeerClosed {
            self.counters.count(Counter::PeersLost);
        }
    }

    // ---- looking after peers that owe us something ----

    /// Begins to look after peers: there is something that only they can finish.
    pub(crate) fn watch(&mut self, now: Time) {
        if self.watch_at.is_none() {
            self.watch_at = Some(now + self.profile.watch_every());
        }
    }

    /// Peers that owe this node something, in order.
    pub(crate) fn peers_owing(&mut self) -> Vec<u32> {
        let mut owing: Vec<u32> = self.receive.peers_with_arrivals();
        owing.extend(self.send.peers_awaited());
        for node in self.receive.awaited_nodes() {
            owing.extend(self.peers.peek(node));
        }
        owing.sort_unstable();
        owing.dedup();
        owing
    }

    /// Asks silent peers that owe us data whether they are still there, and gives up those that were silent too long
    /// (`RESEND-3`).
    fn look_after(&mut self, now: Time) {
        self.watch_at = None;
        let owing = self.peers_owing();
        let now_ms = milliseconds(now);
        let span_ms = |span: Span| milliseconds(Time(span.0));
        let silence_ms = span_ms(self.profile.unreachable_after);
        let (suspect_ms, every_ms) =
            (span_ms(self.profile.suspect_after()), span_ms(self.profile.watch_every()));
        let before = core::mem::take(&mut self.watched);
        for peer in owing {
            let entry = &self.peers[peer];
            if entry.node == self.peers.own {
                continue;
            }
            if entry.remote_epoch == Epoch::UNKNOWN {
                // What is still to come of it comes if it is found again, and ends with an error if not.
                if entry.has(mark::LOST) {
                    self.watched.push((peer, now_ms));
                    self.routes.searches.begin(now, peer);
                }
                continue;
            }
            // Silence counts from when the peer began to owe us something.
            let since = match before.binary_search_by_key(&peer, |(watched, _)| *watched) {
                Ok(at) => before[at].1,
                Err(_) => now_ms,
            };
            let heard = now_ms.wrapping_sub(entry.heard_ms());
            let most = self.carriers.patience(&self.peers, peer, &self.profile);
            let silent = heard.min(now_ms.wrapping_sub(since));
            if silent > span_ms(most) {
                self.give_up(now, peer, Status::Unreachable);
                continue;
            }
            self.watched.push((peer, since));
            if silent > suspect_ms {
                // It may have moved (V28).
                self.routes.searches.begin(now, peer);
            }
            if heard >= span_ms(ASK_HOST_AFTER) {
                self.silent.note(peer);
            }
            if heard >= every_ms
                && let Some((link, &to)) = self.peers.paths(peer).first()
            {
                self.ask_peer(link, to, peer);
            }
        }
        let without_endpoint = self.receive.expire_without_endpoint(now_ms, silence_ms);
        if !self.watched.is_empty() || without_endpoint {
            self.watch_at = Some(now + self.profile.watch_every());
        }
    }

    /// Frames to the node itself go up again at once, through the same code as all others.
    pub(crate) fn turn_loopback(&mut self, now: Time, memory: &mut impl HostMemory) {
        for _ in 0..LOOPBACK_TURNS {
            let (peers, cross, batch) = (&self.peers, &self.cross, &mut self.loopback);
            let replies = Some(&mut self.receive.replies);
            let mut outlet = Outlet { peers, cross, replies, memory, batch };
            self.send.poll_loopback(now, &mut outlet);
            let frames = self.loopback.frames().len();
            if frames == 0 {
                return;
            }
            for i in 0..frames {
                let mut frame = core::mem::take(&mut self.scratch);
                let mut end = self.loopback.inline(i).len();
                frame[..end].copy_from_slice(self.loopback.inline(i));
                let mut fault = false;
                for segment in self.loopback.frames()[i].segments() {
                    let next = end + segment.bytes as usize;
                    fault |= memory.read(*segment, &mut frame[end..next]).is_err();
                    end = next;
                }
                if fault {
                    self.counters.count(Counter::DropLoopback);
                } else {
                    let from = LinkAddress::LOOPBACK;
                    self.handle_frame(now, LinkIndex(u8::MAX), from, &frame[..end], memory);
                }
                self.scratch = frame;
            }
            self.loopback.clear();
        }
    }
}

/// Checks a frame from there: its sum, or what stands in its place where it crosses no wire.
#[inline(always)]
pub(super) fn check(
    header: &Header,
    frame: &[u8],
    from: &LinkAddress,
    seed: Seed,
) -> Result<(), Counter> {
    let covered = covered_bytes(header);
    let checked = if from.is_memory() {
        verify_unsummed(frame, covered, seed)
    } else {
        verify(frame, covered, seed)
    };
    checked.map_err(Counter::from)
}

/// What the sender of a frame says of the largest that it takes by the link by which this came.
fn largest_frame(header: &Header, body: &[u8]) -> Option<u16> {
    match header.kind {
        Kind::Message => Message::parse(header.flags, body).ok().map(|(m, _)| m.largest.here()),
        Kind::Put | Kind::Get | Kind::Atomic => {
            Target::parse(body).ok().map(|(target, _)| target.largest.here())
        }
        _ => None,
    }
}
