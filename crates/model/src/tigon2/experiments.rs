//! The papers' experiments on a pair of cards.

use emp_firmware::{Span, Time};

use super::card::Usage;
use super::fabric::Fabric;
use super::parameters::Parameters;
use super::placement::Placement;
use super::programs::{Overlap as OverlapProgram, PingPong, Stream};

/// Virtual time after which an experiment that has not ended is given up: far beyond any of them.
const GIVEN_UP_AT: Time = Time(600_000_000_000);

/// What a stream came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bandwidth {
    /// 10^6 payload bits per second, both directions together.
    pub mbps: f64,
    /// What the first card did.
    pub sender: Usage,
    /// What the second card did.
    pub receiver: Usage,
    /// Nanoseconds that it took.
    pub elapsed_ns: u64,
}

/// Half a round trip of messages of so many bytes, in microseconds (E58, I21). An error says what went wrong.
pub fn latency(
    parameters: &Parameters,
    placement: Placement,
    bytes: u32,
    rounds: u32,
) -> Result<f64, String> {
    let end = |first| PingPong::new(first, bytes, rounds, 8);
    let mut fabric = Fabric::new(parameters, placement, [end(true), end(false)]);
    let ended = fabric.run(GIVEN_UP_AT);
    let program = fabric.program(0);
    match program.measured {
        Some((start, end)) if ended && !program.failed => {
            Ok(end.since(start).0 as f64 / 2e3 / f64::from(rounds))
        }
        _ => Err(format!("ping-pong of {bytes} B did not end: {:?}", fabric.usage(0))),
    }
}

/// Messages from the first to the second (E58, I22).
pub fn unidirectional(
    parameters: &Parameters,
    placement: Placement,
    bytes: u32,
    messages: u32,
) -> Result<Bandwidth, String> {
    let ends = [Stream::new(bytes, messages, 0), Stream::new(bytes, 0, messages)];
    stream(Fabric::new(parameters, placement, ends), bytes, messages)
}

/// So many messages each way (I23).
pub fn bidirectional(
    parameters: &Parameters,
    placement: Placement,
    bytes: u32,
    messages: u32,
) -> Result<Bandwidth, String> {
    let end = || Stream::new(bytes, messages, messages);
    stream(Fabric::new(parameters, placement, [end(), end()]), bytes, 2 * messages)
}

fn stream(mut fabric: Fabric<Stream>, bytes: u32, messages: u32) -> Result<Bandwidth, String> {
    let ended = fabric.run(GIVEN_UP_AT);
    let [first, second] = [0, 1].map(|node| fabric.program(node));
    let (Some(began), Some(end)) = (first.began, first.ended.max(second.ended)) else {
        return Err(format!("stream of {bytes} B did not end: {:?}", fabric.usage(0)));
    };
    if !ended || first.failed || second.failed {
        return Err(format!("stream of {bytes} B failed: {:?}", fabric.usage(0)));
    }
    let elapsed_ns = end.since(began).0;
    let bits = f64::from(bytes) * 8.0 * f64::from(messages);
    let (sender, receiver) = (fabric.usage(0), fabric.usage(1));
    Ok(Bandwidth { mbps: bits * 1e3 / elapsed_ns as f64, sender, receiver, elapsed_ns })
}

/// What computing while messages move came to.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Overlap {
    /// 10^6 payload bits per second that each end sent, over all of the loop's time (E59).
    pub mbps: f64,
    /// Part of that time that the program computed.
    pub fraction: f64,
    /// Microseconds of a call that sends, of one that receives, and of the one that waits for all.
    pub calls_us: [f64; 3],
}

/// Rounds of receives, sends, so much work, and waiting (E59): both ends alike.
pub fn overlap(parameters: &Parameters, work: Span, rounds: u32) -> Result<Overlap, String> {
    // 10 kB messages in batches of five (E59).
    const BYTES: u32 = 10_000;
    const BATCH: usize = 5;
    let mpi = parameters.mpi;
    let end = || OverlapProgram::new((BATCH, BYTES), work, mpi, rounds, 4);
    let mut fabric = Fabric::new(parameters, Placement::BASE, [end(), end()]);
    let ended = fabric.run(GIVEN_UP_AT);
    let program = fabric.program(0);
    let Some((start, end)) = program.measured.filter(|_| ended && !program.failed) else {
        return Err(format!("overlap with {work:?} did not end: {:?}", fabric.usage(0)));
    };
    let ns = end.since(start).0 as f64;
    let calls = f64::from(rounds);
    let per = |total: u64, calls: f64| total as f64 / 1e3 / calls;
    let [sends, receives, waits] = program.spent;
    let each = calls * BATCH as f64;
    Ok(Overlap {
        mbps: each * f64::from(BYTES) * 8e3 / ns,
        fraction: calls * work.0 as f64 / ns,
        calls_us: [per(sends, each), per(receives, each), per(waits, calls)],
    })
}

/// Two cards at line rate for so many seconds of virtual time, one way.
pub fn line_rate(seconds: u32) -> Result<Bandwidth, String> {
    // Ten full frames a message.
    const BYTES: u32 = 14_600;
    let messages = seconds * 8_200;
    unidirectional(&Parameters::IPDPS2002, Placement::RECEIVE_ONLY, BYTES, messages)
}
