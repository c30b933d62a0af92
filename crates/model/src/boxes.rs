//! Nodes that are cabled box to box, without a switch: who is not a neighbour is reached through relays, or not at all.
//!
//! Smaller than [`World`](crate::World): one thing is judged, and it is that every message arrives once and as it was sent, or ends with an
//! error. Beside that it holds relays to their rules: no frame passes one twice, and a search crosses each cable at most twice (V26, V30).

use std::collections::{BTreeMap, HashMap};

use emp_firmware::{
    CompletionMode, Config, Counter, Firmware, LinkCost, LinkIndex, LinkInfo, NodeEvent, OpKind,
    Profile, ReceiveDescriptor, Selector, SendDescriptor, Span, Status, Time, TransmitBatch,
};
use emp_wire::{
    DESTINATION_TAG_OFFSET, Header, Hello, LinkAddress, NodeId, RelayUse, Relayed, TAG_EVERYONE,
    is_relayed, is_search,
};

use crate::memory::{Access, BufferId, SimMemory, payload};
use crate::prng::{Ppm, Prng};

/// A cable between two nodes.
#[derive(Clone, Copy, Debug)]
pub struct BoxCable {
    /// Its ends.
    pub ends: [usize; 2],
    /// Largest frame that the interfaces at its ends take.
    pub frame_bytes_max: usize,
    /// Speed, each way.
    pub bits_per_second: u64,
    /// From one end to the other.
    pub latency: Span,
    /// Frames lost on it.
    pub loss: Ppm,
    /// It is plugged in. Both ends know at once if it is not.
    pub plugged: bool,
    /// Frames from its first end, and from its second, get through.
    pub carries: [bool; 2],
}

impl BoxCable {
    /// A cable of 10 Gb/s, 5 µs, MTU 1500.
    pub const fn new(a: usize, b: usize) -> Self {
        Self {
            ends: [a, b],
            frame_bytes_max: 1_500,
            bits_per_second: 10_000_000_000,
            latency: Span::us(5),
            loss: Ppm(0),
            plugged: true,
            carries: [true; 2],
        }
    }
}

/// Bytes that wait for a cable at most; frames beyond are lost.
const QUEUE_BYTES: u64 = 512 << 10;

/// Room of each posted receive.
const RECEIVE_BYTES: u64 = 4 << 20;

struct Node {
    id: NodeId,
    firmware: Option<Firmware>,
    memory: SimMemory,
    batch: TransmitBatch,
    links: Vec<LinkInfo>,
    relays: bool,
    starts: u32,
    /// What it counted before it was restarted.
    receives: HashMap<u64, BufferId>,
    sends: HashMap<u64, BufferId>,
}

/// A frame on a cable.
struct Flight {
    cable: usize,
    /// The end that it goes to.
    end: usize,
    frame: Vec<u8>,
}

/// A message, and what became of it.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// From and to.
    pub ends: (usize, usize),
    /// Its length.
    pub bytes: u64,
    /// When it was posted.
    pub at: Time,
    /// When it arrived.
    pub arrived: Option<Time>,
    /// How the send ended.
    pub ended: Option<Status>,
}

/// Nodes and their cables.
pub struct Boxes {
    /// What time it is.
    pub now: Time,
    cables: Vec<BoxCable>,
    free: Vec<[Time; 2]>,
    nodes: Vec<Node>,
    /// By node and link: the cable, and which end of it.
    plugs: Vec<Vec<(usize, usize)>>,
    flights: BTreeMap<(Time, u64), Flight>,
    due: BTreeMap<(Time, usize), ()>,
    due_of: Vec<Option<Time>>,
    order: u64,
    prng: Prng,
    sent: Vec<Sent>,
    /// Boxes crossed by each search, by who searches and its nonce.
    searches: HashMap<(u64, u64), u32>,
    /// Hellos and searches to everyone, cables counted.
    broadcasts: u64,
    events: Vec<(usize, NodeEvent)>,
    frames: u64,
}

impl Boxes {
    /// Nodes with these cables; `relays` says which of them relay.
    pub fn new(
        nodes: usize,
        cables: &[BoxCable],
        profile: &Profile,
        seed: u64,
        relays: impl Fn(usize) -> bool,
    ) -> Self {
        let mut plugs = vec![Vec::new(); nodes];
        for (index, cable) in cables.iter().enumerate() {
            for (end, node) in cable.ends.iter().enumerate() {
                plugs[*node].push((index, end));
            }
        }
        let mut all = Self {
            now: Time(0) + Span::ms(1_000),
            cables: cables.to_vec(),
            free: vec![[Time(0); 2]; cables.len()],
            nodes: Vec::with_capacity(nodes),
            plugs,
            flights: BTreeMap::new(),
            due: BTreeMap::new(),
            due_of: vec![None; nodes],
            order: 0,
            prng: Prng::new(seed),
            sent: Vec::new(),
            searches: HashMap::new(),
            broadcasts: 0,
            events: Vec::new(),
            frames: 0,
        };
        for index in 0..nodes {
            let links = all.links_of(index);
            let bytes = links.iter().map(|link| link.frame_bytes_max).max().unwrap_or(1_500);
            all.nodes.push(Node {
                id: NodeId::from_name(&format!("box-{index}")),
                firmware: None,
                memory: SimMemory::new(),
                batch: TransmitBatch::new(bytes),
                links,
                relays: relays(index),
                starts: 0,
                receives: HashMap::new(),
                sends: HashMap::new(),
            });
            all.start(index, profile);
        }
        all
    }

    /// Each cable of a ring, `nodes` long.
    pub fn ring(nodes: usize) -> Vec<BoxCable> {
        (0..nodes).map(|at| BoxCable::new(at, (at + 1) % nodes)).collect()
    }

    /// Each cable of a line.
    pub fn line(nodes: usize) -> Vec<BoxCable> {
        (1..nodes).map(|at| BoxCable::new(at - 1, at)).collect()
    }

    /// A connected graph in which each node has about `degree` cables, drawn from a seed.
    pub fn random(nodes: usize, degree: usize, seed: u64) -> Vec<BoxCable> {
        let mut prng = Prng::new(seed);
        let mut cables: Vec<BoxCable> =
            (1..nodes).map(|at| BoxCable::new(prng.below(at as u64) as usize, at)).collect();
        while cables.len() < nodes * degree / 2 {
            let (a, b) = (prng.below(nodes as u64) as usize, prng.below(nodes as u64) as usize);
            let there = |cable: &BoxCable| cable.ends == [a, b] || cable.ends == [b, a];
            if a != b && (nodes > 64 || !cables.iter().any(there)) {
                cables.push(BoxCable::new(a, b));
            }
        }
        cables
    }

    fn address(node: usize, link: usize) -> LinkAddress {
        LinkAddress::index((node * 64 + link) as u32)
    }

    fn links_of(&self, node: usize) -> Vec<LinkInfo> {
        let plugs = &self.plugs[node];
        let infos = plugs.iter().enumerate().map(|(link, (cable, _))| {
            let mut info = LinkInfo::new(self.cables[*cable].frame_bytes_max, true);
            info.hops_from = Some(Self::address(node, link));
            info.cost = Some(LinkCost {
                first_ns: 1_000,
                further_ns: 1_000,
                long_ns: None,
                segments: false,
                named: false,
            });
            for other in (0..plugs.len()).filter(|other| *other != link) {
                info.set_beside(LinkIndex(other as u8), Self::address(node, other));
            }
            info
        });
        infos.collect()
    }

    /// Starts a node, again or for the first time: it knows nobody. What it had under way is gone.
    pub fn start(&mut self, index: usize, profile: &Profile) {
        let node = &mut self.nodes[index];
        node.starts += 1;
        let mut firmware = Firmware::new(Config {
            node: node.id,
            epoch: (node.starts << 16) + 1 + index as u32,
            name: format!("box-{index}"),
            profile: profile.clone(),
            links: node.links.clone(),
            seed: self.prng.bits(),
        });
        firmware.set_relay(node.relays);
        firmware.open_endpoint(0).expect("an endpoint");
        node.memory = SimMemory::new();
        (node.receives, node.sends) = (HashMap::new(), HashMap::new());
        node.firmware = Some(firmware);
        for link in 0..self.plugs[index].len() {
            self.tell_carrier(index, link);
        }
        for _ in 0..16 {
            self.post_receive(index);
        }
        self.turn(index);
    }

    /// Stops a node without a word.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].firmware = None;
    }

    fn tell_carrier(&mut self, index: usize, link: usize) {
        let (cable, _) = self.plugs[index][link];
        let plugged = self.cables[cable].plugged;
        let now = self.now;
        if let Some(firmware) = &mut self.nodes[index].firmware {
            firmware.set_carrier(now, LinkIndex(link as u8), plugged);
        }
    }

    /// Pulls a cable, or plugs it in. What is on it is lost; both ends know.
    pub fn plug(&mut self, cable: usize, plugged: bool) {
        self.cables[cable].plugged = plugged;
        if !plugged {
            self.flights.retain(|_, flight| flight.cable != cable);
        }
        for node in self.cables[cable].ends {
            for link in 0..self.plugs[node].len() {
                self.tell_carrier(node, link);
            }
            self.turn(node);
        }
    }

    /// A cable, to be changed in what its ends do not see.
    pub fn cable_mut(&mut self, cable: usize) -> &mut BoxCable {
        &mut self.cables[cable]
    }

    /// A node's engine.
    ///
    /// # Panics
    /// If it was killed.
    pub fn firmware(&self, node: usize) -> &Firmware {
        self.nodes[node].firmware.as_ref().expect("it runs")
    }

    /// The node's identity.
    pub fn id(&self, node: usize) -> NodeId {
        self.nodes[node].id
    }

    /// One of a node's counters.
    pub fn count(&self, node: usize, counter: Counter) -> u64 {
        self.firmware(node).counters().get(counter)
    }

    /// The same of all nodes together.
    pub fn count_all(&self, counter: Counter) -> u64 {
        let running = self.nodes.iter().filter_map(|node| node.firmware.as_ref());
        running.map(|firmware| firmware.counters().get(counter)).sum()
    }

    /// Boxes crossed by the search that crossed most.
    pub fn search_frames_max(&self) -> u32 {
        self.searches.values().copied().max().unwrap_or(0)
    }

    /// Searches that were made.
    pub fn searches(&self) -> usize {
        self.searches.len()
    }

    /// Hellos and searches to everyone, once for each cable that they crossed.
    pub const fn broadcasts(&self) -> u64 {
        self.broadcasts
    }

    /// Frames that crossed a cable.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// What happened to whom.
    pub fn events(&self) -> &[(usize, NodeEvent)] {
        &self.events
    }

    /// A message that was sent.
    pub fn message(&self, message: usize) -> Sent {
        self.sent[message]
    }

    /// Messages that were sent.
    pub fn messages(&self) -> &[Sent] {
        &self.sent
    }

    fn post_receive(&mut self, index: usize) {
        let now = self.now;
        let node = &mut self.nodes[index];
        let Some(firmware) = &mut node.firmware else { return };
        let (buffer, segments) = node.memory.post(&[RECEIVE_BYTES], Access::Write, &[]);
        let descriptor = ReceiveDescriptor {
            endpoint: 0,
            selector: Selector {
                from: NodeId::ANY,
                from_endpoint: None,
                match_bits: 0,
                ignore_bits: u64::MAX,
            },
            segments,
            claim: None,
            context: self.order,
        };
        node.receives.insert(self.order, buffer);
        self.order += 1;
        firmware.post_receive(now, descriptor, &mut node.memory).expect("room for a receive");
    }

    /// Sends a message; its number is its match bits.
    pub fn send(&mut self, from: usize, to: usize, bytes: u64) -> usize {
        let (now, number) = (self.now, self.sent.len());
        let to_id = self.nodes[to].id;
        let node = &mut self.nodes[from];
        let filled = payload(number as u64, bytes);
        let (buffer, segments) = node.memory.post(&[bytes], Access::Read, &filled);
        let descriptor = SendDescriptor {
            to: to_id,
            endpoint: 0,
            to_endpoint: 0,
            match_bits: number as u64,
            segments,
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Delivered,
            context: number as u64,
        };
        let firmware = node.firmware.as_mut().expect("it runs");
        firmware.post_send(now, descriptor, &mut node.memory).expect("a send is taken");
        node.sends.insert(number as u64, buffer);
        let (ends, arrived, ended) = ((from, to), None, None);
        self.sent.push(Sent { ends, bytes, at: now, arrived, ended });
        self.turn(from);
        number
    }

    /// Puts a frame on the cable of a node's link, as if a stranger had sent it from there.
    pub fn inject(&mut self, node: usize, link: usize, frame: &[u8]) {
        self.transmit(node, link, frame.to_vec(), Self::address(node, link));
    }

    /// Hands a frame to a node as if it had come by that link from that address.
    pub fn deliver(&mut self, node: usize, link: usize, from: LinkAddress, frame: &[u8]) {
        let now = self.now;
        let it = &mut self.nodes[node];
        if let Some(firmware) = &mut it.firmware {
            firmware.handle_frame(now, LinkIndex(link as u8), from, frame, &mut it.memory);
        }
        self.turn(node);
    }

    /// The address of a node's link.
    pub fn address_of(&self, node: usize, link: usize) -> LinkAddress {
        Self::address(node, link)
    }

    fn transmit(&mut self, node: usize, link: usize, frame: Vec<u8>, to: LinkAddress) {
        let (cable, end) = self.plugs[node][link];
        let there = self.cables[cable];
        let other = there.ends[1 - end];
        assert!(frame.len() <= there.frame_bytes_max, "longer than the interface takes");
        self.judge(node, other, &frame, to == LinkAddress::EVERYONE);
        if !there.plugged {
            return;
        }
        self.frames += 1;
        // 24 bytes of preamble, checksum and gap, 14 of Ethernet's header.
        let bits = (frame.len() as u64 + 38) * 8;
        let start = self.free[cable][end].max(self.now);
        let waits =
            start.since(self.now).0 as u128 * u128::from(there.bits_per_second) / 8_000_000_000;
        if waits > u128::from(QUEUE_BYTES) {
            return;
        }
        let left = start + Span(bits * 1_000_000_000 / there.bits_per_second);
        self.free[cable][end] = left;
        let lost = !there.carries[end] || self.prng.chance(there.loss);
        let plug = self.plugs[other].iter().position(|plug| *plug == (cable, 1 - end));
        let meant =
            to == LinkAddress::EVERYONE || Some(to) == plug.map(|at| Self::address(other, at));
        if lost || !meant {
            return;
        }
        let flight = Flight { cable, end: 1 - end, frame };
        self.flights.insert((left + there.latency, self.order), flight);
        self.order += 1;
    }

    /// Holds a frame that a node sends to the rules.
    fn judge(&mut self, node: usize, to: usize, frame: &[u8], everyone: bool) {
        self.broadcasts += u64::from(everyone);
        if !is_relayed(frame) {
            return;
        }
        let relayed = Relayed::parse(frame).expect("what nodes send has a sound head");
        let (head, own) = (relayed.head, self.nodes[node].id.destination_tag());
        assert_eq!(head.source_tag, own, "it says who puts it on the cable");
        let before = if head.usage == RelayUse::Search { head.hops } else { head.place };
        for place in 0..before {
            let hop = relayed.hop(place).expect("a hop");
            assert_ne!(hop.tag, own, "a frame passes node {node} twice");
        }
        if head.usage == RelayUse::Search {
            let (_, body) = Header::parse(relayed.carried).expect("a frame");
            let hello = Hello::parse(body).expect("a hello");
            let crossed = self.searches.entry((hello.node.0, hello.nonce)).or_default();
            *crossed += 1;
            assert!(*crossed as usize <= 2 * self.cables.len(), "a search from {node} to {to}");
        }
    }

    /// Lets a node do what is to be done.
    fn turn(&mut self, index: usize) {
        let now = self.now;
        let mut out = Vec::new();
        let (mut completions, mut events) = (Vec::new(), Vec::new());
        {
            let node = &mut self.nodes[index];
            let Some(firmware) = &mut node.firmware else { return };
            if firmware.poll_timeout().is_some_and(|due| due <= now) {
                firmware.handle_timeout(now, &mut node.memory);
            }
            loop {
                node.batch.clear();
                // As hosts ask.
                if !firmware.has_transmit(now) {
                    break;
                }
                if firmware.poll_transmit(now, &mut node.memory, &mut node.batch) == 0 {
                    break;
                }
                for (at, frame) in node.batch.frames().iter().enumerate() {
                    let mut bytes = node.batch.inline(at).to_vec();
                    for segment in frame.segments() {
                        bytes.extend(node.memory.peek(segment.address, segment.bytes));
                    }
                    out.push((usize::from(frame.link.0), bytes, frame.to));
                }
            }
            completions.extend(core::iter::from_fn(|| firmware.poll_completion()));
            events.extend(core::iter::from_fn(|| firmware.poll_event()));
        }
        for (link, bytes, to) in out {
            self.transmit(index, link, bytes, to);
        }
        for completion in completions {
            self.complete(index, &completion);
        }
        self.events.extend(events.into_iter().map(|event| (index, event)));
        let due = self.nodes[index].firmware.as_ref().and_then(Firmware::poll_timeout);
        let due = due.map(|due| due.max(now + Span(1)));
        if let Some(before) = std::mem::replace(&mut self.due_of[index], due) {
            self.due.remove(&(before, index));
        }
        if let Some(due) = due {
            self.due.insert((due, index), ());
        }
    }

    fn complete(&mut self, index: usize, completion: &emp_firmware::Completion) {
        let node = &mut self.nodes[index];
        if matches!(completion.op.kind(), OpKind::Send) {
            let buffer = node.sends.remove(&completion.context).expect("a send that was posted");
            node.memory.release(buffer);
            let message = &mut self.sent[completion.context as usize];
            assert!(message.ended.replace(completion.status).is_none(), "a send ends once");
            return;
        }
        let buffer = node.receives.remove(&completion.context).expect("a receive that was posted");
        let content = node.memory.content(buffer);
        node.memory.release(buffer);
        if completion.status == Status::Ok {
            let number = completion.match_bits;
            let message = &mut self.sent[number as usize];
            assert_eq!(message.ends.1, index, "message {number} came to another node");
            assert_eq!(completion.bytes, message.bytes, "message {number}");
            let bytes = message.bytes as usize;
            assert!(content[..bytes] == payload(number, message.bytes), "message {number} differs");
            assert!(message.arrived.replace(self.now).is_none(), "message {number} came twice");
        }
        self.post_receive(index);
    }

    /// Runs until something holds. False: it did not within so long.
    pub fn run_until(&mut self, patience: Span, mut holds: impl FnMut(&Self) -> bool) -> bool {
        let end = self.now + patience;
        loop {
            if holds(self) {
                return true;
            }
            let flight = self.flights.first_key_value().map(|((at, _), _)| *at);
            let due = self.due.first_key_value().map(|((at, _), ())| *at);
            let Some(next) = flight.into_iter().chain(due).min().filter(|next| *next <= end) else {
                self.now = end;
                return holds(self);
            };
            self.now = self.now.max(next);
            if flight.is_some_and(|flight| flight <= next) {
                let (_, Flight { cable, end, frame }) =
                    self.flights.pop_first().expect("just seen");
                self.arrive(cable, end, &frame);
            } else {
                let ((_, node), ()) = self.due.pop_first().expect("just seen");
                self.due_of[node] = None;
                self.turn(node);
            }
        }
    }

    fn arrive(&mut self, cable: usize, end: usize, frame: &[u8]) {
        let ends = self.cables[cable].ends;
        let (node, other) = (ends[end], ends[1 - end]);
        let link_of = |node: usize, end: usize| {
            self.plugs[node].iter().position(|plug| *plug == (cable, end)).expect("it is plugged")
        };
        let (link, from) = (link_of(node, end), Self::address(other, link_of(other, 1 - end)));
        let tag = frame.get(DESTINATION_TAG_OFFSET..DESTINATION_TAG_OFFSET + 2);
        let tag = tag.map_or(0, |tag| u16::from_be_bytes([tag[0], tag[1]]));
        // As sockets filter them; a relay hears what is looked for elsewhere.
        let its = tag == TAG_EVERYONE || tag == self.nodes[node].id.destination_tag();
        if its || self.nodes[node].relays && is_search(frame) {
            self.deliver(node, link, from, frame);
        }
    }

    /// Runs for so long.
    pub fn run(&mut self, time: Span) {
        self.run_until(time, |_| false);
    }

    /// Runs until each message has arrived, or its send ended with an error.
    ///
    /// # Panics
    /// If that takes longer than so long.
    pub fn settle(&mut self, patience: Span) {
        let over = |sent: &Sent| match sent.ended {
            Some(Status::Ok) => sent.arrived.is_some(),
            Some(_) => true,
            None => false,
        };
        let settled = self.run_until(patience, |all| all.sent.iter().all(over));
        let open: Vec<&Sent> = self.sent.iter().filter(|sent| !over(sent)).collect();
        assert!(settled, "{} open after {patience:?}: {:?}", open.len(), open.first());
        for node in &self.nodes {
            assert_eq!(node.memory.violation(), None);
        }
    }
}
