//! Making a lab from its plan, and undoing it.

use std::path::Path;
use std::{fs, thread};

use anyhow::{Context, bail};

use super::enter::Entrance;
use super::ip;
use super::plan::{End, Host, Interface, Place, Plan, Route};
use super::state::{NETNS_DIR, Namespace, State, inode};
use crate::bail_user;

/// One step of making a lab: short, so that an interruption is answered soon.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Makes the namespace at a place.
    Namespace(Place),
    /// Makes the cables whose first end is at a place; every namespace must be there.
    Cables(Place),
    /// Gives a place its addresses and routes; every cable must be there.
    Addresses(Place),
}

/// Everything to do for a plan, in order.
pub fn steps(plan: &Plan) -> Vec<Step> {
    let kinds: [fn(Place) -> Step; 3] = [Step::Namespace, Step::Cables, Step::Addresses];
    kinds.into_iter().flat_map(|kind| plan.places().into_iter().map(kind)).collect()
}

/// Does one step, and writes down what it makes before it does.
///
/// On an error, what was made so far is still there: call [`undo`].
pub fn perform(state: &mut State, step: Step) -> anyhow::Result<()> {
    match step {
        Step::Namespace(place) => make_namespace(state, place),
        Step::Cables(place) => {
            prepare_kernel(state, place)?;
            ip::batch(&state.namespace(place), &cable_commands(state, place))
        }
        Step::Addresses(place) => {
            let namespace = state.namespace(place);
            ip::batch(&namespace, &address_commands(state, place))?;
            match port_commands(&state.plan, place) {
                none if none.is_empty() => Ok(()),
                lines => ip::tc_batch(&namespace, &lines),
            }
        }
    }
}

fn make_namespace(state: &mut State, place: Place) -> anyhow::Result<()> {
    let name = state.namespace(place);
    state.namespaces.push(Namespace { name: name.clone(), inode: None });
    state.save()?;
    if let Err(error) = ip::run(&["netns", "add", &name]) {
        // Not made by us, so not ours to remove: perhaps somebody was faster with that name.
        state.namespaces.pop();
        state.save()?;
        return Err(error);
    }
    if let Some(made) = state.namespaces.last_mut() {
        made.inode = inode(&name);
    }
    state.save()
}

/// Refuses a lab whose namespaces' names are taken by somebody else.
pub fn check_free(state: &State) -> anyhow::Result<()> {
    for place in state.plan.places() {
        let name = state.namespace(place);
        if fs::symlink_metadata(Path::new(NETNS_DIR).join(&name)).is_ok() {
            bail_user!(
                "a network namespace {name} exists and is not of a lab named {}; \
                 choose another name with --name",
                state.name
            );
        }
    }
    Ok(())
}

/// Removes whatever is left of a lab, then its record. Harmless to repeat.
pub fn undo(state: &State) -> anyhow::Result<()> {
    let mut first_failure = None;
    for namespace in &state.namespaces {
        let Some(now) = inode(&namespace.name) else { continue };
        if namespace.inode.is_some_and(|made| made != now) {
            continue;
        }
        unplug(&namespace.name);
        if let Err(error) = ip::run(&["netns", "del", &namespace.name]) {
            first_failure.get_or_insert(error);
        }
    }
    match first_failure {
        // The record stays, so that `down` can be tried again.
        Some(error) => Err(error).context(format!("removing lab {}", state.name)),
        None => state.remove(),
    }
}

/// Deletes a namespace's cables first: a namespace in which a process still runs lives on without
/// its name, and the cables should be gone all the same.
fn unplug(namespace: &str) {
    let Ok(listing) = ip::run(&["-n", namespace, "-br", "link", "show", "type", "veth"]) else {
        return;
    };
    let names = listing.lines().filter_map(|line| line.split([' ', '@']).next());
    let lines: Vec<_> = names.map(|name| format!("link del {name}")).collect();
    // What cannot be deleted here goes with the namespace.
    let _ = ip::batch(namespace, &lines);
}

/// Commands that make the cables whose first end is at `place`, and what else of the panel is joined with it, straight into both
/// namespaces: no interface ever shows up outside the lab.
fn cable_commands(state: &State, place: Place) -> Vec<String> {
    let plan = &state.plan;
    let mut lines = Vec::new();
    for cable in &plan.cables {
        if cable.panel.is_some() {
            let ours = cable.ends().into_iter().filter(|end| end.place == place);
            lines.extend(ours.map(|end| panel_cable(state, end)));
        } else if cable.near.place == place {
            let other = state.namespace(cable.far.place);
            let (near, far) = (&cable.near.interface, &cable.far.interface);
            lines.push(format!("link add name {near} type veth peer name {far} netns {other}"));
        }
    }
    if place == Place::Switch {
        let panels = plan.cables.iter().filter_map(|cable| cable.panel);
        let bridges = (0..plan.switches.len()).map(switch_bridge).chain(panels.map(panel_bridge));
        lines.extend(bridges.map(|bridge| format!("link add name {bridge} type bridge")));
    }
    lines
}

/// The command that makes what joins an interface with the panel.
pub fn panel_cable(state: &State, end: &End) -> String {
    let panel = state.namespace(Place::Switch);
    let (name, port) = (&end.interface, end.panel_port());
    format!("link add name {name} type veth peer name {port} netns {panel}")
}

/// The bridge that is a switch.
fn switch_bridge(switch: usize) -> String {
    format!("br{switch}")
}

/// The bridge that is a cable of the panel.
pub fn panel_bridge(number: usize) -> String {
    format!("cable{number}")
}

fn address_commands(state: &State, place: Place) -> Vec<String> {
    let plan = &state.plan;
    let mut lines = vec!["link set dev lo up".to_owned()];
    match place {
        Place::Host(index) => {
            let host = &plan.hosts[index];
            if plan.has_stable_addresses() {
                lines.push(format!("address add {}/32 dev lo", host.address));
            }
            host.interfaces.iter().for_each(|one| lines.extend(interface_commands(one)));
            lines.extend(host.routes.iter().map(|route| route_command("add", host, route)));
        }
        Place::Switch => {
            let up = |port: &str, mtu: u32, bridge: String| {
                format!("link set dev {port} mtu {mtu} master {bridge} up")
            };
            for cable in &plan.cables {
                let mtu = cable.mtu;
                let ends = cable.ends().into_iter();
                let ports = ends.clone().filter(|end| end.place == Place::Switch);
                lines.extend(ports.map(|end| up(&end.interface, mtu, switch_bridge(end.switch))));
                if let Some(number) = cable.panel {
                    lines.extend(ends.map(|end| up(&end.panel_port(), mtu, panel_bridge(number))));
                    lines.push(format!("link set dev {} mtu {mtu} up", panel_bridge(number)));
                }
            }
            let bridges = (0..plan.switches.len()).map(switch_bridge);
            lines.extend(bridges.map(|name| format!("link set dev {name} mtu {} up", plan.mtu)));
        }
    }
    lines
}

/// Commands that give a host's interface what it has.
pub fn interface_commands(interface: &Interface) -> Vec<String> {
    let Interface { name, address, prefix, mtu } = interface;
    let mut lines = vec![format!("link set dev {name} mtu {mtu} up")];
    lines.extend(address.map(|address| format!("address replace {address}/{prefix} dev {name}")));
    lines
}

/// Commands of `tc` that give switches' ports and the panel's their rate and queue.
fn port_commands(plan: &Plan, place: Place) -> Vec<String> {
    if place != Place::Switch {
        return Vec::new();
    }
    let ports = plan.ports.into_iter();
    let switched = ports
        .flat_map(|ports| plan.switch_ports().map(move |(_, port)| ports.command(port, plan.mtu)));
    let limited = plan.cables.iter().filter_map(|cable| Some((cable, cable.limit?)));
    let patched = limited.flat_map(|(cable, limit)| {
        cable.ends().map(|end| limit.command(&end.panel_port(), cable.mtu))
    });
    switched.chain(patched).collect()
}

/// The command of `ip` that adds, replaces or deletes a host's route.
pub fn route_command(verb: &str, host: &Host, route: &Route) -> String {
    // So that the answer comes back to the address the other side knows us by.
    let source = if route.prefix == 32 { format!(" src {}", host.address) } else { String::new() };
    format!("route {verb} {}/{} via {}{source}", route.to, route.prefix, route.via)
}

/// Kernel settings of one namespace, written by a thread inside it.
///
/// All are best effort: a kernel without IPv6 has no such files, and a lab is of use without.
fn prepare_kernel(state: &State, place: Place) -> anyhow::Result<()> {
    let namespace = state.namespace(place);
    let entrance = Entrance::network_only(&Path::new(NETNS_DIR).join(&namespace))?;
    let forwards = place != Place::Switch && state.plan.routed && state.plan.has_stable_addresses();
    let worker = thread::spawn(move || -> std::io::Result<()> {
        entrance.enter()?;
        for scope in ["all", "default"] {
            // Without this an interface's IPv6 address is unusable for its first second or two.
            set("ipv6", &format!("conf/{scope}/accept_dad"), "0");
            // Ways there and back may differ in a ring.
            set("ipv4", &format!("conf/{scope}/rp_filter"), "0");
        }
        if forwards {
            set("ipv4", "ip_forward", "1");
        }
        Ok(())
    });
    match worker.join() {
        Ok(result) => result.with_context(|| format!("entering {namespace}")),
        Err(_) => bail!("a thread setting up {namespace} panicked"),
    }
}

fn set(family: &str, name: &str, value: &str) {
    let _ = fs::write(format!("/proc/sys/net/{family}/{name}"), value);
}
