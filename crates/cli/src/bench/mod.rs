//! `emp bench`: how fast EMP is, against the bare link and TCP in the same run.
//!
//! The two ends talk over a [`control`] connection: [`listen`] serves, a [`session`] orders. What is measured is behind
//! one trait, [`subject::Subject`]; [`measure`] lets subjects take turns, [`results`] and the report make figures of it.

mod args;
mod bars;
mod board;
mod calls;
mod congestion;
mod control;
mod cpus;
mod emp_args;
mod environment;
mod job;
mod lifeline;
mod listen;
mod logp;
mod measure;
mod mpi;
mod named;
mod netpipe;
mod overlap;
mod pair;
mod patience;
mod pattern;
mod promises;
mod results;
mod session;
mod share;
mod stages;
mod stats;
mod subject;
mod verified;
mod verify;
mod verify_pairs;
mod verify_run;
mod where_args;
mod work;

pub use cpus::{apart, usable_cpus};
pub use environment::{links, load, note_conditions};
pub use job::{LinkChoice, Spec};
pub use measure::Effort;
pub use pair::{MTU_DEFAULT, Pair};
pub use pattern::{Work, measure_sizes};
pub use results::write_json;
pub use session::Session;
pub use stages::crossing::measure as measure_crossing;
pub use stages::{Costs as StageCosts, measure as measure_stages};
pub use subject::Named;
pub use verified::outcome as verify_outcome;
pub use verify_run::plan as verify_plan;

use crate::measured::Pattern;

/// Measure: `emp bench listen` on one host and `emp bench PATTERN PEER` on the other, or `emp bench PATTERN --lab`.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    Listen(listen::Args),
    /// One message there, one back: the time of one way.
    Pingpong(args::MeasureArgs),
    /// Messages one way, some outstanding, acknowledged when the last has arrived.
    Stream(args::MeasureArgs),
    /// Streams both ways at once.
    Bidir(args::MeasureArgs),
    /// Many small messages one way: how many a second.
    Rate(args::MeasureArgs),
    /// Write to the other host's memory, which has no part in it: the time of an operation, or with --window their rate.
    Put(args::MeasureArgs),
    /// Read from the other host's memory.
    Get(args::MeasureArgs),
    /// Add to numbers (8 bytes each) in the other host's memory, and fetch what they were.
    Atomic(args::MeasureArgs),
    Netpipe(Box<netpipe::Args>),
    Overlap(overlap::Args),
    Logp(Box<logp::Args>),
    Share(Box<share::Args>),
    Stages(stages::Args),
    /// What a host of `share` does.
    #[command(name = share::WORKER, hide = true)]
    ShareWorker,
    /// Random sizes, tags and scatter lists both ways for a time, and puts, gets and atomics; every byte checked.
    Verify(args::VerifyArgs),
    /// An MPI over EMP and over TCP: ping-pong, stream, rate, allreduce, put and get, in turn.
    Mpi(mpi::Args),
    Board(board::Args),
    /// The figures that EMP promises, each measured and judged, in under a minute. What takes longer is not among them: see
    /// netpipe (every size against TCP), overlap, mpi.
    Bars(args::BarsArgs),
}

/// Runs `emp bench …`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Listen(args) => listen::run(args),
        Command::Pingpong(args) => pattern::run(Pattern::Pingpong, &args),
        Command::Stream(args) => pattern::run(Pattern::Stream, &args),
        Command::Bidir(args) => pattern::run(Pattern::Bidir, &args),
        Command::Rate(args) => pattern::run(Pattern::Rate, &args),
        Command::Put(args) => pattern::run(Pattern::Put, &args),
        Command::Get(args) => pattern::run(Pattern::Get, &args),
        Command::Atomic(args) => pattern::run(Pattern::Atomic, &args),
        Command::Netpipe(args) => netpipe::run(&args),
        Command::Overlap(args) => overlap::run(&args),
        Command::Logp(args) => logp::run(&args),
        Command::Share(args) => share::run(&args),
        Command::Stages(args) => stages::run(&args),
        Command::ShareWorker => share::run_worker(),
        Command::Verify(args) => verify_run::run(&args),
        Command::Mpi(args) => mpi::run(&args),
        Command::Board(args) => args.run(),
        Command::Bars(args) => bars::run(&args),
    }
}
