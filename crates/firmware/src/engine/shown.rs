//! What a node shows of itself and its peers to whoever looks from outside, to find out what holds it up. Pure getters: a host asks now and
//! then, off the way of messages.

use emp_wire::{Epoch, NodeId};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::link::LinkIndex;
use crate::pair::{mark, milliseconds};
use crate::path::{PathId, PathShown};
use crate::time::{Span, Time};

/// Since when something has not moved is found out by whoever asks twice: numbers that are the same mean that nothing has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerShown {
    /// Its generation; 0: not known.
    pub epoch: u32,
    /// This node's generation towards it: the next each time that this node gives it up. 0: it is not known.
    pub own_epoch: u32,
    /// It is being looked for.
    pub sought: bool,
    /// It was met, and not given up since.
    pub met: bool,
    /// When a frame last came from it; zero if none ever did.
    pub heard: Time,
    /// Messages, one-sided operations and blocks to it that have not ended, as far as they are counted.
    pub out_messages: u32,
    /// Of these, sent and acknowledged, 64 at most: they wait for its program.
    pub out_awaiting: u32,
    /// Frames to it that are not acknowledged.
    pub out_frames: u32,
    /// Runs of the timer since one last was.
    pub out_timeouts: u32,
    /// Times that it had no room, since it last had.
    pub out_refusals: u32,
    /// Moves with whatever is acknowledged, answered or begun.
    pub out_mark: u64,
    /// Messages and answers from it that arrive, or wait for a receive.
    pub in_messages: u32,
    /// Blocks of such that were asked for and are not wholly here.
    pub in_pulls: u32,
    /// Moves with whatever comes from it.
    pub in_mark: u64,
    /// Frames sent to it for the first time, modulo 2³².
    pub frames_sent: u32,
    /// Frames to it that were found lost, and sent again.
    pub frames_lost: u32,
    /// Bytes that it lets this node send unasked; `u32::MAX`: as many as the window has.
    pub granted: u32,
}

impl PeerShown {
    /// Something is under way to it or from it.
    pub const fn is_active(&self) -> bool {
        self.sought || self.out_messages > 0 || self.out_frames > 0 || self.in_messages > 0
    }
}

impl Firmware {
    /// The node's peers are numbered from 0 to [`peers`](Self::peers): who has this number, unless it is this node itself.
    pub fn peer_node(&self, number: usize) -> Option<NodeId> {
        let index = u32::try_from(number).ok().filter(|index| *index < self.peers.len())?;
        let node = self.peers[index].node;
        (node != self.peers.own).then_some(node)
    }

    /// A peer's number.
    pub fn peer_number(&self, node: NodeId) -> Option<usize> {
        self.peers.peek(node).map(|peer| peer as usize)
    }

    /// True if something may be under way to the peer of this number or from it, or a frame came from it within so long. Cheap.
    pub fn is_busy(&self, now: Time, number: usize, within: Span) -> bool {
        let Ok(peer) = u32::try_from(number) else { return false };
        if peer >= self.peers.len() {
            return false;
        }
        let entry = &self.peers[peer];
        let age_ms = milliseconds(now).wrapping_sub(entry.heard_ms());
        self.send.is_active(peer)
            || entry.heard_ms() != 0 && u64::from(age_ms) * 1_000_000 < within.0
            || self.receive.holds(peer)
    }

    /// How things stand with a peer.
    pub fn shown(&self, now: Time, node: NodeId) -> PeerShown {
        let Some(peer) = self.peers.peek(node) else { return PeerShown::default() };
        let entry = &self.peers[peer];
        let (out, back) = (self.send.shown(peer), self.receive.shown(peer));
        let age = Span::ms(milliseconds(now).wrapping_sub(entry.heard_ms()).into());
        let heard = Time(now.0.saturating_sub(age.0));
        PeerShown {
            epoch: entry.remote_epoch.0,
            own_epoch: entry.local_epoch.0,
            sought: self.routes.searches.contains(peer),
            met: entry.remote_epoch != Epoch::UNKNOWN && !entry.has(mark::LOST),
            heard: if entry.heard_ms() == 0 { Time(0) } else { heard },
            out_messages: out.messages,
            out_awaiting: out.awaiting,
            out_frames: out.frames,
            out_timeouts: out.timeouts,
            out_refusals: out.refusals,
            out_mark: out.mark,
            in_messages: back.messages,
            in_pulls: back.pulls,
            in_mark: back.mark,
            frames_sent: out.frames_sent,
            frames_lost: out.frames_lost,
            granted: u32::try_from(self.send.granted(now, peer)).unwrap_or(u32::MAX),
        }
    }

    /// How the path to a peer over one of the links fares. All zero: there is none.
    pub fn shown_path(&self, node: NodeId, link: LinkIndex) -> PathShown {
        let found = self.peers.peek(node).and_then(|peer| {
            let paths = self.peers.paths(peer);
            let by = |(path, (by, _)): (PathId, _)| (by == link).then_some(path);
            Some((peer, paths.each().find_map(by)?))
        });
        let Some((peer, path)) = found else { return PathShown::default() };
        self.send.shown_path(peer, path)
    }

    /// Receives that have no message yet, in post order by endpoint, at most so many of each: from whom ([`NodeId::ANY`]: anyone), and their
    /// number among all posts.
    pub fn waiting_receives(&self, most: usize, each: impl FnMut(NodeId, u64)) {
        self.receive.waiting_receives(most, each);
    }

    /// Messages that wait for a receive, in their senders' order by endpoint, at most so many of each: from whom, and a name that no other has.
    pub fn waiting_messages(&self, most: usize, mut each: impl FnMut(NodeId, u64)) {
        self.receive.waiting_messages(most, |peer, name| each(self.peers[peer].node, name));
    }

    /// Sends and one-sided operations that have not ended, receives likewise, and messages that are here or arrive.
    pub fn outstanding(&self) -> (usize, usize, usize) {
        let (receives, messages) = self.receive.outstanding();
        (self.send.outstanding(), receives, messages)
    }

    /// Moves with whatever is posted, sent, received or lost.
    pub fn activity(&self) -> u64 {
        let of_send = [Counter::FramesSent, Counter::FramesResent, Counter::MessagesSent];
        let of_receive = [Counter::FramesReceived, Counter::MessagesReceived];
        let sent: u64 = of_send.map(|counter| self.send.counters.get(counter)).iter().sum();
        let got: u64 = of_receive.map(|counter| self.receive.counters.get(counter)).iter().sum();
        let own = [
            Counter::FramesReceived,
            Counter::PeersLost,
            Counter::PeersFound,
            Counter::Relayed,
            Counter::SearchesRelayed,
            Counter::DropRelayFull,
        ];
        let own: u64 = own.map(|counter| self.counters.get(counter)).iter().sum();
        let posts = self.receive.posts() + self.send.posts();
        sent.wrapping_add(got).wrapping_add(own).wrapping_add(posts)
    }
}
