//! Random frames in sequence, with right identity, epochs and checksums, from a peer that is otherwise silent: the node
//! stays within its bounds, and in the end gives the liar up and is quiet.

mod support;

use emp_firmware::{
    Config, Firmware, LinkIndex, LinkInfo, Profile, ReceiveDescriptor, Selector, Span, Time,
    TransmitBatch,
};
use emp_model::{Access, Prng, SimMemory};
use emp_wire::{Flags, Kind, LinkAddress, NodeId};
use support::forger::Forger;

const LINK: LinkIndex = LinkIndex(0);
const LIAR: LinkAddress = LinkAddress::index(1);

struct Victim {
    firmware: Firmware,
    memory: SimMemory,
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
            links: vec![LinkInfo { frame_bytes_max: 1_500, broadcast: true }],
            seed: 3,
        });
        firmware.open_endpoint(0).unwrap();
        let batch = TransmitBatch::new(1_500);
        Self { firmware, memory: SimMemory::new(), batch, now: Time(1_000_000_000) }
    }

    /// One turn; what it sends is lost.
    fn turn(&mut self) {
        let Self { firmware, memory, batch, now } = self;
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

fn lie(forger: &Forger, prng: &mut Prng, reached: &mut u32) -> Vec<u8> {
    let kind = *prng.pick(&Kind::ALL);
    // Mostly zeros: small numbers are likelier to be near what the node expects.
    let mut fields: Vec<u8> = (0..prng.log_uniform(1_400))
        .map(|_| (prng.bits() & prng.bits() & prng.bits()) as u8)
        .collect();
    if fields.len() >= 8 && kind.identified() {
        fields[..8].copy_from_slice(&forger.source.0.to_be_bytes());
    }
    let ahead = if prng.percent(70) { 0 } else { prng.log_uniform(300) as u32 };
    let sequence = forger.header.sequence.plus(*reached + ahead);
    *reached += u32::from(kind.sequenced() && ahead == 0);
    let (ack, word) = (prng.log_uniform(40) as u32, prng.log_uniform(u64::from(u32::MAX)) as u32);
    forger.frame(kind, Flags(prng.bits() as u8), &fields, |header| {
        header.sequence = sequence;
        header.acknowledge = header.acknowledge.plus(ack);
        header.word = word;
    })
}

#[test]
fn random_frames_in_sequence_break_no_node() {
    for seed in 0..400 {
        let mut prng = Prng::new(seed);
        let profile = *prng.pick(&Profile::ALL);
        let mut victim = Victim::new(profile);
        let forger = Forger::stranger(NodeId(0x5555), &victim.firmware);
        let (flags, hello) = forger.message(None, 3);
        let first = forger.frame(Kind::Message, flags, &hello, |_| {});
        let mut reached = 1;
        victim.firmware.handle_frame(victim.now, LINK, LIAR, &first, &mut victim.memory);
        for _ in 0..200 {
            let frame = lie(&forger, &mut prng, &mut reached);
            victim.firmware.handle_frame(victim.now, LINK, LIAR, &frame, &mut victim.memory);
            if prng.percent(10) {
                victim.post(prng.log_uniform(100_000));
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
    }
}
