//! Tables of `emp bench overlap` and `emp bench logp`.

use super::table::{align_right, bare, number};
use crate::measured::{LogpRow, OverlapRow};
use crate::sizes;

/// Throughput against the share of user code, and where the rest of the time goes.
pub fn overlap(rows: &[OverlapRow]) -> String {
    let mut table = bare(&[
        "subject",
        "link",
        "work µs",
        "user code",
        "Gb/s",
        "of no work",
        "post receive",
        "post send",
        "wait µs",
    ]);
    for row in rows {
        table.add_row([
            row.name(),
            row.link.clone().unwrap_or_else(|| "-".to_owned()),
            number(Some(row.work_us), 1),
            format!("{:.0} %", row.user_percent),
            number(Some(row.gbps), 3),
            format!("{:.0} %", row.of_idle * 100.0),
            number(Some(row.post_receive_us), 2),
            number(Some(row.post_send_us), 2),
            number(Some(row.wait_us), 2),
        ]);
    }
    align_right(&mut table, &[2, 3, 4, 5, 6, 7, 8]);
    format!("{table}\n")
}

/// What the calls of each subject cost a message when its round has most work: what the processor spends on communication
/// that overlaps as far as it can.
pub fn costs(rows: &[OverlapRow]) -> String {
    let mut table = bare(&["subject", "user code", "post send", "post receive", "wait", "total"]);
    let mut names: Vec<String> = Vec::new();
    // From the most work down: the first of each name counts.
    for row in rows.iter().rev().filter(|row| !row.post_send_us.is_nan()) {
        if names.contains(&row.name()) {
            continue;
        }
        names.push(row.name());
        let total = row.post_send_us + row.post_receive_us + row.wait_us;
        table.add_row([
            row.name(),
            format!("{:.0} %", row.user_percent),
            number(Some(row.post_send_us), 2),
            number(Some(row.post_receive_us), 2),
            number(Some(row.wait_us), 2),
            number(Some(total), 2),
        ]);
    }
    align_right(&mut table, &[1, 2, 3, 4, 5]);
    format!("{table}\n")
}

/// The parameters in the order of VMMC-2's table.
pub fn logp(rows: &[LogpRow]) -> String {
    let mut table =
        bare(&["subject", "board", "link", "size", "RTT/2 µs", "L µs", "o_r µs", "o_s µs", "g µs"]);
    for row in rows {
        table.add_row([
            row.congestion.as_ref().map_or_else(
                || row.subject.name().to_owned(),
                |steered| format!("{} {steered}", row.subject.name()),
            ),
            row.board.clone().unwrap_or_else(|| "-".to_owned()),
            row.link.clone().unwrap_or_else(|| "-".to_owned()),
            sizes::show(row.size),
            number(Some(row.half_round_trip_us), 2),
            number(Some(row.latency_us), 2),
            number(Some(row.receive_overhead_us), 2),
            number(Some(row.send_overhead_us), 2),
            number(Some(row.gap_us), 2),
        ]);
    }
    align_right(&mut table, &[3, 4, 5, 6, 7, 8]);
    format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::SubjectKind;
    use crate::measured::fixtures::overlap_row as test_overlap_row;

    #[test]
    fn tables_fit_the_page_and_costs_are_those_of_most_work() {
        let mut most = test_overlap_row(93.0, 0.07);
        (most.work_us, most.link) = (123_456.7, Some("packet+udp".to_owned()));
        let rows = [test_overlap_row(0.0, 1.0), most];
        let costs = costs(&rows);
        assert!(
            costs.contains("93 %") && !costs.contains(" 0 %") && costs.contains("10.75"),
            "{costs}"
        );
        let parameters = LogpRow {
            subject: SubjectKind::Emp,
            link: Some("packet+udp".to_owned()),
            board: Some("inline".to_owned()),
            congestion: None,
            size: 1024,
            half_round_trip_us: 1234.5,
            latency_us: -0.1,
            receive_overhead_us: 12.0,
            send_overhead_us: 1.0,
            gap_us: 2.0,
            samples: 3,
        };
        for text in [overlap(&rows), costs, logp(&[parameters])] {
            assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        }
    }
}
