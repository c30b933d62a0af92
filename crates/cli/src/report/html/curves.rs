//! The three charts of a NetPIPE run: throughput over size, NetPIPE's signature, EMP as a multiple of TCP.

use std::ops::Range;

use super::chart::{Axis, Chart, Curve};
use crate::measured::{FACES, Point, SubjectKind};
use crate::report::plot::{around, show_time};
use crate::report::ratio::Ratio;
use crate::report::table;
use crate::sizes;

/// Ratio of greatest to least from which every power of two has no room any more.
const RATIO_WIDE: f64 = 256.0;

/// Colours of faces, in the order of their list; from the fifth on they repeat.
const FACE_CLASSES: [&str; 4] = ["face-a", "face-b", "face-c", "face-d"];

/// All points of one subject, from small sizes to large.
pub struct Line<'a> {
    /// What it is, in two words.
    pub name: String,
    /// What it is, for programs.
    pub kind: SubjectKind,
    /// Its colour in the style sheet.
    pub class: &'static str,
    /// The points.
    pub points: Vec<&'a Point>,
}

impl Line<'_> {
    /// The point at a size.
    pub fn at(&self, bytes: usize) -> Option<&Point> {
        self.points.iter().find(|point| point.bytes() == bytes).copied()
    }

    fn classes(&self) -> String {
        let bare = if self.kind == SubjectKind::Raw { " bare" } else { "" };
        format!("{}{bare}", self.class)
    }
}

/// The subjects of a run in their order.
pub fn lines(points: &[Point]) -> Vec<Line<'_>> {
    let mut lines: Vec<Line<'_>> = Vec::new();
    for point in points {
        let name = table::subject(&point.row);
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(point),
            None => {
                let (kind, class) = (point.row.subject, class(point));
                lines.push(Line { name, kind, class, points: vec![point] });
            }
        }
    }
    for line in &mut lines {
        line.points.sort_by_key(|point| point.bytes());
    }
    lines
}

/// A link has one colour, whether EMP uses it or it is bare.
fn class(point: &Point) -> &'static str {
    match (point.row.subject, point.row.link.as_deref()) {
        (SubjectKind::Tcp, _) => "tcp",
        (SubjectKind::TcpBlock, _) => "block",
        (SubjectKind::Face(name), _) => {
            let place = FACES.iter().position(|face| face.name == name).unwrap_or(0);
            FACE_CLASSES[place % FACE_CLASSES.len()]
        }
        (SubjectKind::Mpi("mpi-emp"), _) => "mpi",
        (SubjectKind::Mpi(_), _) => "mpi-tcp",
        (_, Some("packet")) => "packet",
        (_, Some("udp")) => "udp",
        (_, Some("xdp")) => "xdp",
        (_, Some("shm")) => "shm",
        (_, _) => "several",
    }
}

/// Throughput over message size.
pub fn throughput(lines: &[Line<'_>], mtu: usize) -> Chart {
    let curves = lines.iter().map(|line| {
        let at = |point: &Point| Some((point.bytes() as f64, point.row.gbps?));
        let band = line.points.iter().map(|point| best_gbps(point)).collect();
        Curve { band, ..curve(line, at) }
    });
    Chart {
        title: "Throughput over message size".to_owned(),
        x: sizes(lines),
        y: throughputs(lines),
        curves: curves.collect(),
        parity: None,
        mark: Some((mtu as f64, format!("MTU {mtu}"))),
    }
}

/// Throughput over the time of one message.
pub fn signature(lines: &[Line<'_>]) -> Chart {
    let time = |point: &Point| point.row.one_way_us;
    let range = range(lines.iter().flat_map(|line| line.points.iter().filter_map(|p| time(p))));
    let ticks = powers(10.0, &range).into_iter().map(|us| (us, show_time(&us))).collect();
    let at = |point: &Point| Some((time(point)?, point.row.gbps?));
    Chart {
        title: "Signature: throughput over the time of one message".to_owned(),
        x: Axis { title: "time of one message, µs", range, ticks },
        y: throughputs(lines),
        curves: lines.iter().map(|line| curve(line, at)).collect(),
        parity: None,
        mark: None,
    }
}

/// EMP's throughput divided by TCP's, over message size.
pub fn ratio(ratios: &[Ratio], lines: &[Line<'_>], mtu: usize) -> Chart {
    let all = ratios.iter().flat_map(|ratio| ratio.points.iter().map(|(_, value)| *value));
    // The line at 1 is always to be seen.
    let range = range(all.chain([1.0]));
    let base = if range.end / range.start < RATIO_WIDE { 2.0 } else { 8.0 };
    let ticks = powers(base, &range).into_iter().map(|value| (value, in_halves(value))).collect();
    let curves = ratios.iter().map(|ratio| {
        let line = lines.iter().find(|line| line.name == ratio.subject);
        let points: Vec<(f64, f64)> =
            ratio.points.iter().map(|(bytes, value)| (*bytes as f64, *value)).collect();
        let round =
            |bytes: usize| line.and_then(|line| line.at(bytes)).is_some_and(|point| point.round);
        let dots = ratio.points.iter().filter(|(bytes, _)| round(*bytes)).map(|(bytes, value)| {
            let words = format!("{}, {}: {value:.2}×", ratio.subject, bytes_in_words(*bytes));
            ((*bytes as f64, *value), words)
        });
        Curve {
            name: format!("{}, {:.2}×", ratio.subject, ratio.mean()),
            class: line.map_or("several", |line| line.class).to_owned(),
            dots: dots.collect(),
            points,
            band: Vec::new(),
            mean: Some(ratio.mean()),
        }
    });
    Chart {
        title: "EMP's throughput divided by TCP's, over message size".to_owned(),
        x: sizes(lines),
        y: Axis { title: "EMP ÷ TCP", range, ticks },
        curves: curves.collect(),
        parity: Some(1.0),
        mark: Some((mtu as f64, format!("MTU {mtu}"))),
    }
}

/// A multiple or a fraction: `4×`, `1/4×`.
fn in_halves(value: f64) -> String {
    if value < 1.0 { format!("1/{}×", 1.0 / value) } else { format!("{value}×") }
}

/// A power of ten that leaves room for the picture.
fn short(value: f64) -> String {
    if value < 1e-3 { format!("{value:e}") } else { value.to_string() }
}

/// `1 B`, `64 KiB`, `1500 B`
pub fn bytes_in_words(bytes: usize) -> String {
    let short = sizes::show(bytes);
    match short.strip_suffix(['K', 'M', 'G']) {
        Some(number) => format!("{number} {}iB", &short[number.len()..]),
        None => format!("{short} B"),
    }
}

/// Throughput of the best trial.
pub fn best_gbps(point: &Point) -> f64 {
    point.bytes() as f64 * 8e-3 / point.best_us
}

/// ` under cubic`, of TCP.
pub fn under(point: &Point) -> String {
    point.row.congestion.as_ref().map(|name| format!(" under {name}")).unwrap_or_default()
}

fn curve(line: &Line<'_>, at: impl Fn(&Point) -> Option<(f64, f64)>) -> Curve {
    let dots = line.points.iter().filter(|point| point.round).filter_map(|point| {
        let (us, gbps) = (point.row.one_way_us?, point.row.gbps?);
        let size = bytes_in_words(point.bytes());
        let steered = under(point);
        Some((at(point)?, format!("{}{steered}, {size}: {us:.2} µs, {gbps:.3} Gb/s", line.name)))
    });
    Curve {
        name: line.name.clone(),
        class: line.classes(),
        dots: dots.collect(),
        points: line.points.iter().filter_map(|point| at(point)).collect(),
        band: Vec::new(),
        mean: None,
    }
}

fn sizes(lines: &[Line<'_>]) -> Axis {
    let all = lines.iter().flat_map(|line| line.points.iter().map(|point| point.bytes() as f64));
    let range = range(all);
    // Every third power of two: seven or eight numbers from a byte to megabytes.
    let ticks = powers(8.0, &range).into_iter().map(|bytes| (bytes, sizes::show(bytes as usize)));
    Axis { title: "message size, bytes", ticks: ticks.collect(), range }
}

fn throughputs(lines: &[Line<'_>]) -> Axis {
    let all = lines.iter().flat_map(|line| line.points.iter());
    let range = range(all.flat_map(|point| [best_gbps(point)].into_iter().chain(point.row.gbps)));
    let ticks = powers(10.0, &range).into_iter().map(|gbps| (gbps, short(gbps))).collect();
    Axis { title: "throughput, Gb/s", range, ticks }
}

fn range(values: impl Iterator<Item = f64>) -> Range<f64> {
    let (least, most) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, 0.0f64), |(least, most), value| (least.min(value), most.max(value)));
    around(least, most)
}

/// The powers of a base within a range.
fn powers(base: f64, range: &Range<f64>) -> Vec<f64> {
    let first = (range.start.ln() / base.ln()).ceil() as i32;
    (first..).map(|power| base.powi(power)).take_while(|value| *value <= range.end).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_the_powers_within() {
        assert_eq!(powers(10.0, &(0.05..120.0)), [0.1, 1.0, 10.0, 100.0]);
        assert_eq!(powers(8.0, &(0.8..70.0)), [1.0, 8.0, 64.0]);
        assert_eq!(powers(2.0, &(0.3..2.5)), [0.5, 1.0, 2.0]);
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.125, 1.0, 8.0].map(in_halves), ["1/8×", "1×", "8×"]);
        assert_eq!([1e-5, 0.001, 1.0, 100.0].map(short), ["1e-5", "0.001", "1", "100"]);
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes_in_words(1), "1 B");
        assert_eq!(bytes_in_words(64 << 10), "64 KiB");
        assert_eq!(bytes_in_words(8 << 20), "8 MiB");
    }
}
