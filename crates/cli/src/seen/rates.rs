//! What nodes, their peers and paths do in a second, by two looks.

use std::collections::HashMap;

use emp_state::layout::PATHS_MAX;
use emp_state::{Peer, Snapshot};

/// A node that was not written for so long does nothing, in nanoseconds.
const STALE: u64 = 2_000_000_000;

/// What of a node was counted, to make rates of.
#[derive(Clone, Default)]
struct Counted {
    at: u64,
    messages: u64,
    bytes: u64,
    resent: u64,
    dropped: u64,
    peers: HashMap<u64, [Carried; 1 + PATHS_MAX]>,
}

/// Of a peer, and of each of its paths: frames that left, and those of them that were lost. Modulo 2³².
#[derive(Clone, Copy, Default)]
struct Carried {
    frames: u32,
    lost: u32,
}

/// The same in a second.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct Carries {
    pub frames: f64,
    pub lost: f64,
}

/// What a node does in a second.
#[derive(Clone, Default)]
pub struct Rates {
    pub messages: f64,
    pub bytes: f64,
    pub resent: f64,
    pub dropped: f64,
    /// Of each peer, then of its paths in their order.
    peers: HashMap<u64, [Carries; 1 + PATHS_MAX]>,
}

impl Rates {
    /// A peer, then its paths in their order.
    pub fn of(&self, peer: u64) -> [Carries; 1 + PATHS_MAX] {
        self.peers.get(&peer).copied().unwrap_or_default()
    }
}

fn carried(peer: &Peer) -> [Carried; 1 + PATHS_MAX] {
    let mut all = [Carried::default(); 1 + PATHS_MAX];
    let frames = peer.frames_sent.wrapping_add(peer.frames_resent);
    all[0] = Carried { frames, lost: peer.frames_resent };
    for (place, path) in all[1..].iter_mut().zip(&peer.paths) {
        *place = Carried { frames: path.sent, lost: path.lost };
    }
    all
}

impl Counted {
    fn of(node: &Snapshot) -> Self {
        let dropped = node.counters.iter().filter(|it| it.name.starts_with("drop_"));
        Self {
            at: node.now.written_real,
            messages: node.counter("messages_sent") + node.counter("messages_received"),
            bytes: node.links.iter().map(|link| link.bytes_sent + link.bytes_received).sum(),
            resent: node.counter("frames_resent"),
            dropped: dropped.map(|counter| counter.value).sum(),
            peers: node.peers.iter().map(|peer| (peer.node, carried(peer))).collect(),
        }
    }

    fn since(&self, before: &Self) -> Rates {
        let seconds = self.at.saturating_sub(before.at) as f64 / 1e9;
        let rate = |count: u64| if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        // Counts of a peer begin anew when it is given up.
        let went = |now: u32, then: u32| match now.wrapping_sub(then) {
            count if count as i32 >= 0 => rate(count.into()),
            _ => 0.0,
        };
        let peers = self.peers.iter().map(|(peer, now)| {
            let then = before.peers.get(peer).copied().unwrap_or_default();
            let each = |at: usize| Carries {
                frames: went(now[at].frames, then[at].frames),
                lost: went(now[at].lost, then[at].lost),
            };
            (*peer, std::array::from_fn(each))
        });
        Rates {
            messages: rate(self.messages.saturating_sub(before.messages)),
            bytes: rate(self.bytes.saturating_sub(before.bytes)),
            resent: rate(self.resent.saturating_sub(before.resent)),
            dropped: rate(self.dropped.saturating_sub(before.dropped)),
            peers: peers.collect(),
        }
    }
}

type Key = (u32, u64);

fn key(node: &Snapshot) -> Key {
    (node.identity.process, node.identity.node)
}

/// The rates of all nodes, from look to look.
#[derive(Default)]
pub struct Watch {
    before: HashMap<Key, Counted>,
    rates: HashMap<Key, Rates>,
}

impl Watch {
    /// A new look. A node that was not seen before has the rates since its start.
    pub fn take(&mut self, nodes: &[Snapshot], now: u64) {
        let mut before = HashMap::new();
        let mut rates = HashMap::new();
        for node in nodes {
            let start = Counted { at: node.identity.started_real, ..Counted::default() };
            let (is, last) = (Counted::of(node), self.before.get(&key(node)).unwrap_or(&start));
            // Not written since: what it does is not known to have changed.
            let known = self.rates.get(&key(node)).filter(|_| is.at == last.at).cloned();
            let stale = now.saturating_sub(node.now.written) > STALE;
            let rate =
                if stale { Rates::default() } else { known.unwrap_or_else(|| is.since(last)) };
            rates.insert(key(node), rate);
            before.insert(key(node), is);
        }
        (self.before, self.rates) = (before, rates);
    }

    /// Those of a node.
    pub fn of(&self, node: &Snapshot) -> Rates {
        self.rates.get(&key(node)).cloned().unwrap_or_default()
    }
}
