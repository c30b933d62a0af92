//! The MPI page of the report: a table of all transports side by side, and the ping-pong's curves.

use super::plot::Curve;
use super::table::{align_right, bare, number, verdicts};
use crate::measured::{MpiProviderCost, MpiResults, MpiRow};
use crate::sizes;

/// What stands above the curves.
pub fn title(results: &MpiResults) -> String {
    format!(
        "{} between two hosts of a lab: ping-pong, MTU {}",
        results.mpi, results.environment.mtu
    )
}

/// One row a pattern and size, one column a transport. The ratio is EMP's time to that of the best other: below 1 EMP is
/// faster.
pub fn table(results: &MpiResults) -> String {
    let mut subjects: Vec<&str> = Vec::new();
    let mut lines: Vec<(&str, usize)> = Vec::new();
    for row in &results.results {
        if !subjects.contains(&row.subject.as_str()) {
            subjects.push(&row.subject);
        }
        if !lines.contains(&(row.pattern.as_str(), row.size)) {
            lines.push((&row.pattern, row.size));
        }
    }
    let mut header = vec!["measured", "size"];
    header.extend(&subjects);
    header.push("EMP's time to best");
    let mut table = bare(&header);
    for (pattern, size) in lines {
        let here: Vec<&MpiRow> = results
            .results
            .iter()
            .filter(|row| (row.pattern.as_str(), row.size) == (pattern, size))
            .collect();
        let mut cells = vec![format!("{pattern}, {}", unit(pattern)), sizes::show(size)];
        cells.extend(subjects.iter().map(|subject| {
            let row = here.iter().find(|row| row.subject == *subject);
            let figure =
                number(row.and_then(|row| figure(row)), if pattern == "rate" { 0 } else { 2 });
            let steered = row.and_then(|row| row.congestion.as_deref());
            // In one line, or a size would take two.
            steered.map_or_else(|| figure.clone(), |steered| format!("{figure}\u{a0}{steered}"))
        }));
        // The best other is the one that EMP's time is the largest part of.
        let worst = here.iter().filter_map(|row| row.emp_to_this).reduce(f64::max);
        cells.push(worst.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}×")));
        table.add_row(cells);
    }
    align_right(&mut table, &(1..=subjects.len() + 2).collect::<Vec<_>>());
    let provider = results.provider.as_ref().map(provider).unwrap_or_default();
    let bars = if results.bars.is_empty() { String::new() } else { verdicts(&results.bars) };
    format!("{}\n{table}\n{bars}{provider}", results.mpi)
}

/// One line: what the provider adds.
fn provider(cost: &MpiProviderCost) -> String {
    let size = sizes::show(cost.size);
    format!(
        "{size} B tagged ping-pong, one way: host API {:.2} µs, libfabric {:.2} µs; the provider adds {:.2} µs\n",
        cost.host_us, cost.libfabric_us, cost.adds_us
    )
}

fn unit(pattern: &str) -> &'static str {
    match pattern {
        "pingpong" => "one way µs",
        "stream" => "Gb/s",
        "rate" => "msg/s",
        _ => "µs",
    }
}

fn figure(row: &MpiRow) -> Option<f64> {
    match row.pattern.as_str() {
        "stream" => row.gbps,
        "rate" => row.messages_per_s,
        _ => row.one_way_us,
    }
}

/// The ping-pongs as curves, one a transport.
pub fn curves(results: &MpiResults) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in results.results.iter().filter(|row| row.pattern == "pingpong") {
        let (Some(us), Some(gbps)) = (row.one_way_us, row.gbps) else { continue };
        let at = curves.iter().position(|curve| curve.name == row.subject).unwrap_or_else(|| {
            curves.push(Curve { name: row.subject.clone(), points: Vec::new() });
            curves.len() - 1
        });
        curves[at].points.push(super::plot::Point { bytes: row.size as f64, us, gbps });
    }
    curves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::Verdict;
    use crate::mpi::Transport;

    fn row(transport: Transport, subject: &str, us: f64, ratio: Option<f64>) -> MpiRow {
        MpiRow {
            pattern: "pingpong".to_owned(),
            transport,
            congestion: (transport != Transport::Emp).then(|| "cubic".to_owned()),
            subject: subject.to_owned(),
            size: 8,
            one_way_us: Some(us),
            mean_us: Some(us),
            gbps: Some(0.064 / us),
            messages_per_s: Some(1e6 / us),
            samples: 7,
            emp_to_this: ratio,
        }
    }

    #[test]
    fn the_best_of_the_others_is_what_emp_is_held_to() {
        let results = MpiResults {
            environment: Default::default(),
            command: String::new(),
            mpi: "MPICH 5.0.2".to_owned(),
            results: vec![
                row(Transport::Emp, "EMP", 2.0, None),
                row(Transport::Tcp, "tcp", 4.0, Some(0.5)),
                row(Transport::Rxm, "tcp;ofi_rxm", 5.0, Some(0.4)),
            ],
            provider: Some(MpiProviderCost {
                size: 8,
                host_us: 1.5,
                libfabric_us: 1.75,
                adds_us: 0.24,
                samples: 101,
            }),
            bars: vec![Verdict {
                name: "ping-pong, 8 B, EMP's time to best".to_owned(),
                value: Some(0.5),
                limit: "≤ 0.5".to_owned(),
                pass: Some(true),
                figures: "EMP 2.00 µs, tcp;ofi_rxm cubic 4.00 µs".to_owned(),
            }],
        };
        let text = table(&results);
        assert!(
            text.contains("0.50×") && text.contains("tcp;ofi_rxm") && text.contains("one way µs"),
            "{text}"
        );
        assert!(text.contains("host API 1.50 µs, libfabric 1.75 µs; the provider adds 0.24 µs"));
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        assert!(text.contains("0.500") && text.contains("pass"), "{text}");
        assert_eq!(curves(&results).len(), 3);
        assert!(title(&results).contains("MPICH 5.0.2"));
    }
}
