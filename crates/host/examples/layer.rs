//! What the host layer costs on top of the firmware: two nodes in one thread over a link that costs next to nothing.
//!
//! For each message one receive is posted, one send is posted, and completions are polled on both sides. Compare with
//! the firmware alone: `cargo run --release -p emp-firmware --example cost`.
//!
//! `cargo run --release -p emp-host --example layer [--laps N] [--shm] [BYTES…]` (`--shm`: over the link `shm`); for instruction counts that repeat, run the built
//! example with one lap under `valgrind --tool=callgrind`.

#[path = "../tests/memory_link/mod.rs"]
mod memory_link;

use std::time::{Duration, Instant};

use emp_host::link::{ShmLink, ShmOptions};
use emp_host::{Board, Endpoint, Node, NodeId};
use memory_link::{message, pair};

/// Messages each way in a lap.
const LAP: usize = 200;

/// Laps; the best one counts.
const LAPS: usize = 5000;

fn main() {
    let mut laps = LAPS;
    let mut shm = false;
    let mut sizes = Vec::new();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        if word == "--shm" {
            shm = true;
            continue;
        }
        let number = if word == "--laps" { words.next().unwrap_or_default() } else { word.clone() };
        let Ok(number) = number.parse() else {
            eprintln!(
                "layer: `{word} {number}` is no number; usage: layer [--laps N] [--shm] [BYTES…]"
            );
            std::process::exit(2);
        };
        if word == "--laps" { laps = number } else { sizes.push(number) }
    }
    if sizes.is_empty() {
        sizes = vec![0, 32, 1024, 1400];
    }
    let (nodes, ends) = if shm { shm_pair() } else { pair() };
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

/// Two nodes on the link `shm`, in a directory of their own.
fn shm_pair() -> ([Node; 2], [Endpoint; 2]) {
    let directory = std::env::temp_dir().join(format!("emp-layer-{}", std::process::id()));
    let start = |name: &str| {
        let tag = NodeId::from_name(name).destination_tag();
        let options = ShmOptions { directory: Some(directory.clone()), ..ShmOptions::new(tag) };
        let link = ShmLink::open(&options).expect("anyone may");
        let board = Board::Inline { guardian: false };
        Node::builder().name(name).link(link).board(board).start().expect("the node starts")
    };
    let nodes = [start("a"), start("b")];
    let ends = [0, 1].map(|end| nodes[end].endpoint(1).expect("the endpoint opens"));
    (nodes, ends)
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
