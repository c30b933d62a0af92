//! What each `emp lab` subcommand does.

use std::fmt::Write;
use std::os::unix::process::CommandExt;
use std::process::Command;

use anyhow::Context;

use super::args::{
    CableCommand, DownArgs, ExecArgs, MoveArgs, PlugArgs, RshArgs, RunArgs, ShapeArgs, StatusArgs,
    UpArgs,
};
use super::cable::{self, Change};
use super::host::{Host, Life};
use super::interrupt::Guard;
use super::keeper::{self, Claim, Kept};
use super::plan::Plan;
use super::ports::{Ports, QUEUE_DEFAULT};
use super::private::PrivateLab;
use super::rsh::Call;
use super::state::{self, State};
use super::{inhabitants, make, relays, rootless, services, stale, status};
use crate::bail_user;
use crate::error::{PassThrough, print, user_error, warn};

impl ShapeArgs {
    fn plan(&self) -> anyhow::Result<Plan> {
        let mut plan = self.topology.plan(self.hosts, self.mtu)?;
        let queue = self.queue.as_deref();
        match (&self.rate, queue) {
            (Some(rate), queue) => {
                plan = plan.with_ports(Ports::parse(rate, queue.unwrap_or(QUEUE_DEFAULT))?)?;
            }
            (None, Some(_)) => {
                bail_user!("a queue fills where there is a rate: add --rate, such as 500mbit")
            }
            (None, None) => {}
        }
        if self.panel {
            plan = plan.with_panel();
        }
        if let Some(line) = plan.crowded() {
            warn(&line);
        }
        Ok(if self.no_routes { plan.without_routes() } else { plan })
    }
}

/// `emp lab up`
pub fn up(args: UpArgs) -> anyhow::Result<()> {
    let name = state::chosen_name(args.name)?;
    let plan = args.shape.plan()?;
    let claim = if rootless::is_able() { None } else { Some(Claim::new(&name)?) };
    rootless::become_able()?;
    stale::remove_quietly();
    let mut guard = Guard::make(State::new(&name, plan, None))?;
    if let Some(claim) = claim {
        claim.keep(&name)?;
    }
    let made = guard.state().clone();
    if args.empd {
        services::start(&made, Life::Lab, |process| guard.note_servant(process))?;
    }
    if !args.shape.no_relays {
        relays::start(&made, Life::Lab, |process| guard.note_servant(process))?;
    }
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
    let program = &args.command[0];
    let mut command = Command::new(program);
    command.args(&args.command[1..]);
    become_inside(&state::chosen_name(args.name)?, &args.host, args.cpu, command)
}

/// `emp lab rsh`
pub fn rsh(args: &RshArgs) -> anyhow::Result<()> {
    let call = Call::parse(&args.arguments)?;
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(call.command);
    become_inside(&state::chosen_name(None)?, &call.host, None, shell)
}

fn become_inside(
    name: &str,
    host: &str,
    cpu: Option<usize>,
    mut command: Command,
) -> anyhow::Result<()> {
    let state = reach(name)?;
    let found = Host::find(&state, host)?;
    let mut entrance = found.entrance()?;
    command.envs(state.service_environment());
    if let Some(cpu) = cpu {
        entrance = entrance.on_cpu(cpu)?;
    }
    entrance.enter().with_context(|| format!("entering {host}"))?;
    command.env(state::NAME_VARIABLE, name);
    let error = command.exec();
    Err(cannot_start(command.get_program(), &error))
}

/// `emp lab run`
pub fn run_once(args: RunArgs) -> anyhow::Result<()> {
    let lab = PrivateLab::create(args.shape.plan()?)?;
    if args.empd {
        lab.start_services()?;
    }
    if !args.shape.no_relays {
        lab.start_relays()?;
    }
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

/// `emp lab status`
pub fn status(args: &StatusArgs) -> anyhow::Result<()> {
    if let Some(name) = &args.name {
        let name = state::chosen_name(Some(name.clone()))?;
        return print(&status::show(&[reach(&name)?], args.json)?);
    }
    if rootless::is_able() {
        return print(&status::show(&State::load_all()?, args.json)?);
    }
    print(&status::show_kept(&keeper::names()?, args.json)?)
}

/// `emp lab cable`
pub fn cable(command: CableCommand) -> anyhow::Result<()> {
    let (name, change) = match command {
        CableCommand::Pull(PlugArgs { plug, name }) => (name, Change::Pull(plug)),
        CableCommand::Plug(PlugArgs { plug, name }) => (name, Change::Plug(plug)),
        CableCommand::Move(MoveArgs { plug, to, name }) => (name, Change::Move(plug, to)),
    };
    let mut state = reach(&state::chosen_name(name)?)?;
    print(&(cable::change(&mut state, &change)? + "\n"))
}

/// `emp lab down`
pub fn down(args: DownArgs) -> anyhow::Result<()> {
    if args.stale {
        return down_stale();
    }
    let bare = args.name.is_none();
    let name = state::chosen_name(args.name)?;
    let kept = join_kept(&name)?;
    let state = State::load(&name)?;
    let mut ended = 0;
    if let Some(state) = &state {
        refuse_if_in_use(state)?;
        refuse_if_not_ours(&name)?;
        inhabitants::refuse_from_inside(state)?;
        ended = inhabitants::end(state);
        make::undo(state)?;
    }
    let removed = state.is_some() || kept.is_some();
    let mut stale = Vec::new();
    match kept {
        Some(kept) => kept.end()?,
        None if rootless::is_able() && bare => stale = stale::remove_with_processes()?,
        None if rootless::is_able() => {}
        // The keeper may be gone, and then the lab is; its record should follow.
        None => stale = keeper::forget_stale()?,
    }
    let mut text = match removed {
        true => format!("lab {name} is removed{}\n", with_processes(ended)),
        false => format!("lab {name} is not up; nothing to remove\n"),
    };
    if bare {
        text += &told(&stale);
    }
    print(&text)
}

fn with_processes(ended: usize) -> String {
    match ended {
        0 => String::new(),
        1 => "; 1 process that ran inside was ended".to_owned(),
        ended => format!("; {ended} processes that ran inside were ended"),
    }
}

/// What was removed because its process was gone.
fn told(stale: &[String]) -> String {
    match stale {
        [] => String::new(),
        names => format!("removed, their processes having ended: {}\n", names.join(", ")),
    }
}

fn refuse_if_in_use(state: &State) -> anyhow::Result<()> {
    if let Some(owner) = state.owner.filter(|owner| owner.is_alive()) {
        let (name, pid) = (&state.name, owner.pid);
        bail_user!("lab {name} belongs to process {pid}, which removes it when it ends");
    }
    Ok(())
}

fn down_stale() -> anyhow::Result<()> {
    let able = rootless::is_able();
    let removed = if able { stale::remove_with_processes()? } else { keeper::forget_stale()? };
    print(if removed.is_empty() { "no stale labs\n".into() } else { told(&removed) }.as_str())
}

/// The record of a lab that must be up, after moving to where it can be used.
fn reach(name: &str) -> anyhow::Result<State> {
    join_kept(name)?;
    let Some(state) = State::load(name)? else {
        bail_user!("lab {name} is not up; `emp lab up{}` makes it", state::name_option(name));
    };
    refuse_if_not_ours(name)?;
    Ok(state)
}

/// Joins the lab's keeper, if we are an ordinary user and there is one.
pub fn join_kept(name: &str) -> anyhow::Result<Option<Kept>> {
    if rootless::is_able() {
        return Ok(None);
    }
    let kept = Kept::find(name)?;
    if let Some(kept) = &kept {
        kept.join()?;
    }
    Ok(kept)
}

/// A record in sight of a process that is not able is a lab root made.
pub fn refuse_if_not_ours(name: &str) -> anyhow::Result<()> {
    if !rootless::is_able() {
        bail_user!("lab {name} was made by root; run emp as root to use or remove it");
    }
    Ok(())
}
