//! `emp bench verify`: the command around a verify run.

use anyhow::bail;

use super::args::{VerifyArgs, check_seconds, command_line};
use super::environment::{Environment, load};
use super::job::{Pattern, SubjectKind};
use super::progress::Progress;
use super::results::{Results, Row};
use super::session::Session;
use super::sizes;
use super::verify::{GROUP, Plan, Tally};
use super::verify_pairs;
use crate::bail_user;
use crate::error::print;
use crate::output::check_writable;

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

/// The run in a few words; an error if anything was not as it must be.
pub fn outcome(tallies: &[Tally; 2]) -> anyhow::Result<String> {
    for (end, tally) in ["here", "at the other end"].iter().zip(tallies) {
        if let Some(mismatch) = &tally.mismatch {
            bail!("verify failed {end}: {mismatch}");
        }
    }
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    if sum(|t| t.messages_sent) != sum(|t| t.messages_checked) {
        bail!(
            "verify failed: {} messages were sent but {} arrived",
            sum(|t| t.messages_sent),
            sum(|t| t.messages_checked)
        );
    }
    for (end, other) in [(0, 1), (1, 0)] {
        let (there, is) = (tallies[end].number_there, tallies[other].number_here);
        if tallies[end].atomics > 0 && there != is {
            bail!("verify failed: a number that was left at {there} is {is}");
        }
    }
    let seconds = tallies[0].seconds;
    Ok(format!(
        "verify: {} messages, {:.1} MB, every byte right, in {seconds:.1} s ({:.2} Gb/s)\n\
         one-sided: {} puts, {} gets, {} atomics\n\
         frames resent {}, lost on purpose {}\n\
         messages unexpected {}, cut short on purpose {}; receives cancelled {}\n",
        sum(|t| t.messages_checked),
        sum(|t| t.bytes_checked) as f64 / 1e6,
        sum(|t| t.bytes_checked) as f64 * 8e-9 / seconds.max(1e-9),
        sum(|t| t.puts),
        sum(|t| t.gets),
        sum(|t| t.atomics),
        sum(|t| t.frames_resent),
        sum(|t| t.faults),
        sum(|t| t.unexpected),
        sum(|t| t.truncated),
        sum(|t| t.cancelled),
    ))
}

/// What a run was like, in figures.
pub fn row(session: &Session, tallies: &[Tally; 2]) -> Row {
    let seconds = tallies[0].seconds.max(1e-9);
    let messages: u64 = tallies.iter().map(|tally| tally.messages_checked).sum();
    let bytes: u64 = tallies.iter().map(|tally| tally.bytes_checked).sum();
    Row {
        pattern: Pattern::Verify,
        subject: SubjectKind::Emp,
        link: Some(session.cards()[0].links.join("+")),
        mtu: session.place().mtu(),
        size: None,
        one_way_us: None,
        mean_us: None,
        gbps: Some(bytes as f64 * 8e-9 / seconds),
        messages_per_s: Some(messages as f64 / seconds),
        samples: 1,
        copies: None,
        congestion: None,
        pair: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let bytes = 5_000_000;
        let messages = 10;
        Tally {
            messages_sent: messages,
            messages_checked: messages,
            bytes_checked: bytes,
            seconds: 1.0,
            ..Tally::default()
        }
    }

    #[test]
    fn the_first_mismatch_fails_the_run() {
        assert!(outcome(&[tally(), tally()]).unwrap().contains("20 messages, 10.0 MB"));
        let bad = Tally { mismatch: Some("byte 3 of message 7".to_owned()), ..tally() };
        let error = outcome(&[tally(), bad]).unwrap_err();
        assert_eq!(error.to_string(), "verify failed at the other end: byte 3 of message 7");
        let short = Tally { messages_checked: 9, ..tally() };
        let added = Tally { atomics: 3, number_there: 3, ..tally() };
        let lost = outcome(&[added.clone(), Tally { number_here: 2, ..tally() }]).unwrap_err();
        assert!(lost.to_string().contains("left at 3 is 2"), "{lost}");
        assert!(outcome(&[added, Tally { number_here: 3, ..tally() }]).is_ok());
        assert!(outcome(&[tally(), short]).unwrap_err().to_string().contains("19 arrived"));
    }
}
