//! What the host layer costs on top of the firmware: two nodes in one thread over a link that costs next to nothing.
//!
//! For each message one receive is posted, one send is posted, and completions are polled on both sides. Compare with
//! the firmware alone: `cargo run --release -p emp-firmware --example cost`.
//!
//! `cargo run --release -p emp-host --example layer [--laps N] [BYTES…]`; for instruction counts that repeat, run the built
//! example with one lap under `valgrind --tool=callgrind`.

#[path = "../tests/memory_link/mod.rs"]
mod memory_link;

use std::time::{Duration, Instant};

use memory_link::{message, pair};

/// Messages each way in a lap.
const LAP: usize = 200;

/// Laps; the best one counts.
const LAPS: usize = 5000;

fn main() {
    let mut laps = LAPS;
    let mut sizes = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let number = if word == "--laps" { words.next().unwrap_or_default() } else { word.clone() };
        let Ok(number) = number.parse() else {
            eprintln!("layer: `{word} {number}` is no number; usage: layer [--laps N] [BYTES…]");
            std::process::exit(2);
        };
        if word == "--laps" { laps = number } else { sizes.push(number) }
    }
    if sizes.is_empty() {
        sizes = vec![0, 32, 1024, 1400];
    }
    let (nodes, ends) = pair();
    let idle = best(laps, || {
        nodes[0].progress();
    });
    println!("an idle turn by call: {idle:.0} ns");
    for bytes in sizes {
        let (out, into) = (vec![1u8; bytes].leak(), vec![0u8; bytes].leak());
        let mut done = Vec::with_capacity(64);
        let time = best(laps, || {
            for end in [0, 1] {
                message(&ends[end], &ends[1 - end], nodes[1 - end].id(), out, into, &mut done);
            }
        });
        println!("{bytes} bytes: {:.0} ns one way", time / 2.0);
    }
}

/// The best lap's mean, in nanoseconds.
fn best(laps: usize, mut what: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    for _ in 0..laps {
        let start = Instant::now();
        (0..LAP).for_each(|_| what());
        best = best.min(start.elapsed());
    }
    best.as_nanos() as f64 / LAP as f64
}
