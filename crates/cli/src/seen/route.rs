//! `emp route`.

use emp_state::layout::Address;
use emp_state::{Path, Peer, Snapshot};
use serde_json::json;

use super::look::Listing;
use super::{show, table, trace};
use crate::bail_user;
use crate::error::print;

/// Show by which paths nodes of this machine reach a peer.
///
/// The path that is used first stands first. FRAME is the largest frame in bytes; where frames longer than the MTU get through it says so.
///
/// With --trace, who is on the ways to the peer by raw frames, hop by hop, with round trips: relays first and the peer last. A node of this command's own asks
/// them, so that needs CAP_NET_RAW and nobody has to know the peer.
#[derive(clap::Args)]
pub struct Args {
    /// The peer: its name or identity (16 digits).
    peer: String,
    #[command(flatten)]
    listing: Listing,
    /// Ask everyone on the ways there.
    #[arg(long, conflicts_with_all = ["node", "file"])]
    trace: bool,
    /// With --trace: by these interfaces [default: all that lead to other machines].
    #[arg(long, value_name = "NAME", value_delimiter = ',', requires = "trace")]
    interfaces: Vec<String>,
}

/// True if a peer is meant by this.
pub fn is_called(peer: &Peer, wanted: &str) -> bool {
    peer.name.show() == wanted || format!("{:016x}", peer.node) == wanted
}

/// Runs `emp route`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if args.trace {
        return trace::run(&args.peer, &args.interfaces, args.listing.json);
    }
    let seen = args.listing.which.look()?;
    let wanted = emp_wire::NodeId::from_name(&args.peer).0;
    let mut rows = Vec::new();
    let mut all = Vec::new();
    let mut known = false;
    for node in &seen.nodes {
        for peer in node.peers.iter().filter(|it| it.node == wanted || is_called(it, &args.peer)) {
            known = true;
            all.push(json!({ "node": show::node(node), "peer": show::peer(peer), "paths": paths(node, peer) }));
            rows.extend(peer.paths().zip(peer.places.iter()).map(|path| row(node, peer, path)));
            if peer.paths().next().is_none() {
                let none = format!("no path: {}", peer.state().word());
                let [a, b] = [show::node(node), show::peer(peer)];
                rows.push([a, b, none, "-".into(), "-".into(), "-".into(), "-".into(), "-".into()]);
            }
        }
    }
    if !known {
        bail_user!("no node that you may see knows a peer {}; emp peers lists them", args.peer);
    }
    if args.listing.json {
        return print(&(serde_json::to_string_pretty(&json!({ "routes": all }))? + "\n"));
    }
    let heads = ["NODE", "PEER", "LINK", "TO", "MTU", "FRAME", "RTT", "WINDOW"];
    print(&table::render(heads, &rows))
}

fn row(node: &Snapshot, peer: &Peer, (path, to): (&Path, Address)) -> [String; 8] {
    let mtu = node.links.get(usize::from(path.link)).map_or(0, |link| link.mtu);
    let long = if path.flags & Path::LONG != 0 { "+long" } else { "" };
    [
        show::node(node),
        show::peer(peer),
        show::link(node, path.link),
        show::address(&to),
        if mtu == 0 { "-".into() } else { mtu.to_string() },
        format!("{}{long}", path.frame_bytes),
        if path.rtt_us == 0 { "-".into() } else { format!("{} µs", path.rtt_us) },
        if path.window > 1 << 30 { "all".into() } else { show::bytes(path.window.into()) },
    ]
}

/// A peer's paths for programs.
pub fn paths(node: &Snapshot, peer: &Peer) -> Vec<serde_json::Value> {
    let value = |(path, to): (&Path, Address)| {
        json!({
            "link": show::link(node, path.link), "to": show::address(&to), "frame_bytes_max": path.frame_bytes,
            "first": path.flags & Path::FIRST != 0, "long_frames": path.flags & Path::LONG != 0,
            "window_bytes": path.window, "flight_bytes": path.flight, "rtt_us": path.rtt_us,
            "frames_sent": path.sent, "frames_lost": path.lost,
        })
    };
    peer.paths().zip(peer.places.iter()).map(value).collect()
}
