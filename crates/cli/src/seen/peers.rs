//! `emp peers`.

use emp_state::{Peer, Snapshot};
use serde_json::json;

use super::look::{Listing, Seen};
use super::nodes::seconds;
use super::{show, table};
use crate::error::print;

/// List the peers that nodes of this machine have something under way with, or had lately.
///
/// A peer has a line, and one more for each path beside its first. RTT is a round trip by that path, WINDOW what may be under way by it and FLIGHT what is, in bytes. OUT are messages to the peer that have
/// not ended, IN those from it that arrive or wait for a receive, RESENT frames that were lost. HEARD is how long ago something last came from it, WAITS since
/// when nothing has moved.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    listing: Listing,
}

/// Runs `emp peers`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let seen = args.listing.look()?;
    if args.listing.json {
        return print(&(serde_json::to_string_pretty(&values(&seen))? + "\n"));
    }
    if seen.nodes.iter().all(|node| node.peers.is_empty()) {
        return print("no node that you may see has anything under way\n");
    }
    print(&text(&seen))
}

/// As a table.
pub fn text(seen: &Seen) -> String {
    let heads = [
        "NODE", "PEER", "STATE", "LINK", "RTT", "WINDOW", "FLIGHT", "OUT", "IN", "RESENT", "HEARD",
        "WAITS",
    ];
    let rows: Vec<_> = pairs(seen).flat_map(|(node, peer)| rows(seen.now, node, peer)).collect();
    let mut text = table::render(heads, &rows);
    let left_out: u32 = seen.nodes.iter().map(|node| node.now.peers_left_out).sum();
    if left_out > 0 {
        text += &format!(
            "{left_out} more have something under way, for which the files have no room\n"
        );
    }
    text
}

fn pairs(seen: &Seen) -> impl Iterator<Item = (&Snapshot, &Peer)> {
    seen.nodes.iter().flat_map(|node| node.peers.iter().map(move |peer| (node, peer)))
}

/// A peer in a line, by its first path, and a line for each further path.
pub fn rows(now: u64, node: &Snapshot, peer: &Peer) -> Vec<[String; 12]> {
    let since = [peer.out_since, peer.in_since].into_iter().filter(|at| *at > 0).min().unwrap_or(0);
    let mut paths = peer.paths();
    let [link, rtt, window, flight] = by_path(node, paths.next());
    let first = [
        show::node(node),
        show::peer(peer),
        peer.state().word().into(),
        link,
        rtt,
        window,
        flight,
        peer.out_messages.to_string(),
        peer.in_messages.to_string(),
        peer.frames_resent.to_string(),
        show::ago(now, peer.heard),
        show::ago(now, since),
    ];
    let mut rows = vec![first];
    rows.extend(paths.map(|path| {
        let mut row = <[String; 12]>::default();
        [row[3], row[4], row[5], row[6]] = by_path(node, Some(path));
        row
    }));
    rows
}

/// Of a path: its link, round trip, window and flight.
fn by_path(node: &Snapshot, path: Option<&emp_state::Path>) -> [String; 4] {
    let Some(path) = path else { return [(); 4].map(|()| "-".into()) };
    let rtt = if path.rtt_us == 0 { "-".into() } else { format!("{} µs", path.rtt_us) };
    let window = if path.window > 1 << 30 { "all".into() } else { show::bytes(path.window.into()) };
    [show::link(node, path.link), rtt, window, show::bytes(path.flight.into())]
}

fn values(seen: &Seen) -> serde_json::Value {
    let all = pairs(seen).map(|(node, peer)| {
        json!({
            "node": show::node(node), "peer": format!("{:016x}", peer.node), "name": peer.name.show(),
            "state": peer.state().word(), "state_age_s": seconds(seen.now, peer.state_since),
            "heard_s": seconds(seen.now, peer.heard), "out_waits_s": seconds(seen.now, peer.out_since),
            "in_waits_s": seconds(seen.now, peer.in_since), "out_messages": peer.out_messages,
            "out_awaiting": peer.out_awaiting, "out_frames": peer.out_frames, "out_timeouts": peer.out_timeouts,
            "out_refusals": peer.out_refusals, "in_messages": peer.in_messages,
            "in_unexpected": peer.in_unexpected, "in_pulls": peer.in_pulls, "in_receives": peer.in_receives,
            "frames_sent": peer.frames_sent, "frames_resent": peer.frames_resent, "paths_up": peer.paths_up,
            "paths": super::route::paths(node, peer),
        })
    });
    json!({ "peers": all.collect::<Vec<_>>() })
}
