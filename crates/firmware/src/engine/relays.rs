//! What a node does with frames that have a relay's head (`RELAY-1`): it takes those that have come to their end, and, if it relays, sends
//! the others on. That is constant work: nothing is put together, kept, acknowledged or waited for, so nothing can wait in a circle (V30).

use alloc::vec::Vec;

use emp_wire::{
    HEADER_BYTES, Header, Hello, Kind, LinkAddress, NodeId, RELAY_BYTES_MAX, RELAY_HEAD_BYTES,
    RELAY_HOP_BYTES, Reason, RelayHead, RelayHop, RelayUse, Relayed, Seed, TAG_EVERYONE,
    covered_bytes, is_relayed, verify,
};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::limits::CUT_OFFS;
use crate::link::LinkIndex;
use crate::memory::HostMemory;
use crate::path::Hop;
use crate::path::hop_lists::{HopList, Hops, prefix_of};
use crate::send::TRAIN_FRAMES_USUAL;
use crate::time::Time;
use crate::transit::{Bucket, Neighbours, Queue, RelayNeighbour, Seen, Source};
use crate::transmit::TransmitBatch;

/// What a node knows as a relay, and as an end of what relays bring.
pub(crate) struct Relays {
    /// It sends on what is not for it.
    on: bool,
    pub(crate) queue: Queue,
    /// Frames of this node's own that its turns would have had room for, and that did not leave: a train at most.
    due: usize,
    pub(crate) seen: Seen,
    neighbours: Neighbours,
    /// What it says of frames that cannot go on.
    cut_offs: Bucket,
    /// What it hears of that: each costs a look at all peers.
    heard: Bucket,
}

impl Relays {
    pub(crate) fn new() -> Self {
        let bucket = Bucket::new(CUT_OFFS.0, CUT_OFFS.1);
        Self {
            on: false,
            queue: Queue::new(),
            due: 0,
            seen: Seen::default(),
            neighbours: Neighbours::default(),
            cut_offs: bucket,
            heard: bucket,
        }
    }
}

/// A number for an end of a way: which hop it is.
fn fingerprint(hop: &[u8; RELAY_HOP_BYTES], tag: u16) -> u64 {
    hop.iter().chain(&tag.to_be_bytes()).fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// Which of a relay's flows a frame belongs to: those of one pair of nodes take turns as one.
fn flow_of(carried: &[u8]) -> u32 {
    let at = |at: usize| u32::from(carried.get(at).copied().unwrap_or(0));
    let ends = [at(4), at(5), at(8), at(9), at(10), at(11)];
    ends.into_iter().fold(0x9E37, |flow: u32, byte| (flow ^ byte).wrapping_mul(0x0100_0193)) >> 8
}

impl Firmware {
    /// Whether this node sends frames of others on, as their lists of hops say (`RELAY-6`). It is off at first. Links by which frames may go on
    /// are those with [`hops_from`](crate::LinkInfo::hops_from).
    pub fn set_relay(&mut self, on: bool) {
        self.relays.on = on;
    }

    /// What came to be sent on from each neighbour; a few dozen at most, and one for all others.
    pub fn relay_neighbours(&self) -> &[RelayNeighbour] {
        self.relays.neighbours.all()
    }

    /// This node's address on a link by which frames with a list of hops may come and go.
    fn hops_from(&self, link: LinkIndex) -> Option<LinkAddress> {
        self.links.get(usize::from(link.0))?.hops_from
    }

    /// Takes a link frame that begins with a relay's head.
    #[cold]
    pub(crate) fn handle_relayed(
        &mut self,
        now: Time,
        (link, from): Hop<'_>,
        frame: &[u8],
        memory: &mut impl HostMemory,
    ) -> Result<(), Counter> {
        let heard = self.links.get(usize::from(link.0)).and_then(|info| info.hears_for);
        let link = heard.unwrap_or(link);
        let hop = (link, from);
        if self.hops_from(link).is_none() || !RelayHop::takes(from) {
            return Err(Counter::DropRelayLink);
        }
        let relayed = Relayed::parse(frame).map_err(|reason| match reason {
            Reason::Field => Counter::DropHopList,
            other => other.into(),
        })?;
        let RelayHead { usage, destination_tag, .. } = relayed.head;
        if usage == RelayUse::Search {
            return self.on_search(now, hop, &relayed, memory);
        }
        if destination_tag != self.peers.destination_tag {
            return Err(Counter::DropWrongNode);
        }
        if !relayed.has_arrived() {
            let sent_on = self.send_on(now, hop, &relayed);
            if let Err(reason) = sent_on {
                self.relays.neighbours.of(link, from).1.drops(reason);
            }
            return sent_on;
        }
        let back = self.way_back(hop, &relayed)?;
        if usage == RelayUse::CutOff {
            return self.on_cut_off(now, hop, relayed.carried);
        }
        self.take_relayed(now, (link, &back), relayed.carried, memory);
        Ok(())
    }

    /// Hands over the frames behind a list, which came from there.
    fn take_relayed(
        &mut self,
        now: Time,
        hop: Hop<'_>,
        carried: &[u8],
        memory: &mut impl HostMemory,
    ) {
        for frame in emp_wire::frames(carried) {
            if is_relayed(frame) {
                // Lists do not stand in each other.
                self.counters.count(Counter::DropHopList);
            } else {
                self.handle_one(now, hop, frame, memory);
            }
        }
    }

    /// The list that leads back to where a frame came from that has arrived, by its name.
    fn way_back(
        &mut self,
        (link, from): Hop<'_>,
        relayed: &Relayed<'_>,
    ) -> Result<LinkAddress, Counter> {
        let RelayHead { hops, source_tag, smallest, .. } = relayed.head;
        if hops == 0 {
            return Ok(*from);
        }
        let mut back = Hops::new();
        for place in (0..hops).rev() {
            let hop = relayed.hop(place).map_err(|_| Counter::DropHopList)?;
            back.push(hop.emit().ok_or(Counter::DropHopList)?);
        }
        let list = HopList { link, first: *from, first_tag: source_tag, hops: back };
        let smallest = smallest.min(self.peers.lengths.takes(link));
        let name = self.peers.hop_lists.name(list.clone(), smallest);
        if let Some(name) = name {
            return Ok(name);
        }
        if self.peers.hop_lists.wants_sweep() {
            self.forget_hop_lists();
        }
        self.peers.hop_lists.name(list, smallest).ok_or(Counter::DropRelayFull)
    }

    /// Forgets the lists of hops by which no peer is reached, and no frame of contact waits to go.
    #[cold]
    fn forget_hop_lists(&mut self) {
        let peers = 0..self.peers.len();
        let places = peers.flat_map(|peer| self.peers.known_places(peer)).map(|(_, to)| to);
        let waiting = self.routes.contacts.iter().map(|contact| contact.to);
        let hinted = self.routes.all_hints();
        let used: Vec<LinkAddress> = places.chain(waiting).chain(hinted).collect();
        self.peers.hop_lists.sweep(used.into_iter());
    }

    /// Where a node was found that was asked for by [`resolve`](Self::resolve): its ways, those of the latest questions.
    pub fn found_at(&self, node: NodeId) -> Vec<(LinkIndex, LinkAddress)> {
        self.routes.hints(node).to_vec()
    }

    /// Who is on the way to an address, relays first and the node that is there last: where each is on the cable by which it is reached, and an
    /// address at which this node may ask it ([`resolve`](Self::resolve)).
    pub fn stages(&mut self, to: &LinkAddress) -> Vec<(LinkAddress, LinkAddress)> {
        let Some(list) = self.peers.hop_lists.list(to).cloned() else {
            return alloc::vec![(*to, *to)];
        };
        let takes = self.peers.lengths.takes(list.link);
        let mut stages = alloc::vec![(list.first, list.first)];
        for count in 1..=list.hops.len() {
            let hops: Hops = list.hops[..count].iter().copied().collect();
            let there = list.hops[count - 1];
            let whole = count == list.hops.len();
            let named = match whole {
                true => Some(*to),
                false => self.peers.hop_lists.name(HopList { hops, ..list.clone() }, takes),
            };
            let at = RelayHop::parse(&there).ok().map(|hop| hop.address);
            stages.extend(at.zip(named));
        }
        stages
    }

    // ---- sending on ----

    /// The link by which a hop may be taken from here.
    fn may_go(&self, (link, from): Hop<'_>, hop: &RelayHop) -> Result<LinkIndex, Counter> {
        let out = LinkIndex(hop.link);
        let own = self.hops_from(out).ok_or(Counter::DropHopStranger)?;
        let alike = own.family() == hop.address.family();
        if !alike || hop.address.is_group() || hop.tag == TAG_EVERYONE {
            return Err(Counter::DropHopStranger);
        }
        if hop.address == own || (out, hop.address) == (link, *from) {
            return Err(Counter::DropHopSelf);
        }
        Ok(out)
    }

    /// Sends a frame to the hop at its place (`RELAY-3`).
    fn send_on(
        &mut self,
        now: Time,
        (link, from): Hop<'_>,
        relayed: &Relayed<'_>,
    ) -> Result<(), Counter> {
        if !self.relays.on {
            return Err(Counter::DropRelayOff);
        }
        let head = relayed.head;
        let hop = relayed.hop(head.place).map_err(|_| Counter::DropHopList)?;
        let out = self.may_go((link, from), &hop)?;
        if self.carriers.is_away(out) {
            self.say_cut_off(now, (link, from), relayed);
            return Err(Counter::DropHopCut);
        }
        let takes = self.peers.lengths.takes(out);
        let bytes = RELAY_HEAD_BYTES + usize::from(head.length);
        if bytes > takes.into() {
            return Err(Counter::DropHopTooLong);
        }
        let came = RelayHop { tag: head.source_tag, link: link.0, address: *from };
        let came = came.emit().ok_or(Counter::DropRelayLink)?;
        let head = RelayHead {
            destination_tag: hop.tag,
            source_tag: self.peers.destination_tag,
            place: head.place + 1,
            smallest: head.smallest.min(takes).min(self.peers.lengths.takes(link)),
            ..head
        };
        let (place, _) = self.relays.neighbours.of(link, from);
        let flow = (flow_of(relayed.carried), Source::Neighbour(place));
        let pushed = self.relays.queue.push(flow, (out, hop.address), |into| {
            into.extend_from_slice(relayed.whole);
            let at = RELAY_HEAD_BYTES + usize::from(head.place - 1) * RELAY_HOP_BYTES;
            if let Some((start, rest)) = into.split_first_chunk_mut() {
                head.emit(start);
                rest[at - RELAY_HEAD_BYTES..][..RELAY_HOP_BYTES].copy_from_slice(&came);
            }
        });
        self.note_lost(pushed);
        Ok(())
    }

    /// Where there was no room for a frame: it, or one of a flow that holds more, was lost.
    fn note_lost(&mut self, pushed: Result<(), Source>) {
        let Err(lost) = pushed else { return };
        self.counters.count(Counter::DropRelayFull);
        if let Source::Neighbour(place) = lost
            && let Some(neighbour) = self.relays.neighbours.at(place)
        {
            neighbour.drops(Counter::DropRelayFull);
        }
    }

    /// Tells the sender of a frame that it cannot go on from here, as its next cable is gone (`RELAY-5`).
    #[cold]
    fn say_cut_off(&mut self, now: Time, (link, from): Hop<'_>, relayed: &Relayed<'_>) {
        let head = relayed.head;
        if head.usage != RelayUse::Forward || !self.relays.cut_offs.take(now) {
            return;
        }
        let mut back = Hops::new();
        for place in (0..head.place).rev() {
            match relayed.hop(place).ok().and_then(|hop| hop.emit()) {
                Some(hop) => back.push(hop),
                None => return,
            }
        }
        let quoted = &relayed.carried[..HEADER_BYTES];
        let length = (back.len() * RELAY_HOP_BYTES + HEADER_BYTES) as u16;
        let takes = self.peers.lengths.takes(link);
        let says = self.peers.hop_lists.head(RelayUse::CutOff, head.source_tag, 0, takes);
        let prefix = prefix_of(RelayHead { length, ..says }, *from, &back);
        let flow = (flow_of(&[]), Source::Other);
        let pushed = self.relays.queue.push(flow, (link, *from), |into| {
            into.extend_from_slice(&prefix.bytes);
            into.extend_from_slice(quoted);
        });
        self.note_lost(pushed);
        self.counters.count(Counter::CutOffsSent);
    }

    /// A relay says that a frame of this node could not go on: the path is left at once (`RELAY-9`).
    #[cold]
    fn on_cut_off(
        &mut self,
        now: Time,
        (link, from): Hop<'_>,
        carried: &[u8],
    ) -> Result<(), Counter> {
        let head = carried.first_chunk().ok_or(Counter::DropCutOff)?;
        let header = Header::parse_head(head).map_err(|_| Counter::DropCutOff)?;
        if header.source_tag != self.peers.source_tag || !self.relays.heard.take(now) {
            return Err(Counter::DropCutOff);
        }
        let sent_so = |peer: u32| {
            let entry = &self.peers[peer];
            let pair = entry.tag == header.destination_tag
                && entry.local_epoch == header.source_epoch
                && entry.remote_epoch.check() == header.destination_epoch;
            let (path, to) = self.peers.path_by(peer, link).filter(|_| pair)?;
            let list = self.peers.hop_lists.list(&to)?;
            (list.first == *from).then_some((peer, path))
        };
        let left = (0..self.peers.len()).find_map(sent_so);
        let (peer, path) = left.ok_or(Counter::DropCutOff)?;
        self.counters.count(Counter::CutOffsHeard);
        self.path_failed(now, peer, path);
        // Another way may be there that nobody has looked for.
        self.routes.searches.begin(now, peer);
        Ok(())
    }

    /// Adds frames that are to be sent on to the batch, at most so many.
    #[inline]
    pub(crate) fn emit_transit(&mut self, batch: &mut TransmitBatch, most: usize) {
        if self.relays.queue.len() > 0 {
            self.emit_queued(batch, most);
        }
    }

    fn emit_queued(&mut self, batch: &mut TransmitBatch, most: usize) {
        for _ in 0..most {
            if batch.is_full() {
                return;
            }
            let Some(waiting) = self.relays.queue.pop() else { return };
            let added = batch.add((waiting.link, &waiting.to), None, |inline, _| {
                let into = inline.get_mut(..waiting.bytes.len()).ok_or(())?;
                into.copy_from_slice(&waiting.bytes);
                Ok::<_, ()>(waiting.bytes.len())
            });
            if added.is_err() {
                self.counters.count(Counter::DropHopTooLong);
            }
            let Source::Neighbour(place) = waiting.source else { continue };
            let Some(neighbour) = self.relays.neighbours.at(place) else { continue };
            if added.is_err() {
                neighbour.drops(Counter::DropHopTooLong);
            } else {
                self.counters.count(Counter::Relayed);
                neighbour.frames += 1;
                neighbour.bytes += waiting.bytes.len() as u64;
            }
        }
    }

    /// How many of the frames that fit a batch are for those that are sent on, where this node has frames of its own as well: as many as
    /// there are flows of each kind. A train of this node's leaves whole or waits for a batch with room for it, so what it had no use for is its
    /// due in a later batch: else it would wait as long as others' frames come.
    #[inline]
    pub(crate) fn transit_share(&mut self, batch: &TransmitBatch) -> usize {
        if self.relays.queue.len() == 0 {
            return 0;
        }
        let (flows, own) = (self.relays.queue.flows(), self.send.peers_active());
        let room = batch.room() as usize;
        let part = room * own / (flows + own);
        let train = TRAIN_FRAMES_USUAL as usize;
        let due = (self.relays.due + part).min(train);
        self.relays.due = due;
        room - if due == train { train.min(room) } else { part }
    }

    /// So many frames of this node's own left in a batch.
    #[inline]
    pub(crate) fn note_own(&mut self, frames: usize) {
        self.relays.due = self.relays.due.saturating_sub(frames);
    }

    // ---- searches ----

    /// A search came: it is answered, repeated, or dropped (`RELAY-4`, `RELAY-7`, `RELAY-8`).
    fn on_search(
        &mut self,
        now: Time,
        hop @ (link, from): Hop<'_>,
        relayed: &Relayed<'_>,
        memory: &mut impl HostMemory,
    ) -> Result<(), Counter> {
        let frame = emp_wire::frames(relayed.carried).next().ok_or(Counter::DropBodyShort)?;
        let (header, body) = Header::parse(frame)?;
        if header.kind != Kind::Hello {
            return Err(Counter::DropHopList);
        }
        verify(frame, covered_bytes(&header), Seed::CONTACT)?;
        let hello = Hello::parse(body)?;
        if hello.node == self.peers.own {
            return Err(Counter::DropSearchBack);
        }
        let head = relayed.head;
        if hello.target != self.peers.own {
            let named = self.is_asked_by_name(&header, &hello);
            if head.destination_tag == TAG_EVERYONE {
                // The copy for nodes of that name on this cable goes no further.
                if !named {
                    return Err(Counter::DropHello);
                }
            } else {
                let by_name = header.destination_tag == TAG_EVERYONE;
                let repeated = self.repeat_search(now, hop, relayed, (&hello, by_name));
                if let Err(reason) = repeated {
                    self.relays.neighbours.of(link, from).1.drops(reason);
                }
                if !named {
                    return repeated;
                }
            }
        }
        let came = RelayHop { tag: head.source_tag, link: link.0, address: *from };
        let came = came.emit().ok_or(Counter::DropRelayLink)?;
        let first = relayed.hop(0).ok().and_then(|hop| hop.emit());
        // The first relay's own tag stands in what the second has added.
        let second = relayed.hop(1).map_or(head.source_tag, |hop| hop.tag);
        let ends = (first.map_or(0, |hop| fingerprint(&hop, second)), fingerprint(&came, 0));
        if !self.relays.seen.is_new_way(hello.node, hello.nonce, ends) {
            return Err(Counter::DropSearchAgain);
        }
        let back = self.way_back(hop, relayed)?;
        self.take_relayed(now, (link, &back), relayed.carried, memory);
        Ok(())
    }

    /// Repeats a search for another node on all other links, once, or again if this copy may go further (`RELAY-7`).
    fn repeat_search(
        &mut self,
        now: Time,
        (link, from): Hop<'_>,
        relayed: &Relayed<'_>,
        (hello, by_name): (&Hello, bool),
    ) -> Result<(), Counter> {
        if !self.relays.on || hello.target == NodeId::ANY {
            return Err(Counter::DropHello);
        }
        let head = relayed.head;
        if head.place == 0 {
            return Err(Counter::DropSearchLimit);
        }
        let (_, neighbour) = self.relays.neighbours.of(link, from);
        if !neighbour.may_search(now) {
            return Err(Counter::DropSearchFlood);
        }
        if !self.relays.seen.goes_further(hello.node, hello.nonce, head.place) {
            return Err(Counter::DropSearchAgain);
        }
        neighbour.searches += 1;
        let came = RelayHop { tag: head.source_tag, link: link.0, address: *from };
        let came = came.emit().ok_or(Counter::DropRelayLink)?;
        let head = RelayHead {
            length: head.length + RELAY_HOP_BYTES as u16,
            source_tag: self.peers.destination_tag,
            place: head.place - 1,
            hops: head.hops + 1,
            smallest: head.smallest.min(self.peers.lengths.takes(link)),
            ..head
        };
        if usize::from(head.length) > RELAY_BYTES_MAX + emp_wire::HEAD_BYTES_MAX {
            return Err(Counter::DropHopTooLong);
        }
        // Sockets pick frames by tag, and those of nodes that only have the name have another one.
        let for_named = RelayHead { destination_tag: TAG_EVERYONE, place: 0, ..head };
        for index in (0..self.links.len()).filter(|index| *index != usize::from(link.0)) {
            let out = LinkIndex(index as u8);
            if self.links[index].hops_from.is_none() || self.carriers.is_away(out) {
                continue;
            }
            for head in [Some(head), by_name.then_some(for_named)].into_iter().flatten() {
                self.push_search(out, head, relayed, &came);
            }
        }
        self.counters.count(Counter::SearchesRelayed);
        Ok(())
    }

    /// Has a search leave by a link, with where it came from at the end of its list.
    fn push_search(
        &mut self,
        out: LinkIndex,
        head: RelayHead,
        relayed: &Relayed<'_>,
        came: &[u8; RELAY_HOP_BYTES],
    ) {
        let takes = self.peers.lengths.takes(out);
        let head = RelayHead { smallest: head.smallest.min(takes), ..head };
        let flow = (flow_of(relayed.carried), Source::Other);
        let pushed = self.relays.queue.push(flow, (out, LinkAddress::EVERYONE), |into| {
            let mut start = [0; RELAY_HEAD_BYTES];
            head.emit(&mut start);
            into.extend_from_slice(&start);
            into.extend_from_slice(relayed.list());
            into.extend_from_slice(came);
            into.extend_from_slice(relayed.carried);
        });
        self.note_lost(pushed);
    }
}

#[cfg(test)]
mod tests;
