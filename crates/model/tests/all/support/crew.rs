//! Many senders and one port.

use std::collections::VecDeque;

use emp_firmware::{Counter, LinkInfo, Profile, Span};
use emp_model::{
    Action, Card, FabricSetup, MessageId, MessageSpec, NodeSetup, PortSetup, Prng, Want, World,
    WorldSetup,
};

use super::count;

/// What Ethernet adds to a frame of this fabric, and EMP's headers to its payload: a frame of 1,500 bytes has 1,468 of payload.
const WIRE_BYTES: f64 = 1_538.0;
const PAYLOAD_BYTES: f64 = 1_468.0;

/// A link that carries long frames, and the length of the pieces in which they cross.
fn long_link() -> (LinkInfo, usize) {
    let link = LinkInfo { segments: true, long_frames: true, ..LinkInfo::new(1_472, true) };
    (link, 1_472)
}

/// So many senders, and node 0 behind a port of its own.
pub struct Crew {
    pub world: World,
    senders: usize,
    port: PortSetup,
    pub streams: Vec<Stream>,
    /// Its hosts do not run now and then.
    busy: Option<Prng>,
}

/// How often applications look at their messages.
const LOOK: Span = Span::us(20);

/// How often a busy host does not run, and for how long: one with more processes than processors.
const BUSY_EVERY: Span = Span::ms(5);
const BUSY_US: std::ops::RangeInclusive<u64> = 1_000..=3_000;

/// One sender that always has messages to send.
pub struct Stream {
    from: usize,
    bytes: u64,
    posted: VecDeque<MessageId>,
    arrived: u64,
    pub stopped: bool,
}

/// 10 Gb/s and 512 KB, as a shallow switch has.
pub const TEN_GIGABIT: PortSetup = PortSetup {
    bits_per_second: 10_000_000_000,
    queue_bytes: 512 << 10,
    ecn_bytes: None,
    burst_bytes: 0,
};

/// The lab's port.
pub const HALF_GIGABIT: PortSetup = PortSetup {
    bits_per_second: 500_000_000,
    queue_bytes: 128 << 10,
    ecn_bytes: None,
    burst_bytes: 0,
};

impl Crew {
    /// Senders that have each sent a small message before, by one link of MTU 1500.
    pub fn new(senders: usize, port: PortSetup) -> Self {
        Self::with(senders, port, (LinkInfo::new(1_500, true), usize::MAX), 1_000)
    }

    /// By a link that carries long frames, which cross in pieces.
    pub fn long(senders: usize, port: PortSetup) -> Self {
        Self::with(senders, port, long_link(), 100_000)
    }

    /// The same; that it does, they are yet to find out.
    pub fn long_unknown(senders: usize, port: PortSetup) -> Self {
        Self::with(senders, port, long_link(), 1_000)
    }

    fn with(
        senders: usize,
        port: PortSetup,
        (link, piece_bytes): (LinkInfo, usize),
        first_bytes: u64,
    ) -> Self {
        let card = Card { stamps: true, ..Card::default() };
        let node = |index| NodeSetup {
            links: vec![link],
            card,
            ..NodeSetup::new(index, Profile::DEFAULT)
        };
        let setup = WorldSetup {
            fabrics: vec![FabricSetup { piece_bytes, ..FabricSetup::lan() }],
            nodes: (0..=senders).map(node).collect(),
            seed: 5,
        };
        let mut world = World::new(setup);
        world.network_mut().set_port(0, 0, port);
        let mut crew = Self { world, senders, port, streams: Vec::new(), busy: None };
        crew.meet(first_bytes);
        crew
    }

    /// From now on each of its hosts does not run for 1 to 3 ms, two hundred times a second or so.
    pub fn busy(mut self, seed: u64) -> Self {
        self.busy = Some(Prng::new(seed));
        self
    }

    fn rest(&mut self) {
        let Some(prng) = &mut self.busy else { return };
        for node in 0..=self.senders {
            if prng.below(BUSY_EVERY.0) < LOOK.0 {
                let span = Span::us(prng.within(BUSY_US));
                self.world.apply(Action::Pause { node, span });
            }
        }
    }

    fn meet(&mut self, bytes: u64) {
        for from in 1..=self.senders {
            self.world.receive(0, Want { from: Some(from), ..Want::ANY }, bytes);
            self.world.send(MessageSpec::plain(from, 0, bytes));
            assert_eq!(self.world.run(Span::ms(60_000)), emp_model::Stop::Idle);
        }
    }

    /// What the wire takes for so many payload bytes.
    pub fn wire(&self, payload: f64) -> Span {
        let bits = payload / PAYLOAD_BYTES * WIRE_BYTES * 8.0;
        Span((bits * 1e9 / self.port.bits_per_second as f64) as u64)
    }

    pub fn stream(&mut self, from: usize, bytes: u64) {
        let posted = VecDeque::new();
        self.streams.push(Stream { from, bytes, posted, arrived: 0, stopped: false });
    }

    /// Keeps this many messages of each stream posted, for so long.
    pub fn run(&mut self, span: Span, depth: usize) {
        let end = self.world.now() + span;
        while self.world.now() < end {
            for stream in &mut self.streams {
                while let Some(first) = stream.posted.front()
                    && self.world.arrived(*first)
                {
                    stream.arrived += stream.bytes;
                    stream.posted.pop_front();
                }
                while stream.posted.len() < depth && !stream.stopped {
                    let want = Want { from: Some(stream.from), ..Want::ANY };
                    self.world.receive(0, want, stream.bytes);
                    let spec = MessageSpec::plain(stream.from, 0, stream.bytes);
                    stream.posted.push_back(self.world.send(spec));
                }
            }
            self.rest();
            self.world.pass(LOOK);
            assert!(self.world.violation().is_none(), "{:?}", self.world.violation());
        }
    }

    /// The same; payload that came of each meanwhile.
    pub fn measure(&mut self, span: Span, depth: usize) -> Vec<f64> {
        let before: Vec<u64> = self.streams.iter().map(|stream| stream.arrived).collect();
        self.run(span, depth);
        self.streams.iter().zip(before).map(|(now, then)| (now.arrived - then) as f64).collect()
    }

    /// Part of the port that this payload is, in this time, and Jain's index of how it is shared.
    pub fn shares(&self, name: &str, came: &[f64], span: Span) -> (f64, f64) {
        let part = self.wire(came.iter().sum()).0 as f64 / span.0 as f64;
        let (sum, squares): (f64, f64) =
            came.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        let jain = sum * sum / (came.len() as f64 * squares);
        let totals = self.world.network().port(0, 0);
        println!(
            "{name}: {:.1} % of the port, Jain {jain:.3}, {} of {} frames dropped, queue {} KB, {:?} time-outs",
            part * 100.0,
            totals.dropped,
            totals.frames,
            totals.queue_bytes_max >> 10,
            self.timeouts(),
        );
        (part, jain)
    }

    /// Most time-outs (not probes) of a sender, and all.
    pub fn timeouts(&self) -> (u64, u64) {
        let each = (1..=self.senders).map(|node| count(&self.world, node, Counter::Timeouts));
        each.fold((0, 0), |(most, sum), one| (most.max(one), sum + one))
    }
}
