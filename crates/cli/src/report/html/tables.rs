//! The report's tables: the steps of the schedule at a glance, and every size with all that was recorded.

use std::fmt::Write as _;

use super::curves::{Line, best_gbps, bytes_in_words, under};
use super::escape::escape;
use crate::report::ratio::Ratio;

/// Medians at the steps, one column pair a subject, and how EMP stands to TCP.
pub fn table(lines: &[Line<'_>], ratios: &[Ratio]) -> String {
    let mut text =
        "<h2>Figures</h2>\n<p class=\"soft\">Medians: time one way, and throughput.</p>\n\
                    <div class=\"scroll\"><table>\n<thead><tr><th></th>"
            .to_owned();
    for line in lines {
        let (class, name) = (line.class, escape(&line.name));
        let _ =
            write!(text, "<th class=\"left {class}\" colspan=\"2\" scope=\"colgroup\">{name}</th>");
    }
    if !ratios.is_empty() {
        let _ = write!(text, "<th class=\"left\" colspan=\"{}\">EMP ÷ TCP</th>", ratios.len());
    }
    text += "</tr>\n<tr><th scope=\"col\">size</th>";
    for _ in lines {
        text += "<th class=\"left\" scope=\"col\">µs</th><th scope=\"col\">Gb/s</th>";
    }
    for (number, ratio) in ratios.iter().enumerate() {
        let class = if number == 0 { " class=\"left\"" } else { "" };
        let link = ratio.subject.trim_start_matches("EMP ");
        let _ = write!(text, "<th{class} scope=\"col\">{}</th>", escape(link));
    }
    text += "</tr></thead>\n<tbody>\n";
    for bytes in sizes(lines, true) {
        text += &row(bytes, lines, ratios);
    }
    text + "</tbody></table></div>\n"
}

fn row(bytes: usize, lines: &[Line<'_>], ratios: &[Ratio]) -> String {
    let mut text = format!("<tr><th scope=\"row\">{}</th>", bytes_in_words(bytes));
    for line in lines {
        let point = line.at(bytes);
        let us = point.and_then(|point| point.row.one_way_us);
        let gbps = point.and_then(|point| point.row.gbps);
        // Of TCP, what it was faster under is told by the figure itself.
        let under = point.and_then(|point| point.row.congestion.as_deref());
        let under = under.map(|name| format!(" <small>{}</small>", escape(name)));
        let _ = write!(
            text,
            "<td class=\"left\">{}{}</td><td>{}</td>",
            number(us),
            under.unwrap_or_default(),
            number(gbps)
        );
    }
    for (at, ratio) in ratios.iter().enumerate() {
        let value = ratio.points.iter().find(|(size, _)| *size == bytes).map(|(_, value)| *value);
        let left = if at == 0 { "left" } else { "" };
        let behind = if value.is_some_and(|value| value < 1.0) { "behind" } else { "" };
        let shown = value.map_or_else(|| "–".to_owned(), |value| format!("{value:.2}×"));
        let _ = write!(text, "<td class=\"{left} {behind}\">{shown}</td>");
    }
    text + "</tr>\n"
}

/// Every size and subject, best trial, median and round trips, folded away.
pub fn every_size(lines: &[Line<'_>]) -> String {
    let mut text = "<details>\n<summary>Every size: best trial, median, slowest, round trips of a trial</summary>\n\
                    <div class=\"scroll\"><table>\n<thead><tr><th colspan=\"2\"></th>\
                    <th class=\"left\" colspan=\"3\">one way, µs</th><th class=\"left\" colspan=\"2\">Gb/s</th>\
                    <th class=\"left\"></th></tr>\n\
                    <tr><th>bytes</th><th>subject</th><th class=\"left\">best</th><th>median</th><th>slowest</th>\
                    <th class=\"left\">best</th><th>median</th><th class=\"left\">round trips</th></tr></thead>\n<tbody>\n"
        .to_owned();
    for bytes in sizes(lines, false) {
        for line in lines {
            let Some(point) = line.at(bytes) else { continue };
            let _ = writeln!(
                text,
                "<tr><th scope=\"row\">{bytes}</th><td>{}</td><td class=\"left\">{}</td><td>{}</td><td>{}</td>\
                 <td class=\"left\">{}</td><td>{}</td><td class=\"left\">{}</td></tr>",
                escape(&format!("{}{}", line.name, under(point))),
                number(Some(point.best_us)),
                number(point.row.one_way_us),
                number(Some(point.worst_us)),
                number(Some(best_gbps(point))),
                number(point.row.gbps),
                point.repeats,
            );
        }
    }
    text + "</tbody></table></div>\n</details>\n"
}

/// The sizes that any subject was measured at, in order; only the steps, or all.
fn sizes(lines: &[Line<'_>], round: bool) -> Vec<usize> {
    let points = lines.iter().flat_map(|line| line.points.iter());
    let mut sizes: Vec<usize> =
        points.filter(|point| point.round || !round).map(|point| point.bytes()).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Three digits that say something, as long as that needs no more than two decimals.
fn number(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) if value >= 0.1 => format!("{value:.2}"),
        Some(value) => format!("{value:.3}"),
    }
}
