//! Making a lab from its plan, and undoing it.

use std::path::Path;
use std::{fs, thread};

use anyhow::{Context, bail};

use super::enter::Entrance;
use super::ip;
use super::plan::{Host, Place, Plan};
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

/// Commands that make the cables whose first end is at `place`, straight into both namespaces: no
/// interface ever shows up outside the lab.
fn cable_commands(state: &State, place: Place) -> Vec<String> {
    let cables = state.plan.cables.iter().filter(|(near, _)| near.place == place);
    let mut lines: Vec<_> = cables
        .map(|(near, far)| {
            let other = state.namespace(far.place);
            format!(
                "link add name {} type veth peer name {} netns {other}",
                near.interface, far.interface
            )
        })
        .collect();
    if place == Place::Switch {
        lines.push("link add name br0 type bridge".to_owned());
    }
    lines
}

fn address_commands(state: &State, place: Place) -> Vec<String> {
    let mtu = state.plan.mtu;
    let mut lines = vec!["link set dev lo up".to_owned()];
    match place {
        Place::Host(index) => {
            let host = &state.plan.hosts[index];
            if state.plan.has_stable_addresses() {
                lines.push(format!("address add {}/32 dev lo", host.address));
            }
            for interface in &host.interfaces {
                let (name, address, prefix) =
                    (&interface.name, interface.address, interface.prefix);
                lines.push(format!("link set dev {name} mtu {mtu} up"));
                lines.push(format!("address add {address}/{prefix} dev {name}"));
            }
            lines.extend(route_commands(host));
        }
        Place::Switch => {
            let ends = state.plan.cables.iter().map(|(_, far)| far);
            for port in ends.filter(|end| end.place == Place::Switch) {
                lines.push(format!("link set dev {} mtu {mtu} master br0 up", port.interface));
            }
            lines.push(format!("link set dev br0 mtu {mtu} up"));
        }
    }
    lines
}

/// Commands of `tc` that give the switch's ports their rate and queue.
fn port_commands(plan: &Plan, place: Place) -> Vec<String> {
    let Some(ports) = plan.ports.filter(|_| place == Place::Switch) else { return Vec::new() };
    plan.switch_ports().map(|(_, port)| ports.command(port, plan.mtu)).collect()
}

fn route_commands(host: &Host) -> impl Iterator<Item = String> {
    host.routes.iter().map(|route| {
        // So that the answer comes back to the address the other side knows us by.
        let source =
            if route.prefix == 32 { format!(" src {}", host.address) } else { String::new() };
        format!("route add {}/{} via {}{source}", route.to, route.prefix, route.via)
    })
}

/// Kernel settings of one namespace, written by a thread inside it.
///
/// All are best effort: a kernel without IPv6 has no such files, and a lab is of use without.
fn prepare_kernel(state: &State, place: Place) -> anyhow::Result<()> {
    let namespace = state.namespace(place);
    let entrance = Entrance::network_only(&Path::new(NETNS_DIR).join(&namespace))?;
    let forwards = place != Place::Switch && state.plan.has_stable_addresses();
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
