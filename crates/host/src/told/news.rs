//! What happened to peers, for people.

use emp_firmware::limits::{INCOMING_MOST, OPERATIONS_MAX};
use emp_firmware::{Firmware, Limit, LinkIndex, NodeEvent, Span};
use emp_wire::{LinkAddress, NodeId};

use crate::machine::clock::seconds;
use crate::told::directory::{Peer, PeerState};
use crate::told::journal::Level;
use crate::told::names;
use crate::turn::core::Core;

/// Paths that have failed and whose return is to be told as such.
const LOST_MAX: usize = 1_024;

impl Core {
    /// A node's name for people.
    pub(crate) fn show(&self, node: NodeId) -> String {
        names::show(node, self.directory.get(node).map_or("", |peer| peer.name.as_str()))
    }

    /// A link's name for people.
    pub(crate) fn show_link(&self, link: LinkIndex) -> String {
        let link = self.links.get(usize::from(link.0)).map(|link| link.capabilities());
        link.map_or_else(|| "no link".into(), |link| format!("{} on {}", link.kind, link.interface))
    }

    fn show_place(&self, (link, address): (LinkIndex, LinkAddress)) -> String {
        format!("{address} by {}", self.show_link(link))
    }

    /// Says aloud what happened to a peer. Called before the directory learns of it: what was known until now decides what is news.
    pub(crate) fn tell(&mut self, event: &NodeEvent) {
        let Some((level, line)) = self.line_of(event) else { return };
        if let NodeEvent::Claimed { node, .. } = event {
            self.claimed.insert(*node, line.clone());
        }
        self.journal.say_often(level, &line);
    }

    fn line_of(&mut self, event: &NodeEvent) -> Option<(Level, String)> {
        let own = self.firmware().map(Firmware::node);
        Some(match event {
            NodeEvent::Found { node, link, address, name } => {
                let before = self.directory.get(*node);
                let (who, where_) = (names::show(*node, name), self.show_place((*link, *address)));
                let same = |peer: &Peer| (peer.link, peer.address) == (*link, *address);
                match before.map(|peer| peer.state) {
                    Some(PeerState::Found) if before.is_some_and(same) => return None,
                    Some(PeerState::Unreachable | PeerState::Ended) => {
                        (Level::Warn, format!("peer {who} is back, at {where_}"))
                    }
                    _ => (Level::Info, format!("peer {who} is at {where_}")),
                }
            }
            NodeEvent::Unreachable(node) => self.line_of_lost(*node),
            NodeEvent::Ended(node) => {
                let who = self.show(*node);
                let place = self.directory.get(*node).map(|peer| (peer.link, peer.address));
                let at = place
                    .map_or_else(String::new, |at| format!(", last at {}", self.show_place(at)));
                let why = "its process has ended, as its host tells";
                (Level::Lost, format!("peer {who} is lost: {why}{at}"))
            }
            NodeEvent::GaveUp(node) => {
                let (who, trouble) = (self.show(*node), self.link_troubles());
                let because = if trouble.is_empty() { "" } else { "; " };
                let why = "it heard nothing of this node for too long";
                (Level::Warn, format!("peer {who} gave this node up: {why}{because}{trouble}"))
            }
            NodeEvent::Restarted(node) => {
                let who = self.show(*node);
                let lost = "what was under way to it and from it is lost";
                (Level::Warn, format!("peer {who} was restarted: {lost}"))
            }
            NodeEvent::Closed(node) => {
                (Level::Info, format!("peer {} has closed its node", self.show(*node)))
            }
            NodeEvent::Claimed { node, known, other } => {
                let (who, other) = (self.show(*node), self.show_place(*other));
                let one = match known {
                    Some(known) => format!("at {}", self.show_place(*known)),
                    None if own == Some(*node) => "this one".into(),
                    None => "elsewhere before".into(),
                };
                let line = format!(
                    "two nodes claim the identity {who} ({node}): {one}, and at {other}; each is taken for a restart of the \
                     other: give them different names"
                );
                (Level::Error, line)
            }
            NodeEvent::PathLost { node, link } => {
                if self.lost_paths.len() < LOST_MAX {
                    self.lost_paths.insert((*node, *link));
                }
                let (who, link) = (self.show(*node), self.show_link(*link));
                (
                    Level::Warn,
                    format!(
                        "path to {who} by {link} failed: nothing that it carried was acknowledged; other paths carry its frames"
                    ),
                )
            }
            NodeEvent::PathFound { node, link } => {
                let again = self.lost_paths.remove(&(*node, *link));
                let (who, link) = (self.show(*node), self.show_link(*link));
                match again {
                    true => (Level::Warn, format!("path to {who} by {link} works again")),
                    false => (Level::Info, format!("another path to {who}: by {link}")),
                }
            }
            NodeEvent::LostBySize { node, link, passed_bytes, lost_bytes } => {
                let (who, link) = (self.show(*node), self.show_link(*link));
                (
                    Level::Warn,
                    format!(
                        "frames of {lost_bytes} bytes do not reach {who} by {link}, of {passed_bytes} they do: none are longer there from \
                         now on; something on the way has a smaller MTU than both ends"
                    ),
                )
            }
            NodeEvent::LimitReached { limit, most } => (Level::Warn, limit_line(*limit, *most)),
            NodeEvent::Limited { node, .. } if own == Some(*node) => return None,
            NodeEvent::Limited { node, link, frame_bytes_max } => {
                let (who, link) = (self.show(*node), self.show_link(*link));
                (
                    Level::Warn,
                    format!(
                        "peer {who} takes frames of at most {frame_bytes_max} bytes by {link} now"
                    ),
                )
            }
        })
    }

    /// The notice about a peer that was silent for too long, or was not found.
    fn line_of_lost(&mut self, node: NodeId) -> (Level, String) {
        let met = self.directory.get(node).map(|peer| (peer.link, peer.address));
        let (who, trouble) = (self.show(node), self.link_troubles());
        let because = if trouble.is_empty() { "" } else { "; " };
        let now = self.now();
        let firmware = self.firmware();
        let patience = firmware.map_or(Span(0), |firmware| firmware.profile().unreachable_after);
        let hint = self.patience_hint.as_deref();
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        match met {
            Some(place) => {
                let silent = firmware.and_then(|f| f.silence(now, node)).unwrap_or(patience);
                // Its own endpoint was closed over what was under way, or it speaks and takes nothing.
                if silent.0 < patience.0 / 2 {
                    let why = "what was under way to it was ended, or is never acknowledged";
                    return (Level::Warn, format!("peer {who} is given up: {why}"));
                }
                let (place, silent) = (self.show_place(place), seconds(silent));
                let heard = format!("nothing was heard of it for {silent}, last at {place}");
                (Level::Lost, format!("peer {who} is lost: {heard}{because}{trouble}{hint}"))
            }
            None => {
                let (asked, patience) = (self.asked(), seconds(patience));
                let line = format!("peer {who} was not found within {patience}; asked {asked}");
                (Level::Lost, format!("{line}{because}{trouble}{hint}"))
            }
        }
    }

    /// Where nodes that are not known are looked for.
    pub(crate) fn asked(&self) -> String {
        let links = self.links.iter().map(|link| link.capabilities());
        let names: Vec<_> =
            links.map(|link| format!("{} on {}", link.kind, link.interface)).collect();
        format!("everyone by {}", names.join(", "))
    }
}

/// That a node has as much of something as it may.
fn limit_line(limit: Limit, most: usize) -> String {
    let operations = |what: &str| {
        format!(
            "{most} {what} are outstanding, which is as many as there may be: more are posted as these end, and fail if none does (a node may \
             have up to {OPERATIONS_MAX}: EMP_OPERATIONS, FI_EMP_OPERATIONS)"
        )
    };
    match limit {
        Limit::Sends => operations("sends"),
        Limit::Receives => operations("receives"),
        Limit::Unexpected => format!(
            "messages that no receive was posted for fill this node, which holds {most}: their senders keep the rest until some are received, and \
             are told of an error if none is (a node may hold up to {INCOMING_MOST}: EMP_UNEXPECTED, FI_EMP_UNEXPECTED)"
        ),
    }
}
