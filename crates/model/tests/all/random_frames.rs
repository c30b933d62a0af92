//! Random frames in sequence, with right identity, epochs and checksums, from a peer that is otherwise silent: the node
//! stays within its bounds, and in the end gives the liar up and is quiet.

use crate::support::forger::{Forger, body};
use emp_firmware::{
    AtomicDescriptor, AtomicOp, CompletionMode, Config, Counter, Datatype, Firmware, GetDescriptor,
    LinkIndex, LinkInfo, Profile, PutDescriptor, ReceiveDescriptor, RemoteRegion, Rights, Selector,
    Span, Time, TransmitBatch,
};
use emp_model::{Access, BufferId, Prng, SimMemory};
use emp_wire::{Atomic, Flags, Get, Kind, Largest, LinkAddress, LongPart, NodeId, Put, Target};

/// Bytes of the victim's exported region.
const REGION_BYTES: u64 = 20_000;

const LINK: LinkIndex = LinkIndex(0);
const LIAR: LinkAddress = LinkAddress::index(1);

struct Victim {
    firmware: Firmware,
    memory: SimMemory,
    regions: [BufferId; 2],
    batch: TransmitBatch,
    now: Time,
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
        let mut memory = SimMemory::new();
        let regions = [(0, Rights::BOTH), (1, Rights::REMOTE_READ)].map(|(key, rights)| {
            let (region, list) = memory.post(&[REGION_BYTES], Access::Both, &[]);
            firmware.export_region(Some(key), list.as_slice()[0], rights, 0).unwrap();
            region
        });
        let batch = TransmitBatch::new(1_500);
        Self { firmware, memory, regions, batch, now: Time(1_000_000_000) }
    }

    /// One turn; what it sends is lost.
    fn turn(&mut self) {
        let Self { firmware, memory, batch, now, .. } = self;
        if firmware.poll_timeout().is_some_and(|due| due <= *now) {
            firmware.handle_timeout(*now, memory);
        }
        let mut batches = 0;
        loop {
            batch.clear();
            if firmware.poll_transmit(*now, memory, batch) == 0 {
                break;
            }
            batches += 1;
            assert!(batches < 1_000, "it sends without end");
        }
        while firmware.poll_completion().is_some() {}
        while firmware.poll_event().is_some() {}
        let (free, all) = firmware.pool_slots();
        assert!(free <= all);
        assert!(firmware.peers() <= 1);
        assert_eq!(memory.violation(), None);
    }

    fn post(&mut self, bytes: u64) {
        let (_, segments) = self.memory.post(&[bytes], Access::Write, &[]);
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector: Selector::ANY,
            segments,
            claim: None,
            context: 0,
        };
        self.firmware.post_receive(self.now, receive, &mut self.memory).unwrap();
    }

    /// Asks the liar for something, or tells it something, one-sidedly.
    fn reach_out(&mut self, prng: &mut Prng) {
        let Self { firmware, memory, now, .. } = self;
        let to = NodeId(0x5555);
        let target = RemoteRegion { to, to_endpoint: 0, key: 0, generation: 0, offset: 0 };
        let bytes = prng.log_uniform(100_000);
        let (_, segments) = memory.post(&[bytes.max(8)], Access::Both, &[]);
        let word = memory.post(&[8], Access::Both, &[]).1;
        let posted = match prng.below(3) {
            0 => {
                let (immediate, completion) = (Some(1), CompletionMode::Auto);
                let (endpoint, context) = (0, 0);
                let put =
                    PutDescriptor { target, endpoint, segments, immediate, completion, context };
                firmware.post_put(*now, put, memory)
            }
            1 => {
                let get = GetDescriptor { target, endpoint: 0, segments, context: 0 };
                firmware.post_get(*now, get, memory)
            }
            _ => {
                let atomic = AtomicDescriptor {
                    target,
                    endpoint: 0,
                    operation: AtomicOp::Sum,
                    datatype: Datatype::Uint64,
                    count: 1,
                    operands: word.clone(),
                    compare: None,
                    fetch_into: prng.percent(50).then_some(word),
                    context: 0,
                };
                firmware.post_atomic(*now, atomic, memory)
            }
        };
        posted.unwrap();
    }

    /// Lets time pass until nothing is due.
    fn calm_down(&mut self) {
        let start = self.now;
        for _ in 0..100_000 {
            let Some(due) = self.firmware.poll_timeout() else { return };
            self.now = due.max(self.now + Span(1));
            assert!(self.now.since(start) < Span::ms(60_000), "still busy after a minute");
            self.turn();
        }
        panic!("it has a hundred thousand things to do");
    }
}

/// The fields of a one-sided operation that are well formed, whatever they say.
fn wish(forger: &Forger, kind: Kind, flags: Flags, prng: &mut Prng) -> Vec<u8> {
    let odd = |prng: &mut Prng, usual: u64| if prng.percent(80) { usual } else { prng.bits() };
    let near = prng.below(REGION_BYTES + 10);
    let target = Target {
        node: forger.source,
        source_endpoint: 0,
        destination_endpoint: 0,
        largest: Largest::new(odd(prng, 1_500) as u16, odd(prng, 9_000) as u16),
        key: prng.below(3),
        handle: prng.below(4) as u32 | (prng.below(3) as u32) << 16,
        generation: odd(prng, 0) as u32,
        offset: odd(prng, near),
    };
    let few = prng.log_uniform(1_300);
    match kind {
        Kind::Put => {
            let many = odd(prng, 5_000);
            let long = flags.has(Flags::LONG).then_some(LongPart {
                total_bytes: many,
                unscheduled_bytes: many.min(odd(prng, few + 500)) as u32,
                fragment_bytes: odd(prng, 1_000) as u16,
                pieces: 0,
            });
            let immediate = flags.has(Flags::IMMEDIATE).then_some(3);
            let mut fields = body(|into| Put { target, long, immediate }.emit(into));
            fields.resize(fields.len() + few as usize, 7);
            fields
        }
        Kind::Get => {
            let (bytes, pull) = (odd(prng, few * 10) as u32, prng.bits() as u16);
            let fragment_bytes = odd(prng, 1_000) as u16;
            body(|into| Get { target, bytes, pull, fragment_bytes }.emit(into))
        }
        _ => {
            let (operation, datatype) = (*prng.pick(AtomicOp::ALL), *prng.pick(Datatype::ALL));
            let count = odd(prng, 1 + few % 40) as u32;
            let atomic = Atomic { target, operation, datatype, count };
            let mut fields = body(|into| atomic.emit(into));
            let elements = Atomic::element_bytes((datatype, count.min(80)));
            let payload = Atomic::payload_bytes(operation, elements).min(1_300);
            fields.resize(fields.len() + payload as usize, 9);
            fields
        }
    }
}

fn lie(forger: &Forger, prng: &mut Prng, reached: &mut u32, numbers: &mut u32) -> Vec<u8> {
    let kind = *prng.pick(&Kind::ALL);
    let flags = Flags(prng.bits() as u8);
    // Mostly zeros: small numbers are likelier to be near what the node expects.
    let mut fields: Vec<u8> = (0..prng.log_uniform(1_400))
        .map(|_| (prng.bits() & prng.bits() & prng.bits()) as u8)
        .collect();
    if fields.len() >= 8 && kind.identified() {
        fields[..8].copy_from_slice(&forger.source.0.to_be_bytes());
    }
    if matches!(kind, Kind::Put | Kind::Get | Kind::Atomic) && prng.percent(80) {
        fields = wish(forger, kind, flags, prng);
    }
    let ahead = if prng.percent(70) { 0 } else { prng.log_uniform(300) as u32 };
    let sequence = forger.header.sequence.plus(*reached + ahead);
    *reached += u32::from(kind.sequenced() && ahead == 0);
    let (ack, far) = (prng.log_uniform(40) as u32, prng.log_uniform(u64::from(u32::MAX)) as u32);
    // Often the next message number, as far as one can tell: then it is not only kept for later.
    let word = if prng.percent(40) { *numbers } else { far };
    if matches!(kind, Kind::Message | Kind::Put | Kind::Atomic) && word == *numbers && ahead == 0 {
        *numbers += 1;
    }
    forger.frame(kind, flags, &fields, |header| {
        header.sequence = sequence;
        header.acknowledge = header.acknowledge.plus(ack);
        header.word = word;
    })
}

#[test]
fn random_frames_in_sequence_break_no_node() {
    let mut served = 0;
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let profile = *prng.pick(&Profile::ALL);
        let mut victim = Victim::new(profile);
        let forger = Forger::stranger(NodeId(0x5555), &victim.firmware);
        let (flags, hello) = forger.message(None, 3);
        let first = forger.frame(Kind::Message, flags, &hello, |_| {});
        let (mut reached, mut numbers) = (1, 1);
        victim.firmware.handle_frame(victim.now, LINK, LIAR, &first, &mut victim.memory);
        for _ in 0..200 {
            let frame = lie(&forger, &mut prng, &mut reached, &mut numbers);
            victim.firmware.handle_frame(victim.now, LINK, LIAR, &frame, &mut victim.memory);
            if prng.percent(10) {
                victim.post(prng.log_uniform(100_000));
            }
            if prng.percent(4) {
                victim.reach_out(&mut prng);
            }
            if prng.percent(1) {
                // Whatever touches it from now on fails the run.
                let key = prng.index(2);
                victim.firmware.remove_region(victim.now, key as u64);
                victim.memory.release(victim.regions[key]);
            }
            if prng.percent(50) {
                victim.now = victim.now + Span(prng.log_uniform(1_000_000));
                victim.turn();
            }
        }
        victim.calm_down();
        // Whole messages of a peer that fell silent wait for their receives; nothing else is held.
        for _ in 0..400 {
            victim.post(16);
        }
        victim.calm_down();
        let (free, all) = victim.firmware.pool_slots();
        assert_eq!(free, all, "seed {seed}");
        served += victim.firmware.counters().get(Counter::PutsServed);
        served += victim.firmware.counters().get(Counter::GetsServed);
        served += victim.firmware.counters().get(Counter::AtomicsServed);
    }
    assert!(served > 50, "only {served} one-sided operations got through");
}
