//! The card: what it does with descriptors, frames and the stages of its firmware.

use std::collections::VecDeque;

use emp_firmware::{
    Completion, CompletionMode, Counter, HostMemory, OpKind, Profile, ReceiveDescriptor, Segment,
    SegmentList, Selector, SendDescriptor, Span, Status, Time,
};
use emp_wire::{LinkAddress, NodeId};

use super::descriptor::{ANYONE, Descriptors, ENTRY_BYTES, Transfer, read_entry};
use super::dma::{Direction, Dma};
use super::fabric::Event;
use super::parameters::{MAC_STARTS_AT, MTU, Parameters, WIRE_BYTE_NS};
use super::placement::{Placement, Processor, Stage};
use super::processors::{Job, Processors};
use super::sram::ReceiveBuffers;
use crate::card::{Agenda, Class, Engine, HostRam, OutFrame, Server, node, payload_bytes};

/// What surrounds a card when something happens.
pub(super) struct Desk<'a> {
    pub(super) now: Time,
    pub(super) index: u32,
    pub(super) agenda: &'a mut Agenda<Event>,
    pub(super) ram: &'a mut HostRam,
}

/// A frame that was taken, until its bytes are with the host.
struct Taken {
    payload: usize,
    runs: u32,
    /// Ends of operations that the host may see when they are.
    over: Vec<Completion>,
    written: Time,
}

/// What a processor works on.
enum Work {
    Post(usize),
    Fragment,
    Transmit(OutFrame),
    Transmitted,
    AckArrival(Vec<u8>),
    AckRelease(Vec<u8>),
    Bookkeeping(Vec<u8>),
    Frame(Taken),
    Dma(Taken),
    SendAck(OutFrame),
    Signal(Box<(Stage, Work)>),
}

/// What a card has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Frames with payload that it sent.
    pub data_frames: u64,
    /// Acknowledgements that it sent.
    pub acks: u64,
    /// Nanoseconds that each processor worked.
    pub processor_ns: [u64; 2],
    /// Nanoseconds that the PCI bus was busy.
    pub pci_ns: u64,
    /// Nanoseconds that the wire was busy.
    pub wire_ns: u64,
    /// Events of one processor for the other.
    pub signals: u64,
    /// Frames for which there was no receive buffer.
    pub dropped: u64,
    /// Times that messages found no receive posted (E20).
    pub unposted: u64,
    /// Most receive buffers that were used at a time.
    pub receive_buffers: usize,
}

pub(super) struct Card {
    pub(super) parameters: Parameters,
    placement: Placement,
    pub(super) descriptors: Descriptors,
    engine: Engine,
    processors: Processors<Work>,
    /// Counts what was noted of the processors, so that older notes are known.
    generation: u64,
    dma: Dma,
    wire: Server,
    buffers: ReceiveBuffers,
    out: VecDeque<OutFrame>,
    /// Frames to be cut off their messages and sent, one at a time (E19).
    frames: VecDeque<OutFrame>,
    fragmenting: bool,
    timer: Time,
    usage: Usage,
}

impl Card {
    pub(super) fn new(
        parameters: Parameters,
        placement: Placement,
        profile: Profile,
        index: u32,
    ) -> Self {
        Self {
            placement,
            descriptors: Descriptors::new(),
            engine: Engine::new(index, profile, MTU, LinkAddress::index),
            processors: Processors::new(parameters.contention),
            generation: 0,
            dma: Dma::default(),
            wire: Server::default(),
            buffers: ReceiveBuffers::default(),
            out: VecDeque::new(),
            frames: VecDeque::new(),
            fragmenting: false,
            timer: Time::NEVER,
            usage: Usage::default(),
            parameters,
        }
    }

    pub(super) fn usage(&self) -> Usage {
        let busy = |on| self.processors.busy(on).0;
        Usage {
            processor_ns: [busy(Processor::A), busy(Processor::B)],
            pci_ns: self.dma.bus_busy().0,
            wire_ns: self.wire.busy.0,
            dropped: self.buffers.dropped,
            receive_buffers: self.buffers.peak,
            unposted: self.engine.firmware.counters().get(Counter::Unexpected),
            ..self.usage
        }
    }

    // ---- events ----

    /// The host has posted a descriptor. A receive is only noted: Table 1 counts that as a part of receive bookkeeping (I4).
    pub(super) fn posted(&mut self, descriptor: usize, desk: &mut Desk<'_>) {
        let transfer = self.descriptors.read(descriptor);
        if !transfer.receive {
            let takes =
                self.parameters.stage(Stage::SendBookkeeping).0 - self.parameters.fragment.0;
            self.push(
                Stage::SendBookkeeping,
                Job::plain(Span(takes), Work::Post(descriptor)),
                desk,
            );
            return;
        }
        let selector = Selector {
            from: if transfer.node == ANYONE { NodeId::ANY } else { node(transfer.node.into()) },
            ..Selector::bits(transfer.tag.into())
        };
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector,
            segments: self.segments(&transfer, desk),
            claim: None,
            context: descriptor as u64,
        };
        let posted = self.engine.firmware.post_receive(desk.now, receive, desk.ram);
        if posted.is_err() {
            self.flip(descriptor, 0, false, desk.now, desk);
        }
        self.pump(None, false, desk);
    }

    /// A frame's last bit is here, and its CRC is good (I5).
    pub(super) fn arrived(&mut self, frame: Vec<u8>, desk: &mut Desk<'_>) {
        let class = Class::of(&frame);
        if class == Class::Contact {
            self.engine.take(desk.now, 1 - desk.index, frame, desk.ram);
            self.pump(None, false, desk);
            return;
        }
        if !self.buffers.take() {
            return;
        }
        let (stage, work) = match class {
            Class::Data => (Stage::ReceiveBookkeeping, Work::Bookkeeping(frame)),
            _ => (Stage::ReceiveAckArrival, Work::AckArrival(frame)),
        };
        let takes = self.parameters.stage(stage);
        self.push(stage, Job::plain(takes, work), desk);
    }

    /// A timer of the engine may be due.
    pub(super) fn timer(&mut self, desk: &mut Desk<'_>) {
        if self.timer > desk.now {
            return;
        }
        self.timer = Time::NEVER;
        self.engine.timeout(desk.now, desk.ram);
        self.pump(None, false, desk);
    }

    /// A step of a processor may be over.
    pub(super) fn worked(&mut self, generation: u64, desk: &mut Desk<'_>) {
        if generation != self.generation {
            return;
        }
        while let Some((on, work)) = self.processors.finish(desk.now) {
            self.done(on, work, desk);
            self.processors.resume(on);
        }
        self.note_processors(desk);
    }

    // ---- stages ----

    fn done(&mut self, on: Processor, work: Work, desk: &mut Desk<'_>) {
        match work {
            Work::Post(descriptor) => self.post(on, descriptor, desk),
            Work::Fragment => self.fragmented(on, desk),
            Work::Transmit(frame) => {
                self.hand_over(frame, desk);
                let rest = Job::plain(self.parameters.after_handover, Work::Transmitted);
                self.processors.push_first(desk.now, on, rest);
            }
            Work::Transmitted => {}
            Work::AckArrival(frame) => {
                self.go_on(on, Stage::ReceiveAckRelease, Work::AckRelease(frame), desk);
            }
            Work::AckRelease(frame) => {
                self.buffers.free();
                self.engine.take(desk.now, 1 - desk.index, frame, desk.ram);
                self.pump(Some(on), false, desk);
            }
            Work::Bookkeeping(frame) => self.take(on, frame, desk),
            Work::Frame(taken) => self.begin_dma(on, taken, desk),
            Work::Dma(taken) => {
                self.buffers.free();
                let at = taken.written.max(desk.now);
                for over in taken.over {
                    self.tell(&over, at, desk);
                }
            }
            Work::SendAck(frame) => {
                self.usage.acks += 1;
                self.send(frame.bytes, desk.now, desk);
            }
            Work::Signal(what) => {
                let (stage, work) = *what;
                self.usage.signals += 1;
                let free = self.stage_of(stage);
                let job = Job { locked: self.parameters.notice, free, work };
                self.processors.push(desk.now, self.placement.place(stage), job);
            }
        }
    }

    /// The time of a stage until what it is for is done.
    fn stage_of(&self, stage: Stage) -> Span {
        let takes = self.parameters.stage(stage);
        match stage {
            Stage::Transmission => Span(takes.0 - self.parameters.after_handover.0),
            _ => takes,
        }
    }

    /// A message is given to the engine.
    fn post(&mut self, on: Processor, descriptor: usize, desk: &mut Desk<'_>) {
        let transfer = self.descriptors.read(descriptor);
        let send = SendDescriptor {
            to: node(transfer.node.into()),
            endpoint: 0,
            to_endpoint: 0,
            match_bits: transfer.tag.into(),
            segments: self.segments(&transfer, desk),
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Delivered,
            context: descriptor as u64,
        };
        if self.engine.firmware.post_send(desk.now, send, desk.ram).is_err() {
            self.flip(descriptor, 0, false, desk.now, desk);
        }
        self.pump(Some(on), false, desk);
    }

    /// The pages of a transfer; of a long one they are fetched (E44).
    fn segments(&mut self, transfer: &Transfer, desk: &mut Desk<'_>) -> SegmentList {
        if !transfer.long {
            // At most seven: they fit.
            return SegmentList::new(&transfer.pages).unwrap_or_else(|_| SegmentList::empty());
        }
        let list = transfer.pages.first().copied().unwrap_or_default();
        let mut entries = vec![0; list.bytes as usize];
        let read = desk.ram.read(Segment { bytes: entries.len() as u64, ..list }, &mut entries);
        self.dma.transfer(desk.now, Direction::FromHost, (entries.len(), 1), &self.parameters);
        let pages: Vec<_> = entries.chunks_exact(ENTRY_BYTES).map(read_entry).collect();
        match read {
            Ok(()) => SegmentList::new(&pages).unwrap_or_else(|_| SegmentList::empty()),
            Err(_) => SegmentList::empty(),
        }
    }

    /// A frame has been cut off its message: on to transmission, and to the next.
    fn fragmented(&mut self, on: Processor, desk: &mut Desk<'_>) {
        self.fragmenting = false;
        if let Some(frame) = self.frames.pop_front() {
            self.hand_on(on, Stage::Transmission, Work::Transmit(frame), false, desk);
        }
        self.fragment(desk);
    }

    fn fragment(&mut self, desk: &mut Desk<'_>) {
        if !self.fragmenting && !self.frames.is_empty() {
            self.fragmenting = true;
            let job = Job::plain(self.parameters.fragment, Work::Fragment);
            self.push(Stage::SendBookkeeping, job, desk);
        }
    }

    /// DMA assist has a frame: it fetches the payload and has the MAC send it, which begins before all is here (I2).
    fn hand_over(&mut self, frame: OutFrame, desk: &mut Desk<'_>) {
        self.usage.data_frames += 1;
        let (moved, p) = ((frame.payload, frame.runs), &self.parameters);
        let (start, end) = self.dma.transfer(desk.now, Direction::FromHost, moved, p);
        let first = p.pci_time(frame.payload.min(MAC_STARTS_AT as usize));
        let first = Span(p.dma_setup.0 + first.0);
        // It may not run dry: it begins at the earliest when the rest comes as fast as it leaves.
        let leaves = Span(frame.payload as u64 * WIRE_BYTE_NS);
        let earliest = (start + first).max(end - leaves.min(end.since(start)));
        self.send(frame.bytes, earliest, desk);
    }

    /// Puts a frame on the wire, not before `earliest`.
    fn send(&mut self, bytes: Vec<u8>, earliest: Time, desk: &mut Desk<'_>) {
        let (_, end) = self.wire.serve(earliest, Span(wire_bytes(bytes.len()) * WIRE_BYTE_NS));
        // The gap after it is nobody's to wait for.
        let last_bit = end - Span(GAP_BYTES * WIRE_BYTE_NS);
        desk.agenda.note(last_bit, Event::Arrive { node: 1 - desk.index, frame: bytes });
    }

    /// An arriving frame is classified: the engine takes it, and its payload's DMA is known.
    fn take(&mut self, on: Processor, frame: Vec<u8>, desk: &mut Desk<'_>) {
        let payload = payload_bytes(&frame);
        desk.ram.take_writes();
        self.engine.take(desk.now, 1 - desk.index, frame, desk.ram);
        let runs = desk.ram.take_writes();
        let firmware = &mut self.engine.firmware;
        let over = core::iter::from_fn(|| firmware.poll_completion()).collect();
        let taken = Taken { payload, runs, over, written: Time(0) };
        // An acknowledgement leaves when its collection is known to be complete, before the last frame's DMA (Table 2: RO). What the other
        // processor is told comes first: it works meanwhile.
        if self.placement.place(Stage::ReceiveFrame) == on {
            self.go_on(on, Stage::ReceiveFrame, Work::Frame(taken), desk);
            self.pump(Some(on), true, desk);
        } else {
            self.pump(Some(on), true, desk);
            self.go_on(on, Stage::ReceiveFrame, Work::Frame(taken), desk);
        }
    }

    fn begin_dma(&mut self, on: Processor, mut taken: Taken, desk: &mut Desk<'_>) {
        if taken.runs > 0 {
            let moved = (taken.payload, taken.runs);
            taken.written =
                self.dma.transfer(desk.now, Direction::ToHost, moved, &self.parameters).1;
        }
        self.go_on(on, Stage::ReceiveDma, Work::Dma(taken), desk);
    }

    /// Goes on with a frame, on this processor before anything else.
    fn go_on(&mut self, on: Processor, stage: Stage, work: Work, desk: &mut Desk<'_>) {
        self.hand_on(on, stage, work, true, desk);
    }

    /// Has a stage done where it is placed. If that is the other processor, this one tells it (I15).
    fn hand_on(
        &mut self,
        on: Processor,
        stage: Stage,
        work: Work,
        at_once: bool,
        desk: &mut Desk<'_>,
    ) {
        let place = self.placement.place(stage);
        if place != on {
            let work = Work::Signal(Box::new((stage, work)));
            let job = Job { locked: self.parameters.signal, free: Span(0), work };
            self.processors.push_first(desk.now, on, job);
            return;
        }
        let job = Job::plain(self.stage_of(stage), work);
        if at_once {
            self.processors.push_first(desk.now, on, job);
        } else {
            self.processors.push(desk.now, on, job);
        }
    }

    fn push(&mut self, stage: Stage, job: Job<Work>, desk: &mut Desk<'_>) {
        self.processors.push(desk.now, self.placement.place(stage), job);
        self.note_processors(desk);
    }

    fn note_processors(&mut self, desk: &mut Desk<'_>) {
        self.generation += 1;
        if let Some(at) = self.processors.next() {
            desk.agenda.note(at, Event::Worked { node: desk.index, generation: self.generation });
        }
    }

    /// Everything that the engine has to say after it was called on a processor (or outside of any stage).
    fn pump(&mut self, on: Option<Processor>, at_once: bool, desk: &mut Desk<'_>) {
        self.engine.drain(desk.now, desk.ram, &mut self.out);
        while let Some(frame) = self.out.pop_front() {
            match frame.class {
                Class::Contact => self.send(frame.bytes, desk.now, desk),
                Class::Data => self.frames.push_back(frame),
                Class::Ack | Class::Control => {
                    let from = on.unwrap_or(self.placement.place(Stage::SendAck));
                    self.hand_on(from, Stage::SendAck, Work::SendAck(frame), at_once, desk);
                }
            }
        }
        self.fragment(desk);
        while let Some(over) = self.engine.firmware.poll_completion() {
            self.tell(&over, desk.now, desk);
        }
        self.note_processors(desk);
        if let Some(due) = self.engine.firmware.poll_timeout() {
            let due = due.max(desk.now + Span(100));
            if due < self.timer {
                self.timer = due;
                desk.agenda.note(due, Event::Timer { node: desk.index });
            }
        }
    }

    /// The host is to see the end of an operation, from then on.
    fn tell(&mut self, over: &Completion, at: Time, desk: &mut Desk<'_>) {
        if matches!(over.op.kind(), OpKind::Send | OpKind::Receive) {
            let ok = over.status == Status::Ok;
            self.flip(over.context as usize, over.bytes as u32, ok, at, desk);
        }
    }

    fn flip(&mut self, descriptor: usize, bytes: u32, ok: bool, at: Time, desk: &mut Desk<'_>) {
        desk.agenda.note(at, Event::Flip { node: desk.index, descriptor, bytes, ok });
    }
}

/// Bytes that have to pass between two frames.
const GAP_BYTES: u64 = 12;

/// Bytes of a frame on the wire: preamble, header, at least 46 bytes, CRC, gap.
fn wire_bytes(frame: usize) -> u64 {
    8 + 14 + (frame as u64).max(46) + 4 + GAP_BYTES
}
