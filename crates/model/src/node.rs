//! A simulated node: one firmware, its host's memory, its receive ring, and how often it gets to run.

use std::collections::{BTreeMap, VecDeque};

use emp_firmware::{
    Completion, Config, Counter, Exit, Firmware, LinkCost, LinkIndex, LinkInfo, NodeEvent, OpId,
    OpKind, PostError, Posted, Profile, PutDescriptor, SendDescriptor, Span, Time,
};
use emp_wire::{LinkAddress, NodeId};

use crate::halved::{self, Sender};
use crate::inbox;
use crate::memory::SimMemory;
use crate::network::{Delivery, Network};
use crate::outbox::{Card, Outbox};
use crate::prng::Prng;

/// How fast a node's processor is.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// Shortest time between two turns. Zero: it spins.
    pub turn_interval: Span,
    /// A turn comes up to so much later than it could: drawn for each.
    pub late: Span,
    /// Frames taken from the ring in one turn.
    pub frames_per_turn: usize,
    /// Frames that the receive ring holds; more are lost.
    pub ring_frames: usize,
    /// What may leave with its post does not wait for the next turn.
    pub posts_at_once: bool,
}

impl Pace {
    /// A host that polls without pause.
    pub const FAST: Self = Self {
        turn_interval: Span(0),
        late: Span(0),
        frames_per_turn: 64,
        ring_frames: 4_096,
        posts_at_once: true,
    };
}

/// How a node is made.
#[derive(Clone, Debug)]
pub struct NodeSetup {
    /// Its identity.
    pub id: NodeId,
    /// Its parameters.
    pub profile: Profile,
    /// Its links: one for each fabric, best first.
    pub links: Vec<LinkInfo>,
    /// Endpoints that it opens at start.
    pub endpoints: Vec<u16>,
    /// How fast it is.
    pub pace: Pace,
    /// So many of them, the last ones, are not there at its start: its cables are plugged in later (`World::plug`).
    pub plugged_later: usize,
    /// What its links do with batches and trains.
    pub card: Card,
    /// It lives at the address of this other node, as another process of its host: each takes the frames with its tag.
    pub shares_with: Option<usize>,
    /// The nodes that it is told of at its start, if it can't ask everyone. `None`: all.
    pub told_of: Option<Vec<usize>>,
    /// Frames that came are taken by one half of its engine while the other sends.
    pub halves: bool,
    /// First sequence number and first message number of all its streams: the same at all nodes of a world.
    pub first_numbers: (u32, u32),
}

impl NodeSetup {
    /// A fast node with these parameters, a 1500-byte broadcast link and endpoint 0.
    pub fn new(index: usize, profile: Profile) -> Self {
        Self {
            id: NodeId::from_name(&format!("node-{index}")),
            profile,
            links: vec![LinkInfo::new(1_500, true)],
            plugged_later: 0,
            endpoints: vec![0],
            pace: Pace::FAST,
            card: Card::default(),
            shares_with: None,
            told_of: None,
            halves: false,
            first_numbers: (0, 0),
        }
    }
}

/// A node.
pub struct SimNode {
    /// How it was made.
    pub setup: NodeSetup,
    /// Counts its starts.
    pub incarnation: u32,
    /// Its protocol engine; `None` while the node is away.
    pub firmware: Option<Firmware>,
    /// Its host's memory.
    pub memory: SimMemory,
    ring: VecDeque<Delivery>,
    /// Its room that is taken: a long frame takes that of the pieces it came in.
    ring_slots: usize,
    outbox: Outbox,
    /// What its links draw from.
    prng: Prng,
    /// Sends that were over when they were posted: the application looks at them with the rest.
    over: Vec<Completion>,
    /// Ends of sends that may not be told yet: a frame that was not taken still names their memory.
    held: Vec<Completion>,
    /// What its earlier incarnations counted, in the order of [`Counter::ALL`].
    past: Vec<u64>,
    /// Most that it held of each thing, by name.
    peaks: BTreeMap<&'static str, usize>,
    /// Frames lost because the ring was full.
    pub ring_lost: u64,
    /// The application posted something since the last turn.
    dirty: bool,
    /// Since when.
    dirty_since: Time,
    last_turn: Option<Time>,
    /// How late its next turn comes.
    late: Span,
    /// It does not run before.
    paused_until: Time,
    /// Its outgoing side is full until then, and it has more to send.
    blocked_until: Option<Time>,
}

/// What came out of a turn.
#[derive(Default)]
pub struct TurnResult {
    /// Operations that ended.
    pub completions: Vec<Completion>,
    /// What happened to peers.
    pub events: Vec<NodeEvent>,
}

/// Frames of the usual length that a frame takes the room of.
fn slots(links: &[LinkInfo], frame: &[u8]) -> usize {
    let usual = links.iter().map(|link| link.frame_bytes_max).max();
    frame.len().div_ceil(usual.unwrap_or(usize::MAX)).max(1)
}

/// Time that a card's transmit ring holds: 256 full frames at 10 Gb/s take about 300 µs.
const EGRESS_MAX: Span = Span::us(300);

/// The node's cards take more.
pub(crate) fn has_room(network: &Network, index: usize, now: Time) -> bool {
    network.egress_free(index).since(now) <= EGRESS_MAX
}

/// Batches that one turn may send: far beyond any window, so only an endless loop reaches it.
const BATCHES_PER_TURN_MAX: usize = 10_000;

impl SimNode {
    /// Posts a send as its application does: at once, if so set up, what the firmware lets out at once.
    pub fn post_send(
        &mut self,
        index: usize,
        now: Time,
        send: SendDescriptor,
        network: &mut Network,
    ) -> Result<OpId, PostError> {
        self.post_by(index, now, network, |firmware, memory, exit| {
            firmware.post_send_into(now, send, memory, exit, |_| now)
        })
    }

    /// The same of a put.
    pub fn post_put(
        &mut self,
        index: usize,
        now: Time,
        put: PutDescriptor,
        network: &mut Network,
    ) -> Result<OpId, PostError> {
        self.post_by(index, now, network, |firmware, memory, exit| {
            firmware.post_put_into(now, put, memory, exit, |_| now)
        })
    }

    fn post_by(
        &mut self,
        index: usize,
        now: Time,
        network: &mut Network,
        post: impl FnOnce(&mut Firmware, &mut SimMemory, Option<Exit<'_>>) -> Result<Posted, PostError>,
    ) -> Result<OpId, PostError> {
        let Some(firmware) = &mut self.firmware else { return Err(PostError::Closing) };
        let full = !has_room(network, index, now);
        if !self.setup.pace.posts_at_once || full || now < self.paused_until {
            return post(firmware, &mut self.memory, None).map(|posted| posted.op);
        }
        let Some(batch) = self.outbox.growing() else {
            return post(firmware, &mut self.memory, None).map(|posted| posted.op);
        };
        let posted = post(firmware, &mut self.memory, Some(Exit { batch, lends: false }));
        self.outbox.grown();
        let waits = self.setup.card.gathers_posts && self.prng.percent(50);
        if !waits && !self.outbox.is_done() {
            let Self { outbox, prng, memory, setup, .. } = self;
            outbox.offer(&setup.card, prng, memory, (index, now), network);
        }
        let posted = posted?;
        self.over.extend(posted.over);
        Ok(posted.op)
    }

    /// A node that is away.
    pub fn new(setup: NodeSetup) -> Self {
        Self {
            outbox: Outbox::new(&setup.links),
            prng: Prng::new(setup.id.0),
            setup,
            incarnation: 0,
            firmware: None,
            memory: SimMemory::new(),
            ring: VecDeque::new(),
            ring_slots: 0,
            over: Vec::new(),
            held: Vec::new(),
            past: vec![0; Counter::ALL.len()],
            peaks: BTreeMap::new(),
            ring_lost: 0,
            dirty: false,
            dirty_since: Time(0),
            last_turn: None,
            late: Span(0),
            paused_until: Time(0),
            blocked_until: None,
        }
    }

    /// A frame that it gave to a link which does not take such: by which link, and how many bytes.
    pub fn overlong(&self) -> Option<(LinkIndex, usize)> {
        self.outbox.overlong
    }

    /// The first of its links, so many, as its firmware is told of them.
    fn links(&self, address: LinkAddress, count: usize) -> Vec<LinkInfo> {
        let mut links = self.setup.links[..count].to_vec();
        // Its address is the same on every fabric. One that moves tells what is no longer true.
        // But where each link has a cable of its own it has an address of its own.
        let told = links.iter_mut().filter(|link| link.hops_from.is_none());
        let told = told.flat_map(|link| link.beside.iter_mut().flatten());
        told.for_each(|(_, told)| *told = address);
        for place in links.iter_mut().flat_map(|link| &mut link.beside) {
            *place = place.filter(|(other, _)| usize::from(other.0) < count);
        }
        links
    }

    /// All its links are there from now on.
    pub(crate) fn plug(&mut self, now: Time, address: LinkAddress) {
        let links = self.links(address, self.setup.links.len());
        if let Some(firmware) = &mut self.firmware {
            let taken = firmware.set_links(now, links);
            debug_assert!(taken, "more links than before, and not too many");
        }
        self.dirty = true;
    }

    /// Starts it, with this epoch and seed.
    pub fn start(&mut self, epoch: u32, seed: u64, address: LinkAddress) {
        self.incarnation += 1;
        self.prng = Prng::new(seed);
        if self.setup.card.places {
            self.memory.read_back();
        }
        let links = self.links(address, self.setup.links.len() - self.setup.plugged_later);
        let mut firmware = Firmware::new(Config {
            node: self.setup.id,
            epoch,
            name: format!("sim-{:04x}", self.setup.id.0 as u16),
            profile: self.setup.profile.clone(),
            links,
            seed,
        });
        let (sequence, message) = self.setup.first_numbers;
        firmware.set_first_numbers(sequence, message);
        for endpoint in &self.setup.endpoints {
            // The first endpoints of a new node always fit.
            let opened = firmware.open_endpoint(*endpoint);
            debug_assert!(opened.is_ok(), "endpoint {endpoint}: {opened:?}");
        }
        self.firmware = Some(firmware);
        self.dirty = true;
    }

    /// What it has counted, over all its incarnations, in the order of [`Counter::ALL`].
    pub fn counts(&self) -> Vec<u64> {
        let now = self.firmware.as_ref().map(Firmware::counters);
        let of = |counter| now.as_ref().map_or(0, |counters| counters.get(counter));
        let each = Counter::ALL.iter().zip(&self.past);
        each.map(|(counter, past)| past + of(*counter)).collect()
    }

    /// The most that it held of each thing when it was looked at.
    pub fn peaks(&self) -> &BTreeMap<&'static str, usize> {
        &self.peaks
    }

    /// Looks at what it holds; an error says what there is too much of.
    pub fn weigh(&mut self) -> Result<(), String> {
        let Some(firmware) = &self.firmware else { return Ok(()) };
        for holding in firmware.holdings() {
            let peak = self.peaks.entry(holding.name).or_default();
            *peak = holding.held.max(*peak);
            if holding.held > holding.limit {
                return Err(format!("{} {}, limit {}", holding.held, holding.name, holding.limit));
            }
        }
        Ok(())
    }

    /// Stops it at once, as a power cut does: memory and ring are gone.
    pub fn stop(&mut self) {
        self.past = self.counts();
        self.firmware = None;
        self.memory = SimMemory::new();
        self.ring.clear();
        self.ring_slots = 0;
        self.over.clear();
        self.held.clear();
        self.outbox.forget();
        self.dirty = false;
        self.last_turn = None;
        self.paused_until = Time(0);
        self.blocked_until = None;
    }

    /// Keeps it from running.
    pub fn pause(&mut self, until: Time) {
        self.paused_until = self.paused_until.max(until);
    }

    /// Drops frames that are still to be sent and name memory: the firmware resends what still matters.
    pub fn let_go_of_memory(&mut self) {
        if self.outbox.names_memory() {
            self.outbox.forget();
        }
    }

    /// When it may run again, if it is paused at `now`.
    pub fn paused(&self, now: Time) -> Option<Time> {
        (self.paused_until > now).then_some(self.paused_until)
    }

    /// The application did something; a turn is due.
    pub fn wake(&mut self, now: Time) {
        if !self.dirty {
            (self.dirty, self.dirty_since) = (true, now);
        }
    }

    /// Puts an arriving frame into the ring, or gives it back if there is no room (or no one).
    pub fn take(&mut self, delivery: Delivery) -> Result<(), Delivery> {
        if self.firmware.is_none() {
            return Err(delivery);
        }
        let slots = slots(&self.setup.links, &delivery.frame);
        if self.ring_slots + slots > self.setup.pace.ring_frames {
            self.ring_lost += 1;
            return Err(delivery);
        }
        self.ring_slots += slots;
        self.ring.push_back(delivery);
        Ok(())
    }

    /// When its next turn is.
    pub fn next_turn(&self, now: Time) -> Option<Time> {
        let firmware = self.firmware.as_ref()?;
        let stirred = self.dirty.then_some(self.dirty_since);
        let wanted = if let Some(since) = stirred.or(self.ring.front().map(|first| first.came)) {
            since + self.late
        } else {
            match (firmware.poll_timeout(), self.blocked_until) {
                // What is due now has been tried, and waits for room on the way out.
                (Some(due), Some(free)) if due <= now => free,
                (Some(due), Some(free)) => due.min(free),
                (due, free) => due.or(free)?,
            }
        };
        let allowed = self.last_turn.map_or(now, |last| last + self.setup.pace.turn_interval);
        Some(wanted.max(allowed).max(self.paused_until).max(now))
    }

    /// Runs it once, in the order that [`Firmware`] documents.
    pub fn turn(&mut self, index: usize, now: Time, network: &mut Network) -> TurnResult {
        let mut result = TurnResult::default();
        let Some(firmware) = &mut self.firmware else { return result };
        self.dirty = false;
        self.last_turn = Some(now);
        if self.setup.pace.late > Span(0) {
            self.late = Span(self.prng.below(self.setup.pace.late.0));
        }
        let mut left = self.setup.pace.frames_per_turn;
        while left > 0 && !self.ring.is_empty() {
            let Self { ring, memory, outbox, prng, setup, .. } = self;
            let card = &setup.card;
            let taken = if setup.halves {
                let sender = Sender { outbox, card, prng, network, index };
                halved::turn(ring, left, now, firmware, memory, sender)
            } else {
                inbox::hand_up(ring, left, card, now, firmware, memory)
            };
            left -= taken.len();
            let slots = taken.iter().map(|delivery| slots(&self.setup.links, &delivery.frame));
            self.ring_slots -= slots.sum::<usize>();
            inbox::recycle(taken, network);
        }
        if firmware.poll_timeout().is_some_and(|due| due <= now) {
            firmware.handle_timeout(now, &mut self.memory);
        }
        self.blocked_until = None;
        let mut ended = false;
        for _ in 0..BATCHES_PER_TURN_MAX {
            // What follows a batch that was ended early is for another interface, which has a ring of its own.
            if !ended && !has_room(network, index, now) {
                // Half of the ring drains before it is filled again.
                self.blocked_until = Some(network.egress_free(index) - Span(EGRESS_MAX.0 / 2));
                break;
            }
            if !self.outbox.refill(now, firmware, &mut self.memory) {
                break;
            }
            ended = self.outbox.is_ended();
            let Self { outbox, prng, memory, setup, .. } = self;
            if !outbox.offer(&setup.card, prng, memory, (index, now), network) {
                self.blocked_until = outbox.retry(now);
                break;
            }
        }
        let Some(firmware) = &mut self.firmware else { return result };
        result.completions.append(&mut self.over);
        let holds = self.outbox.names_memory();
        if !holds {
            result.completions.append(&mut self.held);
        }
        for completion in core::iter::from_fn(|| firmware.poll_completion()) {
            let names = matches!(completion.op.kind(), OpKind::Send | OpKind::Put);
            let list = if holds && names { &mut self.held } else { &mut result.completions };
            list.push(completion);
        }
        result.events.extend(core::iter::from_fn(|| firmware.poll_event()));
        result
    }
}

/// Has trains of at least `frames` frames take link number `wide`, and of those that leave in longer ones as few as `long_frames`; all
/// others lead to the same nodes.
pub fn divide(links: &mut [LinkInfo], wide: u8, frames: u32, long_frames: u32) {
    let [usual, cost] = LinkCost::divided(frames, long_frames);
    for (link, index) in links.iter_mut().zip(0..) {
        if index == wide {
            link.cost = Some(cost);
        } else {
            link.cost = Some(usual);
            link.set_beside(LinkIndex(wide), LinkAddress::EVERYONE);
        }
    }
}

/// Has each link lead over an interface of its own to the same nodes: so many cables between them.
pub fn cables(links: &mut [LinkInfo]) {
    let count = links.len() as u8;
    for (link, index) in links.iter_mut().zip(0..) {
        link.interface = index;
        for other in (0..count).filter(|other| *other != index) {
            link.set_beside(LinkIndex(other), LinkAddress::EVERYONE);
        }
    }
}
