//! `emp nodes`.

use serde_json::json;

use super::look::{Listing, Seen, doing};
use super::{show, table};
use crate::error::print;

/// List the nodes that run on this machine: your own; root sees all.
///
/// Each line is read from the node's state file, without its help: of a process that is stopped or hangs it tells what was last, and AGE how
/// long ago that was written. WAITS says what has not moved, and since when; `emp why` says it in a sentence.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    listing: Listing,
}

/// Runs `emp nodes`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let seen = args.listing.look()?;
    if args.listing.json {
        return print(&(serde_json::to_string_pretty(&values(&seen))? + "\n"));
    }
    if seen.nodes.is_empty() {
        return print("no node runs here, or none that you may see\n");
    }
    print(&text(&seen))
}

/// As a table.
pub fn text(seen: &Seen) -> String {
    let heads = ["NODE", "JOB", "RANK", "PID", "PROCESS", "AGE", "PEERS", "WAITS", "COMMAND"];
    let rows: Vec<_> = seen
        .nodes
        .iter()
        .map(|node| {
            let identity = &node.identity;
            let job = identity.job.show();
            [
                show::node(node),
                if job.is_empty() { "-".into() } else { job },
                show::rank(node),
                identity.process.to_string(),
                doing(node.life).into(),
                show::ago(seen.now, node.now.written),
                node.now.peers_known.to_string(),
                show::waits(node, seen.now),
                identity.command.show(),
            ]
        })
        .collect();
    table::render(heads, &rows)
}

fn values(seen: &Seen) -> serde_json::Value {
    let nodes = seen.nodes.iter().map(|node| {
        let (identity, now) = (&node.identity, &node.now);
        let links = node.links.iter().map(|link| {
            json!({
                "kind": link.kind.show(), "interface": link.interface.show(), "address": show::address(&link.address),
                "mtu": link.mtu, "frame_bytes_max": link.frame_bytes, "trouble": link.trouble.show(),
                "frames_sent": link.frames_sent, "frames_received": link.frames_received,
                "bytes_sent": link.bytes_sent, "bytes_received": link.bytes_received,
            })
        });
        let notes = node.notes.iter().map(|note| {
            json!({ "age_s": seconds(seen.now, note.at), "level": note.level, "text": note.text.show() })
        });
        json!({
            "node": format!("{:016x}", identity.node), "name": identity.name.show(), "version": identity.version.show(),
            "process": identity.process, "command": identity.command.show(), "user": identity.user,
            "host": identity.host.show(), "board": identity.board.show(), "launcher": identity.launcher.show(),
            "job": identity.job.show(), "rank": identity.rank, "ranks": identity.ranks, "doing": doing(node.life),
            "age_s": seconds(seen.now, now.written), "sends": now.sends, "receives": now.receives,
            "incoming": now.incoming, "peers": now.peers_known, "peers_left_out": now.peers_left_out,
            "links": links.collect::<Vec<_>>(), "notes": notes.collect::<Vec<_>>(), "torn": node.torn,
            "file": node.path.display().to_string(),
        })
    });
    json!({ "nodes": nodes.collect::<Vec<_>>() })
}

/// How long ago, in seconds; null: never.
pub fn seconds(now: u64, at: u64) -> Option<f64> {
    (at > 0).then(|| now.saturating_sub(at) as f64 / 1e9)
}
