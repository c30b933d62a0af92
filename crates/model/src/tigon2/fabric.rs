//! Two hosts with a card each, and a cable between them (E54, E56).

use emp_firmware::{Profile, Time};

use super::card::{Card, Desk, Usage};
use super::host::{Host, Next, Port, Program};
use super::parameters::Parameters;
use super::placement::Placement;
use crate::card::Agenda;

pub(super) enum Event {
    /// A descriptor is in the card's memory.
    Posted { node: u32, descriptor: usize },
    /// A step of a processor may be over.
    Worked { node: u32, generation: u64 },
    /// A frame's last bit.
    Arrive { node: u32, frame: Vec<u8> },
    /// A descriptor is the host's again.
    Flip { node: u32, descriptor: usize, bytes: u32, ok: bool },
    /// The engine has something to do.
    Timer { node: u32 },
    /// The host's program goes on.
    Look { node: u32 },
}

struct Node<P> {
    card: Card,
    host: Host,
    program: P,
}

/// The pair.
pub(super) struct Fabric<P> {
    nodes: [Node<P>; 2],
    agenda: Agenda<Event>,
    pub(super) now: Time,
    /// Frames that arrived with more than an acknowledgement, to be lost: the numbers of those to drop.
    pub(super) drops: Vec<u64>,
    arrived: u64,
}

/// Pages of a host's memory: 16 MB.
const HOST_PAGES: u64 = 4_096;

impl<P: Program> Fabric<P> {
    pub(super) fn new(parameters: &Parameters, placement: Placement, programs: [P; 2]) -> Self {
        let mut agenda = Agenda::new();
        let mut index = 0;
        let nodes = programs.map(|program| {
            let card = Card::new(parameters.clone(), placement, Profile::EMP2001, index);
            agenda.note(Time(0), Event::Look { node: index });
            index += 1;
            Node { card, host: Host::new(HOST_PAGES), program }
        });
        Self { nodes, agenda, now: Time(0), drops: Vec::new(), arrived: 0 }
    }

    /// Runs until both programs have ended, or to `until`. True: they have.
    pub(super) fn run(&mut self, until: Time) -> bool {
        while !self.nodes.iter().all(|node| node.host.next == Next::End) {
            let Some((now, event)) = self.agenda.next() else { return false };
            if now > until {
                return false;
            }
            self.now = now;
            self.handle(event);
        }
        true
    }

    pub(super) fn program(&self, node: usize) -> &P {
        &self.nodes[node].program
    }

    pub(super) fn usage(&self, node: usize) -> Usage {
        self.nodes[node].card.usage()
    }

    fn handle(&mut self, event: Event) {
        let now = self.now;
        let index = match event {
            Event::Posted { node, .. }
            | Event::Worked { node, .. }
            | Event::Arrive { node, .. }
            | Event::Flip { node, .. }
            | Event::Timer { node }
            | Event::Look { node } => node,
        };
        let Node { card, host, program } = &mut self.nodes[index as usize];
        let mut desk = Desk { now, index, agenda: &mut self.agenda, ram: &mut host.ram };
        match event {
            Event::Posted { descriptor, .. } => card.posted(descriptor, &mut desk),
            Event::Worked { generation, .. } => card.worked(generation, &mut desk),
            Event::Arrive { frame, .. } => {
                self.arrived += 1;
                if !self.drops.contains(&self.arrived) {
                    card.arrived(frame, &mut desk);
                }
            }
            Event::Timer { .. } => card.timer(&mut desk),
            Event::Flip { descriptor, bytes, ok, .. } => {
                card.descriptors.complete(descriptor, bytes, ok);
                if host.next == Next::Poll {
                    let sees = host.sees(now, &card.parameters);
                    self.agenda.note(sees, Event::Look { node: index });
                }
            }
            Event::Look { .. } => {
                let waits = matches!(host.next, Next::Compute(until) if until > now);
                if host.next == Next::End || waits {
                    return;
                }
                let ram = &mut host.ram;
                let mut port = Port { now, index, card, ram, agenda: &mut self.agenda };
                host.next = program.step(&mut port);
                host.since = port.now;
                match host.next {
                    Next::Compute(until) => {
                        self.agenda.note(until.max(host.since), Event::Look { node: index });
                    }
                    // What the card has written while the program was at work is seen by the first poll.
                    Next::Poll if host.since > now => {
                        let first = host.since + card.parameters.poll;
                        self.agenda.note(first, Event::Look { node: index });
                    }
                    Next::Poll | Next::End => {}
                }
            }
        }
    }
}
