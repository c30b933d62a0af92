//! The first paper: latency, bandwidth, and computing while messages move (E54 to E67).

use emp_firmware::Span;
use emp_model::tigon2::{Parameters, Placement, latency, overlap, unidirectional};

use super::experiment::{Axes, Experiment, Picture, ran};
use super::row::{Bar, Row};

const ROUNDS: u32 = 60;
const MESSAGES: u32 = 200;
/// The longest message of one frame: the header of EMP's first frame is 60 bytes where the paper's is some 14.
const ONE_FRAME: u32 = 1_440;
const SHORTER: &str = "the paper's 1500 B are the longest message of one frame, and are compared with the longest of EMP's, 1440 B: the header of its first frame is 60 bytes";
/// Bytes of a page, where a transfer goes on with another DMA (E64).
const PAGE: u32 = 4_096;
/// Bytes beyond it: as many take less than a tenth of a microsecond by themselves.
const BEYOND: u32 = 8;
/// Microseconds: one DMA's set-up at least; at most two of those that take 3 µs each (E40).
const PAGE_STEP: (f64, f64) = (0.3, 6.0);
const SET: Parameters = Parameters::SC2001;

fn one_way(bytes: u32) -> anyhow::Result<f64> {
    ran(latency(&SET, Placement::BASE, bytes, ROUNDS))
}

fn stream(bytes: u32) -> anyhow::Result<f64> {
    Ok(ran(unidirectional(&SET, Placement::BASE, bytes, MESSAGES))?.mbps)
}

pub fn run() -> anyhow::Result<Experiment> {
    let one_frame = one_way(ONE_FRAME)?;
    let idle = ran(overlap(&SET, Span(0), 60))?;
    let some = ran(overlap(&SET, Span::us(300), 60))?;
    let much = ran(overlap(&SET, Span::us(10_000), 20))?;
    let [send, receive, wait] = much.calls_us;
    let rows = vec![
        Row::fitted("E60", "latency, 4 B", "us", 23.0, one_way(4)?),
        Row::fitted("E60", "latency, one full frame (1440 B for 1500)", "us", 36.0, one_frame)
            .noting(SHORTER),
        Row::fitted("E61", "bandwidth, 4 kB", "Mb/s", 880.0, stream(4_096)?),
        Row::stated(
            "E64",
            "step of latency where a second frame begins",
            "us",
            one_way(1_500)? - one_frame,
            (2.0, 20.0),
        ),
        Row::stated(
            "E64",
            "step of latency where a second page begins: another DMA at each end",
            "us",
            one_way(PAGE + BEYOND)? - one_way(PAGE)?,
            PAGE_STEP,
        ),
        Row::fitted("E66", "MPI_Isend, a call", "us", 53.0, send),
        Row::fitted("E66", "MPI_Irecv, a call", "us", 9.0, receive),
        Row::predicted("E66", "MPI_Waitall when all is over", "us", 3.0, wait, Bar::Percent(5.0)),
        Row::predicted("E66", "total", "us", 65.0, send + receive + wait, Bar::Percent(5.0)),
        Row::stated(
            "E67",
            "throughput while computing 300 us of each round, of that without",
            "",
            some.mbps / idle.mbps,
            (0.98, 1.02),
        ),
        Row::stated(
            "E67",
            "the same with 10 ms: towards zero",
            "",
            much.mbps / idle.mbps,
            (0.0, 0.15),
        ),
    ];
    Ok(Experiment {
        name: "emp",
        title: "EMP on one processor of a Tigon2 (SC 2001)",
        rows,
        parameters: vec![("SC2001", SET.list())],
    })
}

pub fn pictures() -> anyhow::Result<Vec<Picture>> {
    let sizes =
        [4, 64, 256, 512, 1_024, ONE_FRAME, 1_500, 2_048, 2_900, 3_000, 4_096, 4_200, 6_000, 8_192];
    let (mut latencies, mut bandwidths, mut overlaps) = (Vec::new(), Vec::new(), Vec::new());
    for bytes in sizes {
        latencies.push((f64::from(bytes), one_way(bytes)?));
        bandwidths.push((f64::from(bytes), stream(bytes)?));
    }
    for work in [0, 100, 200, 300, 400, 500, 600, 800, 1_200, 2_000, 4_000, 10_000] {
        let came = ran(overlap(&SET, Span::us(work), 40))?;
        overlaps.push((came.fraction, came.mbps));
    }
    let curve = |points| vec![("EMP, model".to_owned(), points)];
    Ok(vec![
        Picture {
            title: "Latency over message size",
            x: "message size, bytes",
            y: "one way, us",
            axes: Axes::Latency { unit: 1.0 },
            curves: curve(latencies),
            points: vec![(4.0, 23.0), (1_500.0, 36.0)],
            note: SHORTER,
        },
        Picture {
            title: "Bandwidth over message size",
            x: "message size, bytes",
            y: "Mb/s",
            axes: Axes::Bandwidth { unit: 1.0, bits: 1e6 },
            curves: curve(bandwidths),
            points: vec![(4_096.0, 880.0)],
            note: "",
        },
        Picture {
            title: "Throughput over the part of the processor that computes, 10 kB messages",
            x: "part of the time that the program computes",
            y: "Mb/s",
            axes: Axes::Overlap,
            curves: curve(overlaps),
            points: Vec::new(),
            note: "",
        },
    ])
}
