//! `emp bench verify`: the command around a verify run.

use super::args::{VerifyArgs, check_seconds, command_line};
use super::environment::{Environment, load};
use super::results::Results;
use super::verified::{outcome, row};
use super::verify::{GROUP, Plan};
use super::verify_pairs;
use crate::bail_user;
use crate::error::print;
use crate::output::check_writable;
use crate::progress::Progress;
use crate::sizes;

/// Fewest messages outstanding each way.
const WINDOW_MIN: usize = GROUP as usize;

/// Most messages outstanding each way: with two endpoints and both directions well within the firmware's own limits.
const WINDOW_MAX: usize = 256;

/// A plan for so long with the usual sizes and window.
pub fn plan(seed: u64, seconds: f64) -> Plan {
    Plan { seed, seconds, size_max: 4 << 20, window: 24, verbose: false }
}

/// Runs `emp bench verify`.
pub fn run(args: &VerifyArgs) -> anyhow::Result<()> {
    let spec = args.emp.spec()?;
    check_seconds(args.seconds)?;
    if !(WINDOW_MIN..=WINDOW_MAX).contains(&args.window) {
        bail_user!(
            "a window of {} is not possible; choose {WINDOW_MIN} to {WINDOW_MAX}",
            args.window
        );
    }
    let Ok(&[size_max]) = sizes::parse(&args.size_max).as_deref() else {
        bail_user!("`{}` is not one size; write for example 64K or 4M", args.size_max);
    };
    let plan = Plan {
        seed: spec.seed,
        seconds: args.seconds,
        size_max,
        window: args.window,
        verbose: args.verbose,
    };
    check_writable(&args.json)?;
    let load = load();
    if args.hosts.is_some() || args.topology.is_some() {
        if !args.place.lab {
            bail_user!("--hosts and --topology are of a lab: add --lab, and name no other host");
        }
        return verify_pairs::run(args, &spec, &plan, load);
    }
    let (results, tallies) = args.place.with_session(vec![spec], |session| {
        let text = format!("verifying for {} s, seed {}", plan.seconds, plan.seed);
        let tallies = Progress::during(&text, plan.seconds, || session.verify(0, plan.clone()))?;
        let row = row(session, &tallies);
        let environment = Environment::of(session.place(), args.place.lab, load);
        let command = command_line();
        Ok((Results { environment, command, results: vec![row], bars: Vec::new() }, tallies))
    })?;
    if let Some(path) = &args.json {
        results.write(path)?;
    }
    print(&outcome(&tallies)?)
}
