//! What of a machine matters beside the stages: the calls of a link.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use anyhow::Context;

use super::predict::Machine;
use crate::bench::measure_crossing;

/// Calls of each kind that are timed together.
const CALLS: u32 = 200;

/// Times that is done, of which the median counts.
const SLICES: usize = 25;

/// Measures this machine.
pub fn measure() -> anyhow::Result<Machine> {
    Ok(Machine { calls: calls()?, crossing: measure_crossing() })
}

/// Nanoseconds of sending and of receiving a small datagram over loopback. What is sent there is also received within the call, so that
/// a card's call is cheaper, and no call at all on a ring.
fn calls() -> anyhow::Result<[f64; 2]> {
    let socket = || UdpSocket::bind("127.0.0.1:0");
    let (from, to) = (socket().context("a socket")?, socket().context("a socket")?);
    from.connect(to.local_addr()?)?;
    // A datagram that was lost must not keep anybody waiting.
    to.set_read_timeout(Some(Duration::from_secs(5)))?;
    let mut slices = Vec::new();
    for _ in 0..SLICES {
        let (mut sends, mut receives) = (Duration::ZERO, Duration::ZERO);
        let mut buffer = [0; 64];
        for _ in 0..CALLS {
            let start = Instant::now();
            from.send(&[7; 32])?;
            let sent = Instant::now();
            to.recv(&mut buffer)?;
            sends += sent - start;
            receives += sent.elapsed();
        }
        slices.push([sends, receives].map(|time| time.as_nanos() as f64 / f64::from(CALLS)));
    }
    Ok([0, 1].map(|call| {
        let mut all: Vec<f64> = slices.iter().map(|slice| slice[call]).collect();
        all.sort_by(f64::total_cmp);
        all[SLICES / 2]
    }))
}
