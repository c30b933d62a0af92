//! Open-MX: copies, interrupts and one bottom half (O13 to O25).

use emp_firmware::Span;
use emp_model::openmx::{Network, Parameters, bandwidth, copies, latency, receiver_busy};

use super::experiment::{Axes, Experiment, Picture, ran};
use super::row::{Bar, Row};

const SET: Parameters = Parameters::E5345;
const ROUNDS: u32 = 40;
const LARGE: u64 = 1 << 20;
/// The paper's advice: about the network's own latency (O25).
const TUNED: Span = Span(2_400);

pub fn run() -> anyhow::Result<Experiment> {
    let rows = [copied()?, by_network()?, offload()?].into_iter().flatten().collect();
    Ok(Experiment {
        name: "openmx",
        title: "Open-MX on generic Ethernet (CAC 2008)",
        rows,
        parameters: vec![("E5345", SET.list())],
    })
}

fn large(set: &Parameters, network: &Network) -> anyhow::Result<f64> {
    ran(bandwidth(set, network, LARGE, 6))
}

/// How often a byte is copied.
fn copied() -> anyhow::Result<Vec<Row>> {
    let off = Network::ten_gigabit(Span(0));
    let medium = ran(copies(&SET, &off, 16 << 10))?;
    let long = ran(copies(&SET, &off, LARGE))?;
    let exact = Bar::Within(0.01);
    Ok(vec![
        Row::predicted("O13", "copies of a sent byte, medium", "", 1.0, medium.send, exact),
        Row::predicted("O13", "copies of a sent byte, large", "", 0.0, long.send, exact),
        Row::predicted("O15", "copies of a received byte, medium", "", 2.0, medium.receive, exact),
        Row::predicted("O15", "copies of a received byte, large", "", 1.0, long.receive, exact),
    ])
}

/// Latency and bandwidth by network, and by when it interrupts.
fn by_network() -> anyhow::Result<Vec<Row>> {
    let off = Network::ten_gigabit(Span(0));
    let tuned = Network::ten_gigabit(TUNED);
    let small = |network: &Network| ran(latency(&SET, network, 4, ROUNDS));
    Ok(vec![
        Row::fitted("O19", "1 Gb/s: latency", "us", 16.0, small(&Network::gigabit())?),
        Row::stated(
            "O19",
            "1 Gb/s: bandwidth, of the line's rate: about all",
            "",
            large(&SET, &Network::gigabit())? / 125.0,
            (0.85, 1.0),
        ),
        Row::fitted("O22", "10 Gb/s: latency, interrupts at once", "us", 9.2, small(&off)?),
        Row::fitted(
            "O22",
            "10 Gb/s: latency, interrupts deferred as usual",
            "us",
            75.7,
            small(&Network::deferred())?,
        ),
        Row::predicted(
            "O20",
            "10 Gb/s: latency, deferred by the network's own",
            "us",
            11.8,
            small(&tuned)?,
            Bar::Percent(5.0),
        ),
        Row::fitted("O20", "10 Gb/s: bandwidth", "MB/s", 700.0, large(&SET, &off)?),
        Row::predicted(
            "O21",
            "10 Gb/s: bandwidth, 4 kB frames: about",
            "MB/s",
            400.0,
            large(&SET, &Network::compatible())?,
            Bar::Percent(10.0),
        ),
        Row::stated(
            "O23",
            "bandwidth at 32 kB, of that just above it: two copies cost",
            "",
            ran(bandwidth(&SET, &off, 32 << 10, ROUNDS))?
                / ran(bandwidth(&SET, &off, 64 << 10, ROUNDS))?,
            (0.0, 1.0),
        ),
    ])
}

/// What the one bottom half limits, and what the copies that a card makes gain.
fn offload() -> anyhow::Result<Vec<Row>> {
    let off = Network::ten_gigabit(Span(0));
    let busy = ran(receiver_busy(&SET, &off, LARGE))?;
    let (plain, offloaded) = (large(&SET, &off)?, large(&SET.offloaded(), &off)?);
    Ok(vec![
        Row::stated(
            "O24",
            "10 Gb/s: large messages one way, how busy the bottom half's core is: all",
            "",
            busy.bottom_half,
            (0.95, 1.0),
        ),
        Row::unpublished("O24", "the program's core meanwhile", "", busy.program),
        Row::predicted(
            "O26",
            "gain of I/OAT at large messages",
            "%",
            30.0,
            (offloaded / plain - 1.0) * 100.0,
            Bar::Within(10.0),
        ),
    ])
}

pub fn pictures() -> anyhow::Result<Vec<Picture>> {
    let networks = [
        ("Open-MX, 10 Gb/s", Network::ten_gigabit(TUNED)),
        ("Open-MX, 10 Gb/s, 4 kB frames", Network::compatible()),
        ("Open-MX, 1 Gb/s", Network::gigabit()),
    ];
    let mut curves = Vec::new();
    for (name, network) in networks {
        let mut points = Vec::new();
        for shift in (4..=20).step_by(2) {
            points.push((f64::from(1 << shift), ran(bandwidth(&SET, &network, 1 << shift, 10))?));
        }
        curves.push((name.to_owned(), points));
    }
    Ok(vec![Picture {
        title: "Ping-pong bandwidth over message size",
        x: "message size, bytes",
        y: "MB/s",
        axes: Axes::Bandwidth { unit: 1.0, bits: 8e6 },
        curves,
        points: vec![((1 << 20) as f64, 700.0), ((1 << 20) as f64, 400.0)],
        note: "",
    }])
}
