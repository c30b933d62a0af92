//! What `emp lab status` shows.

use std::process::Command;

use anyhow::Context;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use serde::{Deserialize, Serialize};

use super::drawing;
use super::ip;
use super::plan::{Cable, Host, Interface, Place, Plan, Side};
use super::state::{State, inode};

/// A lab as it is now; also the form of `--json`.
#[derive(Serialize)]
struct LabStatus {
    name: String,
    topology: super::Topology,
    mtu: u32,
    /// The process it will end with, if it is a private one.
    owner: Option<u32>,
    stale: bool,
    hosts: Vec<HostStatus>,
    switches: Vec<String>,
    cables: Vec<CableStatus>,
    #[serde(skip)]
    drawing: Vec<String>,
}

#[derive(Serialize)]
struct CableStatus {
    /// As `emp lab cable` takes them.
    ends: [String; 2],
    mtu: u32,
    /// Bits per second both ways, if it has a rate.
    rate: Option<u64>,
    /// Bytes.
    queue: Option<u64>,
    panel: bool,
    /// Which of `ends` is out, if one is.
    pulled: Option<String>,
}

impl CableStatus {
    fn of(plan: &Plan, cable: &Cable) -> Self {
        let name = |side: Side| plan.name_of(cable.end(side));
        Self {
            ends: [name(Side::Near), name(Side::Far)],
            mtu: cable.mtu,
            rate: cable.limit.map(|limit| limit.rate),
            queue: cable.limit.map(|limit| limit.queue),
            panel: cable.panel.is_some(),
            pulled: cable.pulled.map(name),
        }
    }
}

#[derive(Serialize)]
struct HostStatus {
    name: String,
    address: String,
    namespace: String,
    interfaces: Vec<InterfaceStatus>,
}

#[derive(Serialize)]
struct InterfaceStatus {
    name: String,
    /// Empty where no cable is.
    address: String,
    mac: String,
    /// As the kernel says it, or `gone`.
    state: String,
    received_bytes: u64,
    sent_bytes: u64,
}

/// The part of an interface in `ip -json -statistics link` that we read.
#[derive(Deserialize, Default)]
#[serde(default)]
struct Link {
    ifname: String,
    operstate: String,
    address: String,
    stats64: Statistics,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Statistics {
    rx: Counters,
    tx: Counters,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Counters {
    bytes: u64,
}

/// Text about these labs, or JSON.
pub fn show(labs: &[State], json: bool) -> anyhow::Result<String> {
    let labs = labs.iter().map(lab).collect::<anyhow::Result<Vec<_>>>()?;
    if json {
        return Ok(serde_json::to_string_pretty(&labs)? + "\n");
    }
    if labs.is_empty() {
        return Ok("no lab is up; `emp lab up` makes one\n".to_owned());
    }
    Ok(labs.iter().map(table).collect::<Vec<_>>().join("\n"))
}

/// The same for an ordinary user's labs. Each is in a user namespace of its own and a process can
/// join but one, so each is shown by a process of its own.
pub fn show_kept(names: &[String], json: bool) -> anyhow::Result<String> {
    let mut labs = Vec::new();
    let mut text = String::new();
    for name in names {
        let mut command = Command::new("/proc/self/exe");
        command.args(["lab", "status", "--name", name]).args(json.then_some("--json"));
        let output = command.output().context("starting emp")?;
        if !output.status.success() {
            text += &format!("lab {name} is stale; `emp lab down --stale` forgets it\n");
        } else if json {
            labs.extend(serde_json::from_slice::<Vec<serde_json::Value>>(&output.stdout)?);
        } else {
            text += &String::from_utf8_lossy(&output.stdout);
        }
    }
    if json {
        return Ok(serde_json::to_string_pretty(&labs)? + "\n");
    }
    if text.is_empty() { show(&[], false) } else { Ok(text) }
}

fn lab(state: &State) -> anyhow::Result<LabStatus> {
    let hosts = state.plan.hosts.iter().enumerate();
    let hosts = hosts.map(|(index, host)| status_of(state, index, host));
    Ok(LabStatus {
        name: state.name.clone(),
        topology: state.plan.topology,
        mtu: state.plan.mtu,
        owner: state.owner.map(|owner| owner.pid),
        stale: state.is_stale(),
        hosts: hosts.collect::<anyhow::Result<_>>()?,
        switches: state.plan.switches.clone(),
        cables: state.plan.cables.iter().map(|cable| CableStatus::of(&state.plan, cable)).collect(),
        drawing: drawing::draw(&state.plan),
    })
}

fn status_of(state: &State, index: usize, host: &Host) -> anyhow::Result<HostStatus> {
    let namespace = state.namespace(Place::Host(index));
    let mut links = Vec::new();
    if inode(&namespace).is_some() {
        let text = ip::run(&["-n", &namespace, "-json", "-statistics", "link", "show"])?;
        links = serde_json::from_str::<Vec<Link>>(&text).context("the output of ip")?;
    }
    let interfaces = host.interfaces.iter().map(|planned| interface(planned, &links)).collect();
    let (name, address) = (host.name.clone(), host.address.to_string());
    Ok(HostStatus { name, address, namespace, interfaces })
}

fn interface(planned: &Interface, links: &[Link]) -> InterfaceStatus {
    let link = links.iter().find(|link| link.ifname == planned.name);
    InterfaceStatus {
        name: planned.name.clone(),
        address: planned
            .address
            .map_or_else(String::new, |own| format!("{own}/{}", planned.prefix)),
        mac: link.map(|link| link.address.clone()).unwrap_or_default(),
        state: link.map_or_else(|| "gone".to_owned(), |link| link.operstate.to_lowercase()),
        received_bytes: link.map_or(0, |link| link.stats64.rx.bytes),
        sent_bytes: link.map_or(0, |link| link.stats64.tx.bytes),
    }
}

fn table(lab: &LabStatus) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["host", "address", "interface", "subnet", "state", "received B", "sent B"]);
    for host in &lab.hosts {
        for (nth, interface) in host.interfaces.iter().enumerate() {
            let (name, address) =
                if nth == 0 { (host.name.as_str(), host.address.as_str()) } else { ("", "") };
            table.add_row([
                name,
                address,
                &interface.name,
                &interface.address,
                &interface.state,
                &interface.received_bytes.to_string(),
                &interface.sent_bytes.to_string(),
            ]);
        }
    }
    let topology = format!("{:?}", lab.topology).to_lowercase();
    let drawing: String = lab.drawing.iter().map(|line| format!("  {line}\n")).collect();
    format!("lab {}: {topology}, MTU {}{}\n{drawing}{table}\n", lab.name, lab.mtu, whose(lab))
}

fn whose(lab: &LabStatus) -> String {
    match lab.owner {
        Some(_) if lab.stale => {
            ", stale: its process has ended; `emp lab down --stale` removes it".to_owned()
        }
        Some(owner) => format!(", private to process {owner}"),
        None => String::new(),
    }
}
