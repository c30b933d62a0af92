//! The simulated world: virtual time, nodes, network, and one loop that lets the next thing happen.

use std::collections::BTreeMap;

use emp_firmware::{
    Completion, LinkCost, LinkIndex, LinkInfo, NodeEvent, OpKind, Span, Status, Time,
};
use emp_wire::{Epoch, LinkAddress, NodeId};

use crate::action::Action;
use crate::history::{Epochs, History};
use crate::ledger::Ledger;
use crate::network::{FabricSetup, Jack, Network, Wiring};
use crate::node::{NodeSetup, SimNode};
use crate::nodes::Nodes;
use crate::one_sided::OneSided;
use crate::oracle::{self, Witness};
use crate::prng::{Prng, mix};
use crate::verdict;

/// Something that must not happen did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// When.
    pub at: Time,
    /// What.
    pub what: String,
}

/// Why [`World::run`] came back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// Nothing is under way and no timer runs: nothing would ever happen again.
    Idle,
    /// The time limit was reached.
    Limit,
    /// The condition that was waited for came true.
    Reached,
    /// There is a violation.
    Failed,
}

/// What a world is made of.
#[derive(Clone, Debug)]
pub struct WorldSetup {
    /// Fabrics; node links lead to the fabric of their index.
    pub fabrics: Vec<FabricSetup>,
    /// Nodes.
    pub nodes: Vec<NodeSetup>,
    /// Seed of everything random.
    pub seed: u64,
}

impl WorldSetup {
    /// So many nodes of one profile on a fault-free LAN.
    pub fn lan(nodes: usize, profile: &emp_firmware::Profile) -> Self {
        Self {
            fabrics: vec![FabricSetup::lan()],
            nodes: (0..nodes).map(|index| NodeSetup::new(index, profile.clone())).collect(),
            seed: 1,
        }
    }
}

/// Nodes, network and what is known of them.
pub struct World {
    pub(crate) now: Time,
    pub(crate) began: Time,
    pub(crate) nodes: Nodes,
    pub(crate) ids: Vec<NodeId>,
    pub(crate) network: Network,
    pub(crate) ledger: Ledger,
    pub(crate) history: History,
    pub(crate) one_sided: OneSided,
    pub(crate) actions: BTreeMap<(Time, u64), Action>,
    pub(crate) action_order: u64,
    pub(crate) prng: Prng,
    pub(crate) violation: Option<Violation>,
    events: Vec<(Time, usize, NodeEvent)>,
    /// Turns at one point in time; more than a few mean that a timer does not move on.
    turns_now: u32,
    turns: u64,
    digest: u64,
}

/// Turns of all nodes at one point in virtual time. Frames take time, so only a timer that stays due gets here.
const TURNS_AT_ONCE_MAX: u32 = 20_000;

/// Turns of which one is followed by a look at what the node holds.
const WEIGH_EVERY: u64 = 7;

/// What a host says of the links of a node that relays: its address on each, and which others lead to it.
fn describe_links(links: &mut [LinkInfo], address: impl Fn(usize) -> LinkAddress) {
    let count = links.len();
    for (index, link) in links.iter_mut().enumerate() {
        (link.hops_from, link.interface) = (Some(address(index)), index as u8);
        // All cost alike.
        let (first_ns, further_ns) = (1_000, 1_000);
        link.cost =
            Some(LinkCost { first_ns, further_ns, long_ns: None, segments: false, named: false });
        for other in (0..count).filter(|other| *other != index) {
            link.set_beside(LinkIndex(other as u8), address(other));
        }
    }
}

impl World {
    /// Makes a world and starts its nodes, at time 0.
    pub fn new(setup: WorldSetup) -> Self {
        Self::beginning(Time(0), setup)
    }

    /// The same at another time: clocks that wrap do so at some time.
    pub fn beginning(began: Time, setup: WorldSetup) -> Self {
        Self::cabled(began, setup, None)
    }

    /// The same with cables: each node's links lead where they say, and each cable is like one of the fabrics.
    pub fn cabled(began: Time, mut setup: WorldSetup, wiring: Option<Wiring>) -> Self {
        let mut prng = Prng::new(setup.seed);
        let patience = setup.nodes.iter().map(|node| node.profile.unreachable_after).min();
        let (fabrics, nodes) = (setup.fabrics.len(), setup.nodes.len());
        let mut history = History::new(patience.unwrap_or_default(), fabrics);
        let (relayed, relays) = wiring
            .as_ref()
            .map(|wiring| (wiring.relayed, wiring.relays.clone()))
            .unwrap_or_default();
        let network = match wiring {
            Some(wiring) => {
                let network = Network::wired(&setup.fabrics, wiring, prng.fork());
                history.begin_cables(&network, nodes, began);
                if relayed > 0 {
                    history.set_relays(relays, relayed);
                    history.set_damaged(network.damaged());
                    for (index, node) in setup.nodes.iter_mut().enumerate() {
                        describe_links(&mut node.links, |link| network.link_address(index, link));
                    }
                }
                network
            }
            None => Network::new(setup.fabrics, nodes, prng.fork()),
        };
        let mut world = Self {
            now: began,
            began,
            ids: setup.nodes.iter().map(|node| node.id).collect(),
            nodes: Nodes::new(setup.nodes.into_iter().map(SimNode::new).collect()),
            network,
            ledger: Ledger::default(),
            history,
            one_sided: OneSided::default(),
            actions: BTreeMap::new(),
            action_order: 0,
            prng,
            violation: None,
            events: Vec::new(),
            turns_now: 0,
            turns: 0,
            digest: 0,
        };
        let tags: Vec<u16> = world.ids.iter().map(|id| id.destination_tag()).collect();
        for node in 0..world.nodes.len() {
            if let Some(other) = world.nodes[node].setup.shares_with {
                world.network.share_address(node, other, tags.clone());
            }
        }
        for node in 0..world.nodes.len() {
            world.start(node);
        }
        world
    }

    /// Starts a node that is away, in a new epoch.
    pub fn start(&mut self, node: usize) {
        if self.nodes[node].firmware.is_none() {
            let (epoch, seed) = (self.prng.bits() as u32, self.prng.bits());
            self.nodes[node].start(epoch, seed, self.network.address(node));
            self.network.forget_searches(node);
            if let Some(firmware) = self.nodes[node].firmware.as_mut() {
                firmware.set_relay(self.network.relays(node));
            }
            self.history.started(node, self.now, Epoch::new(epoch));
            self.open_at_start(node);
            self.hint(node);
            self.export_region(node);
            for link in 0..self.nodes[node].setup.links.len() {
                if !self.network.has_carrier(node, link) {
                    self.apply(Action::NoticeCarrier { node, link });
                }
            }
            if self.network.limit(node).is_some() {
                self.apply(Action::NoticeMtu { node, repeats: 0 });
            }
        }
    }

    /// A node that starts opens its endpoints.
    fn open_at_start(&mut self, node: usize) {
        for endpoint in self.nodes[node].setup.endpoints.clone() {
            self.history.endpoint_opened(node, endpoint, self.now);
        }
    }

    /// Tells a node where the others are, as a launcher does, if it can't ask everyone.
    fn hint(&mut self, node: usize) {
        let NodeSetup { links, told_of, .. } = self.nodes[node].setup.clone();
        let Some(firmware) = self.nodes[node].firmware.as_mut() else { return };
        for (link, _) in links.iter().enumerate().filter(|(_, link)| !link.broadcast) {
            // A launcher knows it whatever plug is out just now.
            let is_told =
                |jack: &Jack| told_of.as_ref().is_none_or(|nodes| nodes.contains(&jack.node));
            for peer in self.network.wired_to(Jack { node, link }).into_iter().filter(is_told) {
                let address = self.network.link_address(peer.node, peer.link);
                firmware.hint(self.ids[peer.node], LinkIndex(link as u8), address);
            }
        }
    }

    /// Puts every plug in that is out; hosts notice soon after.
    pub fn plug_all(&mut self) {
        for cable in 0..self.network.cables() {
            let Some((_, plugged)) = self.network.cable(cable) else { continue };
            for side in (0..2).filter(|side| !plugged[*side]) {
                self.apply(Action::SetPlug { cable, side, is_in: true });
            }
        }
    }

    /// Stops a node at once.
    pub fn stop(&mut self, node: usize) {
        self.history.stopped(node, self.now, false);
        self.nodes[node].stop();
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// When it began.
    pub fn began(&self) -> Time {
        self.began
    }

    /// The nodes.
    pub fn nodes(&self) -> &[SimNode] {
        self.nodes.as_slice()
    }

    /// One node's protocol engine.
    ///
    /// # Panics
    /// If the node is away.
    pub fn firmware(&self, node: usize) -> &emp_firmware::Firmware {
        self.nodes[node].firmware.as_ref().expect("the node is there")
    }

    /// Does something to a node's firmware and memory that no [`Action`] does; then the node gets a turn.
    ///
    /// # Panics
    /// If the node is away.
    pub fn poke<R>(
        &mut self,
        node: usize,
        poke: impl FnOnce(&mut emp_firmware::Firmware, &mut crate::memory::SimMemory, Time) -> R,
    ) -> R {
        let sim = &mut self.nodes[node];
        let result =
            poke(sim.firmware.as_mut().expect("the node is there"), &mut sim.memory, self.now);
        sim.wake(self.now);
        result
    }

    /// Cables of a node that were not there at its start are plugged in.
    pub fn plug(&mut self, node: usize) {
        let address = self.network.address(node);
        let sim = &mut self.nodes[node];
        sim.plug(self.now, address);
        sim.wake(self.now);
    }

    /// From now on nodes may find that frames have to be shorter.
    pub fn frames_may_shrink(&mut self) {
        for node in 0..self.ids.len() {
            self.history.limited(node, self.now);
        }
    }

    /// From now on a node runs at this pace.
    pub fn set_pace(&mut self, node: usize, pace: crate::node::Pace) {
        self.nodes[node].setup.pace = pace;
    }

    /// One node's identity.
    pub fn id(&self, node: usize) -> NodeId {
        self.ids[node]
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The network, to be disturbed.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// What was posted and how it ended.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// What was done to nodes and network.
    pub fn history_mut(&mut self) -> &mut History {
        &mut self.history
    }

    /// What nodes reported, with time and node.
    pub fn events(&self) -> &[(Time, usize, NodeEvent)] {
        &self.events
    }

    /// The first violation.
    pub fn violation(&self) -> Option<&Violation> {
        self.violation.as_ref()
    }

    /// Turns that nodes took.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// A number that two runs share only if they did the same at the same times.
    pub fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn fail(&mut self, what: String) {
        let at = self.now;
        self.violation.get_or_insert(Violation { at, what });
    }

    /// Runs until nothing is under way, for at most `span`.
    pub fn run(&mut self, span: Span) -> Stop {
        self.run_until(span, |_| false)
    }

    /// Runs until `reached`, for at most `span`.
    pub fn run_until(&mut self, span: Span, mut reached: impl FnMut(&Self) -> bool) -> Stop {
        let limit = self.now + span;
        loop {
            if self.violation.is_some() {
                return Stop::Failed;
            }
            if reached(self) {
                return Stop::Reached;
            }
            let Some(next) = self.next() else { return Stop::Idle };
            if next > limit {
                self.advance(limit);
                return Stop::Limit;
            }
            self.advance(next);
            self.step();
        }
    }

    /// Lets exactly this much time pass, unless something fails.
    pub fn pass(&mut self, span: Span) {
        let end = self.now + span;
        if self.run(span) == Stop::Idle {
            self.advance(end);
        }
    }

    fn advance(&mut self, to: Time) {
        if to > self.now {
            self.now = to;
            self.turns_now = 0;
        }
    }

    /// When the next thing happens.
    fn next(&mut self) -> Option<Time> {
        let action = self.actions.first_key_value().map(|((at, _), _)| (*at).max(self.now));
        let turn = self.nodes.next_turn(self.now);
        [action, turn, self.network.next_arrival()].into_iter().flatten().min()
    }

    /// Lets everything happen that is due now: first what arrives, then what applications do, then turns.
    fn step(&mut self) {
        while let Some(delivery) = self.network.arrival(self.now) {
            self.digest = mix(self.digest ^ self.now.0 ^ (delivery.frame.len() as u64) << 48);
            let to = delivery.to;
            if let Err(lost) = self.nodes[to].take(delivery) {
                self.network.recycle(lost.frame);
            }
        }
        while let Some(entry) = self.actions.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            let action = entry.remove();
            self.apply(action);
        }
        for node in self.nodes.due(self.now) {
            if self.nodes.as_slice()[node].next_turn(self.now) == Some(self.now) {
                self.turn(node);
            }
        }
        if let Some(what) = self.network.witnessed() {
            self.fail(what);
        }
    }

    fn turn(&mut self, node: usize) {
        self.turns += 1;
        self.turns_now += 1;
        if self.turns_now > TURNS_AT_ONCE_MAX {
            let due =
                self.nodes[node].firmware.as_ref().and_then(|firmware| firmware.poll_timeout());
            self.fail(format!("node {node} takes turns without end: its timer stays at {due:?}"));
            return;
        }
        let result = self.nodes[node].turn(node, self.now, &mut self.network);
        if let Some((link, bytes)) = self.nodes[node].overlong() {
            self.fail(format!(
                "node {node}: a frame of {bytes} bytes by {link:?}, which takes none such"
            ));
        }
        // It looks through all peers, so not every time.
        if self.turns.is_multiple_of(WEIGH_EVERY)
            && let Err(what) = self.nodes[node].weigh()
        {
            self.fail(format!("node {node} holds {what}"));
        }
        for completion in &result.completions {
            self.digest = mix(self.digest ^ completion.context ^ (completion.status as u64) << 40);
            if let Some(judged) = self.judge_one_sided(node, completion) {
                if let Err(what) = judged {
                    self.fail(what);
                }
                continue;
            }
            let witness = Witness {
                node,
                incarnation: self.nodes[node].incarnation,
                now: self.now,
                ids: &self.ids,
                history: &self.history,
            };
            let memory = &mut self.nodes[node].memory;
            if let Err(what) = oracle::complete(&mut self.ledger, &witness, completion, memory) {
                self.fail(what);
            }
            if let Err(what) = self.judge_received(completion) {
                self.fail(format!("node {node}: {what}"));
            }
        }
        for event in result.events {
            self.note(node, event);
        }
        if let Some(what) = self.nodes[node].memory.violation() {
            self.fail(format!("node {node}: {what}"));
        }
    }

    fn judge_received(&self, completion: &Completion) -> Result<(), String> {
        let received = completion.op.kind() == OpKind::Receive
            && matches!(completion.status, Status::Ok | Status::Truncated);
        match self.ledger.by_bits(completion.match_bits).filter(|_| received) {
            Some(message) => self.judge_follower(message),
            None => Ok(()),
        }
    }

    /// What a node knows of the generations of its pair with another.
    fn epochs(&self, node: usize, peer: NodeId) -> Epochs {
        let shown = self.nodes[node].firmware.as_ref().map(|one| one.shown(self.now, peer));
        let shown = shown.unwrap_or_default();
        Epochs { own: Epoch(shown.own_epoch), known: Epoch(shown.epoch) }
    }

    fn note(&mut self, node: usize, event: NodeEvent) {
        if let NodeEvent::LimitReached { .. } = event {
            return self.events.push((self.now, node, event));
        }
        let (NodeEvent::Found { node: id, .. }
        | NodeEvent::Unreachable(id)
        | NodeEvent::Restarted(id)
        | NodeEvent::GaveUp(id)
        | NodeEvent::Ended(id)
        | NodeEvent::Closed(id)
        | NodeEvent::Claimed { node: id, .. }
        | NodeEvent::PathLost { node: id, .. }
        | NodeEvent::PathFound { node: id, .. }
        | NodeEvent::LostBySize { node: id, .. }
        | NodeEvent::Limited { node: id, .. }) = &event
        else {
            return;
        };
        match self.ids.iter().position(|known| known == id) {
            Some(peer) => {
                if !self.history.explains_event(&event, node, peer, self.now) {
                    self.fail(format!(
                        "node {node} reports {event:?} (node {peer}), which nothing explains"
                    ));
                }
                let restarted = matches!(event, NodeEvent::Restarted(_) | NodeEvent::GaveUp(_));
                if restarted
                    || matches!(
                        event,
                        NodeEvent::Unreachable(_) | NodeEvent::Ended(_) | NodeEvent::Closed(_)
                    )
                {
                    self.history.reset((node, peer), self.now, restarted, self.epochs(node, *id));
                }
            }
            None => self.fail(format!("node {node} reports {event:?} of a node that is not there")),
        }
        self.events.push((self.now, node, event));
    }

    /// Checks that every node is idle, drained and holds nothing.
    pub fn check_quiet(&self) -> Result<(), String> {
        for (index, node) in self.nodes.iter().enumerate() {
            let Some(firmware) = &node.firmware else { continue };
            if let Some(due) = firmware.poll_timeout() {
                return Err(format!("node {index} is idle but has a timer at {} ns", due.0));
            }
            if !firmware.is_drained() {
                return Err(format!("node {index} is idle but not drained"));
            }
            if firmware.expects_landing() {
                return Err(format!("node {index} is idle but expects landing"));
            }
            if firmware.is_receiving() {
                return Err(format!("node {index} is idle but says that it is receiving"));
            }
            let (free, all) = firmware.pool_slots();
            if free != all {
                return Err(format!(
                    "node {index} is idle but holds {} of {all} pool slots",
                    all - free
                ));
            }
            if let Some(held) = firmware.holdings().iter().find(|h| h.passing && h.held > 0) {
                return Err(format!("node {index} is idle but holds {} {}", held.held, held.name));
            }
            if firmware.peers() > self.nodes.len() {
                return Err(format!("node {index} knows {} peers", firmware.peers()));
            }
            if node.memory.posted() > 0 {
                return Err(format!(
                    "node {index}: {} buffers are still posted",
                    node.memory.posted()
                ));
            }
        }
        Ok(())
    }

    /// Judges the run so far as a whole.
    pub fn judge(&self) -> Result<(), String> {
        verdict::judge(&self.ledger, &self.history, &self.ids)
    }

    /// Judges a run that is over: everything ended, everything right, all quiet.
    pub fn judge_finished(&self) -> Result<(), String> {
        let living: Vec<Option<u32>> = self
            .nodes
            .iter()
            .map(|node| node.firmware.as_ref().map(|_| node.incarnation))
            .collect();
        verdict::all_ended(&self.ledger, &living)?;
        self.judge_deeds()?;
        self.judge()?;
        self.check_quiet()
    }
}
