//! The multi-CPU paper: five placements of the stages, one way and both ways (I24 to I29).

use emp_model::tigon2::{Parameters, Placement, bidirectional, latency, unidirectional};

use super::experiment::{Axes, Experiment, Picture, ran};
use super::row::{Bar, Row};

const SET: Parameters = Parameters::IPDPS2002;
const ROUNDS: u32 = 60;
const MESSAGES: u32 = 400;
/// Messages of three, six and nine frames, all full: whole collections, as bandwidth peaks there.
const PEAKS: [u32; 3] = [4_360, 8_764, 13_168];

/// The wire's limit for the last of them, in Mb/s: nine frames of 1500 bytes, each with Ethernet's header, CRC, preamble and gap.
const LIMIT: f64 = 13_168.0 * 1e3 / (9.0 * 1_538.0);
/// A large message both ways (I29), in whole collections: 42 frames.
const LARGE_BOTH_WAYS: u32 = 61_628;

/// What a scheme reaches.
#[derive(Clone, Copy)]
struct Reached {
    small: f64,
    large: f64,
    one_way: f64,
    both_ways: f64,
    /// With large messages only.
    large_both_ways: f64,
}

fn reached(placement: Placement) -> anyhow::Result<Reached> {
    let (mut one_way, mut both_ways) = (0f64, 0f64);
    for bytes in PEAKS {
        one_way = one_way.max(ran(unidirectional(&SET, placement, bytes, MESSAGES))?.mbps);
        both_ways = both_ways.max(ran(bidirectional(&SET, placement, bytes, MESSAGES))?.mbps);
    }
    let small = ran(latency(&SET, placement, 10, ROUNDS))?;
    let large = ran(latency(&SET, placement, 14 << 10, ROUNDS))?;
    let large_both_ways = ran(bidirectional(&SET, placement, LARGE_BOTH_WAYS, MESSAGES / 4))?.mbps;
    Ok(Reached { small, large, one_way, both_ways, large_both_ways })
}

const LARGE_GAIN: &str = "840 and 964 Mb/s alone are 14.1 and 12.3 us a frame, and ten frames of that are 11 % and more: the three figures of the paper do not fit one pipeline. Tried: contention (12 %: a gain of 13.3; 42 %, taken; 90 %: 1.2, and none at 10 B), and signals four times dearer (10.4, and 1.2 at 10 B)";
const BEST_BOTH_WAYS: &str = "Table 1's stages where Table 2 puts them leave each processor of DSR and SR 14 us for a pair of frames; 1100 Mb/s would be 21 us. Tried: contention of 12, 42 (taken) and 90 %, and signals four and eight times dearer: what slows DSR and SR so far slows SO as much";
const OVERTAKEN: &str = "a frame needs the same signals however long its message is, so that the gain is the same from 4 kB on. Tried: signals eight times dearer (the best of the four 21 % ahead at 60 kB, 10 at 4), and contention of 90 % (2 % at either): both take the gain of small messages as well";
const HEADERS: &str = "EMP's header is 32 bytes of a frame and 60 of a message's first, where the paper's is about 14 (99.78 % of the limit are 964 Mb/s): what the wire can carry is 951 Mb/s instead of 966";

fn gain(base: f64, other: f64) -> f64 {
    (1.0 - other / base) * 100.0
}

#[expect(clippy::too_many_lines, reason = "a table of the paper's figures")]
pub fn run() -> anyhow::Result<Experiment> {
    let [base, so, ro, dsr, sr] = Placement::PAPER.map(reached);
    let (base, so, ro, dsr, sr) = (base?, so?, ro?, dsr?, sr?);
    let best_other = ro.both_ways.max(dsr.both_ways).max(sr.both_ways);
    let large_of = |one: Reached| one.large_both_ways / base.large_both_ways;
    let large_best = [so, ro, dsr, sr].map(large_of).into_iter().fold(0.0, f64::max);
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
        Row::predicted("I25", "RO: one way", "Mb/s", 964.0, ro.one_way, five).noting(HEADERS),
        Row::predicted(
            "I25",
            "RO: one way, of the wire's limit",
            "%",
            99.78,
            ro.one_way / LIMIT * 100.0,
            Bar::Within(0.5),
        ),
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
        Row::stated(
            "I29",
            "both ways, 60 kB: the best of the four, of base: overtaken",
            "",
            large_best,
            (0.0, 1.0),
        )
        .because(OVERTAKEN),
    ];
    Ok(Experiment {
        name: "multicpu",
        title: "EMP on both processors of a Tigon2 (IPDPS 2002)",
        rows,
        parameters: vec![("IPDPS2002", SET.list())],
    })
}

/// What a placement that the paper does not have does, beside the base scheme.
pub fn run_placed(placement: &Placement) -> anyhow::Result<Experiment> {
    let (base, given) = (reached(Placement::BASE)?, reached(*placement)?);
    let mut rows = Vec::new();
    for (name, one) in [("base", base), (placement.name(), given)] {
        let mut row = |what, unit, model| {
            rows.push(Row::unpublished("I17", format!("{name}: {what}"), unit, model));
        };
        row("latency, 10 B", "us", one.small);
        row("latency, 14 kB", "us", one.large);
        row("one way", "Mb/s", one.one_way);
        row("both ways", "Mb/s", one.both_ways);
    }
    let gains = [
        ("gain of latency, 10 B", gain(base.small, given.small)),
        ("gain of latency, 14 kB", gain(base.large, given.large)),
        ("gain one way", -gain(base.one_way, given.one_way)),
        ("gain both ways", -gain(base.both_ways, given.both_ways)),
    ];
    for (what, gain) in gains {
        let what = format!("{}: {what}", placement.name());
        rows.push(Row::unpublished("I17", what, "%", gain));
    }
    Ok(Experiment {
        name: "multicpu",
        title: "EMP on a Tigon2, stages placed by a table",
        rows,
        parameters: vec![("IPDPS2002", SET.list())],
    })
}

pub fn pictures() -> anyhow::Result<Vec<Picture>> {
    pictures_of(&Placement::PAPER)
}

/// The paper's pictures with curves of these placements.
pub fn pictures_of(placements: &[Placement]) -> anyhow::Result<Vec<Picture>> {
    const KB: f64 = 1_024.0;
    let sizes = [10, 1 << 10, 2 << 10, 4 << 10, 6 << 10, 8 << 10, 10 << 10, 12 << 10, 14 << 10];
    let (latencies, one_way) =
        (Axes::Latency { unit: KB }, Axes::Bandwidth { unit: KB, bits: 1e6 });
    let mut pictures = [
        ("Latency, one way", "us", latencies, vec![(0.01, 24.31), (0.01, 22.62)]),
        ("Bandwidth, one way", "Mb/s", one_way, vec![(14.0, 840.0), (14.0, 964.0)]),
        ("Bandwidth, both ways", "Mb/s", Axes::Other, vec![(14.0, 940.0), (14.0, 1_100.0)]),
    ]
    .map(|(title, y, axes, points)| Picture {
        title,
        x: "message size, kB",
        y,
        axes,
        curves: Vec::new(),
        points,
        note: "",
    });
    for placement in placements {
        let mut curves: [Vec<(f64, f64)>; 3] = Default::default();
        for bytes in sizes {
            let kb = f64::from(bytes) / KB;
            curves[0].push((kb, ran(latency(&SET, *placement, bytes, ROUNDS))?));
            curves[1].push((kb, ran(unidirectional(&SET, *placement, bytes, MESSAGES))?.mbps));
            curves[2].push((kb, ran(bidirectional(&SET, *placement, bytes, MESSAGES))?.mbps));
        }
        for (picture, curve) in pictures.iter_mut().zip(curves) {
            picture.curves.push((placement.name().to_owned(), curve));
        }
    }
    Ok(pictures.into())
}
