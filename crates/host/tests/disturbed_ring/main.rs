//! Four hosts in a ring, a relay and a program on each, all pairs talking, while a seeded script pulls, moves and plugs cables and restarts
//! programs and relays: nothing is lost, doubled or stuck, and nobody is told of an error that no restart explains.
//!
//! `cargo test -p emp-host --test disturbed_ring -- --include-ignored` runs the long one too, for a minute. Needs root; says so where it is
//! not to be had.

#[path = "../common/mod.rs"]
mod common;
mod panel;
mod script;
mod talk;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use panel::{HOSTS, Panel};
use script::Script;
use talk::{Lives, Tally};

/// A few seconds of it, so that every run of the tests has some.
#[test]
fn nothing_is_lost_while_a_ring_is_disturbed() {
    disturb(Duration::from_secs(6), 1);
}

/// As long as it takes for most of what may meet to meet.
#[test]
#[ignore = "takes a minute"]
fn nothing_is_lost_in_a_minute() {
    let seed = std::env::var("EMP_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    disturb(Duration::from_secs(60), seed);
}

fn disturb(time: Duration, seed: u64) {
    let Some(panel) = Panel::build() else { return };
    let lives = Lives::start(&panel);
    let stop = AtomicBool::new(false);
    let pairs = (0..HOSTS).flat_map(|from| (0..HOSTS).map(move |to| (from, to)));
    let pairs: Vec<_> = pairs.filter(|(from, to)| from != to).collect();
    let (said, tallies) = thread::scope(|scope| {
        let threads: Vec<_> = pairs
            .iter()
            .map(|pair| scope.spawn(|| talk::talk(*pair, &lives, &stop, seed)))
            .collect();
        let mut script = Script::new(&panel, &lives, seed);
        script.play(time);
        stop.store(true, Ordering::Relaxed);
        let tallies: Vec<Tally> =
            threads.into_iter().map(|thread| thread.join().expect("a pair talks")).collect();
        (script.said(), tallies)
    });
    lives.nothing_is_left();
    let messages: Vec<u64> = tallies.iter().map(|tally| tally.messages).collect();
    let cut: u64 = tallies.iter().map(|tally| tally.cut_short).sum();
    let longest = tallies.iter().map(|tally| tally.longest).max().unwrap_or_default();
    println!(
        "seed {seed}: {said}; {} messages, {cut} cut short by restarts, the longest took {longest:?}",
        messages.iter().sum::<u64>()
    );
    assert!(messages.iter().all(|count| *count > 3), "{messages:?}");
}
