//! What `emp bench share` shows: a table, and a picture with a panel for each figure.

use std::fs;
use std::path::Path;

use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::table::{align_right, bare, number};
use crate::measured::{ShareRow, ShareSubject};
use crate::sizes;

/// Pixels of the picture: four panels, two by two.
const PICTURE: (u32, u32) = (1280, 800);

/// A subject's colour; they differ in lightness too.
fn colour(subject: ShareSubject) -> RGBColor {
    match subject {
        ShareSubject::Emp => RGBColor(0, 90, 181),
        ShareSubject::TcpCubic => RGBColor(220, 80, 30),
        ShareSubject::TcpBbr => RGBColor(110, 110, 110),
        ShareSubject::EmpBesideCubic => RGBColor(120, 60, 160),
    }
}

/// One row a subject, size and number of senders. The share of the port is that of payload, so that heads are missing from it.
pub fn table(rows: &[ShareRow]) -> String {
    let mut table = bare(&[
        "size",
        "senders",
        "subject",
        "port Gb/s",
        "goodput Gb/s",
        "of port",
        "Jain",
        "dropped",
        "64 B p99 µs",
    ]);
    for row in rows {
        table.add_row([
            sizes::show(row.size),
            row.senders.to_string(),
            row.subject.name().to_owned(),
            number(Some(row.port_gbps), 2),
            number(Some(row.goodput_gbps), 3),
            format!("{:.0} %", row.goodput_gbps / row.port_gbps * 100.0),
            number(Some(row.jain), 3),
            format!("{:.2} %", row.dropped_share * 100.0),
            number(row.small_p99_us, 0),
        ]);
    }
    align_right(&mut table, &[0, 1, 3, 4, 5, 6, 7, 8]);
    let parts = rows.iter().filter_map(|row| {
        let (size, part) = (sizes::show(row.size), row.emp_part? * 100.0);
        Some(format!("{} senders of {size}, every other TCP's: EMP has {part:.0} %\n", row.senders))
    });
    let parts: String = parts.collect();
    format!(
        "{table}\n{parts}64 B p99: the 99th percentile of a ping-pong's round trip beside the senders\n"
    )
}

/// A figure of a row, for a panel.
struct Panel {
    title: &'static str,
    figure: fn(&ShareRow) -> f64,
}

const PANELS: [Panel; 4] = [
    Panel {
        title: "Goodput, % of the port's rate",
        figure: |row| row.goodput_gbps / row.port_gbps * 100.0,
    },
    Panel { title: "Jain's index of the shares", figure: |row| row.jain },
    Panel { title: "Frames dropped, %", figure: |row| row.dropped_share * 100.0 },
    Panel {
        title: "64 B ping-pong beside, 99th percentile of the round trip, ms",
        figure: |row| row.small_p99_us.unwrap_or(0.0) / 1e3,
    },
];

/// Draws the rows into a file.
pub fn write(path: &Path, title: &str, rows: &[ShareRow]) -> anyhow::Result<()> {
    let picture = draw(title, rows)?;
    fs::write(path, picture).with_context(|| format!("writing {}", path.display()))
}

fn draw(title: &str, rows: &[ShareRow]) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, PICTURE).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(&format!("Senders sharing a port: {title}"), ("sans-serif", 24))?;
        for (area, panel) in root.split_evenly((2, 2)).iter().zip(&PANELS) {
            draw_panel(area, panel, rows)?;
        }
        root.present()?;
    }
    Ok(svg)
}

/// The sizes and numbers of senders, in the order of the rows: what stands side by side.
fn groups(rows: &[ShareRow]) -> Vec<(usize, usize)> {
    let mut groups = Vec::new();
    for row in rows {
        if !groups.contains(&(row.size, row.senders)) {
            groups.push((row.size, row.senders));
        }
    }
    groups
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    panel: &Panel,
    rows: &[ShareRow],
) -> anyhow::Result<()> {
    let groups = groups(rows);
    let most = rows.iter().map(panel.figure).fold(0.0, f64::max);
    // Room for the legend above the bars.
    let top = if most > 0.0 { most * 1.5 } else { 1.0 };
    let mut chart = ChartBuilder::on(area)
        .caption(panel.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(34)
        .y_label_area_size(56)
        .build_cartesian_2d(0.0..groups.len().max(1) as f64, 0.0..top)?;
    let label = |at: &f64| {
        // Labels stand in the middle of their group.
        let group = groups.get(at.floor() as usize).filter(|_| (at.fract() - 0.5).abs() < 1e-6);
        group.map_or_else(String::new, |(size, senders)| {
            format!("{senders} × {}", sizes::show(*size))
        })
    };
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(2 * groups.len() + 1)
        .x_label_formatter(&label)
        .y_label_formatter(&|value| {
            format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned()
        })
        .label_style(("sans-serif", 14))
        .draw()?;
    let subjects = [
        ShareSubject::Emp,
        ShareSubject::TcpCubic,
        ShareSubject::TcpBbr,
        ShareSubject::EmpBesideCubic,
    ];
    for (at, subject) in subjects.into_iter().enumerate() {
        let colour = colour(subject);
        let bars = rows.iter().filter(|row| row.subject == subject).filter_map(|row| {
            let group = groups.iter().position(|group| *group == (row.size, row.senders))?;
            let left = group as f64 + 0.08 + 0.21 * at as f64;
            Some(Rectangle::new([(left, 0.0), (left + 0.18, (panel.figure)(row))], colour.filled()))
        });
        chart
            .draw_series(bars)?
            .label(subject.name())
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled()));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 13))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::fixtures::share_row as row;

    #[test]
    fn the_table_fits_the_page() {
        let rows = [row(ShareSubject::Emp, 30, 0.4567), row(ShareSubject::TcpCubic, 8, 0.1)];
        let text = table(&rows);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        for cell in ["tcp-cubic", "0.457", "91 %", "0.987", "1.23 %", "123457"] {
            assert!(text.contains(cell), "{cell}: {text}");
        }
        assert!(table(&[]).contains("goodput"));
    }

    #[test]
    fn the_picture_has_a_panel_a_figure_and_a_bar_a_row() {
        let rows = [
            row(ShareSubject::Emp, 2, 0.4),
            row(ShareSubject::TcpCubic, 2, 0.3),
            row(ShareSubject::TcpBbr, 8, 0.2),
        ];
        let svg = draw("500mbit", &rows).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for panel in &PANELS {
            let title = panel.title.replace('\'', "&apos;");
            assert!(svg.contains(&title) || svg.contains(panel.title), "{}", panel.title);
        }
        for text in ["2 × 32K", "8 × 32K"] {
            assert_eq!(svg.matches(text).count(), 4, "{text}");
        }
        assert!(draw("nothing", &[]).is_ok());
    }
}
