//! The `emp` program: one subcommand a module, each with `Args` and `run(Args)`.

mod bench;
mod demo;
mod doctor;
mod error;
mod lab;
mod mpi;
mod output;
mod process;
mod report;
mod sim;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Ethernet Message Passing: messages over any Ethernet, without special cards.
#[derive(Parser)]
#[command(name = "emp", version, about, max_term_width = 100)]
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
    /// Show what this machine allows and which link `auto` will take.
    Doctor(doctor::Args),
    MpiEnv(mpi::EnvArgs),
    /// Put the libfabric provider where libfabric looks: for `make install`.
    #[command(hide = true)]
    InstallProvider(mpi::InstallArgs),
    /// Load a libfabric and say which providers it has.
    #[command(hide = true)]
    FiProbe(mpi::ProbeArgs),
}

fn dispatch(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Lab(args) => lab::run(args),
        Command::Bench(args) => bench::run(*args),
        Command::Demo(args) => demo::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Doctor(args) => doctor::run(args),
        Command::MpiEnv(args) => mpi::run_env(&args),
        Command::InstallProvider(args) => mpi::run_install(&args),
        Command::FiProbe(args) => mpi::run_probe(&args),
    }
}

fn main() -> ExitCode {
    match Cli::try_parse() {
        Ok(line) => match dispatch(line.command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => error::report(&error),
        },
        Err(error) => error::report_line(&error),
    }
}
