//! The figures: goodput, fairness, drops, and the tail of the ping-pong.

use super::crew::Measured;
use super::order::SubjectName;
use crate::lab::Ports;
pub use crate::measured::ShareRow as Row;

/// The part of the round trips that are shorter than the one that is told.
const TAIL: f64 = 0.99;

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
        emp_part: emp_part(subject, &measured.bytes),
    }
}

/// The part that came from EMP's senders, if there are others beside them.
fn emp_part(subject: SubjectName, shares: &[u64]) -> Option<f64> {
    let total: u64 = shares.iter().sum();
    let emp = shares.iter().enumerate().filter(|(sender, _)| subject.is_emp(*sender));
    let is_mixed = subject == SubjectName::EmpBesideCubic && total > 0;
    is_mixed.then(|| emp.map(|(_, share)| share).sum::<u64>() as f64 / total as f64)
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
mod tests {
    use super::*;
    use crate::measured::fixtures::share_row as row;

    #[test]
    fn fairness_is_jains_index() {
        assert_eq!(jain(&[5, 5, 5, 5]), 1.0);
        assert_eq!(jain(&[8, 0, 0, 0]), 0.25);
        assert!((jain(&[1, 3]) - 0.8).abs() < 1e-12);
        assert_eq!(jain(&[0, 0]), 0.0);
    }

    #[test]
    fn only_where_others_are_beside_it_emp_has_a_part() {
        let beside = SubjectName::EmpBesideCubic;
        assert_eq!(emp_part(beside, &[3, 1]), Some(0.75));
        assert_eq!(emp_part(beside, &[1, 4, 1, 4]), Some(0.2));
        assert_eq!(emp_part(beside, &[0, 0]), None);
        assert_eq!(emp_part(SubjectName::Emp, &[3, 1]), None);
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
