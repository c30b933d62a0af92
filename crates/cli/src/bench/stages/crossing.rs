//! How soon one core sees what another wrote: what every hand-over between two processors takes at least.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use emp_host::stay_on_cpu;

use crate::bench::cpus::usable_cpus;

/// Crossings there and back that are timed together, and how often that is done: the median counts, as another program makes some longer.
const TOGETHER: u64 = 500;
const SLICES: usize = 41;

/// Longest time for them: two threads on one core would need each other's time slices for every one.
const LIMIT: Duration = Duration::from_secs(2);

/// Nanoseconds until another core has seen a word: half of there and back between two threads, each on a CPU of its own where there are two.
pub fn measure() -> f64 {
    let cpus = usable_cpus();
    let (word, over) = (AtomicU64::new(0), AtomicBool::new(false));
    let stay = |which: usize| {
        // A CPU that is not to be had leaves it where it is.
        let _ = cpus.get(which).filter(|_| cpus.len() > 1).map(|cpu| stay_on_cpu(*cpu));
    };
    let answers = || {
        stay(1);
        let mut wanted = 1;
        while !over.load(Ordering::Relaxed) {
            if word.load(Ordering::Acquire) == wanted {
                word.store(wanted + 1, Ordering::Release);
                wanted += 2;
            } else {
                std::hint::spin_loop();
            }
        }
    };
    let asks = || {
        stay(0);
        let start = Instant::now();
        let (mut done, mut slices) = (0, Vec::new());
        while slices.len() < SLICES && start.elapsed() < LIMIT {
            let (slice, before) = (Instant::now(), done);
            while done < before + TOGETHER && start.elapsed() < LIMIT {
                word.store(2 * done + 1, Ordering::Release);
                while word.load(Ordering::Acquire) != 2 * done + 2 && start.elapsed() < LIMIT {
                    std::hint::spin_loop();
                }
                done += 1;
            }
            slices.push(slice.elapsed().as_nanos() as f64 / (2 * (done - before).max(1)) as f64);
        }
        over.store(true, Ordering::Relaxed);
        slices.sort_by(f64::total_cmp);
        slices.get(slices.len() / 2).copied().unwrap_or_default()
    };
    thread::scope(|scope| {
        scope.spawn(answers);
        let asked = scope.spawn(asks);
        asked.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}
