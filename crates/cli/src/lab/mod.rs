//! Labs: hosts made of network namespaces, joined by virtual cables.
//!
//! A lab is first a [`Plan`], pure data. `make` makes it and undoes it, `state` remembers what
//! was made, `interrupt` sees to it that nothing is left behind, `stale` to what is all the same, `enter` is the way in. For other
//! modules: [`PrivateLab`], a lab for the life of one process.

mod args;
mod cable;
mod carrier;
mod commands;
mod drawing;
mod enter;
mod host;
mod inhabitants;
mod interrupt;
mod ip;
mod keeper;
mod make;
mod mount;
mod mpirun;
mod offspring;
mod plan;
mod ports;
mod private;
mod record;
mod relays;
mod rootless;
mod routes;
mod rsh;
mod scratch;
mod services;
mod stale;
mod state;
mod status;
mod steer;
mod topology;

pub use self::{
    host::Host,
    plan::{Plan, Topology},
    ports::{Ports, QUEUE_DEFAULT},
    private::PrivateLab,
    topology::Shape,
};

use self::args::Command;

pub use args::Args;
pub use mpirun::{Capture, Launch, capture_each};
pub use rootless::would_be_allowed as user_namespaces;
pub use scratch::Scratch;
pub use stale::names as stale_names;

/// Runs `emp lab …`.
pub fn run(args: Args) -> anyhow::Result<()> {
    match args.command {
        Command::Up(args) => commands::up(args),
        Command::Exec(args) => commands::exec(args),
        Command::Run(args) => commands::run_once(args),
        Command::Status(args) => commands::status(&args),
        Command::Cable(args) => commands::cable(args.command),
        Command::Down(args) => commands::down(args),
        Command::Rsh(args) => commands::rsh(&args),
        Command::Mpirun(args) => mpirun::run(args),
        Command::Keep(_) => keeper::wait_for_the_end(),
    }
}
