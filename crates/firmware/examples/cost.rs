//! What the protocol itself costs: two nodes in one thread hand each other frames through memory, no link between.
//!
//! `cargo run --release -p emp-firmware --example cost [BYTES…]`; for instruction counts that repeat exactly, run the built
//! example under `valgrind --tool=callgrind`.

mod exchange;

use std::time::Instant;

use exchange::Pair;

fn main() {
    println!("{:>9} {:>14} {:>12}", "bytes", "ns one way", "Gb/s");
    let asked: Vec<u64> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let usual = [0u64, 32, 256, 1024, 1400, 16 << 10, 64 << 10, 1 << 20];
    for bytes in if asked.is_empty() { usual.to_vec() } else { asked } {
        let mut pair = Pair::new();
        let rounds = (200_000_000 / (2_000 + bytes)).max(20);
        let start = Instant::now();
        (0..rounds).for_each(|_| pair.exchange(bytes));
        let ns = start.elapsed().as_nanos() as f64 / rounds as f64 / 2.0;
        println!("{bytes:>9} {ns:>14.0} {:>12.1}", bytes as f64 * 8.0 / ns);
    }
}
