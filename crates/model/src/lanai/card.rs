//! The card: one processor that does one thing after the other, waiting for the host's DMA that it has started, while packets come and go.

use std::collections::VecDeque;

use emp_firmware::{Completion, Profile, Span, Time};
use emp_wire::LinkAddress;

use super::fabric::Event;
use super::numbers::{self, Numbers};
use super::parameters::{LINK_BYTE_PS, PACKET_BYTES, Parameters};
use crate::card::{Agenda, Class, Engine, HostRam, OutFrame, Server, payload_bytes};

pub(super) struct Desk<'a> {
    pub(super) now: Time,
    pub(super) index: u32,
    pub(super) agenda: &'a mut Agenda<Event>,
    pub(super) ram: &'a mut HostRam,
}

/// What the processor works on.
pub(super) enum Work {
    Send(OutFrame),
    Receive(Vec<u8>),
    SendAck(OutFrame),
    ReceiveAck(Vec<u8>),
}

pub(super) struct Card {
    parameters: Parameters,
    pub(super) engine: Engine,
    queue: VecDeque<Work>,
    busy: bool,
    /// Packets to send, one at a time between what else there is.
    packets: VecDeque<OutFrame>,
    sending: bool,
    out: VecDeque<OutFrame>,
    /// Between card and network.
    net_out: Server,
    /// The route to the other node, once it is found.
    pub(super) route: Option<Vec<u8>>,
    timer: Time,
    pub(super) numbers: Numbers,
    /// Acknowledgements that were packets of their own.
    pub(super) acks: u64,
}

impl Card {
    pub(super) fn new(parameters: Parameters, profile: Profile, index: u32) -> Self {
        let frame_bytes_max = PACKET_BYTES + emp_wire::HEADER_BYTES;
        // Links push back when a receiver is full, as memory does: such addresses have no congestion window, and VMMC-2 has none.
        let address = |index| LinkAddress::shm(u64::from(index) + 1);
        Self {
            parameters,
            engine: Engine::new(index, profile, frame_bytes_max, address),
            queue: VecDeque::new(),
            busy: false,
            packets: VecDeque::new(),
            sending: false,
            out: VecDeque::new(),
            net_out: Server::default(),
            route: None,
            timer: Time::NEVER,
            numbers: Numbers::default(),
            acks: 0,
        }
    }

    /// Packets that wait to be sent.
    pub(super) fn backlog(&self) -> usize {
        self.packets.len()
    }

    /// Who was looked for, or an answer to that, is here.
    pub(super) fn met(&mut self, frame: Vec<u8>, desk: &mut Desk<'_>) -> Vec<Completion> {
        self.engine.take(desk.now, 1 - desk.index, frame, desk.ram);
        self.pump(desk)
    }

    /// A packet's last byte is here.
    pub(super) fn arrived(&mut self, mut frame: Vec<u8>, desk: &mut Desk<'_>) -> Vec<Completion> {
        self.numbers.widen(&mut frame);
        match Class::of(&frame) {
            Class::Contact => return self.met(frame, desk),
            Class::Data => self.queue.push_back(Work::Receive(frame)),
            Class::Ack | Class::Control => self.queue.push_back(Work::ReceiveAck(frame)),
        }
        self.start(desk);
        Vec::new()
    }

    /// What the host has posted is to be sent.
    pub(super) fn pump(&mut self, desk: &mut Desk<'_>) -> Vec<Completion> {
        self.engine.drain(desk.now, desk.ram, &mut self.out);
        while let Some(frame) = self.out.pop_front() {
            match frame.class {
                Class::Contact => {
                    desk.agenda
                        .note(desk.now, Event::Search { node: desk.index, frame: frame.bytes });
                }
                Class::Data => self.packets.push_back(frame),
                Class::Ack | Class::Control => self.queue.push_back(Work::SendAck(frame)),
            }
        }
        self.next_packet();
        self.start(desk);
        if let Some(due) = self.engine.firmware.poll_timeout() {
            let due = due.max(desk.now + Span(100));
            if due < self.timer {
                self.timer = due;
                desk.agenda.note(due, Event::Timer { node: desk.index });
            }
        }
        let firmware = &mut self.engine.firmware;
        core::iter::from_fn(|| firmware.poll_completion()).collect()
    }

    pub(super) fn timer(&mut self, desk: &mut Desk<'_>) -> Vec<Completion> {
        if self.timer > desk.now {
            return Vec::new();
        }
        self.timer = Time::NEVER;
        self.engine.timeout(desk.now, desk.ram);
        self.pump(desk)
    }

    fn next_packet(&mut self) {
        if !self.sending
            && let Some(frame) = self.packets.pop_front()
        {
            self.sending = true;
            self.queue.push_back(Work::Send(frame));
        }
    }

    /// Begins the next piece of work: notes when it ends.
    fn start(&mut self, desk: &mut Desk<'_>) {
        if self.busy {
            return;
        }
        let Some(work) = self.queue.front() else { return };
        self.busy = true;
        let p = &self.parameters;
        let packet = p.packet.0 + p.reliable.0;
        let takes = Span(match work {
            Work::Send(frame) => packet + self.host_dma(frame.payload),
            Work::Receive(frame) => packet + self.host_dma(payload_bytes(frame)),
            Work::SendAck(_) | Work::ReceiveAck(_) => p.ack.0,
        });
        desk.agenda.note(desk.now + takes, Event::Worked { node: desk.index });
    }

    /// Between host and card, in nanoseconds. A packet leaves as it is fetched (V34). That packets come meanwhile costs nothing here: the memory
    /// serves two engines at full speed (V3), and slowing all three down takes a tenth off what the paper measured both ways at a time.
    fn host_dma(&self, bytes: usize) -> u64 {
        bytes as u64 * self.parameters.host_byte_ps / 1_000
    }

    /// A piece of work is done.
    pub(super) fn worked(&mut self, desk: &mut Desk<'_>) -> Vec<Completion> {
        self.busy = false;
        match self.queue.pop_front() {
            Some(Work::Send(frame)) => {
                self.sending = false;
                // It has left for the most part while it was fetched; what is left is as long as the link is behind (V34: 4 KB back and forth).
                let (_, end) = self.net_out.serve(desk.now, Span(0));
                leave(frame.bytes, end, desk);
                self.next_packet();
            }
            Some(Work::SendAck(frame)) => {
                self.acks += 1;
                let (_, end) = self.net_out.serve(desk.now, link_time(frame.bytes.len()));
                leave(frame.bytes, end, desk);
            }
            Some(Work::Receive(frame) | Work::ReceiveAck(frame)) => {
                self.engine.take(desk.now, 1 - desk.index, frame, desk.ram);
            }
            None => {}
        }
        self.pump(desk)
    }
}

/// A packet is on the network wholly at `end`.
fn leave(mut frame: Vec<u8>, end: Time, desk: &mut Desk<'_>) {
    numbers::narrow(&mut frame);
    desk.agenda.note(end, Event::Left { node: desk.index, frame });
}

/// What a packet takes on a link.
pub(super) fn link_time(bytes: usize) -> Span {
    Span(bytes as u64 * LINK_BYTE_PS / 1_000)
}
