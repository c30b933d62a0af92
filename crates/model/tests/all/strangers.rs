//! Identities that said one thing and vanished: what is sent to them costs a pair that lives little.

use crate::support::forger::{Forger, body};
use crate::support::hub::hub;
use emp_firmware::limits::{STRANGERS_BURST, STRANGERS_INTERVAL};
use emp_firmware::{
    Config, Counter, Firmware, LinkIndex, LinkInfo, Profile, ReceiveDescriptor, SegmentList,
    Selector, SendDescriptor, Span, Time, TransmitBatch,
};
use emp_model::SimMemory;
use emp_wire::{Flags, Get, Kind, Largest, LinkAddress, NodeId, Target};

/// What the hub's processor takes for a frame, sent or received: as over UDP on an ordinary machine.
const FRAME_COST: Span = Span::us(4);

/// One way of the wire.
const LATENCY: Span = Span::us(5);

const STRANGERS: u64 = 20_000;

const LIVE: u64 = 7;

/// The hub, one node that it exchanges messages with, and the virtual clock of the hub's processor.
struct World {
    hub: Firmware,
    live: Firmware,
    memory: SimMemory,
    now: Time,
    /// Frames on their way to the hub, and to the live node.
    to_hub: std::collections::VecDeque<(Time, Vec<u8>)>,
    to_live: std::collections::VecDeque<(Time, Vec<u8>)>,
    rounds: u64,
    batch: TransmitBatch,
}

fn frames(
    node: &mut Firmware,
    now: Time,
    memory: &mut SimMemory,
    batch: &mut TransmitBatch,
) -> Vec<(LinkAddress, Vec<u8>)> {
    if !node.has_transmit(now) {
        return Vec::new();
    }
    batch.clear();
    node.poll_transmit(now, memory, batch);
    let all = batch.frames().iter().enumerate();
    all.map(|(at, frame)| (frame.to, batch.inline(at).to_vec())).collect()
}

fn post(node: &mut Firmware, now: Time, to: NodeId, memory: &mut SimMemory) {
    let selector = Selector { from: to, ..Selector::ANY };
    let (endpoint, context) = (0, 0);
    let segments = SegmentList::empty;
    let receive =
        ReceiveDescriptor { endpoint, selector, segments: segments(), claim: None, context };
    node.post_receive(now, receive, memory).unwrap();
    let send = SendDescriptor {
        to,
        endpoint,
        to_endpoint: 0,
        match_bits: 0,
        segments: segments(),
        immediate: None,
        synchronous: false,
        completion: emp_firmware::CompletionMode::Auto,
        context,
    };
    node.post_send(now, send, memory).unwrap();
}

impl World {
    fn new() -> Self {
        let mut live = Firmware::new(Config {
            node: NodeId(LIVE),
            epoch: 99,
            name: "live".into(),
            profile: Profile::DEFAULT,
            links: vec![LinkInfo::new(1_500, false)],
            seed: 6,
        });
        live.open_endpoint(0).unwrap();
        let mut hub = hub();
        let (node, memory) = (hub.node(), SimMemory::new());
        hub.hint(NodeId(LIVE), LinkIndex(0), LinkAddress::index(LIVE as u32));
        live.hint(node, LinkIndex(0), LinkAddress::index(0));
        let (to_hub, to_live) = Default::default();
        let batch = TransmitBatch::new(1_500);
        Self { hub, live, memory, now: Time(1_000_000), to_hub, to_live, rounds: 0, batch }
    }

    /// Both exchange messages for so long; how many times.
    fn exchange(&mut self, span: Span) -> u64 {
        let (end, before) = (self.now + span, self.rounds);
        while self.now < end {
            self.turn();
        }
        self.rounds - before
    }

    fn turn(&mut self) {
        let mut worked = false;
        while self.to_hub.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, frame) = self.to_hub.pop_front().unwrap();
            let from = LinkAddress::index(LIVE as u32);
            self.hub.handle_frame(self.now, LinkIndex(0), from, &frame, &mut self.memory);
            self.now = self.now + FRAME_COST;
            worked = true;
        }
        self.hub.handle_timeout(self.now, &mut self.memory);
        for (to, frame) in frames(&mut self.hub, self.now, &mut self.memory, &mut self.batch) {
            self.now = self.now + FRAME_COST;
            worked = true;
            if to == LinkAddress::index(LIVE as u32) {
                self.to_live.push_back((self.now + LATENCY, frame));
            }
        }
        while let Some(done) = self.hub.poll_completion() {
            if done.op.kind() == emp_firmware::OpKind::Receive {
                self.rounds += 1;
                let hub = (&mut self.hub, NodeId(LIVE));
                post(hub.0, self.now, hub.1, &mut self.memory);
            }
        }
        while self.hub.poll_event().is_some() {}
        // The other end costs the hub nothing.
        while self.to_live.front().is_some_and(|(at, _)| *at <= self.now) {
            let (_, frame) = self.to_live.pop_front().unwrap();
            let from = LinkAddress::index(0);
            self.live.handle_frame(self.now, LinkIndex(0), from, &frame, &mut self.memory);
        }
        self.live.handle_timeout(self.now, &mut self.memory);
        while let Some(done) = self.live.poll_completion() {
            if done.op.kind() == emp_firmware::OpKind::Receive {
                post(&mut self.live, self.now, self.hub.node(), &mut self.memory);
            }
        }
        for (_, frame) in frames(&mut self.live, self.now, &mut self.memory, &mut self.batch) {
            self.to_hub.push_back((self.now + LATENCY, frame));
        }
        if !worked {
            self.now = self.now + Span::us(1);
        }
    }

    /// Each asks for bytes of a region that there is none of, and is never heard again: the answer waits to be acknowledged.
    fn strangers(&mut self) {
        for number in 0..STRANGERS {
            let from = NodeId(0x1000_0001 + number);
            let forger = Forger::stranger(from, &self.hub);
            let target = Target {
                node: from,
                source_endpoint: 0,
                destination_endpoint: 0,
                largest: Largest::from(1_500),
                key: 4,
                handle: 1,
                generation: 0,
                offset: 0,
            };
            let get = Get { target, bytes: 10, pull: 1, fragment_bytes: 100 };
            let fields = body(|into| get.emit(into));
            let frame =
                forger.frame(Kind::Get, Flags::default().with(Flags::LAST), &fields, |_| {});
            let address = LinkAddress::index(1_000 + number as u32);
            self.hub.handle_frame(self.now, LinkIndex(0), address, &frame, &mut self.memory);
            if number % 32 == 0 {
                self.turn();
            }
        }
    }
}

#[test]
fn twenty_thousand_that_vanish_starve_nobody() {
    let mut world = World::new();
    let (live, hub) = (NodeId(LIVE), world.hub.node());
    post(&mut world.hub, world.now, live, &mut world.memory);
    post(&mut world.live, world.now, hub, &mut world.memory);
    world.exchange(Span::ms(200));
    let usual = world.exchange(Span::ms(500));
    assert!(usual > 5_000, "{usual} rounds in half a second");
    let start = world.now;
    world.strangers();
    world.exchange(Span::ms(1_000));
    let resent = world.hub.counters().get(Counter::FramesResent);
    assert!(resent <= 20_000, "{resent} resent in the first second");
    for half in 0..6 {
        let rounds = world.exchange(Span::ms(500));
        assert!(rounds * 10 >= usual * 8, "{rounds} rounds of {usual} in half second {half}");
    }
    let counters = world.hub.counters();
    // Those that are left are no burden.
    let lost = counters.get(Counter::PeersLost);
    assert!(lost >= STRANGERS * 9 / 10, "{lost} are given up");
    let resent = counters.get(Counter::FramesResent);
    let most =
        STRANGERS_BURST.0 / STRANGERS_INTERVAL.0 + world.now.since(start).0 / STRANGERS_INTERVAL.0;
    // The live pair resends a little, too.
    assert!(resent <= most + most / 100, "{resent} resent of {most} at most");
}

/// A few that nobody is in a hurry to give up: each has the usual time.
#[test]
fn a_few_that_are_slow_are_not_given_up_soon() {
    let mut world = World::new();
    world.exchange(Span::ms(1));
    for number in 0..100 {
        let from = NodeId(0x1000_0001 + number);
        let frame = crate::support::hub::first_message(from, &world.hub);
        world.hub.handle_frame(
            world.now,
            LinkIndex(0),
            LinkAddress::index(1_000 + number as u32),
            &frame,
            &mut world.memory,
        );
        post(&mut world.hub, world.now, from, &mut world.memory);
    }
    world.exchange(Span::ms(4_000));
    assert_eq!(world.hub.counters().get(Counter::PeersLost), 0);
}
