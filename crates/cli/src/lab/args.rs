//! The words of `emp lab`.

use std::ffi::OsString;

use super::keeper;
use super::topology::Shape;
use crate::mpi::{Family, Transport};

/// Make, use and remove a lab.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a lab that stays until `emp lab down`.
    Up(UpArgs),
    /// Run a command inside a host: `emp lab exec emp-a -- ping emp-b`.
    Exec(ExecArgs),
    /// Make a lab, run a command inside a host, remove the lab.
    Run(RunArgs),
    /// Show the cables, and every host with its addresses, interfaces and byte counters.
    Status(StatusArgs),
    Cable(CableArgs),
    /// Remove a lab, and end what runs inside it.
    Down(DownArgs),
    /// Like `exec`, called the way `ssh` is: for MPI launchers that want a remote shell.
    ///
    /// For example `mpirun --mca plm_rsh_agent "emp lab rsh"`, or a script holding
    /// `exec emp lab rsh "$@"` for `mpiexec.hydra -launcher-exec`. The lab is $EMP_LAB, else emp.
    Rsh(RshArgs),
    Mpirun(MpirunArgs),
    /// Wait, so that the namespaces around this process stay.
    #[command(name = keeper::SUBCOMMAND, hide = true)]
    Keep(KeepArgs),
}

/// The shape of a lab to make.
#[derive(clap::Args)]
pub struct ShapeArgs {
    /// How many hosts [default: 2; with a file, those that it names].
    #[arg(long)]
    pub hosts: Option<usize>,
    /// How they are cabled: link, line, ring, mesh, switch, or a file that says it.
    ///
    /// A file is lines of words, and # begins a comment: `host NAME…` and `switch NAME…` say what there is, `cable NAME NAME
    /// [mtu BYTES] [rate RATE] [queue SIZE]` what joins two of them.
    #[arg(long, default_value = "link", value_name = "NAME|FILE", value_parser = Shape::parse)]
    pub topology: Shape,
    /// Size of the largest packet, in bytes.
    #[arg(long, default_value_t = 1500)]
    pub mtu: u32,
    /// Rate of the switch's ports towards the hosts, or of every cable both ways, such as 500mbit or 2.5gbit [default: as fast as
    /// it goes].
    #[arg(long, visible_alias = "port-rate", value_name = "RATE", allow_hyphen_values = true)]
    pub rate: Option<String>,
    /// Bytes that may wait before what has a rate, such as 128K [default: 128K, with --rate].
    #[arg(long, visible_alias = "port-queue", value_name = "SIZE")]
    pub queue: Option<String>,
    /// Cables go by a patch panel: a pulled one takes the carrier of both its interfaces and leaves them up, a moved one leaves them
    /// where they are. Costs every frame a bridge; cables with a rate go by it anyway.
    #[arg(long)]
    pub panel: bool,
    /// Hosts know their neighbours only: no routes, and no kernel that forwards.
    #[arg(long)]
    pub no_routes: bool,
    /// No `emp relay` on the hosts. Without this there is one on each that has two cables or more, so that hosts without a common cable
    /// reach each other by raw frames as well.
    #[arg(long)]
    pub no_relays: bool,
}

#[derive(clap::Args)]
pub struct UpArgs {
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Start the service empd on every host, for programs without privilege.
    #[arg(long)]
    pub empd: bool,
    /// The lab's name, so that several can be up [default: $EMP_LAB, else emp].
    #[arg(long)]
    pub name: Option<String>,
}

#[derive(clap::Args)]
pub struct ExecArgs {
    /// The host: its name, its index from 0, or an address.
    pub host: String,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
    /// Which lab [default: $EMP_LAB, else emp].
    #[arg(long)]
    pub name: Option<String>,
    /// Keep the command on this CPU.
    #[arg(long)]
    pub cpu: Option<usize>,
}

#[derive(clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub shape: ShapeArgs,
    /// Start the service empd on every host, for programs without privilege.
    #[arg(long)]
    pub empd: bool,
    /// The host to run it in: its name, its index from 0, or an address.
    #[arg(long, default_value = "emp-a")]
    pub host: String,
    /// The command and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub command: Vec<OsString>,
}

#[derive(clap::Args)]
pub struct StatusArgs {
    /// Only this lab [default: every lab that is up].
    #[arg(long)]
    pub name: Option<String>,
    /// For programs to read.
    #[arg(long)]
    pub json: bool,
}

/// Pull a cable of a lab that is up, plug it in again, or move it.
///
/// A plug is named by the interface that it is in: `emp lab cable pull emp-a:emp0`. Hosts' routes follow.
#[derive(clap::Args)]
pub struct CableArgs {
    #[command(subcommand)]
    pub command: CableCommand,
}

#[derive(clap::Subcommand)]
pub enum CableCommand {
    /// Take a plug out. Without a panel the interface across goes down, and this one loses its carrier.
    Pull(PlugArgs),
    /// Put it in again.
    Plug(PlugArgs),
    /// Put a plug into another interface, of this host or another one. Without a panel the interface moves with it.
    Move(MoveArgs),
}

#[derive(clap::Args)]
pub struct PlugArgs {
    /// The plug, by its interface: HOST:INTERFACE, such as emp-a:emp0.
    pub plug: String,
    /// Which lab [default: $EMP_LAB, else emp].
    #[arg(long)]
    pub name: Option<String>,
}

#[derive(clap::Args)]
pub struct MoveArgs {
    /// The plug, by its interface: HOST:INTERFACE, such as emp-a:emp0.
    pub plug: String,
    /// Where it goes: an interface without a cable, or the next one that a host does not have yet [default: that of this host].
    pub to: Option<String>,
    /// Which lab [default: $EMP_LAB, else emp].
    #[arg(long)]
    pub name: Option<String>,
}

#[derive(clap::Args)]
pub struct RshArgs {
    /// Options of `ssh` (ignored), the host, the command.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

/// Start an MPI program on the hosts of a lab, by the MPI's own launcher and over EMP.
///
/// The lab is the one that is up; where none is, one of two hosts that is removed at the end.
#[derive(clap::Args)]
pub struct MpirunArgs {
    /// Which MPI [default: the first that is found and can take EMP].
    #[arg(long, value_enum)]
    pub mpi: Option<Family>,
    /// How many ranks.
    #[arg(short)]
    pub n: usize,
    /// Ranks on each host, filled one host after the other [default: as even as it goes].
    #[arg(long, value_name = "P")]
    pub ppn: Option<usize>,
    /// What carries the messages.
    #[arg(long, value_enum, default_value = "emp")]
    pub over: Transport,
    /// Start the service empd on every host of a lab that is made for this run.
    #[arg(long, conflicts_with = "name")]
    pub empd: bool,
    /// Interfaces of the hosts that EMP uses together, at most four, such as emp0,emp1 [default: all].
    #[arg(long, value_name = "INTERFACES", value_delimiter = ',')]
    pub interfaces: Vec<String>,
    /// Which lab [default: $EMP_LAB, else emp if it is up, else one made for this run].
    #[arg(long)]
    pub name: Option<String>,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub program: Vec<OsString>,
}

#[derive(clap::Args)]
pub struct KeepArgs {
    /// The lab that is kept, to be seen in a list of processes.
    #[allow(dead_code, reason = "for the eyes of whoever runs `ps`")]
    pub name: String,
}

#[derive(clap::Args)]
pub struct DownArgs {
    /// Which lab [default: $EMP_LAB, else emp].
    #[arg(long)]
    pub name: Option<String>,
    /// Instead, remove every lab whose process ended without removing it. Whatever makes a lab does so too.
    #[arg(long, conflicts_with = "name")]
    pub stale: bool,
}
