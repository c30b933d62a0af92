//! A frame's way: out of its sender's port, through each switch's port to whoever it is for, with what faults, cuts and full queues do to it.

use emp_firmware::{LinkIndex, Span, Time};
use emp_wire::{AddressFamily, LinkAddress, TAG_EVERYONE};

use super::{Delivery, Fabric, FabricSetup, Jack, Network, NodePort, Way};
use crate::faults::{Verdict, damage};
use crate::port::{Port, PortSetup};
use crate::prng::Prng;
use crate::trace::{Fate, TraceLine};

impl Network {
    /// Sends a frame.
    pub fn send(
        &mut self,
        now: Time,
        from: usize,
        link: LinkIndex,
        to: LinkAddress,
        mut frame: Vec<u8>,
    ) {
        let jack = Jack { node: from, link: usize::from(link.0) };
        if let Some(Err(what)) = self.watch.as_mut().map(|watch| watch(now, from, link, &frame)) {
            self.witnessed.get_or_insert(what);
        }
        if let Some(rules) = &mut self.rules {
            let own = |to: &LinkAddress| {
                self.ports[from].iter().any(|port| LinkAddress::index(port.address) == *to)
            };
            if let Err(what) = rules.judge(from, link.0, &frame, own) {
                self.witnessed.get_or_insert(what);
            }
        }
        let Some(port) = self.ports[from].get_mut(jack.link) else {
            self.totals.undeliverable += 1;
            return;
        };
        let Some(index) = port.fabric else {
            // No cable is in it.
            self.lose(now, jack, frame);
            return;
        };
        let setup = &self.fabrics[index].setup;
        if frame.len() < setup.pad_bytes {
            frame.resize(setup.pad_bytes, 0);
        }
        self.totals.sent += 1;
        self.totals.bytes += frame.len() as u64;
        let serial = serialisation(frame.len(), setup.bits_per_second);
        let leaves = port.egress.max(now) + serial;
        port.egress = leaves;
        if to.family() == AddressFamily::Everyone {
            for member in 0..self.fabrics[index].members.len() {
                let to = self.fabrics[index].members[member];
                if to != jack {
                    let copy = self.copy(&frame);
                    self.forward((now, leaves), index, jack, to, copy);
                }
            }
            self.recycle(frame);
            return;
        }
        match to
            .as_index()
            .and_then(|address| Some((address, self.places.get(&address)?.as_slice())))
        {
            Some((address, &[node])) => match self.jack(node, index, address) {
                Some(to) => self.forward((now, leaves), index, jack, to, frame),
                None => self.lose(now, jack, frame),
            },
            Some((address, nodes)) => {
                let tag = frame.get(4..6).map(|tag| u16::from_be_bytes([tag[0], tag[1]]));
                // No interface hears itself.
                let is_for = |node: &usize| {
                    let tagged =
                        tag.is_some_and(|tag| tag == TAG_EVERYONE || tag == self.tags[*node]);
                    tagged && *node != from
                };
                let takers = nodes.iter().copied().filter(is_for);
                let takers: Vec<Jack> =
                    takers.filter_map(|node| self.jack(node, index, address)).collect();
                for to in takers {
                    let copy = self.copy(&frame);
                    self.forward((now, leaves), index, jack, to, copy);
                }
                self.recycle(frame);
            }
            None => self.lose(now, jack, frame),
        }
    }

    /// A node's link that leads to a fabric and has this address there.
    fn jack(&self, node: usize, fabric: usize, address: u32) -> Option<Jack> {
        let here = |port: &NodePort| port.fabric == Some(fabric) && port.address == address;
        self.ports[node].iter().position(here).map(|link| Jack { node, link })
    }

    fn copy(&mut self, frame: &[u8]) -> Vec<u8> {
        let mut copy = self.buffer();
        copy.extend_from_slice(frame);
        copy
    }

    /// Loses a frame for an address where no one is.
    fn lose(&mut self, now: Time, from: Jack, frame: Vec<u8>) {
        self.totals.undeliverable += 1;
        let link = LinkIndex(from.link as u8);
        for frame in emp_wire::frames(&frame) {
            let line = || TraceLine::new(now, from.node, usize::MAX, link, frame, Fate::Nowhere);
            self.trace.add(line);
        }
        self.recycle(frame);
    }

    fn forward(
        &mut self,
        (now, leaves): (Time, Time),
        index: usize,
        from: Jack,
        to: Jack,
        mut frame: Vec<u8>,
    ) {
        let Fabric { setup, ways, pieces_pass, .. } = &mut self.fabrics[index];
        let way = ways.entry((from.node as u32, to.node as u32)).or_default();
        let scripted =
            self.script.as_mut().and_then(|script| script(now, from.node, to.node, &frame));
        let verdict = scripted.unwrap_or_else(|| {
            let burst = &mut way.burst;
            let FabricSetup { faults, piece_bytes, joins_pieces, .. } = &**setup;
            let (sender, receiver) = (self.limits[from.node], self.limits[to.node].bytes);
            let long = frame.len() > *piece_bytes;
            // The sender's kernel cuts long frames as its interface takes them.
            let fragments = sender.fragments >> from.link & 1 == 1;
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
        let in_pieces = frame.len() > setup.piece_bytes;
        let too_long =
            frame.len().min(setup.piece_bytes) > way.longest && !(in_pieces && *pieces_pass);
        let port = &mut self.ports[to.node][to.link].port;
        let fate = if way.cuts > 0 {
            Fate::Cut
        } else if verdict.drop || too_long {
            Fate::Dropped
        } else {
            queue(setup, port, way, (leaves, frame.len(), verdict.late_ns), &mut self.prng)
        };
        let marked = matches!(fate, Fate::Arrives(_)) && port.marked;
        self.totals.marked += u64::from(marked);
        let link = LinkIndex(to.link as u8);
        for frame in emp_wire::frames(&frame) {
            self.trace.add(|| TraceLine::new(now, from.node, to.node, link, frame, fate));
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
            let copy = self.copy(&frame);
            self.enqueue(at + Span(verdict.copy_ns), (from, to), copy, marked);
        }
        damage(&mut frame, &verdict, &mut self.prng);
        self.enqueue(at, (from, to), frame, marked);
    }

    fn enqueue(&mut self, at: Time, (from, to): (Jack, Jack), frame: Vec<u8>, marked: bool) {
        self.order += 1;
        let from = self.link_address(from.node, from.link);
        let (link, came) = (LinkIndex(to.link as u8), Time(0));
        let delivery = Delivery { to: to.node, link, from, frame, marked, came };
        self.in_flight.insert((at, self.order), delivery);
    }
}

/// Takes a frame through a switch: when it arrives, or that the queue was full.
fn queue(
    setup: &FabricSetup,
    port: &mut Port,
    way: &mut Way,
    (leaves, bytes, late_ns): (Time, usize, u64),
    prng: &mut Prng,
) -> Fate {
    let half = Span(setup.latency.0 / 2);
    let usual = PortSetup {
        bits_per_second: setup.bits_per_second,
        queue_bytes: setup.queue_bytes,
        ecn_bytes: setup.ecn_bytes,
        burst_bytes: setup.burst_bytes,
    };
    let Some(out) = port.take(&usual, leaves + half, bytes) else {
        return Fate::Congested;
    };
    let mut at = out + half + Span(prng.below(setup.jitter.0 + 1));
    if late_ns > 0 {
        return Fate::Arrives(at + Span(late_ns));
    }
    at = at.max(way.last);
    way.last = at;
    Fate::Arrives(at)
}

/// Preamble, header, check sequence and gap that Ethernet adds to every frame, in bytes.
const WIRE_OVERHEAD_BYTES: u64 = 38;

pub(crate) fn serialisation(bytes: usize, bits_per_second: u64) -> Span {
    Span((bytes as u64 + WIRE_OVERHEAD_BYTES) * 8_000_000_000 / bits_per_second.max(1))
}
