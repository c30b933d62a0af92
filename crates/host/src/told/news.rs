//! What happened to peers, for people.

use std::collections::{HashMap, HashSet};

use emp_firmware::limits::{INCOMING_MOST, OPERATIONS_MAX};
use emp_firmware::{Firmware, Limit, LinkIndex, NodeEvent, Time};
use emp_wire::{LinkAddress, NodeId};

use crate::machine::clock::seconds;
use crate::told::directory::{Directory, Peer, PeerState};
use crate::told::journal::{Journal, Level};
use crate::told::names;

/// Paths that have failed and whose return is to be told as such.
const LOST_MAX: usize = 1_024;

/// What was said of peers, as far as what is said next depends on it.
pub(crate) struct News {
    /// The links for people, by index.
    links: Vec<String>,
    /// What is said to whoever may want to wait longer for silent peers.
    patience_hint: Option<String>,
    /// Identities that two nodes use, and what was said of it. As many as the firmware tells of.
    claimed: HashMap<NodeId, String>,
    /// Ways to peers that have failed.
    lost_paths: HashSet<(NodeId, LinkIndex)>,
}

/// How things are when something happens.
pub(crate) struct Scene<'a> {
    pub(crate) now: Time,
    pub(crate) firmware: Option<&'a Firmware>,
    /// What was known of peers until now: it decides what is news.
    pub(crate) directory: &'a Directory,
    /// What is wrong with the links. Asked for when a peer is lost only: that is two system calls a link.
    pub(crate) troubles: &'a mut dyn FnMut() -> String,
}

impl Scene<'_> {
    /// This node's identity, unless it is closed.
    fn own(&self) -> Option<NodeId> {
        self.firmware.map(Firmware::node)
    }
}

impl News {
    /// Of a node with these links.
    pub(crate) fn new(links: Vec<String>, patience_hint: Option<String>) -> Self {
        Self { links, patience_hint, claimed: HashMap::new(), lost_paths: HashSet::new() }
    }

    /// What the links are called now.
    pub(crate) fn rename_links(&mut self, names: Vec<String>) {
        self.links = names;
    }

    /// The node has more links.
    pub(crate) fn add_links(&mut self, names: Vec<String>) {
        self.links.extend(names);
    }

    /// A link's name for people.
    fn show_link(&self, link: LinkIndex) -> &str {
        self.links.get(usize::from(link.0)).map_or("no link", String::as_str)
    }

    fn show_place(&self, (link, address): (LinkIndex, LinkAddress)) -> String {
        format!("{address} by {}", self.show_link(link))
    }

    /// Where nodes that are not known are looked for.
    pub(crate) fn asked(&self) -> String {
        format!("everyone by {}", self.links.join(", "))
    }

    /// Where a node was tried that is given up, if there are several links: of one its interface tells.
    pub(crate) fn tried(&self, places: &[(LinkIndex, LinkAddress)]) -> Option<String> {
        let shown: Vec<_> = places.iter().map(|place| self.show_place(*place)).collect();
        (self.links.len() > 1 && !shown.is_empty()).then(|| format!("tried {}", shown.join(", ")))
    }

    /// What was said of an identity that two nodes claim.
    pub(crate) fn claim_of(&self, node: NodeId) -> Option<&str> {
        self.claimed.get(&node).map(String::as_str)
    }

    /// Says aloud what happened to a peer. Called before the directory learns of it.
    pub(crate) fn tell(&mut self, event: &NodeEvent, scene: Scene<'_>, journal: &mut Journal) {
        let Some((level, line)) = self.line_of(event, scene) else { return };
        if let NodeEvent::Claimed { node, .. } = event {
            self.claimed.insert(*node, line.clone());
        }
        journal.say_of(who(event), level, &line);
    }

    fn line_of(&mut self, event: &NodeEvent, scene: Scene<'_>) -> Option<(Level, String)> {
        let directory = scene.directory;
        Some(match event {
            NodeEvent::Found { node, link, address, name } => {
                return self.line_of_found(*node, (*link, *address), name, directory);
            }
            NodeEvent::Unreachable(node) => self.line_of_lost(*node, scene),
            NodeEvent::Ended(node) => {
                let who = directory.show(*node);
                let place = directory.get(*node).map(|peer| (peer.link, peer.address));
                let at = place
                    .map_or_else(String::new, |at| format!(", last at {}", self.show_place(at)));
                let why = "its process has ended, as its host tells";
                (Level::Lost, format!("peer {who} is lost: {why}{at}"))
            }
            NodeEvent::GaveUp(node) => {
                let (who, trouble) = (directory.show(*node), (scene.troubles)());
                let because = if trouble.is_empty() { "" } else { "; " };
                let why = "it heard nothing of this node for too long";
                (Level::Warn, format!("peer {who} gave this node up: {why}{because}{trouble}"))
            }
            NodeEvent::Restarted(node) => {
                let who = directory.show(*node);
                let lost = "what was under way to it and from it is lost";
                (Level::Warn, format!("peer {who} was restarted: {lost}"))
            }
            NodeEvent::Closed(node) => {
                (Level::Info, format!("peer {} has closed its node", directory.show(*node)))
            }
            NodeEvent::Claimed { node, known, other } => {
                let (who, other) = (directory.show(*node), self.show_place(*other));
                let one = match known {
                    Some(known) => format!("at {}", self.show_place(*known)),
                    None if scene.own() == Some(*node) => "this one".into(),
                    None => "elsewhere before".into(),
                };
                let line = format!(
                    "two nodes claim the identity {who} ({node}): {one}, and at {other}; each is taken for a restart of the \
                     other: give them different names"
                );
                (Level::Error, line)
            }
            NodeEvent::LimitReached { limit, most } => limit_line(*limit, *most),
            NodeEvent::Limited { node, .. } if scene.own() == Some(*node) => return None,
            NodeEvent::Limited { node, link, .. }
            | NodeEvent::PathLost { node, link }
            | NodeEvent::PathFound { node, link }
            | NodeEvent::LostBySize { node, link, .. } => {
                self.line_of_path(event, (*node, *link), directory)
            }
        })
    }

    /// That a peer is somewhere, if that is news.
    fn line_of_found(
        &self,
        node: NodeId,
        at: (LinkIndex, LinkAddress),
        name: &str,
        directory: &Directory,
    ) -> Option<(Level, String)> {
        let before = directory.get(node);
        let (who, where_) = (names::show(node, name), self.show_place(at));
        let same = |peer: &Peer| (peer.link, peer.address) == at;
        Some(match before.map(|peer| peer.state) {
            Some(PeerState::Found) if before.is_some_and(same) => return None,
            Some(PeerState::Unreachable | PeerState::Ended) => {
                (Level::Warn, format!("peer {who} is back, at {where_}"))
            }
            _ => (Level::Info, format!("peer {who} is at {where_}")),
        })
    }

    /// What happened to one of the paths to a peer, as `event` says.
    fn line_of_path(
        &mut self,
        event: &NodeEvent,
        path: (NodeId, LinkIndex),
        directory: &Directory,
    ) -> (Level, String) {
        let again = match event {
            NodeEvent::PathLost { .. } if self.lost_paths.len() < LOST_MAX => {
                self.lost_paths.insert(path)
            }
            NodeEvent::PathFound { .. } => self.lost_paths.remove(&path),
            _ => false,
        };
        let (who, link) = (directory.show(path.0), self.show_link(path.1));
        let line = match event {
            NodeEvent::PathLost { .. } => format!(
                "path to {who} by {link} failed: nothing that it carried was acknowledged; other paths carry its frames"
            ),
            NodeEvent::PathFound { .. } if again => format!("path to {who} by {link} works again"),
            NodeEvent::LostBySize { passed_bytes, lost_bytes, .. } => format!(
                "frames of {lost_bytes} bytes do not reach {who} by {link}, of {passed_bytes} they do: none are longer there from \
                 now on; something on the way has a smaller MTU than both ends"
            ),
            NodeEvent::Limited { frame_bytes_max, .. } => {
                format!("peer {who} takes frames of at most {frame_bytes_max} bytes by {link} now")
            }
            _ => return (Level::Info, format!("another path to {who}: by {link}")),
        };
        (Level::Warn, line)
    }

    /// The notice about a peer that was silent for too long, or was not found.
    fn line_of_lost(&self, node: NodeId, scene: Scene<'_>) -> (Level, String) {
        let Scene { now, firmware, directory, troubles } = scene;
        let met = directory.get(node).map(|peer| (peer.link, peer.address));
        let (who, trouble) = (directory.show(node), troubles());
        let because = if trouble.is_empty() { "" } else { "; " };
        // An engine elsewhere does not say how long it has heard nothing.
        let patience = firmware.map(|firmware| firmware.profile().unreachable_after);
        let hint = self.patience_hint.as_deref();
        let hint = hint.map_or_else(String::new, |hint| format!("; {hint}"));
        match met {
            Some(place) => {
                let silent = firmware.and_then(|f| f.silence(now, node)).or(patience);
                // Its own endpoint was closed over what was under way, or it speaks and takes nothing.
                if silent.zip(patience).is_some_and(|(silent, patience)| silent.0 < patience.0 / 2)
                {
                    let why = "what was under way to it was ended, or is never acknowledged";
                    return (Level::Warn, format!("peer {who} is given up: {why}"));
                }
                let silent = silent.map_or_else(String::new, |s| format!(" for {}", seconds(s)));
                let place = self.show_place(place);
                let heard = format!("nothing was heard of it{silent}, last at {place}");
                (Level::Lost, format!("peer {who} is lost: {heard}{because}{trouble}{hint}"))
            }
            None => {
                let within =
                    patience.map_or_else(String::new, |p| format!(" within {}", seconds(p)));
                let asked = self.asked();
                let line = format!("peer {who} was not found{within}; asked {asked}");
                (Level::Lost, format!("{line}{because}{trouble}{hint}"))
            }
        }
    }
}

/// The peer that an event is of.
const fn who(event: &NodeEvent) -> Option<NodeId> {
    match event {
        NodeEvent::Unreachable(node)
        | NodeEvent::Restarted(node)
        | NodeEvent::GaveUp(node)
        | NodeEvent::Ended(node)
        | NodeEvent::Closed(node)
        | NodeEvent::Found { node, .. }
        | NodeEvent::Claimed { node, .. }
        | NodeEvent::PathLost { node, .. }
        | NodeEvent::PathFound { node, .. }
        | NodeEvent::LostBySize { node, .. }
        | NodeEvent::Limited { node, .. } => Some(*node),
        NodeEvent::LimitReached { .. } => None,
    }
}

/// That a node has as much of something as it may. Where all that follows is that a program's next call waits for progress, as it is made to do, only
/// who asks is told.
fn limit_line(limit: Limit, most: usize) -> (Level, String) {
    let operations = |what: &str| {
        format!(
            "{most} {what} are outstanding, which is as many as there may be: more are posted as these end, and fail if none does (a node may \
             have up to {OPERATIONS_MAX}: EMP_OPERATIONS, FI_EMP_OPERATIONS)"
        )
    };
    let of_each = "one peer has an eighth of what is free";
    match limit {
        Limit::Sends => (Level::Warn, operations("sends")),
        Limit::Receives => (Level::Warn, operations("receives")),
        Limit::Unexpected => (
            Level::Warn,
            format!(
                "messages that no receive was posted for fill this node, which holds {most}: their senders keep the rest until some are received, \
                 and are told of an error if none is (a node may hold up to {INCOMING_MOST}: EMP_UNEXPECTED, FI_EMP_UNEXPECTED)"
            ),
        ),
        Limit::Gets => (
            Level::Info,
            format!(
                "as many gets and fetching atomics are outstanding as there may be ({most}, of which {of_each}): more are posted as these end"
            ),
        ),
        Limit::Buffered => (
            Level::Info,
            format!(
                "copies of what peers have not acknowledged hold as much as they may ({most} bytes, of which {of_each}): buffered sends and atomics \
                 find room again as these arrive"
            ),
        ),
        Limit::Notifications => (
            Level::Warn,
            format!(
                "{most} notifications of puts wait for this program: its peers' further puts of this kind wait until it looks"
            ),
        ),
        Limit::WithoutEndpoint => (
            Level::Warn,
            format!(
                "{most} messages wait for endpoints that are not open here: further ones are refused until they are, or their senders give up"
            ),
        ),
        Limit::Endpoints => (
            Level::Warn,
            format!(
                "{most} endpoints are open, which is as many as a node may have: close some, or start another node"
            ),
        ),
        Limit::Regions => (
            Level::Warn,
            format!(
                "{most} regions of memory are exported, which is as many as a node may have: remove some, or export larger ones"
            ),
        ),
        Limit::Peers => (
            Level::Warn,
            format!(
                "{most} peers are known, which is as many as a node may know: others are not spoken to until some of these have left"
            ),
        ),
        Limit::Searches => (
            Level::Info,
            format!(
                "{most} nodes that were not met yet are looked for, which is as many as may be: sends to others are posted as these are found"
            ),
        ),
    }
}
