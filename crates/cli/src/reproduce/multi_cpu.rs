//! The multi-CPU paper: five placements of the stages, one way and both ways (I24 to I29).

use emp_model::tigon2::{Parameters, Scheme, bidirectional, latency, unidirectional};

use super::experiment::{Experiment, Picture, ran};
use super::row::{Bar, Row};

const SET: Parameters = Parameters::IPDPS2002;
const ROUNDS: u32 = 60;
const MESSAGES: u32 = 400;
/// Messages of three, six and nine frames, all full: whole collections, as bandwidth peaks there.
const PEAKS: [u32; 3] = [4_360, 8_764, 13_168];

/// What a scheme reaches.
#[derive(Clone, Copy)]
struct Reached {
    small: f64,
    large: f64,
    one_way: f64,
    both_ways: f64,
}

fn reached(scheme: Scheme) -> anyhow::Result<Reached> {
    let (mut one_way, mut both_ways) = (0f64, 0f64);
    for bytes in PEAKS {
        one_way = one_way.max(ran(unidirectional(&SET, scheme, bytes, MESSAGES))?.mbps);
        both_ways = both_ways.max(ran(bidirectional(&SET, scheme, bytes, MESSAGES))?.mbps);
    }
    let small = ran(latency(&SET, scheme, 10, ROUNDS))?;
    let large = ran(latency(&SET, scheme, 14 << 10, ROUNDS))?;
    Ok(Reached { small, large, one_way, both_ways })
}

const LARGE_GAIN: &str = "840 and 964 Mb/s alone are 14.1 and 12.3 us a frame, and ten frames of that are 11 % and more: the three figures of the paper do not fit one pipeline";
const BEST_BOTH_WAYS: &str = "Table 1's stages where Table 2 puts them leave each processor of DSR and SR 14 us for a pair of frames; 1100 Mb/s would be 21 us. Contention that is large enough for that slows SO as much";

fn gain(base: f64, other: f64) -> f64 {
    (1.0 - other / base) * 100.0
}

#[expect(clippy::too_many_lines, reason = "a table of the paper's figures")]
pub fn run() -> anyhow::Result<Experiment> {
    let [base, so, ro, dsr, sr] = Scheme::ALL.map(reached);
    let (base, so, ro, dsr, sr) = (base?, so?, ro?, dsr?, sr?);
    let best_other = ro.both_ways.max(dsr.both_ways).max(sr.both_ways);
    let least = so.both_ways.min(ro.both_ways).min(dsr.both_ways).min(sr.both_ways);
    let five = Bar::Percent(5.0);
    let points = Bar::Within(3.0);
    let rows = vec![
        Row::fitted("I24", "base: latency, 10 B", "us", 24.31, base.small),
        Row::predicted("I24", "base: one way", "Mb/s", 840.0, base.one_way, five),
        Row::fitted("I24", "base: both ways", "Mb/s", 940.0, base.both_ways),
        Row::predicted("I25", "RO: latency, 10 B", "us", 22.62, ro.small, five),
        Row::predicted(
            "I25",
            "RO: gain of latency, 10 B",
            "%",
            7.0,
            gain(base.small, ro.small),
            points,
        ),
        Row::predicted(
            "I25",
            "RO: gain of latency, 14 kB",
            "%",
            8.3,
            gain(base.large, ro.large),
            points,
        )
        .because(LARGE_GAIN),
        Row::predicted("I25", "RO: one way", "Mb/s", 964.0, ro.one_way, five),
        Row::stated(
            "I26",
            "SO: one way, of base: no gain",
            "",
            so.one_way / base.one_way,
            (0.95, 1.05),
        ),
        Row::fitted("I26", "SO: both ways", "Mb/s", 1_100.0, so.both_ways),
        Row::stated(
            "I26",
            "SO: both ways, of the best other: best",
            "",
            so.both_ways / best_other,
            (1.0, 2.0),
        )
        .because(BEST_BOTH_WAYS),
        Row::predicted(
            "I27",
            "DSR: gain of latency, 10 B",
            "%",
            6.0,
            gain(base.small, dsr.small),
            points,
        ),
        Row::stated(
            "I27",
            "DSR: one way, of base: marginally better",
            "",
            dsr.one_way / base.one_way,
            (1.0, 1.05),
        ),
        Row::stated(
            "I28",
            "SR: one way, of RO: close to it",
            "",
            sr.one_way / ro.one_way,
            (0.98, 1.05),
        ),
        Row::predicted("I28", "SR: one way", "Mb/s", 964.0, sr.one_way, five),
        Row::stated(
            "I29",
            "both ways: the least of the four, of base: better",
            "",
            least / base.both_ways,
            (1.0, 2.0),
        ),
    ];
    Ok(Experiment {
        name: "multicpu",
        title: "EMP on both processors of a Tigon2 (IPDPS 2002)",
        rows,
        parameters: vec![("IPDPS2002", SET.list())],
    })
}

pub fn pictures() -> anyhow::Result<Vec<Picture>> {
    let sizes = [10, 1 << 10, 2 << 10, 4 << 10, 6 << 10, 8 << 10, 10 << 10, 12 << 10, 14 << 10];
    let mut pictures = [
        ("Latency, one way", "us", vec![(0.01, 24.31), (0.01, 22.62)]),
        ("Bandwidth, one way", "Mb/s", vec![(14.0, 840.0), (14.0, 964.0)]),
        ("Bandwidth, both ways", "Mb/s", vec![(14.0, 940.0), (14.0, 1_100.0)]),
    ]
    .map(|(title, y, points)| Picture {
        title,
        x: "message size, kB",
        y,
        curves: Vec::new(),
        points,
    });
    for scheme in Scheme::ALL {
        let mut curves: [Vec<(f64, f64)>; 3] = Default::default();
        for bytes in sizes {
            let kb = f64::from(bytes) / 1_024.0;
            curves[0].push((kb, ran(latency(&SET, scheme, bytes, ROUNDS))?));
            curves[1].push((kb, ran(unidirectional(&SET, scheme, bytes, MESSAGES))?.mbps));
            curves[2].push((kb, ran(bidirectional(&SET, scheme, bytes, MESSAGES))?.mbps));
        }
        for (picture, curve) in pictures.iter_mut().zip(curves) {
            picture.curves.push((scheme.name().to_owned(), curve));
        }
    }
    Ok(pictures.into())
}
