//! The simulated network: fabrics of one store-and-forward switch each, ports with bounded queues, faults, cuts.
//!
//! A fabric leads to every node by its link of the same index, unless [`wiring`] says otherwise: then each cable is a fabric, and so are
//! switches that are joined. All tables are of what is there and not of what could be, so that ten thousand nodes fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use emp_firmware::{LinkIndex, Span, Time};
use emp_wire::{LinkAddress, TAG_EVERYONE};

use crate::faults::{FaultPlan, Verdict};
use crate::port::{Port, PortSetup, PortTotals};
use crate::prng::Prng;
use crate::trace::Trace;

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
    /// Bytes that a port lets out at once after a pause, as a token bucket (tbf) does. 0: it is a wire.
    pub burst_bytes: u64,
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
            burst_bytes: 0,
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

/// A judge of every frame that a node sends: time, sender, its link, frame; an error ends the run.
pub type Watch = Box<dyn FnMut(Time, usize, LinkIndex, &[u8]) -> Result<(), String>>;

/// Where frames go in and come out again, later, elsewhere, or not at all.
pub struct Network {
    fabrics: Vec<Fabric>,
    /// Each node's links, in order.
    ports: Vec<Vec<NodePort>>,
    /// Cables, if not every fabric leads to every node.
    wires: Option<Wires>,
    /// The nodes at each address. A node that moved has left its old one.
    places: BTreeMap<u32, Vec<usize>>,
    /// Each node's destination tag: what is filtered by where several live at one address.
    tags: Vec<u16>,
    /// Longest frame that each node's interfaces take now, in bytes.
    limits: Vec<Limit>,
    next_address: u32,
    in_flight: BTreeMap<(Time, u64), Delivery>,
    order: u64,
    prng: Prng,
    totals: Totals,
    script: Option<Script>,
    watch: Option<Watch>,
    /// What relays hold to, where nodes relay.
    rules: Option<Rules>,
    /// What the watch found, or what broke a rule.
    witnessed: Option<String>,
    trace: Trace,
    /// Frame buffers to be used again.
    spare: Vec<Vec<u8>>,
}

/// One link of a node.
struct NodePort {
    /// The fabric that it leads to; none while no cable is in it.
    fabric: Option<usize>,
    /// Its address there.
    address: u32,
    /// When its outgoing side is free.
    egress: Time,
    /// The switch's port to it.
    port: Port,
}

/// A node's link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Jack {
    /// The node.
    pub node: usize,
    /// Its link.
    pub link: usize,
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
    setup: Arc<FabricSetup>,
    /// The links that lead here, in order.
    members: Vec<Jack>,
    /// What is known of each way from node to node that was used or disturbed.
    ways: BTreeMap<(u32, u32), Way>,
    /// What crosses in pieces passes however long they are.
    pieces_pass: bool,
}

/// From one node to another.
struct Way {
    /// Arrival of the last frame in order.
    last: Time,
    /// When the last burst of losses ends.
    burst: Time,
    /// Number of cuts in force.
    cuts: u16,
    /// Longest frame that passes, in bytes.
    longest: usize,
}

impl Default for Way {
    fn default() -> Self {
        Self { last: Time(0), burst: Time(0), cuts: 0, longest: usize::MAX }
    }
}

impl Fabric {
    fn new(setup: Arc<FabricSetup>) -> Self {
        Self { setup, members: Vec::new(), ways: BTreeMap::new(), pieces_pass: false }
    }

    fn way(&mut self, from: usize, to: usize) -> &mut Way {
        self.ways.entry((from as u32, to as u32)).or_default()
    }
}

impl Network {
    /// A network of these fabrics for so many nodes: each fabric leads to every node.
    pub fn new(fabrics: Vec<FabricSetup>, nodes: usize, prng: Prng) -> Self {
        let count = fabrics.len();
        let port = |node: usize, fabric| NodePort {
            fabric: Some(fabric),
            address: node as u32,
            egress: Time(0),
            port: Port::default(),
        };
        let fabrics = fabrics.into_iter().enumerate().map(|(index, setup)| Fabric {
            members: (0..nodes).map(|node| Jack { node, link: index }).collect(),
            ..Fabric::new(Arc::new(setup))
        });
        Self {
            fabrics: fabrics.collect(),
            ports: (0..nodes)
                .map(|node| (0..count).map(|index| port(node, index)).collect())
                .collect(),
            wires: None,
            places: (0..nodes).map(|node| (node as u32, vec![node])).collect(),
            tags: vec![TAG_EVERYONE; nodes],
            limits: vec![Limit::default(); nodes],
            next_address: nodes as u32,
            in_flight: BTreeMap::new(),
            order: 0,
            prng,
            totals: Totals::default(),
            script: None,
            watch: None,
            rules: None,
            witnessed: None,
            trace: Trace::default(),
            spare: Vec::new(),
        }
    }

    /// A node's address on every fabric; of several links of a node with cables of its own, that of the first.
    pub fn address(&self, node: usize) -> LinkAddress {
        self.link_address(node, 0)
    }

    /// The address of one of a node's links.
    pub fn link_address(&self, node: usize, link: usize) -> LinkAddress {
        LinkAddress::index(self.ports[node].get(link).map_or(u32::MAX, |port| port.address))
    }

    /// Gives a node another address: its cable was moved. Frames on their way to the old one still arrive.
    pub fn relocate(&mut self, node: usize) {
        self.leave_places(node);
        for port in &mut self.ports[node] {
            // One address on all fabrics, but one for each link where each has a cable of its own.
            port.address = self.next_address;
            self.next_address += u32::from(self.wires.is_some());
        }
        self.next_address += u32::from(self.wires.is_none());
        self.take_places(node);
    }

    /// Has a node live at another's address. Frames to it reach those of them whose tags (by node) they have.
    pub fn share_address(&mut self, node: usize, with: usize, tags: Vec<u16>) {
        self.leave_places(node);
        self.tags = tags;
        for link in 0..self.ports[node].len() {
            self.ports[node][link].address = self.ports[with][link].address;
        }
        self.take_places(node);
    }

    fn leave_places(&mut self, node: usize) {
        for port in &self.ports[node] {
            let Some(nodes) = self.places.get_mut(&port.address) else { continue };
            nodes.retain(|other| *other != node);
            if nodes.is_empty() {
                self.places.remove(&port.address);
            }
        }
    }

    fn take_places(&mut self, node: usize) {
        for port in &self.ports[node] {
            let nodes = self.places.entry(port.address).or_default();
            if !nodes.contains(&node) {
                nodes.push(node);
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
        if let Some(own) = self.ports[node].iter_mut().find(|own| own.fabric == Some(fabric)) {
            own.port.setup = Some(port);
        }
    }

    /// What a fabric's port to a node has seen so far.
    pub fn port(&self, fabric: usize, node: usize) -> PortTotals {
        let own = self.ports[node].iter().find(|own| own.fabric == Some(fabric));
        own.map_or_else(PortTotals::default, |own| own.port.totals)
    }

    /// Ends all cuts.
    pub fn mend_all(&mut self) {
        let ways = self.fabrics.iter_mut().flat_map(|fabric| fabric.ways.values_mut());
        ways.for_each(|way| way.cuts = 0);
    }

    /// Cuts (`true`) or mends one direction between two nodes on one fabric. Cuts add up.
    pub fn cut(&mut self, fabric: usize, from: usize, to: usize, cut: bool) {
        let cuts = &mut self.fabrics[fabric].way(from, to).cuts;
        *cuts = if cut { *cuts + 1 } else { cuts.saturating_sub(1) };
    }

    /// Fabrics.
    pub fn fabrics(&self) -> usize {
        self.fabrics.len()
    }

    /// Those that damage frames.
    pub(crate) fn damaged(&self) -> Vec<usize> {
        let damages = |fabric: &usize| self.fabrics[*fabric].setup.faults.damages();
        (0..self.fabrics.len()).filter(damages).collect()
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
            // Without a copy for each of thousands of cables.
            if fabric.setup.faults != FaultPlan::default() {
                Arc::make_mut(&mut fabric.setup).faults = FaultPlan::default();
            }
            for way in fabric.ways.values_mut() {
                (way.cuts, way.burst) = (0, Time(0));
            }
        }
    }

    /// Has frames longer than so many bytes cross in pieces, which are put together again if `joins`.
    pub fn set_pieces(&mut self, fabric: usize, bytes: usize, joins: bool) {
        let setup = Arc::make_mut(&mut self.fabrics[fabric].setup);
        (setup.piece_bytes, setup.joins_pieces) = (bytes, joins);
    }

    /// Frames that leave from now on take so long over one fabric. Those that left before are not overtaken.
    pub fn set_latency(&mut self, fabric: usize, latency: Span) {
        Arc::make_mut(&mut self.fabrics[fabric].setup).latency = latency;
    }

    /// The ports of one fabric have another speed.
    pub fn set_rate(&mut self, fabric: usize, bits_per_second: u64) {
        Arc::make_mut(&mut self.fabrics[fabric].setup).bits_per_second = bits_per_second;
    }

    /// Another fault plan for one fabric.
    pub fn set_faults(&mut self, fabric: usize, faults: FaultPlan) {
        Arc::make_mut(&mut self.fabrics[fabric].setup).faults = faults;
    }

    /// Lets a test decide over each frame.
    pub fn set_script(&mut self, script: Option<Script>) {
        self.script = script;
    }

    /// Has every frame judged.
    pub fn set_watch(&mut self, watch: Option<Watch>) {
        self.watch = watch;
    }

    /// What the watch found, once.
    pub(crate) fn witnessed(&mut self) -> Option<String> {
        self.witnessed.take()
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
        self.fabrics[fabric].way(from, to).longest = bytes;
    }

    /// Whether what crosses a fabric in pieces passes whatever [`lose_longer`](Self::lose_longer) says, as through a virtual switch that
    /// forwards what a sender's kernel has not yet cut.
    pub fn pass_pieces(&mut self, fabric: usize, pass: bool) {
        self.fabrics[fabric].pieces_pass = pass;
    }

    /// When a node's outgoing side has sent all it was given.
    pub fn egress_free(&self, node: usize) -> Time {
        self.ports[node].iter().map(|port| port.egress).max().unwrap_or_default()
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
}

mod crossing;
mod rules;
mod wiring;

pub(crate) use crossing::serialisation;
pub use wiring::{Cable, Plug, Wiring};

use rules::Rules;
use wiring::Wires;

#[cfg(test)]
mod tests;
