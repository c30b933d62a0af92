//! Seeds: whole worlds drawn from one number each. `emp sim --seeds A..B` runs more of them.

use emp_firmware::Profile;
use emp_model::{Outcome, Scale, SwarmOptions, run_seed};

fn run(seeds: core::ops::Range<u64>, options: &SwarmOptions) -> Vec<Outcome> {
    let outcomes: Vec<Outcome> = seeds.map(|seed| run_seed(seed, options)).collect();
    let failures: Vec<String> =
        outcomes.iter().filter_map(|o| o.failure.as_ref()).map(ToString::to_string).collect();
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    outcomes
}

fn small() -> SwarmOptions {
    SwarmOptions { scale: Scale::Small, ..SwarmOptions::default() }
}

#[test]
fn small_worlds() {
    let outcomes = run(0..120, &small());
    let lost: u64 = outcomes.iter().map(|o| o.statistics.network.dropped).sum();
    let resent: u64 = outcomes.iter().map(|o| o.statistics.resent).sum();
    assert!(lost > 100 && resent > 100, "the worlds were too kind: {lost} lost, {resent} resent");
}

#[test]
fn calm_worlds_of_each_profile() {
    for profile in Profile::ALL {
        let options = SwarmOptions { profile: Some(profile.name), calm: true, ..small() };
        for outcome in run(1_000..1_008, &options) {
            assert_eq!(outcome.statistics.errors, 0, "{outcome}");
        }
    }
}

#[test]
fn full_worlds() {
    run(2_000..2_006, &SwarmOptions::default());
}

/// The same seed is the same run, frame for frame: what makes a failure worth reporting.
#[test]
fn a_seed_replays() {
    for seed in 3_000..3_010 {
        let (first, second) = (run_seed(seed, &small()), run_seed(seed, &small()));
        assert_eq!(first, second);
    }
}
