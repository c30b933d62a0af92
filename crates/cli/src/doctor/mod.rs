//! `emp doctor`: what this machine allows, and what EMP will make of it.
//!
//! Each section is a module that looks and a list of [`Finding`](crate::finding::Finding)s; nothing is changed on the way.

mod cpu;
mod interfaces;
mod kernel;
mod left_behind;
mod network;
mod peer;
mod privilege;
mod report;
mod rung;
mod show;
mod trials;

use std::io::{IsTerminal, stdout};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use self::report::Report;
use crate::error::print;
use crate::mpi;

/// Show what this machine allows and which link `auto` will take.
#[derive(clap::Args)]
pub struct Args {
    /// For programs to read.
    #[arg(long)]
    json: bool,
    /// Compare this host with another, on which `emp doctor --listen` runs: versions, MTU, links that either may open, clocks, and by which links the two reach each other.
    #[arg(long, value_name = "HOST", conflicts_with_all = ["program", "listen"])]
    peer: Option<String>,
    /// Do the other half of --peer, at this address or at every one (TCP port 51968), until interrupted.
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true, conflicts_with_all = ["program", "json"])]
    listen: Option<Option<SocketAddr>>,
    /// A program of MPI's or libfabric's: which libfabric it loads in this environment, and whether that leads to EMP.
    program: Option<PathBuf>,
}

/// Runs `emp doctor`.
pub fn run(args: Args) -> anyhow::Result<()> {
    if let Some(at) = args.listen {
        return peer::listen(at);
    }
    let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if let Some(host) = &args.peer {
        let findings = peer::inspect(host)?;
        if args.json {
            return print(&(serde_json::to_string_pretty(&findings)? + "\n"));
        }
        return print(&show::findings(&format!("this host and {host}"), &findings, colour));
    }
    // First, so that a wrong name is refused at once.
    let program = args.program.as_deref().map(mpi::findings_of).transpose()?;
    let interfaces = interfaces::inspect(Path::new("/"));
    let ranked = emp_host::ranked_interfaces().unwrap_or_default();
    let report = Report {
        privilege: privilege::inspect(),
        kernel: kernel::inspect(),
        cpu: cpu::inspect(Path::new("/")),
        network: network::inspect(Path::new("/"), &interfaces),
        left_behind: left_behind::inspect(),
        rungs: interfaces.iter().map(|one| rung::choose(one, &ranked)).collect(),
        interfaces,
        mpi: mpi::findings().into_iter().chain(program).collect(),
    };
    if args.json {
        return print(&(serde_json::to_string_pretty(&report)? + "\n"));
    }
    print(&show::text(&report, colour))
}
