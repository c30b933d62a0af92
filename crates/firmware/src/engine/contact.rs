//! Contact between nodes: asking, answering, meeting, and telling an incarnation from its predecessor (`PAIR-1`).

use alloc::string::ToString;
use alloc::vec::Vec;
use emp_wire::{
    AddressFamily, Epoch, HEAD_BYTES_MAX, Header, Hello, Kind, LONG_FRAME_BYTES, LinkAddress,
    NodeId, ReplyWord, Seed, TAG_EVERYONE, TOLD_MAX, covered_bytes, destination_tag_of, verify,
};

use crate::counters::Counter;
use crate::descriptor::Status;
use crate::encode;
use crate::engine::Firmware;
use crate::event::NodeEvent;
use crate::link::LinkIndex;
use crate::pair::routes::Contact;
use crate::pair::searches::DueSearch;
use crate::pair::{mark, milliseconds};
use crate::path::table::Target;
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Times that a node is asked for only where it is said to be, on links on which that is known, before everyone is asked: 3 ms, in which a
/// LAN answers though one of the two is lost.
pub(crate) const HINTS_ALONE: u32 = 2;

/// Of the times that a node is asked for, one in so many also asks beyond relays, and peers, after those that are a power of two: every 0.8 s, as
/// each costs two frames a cable.
const BEYOND_EVERY: u32 = 8;

impl Firmware {
    /// A hello or a reply came in (`HELLO-1`).
    pub(crate) fn on_contact(
        &mut self,
        now: Time,
        link: LinkIndex,
        from: LinkAddress,
        header: &Header,
        frame: &[u8],
        body: &[u8],
    ) -> Result<(), Counter> {
        verify(frame, covered_bytes(header), Seed::CONTACT)?;
        let mut hello = Hello::parse(body)?;
        if from.is_behind_relays() {
            hello.largest = self.told_by(link, &from, hello.largest.here()).into();
        }
        let fits = hello.node.source_tag() == header.source_tag && header.source_epoch.check() != 0;
        if !fits || usize::from(link.0) >= self.links.len() {
            return Err(Counter::DropField);
        }
        match header.kind {
            Kind::Hello => self.on_hello(now, (link, from), header, &hello, frame.len() as u32),
            _ => self.on_reply(now, link, from, header, &hello),
        }
    }

    /// What a node takes that is reached there, of a frame that it says it takes by that link: what stands before it counts, and no link on the
    /// way may take less.
    pub(crate) fn told_by(&self, link: LinkIndex, from: &LinkAddress, told: u16) -> u16 {
        if !from.is_behind_relays() {
            return told;
        }
        self.peers.hop_lists.fitting(from, told.min(self.peers.lengths.takes(link)))
    }

    /// Answers. Creates no state: only a valid sequenced frame does (`HELLO-4`).
    fn on_hello(
        &mut self,
        now: Time,
        (link, from): (LinkIndex, LinkAddress),
        header: &Header,
        hello: &Hello,
        arrived_bytes: u32,
    ) -> Result<(), Counter> {
        let own = self.peers.own;
        let asked = hello.target == own || hello.target == NodeId::ANY;
        let asked = asked || self.is_asked_by_name(header, hello);
        if hello.node == own {
            self.note_other_self(header.source_epoch, link, from);
            return Err(Counter::DropHello);
        }
        if !asked || self.closing.is_some() {
            return Err(Counter::DropHello);
        }
        self.names.note(hello.node, hello.name());
        let known = self.peers.peek(hello.node);
        let whom = (hello.node, hello.node.destination_tag());
        let whence = (link, from);
        let other = known.and_then(|asker| self.may_tell(now, (asker, header), whence, hello));
        let reply = Contact {
            kind: Kind::HelloReply,
            other: other.unwrap_or(NodeId::ANY),
            destination_epoch: header.source_epoch.check(),
            word: self.peers.units.answer(link, arrived_bytes),
            ..Contact::hello((link, from), whom, hello.nonce, self.local_epoch(known))
        };
        if !self.routes.push_contact(reply) {
            return Err(Counter::DropHello);
        }
        if let Some(peer) = known {
            let remote = self.peers[peer].remote_epoch;
            let restarted = remote != Epoch::UNKNOWN && remote != header.source_epoch;
            let moved =
                remote == header.source_epoch && self.peers.heard_from(now, peer, link, &from);
            if remote == header.source_epoch && self.peers.is_beside_first(peer, link) {
                // It looks for another path: this end will want the same one.
                self.seek_path(now, peer, Target::Link(link), Some(from));
            }
            let wanted = self.peers.is_first_wanted(now, peer, link);
            if restarted || moved || wanted || self.routes.searches.contains(peer) {
                self.challenge(now, link, from, peer);
            }
            if remote == header.source_epoch {
                self.send.heard_again(peer, now);
                self.hear_limit(now, (peer, link), hello.largest.here());
            }
        }
        Ok(())
    }

    /// Whether a question by name means this node: that is everyone's, for the identity that its name stands for (`RELAY-11`).
    pub(crate) fn is_asked_by_name(&self, header: &Header, hello: &Hello) -> bool {
        header.destination_tag == TAG_EVERYONE
            && !self.name.is_empty()
            && hello.target == NodeId::from_name(&self.name)
    }

    /// Whoever spoke and was asked who it is has answered. What it says may never show that: the first frame of a message does, but not in slices.
    fn meet_stranger(
        &mut self,
        now: Time,
        (link, from): (LinkIndex, LinkAddress),
        header: &Header,
        hello: &Hello,
    ) {
        let epochs = header.destination_epoch == self.peers.own_epoch.check()
            && header.source_epoch.check() != 0;
        if self.routes.was_stranger(hello.nonce)
            && epochs
            && let Some(peer) = self.add_peer(now, hello.node)
        {
            self.meet(now, peer, header.source_epoch, (link, from), hello.largest.here());
        }
    }

    /// Believes an answer only if it was asked for (`HELLO-2`).
    fn on_reply(
        &mut self,
        now: Time,
        link: LinkIndex,
        from: LinkAddress,
        header: &Header,
        hello: &Hello,
    ) -> Result<(), Counter> {
        if hello.target != self.peers.own || hello.node == self.peers.own {
            return Err(Counter::DropBadReply);
        }
        let known = self.peers.peek(hello.node);
        let found = |name: &str| NodeEvent::Found {
            node: hello.node,
            link,
            address: from,
            name: name.to_string(),
        };
        if self.routes.was_asked(hello.nonce) {
            self.routes.hint(hello.node, link, from);
            if known.is_none() {
                self.meet_stranger(now, (link, from), header, hello);
            }
            self.push_event(found(hello.name()));
            return Ok(());
        }
        let peer = known.ok_or(Counter::DropBadReply)?;
        let current = self.peers[peer].is_answered_by(header);
        if self.answers_for_size(now, (peer, current), header, hello)
            || current && self.answers_doubt(now, peer, link, hello.nonce)
            || current && self.answers_for_long(now, peer, header, hello)
            || current && self.answers_for_other(peer, from, hello)
            || current && self.answers_for_path(now, peer, (link, from), header, hello)
        {
            return Ok(());
        }
        let entry = &self.peers[peer];
        let expected = self.routes.nonce(hello.node, entry.challenge);
        if hello.nonce != expected
            || !entry.has(mark::ASKING)
            || header.destination_epoch != entry.local_epoch.check()
        {
            return Err(Counter::DropBadReply);
        }
        if entry.remote_epoch == Epoch::UNKNOWN
            && let Some(nearer) = self.nearer_at_first(peer, (link, &from), hello)
        {
            // The question stays open.
            self.ask_peer(link, nearer, peer);
            return Ok(());
        }
        let entry = &mut self.peers[peer];
        entry.set(mark::ASKING, false);
        entry.challenge = entry.challenge.wrapping_add(1);
        let (remote, epoch) = (entry.remote_epoch, header.source_epoch);
        let told = hello.largest.here();
        let moved = self.peers.heard_from(now, peer, link, &from);
        self.send.heard(peer, now);
        if remote == Epoch::UNKNOWN {
            self.meet(now, peer, epoch, (link, from), told);
            self.send.met(peer);
            self.push_event(found(hello.name()));
        } else if remote == epoch {
            self.found_again(now, peer, (link, from), told, moved);
            let arrived = ReplyWord::parse(header.word).arrived_bytes;
            self.told_limit(now, peer, (link, from), told, arrived);
        } else {
            self.restarted(now, peer, epoch, (link, from), told);
        }
        Ok(())
    }

    /// A peer that was met has answered from an address, which is another than before if it `moved`.
    fn found_again(
        &mut self,
        now: Time,
        peer: u32,
        (link, from): (LinkIndex, LinkAddress),
        told: u16,
        moved: bool,
    ) {
        self.send.met(peer);
        let failed = self.peers.is_first_failed(peer, link);
        if failed || self.routes.searches.contains(peer) {
            self.peers.set_route(now, peer, (link, from), told);
            self.note_lanes(peer);
            self.routes.searches.stop(peer);
            self.send.found(peer, now);
        } else if moved {
            self.peers.moved(now, peer, (link, from), told);
            self.note_lanes(peer);
            self.send.found(peer, now);
        }
        if failed {
            let node = self.peers[peer].node;
            self.counters.count(Counter::PathsFound);
            self.push_event(NodeEvent::PathFound { node, link });
        }
    }

    /// A peer's epoch and address are known, and that it takes frames of `told` bytes there: the pair can speak.
    pub(crate) fn meet(
        &mut self,
        now: Time,
        peer: u32,
        epoch: Epoch,
        hop: (LinkIndex, LinkAddress),
        told: u16,
    ) {
        self.peers.set_remote_epoch(peer, epoch);
        self.peers.clear_route(peer);
        self.peers.set_route(now, peer, hop, told);
        self.note_lanes(peer);
        *self.peers[peer].heard_ms.get_mut() = milliseconds(now);
        self.peers[peer].set(mark::LOST, false);
        self.routes.searches.stop(peer);
        self.send.found(peer, now);
        self.receive.met(peer, self.fragment_bytes(peer, u64::MAX));
        self.counters.count(Counter::PeersFound);
        // Receives may have waited for it by name since before it was known.
        self.watch(now);
    }

    /// The peer is another incarnation than the one we spoke to, or gave that up (`EPOCH-4`): the pair starts afresh (`EPOCH-3`).
    fn restarted(
        &mut self,
        now: Time,
        peer: u32,
        epoch: Epoch,
        (link, from): (LinkIndex, LinkAddress),
        told: u16,
    ) {
        let node = self.peers[peer].node;
        self.note_return(peer, epoch, link, from);
        let gave_up = epoch.follows(self.peers[peer].remote_epoch);
        let (status, counter, event) = if gave_up {
            (Status::GivenUp, Counter::GivenUp, NodeEvent::GaveUp(node))
        } else {
            (Status::PeerRestarted, Counter::PeersRestarted, NodeEvent::Restarted(node))
        };
        self.reset_pair(now, peer, status, (false, false));
        self.counters.count(counter);
        self.push_event(event);
        self.meet(now, peer, epoch, (link, from), told);
    }

    fn local_epoch(&self, known: Option<u32>) -> Epoch {
        known.map_or(self.peers.own_epoch, |peer| self.peers[peer].local_epoch)
    }

    /// Asks a peer for its epoch where a frame came from that claims to be its, but not too often.
    pub(crate) fn challenge(&mut self, now: Time, link: LinkIndex, to: LinkAddress, peer: u32) {
        if self.peers[peer].may_challenge(now) {
            self.ask_peer(link, to, peer);
        }
    }

    pub(crate) fn ask_peer(&mut self, link: LinkIndex, to: LinkAddress, peer: u32) {
        self.ask_peer_with(link, to, peer, 0);
    }

    /// The same by a frame of at least so many bytes.
    pub(crate) fn ask_peer_with(
        &mut self,
        link: LinkIndex,
        to: LinkAddress,
        peer: u32,
        frame_bytes: u16,
    ) {
        let entry = &mut self.peers[peer];
        entry.set(mark::ASKING, true);
        let nonce = self.routes.nonce(entry.node, entry.challenge);
        self.ask_by(nonce, (link, to), peer, frame_bytes);
    }

    /// The same with a nonce of the asker's. A question as long as a frame is that is longer than the MTU leaves in pieces; any other is as long as
    /// what the way there takes, at most.
    pub(crate) fn ask_by(
        &mut self,
        nonce: u64,
        hop: (LinkIndex, LinkAddress),
        peer: u32,
        frame_bytes: u16,
    ) {
        let is_long = usize::from(frame_bytes) >= LONG_FRAME_BYTES && !hop.1.is_behind_relays();
        let most = if is_long { u16::MAX } else { self.takes_towards(hop.0, &hop.1) };
        let frame_bytes = frame_bytes.min(most);
        let entry = &self.peers[peer];
        let destination_epoch = entry.remote_epoch.check();
        let hello = Contact::hello(hop, (entry.node, entry.tag), nonce, entry.local_epoch);
        self.routes.push_contact(Contact { destination_epoch, frame_bytes, ..hello });
    }

    /// Shows ourselves to a node that speaks to an incarnation of ours that is no more, or to another node, but more and more seldom.
    #[cold]
    pub(crate) fn greet(
        &mut self,
        now: Time,
        (link, from): (LinkIndex, LinkAddress),
        header: &Header,
        node: NodeId,
        known: Option<u32>,
    ) {
        let local = self.local_epoch(known);
        let here = usize::from(link.0) < self.links.len();
        if !here || !self.greetings.may_greet(now, header, local) {
            return;
        }
        if let Some(peer) = known {
            return self.challenge(now, link, from, peer);
        }
        // A stranger: say who we are.
        // Not the nonce of any challenge: its answer must not be taken for one to a question that is asked later.
        let nonce = self.routes.nonce(node, u32::MAX);
        let whom = (node, node.destination_tag());
        self.routes.push_contact(Contact::hello((link, from), whom, nonce, local));
    }

    /// Shows ourselves to whoever sends frames that name nobody we know: it may speak to an earlier incarnation of ours. Its
    /// source tag is all that is known of it, and gives its destination tag.
    #[cold]
    pub(crate) fn greet_unknown(
        &mut self,
        now: Time,
        link: LinkIndex,
        from: LinkAddress,
        header: &Header,
    ) {
        let here = usize::from(link.0) < self.links.len();
        if here && self.greetings.may_greet(now, header, self.peers.own_epoch) {
            let tag = destination_tag_of(header.source_tag);
            self.ask_address(link, from, (NodeId::ANY, tag), true);
        }
    }

    /// Asks at an address for a node, or for whoever is there; there may be a `stranger` who spoke and is not known.
    pub(crate) fn ask_address(
        &mut self,
        link: LinkIndex,
        to: LinkAddress,
        whom: (NodeId, u16),
        stranger: bool,
    ) {
        let (nonce, epoch) = (self.routes.ask(stranger), self.peers.own_epoch);
        self.routes.push_contact(Contact::hello((link, to), whom, nonce, epoch));
    }

    /// Sends the hellos of searches that are due (`HELLO-3`), and ends those that nobody answered.
    pub(crate) fn run_searches(&mut self, now: Time) {
        // Each search adds a hello per link and hint; those that find the queue full are first next time.
        while self.routes.has_room() {
            let Some(due) = self.routes.searches.pop_due(now) else { return };
            let DueSearch { peer, since, asked, .. } = due;
            let watched = self.watched.binary_search_by_key(&peer, |(watched, _)| *watched);
            let wanted = self.send.is_active(peer) || self.receive.fetches_from(peer);
            if !wanted && watched.is_err() {
                self.routes.searches.stop(peer);
                continue;
            }
            let unknown = self.peers[peer].remote_epoch == Epoch::UNKNOWN;
            if unknown && now.since(since) > self.search_patience() {
                self.give_up(now, peer, Status::NotFound);
                self.routes.searches.fail(now, &due);
                continue;
            }
            if unknown && self.peers[peer].has(mark::LOST) {
                self.silent.note(peer);
            }
            let hints = self.routes.hints(self.peers[peer].node).to_vec();
            for i in 0..self.links.len() {
                // Where it is said to be it most likely is; asking everyone else as well costs a job of N ranks N² frames for each.
                let told = hints.iter().any(|(link, _)| usize::from(link.0) == i);
                if self.links[i].broadcast && (!told || asked >= HINTS_ALONE) {
                    self.ask_peer(LinkIndex(i as u8), LinkAddress::EVERYONE, peer);
                }
            }
            // Not the first time, as whoever is near has not answered yet.
            let turn = asked.is_power_of_two() || asked > 0 && asked.is_multiple_of(BEYOND_EVERY);
            self.search_beyond(peer, asked, turn);
            if turn {
                self.ask_acquaintances(now, peer);
            }
            // Wherever it was met by another link, whether that path is up or not, and wherever it is said to be.
            let met = self.peers.known_places(peer).into_iter().skip(1);
            let met = met.filter(|place| !hints.contains(place)).collect::<Vec<_>>();
            for (link, to) in met.into_iter().chain(hints) {
                self.ask_peer(link, to, peer);
            }
        }
    }

    /// Asks relays for a node that is not found among neighbours (`RELAY-4`, `RELAY-10`, V26), the more seldom the longer it takes.
    fn search_beyond(&mut self, peer: u32, asked: u32, turn: bool) {
        let behind = self.peers.is_behind_relays(peer);
        if !(turn || asked == 0 && behind) {
            return;
        }
        let mut first = true;
        for index in 0..self.links.len() {
            let link = LinkIndex(index as u8);
            if self.links[index].hops_from.is_none() || self.carriers.is_away(link) {
                continue;
            }
            // Relays repeat each search once: another one is another question.
            if core::mem::take(&mut first) {
                let entry = &mut self.peers[peer];
                entry.challenge = entry.challenge.wrapping_add(1);
            }
            self.ask_peer(link, LinkAddress::BEYOND, peer);
        }
    }

    /// Hellos and replies that wait to be sent.
    pub(crate) fn emit_contacts(&mut self, batch: &mut TransmitBatch, most: usize) {
        for _ in 0..most {
            if batch.is_full() {
                return;
            }
            let Some(contact) = self.routes.contacts.pop_front() else { return };
            // What finds out whether a length gets through leaves alone: with others behind it a virtual switch may get all of them as
            // one datagram that is still to be cut, which says nothing of a frame that comes by itself.
            let tries_length = contact.frame_bytes > 0;
            if !batch.fits(contact.frame_bytes.into()) || tries_length && !batch.is_empty() {
                return self.routes.contacts.push_front(contact);
            }
            let own = self.peers.own;
            let lengths = &self.peers.lengths;
            let largest = lengths.told(contact.link);
            let hello = Hello::new(own, contact.target, contact.nonce, largest, &self.name);
            // The smallest frames of a link have room for one address, and for the front of a long name.
            let short = usize::from(lengths.takes(contact.link)) < HEAD_BYTES_MAX;
            let told = if short { 1 } else { TOLD_MAX };
            let link = self.links.get(usize::from(contact.link.0));
            let beside = link.into_iter().flat_map(|link| link.beside).flatten();
            let hello = if short { hello.with_short_name() } else { hello };
            // Those of Ethernet are found by asking everyone.
            let addresses = beside.map(|(_, address)| address);
            let addresses = addresses.filter(|address| address.family() != AddressFamily::Mac);
            let hello = match contact.other {
                NodeId::ANY => hello.with_addresses(addresses.take(told)),
                other if contact.kind == Kind::Hello => hello.about(other, [].into_iter()),
                other => hello.about(other, self.whereabouts(other, &contact.to).take(told)),
            };
            let body = |into: &mut [u8]| hello.emit(into);
            let (hop, header) = ((contact.link, &contact.to), contact.header(own));
            // Relays hear a search by the tag of the identity that it is for, also if all are meant who have a name.
            let tag = contact.target.destination_tag();
            if contact.to.is_behind_relays()
                && encode::put_before(batch, &self.peers, hop, tag).is_err()
            {
                // Its list of hops is no more.
                continue;
            }
            encode::contact_frame(batch, hop, &header, contact.frame_bytes.into(), body);
            if tries_length {
                batch.end();
            }
        }
    }
}
