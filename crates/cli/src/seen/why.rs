//! `emp why PEER`: what is waited for, since when, whose turn it is, and what to do; in one sentence for each node.

use emp_state::process::Life;
use emp_state::{Link, Peer, PeerState, Snapshot};
use emp_wire::NodeId;
use serde_json::json;

use super::look::{Listing, Which, is_rank};
use super::{route, show};
use crate::bail_user;
use crate::error::print;

/// Nothing was heard of a peer for so long: longer than any queue, and than what acknowledgements wait for.
const SILENT: u64 = 1_000_000_000;

/// What happened so lately is part of the reason.
const LATELY: u64 = 600_000_000_000;

/// Say in a sentence what nodes of this machine wait for from a peer: since when, whose turn it is, and what to do.
///
/// It is read from state files, without the help of the processes, so it tells of those that are stopped or hang. Where the peer runs on this machine
/// too, its own file is looked at; where it does not, run it there as well.
#[derive(clap::Args)]
pub struct Args {
    /// The peer: its name or identity (16 digits), or, where it runs on this machine, its MPI rank (`rank 3`).
    peer: String,
    #[command(flatten)]
    listing: Listing,
}

/// Runs `emp why`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let seen = args.listing.which.look()?;
    // The peer itself may be one that was not asked for.
    let all = Which::default().look_silently()?;
    let wanted = NodeId::from_name(&args.peer).0;
    // Jobs have ranks of one number: that of this node's own job is meant.
    let of_job = |node: &Snapshot, peer: &Peer| {
        let is = |other: &&Snapshot| {
            let same = other.identity.job == node.identity.job;
            same && other.identity.node == peer.node && is_rank(other, &args.peer)
        };
        all.nodes.iter().any(|other| is(&other))
    };
    let mut told = Vec::new();
    for node in &seen.nodes {
        let meant =
            |it: &&Peer| it.node == wanted || route::is_called(it, &args.peer) || of_job(node, it);
        for peer in node.peers.iter().filter(meant) {
            let other = all.nodes.iter().find(|other| other.identity.node == peer.node);
            let sentence = sentence(node, peer, other, seen.now);
            told.push((show::node(node), show::peer(peer), sentence));
        }
    }
    if told.is_empty() {
        bail_user!(
            "no node that you may see has anything to do with a peer {}; emp peers lists whom they have",
            args.peer
        );
    }
    if args.listing.json {
        let values: Vec<_> = told
            .iter()
            .map(|(node, peer, why)| json!({ "node": node, "peer": peer, "why": why }))
            .collect();
        return print(&(serde_json::to_string_pretty(&json!({ "why": values }))? + "\n"));
    }
    print(&told.iter().map(|(_, _, why)| format!("{why}\n")).collect::<String>())
}

/// Why a node waits for a peer. `other`: the peer's own state, if it runs on this machine.
pub fn sentence(node: &Snapshot, peer: &Peer, other: Option<&Snapshot>, now: u64) -> String {
    let (me, you) = (show::node(node), show::peer(peer));
    if let Some(stopped) = stopped(node) {
        return format!("{me} waits for nobody: {stopped}");
    }
    let waits = waits(peer, now);
    if let Some(stopped) = other.and_then(stopped) {
        return format!("{me} {waits} {you}, and {stopped}");
    }
    let silent = peer.heard == 0 || now.saturating_sub(peer.heard) > SILENT;
    let troubles = troubles(node, peer);
    if silent
        && !troubles.is_empty()
        && !matches!(peer.state(), PeerState::Ended | PeerState::Closed)
    {
        return format!(
            "{me} cannot reach {you}: {}, and nothing was heard of it for {}; plug the cable in, or ip link set the interface up: it goes on \
             by itself then",
            troubles.join(", "),
            heard(peer, now)
        );
    }
    match peer.state() {
        PeerState::Sought => sought(node, peer, now),
        PeerState::Met => met(node, peer, other, now),
        PeerState::Unknown => format!("{me} {waits} {you}, of which nothing is known yet"),
        over => ended(node, peer, over, now),
    }
}

/// That its process does not run, and how it is made to.
fn stopped(of: &Snapshot) -> Option<String> {
    let Life::Alive(stat) = of.life else { return None };
    let (name, process) = (show::node(of), of.identity.process);
    match stat.state {
        'T' => Some(format!(
            "process {process} of {name} is stopped by a signal: kill -CONT {process} lets it go on"
        )),
        't' => Some(format!(
            "process {process} of {name} is held by a debugger: let it continue there"
        )),
        _ => None,
    }
}

fn heard(peer: &Peer, now: u64) -> String {
    if peer.heard == 0 { "ever".into() } else { show::ago(now, peer.heard) }
}

/// What it waits for, before the peer's name.
fn waits(peer: &Peer, now: u64) -> String {
    match (peer.out_since, peer.in_since) {
        (0, 0) => "waits for nothing of".into(),
        (0, since) => format!("waits since {} for a message from", show::ago(now, since)),
        (since, _) => format!("waits since {} for an answer of", show::ago(now, since)),
    }
}

/// Why the links to a peer carry nothing.
fn troubles(node: &Snapshot, peer: &Peer) -> Vec<String> {
    let used: Vec<&Link> =
        peer.paths().filter_map(|path| node.links.get(usize::from(path.link))).collect();
    // A socket that is bound to no interface is all that is left of the paths when a cable is pulled. It leaves by one that the node has
    // other links on, and carries nothing if none of these does.
    let everywhere = used.iter().any(|link| leaves_anywhere(link))
        && node.links.iter().all(|link| link.mtu == 0 || !link.trouble.is_empty());
    let mut meant = used;
    if meant.is_empty() || everywhere {
        meant = node.links.iter().collect();
    }
    let mut all: Vec<String> = meant
        .iter()
        .filter(|link| !link.trouble.is_empty())
        .map(|link| format!("interface {} {}", link.interface, link.trouble))
        .collect();
    all.dedup();
    all
}

/// A socket by which datagrams leave by whatever interface the system chooses: nothing is known of an interface of its own.
fn leaves_anywhere(link: &Link) -> bool {
    link.kind.is("udp") && link.mtu == 0
}

/// A peer that is looked for.
fn sought(node: &Snapshot, peer: &Peer, now: u64) -> String {
    let (me, you) = (show::node(node), show::peer(peer));
    let since = show::ago(now, peer.state_since);
    let versions = node.counter("drop_wrong_version");
    if versions > 0 {
        return format!(
            "{me} looks for {you} since {since}, and has dropped {versions} frames of another version of EMP: two versions are at work; \
             compare emp --version on both hosts"
        );
    }
    // It was met, and is looked for because it is silent.
    if peer.heard > 0 {
        return silent(node, peer, now);
    }
    let links: Vec<String> =
        (0..node.links.len()).map(|index| show::link(node, index as u8)).collect();
    format!(
        "{me} looks for {you} since {since} and nobody answers by {}: it is not started, on another segment, or a firewall is between; emp doctor \
         --peer HOST tells",
        links.join(", ")
    )
}

/// A peer that is silent. Said alike before and after it is looked for again, which is a second or two later.
fn silent(node: &Snapshot, peer: &Peer, now: u64) -> String {
    format!(
        "{} {} {}, of which nothing was heard for {}: its process is stopped or has ended, or its host cannot be reached; look there with emp \
         nodes, and here with emp doctor --peer HOST; it is given up {} after its last sign of life",
        show::node(node),
        waits(peer, now),
        show::peer(peer),
        heard(peer, now),
        show::span(u64::from(node.identity.patience_ms) * 1_000_000)
    )
}

/// A peer that is no more.
fn ended(node: &Snapshot, peer: &Peer, how: PeerState, now: u64) -> String {
    let (me, you) = (show::node(node), show::peer(peer));
    let since = show::ago(now, peer.state_since);
    let next = "operations with it have ended with an error; start it again";
    let note = node.notes.iter().rev().find(|note| note.node == peer.node && note.level > 1);
    let said = note.map_or_else(String::new, |note| format!(" ({})", note.text));
    match how {
        PeerState::Ended => {
            format!("{me} lost {you} {since} ago: its process has ended, as its host tells; {next}")
        }
        PeerState::Closed => format!(
            "{me} waits for nothing of {you}: it closed its node {since} ago; start it again"
        ),
        PeerState::Restarted => {
            format!(
                "{me} lost {you} {since} ago: it was restarted, and what was under way is lost; the next message goes to the new one"
            )
        }
        PeerState::GaveUp => {
            format!(
                "{me} was given up by {you} {since} ago, which heard nothing of it for too long{said}; look whether frames leave this host"
            )
        }
        _ => format!("{me} gave {you} up {since} ago{said}; {next}, or emp doctor --peer HOST"),
    }
}

/// A peer that is there.
fn met(node: &Snapshot, peer: &Peer, other: Option<&Snapshot>, now: u64) -> String {
    let (me, you) = (show::node(node), show::peer(peer));
    if peer.out_since > 0 {
        return sending(node, peer, other, now);
    }
    let since = show::ago(now, peer.in_since);
    if peer.in_receives > 0 && peer.in_messages == u32::from(peer.in_unexpected) {
        return format!(
            "{me} waits since {since} for a message that {you} has not sent: it is {you}'s turn{}",
            hint(other)
        );
    }
    if peer.in_since > 0 {
        return format!(
            "{me} waits since {since} for the rest of {} messages of {you}, which has stopped sending{}{}",
            peer.in_messages,
            match peer.in_pulls {
                0 => String::new(),
                blocks => format!(" and owes {blocks} blocks that {me} asked it for"),
            },
            hint(other)
        );
    }
    if peer.in_unexpected > 0 {
        return format!(
            "{you} has sent {} messages that {me} has not received{}: it is {me}'s turn",
            peer.in_unexpected,
            match node.now.unexpected_since {
                0 => String::new(),
                at => format!(" since {}", show::ago(now, at)),
            }
        );
    }
    let anyone = match node.now.receive_since {
        0 => String::new(),
        at => format!(", but since {} for a message from anyone", show::ago(now, at)),
    };
    format!(
        "{me} waits for nothing of {you}{anyone}; it was heard {} ago",
        show::ago(now, peer.heard)
    )
}

/// A peer that is to acknowledge something.
fn sending(node: &Snapshot, peer: &Peer, other: Option<&Snapshot>, now: u64) -> String {
    let (me, you) = (show::node(node), show::peer(peer));
    let since = show::ago(now, peer.out_since);
    if peer.out_frames > 0 && now.saturating_sub(peer.heard) > SILENT {
        return silent(node, peer, now);
    }
    let lost = |note: &&emp_state::Note| {
        note.node == peer.node
            && now.saturating_sub(note.at) < LATELY
            && note.text.show().contains("bytes")
    };
    if peer.out_timeouts > 1
        && let Some(note) = node.notes.iter().rev().find(lost)
    {
        return format!(
            "{me} waits since {since} for {you}: {}; compare ip link on both hosts",
            note.text
        );
    }
    if peer.out_refusals > 0 {
        return format!(
            "{me} waits since {since} for {you}, which has no room for its messages: it is {you}'s turn to receive them"
        );
    }
    if peer.out_awaiting > 0 && peer.out_frames == 0 {
        return format!(
            "{me} waits since {since} for {you}, which has all that was sent and whose program has not received it: it is {you}'s turn{}",
            hint(other)
        );
    }
    format!(
        "{me} waits since {since} for {you} to acknowledge {} frames, {} messages are under way, and the timer ran {} times: frames are lost on \
         the way, or {you} does not run{}",
        peer.out_frames,
        peer.out_messages,
        peer.out_timeouts,
        hint(other)
    )
}

/// What the peer's process does, if it is on this machine.
fn hint(other: Option<&Snapshot>) -> String {
    let Some(other) = other else { return "; look on its host with emp why".into() };
    let process = other.identity.process;
    match other.life {
        Life::Alive(stat) if stat.state == 'R' => format!(" (its process {process} computes)"),
        Life::Alive(stat) if stat.state == 'D' => {
            format!(" (its process {process} is in the kernel)")
        }
        Life::Alive(_) => format!(" (its process {process} sleeps; where, gdb -p {process} tells)"),
        _ => String::new(),
    }
}

#[cfg(test)]
#[path = "why_tests.rs"]
mod tests;
