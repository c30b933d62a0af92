//! What each `emp lab` subcommand does.

use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

use super::interrupt::Guard;
use super::plan::Plan;
use super::private::{Host, PrivateLab};
use super::state::{self, State};
use super::{DownArgs, ExecArgs, RunArgs, ShapeArgs, UpArgs, build, rootless};
use crate::bail_user;
use crate::error::{PassThrough, print, user_error};

impl ShapeArgs {
    fn plan(&self) -> anyhow::Result<Plan> {
        Plan::new(self.hosts, self.topology, self.mtu)
    }
}

/// `emp lab up`
pub fn up(args: UpArgs) -> anyhow::Result<()> {
    let name = state::chosen_name(args.name)?;
    let plan = args.shape.plan()?;
    rootless::become_able()?;
    let guard = Guard::make(State::new(&name, plan, None))?;
    let text = greeting(guard.state());
    guard.release();
    print(&text)
}

fn greeting(state: &State) -> String {
    let mut text = format!("lab {} is up:", state.name);
    for host in &state.plan.hosts {
        let _ = write!(text, " {} ({})", host.name, host.address);
    }
    let first = &state.plan.hosts[0].name;
    let option = state::name_option(&state.name);
    text + &format!(
        "
try: emp lab exec{option} {first} -- ip -br address
"
    )
}

/// `emp lab exec`: becomes the command, so that its exit code, its signals and its terminal are
/// its own.
pub fn exec(args: ExecArgs) -> anyhow::Result<()> {
    let name = state::chosen_name(args.name)?;
    let state = require(&name)?;
    let mut entrance = Host::find(&state, &args.host)?.entrance()?;
    if let Some(cpu) = args.cpu {
        entrance = entrance.on_cpu(cpu)?;
    }
    entrance.enter().with_context(|| format!("entering {}", args.host))?;
    let program = &args.command[0];
    let mut command = Command::new(program);
    command.args(&args.command[1..]).env(state::NAME_VARIABLE, &name);
    Err(cannot_start(program, &command.exec()))
}

/// `emp lab run`
pub fn run_once(args: RunArgs) -> anyhow::Result<()> {
    let lab = PrivateLab::create(args.shape.plan()?)?;
    let program = &args.command[0];
    let mut command = lab.host(&args.host)?.command(program)?;
    let child = command.args(&args.command[1..]).spawn();
    let status = child.map_err(|error| cannot_start(program, &error))?.wait()?;
    drop(lab);
    if status.success() { Ok(()) } else { Err(PassThrough(status).into()) }
}

fn cannot_start(program: &std::ffi::OsStr, error: &std::io::Error) -> anyhow::Error {
    user_error(format!("cannot run {}: {error}", program.display()))
}

/// `emp lab down`
pub fn down(args: DownArgs) -> anyhow::Result<()> {
    if args.stale {
        return down_stale();
    }
    let name = state::chosen_name(args.name)?;
    let Some(state) = State::load(&name)? else {
        return print(&format!("lab {name} is not up; nothing to remove\n"));
    };
    if let Some(owner) = state.owner.filter(|owner| owner.is_alive()) {
        bail_user!("lab {name} belongs to process {}, which removes it when it ends", owner.pid);
    }
    build::undo(&state)?;
    print(&format!("lab {name} is removed\n"))
}

fn down_stale() -> anyhow::Result<()> {
    let stale: Vec<_> = State::load_all()?.into_iter().filter(State::is_stale).collect();
    for state in &stale {
        build::undo(state)?;
        print(&format!("lab {} is removed; its process had ended\n", state.name))?;
    }
    if stale.is_empty() { print("no stale labs\n") } else { Ok(()) }
}

fn require(name: &str) -> anyhow::Result<State> {
    let option = state::name_option(name);
    State::load(name)?
        .ok_or_else(|| user_error(format!("lab {name} is not up; `emp lab up{option}` makes it")))
}
