//! Tables that fit 100 columns.

use comfy_table::{CellAlignment, ContentArrangement, Table};

use crate::measured::{Pattern, Row, SubjectKind, Verdict, face_title};
use crate::sizes;

/// Columns that a table may take.
const WIDTH: u16 = 100;

/// One row a subject and size, all of one pattern. Times are medians over slices, and the mean over all messages. Ratios are the subject's to the bare link and to spinning TCP at the same size: of times
/// for ping-pongs (less is better), of throughput for the rest (more is better).
pub fn rows(rows: &[Row]) -> String {
    let pattern = rows.first().map_or("pattern", |row| row.pattern.name());
    let mut table = bare(&[
        pattern,
        "subject",
        "link",
        "one way µs",
        "mean µs",
        "Gb/s",
        "msg/s",
        "to raw",
        "to tcp",
    ]);
    for row in rows {
        let size = row.size.map_or_else(|| "random".to_owned(), sizes::show);
        table.add_row([
            size,
            with_congestion(row.subject.name(), row),
            row.link.clone().unwrap_or_else(|| "-".to_owned()),
            number(row.one_way_us, 2),
            number(row.mean_us, 2),
            number(row.gbps, 3),
            number(row.messages_per_s, 0),
            ratio(rows, row, SubjectKind::Raw),
            ratio(rows, row, SubjectKind::Tcp),
        ]);
    }
    align_right(&mut table, &[0, 3, 4, 5, 6, 7, 8]);
    format!("{table}\n")
}

/// One row a pattern and size, one column a subject: times for ping-pongs, throughput for the rest. Of TCP it is said under
/// which congestion control it was faster. The ratio is that of the first of EMP's columns: of what it chooses by itself.
pub fn pivot(rows: &[Row]) -> String {
    let mut subjects: Vec<String> = Vec::new();
    let mut lines: Vec<(Pattern, Option<usize>)> = Vec::new();
    for row in rows {
        if !subjects.contains(&subject(row)) {
            subjects.push(subject(row));
        }
        if !lines.contains(&(row.pattern, row.size)) {
            lines.push((row.pattern, row.size));
        }
    }
    let mut header = vec!["", "size"];
    // A figure of TCP has the congestion control beside it, which leaves no room for more.
    header.extend(subjects.iter().map(|name| name.strip_suffix(" spinning").unwrap_or(name)));
    header.push("to TCP");
    let mut table = bare(&header);
    for (pattern, size) in lines {
        let here: Vec<&Row> =
            rows.iter().filter(|row| (row.pattern, row.size) == (pattern, size)).collect();
        // No more than the unit, said in full below: the columns need the room.
        let (unit, less_is_better) = match pattern {
            Pattern::Pingpong => ("µs", true),
            _ => ("Gb/s", false),
        };
        let figure = |row: &Row| if less_is_better { row.one_way_us } else { row.gbps };
        let mut cells =
            vec![unit.to_owned(), size.map_or_else(|| "random".to_owned(), sizes::show)];
        cells.extend(subjects.iter().map(|name| {
            let row = here.iter().find(|row| subject(row) == *name);
            let value = row.and_then(|row| figure(row));
            // Hundredths of a microsecond say nothing of milliseconds, and take room.
            let fine = less_is_better && value.is_none_or(|us| us < 1000.0);
            let figure = number(value, if fine { 2 } else { 1 });
            let figure = row.map_or_else(|| figure.clone(), |row| with_congestion(&figure, row));
            // In one line, or a size would take two.
            figure.replace(' ', "\u{a0}")
        }));
        let of =
            |kind| here.iter().filter(move |row| row.subject == kind).filter_map(|row| figure(row));
        let ratio = of(SubjectKind::Emp)
            .next()
            .zip(of(SubjectKind::Tcp).next())
            .map(|(emp, tcp)| emp / tcp);
        cells.push(ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}×")));
        table.add_row(cells);
    }
    align_right(&mut table, &(1..=subjects.len() + 2).collect::<Vec<_>>());
    format!("{table}\nµs: one way, of a ping-pong; Gb/s: of a stream\n")
}

/// `tcp cubic`, `2.70 cubic`
fn with_congestion(name: &str, row: &Row) -> String {
    row.congestion.as_ref().map_or_else(|| name.to_owned(), |steered| format!("{name} {steered}"))
}

/// What a row is about, in two words.
pub fn subject(row: &Row) -> String {
    let subject = match row.subject {
        SubjectKind::Emp => "EMP",
        SubjectKind::Face(name) => face_title(name),
        SubjectKind::Mpi("mpi-emp") => "MPI over EMP",
        SubjectKind::Mpi(_) => "MPI over TCP",
        SubjectKind::Raw => "bare",
        SubjectKind::Tcp => "TCP spinning",
        SubjectKind::TcpBlock => "TCP sleeping",
    };
    row.link.as_ref().map_or_else(|| subject.to_owned(), |link| format!("{subject} {link}"))
}

/// One row a bar, and the figures behind it below.
pub fn verdicts(verdicts: &[Verdict]) -> String {
    let mut table = bare(&["bar", "measured", "limit", "", "medians"]);
    for verdict in verdicts {
        let value = match verdict.value {
            Some(value) if value >= 1e4 => format!("{value:.0}"),
            Some(value) => format!("{value:.3}"),
            None => "-".to_owned(),
        };
        let word = match verdict.pass {
            Some(true) => "pass",
            Some(false) => "MISS",
            None if verdict.value.is_some() => "",
            None => "skip",
        };
        let cells = [&verdict.name, &value, &verdict.limit, word, &verdict.figures];
        table.add_row(cells.map(str::to_owned));
    }
    align_right(&mut table, &[1]);
    format!("{table}\n")
}

/// A table without lines, which copy and compare badly.
pub(super) fn bare(header: &[&str]) -> Table {
    let mut table = Table::new();
    table.set_header(header.to_vec());
    let style = comfy_table::TableStyle::new()
        .header_lines(comfy_table::ContentLineStyle::none())
        .header_separator(comfy_table::LineStyle::none().fill('-').junction('-'))
        .content_lines(comfy_table::ContentLineStyle::none());
    table.load_style(style).set_content_arrangement(ContentArrangement::Dynamic).set_width(WIDTH);
    table
}

pub(super) fn align_right(table: &mut Table, columns: &[usize]) {
    for column in columns {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

pub(super) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.decimals$}"))
}

/// The ratio to another subject at the same size, over the same link where it has one.
fn ratio(rows: &[Row], row: &Row, to: SubjectKind) -> String {
    let same = |other: &&Row| {
        other.subject == to
            && other.pattern == row.pattern
            && other.size == row.size
            && (other.link.is_none() || other.link == row.link)
    };
    let figure = |row: &Row| row.one_way_us.or(row.gbps);
    let value = rows.iter().find(same).and_then(|other| Some(figure(row)? / figure(other)?));
    value.map_or_else(|| "-".to_owned(), |value| format!("{value:.2}×"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subject: SubjectKind, link: Option<&str>, us: f64) -> Row {
        Row {
            pattern: Pattern::Pingpong,
            subject,
            link: link.map(str::to_owned),
            mtu: 1500,
            size: Some(32),
            one_way_us: Some(us),
            gbps: Some(0.256 / us),
            messages_per_s: Some(1e6 / us),
            samples: 5,
            mean_us: Some(us * 1.01),
            copies: None,
            congestion: None,
            pair: None,
        }
    }

    #[test]
    fn ratios_are_to_the_same_size_and_link() {
        let all = [
            row(SubjectKind::Emp, Some("packet"), 1.2),
            row(SubjectKind::Raw, Some("packet"), 0.8),
            row(SubjectKind::Raw, Some("udp"), 1.6),
            row(SubjectKind::Tcp, None, 2.4),
        ];
        assert_eq!(ratio(&all, &all[0], SubjectKind::Raw), "1.50×");
        assert_eq!(ratio(&all, &all[0], SubjectKind::Tcp), "0.50×");
        assert_eq!(ratio(&all, &all[3], SubjectKind::Raw), "-");
        assert_eq!(ratio(&all, &all[0], SubjectKind::TcpBlock), "-");
    }

    #[test]
    fn tables_fit_the_page() {
        let mut wide = row(SubjectKind::TcpBlock, Some("packet+udp"), 123_456.789);
        (wide.size, wide.congestion) = (Some(1 << 20), Some("cubic".to_owned()));
        let verdict = Verdict {
            name: "1 MiB stream at 0.1 % loss, to no loss".to_owned(),
            value: Some(0.95),
            limit: "≥ 500000".to_owned(),
            pass: Some(true),
            figures: "emp packet 12.34 Gb/s, emp udp 45.67 Gb/s, tcp 23.45 Gb/s".to_owned(),
        };
        let all = [
            row(SubjectKind::Emp, Some("packet+udp"), 1234.5),
            row(SubjectKind::Emp, Some("packet"), 12345.6),
            row(SubjectKind::Emp, Some("udp"), 12345.6),
            row(SubjectKind::Raw, Some("packet"), 12345.6),
            row(SubjectKind::Raw, Some("udp"), 1234.5),
            Row { congestion: Some("cubic".to_owned()), ..row(SubjectKind::Tcp, None, 4938.0) },
        ];
        let pivoted = pivot(&all);
        assert!(pivoted.contains("0.25×") && pivoted.contains("packet+udp"), "{pivoted}");
        assert!(pivoted.contains("4938.0\u{a0}cubic"), "{pivoted}");
        assert!(rows(&all).contains("tcp cubic"), "{}", rows(&all));
        // A header, a rule, a line for each size, and one that says what the units are of.
        assert_eq!(pivoted.trim_end().lines().count(), 4, "{pivoted}");
        for text in [rows(&[wide]), verdicts(&[verdict]), pivoted] {
            assert!(text.lines().all(|line| line.chars().count() <= usize::from(WIDTH)), "{text}");
        }
    }
}
