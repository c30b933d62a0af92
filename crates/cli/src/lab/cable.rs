//! Pulling, plugging in and moving cables of a lab that is up.
//!
//! A veth pair has a carrier while both its ends are up. So a cable that is one is pulled by taking down the interface across from
//! the plug, and moved with the interface that it is in. A cable by the panel is pulled and moved there: its interfaces stay up, lose
//! their carrier, and stay where they are, as with cables of copper. Addresses go with the plugs, and hosts' routes are set anew,
//! as far as the kernel takes them: who has changed a host's addresses by hand is told, and has the cable as it was asked for.

use std::fs::File;
use std::net::Ipv4Addr;

use anyhow::Context;

use super::make::{interface_commands, panel_bridge, panel_cable, route_command};
use super::plan::{End, Place, Plan, Side};
use super::state::State;
use super::{carrier, ip};
use crate::bail_user;
use crate::error::warn;

/// What is done to a cable, by the host's interface that its plug is or was in.
#[derive(Clone, Debug)]
pub enum Change {
    /// The plug is taken out.
    Pull(String),
    /// It is put in again.
    Plug(String),
    /// It is put into another interface; without one into a new one of the same host.
    Move(String, Option<String>),
}

/// A plug: a cable's number and its side.
type Plugged = (usize, Side);

/// Does it, records it, waits for the carrier, and says what is now.
pub fn change(state: &mut State, change: &Change) -> anyhow::Result<String> {
    let lock = File::open(state.hosts_file()).context("the lab's record")?;
    lock.lock().context("waiting for others that change the lab's cables")?;
    // Others may have changed it while we waited.
    if let Some(now) = State::load(&state.name)? {
        *state = now;
    }
    let before = state.plan.clone();
    let says = match change {
        Change::Pull(end) => pull(state, end)?,
        Change::Plug(end) => plug(state, end)?,
        Change::Move(from, to) => shift(state, from, to.as_deref())?,
    };
    state.plan.set_routes();
    // What was done to the cable is noted whatever becomes of the rest.
    state.save()?;
    if let Some(problem) = set_routes(state, &before) {
        warn(&format!("not all hosts have the routes that they should: {problem}"));
    }
    carrier::wait(state)?;
    Ok(says)
}

fn pull(state: &mut State, text: &str) -> anyhow::Result<String> {
    let (number, side) = plug_in(&state.plan, text)?;
    if state.plan.cables[number].pulled.is_some() {
        bail_user!("the cable of {text} is pulled already; `emp lab cable plug {text}`");
    }
    state.plan.cables[number].pulled = Some(side);
    set_carrier(state, number, side, false)?;
    Ok(format!("{} is pulled at {text}", between(&state.plan, number)))
}

fn plug(state: &mut State, text: &str) -> anyhow::Result<String> {
    let (number, _) = plug_in(&state.plan, text)?;
    let pulled = state.plan.cables[number].pulled.take();
    // One that somebody has taken down by hand, or a change that was cut short, can be plugged in as well.
    if pulled.is_none() && carrier::is_there(state, number)? {
        bail_user!("the cable of {text} is plugged in");
    }
    for out in [Side::Near, Side::Far] {
        set_carrier(state, number, out, true)?;
    }
    for end in state.plan.cables[number].ends() {
        if let Some(interface) = state.plan.interface(end) {
            ip::batch(&state.namespace(end.place), &interface_commands(interface))?;
        }
    }
    Ok(format!("{} is plugged in", between(&state.plan, number)))
}

fn shift(state: &mut State, from: &str, to: Option<&str>) -> anyhow::Result<String> {
    let (number, side) = plug_in(&state.plan, from)?;
    let cable = state.plan.cables[number].clone();
    let old = cable.end(side).clone();
    let (host, name) = destination(&state.plan, &old, to)?;
    let there = state.plan.hosts[host].interfaces.iter().any(|one| one.name == name);
    let new = End { place: Place::Host(host), interface: name, switch: 0 };
    if there && cable.panel.is_none() {
        bail_user!(
            "{} is there, and this cable is moved with its interface: `emp lab up --panel` has cables that are moved alone",
            state.plan.name_of(&new)
        );
    }
    if cable.ends().iter().any(|end| end.place == new.place && end.place != old.place) {
        bail_user!("{} would have both ends of one cable", state.plan.hosts[host].name);
    }
    if let Some(out) = cable.pulled {
        set_carrier(state, number, out, true)?;
    }
    let Some(interface) = state.plan.interface(&old).cloned() else { return Ok(String::new()) };
    // The plan first: what has to be made is in it.
    match cable.panel {
        Some(_) => {
            if !there {
                state.plan.new_interface(host, None, interface.prefix, cable.mtu);
            }
            if let Some(left) = state.plan.interface_mut(&old) {
                left.address = None;
            }
        }
        None => {
            state.plan.new_interface(host, None, interface.prefix, cable.mtu);
            if let Place::Host(from) = old.place {
                state.plan.hosts[from].interfaces.retain(|one| one.name != old.interface);
            }
        }
    }
    if let Some(now) = state.plan.interface_mut(&new) {
        (now.address, now.prefix, now.mtu) = (interface.address, interface.prefix, cable.mtu);
    }
    *state.plan.cables[number].end_mut(side) = new.clone();
    state.plan.cables[number].pulled = None;
    match cable.panel {
        Some(panel) => {
            let address =
                interface.address.map(|address| format!("{address}/{}", interface.prefix));
            patch(state, (number, panel), &old, &new, address, there)?;
        }
        None => carry(state, &old, &new)?,
    }
    if let Some(address) = interface.address {
        forget(state, address)?;
    }
    Ok(format!("{}, moved from {from}", between(&state.plan, number)))
}

/// Moves a plug on the panel.
fn patch(
    state: &State,
    (number, panel): (usize, usize),
    old: &End,
    new: &End,
    address: Option<String>,
    there: bool,
) -> anyhow::Result<()> {
    let cable = &state.plan.cables[number];
    let (old_port, new_port) = (old.panel_port(), new.panel_port());
    let panel_space = state.namespace(Place::Switch);
    let left =
        [format!("link set dev {old_port} down"), format!("link set dev {old_port} nomaster")];
    ip::batch(&panel_space, &left)?;
    if cable.limit.is_some() {
        ip::tc_batch(&panel_space, &[format!("qdisc del dev {old_port} root")])?;
    }
    if let Some(address) = address {
        let gone = format!("address del {address} dev {}", old.interface);
        ip::batch(&state.namespace(old.place), &[gone])?;
    }
    if !there {
        ip::batch(&state.namespace(new.place), &[panel_cable(state, new)])?;
    }
    if let Some(interface) = state.plan.interface(new) {
        ip::batch(&state.namespace(new.place), &interface_commands(interface))?;
    }
    let (mtu, bridge) = (cable.mtu, panel_bridge(panel));
    let join = format!("link set dev {new_port} mtu {mtu} master {bridge} up");
    ip::batch(&panel_space, &[join])?;
    match cable.limit {
        Some(limit) => ip::tc_batch(&panel_space, &[limit.command(&new_port, mtu)]),
        None => Ok(()),
    }
}

/// Moves a cable's interface, with the plug in it.
fn carry(state: &State, old: &End, new: &End) -> anyhow::Result<()> {
    let (from, to) = (&old.interface, &new.interface);
    let there = state.namespace(new.place);
    let lines = match old.place == new.place {
        true => {
            vec![format!("link set dev {from} down"), format!("link set dev {from} name {to}")]
        }
        false => vec![format!("link set dev {from} netns {there} name {to}")],
    };
    ip::batch(&state.namespace(old.place), &lines)?;
    match state.plan.interface(new) {
        Some(interface) => ip::batch(&there, &interface_commands(interface)),
        None => Ok(()),
    }
}

/// Has all hosts ask anew which Ethernet address an IP address has now.
fn forget(state: &State, address: Ipv4Addr) -> anyhow::Result<()> {
    let line = [format!("neigh flush to {address}")];
    let mut hosts = (0..state.plan.hosts.len()).map(Place::Host);
    hosts.try_for_each(|host| ip::batch(&state.namespace(host), &line))
}

/// Takes a cable's carrier away or gives it back.
fn set_carrier(state: &State, number: usize, out: Side, on: bool) -> anyhow::Result<()> {
    let cable = &state.plan.cables[number];
    let verb = if on { "up" } else { "down" };
    let set = |name: &str| format!("link set dev {name} {verb}");
    if cable.panel.is_some() {
        let lines = cable.ends().map(|end| set(&end.panel_port()));
        return ip::batch(&state.namespace(Place::Switch), &lines);
    }
    let across = match out {
        Side::Near => &cable.far,
        Side::Far => &cable.near,
    };
    ip::batch(&state.namespace(across.place), &[set(&across.interface)])
}

/// Gives hosts the routes that the plan has now; the kernel has dropped some of those before. Gives the first thing that it did not take.
fn set_routes(state: &State, before: &Plan) -> Option<String> {
    let mut problem = None;
    for (index, (host, was)) in state.plan.hosts.iter().zip(&before.hosts).enumerate() {
        let namespace = state.namespace(Place::Host(index));
        let lines: Vec<_> =
            host.routes.iter().map(|route| route_command("replace", host, route)).collect();
        if let Err(error) = ip::batch(&namespace, &lines) {
            problem.get_or_insert_with(|| format!("{}: {error:#}", host.name));
            // It stopped there; those behind it may be taken.
            for line in lines {
                let _ = ip::batch(&namespace, &[line]);
            }
        }
        let kept = |to, prefix| host.routes.iter().any(|one| one.to == to && one.prefix == prefix);
        for old in was.routes.iter().filter(|old| !kept(old.to, old.prefix)) {
            // Perhaps the kernel was faster: it drops what led to an interface that went down.
            let _ = ip::batch(&namespace, &[route_command("del", host, old)]);
        }
    }
    problem
}

/// The plug that `text` means, such as `emp-a:emp0`.
fn plug_in(plan: &Plan, text: &str) -> anyhow::Result<Plugged> {
    let (host, name) = host_and_name(plan, text)?;
    for (number, cable) in plan.cables.iter().enumerate() {
        for side in [Side::Near, Side::Far] {
            let end = cable.end(side);
            if end.place == Place::Host(host) && end.interface == name {
                return Ok((number, side));
            }
        }
    }
    let host = &plan.hosts[host];
    let has: Vec<_> = host.interfaces.iter().map(|one| one.name.as_str()).collect();
    match has.contains(&name) {
        true => bail_user!("{text} has no cable"),
        false => bail_user!("{} has no interface {name}; it has {}", host.name, has.join(", ")),
    }
}

fn host_and_name<'t>(plan: &Plan, text: &'t str) -> anyhow::Result<(usize, &'t str)> {
    let Some((host, name)) = text.rsplit_once(':').filter(|(_, name)| !name.is_empty()) else {
        bail_user!("`{text}` is no end of a cable; write HOST:INTERFACE, such as emp-a:emp0");
    };
    match plan.find(host) {
        Some(index) => Ok((index, name)),
        None => {
            let names: Vec<_> = plan.hosts.iter().map(|host| host.name.as_str()).collect();
            bail_user!("there is no host {host}; there are {}", names.join(", "))
        }
    }
}

/// Where a plug is to go: an interface without a cable, or the next one that a host does not have yet.
fn destination(plan: &Plan, old: &End, to: Option<&str>) -> anyhow::Result<(usize, String)> {
    let (host, name) = match to {
        Some(text) => host_and_name(plan, text)?,
        None => {
            let Place::Host(host) = old.place else { bail_user!("a switch's plugs stay") };
            return Ok((host, plan.hosts[host].next_interface()));
        }
    };
    let taken = |end: &&End| end.place == Place::Host(host) && end.interface == name;
    if plan.cables.iter().any(|cable| cable.ends().iter().any(taken)) {
        bail_user!("{} has a cable; choose an interface without one", to.unwrap_or_default());
    }
    let next = plan.hosts[host].next_interface();
    let there = plan.hosts[host].interfaces.iter().any(|one| one.name == name);
    if !there && name != next {
        bail_user!("{} has no interface {name}; its next one is {next}", plan.hosts[host].name);
    }
    Ok((host, name.to_owned()))
}

/// A cable, as people name it.
fn between(plan: &Plan, number: usize) -> String {
    let [near, far] = plan.cables[number].ends().map(|end| plan.name_of(end));
    format!("the cable {near} - {far}")
}
