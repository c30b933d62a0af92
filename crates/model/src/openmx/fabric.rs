//! Two hosts and a cable: for each a core that the program runs on, one that the bottom half runs on, and a card.

use std::collections::VecDeque;

use emp_firmware::{
    Completion, CompletionMode, OpKind, Profile, ReceiveDescriptor, Segment, SegmentList, Selector,
    SendDescriptor, Span, Status, Time,
};
use emp_wire::LinkAddress;

use super::parameters::{Network, Parameters};
use crate::card::{Agenda, Engine, HostRam, OutFrame, PAGE_BYTES, Server, node, payload_bytes};

enum Event {
    /// A send reaches the kernel.
    Posted {
        node: u32,
    },
    /// A frame is in the card's ring.
    Arrive {
        node: u32,
        frame: Vec<u8>,
    },
    Interrupt {
        node: u32,
    },
    /// The bottom half is done with a frame.
    Handled {
        node: u32,
        frame: Vec<u8>,
    },
    /// The program sees the ends of so many sends and receives.
    Seen {
        node: u32,
        over: [u32; 2],
    },
    Timer {
        node: u32,
    },
}

struct Host {
    engine: Engine,
    ram: HostRam,
    buffers: [Vec<Segment>; 2],
    program: Server,
    bottom_half: Server,
    wire: Server,
    ring: VecDeque<Vec<u8>>,
    /// An interrupt is to come, or the bottom half is at work: no further one is needed.
    armed: bool,
    out: VecDeque<OutFrame>,
    timer: Time,
    /// Messages sent, received, and whose sends are over.
    sent: u32,
    received: u32,
    ended: u32,
}

/// The pair, and the messages that go from the first to the second (and back, in a ping-pong).
pub(super) struct Fabric {
    hosts: [Host; 2],
    agenda: Agenda<Event>,
    parameters: Parameters,
    network: Network,
    bytes: u64,
    pub(super) now: Time,
    rounds: u32,
    ping_pong: bool,
    failed: bool,
    /// Bytes copied for sends, and for receives.
    pub(super) copied: [u64; 2],
}

/// Longest message that is copied, and longer ones are pinned (O13).
const EAGER_BYTES: u64 = 32 << 10;
/// Sends outstanding in a stream.
const OUTSTANDING: u32 = 4;
const HOST_PAGES: u64 = 1_024;

impl Fabric {
    pub(super) fn new(parameters: &Parameters, network: &Network, bytes: u64) -> Self {
        let host = |index| {
            let mut ram = HostRam::new(HOST_PAGES);
            ram.pin_all();
            let buffers = [ram.buffer(bytes, 0), ram.buffer(bytes, 0)];
            let profile = Profile::OPENMX;
            Host {
                engine: Engine::new(index, profile, network.frame_bytes, LinkAddress::index),
                ram,
                buffers,
                program: Server::default(),
                bottom_half: Server::default(),
                wire: Server::default(),
                ring: VecDeque::new(),
                armed: false,
                out: VecDeque::new(),
                timer: Time::NEVER,
                sent: 0,
                received: 0,
                ended: 0,
            }
        };
        Self {
            hosts: [host(0), host(1)],
            agenda: Agenda::new(),
            parameters: parameters.clone(),
            network: network.clone(),
            bytes,
            now: Time(0),
            rounds: 0,
            ping_pong: true,
            failed: false,
            copied: [0; 2],
        }
    }

    /// Runs so many messages from the first on; says how long they took.
    pub(super) fn run(&mut self, rounds: u32, ping_pong: bool) -> Option<Span> {
        (self.rounds, self.ping_pong) = (rounds, ping_pong);
        let began = self.now;
        for host in &mut self.hosts {
            (host.sent, host.received, host.ended) = (0, 0, 0);
        }
        for node in 0..2 {
            let receives = if ping_pong || node == 1 { rounds } else { 0 };
            (0..receives).for_each(|_| self.receive(node));
        }
        self.go_on(0);
        let end = began + Span::ms(60_000);
        while self.hosts[1].received < rounds || (ping_pong && self.hosts[0].received < rounds) {
            let (now, event) = self.agenda.next()?;
            if now > end || self.failed {
                return None;
            }
            self.now = now;
            self.handle(event);
        }
        Some(self.now.since(began))
    }

    /// Nanoseconds that a node's bottom half was busy, and its program's core.
    pub(super) fn busy(&self, node: usize) -> [u64; 2] {
        let host = &self.hosts[node];
        [host.bottom_half.busy.0, host.program.busy.0]
    }

    fn receive(&mut self, node: u32) {
        let host = &mut self.hosts[node as usize];
        let segments = list(&host.buffers[0]);
        let selector = Selector::bits(1);
        let receive =
            ReceiveDescriptor { endpoint: 0, selector, segments, claim: None, context: 0 };
        self.failed |= host.engine.firmware.post_receive(self.now, receive, &mut host.ram).is_err();
    }

    /// The program of a node sends what is due.
    fn go_on(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        let due = match (self.ping_pong, index) {
            (true, 0) => (host.received + 1).min(self.rounds),
            (true, _) => host.received,
            (false, 0) => (host.ended + OUTSTANDING).min(self.rounds),
            (false, _) => 0,
        };
        while host.sent < due {
            host.sent += 1;
            // The call, and the copy or the pins (O13).
            let moved = if self.bytes <= EAGER_BYTES {
                self.copied[0] += self.bytes;
                self.bytes * self.parameters.copy_byte_ps / 1_000
            } else {
                self.parameters.pin_page.0 * self.bytes.div_ceil(PAGE_BYTES)
            };
            let (_, at) = host.program.serve(self.now, Span(self.parameters.end.0 + moved));
            self.agenda.note(at, Event::Posted { node: index });
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Posted { node } => self.posted(node),
            Event::Arrive { node, frame } => {
                let host = &mut self.hosts[node as usize];
                host.ring.push_back(frame);
                if !core::mem::replace(&mut host.armed, true) {
                    let at = self.now + self.network.coalescing;
                    self.agenda.note(at, Event::Interrupt { node });
                }
            }
            Event::Interrupt { node } => {
                let host = &mut self.hosts[node as usize];
                host.bottom_half.serve(self.now, self.parameters.interrupt);
                self.next_frame(node);
            }
            Event::Handled { node, frame } => self.handled(node, frame),
            Event::Seen { node, over: [sends, receives] } => {
                let host = &mut self.hosts[node as usize];
                host.ended += sends;
                host.received += receives;
                self.go_on(node);
            }
            Event::Timer { node } => {
                let host = &mut self.hosts[node as usize];
                if host.timer <= self.now {
                    host.timer = Time::NEVER;
                    host.engine.timeout(self.now, &mut host.ram);
                    self.pump(node);
                }
            }
        }
    }

    fn posted(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        let send = SendDescriptor {
            to: node(1 - index),
            endpoint: 0,
            to_endpoint: 0,
            match_bits: 1,
            segments: list(&host.buffers[1]),
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Auto,
            context: 0,
        };
        self.failed |= host.engine.firmware.post_send(self.now, send, &mut host.ram).is_err();
        self.pump(index);
    }

    /// The bottom half takes the next frame from the ring, or ends.
    fn next_frame(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        let Some(frame) = host.ring.pop_front() else {
            host.armed = false;
            return;
        };
        let p = &self.parameters;
        let payload = payload_bytes(&frame) as u64;
        let takes = if self.bytes <= EAGER_BYTES || payload == 0 {
            self.copied[1] += payload;
            p.small_frame.0 + payload * p.copy_byte_ps / 1_000
        } else if let Some(page) = p.offload {
            p.large_frame.0 + page.0 * payload.div_ceil(PAGE_BYTES)
        } else {
            self.copied[1] += payload;
            p.large_frame.0 + payload * p.copy_byte_ps / 1_000
        };
        let (_, at) = host.bottom_half.serve(self.now, Span(takes));
        self.agenda.note(at, Event::Handled { node: index, frame });
    }

    fn handled(&mut self, index: u32, frame: Vec<u8>) {
        let host = &mut self.hosts[index as usize];
        host.engine.take(self.now, 1 - index, frame, &mut host.ram);
        self.pump(index);
        self.next_frame(index);
    }

    /// What the engine has to send, and what it has ended.
    fn pump(&mut self, index: u32) {
        let host = &mut self.hosts[index as usize];
        host.engine.drain(self.now, &mut host.ram, &mut host.out);
        let mut at = self.now;
        while let Some(frame) = host.out.pop_front() {
            at = at + self.parameters.send_frame;
            let bytes = 38 + frame.bytes.len().max(46) as u64;
            let (_, out) = host.wire.serve(at, Span(bytes * self.network.byte_ps / 1_000));
            let arrives = out + Span(2 * self.parameters.card.0);
            self.agenda.note(arrives, Event::Arrive { node: 1 - index, frame: frame.bytes });
        }
        let firmware = &mut host.engine.firmware;
        let over: Vec<Completion> = core::iter::from_fn(|| firmware.poll_completion()).collect();
        for over in &over {
            self.failed |= over.status != Status::Ok;
            let receive = over.op.kind() == OpKind::Receive;
            let mut takes = if receive { self.parameters.end.0 } else { 0 };
            if receive && self.bytes <= EAGER_BYTES {
                // Out of the ring that kernel and library share (O15).
                self.copied[1] += self.bytes;
                takes += self.bytes * self.parameters.copy_byte_ps / 1_000;
            }
            let (_, at) = host.program.serve(self.now, Span(takes));
            let over = [u32::from(!receive), u32::from(receive)];
            self.agenda.note(at, Event::Seen { node: index, over });
        }
        if let Some(due) = host.engine.firmware.poll_timeout() {
            let due = due.max(self.now + Span(100));
            if due < host.timer {
                host.timer = due;
                self.agenda.note(due, Event::Timer { node: index });
            }
        }
    }
}

fn list(runs: &[Segment]) -> SegmentList {
    SegmentList::new(runs).unwrap_or_else(|_| SegmentList::empty())
}
