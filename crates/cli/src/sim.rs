//! `emp sim`: runs seeds of the deterministic simulator, and replays one.

use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{panic, thread};

use anyhow::{Context, bail};
use emp_firmware::Profile;
use emp_model::{
    Discovery, Fate, Outcome, Part, Reduction, Scale, Search, Shape, SwarmOptions, TraceLine,
    discover, frames_of_seed, run_seed, shrink, trace_seed,
};
use serde::Serialize;

use crate::bail_user;
use crate::error::print;
use crate::output::check_writable;
use crate::progress::Progress;
use crate::qlog::{self, Qlog};

/// Simulate fabrics: each seed is a network of nodes with its own faults, judged message by message.
#[derive(clap::Args)]
pub struct Args {
    /// Run the seeds from A up to, but not including, B; print a line for each failure.
    #[arg(long, value_name = "A..B", required_unless_present_any = ["seed", "fresh", "discover"], conflicts_with = "seed")]
    seeds: Option<String>,
    /// Run N seeds that nobody has run, and say which.
    #[arg(long, value_name = "N", conflicts_with_all = ["seed", "seeds"])]
    fresh: Option<u64>,
    /// Run one seed and say how it went.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// With --seed: write every frame on the wire to a file.
    #[arg(long, value_name = "FILE", requires = "seed")]
    trace: Option<PathBuf>,
    /// With --seed: write every frame on the wire to a file as qlog, as `emp trace` does of captures.
    #[arg(long, value_name = "FILE", requires = "seed", conflicts_with = "trace")]
    qlog: Option<PathBuf>,
    /// Instead, worlds of so many nodes each: how long searches take, and what they cost.
    #[arg(long, value_name = "NODES", value_delimiter = ',', conflicts_with_all = ["seed", "seeds", "fresh"])]
    discover: Vec<usize>,
    /// With --discover: how the nodes are cabled: line, ring, mesh, tree (of switches), random (four cables each).
    #[arg(long, default_value = "random", requires = "discover")]
    shape: String,
    /// With --discover: most cables between a node and whom it looks for.
    #[arg(long, default_value_t = 1, requires = "discover")]
    hops: usize,
    /// Fewer nodes and messages for each seed.
    #[arg(long)]
    small: bool,
    /// All nodes use this profile: default, emp2001, openmx, vmmc2 [default: each node draws one].
    #[arg(long)]
    profile: Option<String>,
    /// A perfect network, and nodes that stay up.
    #[arg(long)]
    calm: bool,
    /// Nodes cabled to each other in lines, rings, meshes and at random, of which most relay.
    #[arg(long, conflicts_with = "discover")]
    relays: bool,
    /// With --seed: leave out parts of its trouble and actions, as a failure that was made smaller says.
    #[arg(long, value_name = "LIST", requires = "seed")]
    without: Option<String>,
    /// Threads [default: one for each core].
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// With --seeds: write what came of it to a file, for programs.
    #[arg(long, value_name = "FILE", conflicts_with = "seed")]
    json: Option<PathBuf>,
}

/// What many seeds came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Summary {
    seeds: u64,
    messages: u64,
    received: u64,
    bytes: u64,
    frames: u64,
    frames_lost: u64,
    frames_lost_at_full_rings: u64,
    frames_resent: u64,
    /// Each with the command that replays it.
    failures: Vec<String>,
}

/// Runs `emp sim`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if !args.discover.is_empty() {
        return discovery(args);
    }
    let options = options(args)?;
    check_writable(args.json.iter().chain(&args.trace).chain(&args.qlog))?;
    match (args.seed, &args.seeds, args.fresh) {
        (Some(seed), ..) => replay(seed, &options, args),
        (None, Some(seeds), _) => sweep(parse_range(seeds)?, &options, args),
        (None, None, Some(count)) => sweep(fresh(count)?, &options, args),
        (None, None, None) => bail_user!("name seeds: --seeds 0..1000, or --seed N for one"),
    }
}

/// Nodes of a world in which others are looked for.
const NODES: std::ops::RangeInclusive<usize> = 2..=10_000;

/// Nodes of a mesh: each cable is a fabric, and a node has one to each other.
const MESH_NODES_MAX: usize = 256;

/// Cables between two that look for each other.
const HOPS: std::ops::RangeInclusive<usize> = 1..=8;

/// Searches in each world.
const SEARCHES: usize = 400;

/// Runs `emp sim --discover`.
fn discovery(args: &Args) -> anyhow::Result<()> {
    let Some((_, shape)) = Shape::ALL.into_iter().find(|(name, _)| *name == args.shape) else {
        let known = Shape::ALL.map(|(name, _)| name).join(", ");
        bail_user!("there is no shape {}; there are {known}", args.shape);
    };
    let most = if shape == Shape::Mesh { MESH_NODES_MAX } else { *NODES.end() };
    if let Some(nodes) = args.discover.iter().find(|nodes| !(*NODES.start()..=most).contains(nodes))
    {
        bail_user!(
            "{nodes} nodes are not possible in a {}; choose {} to {most}",
            args.shape,
            NODES.start()
        );
    }
    if !HOPS.contains(&args.hops) {
        bail_user!(
            "{} hops are not possible; choose {} to {}",
            args.hops,
            HOPS.start(),
            HOPS.end()
        );
    }
    print(
        "nodes   found      half within  longest     frames a search  most by relays  wire bytes a node  peers of one\n",
    )?;
    for nodes in args.discover.iter().copied() {
        let search = Search { shape, nodes, searches: SEARCHES, hops: args.hops, seed: 1 };
        let Discovery { asked, found, time, frames, crossings_max, wire_bytes, peers_max } =
            discover(&search);
        let [half, all] = time.map(|time| format!("{:.1} us", time.0 as f64 / 1e3));
        let found = format!("{found}/{asked}");
        print(&format!(
            "{nodes:<7} {found:<10} {half:<12} {all:<11} {frames:<16.1} {crossings_max:<15} {wire_bytes:<18.1} {peers_max}\n"
        ))?;
    }
    Ok(())
}

/// So many seeds from one on that the system drew. They are said, so that they can be run again.
fn fresh(count: u64) -> anyhow::Result<Range<u64>> {
    if count == 0 {
        bail_user!("--fresh 0 runs no seeds; write for example --fresh 1000");
    }
    let mut bytes = [0; 8];
    let path = "/dev/urandom";
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.with_context(|| format!("reading {path} for fresh seeds"))?;
    // Short enough to be typed.
    let first = u64::from_le_bytes(bytes) >> 24;
    let seeds = first..first + count;
    print(&format!("seeds {}..{}\n", seeds.start, seeds.end))?;
    Ok(seeds)
}

fn options(args: &Args) -> anyhow::Result<SwarmOptions> {
    let profile = match args.profile.as_deref().map(|name| (name, Profile::by_name(name))) {
        None => None,
        Some((_, Some(profile))) => Some(profile.name),
        Some((name, None)) => {
            let known: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
            bail_user!("there is no profile {name}; there are {}", known.join(", "));
        }
    };
    let scale = if args.small { Scale::Small } else { Scale::Full };
    let without = match Reduction::parse(args.without.as_deref().unwrap_or_default()) {
        Ok(without) => without,
        Err(word) => {
            let parts: Vec<_> = Part::ALL.iter().map(|part| part.name()).collect();
            bail_user!(
                "--without: `{word}` is neither a number or range of actions (7, 3-9) nor one of {}",
                parts.join(", ")
            );
        }
    };
    Ok(SwarmOptions { scale, profile, calm: args.calm, relays: args.relays, without })
}

fn parse_range(text: &str) -> anyhow::Result<Range<u64>> {
    let ends = text.split_once("..").map(|(first, end)| (first.parse(), end.parse()));
    match ends {
        Some((Ok(first), Ok(end))) if first < end => Ok(first..end),
        Some((Ok(first), Ok(end))) => {
            bail_user!("there are no seeds from {first} up to, but not including, {end}")
        }
        _ => bail_user!("`{text}` is not a range of seeds; write for example 0..1000"),
    }
}

fn replay(seed: u64, options: &SwarmOptions, args: &Args) -> anyhow::Result<()> {
    let outcome = match (&args.trace, &args.qlog) {
        (None, None) => run_seed(seed, options),
        (_, Some(path)) => {
            let (outcome, frames) = frames_of_seed(seed, options);
            let written = || format!("writing {}", path.display());
            write_qlog(seed, &frames, fs::File::create(path).with_context(written)?)
                .with_context(written)?;
            outcome
        }
        (Some(path), None) => {
            let (outcome, frames) = trace_seed(seed, options);
            fs::write(path, frames).with_context(|| format!("writing {}", path.display()))?;
            outcome
        }
    };
    if let Some(failure) = &outcome.failure {
        bail!("{failure}");
    }
    print(&format!("{outcome}\n"))
}

/// One event for each frame that was sent; one more if it was lost on its way, or when it arrives.
fn write_qlog(seed: u64, frames: &[TraceLine], file: fs::File) -> io::Result<()> {
    let title = format!("emp sim --seed {seed}");
    let clock = ("monotonic", "unknown");
    let mut log = Qlog::new(io::BufWriter::new(file), &title, "simulated network", clock)?;
    for line in frames {
        let mut data = match &line.header {
            Some(header) => qlog::frame(header, line.bytes),
            None => serde_json::json!({ "raw": { "length": line.bytes } }),
        };
        data["from"] = line.from.into();
        data["link"] = line.link.0.into();
        if line.to != usize::MAX {
            data["to"] = line.to.into();
        }
        let lost = match line.fate {
            Fate::Arrives(at) => {
                data["arrives"] = (at.0 as f64 / 1e6).into();
                None
            }
            Fate::Dropped => Some("fault"),
            Fate::Congested => Some("full queue"),
            Fate::Cut => Some("cut"),
            Fate::Nowhere => Some("nobody there"),
        };
        log.event(line.at.0, "frame_sent", &data)?;
        if let Some(trigger) = lost {
            data["trigger"] = trigger.into();
            log.event(line.at.0, "frame_lost", &data)?;
        }
    }
    log.finish().map(|_| ())
}

fn sweep(seeds: Range<u64>, options: &SwarmOptions, args: &Args) -> anyhow::Result<()> {
    // A failing seed may panic thousands of times over; its line says what the panic said.
    panic::set_hook(Box::new(|_| {}));
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or(cores).max(1);
    let next = AtomicU64::new(seeds.start);
    let progress = Mutex::new(Progress::new((seeds.end - seeds.start) as usize));
    let summary = Mutex::new(Summary::default());
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let outcome = run_seed(seed, options);
                    let smaller = outcome.failure.as_ref().map(|failure| shrink(failure, options));
                    let Ok(mut summary) = summary.lock() else { return };
                    summary.add(&outcome);
                    let Ok(progress) = progress.lock() else { return };
                    progress.step(&format!("{} failures", summary.failures.len()));
                    if let Some(failure) = &outcome.failure {
                        progress.suspend(|| {
                            println!("{failure}");
                            if let Some(smaller) = &smaller {
                                println!("  smaller: {smaller}");
                            }
                        });
                    }
                }
            });
        }
    });
    drop(panic::take_hook());
    drop(progress);
    let summary =
        summary.into_inner().map_err(|_| anyhow::anyhow!("a seed ended the program's thread"))?;
    print(&summary.text())?;
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&summary)? + "\n";
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    }
    if !summary.failures.is_empty() {
        bail!("{} of {} seeds failed", summary.failures.len(), summary.seeds);
    }
    Ok(())
}

impl Summary {
    fn add(&mut self, outcome: &Outcome) {
        let s = &outcome.statistics;
        self.seeds += 1;
        self.messages += s.messages as u64;
        self.received += s.received as u64;
        self.bytes += s.bytes;
        self.frames += s.network.sent;
        self.frames_lost += s.lost();
        self.frames_lost_at_full_rings += s.ring_lost;
        self.frames_resent += s.resent;
        self.failures.extend(outcome.failure.as_ref().map(ToString::to_string));
    }

    fn text(&self) -> String {
        format!(
            "{} seeds, {} failures; {} of {} messages received, {:.1} MB, {} frames ({} lost, {} of them at full rings; {} resent)\n",
            self.seeds,
            self.failures.len(),
            self.received,
            self.messages,
            self.bytes as f64 / 1e6,
            self.frames,
            self.frames_lost,
            self.frames_lost_at_full_rings,
            self.frames_resent,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;

    #[test]
    fn ranges() {
        assert_eq!(parse_range("0..1000").unwrap(), 0..1000);
        for (text, says) in [
            ("5", "`5` is not a range"),
            ("..", "is not a range"),
            ("a..b", "write for example 0..1000"),
            ("7..7", "no seeds from 7"),
            ("9..3", "no seeds from 9"),
        ] {
            let error = parse_range(text).unwrap_err();
            assert!(error.is::<UserError>() && error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn summaries_add_up() {
        let options = SwarmOptions { scale: Scale::Small, calm: true, ..SwarmOptions::default() };
        let mut summary = Summary::default();
        (0..2).for_each(|seed| summary.add(&run_seed(seed, &options)));
        assert_eq!(summary.seeds, 2);
        assert!(summary.received > 0 && summary.frames > summary.received);
        assert!(summary.text().starts_with("2 seeds, 0 failures"), "{}", summary.text());
    }
}
