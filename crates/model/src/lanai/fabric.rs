//! Two hosts, a card each, and switches between them.

use emp_firmware::{Completion, Segment};
use emp_firmware::{
    CompletionMode, OpKind, Profile, ReceiveDescriptor, SegmentList, Selector, SendDescriptor,
    Span, Status, Time,
};

use super::card::{Card, Desk};
use super::parameters::{Parameters, SWITCH};
use super::routes::{End, Topology};
use crate::card::{Agenda, HostRam, node};

pub(super) enum Event {
    /// The host has posted.
    Posted {
        node: u32,
        post: Post,
    },
    /// A piece of work is done.
    Worked {
        node: u32,
    },
    /// A packet is wholly on the network.
    Left {
        node: u32,
        frame: Vec<u8>,
    },
    Arrive {
        node: u32,
        frame: Vec<u8>,
    },
    /// A search, or its answer, is where it was to.
    Met {
        node: u32,
        frame: Vec<u8>,
    },
    /// A packet for a node that is not known: it is looked for (V26).
    Search {
        node: u32,
        frame: Vec<u8>,
    },
    Timer {
        node: u32,
    },
    /// The program goes on.
    Look {
        node: u32,
    },
}

/// What a host posts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Post {
    Send,
    Receive,
}

/// What a program does next.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Program {
    /// Messages to send, and to receive.
    pub(super) sends: u32,
    pub(super) receives: u32,
    /// It sends one for each that it received, the first one excepted if it begins.
    pub(super) ping_pong: bool,
    pub(super) begins: bool,
}

struct Host {
    ram: HostRam,
    buffers: [Vec<Segment>; 2],
    program: Program,
    sent: u32,
    received: u32,
    ended: u32,
    posted: u32,
    failed: bool,
    began: Option<Time>,
    finished: Time,
    /// When each message came.
    came: Vec<Time>,
}

pub(super) struct Fabric {
    cards: [Card; 2],
    hosts: [Host; 2],
    agenda: Agenda<Event>,
    parameters: Parameters,
    pub(super) topology: Topology,
    pub(super) now: Time,
    /// Packets on their way that are lost: so many of the next ones with data.
    pub(super) lose: u32,
    /// Node-identity polls that were answered, and that were not.
    pub(super) polls: [u64; 2],
    /// When the last search ended, and how long it took.
    pub(super) mapped: Option<(Time, Span)>,
}

/// Packets that a host lets wait on its card before it posts the next.
const BACKLOG_MAX: usize = 8;
/// Buffers of 4 KB on a card: what is sent and not acknowledged (V2, V10).
const BUFFERS: u32 = 100;
/// Receives that are posted in advance.
const RECEIVES: u32 = 32;
/// Pages of a host's memory: 4 MB.
const HOST_PAGES: u64 = 1_024;

impl Fabric {
    pub(super) fn new(
        parameters: &Parameters,
        profiles: &[Profile; 2],
        bytes: u64,
        programs: [Program; 2],
    ) -> Self {
        let mut agenda = Agenda::new();
        let mut index = 0;
        let hosts = programs.map(|program| {
            agenda.note(Time(0), Event::Look { node: index });
            index += 1;
            let mut ram = HostRam::new(HOST_PAGES);
            ram.pin_all();
            let buffers = [ram.buffer(bytes, 0), ram.buffer(bytes, 0)];
            let (began, finished, came) = (None, Time(0), Vec::new());
            let (sent, received, ended, posted, failed) = (0, 0, 0, 0, false);
            Host {
                ram,
                buffers,
                program,
                sent,
                received,
                ended,
                posted,
                failed,
                began,
                finished,
                came,
            }
        });
        let cards = [0, 1]
            .map(|index| Card::new(parameters.clone(), profiles[index as usize].clone(), index));
        Self {
            cards,
            hosts,
            agenda,
            parameters: parameters.clone(),
            topology: Topology::row(1),
            now: Time(0),
            lose: 0,
            polls: [0; 2],
            mapped: None,
        }
    }

    /// Runs until both programs have done what they were to, or to `until`. True: they have.
    pub(super) fn run(&mut self, until: Time) -> bool {
        while !self.hosts.iter().all(Host::is_done) {
            let Some((now, event)) = self.agenda.next() else { return false };
            if now > until {
                return false;
            }
            self.now = now;
            self.handle(event);
        }
        !self.hosts.iter().any(|host| host.failed)
    }

    /// Has the programs go on, with so many more messages.
    pub(super) fn go_on(&mut self, programs: [Program; 2]) {
        for (node, (host, program)) in self.hosts.iter_mut().zip(programs).enumerate() {
            host.program = program;
            (host.sent, host.received, host.ended, host.posted) = (0, 0, 0, 0);
            (host.began, host.came) = (None, Vec::new());
            self.agenda.note(self.now, Event::Look { node: node as u32 });
        }
    }

    /// From the first post of either to the last end of both.
    pub(super) fn elapsed(&self) -> Span {
        let began = self.hosts.iter().filter_map(|host| host.began).min();
        let finished = self.hosts.iter().map(|host| host.finished).max();
        finished.unwrap_or_default().since(began.unwrap_or_default())
    }

    pub(super) fn acks(&self) -> u64 {
        self.cards.iter().map(|card| card.acks).sum()
    }

    /// The last number of a packet that came to a node.
    #[cfg(test)]
    pub(super) fn last_number(&self, node: usize) -> u32 {
        self.cards[node].numbers.last()
    }

    /// When each message came to a node.
    pub(super) fn came(&self, node: usize) -> &[Time] {
        &self.hosts[node].came
    }

    fn handle(&mut self, event: Event) {
        let index = match &event {
            Event::Posted { node, .. }
            | Event::Worked { node }
            | Event::Left { node, .. }
            | Event::Arrive { node, .. }
            | Event::Met { node, .. }
            | Event::Search { node, .. }
            | Event::Timer { node }
            | Event::Look { node } => *node,
        };
        let (card, host) = (&mut self.cards[index as usize], &mut self.hosts[index as usize]);
        let (now, agenda) = (self.now, &mut self.agenda);
        let mut desk = Desk { now, index, agenda, ram: &mut host.ram };
        let over = match event {
            Event::Posted { post, .. } => {
                host.failed |= !give(card, post, &host.buffers, &mut desk);
                card.pump(&mut desk)
            }
            Event::Worked { .. } => card.worked(&mut desk),
            Event::Arrive { frame, .. } => card.arrived(frame, &mut desk),
            Event::Met { frame, .. } => card.met(frame, &mut desk),
            Event::Timer { .. } => card.timer(&mut desk),
            Event::Left { frame, .. } => return self.carry(index, frame),
            Event::Search { frame, .. } => return self.search(index, frame),
            Event::Look { .. } => return self.look(index),
        };
        self.tell(index, &over);
    }

    /// The host sees the ends of operations with its next poll.
    fn tell(&mut self, index: u32, over: &[Completion]) {
        let host = &mut self.hosts[index as usize];
        for over in over {
            host.failed |= over.status != Status::Ok;
            match over.op.kind() {
                OpKind::Send => host.ended += 1,
                OpKind::Receive => {
                    host.received += 1;
                    host.came.push(self.now);
                }
                _ => continue,
            }
            let sees = self.now + self.parameters.poll;
            host.finished = sees;
            self.agenda.note(sees, Event::Look { node: index });
        }
        // Who waits for room on its card looks there.
        if !host.is_done() && !host.program.ping_pong && over.is_empty() && host.may_send() {
            self.look(index);
        }
    }

    /// A packet goes through the switches, if its route leads to its node.
    fn carry(&mut self, from: u32, frame: Vec<u8>) {
        let route = self.cards[from as usize].route.clone().unwrap_or_default();
        let to = 1 - from;
        let lost = self.topology.follow(from, &route) != End::Node(to);
        if lost || self.lose > 0 {
            self.lose = self.lose.saturating_sub(1);
            return;
        }
        let delay = Span(SWITCH.0 * route.len() as u64);
        self.agenda.note(self.now + delay, Event::Arrive { node: to, frame });
    }

    /// Asks along ever longer routes until the node is found; the packet follows then. Both cards know the route from then on (V26).
    fn search(&mut self, from: u32, frame: Vec<u8>) {
        let to = 1 - from;
        let (route, [answered, silent]) = self.topology.find(from, to);
        self.polls[0] += answered;
        self.polls[1] += silent;
        let p = &self.parameters;
        let answer = 2 * (2 * p.packet.0 + SWITCH.0);
        let takes = Span(answered * answer + silent * p.probe_timeout.0);
        let known =
            self.cards[from as usize].route.is_some() && route == self.cards[from as usize].route;
        let takes = if known { Span(answer / 2) } else { takes };
        if !known {
            self.mapped = Some((self.now + takes, takes));
        }
        if route.is_none() {
            return;
        }
        self.cards[from as usize].route = route;
        self.cards[to as usize].route = self.topology.find(to, from).0;
        self.agenda.note(self.now + takes, Event::Met { node: to, frame });
    }

    fn look(&mut self, index: u32) {
        let backlog = self.cards[index as usize].backlog();
        let host = &mut self.hosts[index as usize];
        let mut at = self.now;
        // What is posted in advance takes no time that counts.
        while host.posted < host.program.receives && host.posted < host.received + RECEIVES {
            host.posted += 1;
            self.agenda.note(self.now, Event::Posted { node: index, post: Post::Receive });
        }
        let mut room = BACKLOG_MAX.saturating_sub(backlog);
        while room > 0 && host.may_send() {
            room -= 1;
            host.sent += 1;
            host.began.get_or_insert(at);
            at = at + self.parameters.post;
            self.agenda.note(at, Event::Posted { node: index, post: Post::Send });
        }
    }
}

impl Host {
    fn is_done(&self) -> bool {
        self.received == self.program.receives && self.ended >= self.program.sends
    }

    fn may_send(&self) -> bool {
        let Program { sends, ping_pong, begins, .. } = self.program;
        let bytes: u64 = self.buffers[1].iter().map(|run| run.bytes).sum();
        let outstanding = (BUFFERS / (bytes / 4_096 + 1) as u32).clamp(1, 16);
        let due =
            if ping_pong { self.received + u32::from(begins) } else { self.ended + outstanding };
        self.sent < sends.min(due)
    }
}

/// Gives a post to the engine. False: it was refused.
fn give(card: &mut Card, post: Post, buffers: &[Vec<Segment>; 2], desk: &mut Desk<'_>) -> bool {
    let [into, from] = buffers;
    let list = |runs: &[Segment]| SegmentList::new(runs).unwrap_or_else(|_| SegmentList::empty());
    let firmware = &mut card.engine.firmware;
    match post {
        Post::Send => {
            let send = SendDescriptor {
                to: node(1 - desk.index),
                endpoint: 0,
                to_endpoint: 0,
                match_bits: 1,
                segments: list(from),
                immediate: None,
                synchronous: false,
                completion: CompletionMode::Auto,
                context: 0,
            };
            firmware.post_send(desk.now, send, desk.ram).is_ok()
        }
        Post::Receive => {
            let receive = ReceiveDescriptor {
                endpoint: 0,
                selector: Selector::bits(1),
                segments: list(into),
                claim: None,
                context: 0,
            };
            firmware.post_receive(desk.now, receive, desk.ram).is_ok()
        }
    }
}
