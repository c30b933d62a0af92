//! What it costs to have a link's calls made by another core: a frame there and back through a link that hands up what it was given.
//!
//! `cargo run --release -p emp-link --example crossing [BYTES…]`. Two CPUs, which it stays on: 0 and 1.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use emp_link::{
    Capabilities, Fabric, Link, LinkAddress, LinkStatistics, LinkThread, LinkWork, ThreadedLink,
    TxFrame,
};

/// Hands up what it is given.
struct Echo {
    capabilities: Capabilities,
    frames: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Link for Echo {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        for frame in batch {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            frame.parts.iter().for_each(|part| bytes.extend_from_slice(part));
            self.frames.push_back(bytes);
        }
        batch.len()
    }
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        let count = budget.min(self.frames.len());
        for bytes in self.frames.drain(..count) {
            sink(&bytes, &LinkAddress::index(0));
            self.spare.push(bytes);
        }
        count
    }
    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn wait(&mut self, _: Option<Duration>) -> bool {
        !self.frames.is_empty()
    }
    fn statistics(&self) -> LinkStatistics {
        LinkStatistics::default()
    }
}

fn echo() -> Box<Echo> {
    let fabric = Fabric::with_frame_bytes(1, 9_000).expect("descriptors");
    let link = fabric.link(0, 1).expect("there is such a place");
    let capabilities = link.capabilities().clone();
    Box::new(Echo { capabilities, frames: VecDeque::new(), spare: Vec::new() })
}

fn stay_on(cpu: usize) {
    // SAFETY: zero is the empty set, the CPU is within it, and its length is said.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Nanoseconds of a frame there and back, the median of many.
fn there_and_back(link: &mut dyn Link, bytes: usize) -> f64 {
    /// Timed together: reading the clock costs as much as a crossing.
    const TOGETHER: u32 = 50;
    let frame = vec![1u8; bytes];
    let parts = [IoSlice::new(&frame)];
    let mut times: Vec<f64> = (0..2_000)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..TOGETHER {
                link.send(&[TxFrame { to: LinkAddress::index(0), parts: &parts }]);
                while link.receive(8, &mut |_, _| ()) == 0 {
                    std::hint::spin_loop();
                }
            }
            start.elapsed().as_nanos() as f64 / f64::from(TOGETHER)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() {
    let asked: Vec<usize> = std::env::args().skip(1).filter_map(|arg| arg.parse().ok()).collect();
    let sizes = if asked.is_empty() { vec![64, 256, 1_500, 9_000] } else { asked };
    stay_on(0);
    let spawn = |work: LinkWork| {
        std::thread::Builder::new().spawn(move || {
            stay_on(1);
            work.run();
        })
    };
    let thread = LinkThread::start(None, spawn).expect("a thread");
    let mut threaded = ThreadedLink::new(echo(), &thread).expect("it is handed over");
    let mut bare = echo();
    println!("{:>6} {:>10} {:>10} {:>12}", "bytes", "bare ns", "thread ns", "a crossing");
    for bytes in sizes {
        let (alone, apart) =
            (there_and_back(&mut *bare, bytes), there_and_back(&mut threaded, bytes));
        println!("{bytes:>6} {alone:>10.0} {apart:>10.0} {:>12.0}", (apart - alone) / 2.0);
    }
}
