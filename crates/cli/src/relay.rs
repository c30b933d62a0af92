//! `emp relay`: sends frames of others on between this machine's interfaces.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use emp_host::limits::INTERFACES_MAX;
use emp_host::{AutoLinks, Board, Counter, Node, Want};
use emp_wire::ETHERTYPE_DEFAULT;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::capture::ethertype;
use crate::error::{print, user_error};

/// What it says once it relays, before the interfaces' names.
pub const GREETING: &str = "relays between ";

/// How often an end is looked for.
const GLANCE: Duration = Duration::from_millis(50);

/// Send frames of others on between this machine's interfaces, so that machines that are cabled to it reach each other.
///
/// For machines that are cabled box to box, without a switch; one that runs programs of EMP's needs it as well, if others are to be reached
/// through it. It serves all users' programs, keeps nothing, and can be stopped and started at any time. Needs CAP_NET_RAW; one a machine.
#[derive(clap::Args)]
pub struct Args {
    /// The interfaces between which to send on, at most four [default: those that lead to other machines].
    #[arg(long, short, value_name = "NAME", value_delimiter = ',')]
    interfaces: Vec<String>,
    /// The EtherType of raw frames.
    #[arg(long, value_parser = ethertype, default_value_t = ETHERTYPE_DEFAULT, hide_default_value = true)]
    ethertype: u16,
    /// Stop after so many seconds.
    #[arg(long, value_name = "S")]
    seconds: Option<u64>,
}

/// Runs `emp relay`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let auto = AutoLinks {
        want: Want::Packet,
        interfaces: args.interfaces.clone(),
        ethertype: args.ethertype,
        memory: false,
        ..AutoLinks::default()
    };
    let node = Node::builder().auto_links(auto).board(Board::Thread).relay(true).start();
    let node = node.map_err(|error| user_error(error.to_string()))?;
    let rings: Vec<&str> = node
        .links()
        .iter()
        .filter(|link| link.kind == "packet")
        .map(|link| link.interface.as_str())
        .collect();
    let alone =
        if rings.len() < 2 { "; there is nothing to relay between: one interface" } else { "" };
    let left_out = left_out(&node.choice().left_out);
    print(&format!("{GREETING}{}{alone}{left_out}\n", rings.join(", ")))?;
    let mut left = args.seconds.map(Duration::from_secs);
    while !stop.load(Ordering::Relaxed) && left != Some(Duration::ZERO) {
        std::thread::sleep(GLANCE);
        left = left.map(|left| left.saturating_sub(GLANCE));
    }
    tell(&node, &rings)
}

/// A warning about interfaces that would have been used if a node could use more.
fn left_out(names: &[String]) -> String {
    match names {
        [] => String::new(),
        some => format!(
            "; not {}: a relay uses at most {INTERFACES_MAX} interfaces (--interfaces chooses)",
            some.join(", ")
        ),
    }
}

/// What came from each neighbour, and what was dropped for which reason.
fn tell(node: &Node, rings: &[&str]) -> anyhow::Result<()> {
    let links = node.links();
    let mut text = String::new();
    for neighbour in node.relay_neighbours() {
        let link = links.get(usize::from(neighbour.link.0));
        let interface = link.map_or("?", |link| link.interface.as_str());
        text += &format!(
            "{} on {interface}: {} frames, {} bytes, {} searches; {} dropped\n",
            neighbour.address,
            neighbour.frames,
            neighbour.bytes,
            neighbour.searches,
            neighbour.dropped()
        );
        for (reason, count) in neighbour.reasons() {
            text += &format!("  {}: {count}\n", reason.name());
        }
    }
    let counters = node.counters();
    let reasons = counters.iter().filter(|(name, count)| {
        let relays = ["drop_hop", "drop_relay", "drop_search"];
        *count > 0 && relays.iter().any(|start| name.starts_with(start))
    });
    for (name, count) in reasons {
        text += &format!("{name}: {count}\n");
    }
    let (frames, searches) =
        (counters.get(Counter::Relayed), counters.get(Counter::SearchesRelayed));
    text += &format!("{frames} frames and {searches} searches between {}\n", rings.join(", "));
    print(&text)
}
