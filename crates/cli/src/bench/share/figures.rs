//! The figures: goodput, fairness, drops, and the tail of the ping-pong.

use serde::{Deserialize, Serialize};

use super::super::environment::Environment;
use super::crew::Measured;
use super::order::SubjectName;
use crate::lab::Ports;

/// The part of the round trips that are shorter than the one that is told.
const TAIL: f64 = 0.99;

/// One subject with so many senders of messages of a size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What shared the port.
    pub subject: SubjectName,
    /// Bytes of a message.
    pub size: usize,
    /// Hosts that sent.
    pub senders: usize,
    /// Rate of the port, heads included, in 10^9 bits per second.
    pub port_gbps: f64,
    /// Payload that arrived from all of them, in the same unit.
    pub goodput_gbps: f64,
    /// Jain's index of the senders' shares: 1 is even, 1 / senders is all to one.
    pub jain: f64,
    /// Part of the frames towards the receiver that its port dropped.
    pub dropped_share: f64,
    /// The 99th percentile of the round trip of a 64-byte ping-pong beside them, in µs; null if none came back.
    pub small_p99_us: Option<f64>,
}

/// A whole run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// Where it was measured.
    pub environment: Environment,
    /// The command line.
    pub command: String,
    /// The figures.
    pub results: Vec<Row>,
}

/// The figures of a measurement.
pub fn outcome(
    subject: SubjectName,
    (size, senders): (usize, usize),
    ports: &Ports,
    measured: &Measured,
) -> Row {
    let total: u64 = measured.bytes.iter().sum();
    let frames = measured.sent + measured.dropped;
    Row {
        subject,
        size,
        senders,
        port_gbps: ports.gbps(),
        goodput_gbps: total as f64 * 8e-9 / measured.seconds,
        jain: jain(&measured.bytes),
        dropped_share: if frames == 0 { 0.0 } else { measured.dropped as f64 / frames as f64 },
        small_p99_us: percentile(&measured.round_trips_us, TAIL),
    }
}

impl Row {
    /// `0.46 Gb/s, Jain 0.98, 0.31 % dropped, 64 B p99 2310 µs`
    pub fn in_words(&self) -> String {
        format!(
            "{:.3} Gb/s, Jain {:.2}, {:.2} % dropped, 64 B p99 {}",
            self.goodput_gbps,
            self.jain,
            self.dropped_share * 100.0,
            self.small_p99_us
                .map_or_else(|| "none came back".to_owned(), |us| format!("{us:.0} µs"))
        )
    }
}

/// Jain's index of fairness: the square of the sum over the number times the sum of squares.
fn jain(shares: &[u64]) -> f64 {
    let sum: f64 = shares.iter().map(|share| *share as f64).sum();
    let squares: f64 = shares.iter().map(|share| (*share as f64).powi(2)).sum();
    if squares == 0.0 { 0.0 } else { sum * sum / (shares.len() as f64 * squares) }
}

/// The value that such a part of the sorted samples does not exceed.
fn percentile(sorted: &[f64], part: f64) -> Option<f64> {
    let rank = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A row whose figures say where they belong.
    pub fn row(subject: SubjectName, senders: usize, goodput: f64) -> Row {
        Row {
            subject,
            size: 32 << 10,
            senders,
            port_gbps: 0.5,
            goodput_gbps: goodput,
            jain: 0.987,
            dropped_share: 0.0123,
            small_p99_us: Some(123_456.7),
        }
    }

    #[test]
    fn fairness_is_jains_index() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[8, 0, 0, 0]), 0.25);
        assert!((jain(&[1, 3]) - 0.8).abs() < 1e-12);
        assert_eq!(jain(&[0, 0]), 0.0);
    }

    #[test]
    fn the_tail_is_of_the_samples_there_are() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(percentile(&hundred, TAIL), Some(99.0));
        assert_eq!(percentile(&[7.0], TAIL), Some(7.0));
        assert_eq!(percentile(&[], TAIL), None);
    }

    #[test]
    fn figures_follow_from_what_was_counted() {
        let measured = Measured {
            seconds: 2.0,
            bytes: vec![30_000_000, 30_000_000],
            round_trips_us: vec![100.0, 200.0],
            sent: 990,
            dropped: 10,
        };
        let ports = Ports::parse("500mbit", "128K").unwrap();
        let row = outcome(SubjectName::TcpBbr, (32, 2), &ports, &measured);
        assert!(
            (row.goodput_gbps - 0.24).abs() < 1e-12 && (row.dropped_share - 0.01).abs() < 1e-12
        );
        assert_eq!((row.jain, row.small_p99_us, row.port_gbps), (1.0, Some(200.0), 0.5));
        assert_eq!(row.in_words(), "0.240 Gb/s, Jain 1.00, 1.00 % dropped, 64 B p99 200 µs");
    }

    #[test]
    fn the_keys_are_those_that_were_promised() {
        let value = serde_json::to_value(row(SubjectName::TcpCubic, 8, 0.4)).unwrap();
        let keys: Vec<&String> = value.as_object().unwrap().keys().collect();
        let promised = [
            "dropped_share",
            "goodput_gbps",
            "jain",
            "port_gbps",
            "senders",
            "size",
            "small_p99_us",
            "subject",
        ];
        assert_eq!(keys, promised);
        assert_eq!(value["subject"], "tcp-cubic");
    }
}
