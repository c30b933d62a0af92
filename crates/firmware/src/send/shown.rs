//! What the send side shows of a peer to whoever looks from outside ([`Firmware::shown`](crate::Firmware::shown)).

use super::flight::Carried;
use super::{SendPeer, SendSide};
use crate::path::{PathId, PathShown};

/// Messages that wait for a `done` are counted up to so many: each is a look, and beyond a few only that there are many matters.
const AWAITING_COUNTED: usize = 64;

/// What is under way to a peer.
#[derive(Clone, Copy, Default)]
pub(crate) struct Outgoing {
    pub(crate) messages: u32,
    pub(crate) awaiting: u32,
    pub(crate) frames: u32,
    pub(crate) timeouts: u32,
    pub(crate) refusals: u32,
    pub(crate) mark: u64,
    pub(crate) frames_sent: u32,
    pub(crate) frames_lost: u32,
}

impl SendSide {
    pub(crate) fn shown(&self, peer: u32) -> Outgoing {
        let entry = &self.peers[peer];
        let frames_sent = entry.next.since(self.first.sequence) as u32;
        let frames_lost = self.carried_by(peer).all_lost();
        let idle = Outgoing { frames_sent, frames_lost, ..Outgoing::default() };
        let Some(active) = entry.active.as_deref() else { return idle };
        let awaiting = self.awaiting.iter(active.awaiting).take(AWAITING_COUNTED).count() as u32;
        let timeouts = PathId::all().map(|path| active.flight(path).backoff).max().unwrap_or(0);
        let messages = active.pending.len() + active.records.len() + active.blocks.len();
        // It moves with whatever is acknowledged, answered, or begun.
        let ends = [active.awaiting.first(), active.pending.front().copied()];
        let [awaited, queued] = ends.map(|end| u64::from(end.unwrap_or(u32::MAX)));
        let mark = u64::from(active.unacked.0) ^ awaited.rotate_left(24) ^ queued.rotate_left(44);
        Outgoing {
            messages: messages as u32 + awaiting,
            awaiting,
            frames: entry.next.since(active.unacked).max(0) as u32,
            timeouts,
            refusals: active.refusals,
            mark,
            ..idle
        }
    }

    /// Messages and one-sided operations that have not ended.
    pub(crate) fn outstanding(&self) -> usize {
        self.messages.len()
    }

    /// Moves with each post and each end of one.
    pub(crate) fn posts(&self) -> u64 {
        // Whatever ends moves other counts by one.
        3 * self.messages.len() as u64
    }

    /// What a peer's paths have carried, but for what was sent by the first while the peer was given no cause to count.
    fn carried_by(&self, peer: u32) -> Carried {
        let before = self.carried.get(&peer).copied().unwrap_or_default();
        let active = self.peers[peer].active.as_deref();
        active.map_or(before, |active| before.with(&active.flights))
    }

    /// One of its paths.
    pub(crate) fn shown_path(&self, peer: u32, path: PathId) -> PathShown {
        let entry: &SendPeer = &self.peers[peer];
        let carried = self.carried_by(peer);
        let sent = if path == PathId::FIRST {
            // All that left, but for what the others took.
            let others = carried.sent[1..].iter().fold(0u32, |all, sent| all.wrapping_add(*sent));
            let frames_sent = entry.next.since(self.first.sequence) as u32;
            frames_sent.wrapping_add(carried.all_lost()).saturating_sub(others)
        } else {
            carried.sent[path.index()]
        };
        PathShown {
            window: entry.whole_window(&self.further, path),
            flight: entry.active.as_deref().map_or(0, |active| active.flight(path).in_flight),
            rtt_us: entry.rtt(&self.further, path).smoothed_us(),
            sent,
            lost: carried.lost[path.index()],
        }
    }
}
