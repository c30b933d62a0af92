//! `emp route --trace`: who is on the ways to a node, and how long each takes to answer.

use std::time::Duration;

use emp_host::{AutoLinks, Board, Node, NodeId, Stage, Want, Who};

use super::table;
use crate::error::{print, user_error};

/// How long the node is looked for, and each on the way to it.
const PATIENCE: Duration = Duration::from_secs(3);

/// Runs it.
pub fn run(name: &str, interfaces: &[String], json: bool) -> anyhow::Result<()> {
    let interfaces = interfaces.to_vec();
    let auto = AutoLinks { want: Want::Packet, interfaces, memory: false, ..AutoLinks::default() };
    let node = Node::builder().auto_links(auto).board(Board::Thread).start();
    let node = node.map_err(|error| user_error(error.to_string()))?;
    let identity = u64::from_str_radix(name, 16).ok().filter(|_| name.len() == 16);
    let who = identity.map_or(Who::Name(name), |identity| Who::Id(NodeId(identity)));
    let found = node.find(who, PATIENCE).map_err(|error| user_error(error.to_string()))?;
    let ways = node.trace(found.node, PATIENCE);
    let links = node.links();
    let mut rows = Vec::new();
    let mut all = Vec::new();
    for (number, (link, stages)) in ways.iter().enumerate() {
        let by = links.get(usize::from(link.0)).map_or("?", |link| link.interface.as_str());
        let values = stages.iter().map(value).collect::<Vec<_>>();
        all.push(serde_json::json!({ "interface": by, "stages": values }));
        rows.extend(stages.iter().enumerate().map(|(at, stage)| {
            let first = at == 0;
            let [way, by] = [(number + 1).to_string(), by.to_owned()];
            let [way, by] = if first { [way, by] } else { [String::new(), String::new()] };
            let [who, took] = shown(stage);
            [way, by, (at + 1).to_string(), stage.address.to_string(), who, took]
        }));
    }
    if json {
        let text = serde_json::to_string_pretty(&serde_json::json!({ "ways": all }))?;
        return print(&(text + "\n"));
    }
    print(&table::render(["WAY", "BY", "CABLE", "TO", "WHO", "ROUND TRIP"], &rows))
}

fn shown(stage: &Stage) -> [String; 2] {
    let who = stage.who.as_ref().map(|(name, node)| match name.as_str() {
        "" => format!("{:016x}", node.0),
        name => name.to_owned(),
    });
    let took = stage.round_trip.map(|took| format!("{} µs", took.as_micros()));
    [who, took].map(|text| text.unwrap_or_else(|| "no answer".into()))
}

fn value(stage: &Stage) -> serde_json::Value {
    let (name, node) = stage.who.clone().unzip();
    serde_json::json!({
        "address": stage.address.to_string(), "name": name, "node": node.map(|node| format!("{:016x}", node.0)),
        "round_trip_us": stage.round_trip.map(|took| took.as_secs_f64() * 1e6),
    })
}
