//! A peer that lies about puts, gets and atomics, in sequence and with right checksums: nothing but what was exported for
//! writing changes, nothing is written after a region was removed, and in the end the liar is given up and nothing is held.

use std::ops::Range;

use crate::support::forger::{Forger, body};
use emp_firmware::{
    AtomicDescriptor, AtomicOp, CompletionMode, Config, Datatype, Firmware, GetDescriptor,
    HostMemory, LinkIndex, LinkInfo, MemoryFault, Profile, PutDescriptor, RemoteRegion, Rights,
    Segment, SegmentList, Span, Time, TransmitBatch,
};
use emp_model::Prng;
use emp_wire::{
    Atomic, Checksum, Flags, Get, Header, Kind, Largest, LinkAddress, LongPart, NodeId, Put, Target,
};

const LINK: LinkIndex = LinkIndex(0);
const LIAR: LinkAddress = LinkAddress::index(1);
const LIAR_ID: NodeId = NodeId(0x5555);

/// What may be written by others, what may only be read, and where the victim's own gets go.
const WRITABLE: Range<usize> = 1_000..9_000;
const READABLE: Range<usize> = 20_000..21_000;
const FETCHED: Range<usize> = 30_000..50_000;

/// Keys of the regions.
const KEYS: [u64; 2] = [1, 2];

/// One run of bytes. All of it can be reached: what must not be is told by its contents.
struct Memory(Vec<u8>);

impl Memory {
    fn range(of: Segment) -> Range<usize> {
        of.address as usize..(of.address + of.bytes) as usize
    }
}

impl HostMemory for Memory {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        into.copy_from_slice(&self.0[Self::range(from)]);
        Ok(())
    }

    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        self.0[Self::range(to)].copy_from_slice(from);
        Ok(())
    }

    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        sum.update(&self.0[Self::range(of)]);
        Ok(())
    }
}

fn segment(of: &Range<usize>) -> Segment {
    Segment { address: of.start as u64, bytes: of.len() as u64 }
}

struct Victim {
    firmware: Firmware,
    memory: Memory,
    batch: TransmitBatch,
    now: Time,
    /// What it has acknowledged of the liar's frames.
    acknowledged: u32,
    /// Posted and not ended.
    flying: usize,
}

impl Victim {
    fn new(profile: &Profile) -> Self {
        let mut firmware = Firmware::new(Config {
            node: NodeId::from_name("victim"),
            epoch: 9,
            name: "victim".into(),
            profile: profile.clone(),
            links: vec![LinkInfo::new(1_500, true)],
            seed: 3,
        });
        firmware.open_endpoint(0).unwrap();
        let rights = [Rights::BOTH, Rights::REMOTE_READ];
        for ((range, key), rights) in [WRITABLE, READABLE].iter().zip(KEYS).zip(rights) {
            firmware.export_region(Some(key), segment(range), rights, 0).unwrap();
        }
        Self {
            firmware,
            memory: Memory(vec![0xAA; 60_000]),
            batch: TransmitBatch::new(1_500),
            now: Time(1_000_000_000),
            acknowledged: 0,
            flying: 0,
        }
    }

    fn hear(&mut self, frame: &[u8]) {
        self.firmware.handle_frame(self.now, LINK, LIAR, frame, &mut self.memory);
    }

    /// One turn; of what it sends only the acknowledgement is heard.
    fn turn(&mut self) {
        let Self { firmware, memory, batch, now, .. } = self;
        if firmware.poll_timeout().is_some_and(|due| due <= *now) {
            firmware.handle_timeout(*now, memory);
        }
        for _ in 0..1_000 {
            batch.clear();
            if firmware.poll_transmit(*now, memory, batch) == 0 {
                break;
            }
            for frame in 0..batch.frames().len() {
                let parsed = Header::parse(batch.inline(frame));
                if let Ok((header, _)) = parsed
                    && header.flags.has(Flags::ACK)
                {
                    self.acknowledged = self.acknowledged.max(header.acknowledge.0);
                }
            }
        }
        while let Some(completion) = firmware.poll_completion() {
            self.flying -= usize::from(completion.op.kind() != emp_firmware::OpKind::Notified);
        }
        while firmware.poll_event().is_some() {}
        assert!(firmware.peers() <= 1);
    }

    /// Lets time pass until nothing is due.
    fn calm_down(&mut self) {
        let start = self.now;
        while let Some(due) = self.firmware.poll_timeout() {
            self.now = due.max(self.now + Span(1));
            assert!(self.now.since(start) < Span::ms(60_000), "still busy after a minute");
            self.turn();
        }
    }

    /// Operations of its own at the liar, so that the liar has something to answer wrongly.
    fn post(&mut self, prng: &mut Prng) {
        let target = RemoteRegion { to: LIAR_ID, to_endpoint: 0, key: 1, generation: 0, offset: 0 };
        let place = FETCHED.start..FETCHED.start + prng.log_uniform(20_000) as usize;
        let segments = SegmentList::one(segment(&place));
        let (endpoint, context) = (0, 0);
        let Self { firmware, memory, now, .. } = self;
        let posted = match prng.bits() % 3 {
            0 => {
                let (immediate, completion) = (None, CompletionMode::Auto);
                let put =
                    PutDescriptor { target, endpoint, segments, immediate, completion, context };
                firmware.post_put(*now, put, memory)
            }
            1 => firmware.post_get(
                *now,
                GetDescriptor { target, endpoint, segments, context },
                memory,
            ),
            _ => {
                let one = SegmentList::one(segment(&(FETCHED.start..FETCHED.start + 8)));
                let atomic = AtomicDescriptor {
                    target,
                    endpoint,
                    operation: AtomicOp::Sum,
                    datatype: Datatype::Uint64,
                    count: 1,
                    operands: one.clone(),
                    compare: None,
                    fetch_into: Some(one),
                    context,
                };
                firmware.post_atomic(*now, atomic, memory)
            }
        };
        self.flying += usize::from(posted.is_ok());
    }

    /// Bytes that nobody may have written.
    fn untouched(&self) -> bool {
        let outside = |at: &usize| !WRITABLE.contains(at) && !FETCHED.contains(at);
        (0..self.memory.0.len()).filter(outside).all(|at| self.memory.0[at] == 0xAA)
    }
}

/// Numbers near what there is, and now and then anything.
fn near(prng: &mut Prng, most: u64) -> u64 {
    if prng.percent(90) { prng.log_uniform(most) } else { prng.bits() }
}

struct Liar {
    forger: Forger,
    /// Number of the next message, as far as it can know.
    number: u32,
}

impl Liar {
    fn target(&self, prng: &mut Prng) -> Target {
        Target {
            node: LIAR_ID,
            source_endpoint: 0,
            destination_endpoint: (prng.bits() % 2) as u16,
            largest: Largest::new(1_500, 9_000),
            key: if prng.percent(90) { 1 + prng.bits() % 2 } else { near(prng, 4) },
            handle: near(prng, 70_000) as u32,
            generation: if prng.percent(90) { 0 } else { near(prng, 3) as u32 },
            offset: near(prng, 10_000),
        }
    }

    /// Says something, and hears what became of it.
    fn tell(&mut self, prng: &mut Prng, victim: &mut Victim) {
        let before = victim.acknowledged;
        let (kind, frame) = self.lie(prng, before);
        victim.hear(&frame);
        if prng.percent(90) {
            victim.now = victim.now + Span(prng.log_uniform(200_000));
            victim.turn();
        }
        let counts = matches!(kind, Kind::Put | Kind::Atomic);
        self.number += u32::from(counts && victim.acknowledged != before);
    }

    fn lie(&self, prng: &mut Prng, acknowledged: u32) -> (Kind, Vec<u8>) {
        let target = self.target(prng);
        let mut payload = vec![0x77; prng.log_uniform(1_300) as usize];
        let wrong = if prng.percent(80) { Flags::default() } else { Flags(prng.bits() as u8) };
        let (kind, flags, mut fields) = match prng.bits() % 8 {
            0..=2 => {
                let long = prng.percent(50).then(|| LongPart {
                    total_bytes: near(prng, 12_000),
                    unscheduled_bytes: near(prng, 12_000) as u32,
                    fragment_bytes: near(prng, 1_500) as u16,
                    pieces: 0,
                });
                let immediate = prng.percent(30).then_some(5);
                let put = Put { target, long, immediate };
                (Kind::Put, put.flags(), body(|into| put.emit(into)))
            }
            3 => {
                let (bytes, pull) = (near(prng, 10_000) as u32, near(prng, 300) as u16);
                let fragment_bytes = near(prng, 1_500) as u16;
                let get = Get { target, bytes, pull, fragment_bytes };
                (Kind::Get, Flags::default(), body(|into| get.emit(into)))
            }
            4..=5 => {
                let operation = *prng.pick(AtomicOp::ALL);
                let datatype = *prng.pick(Datatype::ALL);
                let count = if prng.percent(90) {
                    prng.log_uniform(30) as u32 + 1
                } else {
                    near(prng, 90) as u32
                };
                let atomic = Atomic { target, operation, datatype, count };
                if prng.percent(90) {
                    let bytes = Atomic::element_bytes((datatype, count));
                    let bytes = Atomic::payload_bytes(operation, bytes).min(1_300);
                    payload.resize(bytes as usize, 0x77);
                }
                (Kind::Atomic, Flags::default(), body(|into| atomic.emit(into)))
            }
            6 => (Kind::Data, Flags::default(), Vec::new()),
            _ => {
                let mut fields = LIAR_ID.0.to_be_bytes().to_vec();
                fields.extend((0..24).map(|_| (prng.bits() & prng.bits()) as u8));
                (*prng.pick(&[Kind::Done, Kind::Pull, Kind::Block, Kind::Skip]), wrong, fields)
            }
        };
        fields.extend_from_slice(&payload);
        let ahead = if prng.percent(85) { 0 } else { prng.log_uniform(20) as u32 };
        let word = match kind {
            Kind::Put | Kind::Atomic => {
                let ahead = if prng.percent(90) { 0 } else { near(prng, 5) as u32 };
                self.number.wrapping_add(ahead)
            }
            _ => near(prng, 70_000) as u32,
        };
        let seen = near(prng, 30) as u32;
        let flags = Flags(flags.0 | wrong.0).with(Flags::ACK_REQUEST);
        let frame = self.forger.frame(kind, flags, &fields, |header| {
            header.sequence = emp_wire::Sequence(acknowledged.wrapping_add(ahead));
            header.acknowledge = emp_wire::Sequence(seen);
            header.word = word;
        });
        (kind, frame)
    }
}

#[test]
fn lies_about_memory_change_nothing_that_was_not_exported() {
    let mut taken = 0;
    for seed in 0..300 {
        let mut prng = Prng::new(seed);
        let profile = *prng.pick(&Profile::ALL);
        let mut victim = Victim::new(profile);
        let mut liar = Liar { forger: Forger::stranger(LIAR_ID, &victim.firmware), number: 0 };
        for _ in 0..300 {
            liar.tell(&mut prng, &mut victim);
            if prng.percent(5) {
                victim.post(&mut prng);
            }
        }
        assert!(victim.untouched(), "seed {seed}");
        taken += usize::from(victim.memory.0[WRITABLE].contains(&0x77));
        for key in KEYS {
            assert!(victim.firmware.remove_region(victim.now, key), "seed {seed}");
        }
        // The victim's own gets may still be answered, whatever with.
        let before = victim.memory.0[WRITABLE].to_vec();
        for _ in 0..100 {
            liar.tell(&mut prng, &mut victim);
        }
        assert!(victim.untouched() && victim.memory.0[WRITABLE] == before, "seed {seed}");
        victim.calm_down();
        assert_eq!(victim.flying, 0, "seed {seed}: an operation never ended");
        let (free, all) = victim.firmware.pool_slots();
        assert_eq!(free, all, "seed {seed}");
    }
    // Lies that nobody believes would test little.
    assert!(taken > 100, "of 300 liars only {taken} wrote where they may");
}
