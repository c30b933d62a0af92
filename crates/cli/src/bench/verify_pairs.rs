//! `emp bench verify --lab --hosts N --topology …`: every pair of a lab's hosts, in rounds in which each host has one other.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::thread;

use anyhow::{Context, bail};

use super::args::{VerifyArgs, command_line};
use super::environment::Environment;
use super::job::{LinkChoice, Spec};
use super::listen::GREETING;
use super::pair::MTU_DEFAULT;
use super::results::{Results, Row};
use super::session::Session;
use super::subject::Named;
use super::verified::{outcome, row};
use super::verify::{Plan, Tally};
use crate::error::print;
use crate::lab::{Host, PrivateLab, Shape, Topology};
use crate::progress::Progress;

/// A pair of hosts, by index.
type Pair = (usize, usize);

/// What came of one pair.
struct Outcome {
    pair: Pair,
    /// What this end saw, and the other; or why nothing was seen.
    ended: anyhow::Result<(Row, [Tally; 2])>,
}

/// A host's other half of the runs, for as long as this lives.
struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs it in a lab of its own.
pub fn run(args: &VerifyArgs, spec: &Spec, plan: &Plan, load: f64) -> anyhow::Result<()> {
    let mtu = args.place.mtu.unwrap_or(MTU_DEFAULT);
    let shape = args.topology.clone().unwrap_or(match args.hosts {
        None | Some(2) => Shape::Named(Topology::Link),
        Some(_) => Shape::Named(Topology::Switch),
    });
    let lab_plan = shape.plan(args.hosts, u32::try_from(mtu).unwrap_or(u32::MAX))?;
    let neighbours = lab_plan.neighbours();
    let lab = PrivateLab::create(lab_plan)?;
    let relays = matches!(spec.link, LinkChoice::Auto | LinkChoice::Packet);
    if relays {
        lab.start_relays()?;
    }
    // Who has no cable in common is reached through them.
    let spec_of = |pair: &Pair| match relays && !neighbours.contains(pair) {
        true => Spec { link: LinkChoice::Packet, ..spec.clone() },
        false => spec.clone(),
    };
    let hosts: Vec<Host<'_>> = lab.hosts().collect();
    let listeners = hosts.iter().map(listen).collect::<anyhow::Result<Vec<_>>>()?;
    let rounds = rounds(hosts.len());
    let text = format!(
        "verifying {} pairs of {} hosts for {} s each, seed {}",
        rounds.iter().map(Vec::len).sum::<usize>(),
        hosts.len(),
        plan.seconds,
        plan.seed
    );
    let seconds = plan.seconds * rounds.len() as f64;
    let outcomes = Progress::during(&text, seconds, || -> anyhow::Result<Vec<Outcome>> {
        let mut outcomes = Vec::new();
        for round in &rounds {
            outcomes.extend(play(round, &hosts, spec_of, plan)?);
        }
        Ok(outcomes)
    })?;
    drop(listeners);
    let environment = Environment::of_lab(mtu, load);
    tell(args, environment, &hosts, &neighbours, outcomes)
}

/// Everybody with everybody, each host once a round: one stays, the others move on by a place (the circle method).
fn rounds(hosts: usize) -> Vec<Vec<Pair>> {
    // With an odd number of hosts, whoever meets the one that is not there pauses.
    let places = hosts + hosts % 2;
    let at = |place: usize, round: usize| match place {
        0 => 0,
        other => 1 + (other - 1 + round) % (places - 1),
    };
    let round = |round: usize| -> Vec<Pair> {
        let pairs = (0..places / 2).map(|place| (at(place, round), at(places - 1 - place, round)));
        let there = pairs.filter(|(a, b)| *a < hosts && *b < hosts);
        there.map(|(a, b)| (a.min(b), a.max(b))).collect()
    };
    (0..places - 1).map(round).collect()
}

fn listen(host: &Host<'_>) -> anyhow::Result<Listener> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = host.command(program)?;
    command.args(["bench", "listen", "--quiet"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut listener = Listener(command.spawn().context("starting a listener")?);
    let mut greeting = String::new();
    if let Some(output) = listener.0.stdout.take() {
        BufReader::new(output).read_line(&mut greeting)?;
    }
    if !greeting.starts_with(GREETING) {
        bail!("the listener on {} did not start", host.name());
    }
    Ok(listener)
}

/// One round: a thread inside the first host of each pair, all at once.
fn play(
    round: &[Pair],
    hosts: &[Host<'_>],
    spec_of: impl Fn(&Pair) -> Spec,
    plan: &Plan,
) -> anyhow::Result<Vec<Outcome>> {
    let mut ready = Vec::new();
    for (a, b) in round {
        let seed = plan.seed.wrapping_add((*a * hosts.len() + *b) as u64);
        let plan = Plan { seed, ..plan.clone() };
        let spec = spec_of(&(*a, *b));
        ready.push((
            (*a, *b),
            hosts[*a].entrance()?,
            hosts[*b].address().to_string(),
            (spec, plan),
        ));
    }
    Ok(thread::scope(|scope| {
        let threads: Vec<_> = ready
            .into_iter()
            .map(|(pair, entrance, peer, (spec, plan))| {
                let work = move || -> anyhow::Result<(Row, [Tally; 2])> {
                    entrance.enter().context("entering the lab")?;
                    let mut session = Session::open(&peer, vec![spec], &Named::default(), None)?;
                    let tallies = session.verify(0, plan)?;
                    Ok((row(&session, &tallies), tallies))
                };
                (pair, scope.spawn(work))
            })
            .collect();
        let ended = threads.into_iter().map(|(pair, thread)| {
            let ended = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            Outcome { pair, ended }
        });
        ended.collect()
    }))
}

/// Prints a line for each pair and one for all; an error if any pair was not verified.
fn tell(
    args: &VerifyArgs,
    environment: Environment,
    hosts: &[Host<'_>],
    neighbours: &[Pair],
    outcomes: Vec<Outcome>,
) -> anyhow::Result<()> {
    let (mut rows, mut failures) = (Vec::new(), 0);
    let (mut messages, mut bytes, mut resent) = (0, 0, 0);
    for Outcome { pair, ended } in outcomes {
        let names = [hosts[pair.0].name(), hosts[pair.1].name()];
        let between = names.join(" - ");
        let (row, tallies) = match ended.and_then(|(row, tallies)| {
            outcome(&tallies)?;
            Ok((row, tallies))
        }) {
            Ok(verified) => verified,
            Err(problem) => {
                failures += 1;
                print(&format!("{between}: not verified: {problem:#}\n"))?;
                continue;
            }
        };
        let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
        let (count, size) = (sum(|t| t.messages_checked), sum(|t| t.bytes_checked));
        messages += count;
        bytes += size;
        resent += sum(|t| t.frames_resent);
        let link = row.link.clone().unwrap_or_default();
        let way = match neighbours.contains(&pair) {
            true => String::new(),
            false if link.split('+').all(|kind| kind == "packet") => {
                "; not neighbours: through relays".to_owned()
            }
            false => "; not neighbours: by the routes of the hosts between".to_owned(),
        };
        print(&format!(
            "{between}: {count} messages, {:.1} MB, every byte right, over {link}{way}\n",
            size as f64 / 1e6
        ))?;
        rows.push(Row { pair: Some(names.map(str::to_owned)), ..row });
    }
    let verified = rows.len();
    if let Some(path) = &args.json {
        let command = command_line();
        Results { environment, command, results: rows, bars: Vec::new() }.write(path)?;
    }
    if failures > 0 {
        bail!("verify failed: {failures} of {} pairs", failures + verified);
    }
    print(&format!(
        "verify: {verified} pairs, {messages} messages, {:.1} MB, every byte right; frames resent {resent}\n",
        bytes as f64 / 1e6
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_pair_meets_once_and_no_host_has_two_at_a_time() {
        for hosts in 2..=32 {
            let rounds = rounds(hosts);
            assert_eq!(rounds.len(), hosts - 1 + hosts % 2);
            let mut met = HashSet::new();
            for round in rounds {
                let mut busy = HashSet::new();
                for (a, b) in round {
                    assert!(a < b && b < hosts && busy.insert(a) && busy.insert(b));
                    assert!(met.insert((a, b)));
                }
            }
            assert_eq!(met.len(), hosts * (hosts - 1) / 2);
        }
    }
}
