//! Cables: which links lead to which, and what becomes of that when plugs are pulled, put in again, or moved.
//!
//! A cable between two nodes is a fabric of two. Switches that are joined by cables are one fabric, whose members are the links that
//! hang on them: a broadcast domain. Trunks between switches have no queue of their own; those towards nodes have.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Fabric, FabricSetup, Jack, Network, NodePort, Rules};
use crate::port::Port;
use crate::prng::Prng;

/// Where a plug is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Plug {
    /// In a node's link.
    Node(Jack),
    /// In the switch of this number.
    Switch(usize),
}

impl Plug {
    /// The node's link that it is in, if it is in one.
    pub fn jack(self) -> Option<Jack> {
        match self {
            Self::Node(jack) => Some(jack),
            Self::Switch(_) => None,
        }
    }
}

/// A cable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cable {
    /// Where it ends.
    pub ends: [Plug; 2],
    /// Which of the world's fabric setups it is like. Of those at switches, the first one's counts for all.
    pub setup: usize,
}

/// All cables of a world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Wiring {
    /// Switches.
    pub switches: usize,
    /// Cables, in order. One between two nodes is the fabric of its number.
    pub cables: Vec<Cable>,
    /// Links that each node has, with a cable in them or without.
    pub links: Vec<usize>,
    /// Most cables from end to end where nodes relay for others; 0: none does, and nobody is looked for beyond its neighbours.
    pub relayed: usize,
    /// Which nodes do.
    pub relays: Vec<bool>,
}

/// Tries to draw a random graph without two cables between the same nodes; then it has some.
const TRIES_MAX: usize = 100;

impl Wiring {
    /// Nodes without cables.
    pub fn bare(nodes: usize) -> Self {
        let (links, relays) = (vec![0; nodes], vec![false; nodes]);
        Self { switches: 0, cables: Vec::new(), links, relayed: 0, relays }
    }

    /// Each node cabled to the next.
    pub fn line(nodes: usize) -> Self {
        let mut wiring = Self::bare(nodes);
        (1..nodes).for_each(|node| wiring.join(node - 1, node));
        wiring
    }

    /// The same, and the last to the first.
    pub fn ring(nodes: usize) -> Self {
        let mut wiring = Self::line(nodes);
        if nodes > 2 {
            wiring.join(nodes - 1, 0);
        }
        wiring
    }

    /// Each node cabled to each other.
    pub fn mesh(nodes: usize) -> Self {
        let mut wiring = Self::bare(nodes);
        (0..nodes).for_each(|a| (a + 1..nodes).for_each(|b| wiring.join(a, b)));
        wiring
    }

    /// So many trees of switches, each of which has every node on one of its leaves; `nodes_each` hang on a leaf, and `fanout` switches
    /// on one above.
    pub fn trees(nodes: usize, trees: usize, nodes_each: usize, fanout: usize) -> Self {
        let mut wiring = Self::bare(nodes);
        for _ in 0..trees {
            let first = wiring.switches;
            let leaves = nodes.div_ceil(nodes_each.max(1));
            wiring.switches += leaves;
            (0..nodes).for_each(|node| wiring.hang(node, first + node / nodes_each.max(1)));
            let mut level: Vec<usize> = (first..first + leaves).collect();
            while level.len() > 1 {
                let below = core::mem::take(&mut level);
                for group in below.chunks(fanout.max(2)) {
                    let above = wiring.switches;
                    wiring.switches += 1;
                    level.push(above);
                    for switch in group {
                        let ends = [Plug::Switch(*switch), Plug::Switch(above)];
                        wiring.cables.push(Cable { ends, setup: 0 });
                    }
                }
            }
        }
        wiring
    }

    /// A random connected graph in which each node has `degree` cables, of two or more: rings through all nodes in random order.
    pub fn random(nodes: usize, degree: usize, prng: &mut Prng) -> Self {
        let mut wiring = Self::bare(nodes);
        let mut joined = BTreeSet::new();
        for _ in 0..degree / 2 {
            let mut order: Vec<usize> = (0..nodes).collect();
            for tried in 1..=TRIES_MAX {
                // Fisher and Yates.
                (1..nodes).rev().for_each(|at| order.swap(at, prng.index(at + 1)));
                let pairs = |at: usize| pair(order[at], order[(at + 1) % nodes]);
                let again = (0..nodes).filter(|at| joined.contains(&pairs(*at))).count();
                // With thousands of nodes some pairs meet twice in every draw.
                if again == 0 || tried == TRIES_MAX || nodes > 64 {
                    break;
                }
            }
            for at in 0..nodes {
                let (a, b) = pair(order[at], order[(at + 1) % nodes]);
                joined.insert((a, b));
                wiring.join(a, b);
            }
        }
        wiring
    }

    /// The same with nodes that all relay, over so many cables from end to end.
    #[must_use]
    pub fn relayed(self, cables: usize) -> Self {
        self.relayed_by(cables, |_| true)
    }

    /// The same with nodes of which some relay.
    #[must_use]
    pub fn relayed_by(self, cables: usize, relays: impl Fn(usize) -> bool) -> Self {
        let relays = (0..self.links.len()).map(relays).collect();
        Self { relayed: cables, relays, ..self }
    }

    /// One more cable between two nodes, at a new link of each.
    pub fn join(&mut self, a: usize, b: usize) {
        let ends = [self.new_link(a), self.new_link(b)];
        self.cables.push(Cable { ends, setup: 0 });
    }

    /// One more cable from a node to a switch.
    pub fn hang(&mut self, node: usize, switch: usize) {
        let ends = [self.new_link(node), Plug::Switch(switch)];
        self.cables.push(Cable { ends, setup: 0 });
    }

    fn new_link(&mut self, node: usize) -> Plug {
        self.links[node] += 1;
        Plug::Node(Jack { node, link: self.links[node] - 1 })
    }
}

fn pair(a: usize, b: usize) -> (usize, usize) {
    (a.min(b), a.max(b))
}

/// The cables of a network as they are now.
pub(crate) struct Wires {
    wiring: Wiring,
    /// Which of each cable's plugs are in.
    plugged: Vec<[bool; 2]>,
    /// For each switch the smallest number of those that it is joined with.
    groups: Vec<usize>,
}

impl Network {
    /// A network of cables between so many nodes; each cable is like one of these setups.
    pub fn wired(setups: &[FabricSetup], wiring: Wiring, prng: Prng) -> Self {
        let nodes = wiring.links.len();
        let mut network = Self::new(Vec::new(), nodes, prng);
        let setups: Vec<Arc<FabricSetup>> = setups.iter().cloned().map(Arc::new).collect();
        let of = |cable: &Cable| setups[cable.setup].clone();
        let switched = |switch: usize| {
            let hangs = |cable: &&Cable| cable.ends.contains(&Plug::Switch(switch));
            wiring.cables.iter().find(hangs).map_or_else(|| setups[0].clone(), of)
        };
        let cables = wiring.cables.iter().map(|cable| Fabric::new(of(cable)));
        let switches = (0..wiring.switches).map(|switch| Fabric::new(switched(switch)));
        network.fabrics = cables.chain(switches).collect();
        network.places.clear();
        network.next_address = 0;
        for (node, links) in wiring.links.iter().enumerate() {
            for _ in 0..*links {
                let address = network.next_address;
                network.next_address += 1;
                network.places.insert(address, vec![node]);
                let port = NodePort {
                    fabric: None,
                    address,
                    egress: Default::default(),
                    port: Port::default(),
                };
                network.ports[node].push(port);
            }
        }
        let (plugged, groups) = (vec![[true; 2]; wiring.cables.len()], Vec::new());
        let damaged = setups.iter().any(|setup| setup.faults.damages());
        network.rules = (wiring.relayed > 0).then(|| Rules::new(damaged));
        network.wires = Some(Wires { wiring, plugged, groups });
        network.regroup();
        for cable in 0..network.cables() {
            network.rewire(cable);
        }
        network
    }

    /// Whether a node relays for others.
    pub fn relays(&self, node: usize) -> bool {
        self.wires.as_ref().is_some_and(|wires| wires.wiring.relays[node])
    }

    /// Whether any node does.
    pub fn is_relayed(&self) -> bool {
        self.rules.is_some()
    }

    /// By how many links each search beyond neighbours has left, of all nodes together.
    pub fn searches(&self) -> Vec<u32> {
        self.rules.as_ref().map(Rules::crossings).unwrap_or_default()
    }

    /// A node starts anew, and knows nothing of what it repeated before.
    pub(crate) fn forget_searches(&mut self, node: usize) {
        if let Some(rules) = &mut self.rules {
            rules.forget(node);
        }
    }

    /// Cables.
    pub fn cables(&self) -> usize {
        self.wires.as_ref().map_or(0, |wires| wires.wiring.cables.len())
    }

    /// Where a cable's plugs are, if it is there, and which are in.
    pub fn cable(&self, cable: usize) -> Option<(Cable, [bool; 2])> {
        let wires = self.wires.as_ref()?;
        Some((*wires.wiring.cables.get(cable)?, wires.plugged[cable]))
    }

    /// Links of a node, with a cable in them or without.
    pub fn links(&self, node: usize) -> usize {
        self.ports[node].len()
    }

    /// Whether a node's link leads anywhere.
    pub fn has_carrier(&self, node: usize, link: usize) -> bool {
        self.ports[node].get(link).is_some_and(|port| port.fabric.is_some())
    }

    /// The fabric that a node's link leads to.
    pub fn fabric_of(&self, node: usize, link: usize) -> Option<usize> {
        self.ports[node].get(link).and_then(|port| port.fabric)
    }

    /// The links that lead to a fabric.
    pub fn members(&self, fabric: usize) -> &[Jack] {
        &self.fabrics[fabric].members
    }

    /// The other nodes' links that a link leads to, or would if all plugs were in.
    pub fn wired_to(&self, jack: Jack) -> Vec<Jack> {
        let mut reached = vec![Plug::Node(jack)];
        let mut at = 0;
        while let (Some(wires), Some(plug)) = (&self.wires, reached.get(at).copied()) {
            for cable in wires.wiring.cables.iter().filter(|cable| cable.ends.contains(&plug)) {
                let new = cable.ends.into_iter().filter(|end| !reached.contains(end));
                reached.extend(new.collect::<Vec<_>>());
            }
            at += 1;
        }
        let fabric = self.fabric_of(jack.node, jack.link).filter(|_| self.wires.is_none());
        let members = fabric.into_iter().flat_map(|fabric| self.members(fabric)).copied();
        let jacks = reached.into_iter().filter_map(Plug::jack).chain(members);
        jacks.filter(|other| other.node != jack.node).collect()
    }

    /// Takes a plug out (`false`) or puts it in; gives the links whose carrier changed with that. Frames under way still arrive.
    pub fn set_plug(&mut self, cable: usize, side: usize, is_in: bool) -> Vec<Jack> {
        self.change(cable, |wires| wires.plugged[cable][side] = is_in)
    }

    /// Puts a plug somewhere else; gives the links whose carrier changed with that. A link that has another plug in it keeps it: then
    /// nothing happens.
    pub fn move_plug(&mut self, cable: usize, side: usize, to: Plug) -> Vec<Jack> {
        let taken = |one: &Cable| matches!(to, Plug::Node(_)) && one.ends.contains(&to);
        if self.wires.as_ref().is_some_and(|wires| wires.wiring.cables.iter().any(taken)) {
            return Vec::new();
        }
        if let Plug::Node(jack) = to
            && self.ports.get(jack.node).is_none_or(|ports| jack.link >= ports.len())
        {
            return Vec::new();
        }
        self.change(cable, |wires| {
            wires.wiring.cables[cable].ends[side] = to;
            wires.plugged[cable][side] = true;
        })
    }

    fn change(&mut self, cable: usize, change: impl FnOnce(&mut Wires)) -> Vec<Jack> {
        let Some(wires) = &mut self.wires else { return Vec::new() };
        let before: Vec<Cable> = vec![wires.wiring.cables[cable]];
        change(wires);
        let trunk = |cable: &Cable| cable.ends.iter().all(|end| matches!(end, Plug::Switch(_)));
        let after = wires.wiring.cables[cable];
        let ends = before.iter().chain([&after]).flat_map(|cable| cable.ends);
        let mut jacks: Vec<Jack> = ends.filter_map(Plug::jack).collect();
        jacks.sort_unstable_by_key(|jack| (jack.node, jack.link));
        jacks.dedup();
        let had: Vec<(Jack, bool)> =
            jacks.iter().map(|jack| (*jack, self.has_carrier(jack.node, jack.link))).collect();
        // Where no plug is any more.
        for jack in jacks.drain(..) {
            self.attach(jack, None);
        }
        if trunk(&before[0]) || trunk(&after) {
            self.regroup();
            (0..self.cables()).for_each(|cable| self.rewire(cable));
        } else {
            self.rewire(cable);
        }
        let changed =
            had.into_iter().filter(|(jack, had)| self.has_carrier(jack.node, jack.link) != *had);
        changed.map(|(jack, _)| jack).collect()
    }

    /// Finds out which switches are joined.
    fn regroup(&mut self) {
        let Some(wires) = &mut self.wires else { return };
        let mut groups: Vec<usize> = (0..wires.wiring.switches).collect();
        // Union by the smallest number, with paths halved on the way.
        fn root(groups: &mut [usize], mut at: usize) -> usize {
            while groups[at] != at {
                groups[at] = groups[groups[at]];
                at = groups[at];
            }
            at
        }
        for (cable, plugged) in wires.wiring.cables.iter().zip(&wires.plugged) {
            if let ([Plug::Switch(a), Plug::Switch(b)], [true, true]) = (cable.ends, plugged) {
                let (a, b) = (root(&mut groups, a), root(&mut groups, b));
                groups[a.max(b)] = a.min(b);
            }
        }
        wires.groups = (0..groups.len()).map(|at| root(&mut groups, at)).collect();
    }

    /// Has a cable's links lead where they do now.
    fn rewire(&mut self, cable: usize) {
        let Some(wires) = &self.wires else { return };
        let Cable { ends, .. } = wires.wiring.cables[cable];
        let switches = wires.wiring.cables.len();
        let whole = wires.plugged[cable] == [true, true];
        let fabric = match ends {
            _ if !whole => None,
            [Plug::Node(_), Plug::Node(_)] => Some(cable),
            [Plug::Switch(switch), _] | [_, Plug::Switch(switch)] => {
                Some(switches + wires.groups[switch])
            }
        };
        for jack in ends.into_iter().filter_map(Plug::jack) {
            self.attach(jack, fabric);
        }
    }

    /// Has a link lead to a fabric, or nowhere.
    fn attach(&mut self, jack: Jack, fabric: Option<usize>) {
        let before = self.ports[jack.node][jack.link].fabric;
        if before == fabric {
            return;
        }
        if let Some(before) = before {
            self.fabrics[before].members.retain(|member| *member != jack);
        }
        if let Some(fabric) = fabric {
            let members = &mut self.fabrics[fabric].members;
            let at = members.partition_point(|one| (one.node, one.link) < (jack.node, jack.link));
            members.insert(at, jack);
        }
        self.ports[jack.node][jack.link].fabric = fabric;
    }
}

#[cfg(test)]
mod tests {
    use emp_firmware::{LinkIndex, Time};
    use emp_wire::LinkAddress;

    use super::*;

    fn network(wiring: Wiring) -> Network {
        Network::wired(&[FabricSetup::lan()], wiring, Prng::new(1))
    }

    /// Nodes with links that a broadcast by a link reaches.
    fn heard(net: &mut Network, node: usize, link: u8) -> Vec<(usize, u8)> {
        net.send(Time(0), node, LinkIndex(link), LinkAddress::EVERYONE, vec![0x21; 60]);
        std::iter::from_fn(|| net.arrival(Time::NEVER)).map(|one| (one.to, one.link.0)).collect()
    }

    #[test]
    fn shapes_have_the_cables_that_they_are_named_for() {
        let count = |wiring: Wiring| (wiring.cables.len(), wiring.links);
        assert_eq!(count(Wiring::line(3)), (2, vec![1, 2, 1]));
        assert_eq!(count(Wiring::ring(4)), (4, vec![2; 4]));
        assert_eq!(count(Wiring::mesh(4)), (6, vec![3; 4]));
        let trees = Wiring::trees(8, 2, 2, 2);
        // Four leaves, two above them, one above those, twice; 8 nodes and 6 trunks in each.
        assert_eq!((trees.switches, trees.cables.len(), trees.links[0]), (14, 28, 2));
        let random = Wiring::random(10_000, 4, &mut Prng::new(7));
        assert_eq!((random.cables.len(), random.links == vec![4; 10_000]), (20_000, true));
    }

    #[test]
    fn frames_go_by_the_cable_and_nowhere_else() {
        let mut net = network(Wiring::ring(4));
        // Node 0 has link 0 to node 1, and its other one to node 3.
        assert_eq!(heard(&mut net, 0, 0), [(1, 0)]);
        assert_eq!(heard(&mut net, 0, 1), [(3, 1)]);
        let there = net.link_address(1, 0);
        net.send(Time(0), 0, LinkIndex(0), there, vec![0x21; 60]);
        let came = net.arrival(Time::NEVER).unwrap();
        assert_eq!((came.to, came.from), (1, net.link_address(0, 0)));
        // By the other cable nobody has that address.
        net.send(Time(0), 0, LinkIndex(1), there, vec![0x21; 60]);
        assert!(net.arrival(Time::NEVER).is_none());
        assert_eq!(net.totals().undeliverable, 1);
    }

    #[test]
    fn a_pulled_cable_takes_both_carriers_and_plugged_in_gives_them_back() {
        let mut net = network(Wiring::ring(3));
        let jack = |node, link| Jack { node, link };
        assert_eq!(net.set_plug(0, 0, false), [jack(0, 0), jack(1, 0)]);
        assert!(!net.has_carrier(0, 0) && !net.has_carrier(1, 0) && net.has_carrier(0, 1));
        assert!(heard(&mut net, 0, 0).is_empty());
        assert!(net.set_plug(0, 1, false).is_empty(), "no carrier is left to lose");
        assert!(net.set_plug(0, 0, true).is_empty());
        assert_eq!(net.set_plug(0, 1, true), [jack(0, 0), jack(1, 0)]);
        assert_eq!(heard(&mut net, 0, 0), [(1, 0)]);
    }

    #[test]
    fn a_moved_plug_leads_elsewhere() {
        let mut wiring = Wiring::line(3);
        wiring.links[2] += 1;
        let mut net = network(wiring);
        let free = Plug::Node(Jack { node: 2, link: 1 });
        // What was between 0 and 1 is between 2 and 1.
        net.move_plug(0, 0, free);
        assert!(!net.has_carrier(0, 0));
        assert_eq!(heard(&mut net, 1, 0), [(2, 1)]);
        assert!(net.move_plug(1, 0, free).is_empty(), "taken");
        assert_eq!(heard(&mut net, 1, 1), [(2, 0)]);
    }

    #[test]
    fn a_trunk_that_is_pulled_parts_a_tree() {
        // Nodes 0 and 1 on one switch, 2 and 3 on another, and one above.
        let mut net = network(Wiring::trees(4, 1, 2, 2));
        assert_eq!(heard(&mut net, 0, 0), [(1, 0), (2, 0), (3, 0)]);
        let trunk = 4;
        net.set_plug(trunk, 1, false);
        assert_eq!(heard(&mut net, 0, 0), [(1, 0)]);
        assert_eq!(heard(&mut net, 3, 0), [(2, 0)]);
        net.set_plug(trunk, 1, true);
        assert_eq!(heard(&mut net, 3, 0), [(0, 0), (1, 0), (2, 0)]);
    }
}
