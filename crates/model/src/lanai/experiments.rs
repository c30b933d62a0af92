//! Table 1's rows, LogP, and what finding a node and losing a packet cost.

use emp_firmware::{Profile, Span, Time};

use super::fabric::{Fabric, Program};
use super::parameters::Parameters;
use super::routes::Topology;

/// When the receiver acknowledges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acks {
    /// There is no reliability: nothing is charged for it.
    None,
    /// After every so many packets (V19).
    Every(u32),
    /// When the sender asks, because so many of its buffers are left (V20).
    OnRequest(u32),
}

const GIVEN_UP_AT: Time = Time(60_000_000_000);

/// The longest that an acknowledgement waits where neither count nor request comes: a boundary case that times out (V19).
const BOUNDARY: Span = Span::us(800);

/// Packets after which a sender that is short of buffers asks again.
const ASKS_AFTER: u32 = 16;

impl Acks {
    /// Both nodes' profiles. Where a sender asks, the second only answers, and the first asks again after [`ASKS_AFTER`] packets at the earliest.
    fn profiles(self) -> [Profile; 2] {
        let with = |collection, request_ack_below| Profile {
            ack_delay: BOUNDARY,
            collection,
            request_ack_below,
            ..Profile::VMMC2
        };
        match self {
            Self::None => [with(6, 0), with(6, 0)],
            Self::Every(packets) => [with(packets, 0), with(packets, 0)],
            Self::OnRequest(left) => [with(ASKS_AFTER, left), with(u16::MAX.into(), left)],
        }
    }

    fn parameters(self, parameters: &Parameters) -> Parameters {
        if self == Self::None { parameters.unreliable() } else { parameters.clone() }
    }
}

/// A fabric whose nodes know each other.
fn acquainted(parameters: &Parameters, acks: Acks, bytes: u64) -> Result<Fabric, String> {
    let one = |begins| Program { sends: 1, receives: 1, ping_pong: true, begins };
    let mut fabric =
        Fabric::new(&acks.parameters(parameters), &acks.profiles(), bytes, [one(true), one(false)]);
    if fabric.run(GIVEN_UP_AT) { Ok(fabric) } else { Err("nodes did not meet".into()) }
}

fn run(
    parameters: &Parameters,
    acks: Acks,
    bytes: u64,
    programs: [Program; 2],
) -> Result<Fabric, String> {
    let mut fabric = acquainted(parameters, acks, bytes)?;
    fabric.go_on(programs);
    if fabric.run(fabric.now + Span(GIVEN_UP_AT.0)) {
        Ok(fabric)
    } else {
        Err(format!("messages of {bytes} B with {acks:?} did not all arrive"))
    }
}

fn mbytes(bytes: u64, messages: u32, elapsed: Span) -> f64 {
    bytes as f64 * f64::from(messages) * 1e3 / elapsed.0 as f64
}

/// Half a round trip of messages of four bytes, in microseconds.
pub fn latency(parameters: &Parameters, acks: Acks, rounds: u32) -> Result<f64, String> {
    let end = |begins| Program { sends: rounds, receives: rounds, ping_pong: true, begins };
    let fabric = run(parameters, acks, 4, [end(true), end(false)])?;
    Ok(fabric.elapsed().0 as f64 / 2e3 / f64::from(rounds))
}

/// Messages one way, in 10^6 bytes a second (V33).
pub fn unidirectional(
    parameters: &Parameters,
    acks: Acks,
    bytes: u64,
    messages: u32,
) -> Result<f64, String> {
    let ends = [
        Program { sends: messages, ..Program::default() },
        Program { receives: messages, ..Program::default() },
    ];
    let fabric = run(parameters, acks, bytes, ends)?;
    Ok(mbytes(bytes, messages, fabric.elapsed()))
}

/// Messages back and forth: one sender at a time (V33).
pub fn ping_pong(
    parameters: &Parameters,
    acks: Acks,
    bytes: u64,
    rounds: u32,
) -> Result<f64, String> {
    let end = |begins| Program { sends: rounds, receives: rounds, ping_pong: true, begins };
    let fabric = run(parameters, acks, bytes, [end(true), end(false)])?;
    Ok(mbytes(bytes, 2 * rounds, fabric.elapsed()))
}

/// Both send from the start, both directions together (V33).
pub fn simultaneous(
    parameters: &Parameters,
    acks: Acks,
    bytes: u64,
    messages: u32,
) -> Result<f64, String> {
    let end = Program { sends: messages, receives: messages, ..Program::default() };
    let fabric = run(parameters, acks, bytes, [end, end])?;
    Ok(mbytes(bytes, 2 * messages, fabric.elapsed()))
}

/// Acknowledgements that were packets of their own in such a stream, for each hundred packets with data.
pub fn acks_of_stream(parameters: &Parameters, acks: Acks) -> Result<f64, String> {
    const MESSAGES: u32 = 400;
    let ends = [
        Program { sends: MESSAGES, ..Program::default() },
        Program { receives: MESSAGES, ..Program::default() },
    ];
    let mut fabric = acquainted(parameters, acks, 4_000)?;
    let before = fabric.acks();
    fabric.go_on(ends);
    if !fabric.run(fabric.now + Span(GIVEN_UP_AT.0)) {
        return Err("a stream did not end".into());
    }
    Ok((fabric.acks() - before) as f64 * 100.0 / f64::from(MESSAGES))
}

/// The LogP model's five figures, in microseconds (V32).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct LogP {
    /// Half a round trip.
    pub half_round_trip: f64,
    /// The network's part of it.
    pub latency: f64,
    /// The host's part of sending, and of receiving.
    pub send_overhead: f64,
    /// See [`send_overhead`](Self::send_overhead).
    pub receive_overhead: f64,
    /// Between two messages that follow each other.
    pub gap: f64,
}

/// LogP with an acknowledgement every six packets.
pub fn log_p(parameters: &Parameters) -> Result<LogP, String> {
    const MESSAGES: u32 = 600;
    let acks = Acks::Every(6);
    let half_round_trip = latency(parameters, acks, 100)?;
    let us = |span: Span| span.0 as f64 / 1e3;
    let (send_overhead, receive_overhead) = (us(parameters.post), us(parameters.poll));
    let ends = [
        Program { sends: MESSAGES, ..Program::default() },
        Program { receives: MESSAGES, ..Program::default() },
    ];
    let fabric = run(parameters, acks, 4, ends)?;
    let gap = us(fabric.elapsed()) / f64::from(MESSAGES);
    let latency = half_round_trip - send_overhead - receive_overhead;
    Ok(LogP { half_round_trip, latency, send_overhead, receive_overhead, gap })
}

/// What finding a node takes, and getting over a loss and a move; in microseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Mapping {
    /// Until a node behind so many switches is found (V26).
    pub find: f64,
    /// Polls for that: answered, and not.
    pub polls: [u64; 2],
    /// From a lost packet's turn to the message's arrival (V15).
    pub loss: f64,
    /// From a node's move to the arrival of the next message (V28).
    pub moved: f64,
}

/// Nodes at the ends of a row of so many switches.
pub fn map_and_recover(parameters: &Parameters, switches: usize) -> Result<Mapping, String> {
    let acks = Acks::Every(6);
    let one = |begins| Program { sends: 1, receives: 1, ping_pong: true, begins };
    let mut fabric = Fabric::new(parameters, &acks.profiles(), 4, [one(true), one(false)]);
    fabric.topology = Topology::row(switches);
    if !fabric.run(GIVEN_UP_AT) {
        return Err(format!("nodes {switches} switches apart did not meet"));
    }
    let us = |span: Span| span.0 as f64 / 1e3;
    let find = fabric.mapped.map_or(0.0, |(_, takes)| us(takes));
    let polls = fabric.polls;
    let mut next = |change: &dyn Fn(&mut Fabric)| {
        let since = fabric.now;
        change(&mut fabric);
        let send = Program { sends: 1, ..Program::default() };
        fabric.go_on([send, Program { receives: 1, ..Program::default() }]);
        let ended = fabric.run(fabric.now + Span(GIVEN_UP_AT.0));
        let came = fabric.came(1).last().copied().filter(|_| ended);
        came.map(|at| us(at.since(since))).ok_or_else(|| "a message did not arrive".to_owned())
    };
    let loss = next(&|fabric| fabric.lose = 1)?;
    let moved = next(&|fabric| fabric.topology.plug(1, 0, 5))?;
    Ok(Mapping { find, polls, loss, moved })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: Parameters = Parameters::VMMC2;

    #[test]
    fn acknowledgements_come_every_so_many_packets_or_on_request() {
        for (packets, least, most) in [(1, 99.0, 102.0), (4, 24.0, 27.0), (10, 9.0, 12.0)] {
            let acks = acks_of_stream(&SET, Acks::Every(packets)).unwrap();
            assert!((least..=most).contains(&acks), "every {packets}: {acks}");
        }
        let asked = acks_of_stream(&SET, Acks::OnRequest(240)).unwrap();
        assert!((0.5..40.0).contains(&asked), "{asked}");
    }

    #[test]
    fn a_node_further_away_takes_longer_to_find_and_a_loss_is_got_over() {
        let [near, far] = [1, 4].map(|switches| map_and_recover(&SET, switches).unwrap());
        assert!(near.find > 0.0 && far.find > near.find, "{near:?} {far:?}");
        assert!(near.loss > 100.0 && near.loss < 100_000.0, "{near:?}");
        assert!(far.moved > 0.0, "{far:?}");
    }

    /// V11, V21: more packets than 16 bits can number, some of them lost, some of these just before the wrap.
    #[test]
    fn numbers_of_16_bits_wrap() {
        let mut fabric = acquainted(&SET, Acks::Every(6), 64).unwrap();
        for (messages, lost) in [(65_000, 3), (600, 40), (2_000, 1)] {
            fabric.lose = lost;
            fabric.go_on([
                Program { sends: messages, ..Program::default() },
                Program { receives: messages, ..Program::default() },
            ]);
            assert!(fabric.run(fabric.now + Span(GIVEN_UP_AT.0)), "{messages}, {lost} lost");
        }
        assert!(fabric.last_number(1) > 67_000, "{}", fabric.last_number(1));
    }

    #[test]
    fn reliability_costs_latency_and_bandwidth() {
        let [none, each] =
            [Acks::None, Acks::Every(1)].map(|acks| latency(&SET, acks, 20).unwrap());
        assert!(none < each);
        let of = |acks| unidirectional(&SET, acks, 32 << 10, 8).unwrap();
        assert!(of(Acks::None) > of(Acks::Every(6)) && of(Acks::Every(6)) > of(Acks::Every(1)));
    }
}
