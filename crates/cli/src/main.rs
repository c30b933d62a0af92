//! The `emp` program: one subcommand a module, each with `Args` and `run(Args)`.

mod bench;
mod borrowed;
mod capture;
mod demo;
mod doctor;
mod error;
mod ethtool;
mod finding;
mod generate;
mod lab;
mod measured;
mod mpi;
mod output;
mod place;
mod process;
mod progress;
mod qlog;
mod relay;
mod report;
mod reproduce;
mod schemes;
mod seen;
mod sim;
mod sizes;
mod trace;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// Ethernet Message Passing: messages over any Ethernet, without special cards.
///
/// EMP passes reliable, low-latency messages between programs. `emp doctor` says what this machine allows, `emp demo` shows it at work,
/// `emp bench` measures it beside TCP and the bare link, `emp lab` makes hosts of network namespaces to try programs on, `emp nodes`, `peers`,
/// `top` and `why` show running nodes from outside, `emp mpi-env`
/// has MPIs take it, `emp capture` writes its frames down, and `emp sim` runs its protocol under faults. What programs on EMP read from
/// the environment is in emp(7).
#[derive(Parser)]
#[command(name = "emp", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// A new subcommand is a line here, a line in `dispatch`, and a module.
#[derive(Subcommand)]
enum Command {
    /// Make, use and remove a lab: hosts on this machine joined by virtual cables.
    Lab(lab::Args),
    /// Measure EMP against the bare link and TCP.
    Bench(Box<bench::Args>),
    Demo(demo::Args),
    Sim(sim::Args),
    Reproduce(reproduce::Args),
    Place(place::Args),
    /// Show what this machine allows and which link `auto` will take.
    Doctor(doctor::Args),
    Nodes(seen::NodesArgs),
    Peers(seen::PeersArgs),
    Route(seen::RouteArgs),
    Counters(seen::CountersArgs),
    Why(seen::WhyArgs),
    Top(seen::top::Args),
    Metrics(seen::metrics::Args),
    MpiEnv(mpi::EnvArgs),
    Capture(capture::Args),
    Relay(relay::Args),
    Trace(trace::Args),
    /// Put the libfabric provider where libfabric looks: for `make install`.
    #[command(hide = true)]
    InstallProvider(mpi::InstallArgs),
    /// Load a libfabric and say which providers it has.
    #[command(hide = true)]
    FiProbe(mpi::ProbeArgs),
    /// Make manual pages and completions: for `make install` and packages.
    #[command(hide = true)]
    Generate(generate::Args),
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Lab(args) => lab::run(args),
        Command::Bench(args) => bench::run(*args),
        Command::Demo(args) => demo::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Place(args) => place::run(&args),
        Command::Doctor(args) => doctor::run(args),
        Command::Capture(args) => capture::run(&args),
        Command::Relay(args) => relay::run(&args),
        Command::Trace(args) => trace::run(&args),
        Command::Nodes(args) => seen::run_nodes(&args),
        Command::Peers(args) => seen::run_peers(&args),
        Command::Route(args) => seen::run_route(&args),
        Command::Counters(args) => seen::run_counters(&args),
        Command::Why(args) => seen::run_why(&args),
        Command::Top(args) => seen::top::run(&args),
        Command::Metrics(args) => seen::metrics::run(&args),
        Command::MpiEnv(args) => mpi::run_env(&args),
        Command::InstallProvider(args) => mpi::run_install(&args),
        Command::FiProbe(args) => mpi::run_probe(&args),
        Command::Generate(args) => generate::run(&args, with_negative_numbers(Cli::command())),
    }
}

/// The command line with `-1` and the like as values of all options, so that each says itself what it can't be.
fn with_negative_numbers(command: clap::Command) -> clap::Command {
    let allow = |argument: clap::Arg| match argument.get_action().takes_values() {
        true if !argument.is_positional() => argument.allow_negative_numbers(true),
        _ => argument,
    };
    command.mut_args(allow).mut_subcommands(with_negative_numbers)
}

fn parse() -> Result<Cli, clap::Error> {
    let matches = with_negative_numbers(Cli::command()).try_get_matches()?;
    Cli::from_arg_matches(&matches)
}

fn main() -> ExitCode {
    match parse() {
        Ok(line) => match dispatch(line.command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => error::report(&error),
        },
        Err(error) => error::report_line(&error),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        super::with_negative_numbers(super::Cli::command()).debug_assert();
    }
}
