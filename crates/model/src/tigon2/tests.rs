//! The card as programs see it: what is delivered, what is refused, what is dropped.

use emp_firmware::{Span, Time};

use super::descriptor::DESCRIPTORS;
use super::fabric::Fabric;
use super::host::{Buffer, Next, Port, Program};
use super::parameters::Parameters;
use super::placement::Placement;
use crate::card::HostRam;
use crate::memory::payload;

/// Sends messages of these lengths one after the other, or receives and checks them.
struct Checked {
    lengths: Vec<u32>,
    sends: bool,
    /// The receiver posts this late.
    late: Span,
    at: usize,
    op: Option<(usize, Buffer)>,
    arrived: usize,
}

impl Checked {
    fn pair(lengths: &[u32], late: Span) -> [Self; 2] {
        [true, false].map(|sends| Self {
            lengths: lengths.to_vec(),
            sends,
            late,
            at: 0,
            op: None,
            arrived: 0,
        })
    }
}

impl Program for Checked {
    fn step(&mut self, port: &mut Port<'_>) -> Next {
        let late = core::mem::replace(&mut self.late, Span(0));
        if !self.sends && late > Span(0) {
            return Next::Compute(port.now + late);
        }
        if let Some((op, buffer)) = &self.op {
            let Some((ok, bytes)) = port.take(*op) else { return Next::Poll };
            assert!(ok);
            assert_eq!(bytes, self.lengths[self.at]);
            if !self.sends {
                assert_eq!(port.ram.content(&buffer.runs), payload(self.at as u64, bytes.into()));
                self.arrived += 1;
            }
            self.op = None;
            self.at += 1;
        }
        let Some(bytes) = self.lengths.get(self.at).copied() else { return Next::End };
        let buffer = port.buffer(bytes);
        let op = if self.sends {
            port.ram.fill(&buffer.runs, &payload(self.at as u64, bytes.into()));
            port.send(&buffer, self.at as u32)
        } else {
            port.receive(&buffer, self.at as u32)
        };
        self.op = op.map(|op| (op, buffer));
        Next::Poll
    }
}

/// Short, chained and long descriptors, and lengths about the ends of frames and pages.
const LENGTHS: [u32; 9] = [4, 1_424, 1_425, 4_096, 4_097, 28_672, 28_673, 100_000, 200_001];

#[test]
fn every_scheme_and_format_delivers_every_byte() {
    for placement in Placement::PAPER {
        for parameters in [Parameters::IPDPS2002, Parameters::SC2001] {
            let mut fabric = Fabric::new(&parameters, placement, Checked::pair(&LENGTHS, Span(0)));
            assert!(fabric.run(Time(1_000_000_000)), "{}", placement.name());
            assert_eq!(fabric.program(1).arrived, LENGTHS.len());
            assert_eq!(fabric.usage(1).dropped, 0);
        }
    }
}

#[test]
fn lost_frames_are_sent_again() {
    let mut fabric =
        Fabric::new(&Parameters::IPDPS2002, Placement::BOTH, Checked::pair(&LENGTHS, Span(0)));
    fabric.drops = vec![9, 14, 20, 31, 45, 46, 47, 90];
    assert!(fabric.run(Time(5_000_000_000)));
    assert_eq!(fabric.program(1).arrived, LENGTHS.len());
    let alone = LENGTHS.iter().map(|bytes| u64::from(*bytes).div_ceil(1_468)).sum::<u64>();
    assert!(fabric.usage(0).data_frames > alone);
}

/// E20: what finds no receive is dropped, and comes again when there is one.
#[test]
fn a_message_without_a_receive_is_dropped_and_sent_again() {
    let pair = Checked::pair(&[3_000], Span::us(400));
    let mut fabric = Fabric::new(&Parameters::SC2001, Placement::BASE, pair);
    assert!(fabric.run(Time(1_000_000_000)));
    assert!(fabric.usage(1).unposted > 0);
    assert_eq!(fabric.program(1).arrived, 1);
    assert!(fabric.usage(0).data_frames > 3, "{:?}", fabric.usage(0));
}

/// Posts receives until the card's descriptors are exhausted (E41).
struct Exhausting {
    posted: usize,
}

impl Program for Exhausting {
    fn step(&mut self, port: &mut Port<'_>) -> Next {
        let buffer = port.buffer(64);
        while port.receive(&buffer, 7).is_some() {
            self.posted += 1;
        }
        Next::End
    }
}

#[test]
fn descriptors_are_exhausted_and_posts_refused() {
    let ends = [Exhausting { posted: 0 }, Exhausting { posted: 0 }];
    let mut fabric = Fabric::new(&Parameters::SC2001, Placement::BASE, ends);
    assert!(fabric.run(Time(1_000_000_000)));
    assert_eq!(fabric.program(0).posted, DESCRIPTORS);
}

/// Sends from memory that is not resident.
struct Swapped {
    op: Option<usize>,
    faults: u64,
    began: bool,
}

impl Program for Swapped {
    fn step(&mut self, port: &mut Port<'_>) -> Next {
        if !core::mem::replace(&mut self.began, true) {
            // A memory in which nothing is pinned takes the place of the host's.
            *port.ram = HostRam::new(64);
            let buffer = port.buffer(3_000);
            self.op = port.send(&buffer, 1);
            return Next::Compute(port.now + Span::ms(2));
        }
        self.faults = port.ram.faults();
        Next::End
    }
}

/// E38: a card that reached pages which may be swapped out would send what is no one's.
#[test]
fn memory_that_is_not_resident_is_not_sent() {
    let end = || Swapped { op: None, faults: 0, began: false };
    let mut fabric = Fabric::new(&Parameters::SC2001, Placement::BASE, [end(), end()]);
    fabric.run(Time(1_000_000_000));
    assert!(fabric.program(0).faults > 0);
}

#[test]
fn runs_are_the_same_every_time() {
    let run = || super::bidirectional(&Parameters::IPDPS2002, Placement::BOTH, 6_000, 60).unwrap();
    assert_eq!(run(), run());
}

/// What two processors are for: a receive path on both is faster one way than on one, and no scheme loses a frame for it.
#[test]
fn a_split_receive_path_is_faster_than_one_processor() {
    let of =
        |placement| super::unidirectional(&Parameters::IPDPS2002, placement, 13_168, 40).unwrap();
    let (base, split) = (of(Placement::BASE), of(Placement::RECEIVE_ONLY));
    assert!(split.mbps > base.mbps * 1.1, "{} {}", base.mbps, split.mbps);
    assert_eq!((base.receiver.signals, base.receiver.processor_ns[1]), (0, 0));
    assert!(split.receiver.signals >= 40 * 9);
}

/// Simulates two cards at line rate for so long; gives how long this thread ran for it.
fn at_line_rate(seconds: u32) -> std::time::Duration {
    let begun = processor_time();
    let came = super::line_rate(seconds).unwrap();
    assert!(came.mbps > 940.0, "{came:?}");
    assert!(came.elapsed_ns > u64::from(seconds) * 1_000_000_000, "{came:?}");
    let took = processor_time() - begun;
    assert!(!took.is_zero());
    took
}

/// How long this thread has run, in the program and in the kernel: what else is on the machine does not count. Ticks of 10 ms.
fn processor_time() -> std::time::Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks = fields.split(' ').skip(11).take(2).map(|ticks| ticks.parse::<u64>().unwrap());
    std::time::Duration::from_millis(10 * ticks.sum::<u64>())
}

/// A simulated minute may take a minute of one core: two seconds two.
#[test]
fn two_cards_at_line_rate_are_simulated_in_real_time() {
    let took = at_line_rate(2);
    assert!(took.as_secs_f64() < 2.0, "{took:?}");
}

/// The whole minute.
#[test]
#[ignore = "it takes a quarter of a minute"]
fn a_minute_of_two_cards_at_line_rate_takes_less_than_one_of_a_core() {
    let took = at_line_rate(60);
    println!("a simulated minute took {took:?} of one core");
    assert!(took.as_secs_f64() < 60.0, "{took:?}");
}

/// Any table is a way to run the card: all 256 of them deliver what the paper's do.
#[test]
fn every_table_delivers_every_byte() {
    use super::placement::Stage;
    let names = Stage::ALL.map(Stage::name);
    for table in 0..1_u32 << names.len() {
        let on = |processor| {
            let here = names.iter().zip(0..).filter(move |(_, bit)| table >> bit & 1 == processor);
            here.map(|(name, _)| *name).collect::<Vec<_>>().join(",")
        };
        let text = format!("A={};B={}", on(0), on(1));
        let placement = Placement::parse(&text).unwrap();
        let pair = Checked::pair(&LENGTHS[..6], Span(0));
        let mut fabric = Fabric::new(&Parameters::IPDPS2002, placement, pair);
        assert!(fabric.run(Time(1_000_000_000)), "{text}");
        assert_eq!((fabric.program(1).arrived, fabric.usage(1).dropped), (6, 0), "{text}");
    }
}
