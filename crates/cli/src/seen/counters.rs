//! `emp counters`.

use serde_json::json;

use super::look::Listing;
use super::{show, table};
use crate::error::print;

/// Show what nodes of this machine have counted: frames, messages, and each reason for which a frame was dropped.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    listing: Listing,
    /// Those that are zero as well.
    #[arg(long)]
    all: bool,
}

/// Runs `emp counters`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let seen = args.listing.look()?;
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for node in &seen.nodes {
        let shown = node.counters.iter().filter(|counter| args.all || counter.value != 0);
        let mut values = serde_json::Map::new();
        for counter in shown {
            values.insert(counter.name.show(), counter.value.into());
            rows.push([show::node(node), counter.name.show(), counter.value.to_string()]);
        }
        all.push(json!({ "node": show::node(node), "process": node.identity.process, "counters": values }));
    }
    if args.listing.json {
        return print(&(serde_json::to_string_pretty(&json!({ "nodes": all }))? + "\n"));
    }
    if rows.is_empty() {
        return print("no node that you may see has counted anything\n");
    }
    print(&table::render(["NODE", "COUNTER", "VALUE"], &rows))
}
