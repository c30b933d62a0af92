//! The simulated network: fabrics of one store-and-forward switch each, ports with bounded queues, faults, cuts.

use std::collections::BTreeMap;

use emp_firmware::{LinkIndex, Span, Time};
use emp_wire::{AddressFamily, LinkAddress, TAG_EVERYONE};

use crate::faults::{FaultPlan, Verdict, damage};
use crate::port::{Port, PortSetup, PortTotals};
use crate::prng::Prng;
use crate::trace::{Fate, Trace, TraceLine};

/// One fabric: every node's link of the same index leads to it.
#[derive(Clone, Debug)]
pub struct FabricSetup {
    /// Speed of every port, each way.
    pub bits_per_second: u64,
    /// Way from port to port without queueing and serialisation.
    pub latency: Span,
    /// Most that a frame is late beyond that; order is kept.
    pub jitter: Span,
    /// Bytes that the switch keeps for one outgoing port; frames beyond are lost.
    pub queue_bytes: u64,
    /// Frames that find more bytes than this in a port's queue are marked (ECN, RFC 3168).
    pub ecn_bytes: Option<u64>,
    /// Frames shorter than this are padded with zeros, as Ethernet does (46 on the real one; 0 for UDP).
    pub pad_bytes: usize,
    /// What happens to frames.
    pub faults: FaultPlan,
    /// Frames longer than this, in bytes, cross in pieces of that length, each of which may be lost (`LONG-1`).
    pub piece_bytes: usize,
    /// They arrive; on a path that does not put pieces together they don't.
    pub joins_pieces: bool,
}

impl FabricSetup {
    /// 10 Gb/s, 5 µs, no faults: the LAN that the golden table speaks of.
    pub fn lan() -> Self {
        Self {
            bits_per_second: 10_000_000_000,
            latency: Span::us(5),
            jitter: Span(0),
            // A shallow data-centre switch has about 100 to 500 KB for a port.
            queue_bytes: 512 << 10,
            ecn_bytes: None,
            pad_bytes: 46,
            faults: FaultPlan::default(),
            piece_bytes: usize::MAX,
            joins_pieces: true,
        }
    }
}

/// A frame that has left one node and will reach another.
#[derive(Debug)]
pub struct Delivery {
    /// The receiving node.
    pub to: usize,
    /// The link it arrives on.
    pub link: LinkIndex,
    /// Where it came from.
    pub from: LinkAddress,
    /// Its bytes.
    pub frame: Vec<u8>,
    /// A switch on its way had more in its queue than it should: congestion experienced (ECN).
    pub marked: bool,
    /// When it arrived.
    pub came: Time,
}

/// What the network did so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Frames that nodes sent (a broadcast counts once).
    pub sent: u64,
    /// Frames that reached a node.
    pub delivered: u64,
    /// Frames that faults lost.
    pub dropped: u64,
    /// Frames that a full queue lost.
    pub congested: u64,
    /// Frames that a cut lost, or that were for an address where no one is.
    pub undeliverable: u64,
    /// Frames marked because a queue was long.
    pub marked: u64,
    /// Frames damaged, duplicated or delivered out of order.
    pub disturbed: u64,
    /// Bytes that nodes sent.
    pub bytes: u64,
}

/// A test's own hand on the wire: sees sender, receiver and frame, and may overrule the fault plan.
pub type Script = Box<dyn FnMut(Time, usize, usize, &[u8]) -> Option<Verdict>>;

/// Where frames go in and come out again, later, elsewhere, or not at all.
pub struct Network {
    fabrics: Vec<Fabric>,
    /// The nodes at each address. A node that moved has left its old one.
    places: BTreeMap<u32, Vec<usize>>,
    /// Each node's destination tag: what is filtered by where several live at one address.
    tags: Vec<u16>,
    /// Longest frame that each node's interfaces take now, in bytes.
    limits: Vec<Limit>,
    /// Each node's address now.
    addresses: Vec<u32>,
    next_address: u32,
    in_flight: BTreeMap<(Time, u64), Delivery>,
    order: u64,
    prng: Prng,
    totals: Totals,
    script: Option<Script>,
    trace: Trace,
    /// Frame buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// What a node's interfaces take.
#[derive(Clone, Copy)]
struct Limit {
    bytes: usize,
    /// Links by which longer frames leave in fragments, a bit each.
    fragments: u64,
}

impl Default for Limit {
    fn default() -> Self {
        Self { bytes: usize::MAX, fragments: 0 }
    }
}

struct Fabric {
    setup: FabricSetup,
    /// When each node's outgoing side is free.
    egress: Vec<Time>,
    /// The switch's port to each node.
    ports: Vec<Port>,
    /// Arrival of the last frame in order, from × to.
    last: Vec<Time>,
    /// When the last burst of losses ends, from × to.
    burst: Vec<Time>,
    /// Number of cuts in force, from × to.
    cuts: Vec<u16>,
    /// Longest frame that passes, in bytes, from × to.
    longest: Vec<usize>,
    /// What crosses in pieces passes however long they are.
    pieces_pass: bool,
}

impl Network {
    /// A network of these fabrics for so many nodes.
    pub fn new(fabrics: Vec<FabricSetup>, nodes: usize, prng: Prng) -> Self {
        let fabrics = fabrics
            .into_iter()
            .map(|setup| Fabric {
                setup,
                egress: vec![Time(0); nodes],
                ports: vec![Port::default(); nodes],
                last: vec![Time(0); nodes * nodes],
                burst: vec![Time(0); nodes * nodes],
                cuts: vec![0; nodes * nodes],
                longest: vec![usize::MAX; nodes * nodes],
                pieces_pass: false,
            })
            .collect();
        Self {
            fabrics,
            places: (0..nodes).map(|node| (node as u32, vec![node])).collect(),
            tags: vec![TAG_EVERYONE; nodes],
            limits: vec![Limit::default(); nodes],
            addresses: (0..nodes as u32).collect(),
            next_address: nodes as u32,
            in_flight: BTreeMap::new(),
            order: 0,
            prng,
            totals: Totals::default(),
            script: None,
            trace: Trace::default(),
            spare: Vec::new(),
        }
    }

    /// A node's address on every fabric.
    pub fn address(&self, node: usize) -> LinkAddress {
        LinkAddress::index(self.addresses[node])
    }

    /// Gives a node another address: its cable was moved. Frames on their way to the old one still arrive.
    pub fn relocate(&mut self, node: usize) {
        self.leave_place(node);
        self.addresses[node] = self.next_address;
        self.places.insert(self.next_address, vec![node]);
        self.next_address += 1;
    }

    /// Has a node live at another's address. Frames to it reach those of them whose tags (by node) they have.
    pub fn share_address(&mut self, node: usize, with: usize, tags: Vec<u16>) {
        self.leave_place(node);
        self.tags = tags;
        self.addresses[node] = self.addresses[with];
        self.places.entry(self.addresses[with]).or_default().push(node);
    }

    fn leave_place(&mut self, node: usize) {
        let address = self.addresses[node];
        if let Some(nodes) = self.places.get_mut(&address) {
            nodes.retain(|other| *other != node);
            if nodes.is_empty() {
                self.places.remove(&address);
            }
        }
    }

    /// From now on a node's interfaces take frames of at most so many bytes, either way. Longer ones leave in fragments by the
    /// links of `fragments` (a bit each), as UDP datagrams do in those of IP, and by others not at all.
    pub fn set_limit(&mut self, node: usize, bytes: Option<usize>, fragments: u64) {
        self.limits[node] = Limit { bytes: bytes.unwrap_or(usize::MAX), fragments };
    }

    /// Longest frame that a node's interfaces take now, if that is limited.
    pub fn limit(&self, node: usize) -> Option<usize> {
        Some(self.limits[node].bytes).filter(|bytes| *bytes < usize::MAX)
    }

    /// Another port of a fabric's switch to one node.
    pub fn set_port(&mut self, fabric: usize, node: usize, port: PortSetup) {
        self.fabrics[fabric].ports[node].setup = Some(port);
    }

    /// What a fabric's port to a node has seen so far.
    pub fn port(&self, fabric: usize, node: usize) -> PortTotals {
        self.fabrics[fabric].ports[node].totals
    }

    /// Ends all cuts.
    pub fn mend_all(&mut self) {
        self.fabrics.iter_mut().for_each(|fabric| fabric.cuts.fill(0));
    }

    /// Cuts (`true`) or mends one direction between two nodes on one fabric. Cuts add up.
    pub fn cut(&mut self, fabric: usize, from: usize, to: usize, cut: bool) {
        let nodes = self.addresses.len();
        let cuts = &mut self.fabrics[fabric].cuts[from * nodes + to];
        *cuts = if cut { *cuts + 1 } else { cuts.saturating_sub(1) };
    }

    /// Fabrics.
    pub fn fabrics(&self) -> usize {
        self.fabrics.len()
    }

    /// Latency with jitter of the slowest fabric.
    pub fn latency_max(&self) -> Span {
        let slowest = |fabric: &Fabric| fabric.setup.latency.0 + fabric.setup.jitter.0;
        Span(self.fabrics.iter().map(slowest).max().unwrap_or(0))
    }

    /// The worst rate at which any kind of frame is lost on any fabric, bursts aside, in parts of one.
    pub fn loss_max(&self) -> f64 {
        let rates = self.fabrics.iter().flat_map(|fabric| fabric.setup.faults.all());
        f64::from(rates.map(|rates| rates.drop.0).max().unwrap_or(0)) / 1e6
    }

    /// Ends all faults and cuts. What is on its way stays as it is.
    pub fn heal(&mut self) {
        for fabric in &mut self.fabrics {
            fabric.setup.faults = FaultPlan::default();
            fabric.cuts.fill(0);
            fabric.burst.fill(Time(0));
        }
    }

    /// Has frames longer than so many bytes cross in pieces, which are put together again if `joins`.
    pub fn set_pieces(&mut self, fabric: usize, bytes: usize, joins: bool) {
        let setup = &mut self.fabrics[fabric].setup;
        (setup.piece_bytes, setup.joins_pieces) = (bytes, joins);
    }

    /// Frames that leave from now on take so long over one fabric. Those that left before are not overtaken.
    pub fn set_latency(&mut self, fabric: usize, latency: Span) {
        self.fabrics[fabric].setup.latency = latency;
    }

    /// The ports of one fabric have another speed.
    pub fn set_rate(&mut self, fabric: usize, bits_per_second: u64) {
        self.fabrics[fabric].setup.bits_per_second = bits_per_second;
    }

    /// Another fault plan for one fabric.
    pub fn set_faults(&mut self, fabric: usize, faults: FaultPlan) {
        self.fabrics[fabric].setup.faults = faults;
    }

    /// Lets a test decide over each frame.
    pub fn set_script(&mut self, script: Option<Script>) {
        self.script = script;
    }

    /// What happened so far.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// The record of frames.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// The record of frames, to be switched on or emptied.
    pub fn trace_mut(&mut self) -> &mut Trace {
        &mut self.trace
    }

    /// When the next frame arrives.
    pub fn next_arrival(&self) -> Option<Time> {
        self.in_flight.first_key_value().map(|((at, _), _)| *at)
    }

    /// Takes the next frame that arrives at or before `now`.
    pub fn arrival(&mut self, now: Time) -> Option<Delivery> {
        let entry = self.in_flight.first_entry()?;
        if entry.key().0 > now {
            return None;
        }
        self.totals.delivered += 1;
        let ((came, _), delivery) = entry.remove_entry();
        Some(Delivery { came, ..delivery })
    }

    /// From now on frames of more than so many bytes are lost on their way from one node to another, without a word: a card or a
    /// switch whose MTU is less than those of both ends. `usize::MAX`: none are.
    pub fn lose_longer(&mut self, fabric: usize, from: usize, to: usize, bytes: usize) {
        let nodes = self.addresses.len();
        self.fabrics[fabric].longest[from * nodes + to] = bytes;
    }

    /// Whether what crosses a fabric in pieces passes whatever [`lose_longer`](Self::lose_longer) says, as through a virtual switch that
    /// forwards what a sender's kernel has not yet cut.
    pub fn pass_pieces(&mut self, fabric: usize, pass: bool) {
        self.fabrics[fabric].pieces_pass = pass;
    }

    /// When a node's outgoing side has sent all it was given.
    pub fn egress_free(&self, node: usize) -> Time {
        self.fabrics.iter().map(|fabric| fabric.egress[node]).max().unwrap_or_default()
    }

    /// An empty buffer for a frame.
    pub fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    /// Gives a frame's buffer back.
    pub fn recycle(&mut self, mut frame: Vec<u8>) {
        // More than a few windows' worth is not needed at a time.
        if self.spare.len() < 4_096 {
            frame.clear();
            self.spare.push(frame);
        }
    }

    /// Puts a frame on the wire as it is, without faults: how tests send frames that no firmware would.
    pub fn inject(
        &mut self,
        at: Time,
        to: usize,
        link: LinkIndex,
        from: LinkAddress,
        frame: &[u8],
    ) {
        self.order += 1;
        let (frame, came) = (frame.to_vec(), Time(0));
        let delivery = Delivery { to, link, from, frame, marked: false, came };
        self.in_flight.insert((at, self.order), delivery);
    }

    /// Sends a frame.
    pub fn send(
        &mut self,
        now: Time,
        from: usize,
        link: LinkIndex,
        to: LinkAddress,
        mut frame: Vec<u8>,
    ) {
        let index = usize::from(link.0);
        let Some(fabric) = self.fabrics.get_mut(index) else {
            self.totals.undeliverable += 1;
            return;
        };
        if frame.len() < fabric.setup.pad_bytes {
            frame.resize(fabric.setup.pad_bytes, 0);
        }
        self.totals.sent += 1;
        self.totals.bytes += frame.len() as u64;
        let serial = serialisation(frame.len(), fabric.setup.bits_per_second);
        let leaves = fabric.egress[from].max(now) + serial;
        fabric.egress[from] = leaves;
        if to.family() == AddressFamily::Everyone {
            for node in 0..self.addresses.len() {
                if node != from {
                    let mut copy = self.buffer();
                    copy.extend_from_slice(&frame);
                    self.forward(now, leaves, index, from, node, copy);
                }
            }
            self.recycle(frame);
            return;
        }
        match to.as_index().and_then(|address| self.places.get(&address)).map(Vec::as_slice) {
            Some(&[node]) => self.forward(now, leaves, index, from, node, frame),
            Some(nodes) => {
                let tag = frame.get(4..6).map(|tag| u16::from_be_bytes([tag[0], tag[1]]));
                // No interface hears itself.
                let is_for = |node: &usize| {
                    let tagged =
                        tag.is_some_and(|tag| tag == TAG_EVERYONE || tag == self.tags[*node]);
                    tagged && *node != from
                };
                let takers: Vec<usize> = nodes.iter().copied().filter(is_for).collect();
                for node in takers {
                    let mut copy = self.buffer();
                    copy.extend_from_slice(&frame);
                    self.forward(now, leaves, index, from, node, copy);
                }
                self.recycle(frame);
            }
            None => {
                self.totals.undeliverable += 1;
                for frame in emp_wire::frames(&frame) {
                    let line = || TraceLine::new(now, from, usize::MAX, link, frame, Fate::Nowhere);
                    self.trace.add(line);
                }
                self.recycle(frame);
            }
        }
    }

    fn forward(
        &mut self,
        now: Time,
        leaves: Time,
        index: usize,
        from: usize,
        to: usize,
        mut frame: Vec<u8>,
    ) {
        let fabric = &mut self.fabrics[index];
        let path = from * self.addresses.len() + to;
        let scripted = self.script.as_mut().and_then(|script| script(now, from, to, &frame));
        let verdict = scripted.unwrap_or_else(|| {
            let burst = &mut fabric.burst[path];
            let FabricSetup { faults, piece_bytes, joins_pieces, .. } = &fabric.setup;
            let (sender, receiver) = (self.limits[from], self.limits[to].bytes);
            let long = frame.len() > *piece_bytes;
            // The sender's kernel cuts long frames as its interface takes them.
            let fragments = sender.fragments >> index & 1 == 1;
            let piece_bytes =
                if long || fragments { *piece_bytes.min(&sender.bytes) } else { *piece_bytes };
            let pieces = frame.len().div_ceil(piece_bytes);
            let longest = frame.len().min(piece_bytes);
            let mut verdict = faults.judge(now, &frame, burst, &mut self.prng);
            for _ in 1..pieces {
                verdict.drop |= faults.judge(now, &frame, burst, &mut self.prng).drop;
            }
            verdict.drop |= long && !joins_pieces;
            verdict.drop |= longest > sender.bytes.min(receiver);
            verdict
        });
        // What crosses in pieces is as long as they are.
        let in_pieces = frame.len() > fabric.setup.piece_bytes;
        let too_long = frame.len().min(fabric.setup.piece_bytes) > fabric.longest[path]
            && !(in_pieces && fabric.pieces_pass);
        let fate = if fabric.cuts[path] > 0 {
            Fate::Cut
        } else if verdict.drop || too_long {
            Fate::Dropped
        } else {
            fabric.queue(leaves, path, to, frame.len(), verdict.late_ns, &mut self.prng)
        };
        let marked = matches!(fate, Fate::Arrives(_)) && fabric.ports[to].marked;
        self.totals.marked += u64::from(marked);
        let link = LinkIndex(index as u8);
        for frame in emp_wire::frames(&frame) {
            self.trace.add(|| TraceLine::new(now, from, to, link, frame, fate));
        }
        let at = match fate {
            Fate::Arrives(at) => at,
            other => {
                match other {
                    Fate::Dropped => self.totals.dropped += 1,
                    Fate::Congested => self.totals.congested += 1,
                    _ => self.totals.undeliverable += 1,
                }
                self.recycle(frame);
                return;
            }
        };
        if verdict != Verdict::default() {
            self.totals.disturbed += 1;
        }
        if verdict.copy_ns > 0 {
            let mut copy = self.buffer();
            copy.extend_from_slice(&frame);
            self.enqueue(at + Span(verdict.copy_ns), index, (from, to), copy, marked);
        }
        damage(&mut frame, &verdict, &mut self.prng);
        self.enqueue(at, index, (from, to), frame, marked);
    }

    fn enqueue(
        &mut self,
        at: Time,
        index: usize,
        (from, to): (usize, usize),
        frame: Vec<u8>,
        marked: bool,
    ) {
        self.order += 1;
        let from = self.address(from);
        let (link, came) = (LinkIndex(index as u8), Time(0));
        let delivery = Delivery { to, link, from, frame, marked, came };
        self.in_flight.insert((at, self.order), delivery);
    }
}

impl Fabric {
    /// Takes a frame through the switch: when it arrives, or that the queue was full.
    fn queue(
        &mut self,
        leaves: Time,
        path: usize,
        to: usize,
        bytes: usize,
        late_ns: u64,
        prng: &mut Prng,
    ) -> Fate {
        let half = Span(self.setup.latency.0 / 2);
        let usual = PortSetup {
            bits_per_second: self.setup.bits_per_second,
            queue_bytes: self.setup.queue_bytes,
            ecn_bytes: self.setup.ecn_bytes,
        };
        let Some(out) = self.ports[to].take(&usual, leaves + half, bytes) else {
            return Fate::Congested;
        };
        let mut at = out + half + Span(prng.below(self.setup.jitter.0 + 1));
        if late_ns > 0 {
            return Fate::Arrives(at + Span(late_ns));
        }
        at = at.max(self.last[path]);
        self.last[path] = at;
        Fate::Arrives(at)
    }
}

/// Preamble, header, check sequence and gap that Ethernet adds to every frame, in bytes.
const WIRE_OVERHEAD_BYTES: u64 = 38;

pub(crate) fn serialisation(bytes: usize, bits_per_second: u64) -> Span {
    Span((bytes as u64 + WIRE_OVERHEAD_BYTES) * 8_000_000_000 / bits_per_second.max(1))
}

#[cfg(test)]
mod tests;
