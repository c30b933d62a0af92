//! Makes a failing seed small enough to be read: leaves out parts of its trouble, then actions, as long as it still fails likewise.

use crate::reduce::{Part, Reduction};
use crate::report::Failure;
use crate::run::{actions_of, run_seed};
use crate::swarm::SwarmOptions;

/// Runs that shrinking may take: a small world takes some milliseconds, a large one up to a second.
const RUNS_MAX: u32 = 600;

struct Shrinker {
    seed: u64,
    options: SwarmOptions,
    failure: Failure,
    runs: u32,
}

/// A smaller world in which a failing seed fails in the same way: the same words, whatever the numbers in them.
pub fn shrink(failure: &Failure, options: &SwarmOptions) -> Failure {
    let (seed, options) = (failure.seed, options.clone());
    let mut shrinker = Shrinker { seed, options, failure: failure.clone(), runs: 0 };
    shrinker.leave_out_parts();
    shrinker.leave_out_actions();
    shrinker.leave_out_parts();
    shrinker.failure
}

/// What a failure says, without its numbers and lists.
fn kind(what: &str) -> String {
    let until = what.find(['[', '(']).unwrap_or(what.len());
    what[..until].chars().filter(|letter| !letter.is_ascii_digit()).take(60).collect()
}

impl Shrinker {
    /// True, and the reduction is kept, if the seed still fails likewise.
    fn fails_with(&mut self, reduction: Reduction) -> bool {
        if self.runs >= RUNS_MAX {
            return false;
        }
        self.runs += 1;
        let options = SwarmOptions { without: reduction, ..self.options.clone() };
        let Some(failure) = run_seed(self.seed, &options).failure else { return false };
        if kind(&failure.what) != kind(&self.failure.what) {
            return false;
        }
        (self.options, self.failure) = (options, failure);
        true
    }

    fn leave_out_parts(&mut self) {
        for part in Part::ALL {
            if !self.options.without.is_without(*part) {
                let mut reduction = self.options.without.clone();
                reduction.parts.push(*part);
                self.fails_with(reduction);
            }
        }
    }

    /// Leaves out halves, quarters and so on of what is still there.
    fn leave_out_actions(&mut self) {
        let all = actions_of(self.seed, &self.options);
        let mut kept = all.clone();
        let mut length = kept.len() / 2;
        while length > 0 && self.runs < RUNS_MAX {
            let mut at = 0;
            while at < kept.len() {
                let mut fewer = kept.clone();
                fewer.drain(at..(at + length).min(kept.len()));
                let left_out = all.iter().filter(|number| fewer.binary_search(number).is_err());
                let reduction = self.options.without.with_actions(left_out.copied().collect());
                if self.fails_with(reduction) {
                    kept = fewer;
                } else {
                    at += length;
                }
            }
            length /= 2;
        }
    }
}
