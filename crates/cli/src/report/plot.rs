//! Curves: throughput over message size, and NetPIPE's signature, throughput over time, whose left end is the latency.

use std::fs;
use std::path::Path;

use anyhow::Context;
use plotters::coord::Shift;
use plotters::prelude::*;

use super::table;
use crate::measured::Row;
use crate::sizes;

/// Pixels: both plots side by side on an ordinary screen.
const PICTURE: (u32, u32) = (1280, 560);

/// Colours that differ in lightness too, so that they can be told apart in grey and by the colour-blind.
const COLOURS: [RGBColor; 6] = [
    RGBColor(0, 90, 181),
    RGBColor(220, 80, 30),
    RGBColor(100, 100, 100),
    RGBColor(0, 0, 0),
    RGBColor(60, 160, 110),
    RGBColor(150, 70, 160),
];

/// Points of one subject, from small messages to large.
pub struct Curve {
    pub name: String,
    pub points: Vec<Point>,
}

/// One message size: bytes, microseconds of one message, 10^9 bits per second.
#[derive(Clone, Copy)]
pub struct Point {
    pub bytes: f64,
    pub us: f64,
    pub gbps: f64,
}

/// Draws every subject of the rows into one file.
pub fn write(path: &Path, title: &str, rows: &[Row]) -> anyhow::Result<()> {
    write_curves(path, title, curves(rows))
}

/// Draws curves that somebody else has made.
pub fn write_curves(path: &Path, title: &str, curves: Vec<Curve>) -> anyhow::Result<()> {
    let picture = draw(title, &curves)?;
    fs::write(path, picture).with_context(|| format!("writing {}", path.display()))
}

fn curves(rows: &[Row]) -> Vec<Curve> {
    let mut curves: Vec<Curve> = Vec::new();
    for row in rows {
        let (Some(bytes), Some(gbps)) = (row.size, row.gbps) else { continue };
        // Streams have no time of their own; the time that each message takes up stands for it.
        let us = row.one_way_us.or(row.messages_per_s.map(|rate| 1e6 / rate));
        let Some(us) = us.filter(|us| *us > 0.0) else { continue };
        let name = table::subject(row);
        let point = Point { bytes: bytes as f64, us, gbps };
        match curves.iter_mut().find(|curve| curve.name == name) {
            Some(curve) => curve.points.push(point),
            None => curves.push(Curve { name, points: vec![point] }),
        }
    }
    for curve in &mut curves {
        curve.points.sort_by(|a, b| a.bytes.total_cmp(&b.bytes));
    }
    curves
}

fn draw(title: &str, curves: &[Curve]) -> anyhow::Result<String> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, PICTURE).into_drawing_area();
        root.fill(&WHITE)?;
        let root = root.titled(title, ("sans-serif", 24))?;
        let (left, right) = root.split_horizontally(PICTURE.0 / 2);
        let size = Axis {
            title: "Throughput over message size",
            unit: "message size, bytes",
            of: |point| point.bytes,
            label: |bytes| sizes::show(*bytes as usize),
            base: 2.0,
        };
        let time = Axis {
            title: "Signature: throughput over time",
            unit: "time of one message, µs",
            of: |point| point.us,
            label: show_time,
            base: 10.0,
        };
        chart(&left, &size, curves)?;
        chart(&right, &time, curves)?;
        root.present()?;
    }
    Ok(svg)
}

/// A range a little larger than from `least` to `most`. A single point, or none, still gets a picture.
pub(super) fn around(least: f64, most: f64) -> std::ops::Range<f64> {
    let least = if least.is_finite() && least > 0.0 { least } else { 1.0 };
    (least / 1.3)..(most.max(least * 2.0) * 1.3)
}

struct Axis {
    title: &'static str,
    unit: &'static str,
    of: fn(&Point) -> f64,
    label: fn(&f64) -> String,
    base: f64,
}

pub(super) fn show_time(us: &f64) -> String {
    if *us < 1.0 { format!("{us:.1}") } else { format!("{us:.0}") }
}

fn chart(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    axis: &Axis,
    curves: &[Curve],
) -> anyhow::Result<()> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let least = points().map(axis.of).fold(f64::INFINITY, f64::min);
    let most = points().map(axis.of).fold(0.0, f64::max);
    let x = around(least, most);
    // Logarithmic too: small messages matter as much as large ones, and the same factor is the same height everywhere.
    let bottom = points().map(|point| point.gbps).fold(f64::INFINITY, f64::min);
    let top = points().map(|point| point.gbps).fold(0.0, f64::max);
    let y = around(bottom, top);
    let mut chart = ChartBuilder::on(area)
        .caption(axis.title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(46)
        .y_label_area_size(64)
        .build_cartesian_2d(x.log_scale().base(axis.base), y.log_scale())?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(8)
        .x_label_formatter(&axis.label)
        .y_label_formatter(&|gbps| format!("{gbps}"))
        .x_desc(axis.unit)
        .y_desc("throughput, Gb/s")
        .label_style(("sans-serif", 16))
        .draw()?;
    for (curve, colour) in curves.iter().zip(COLOURS.into_iter().cycle()) {
        let points: Vec<(f64, f64)> =
            curve.points.iter().map(|point| ((axis.of)(point), point.gbps)).collect();
        let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
        chart
            .draw_series(line)?
            .label(&curve.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(points.into_iter().map(|at| Circle::new(at, 2, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font(("sans-serif", 16))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measured::{Pattern, SubjectKind};

    fn row(subject: SubjectKind, size: usize, us: f64) -> Row {
        Row {
            pattern: Pattern::Pingpong,
            subject,
            link: (subject == SubjectKind::Emp).then(|| "packet".to_owned()),
            mtu: 1500,
            size: Some(size),
            one_way_us: Some(us),
            gbps: Some(size as f64 * 8e-3 / us),
            messages_per_s: Some(1e6 / us),
            samples: 5,
            mean_us: None,
            copies: None,
            congestion: None,
            pair: None,
        }
    }

    #[test]
    fn every_subject_is_named_once_a_plot() {
        let rows: Vec<Row> = [4, 64, 4096, 1 << 20]
            .into_iter()
            .flat_map(|size| {
                let us = 1.0 + size as f64 / 2000.0;
                [row(SubjectKind::Tcp, size, 2.0 * us), row(SubjectKind::Emp, size, us)]
            })
            .collect();
        let svg = draw("a title", &curves(&rows)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        for text in ["EMP packet", "TCP spinning"] {
            assert_eq!(svg.matches(text).count(), 2, "{text}");
        }
        for text in ["a title", "message size, bytes", "throughput, Gb/s", "Signature"] {
            assert!(svg.contains(text), "{text}");
        }
    }

    #[test]
    fn few_points_or_none_are_no_reason_to_fail() {
        assert!(draw("none", &[]).is_ok());
        assert!(draw("one", &curves(&[row(SubjectKind::Emp, 32, 1.0)])).is_ok());
    }
}
