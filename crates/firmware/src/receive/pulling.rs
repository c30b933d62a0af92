//! Pulling (O7): the receiver asks for what was not sent unasked, a bounded number of blocks at a time over all senders.
//! That is also the incast control: no more comes in than was asked for (`PULL-2`).

use super::ReceiveSide;
use super::pulls::PullState;
use crate::counters::Counter;
use crate::cross::{Control, ToSend};
use crate::limits::INTERFACES_MAX;
use crate::memory::HostMemory;
use crate::path::unit::is_long_cut;
use crate::time::Time;

/// Long frames of one block: a request takes its sender 1.8 to 2.5 µs, as much as a quarter of what receiving one of them takes.
const BLOCK_LONG_FRAMES: u64 = 5;

/// Blocks of long frames that one message may have under way. Of 1 MB over all senders they leave room for another message's
/// block, or all would wait for a sender that does not answer.
const LONG_BLOCKS_MAX: u32 = 2;

/// Where a sender is reached over several interfaces: frames of the usual length of one block, and long ones. A slow interface holds up the numbers
/// behind a block for as long as that takes it, and the last block of a message is waited for by all others.
const LANE_FRAMES: u32 = 16;
const LANE_LONG_FRAMES: u64 = 2;

/// Blocks that one message may have under way by each interface: one that leaves, and as many more as are there in the round trip in which the
/// next are asked for.
const LANE_BLOCKS: u32 = 6;

/// What blocks are asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Puller {
    /// An incoming message.
    Message(u32),
    /// A get of this node.
    Get(u32),
}

/// A part of a message or region that is brought here block by block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pulling {
    /// Next byte to ask for, and the end.
    next: u64,
    end: u64,
    /// Blocks under way.
    out: u32,
}

impl Pulling {
    pub(super) const fn of(start: u64, end: u64) -> Self {
        Self { next: start, end, out: 0 }
    }

    pub(super) const fn is_over(&self) -> bool {
        self.next >= self.end && self.out == 0
    }

    /// What is still to be asked for: the first byte, and how many.
    pub(super) const fn left(&self) -> (u64, u64) {
        (self.next, self.end - self.next)
    }

    /// So many bytes have come without being asked for.
    pub(super) fn skip(&mut self, bytes: u64) {
        self.next += bytes;
    }
}

impl ReceiveSide {
    /// From whom it comes, payload bytes of its frames, and what is asked for of it.
    fn pulled(&self, puller: Puller) -> Option<(u32, u16, &Pulling)> {
        match puller {
            Puller::Message(index) => {
                let incoming = self.incoming.at(index)?;
                Some((incoming.peer, incoming.fragment, &incoming.pulling))
            }
            Puller::Get(index) => {
                let get = self.fetches.at(index)?;
                Some((get.peer, get.fragment, &get.pulling))
            }
        }
    }

    /// Paths to a peer lead over so many interfaces: what it is asked for is spread over them (`PATH-13`).
    pub(crate) fn set_lanes(&mut self, peer: u32, lanes: u32) {
        if lanes > 1 {
            self.lanes.insert(peer, lanes.min(INTERFACES_MAX as u32));
        } else if !self.lanes.is_empty() {
            self.lanes.remove(&peer);
        }
    }

    fn pulling_mut(&mut self, puller: Puller) -> Option<&mut Pulling> {
        match puller {
            Puller::Message(index) => Some(&mut self.incoming.at_mut(index)?.pulling),
            Puller::Get(index) => Some(&mut self.fetches.at_mut(index)?.pulling),
        }
    }

    /// Has the rest of a message or region asked for, when its turn comes.
    pub(super) fn pull_more(&mut self, puller: Puller) {
        let Some((peer, _, pulling)) = self.pulled(puller) else { return };
        let wanted = pulling.left();
        self.credit.want(peer, puller, wanted);
        self.serve_pulls();
    }

    /// Asks for blocks as long as there is room, of those whose turn it is (`CREDIT-1`).
    pub(super) fn serve_pulls(&mut self) {
        while self.serve_pull() || self.credit.take_back() {}
        self.credit.look_later();
    }

    /// Asks for the next block. False: there is none, or no room for it.
    fn serve_pull(&mut self) -> bool {
        let next = self.credit.turns().find_map(|puller| Some((puller, self.next_block(puller)?)));
        let Some((puller, bytes)) = next else { return false };
        if !self.credit.has_room(bytes, self.profile.pull_bytes_max) || self.pulls.is_full() {
            return false;
        }
        let Some(pulling) = self.pulling_mut(puller) else { return false };
        let offset = pulling.next;
        pulling.next += bytes;
        pulling.out += 1;
        self.credit.ask(puller, bytes);
        self.ask_block(puller, offset, bytes as u32);
        true
    }

    /// Bytes of its next block, if it may have another under way.
    fn next_block(&self, puller: Puller) -> Option<u64> {
        let (most, block) = (self.profile.pull_blocks.max(1), self.profile.pull_block_bytes.max(1));
        let (peer, fragment, pulling) = self.pulled(puller)?;
        let long = is_long_cut(fragment);
        let most = if long { most.min(LONG_BLOCKS_MAX) } else { most };
        let (most, block, long_frames) = match self.lanes.get(&peer) {
            None => (most, block, BLOCK_LONG_FRAMES),
            Some(lanes) => (lanes * LANE_BLOCKS, lane_block(block, fragment), LANE_LONG_FRAMES),
        };
        let (_, left) = pulling.left();
        if left == 0 || pulling.out >= most {
            return None;
        }
        let (share, out, blocks) = self.credit.share(peer, self.profile.pull_bytes_max);
        if blocks >= self.pulls.share() {
            return None;
        }
        let bytes = if long {
            long_block(left, fragment, (block, long_frames), share)
        } else {
            left.min(u64::from(block))
        };
        (out == 0 || out + bytes <= share).then_some(bytes)
    }

    /// What time it is, for what is asked for next.
    #[inline]
    pub(crate) fn set_time(&mut self, now: Time) {
        self.credit.set_time(now);
    }

    /// A sender may not have answered for too long by now.
    pub(crate) fn look_for_silence(&mut self, now: Time) {
        self.credit.set_time(now);
        if self.credit.due().is_some_and(|due| due <= now) {
            self.serve_pulls();
        }
    }

    /// Asks for one block.
    fn ask_block(&mut self, puller: Puller, offset: u64, bytes: u32) {
        let (peer, ..) = self.pulled(puller).expect("the caller has it");
        let state = PullState { peer, puller, offset, bytes, received: 0, train: None };
        let pull = self.pulls.add(state);
        let control = match puller {
            Puller::Message(index) => {
                let handle = self.incoming.at(index).expect("seen above").handle;
                Control::Pull { handle, offset, bytes, pull }
            }
            Puller::Get(index) => self.get_block(index, offset, bytes, pull),
        };
        self.to_send.push_back(ToSend::Control { peer, control });
        self.counters.count(Counter::PullsSent);
    }

    /// The pull that a peer's block names, if it is still wanted.
    pub(super) fn current_pull(&self, named: u16, peer: u32) -> Option<&PullState> {
        self.pulls.get(named).filter(|state| state.peer == peer)
    }

    /// All of a block is here.
    pub(super) fn block_complete(&mut self, pull: u16, memory: &mut impl HostMemory) {
        let Some(state) = self.pulls.remove(pull) else { return };
        self.credit.end(state.peer, state.bytes.into());
        if let Some(pulling) = self.pulling_mut(state.puller) {
            pulling.out -= 1;
            match state.puller {
                Puller::Message(index) => self.advance(index, memory),
                Puller::Get(index) => self.advance_get(index),
            }
        }
        self.serve_pulls();
    }

    /// A message or get is given up, and its pulls with it. Blocks that are under way find none of their identifier.
    pub(super) fn drop_pulls(&mut self, puller: Puller) {
        self.credit.forget(puller);
        if self.pulling_mut(puller).is_none_or(|pulling| pulling.out == 0) {
            return;
        }
        for pull in self.pulls.of(puller) {
            if let Some(state) = self.pulls.remove(pull) {
                self.credit.end(state.peer, state.bytes.into());
            }
        }
        if let Some(pulling) = self.pulling_mut(puller) {
            pulling.out = 0;
        }
    }
}

/// Bytes of a block of frames of the usual length where several interfaces carry a part of the message each.
fn lane_block(usual: u32, fragment: u16) -> u32 {
    usual.min((LANE_FRAMES * u32::from(fragment)).max(1))
}

/// Bytes of the next block of long frames of this length, where so many are left, and a block usually has so many: several frames,
/// so that their receiver asks seldom, as far as its sender's share goes. What would be less than a frame by itself belongs to the
/// block before it.
fn long_block(left: u64, frame: u16, (usual, most): (u32, u64), share: u64) -> u64 {
    let frame = u64::from(frame);
    let frames = (share / frame).clamp(1, most);
    let block = (frames * frame).max(usual.into());
    if left < block + frame { left } else { block }
}

#[cfg(test)]
mod tests {
    use emp_wire::{Epoch, Flags, Header, Kind, Sequence};

    use super::*;
    use crate::path::unit::LONG_FRAGMENT_BYTES;

    /// Whichever of a block's frames comes first says how long they are, if it can be one of this block.
    #[test]
    fn a_frame_says_how_its_block_is_cut() {
        let puller = Puller::Message(0);
        let block =
            PullState { peer: 1, puller, offset: 0, bytes: 10_000, received: 0, train: None };
        let of = |length, last, place| {
            let flags = Flags(0).with_if(last, Flags::LAST);
            let header = Header {
                kind: Kind::Block,
                flags,
                length,
                destination_tag: 1,
                destination_epoch: 1,
                source_tag: 1,
                source_epoch: Epoch::new(1),
                sequence: Sequence(0),
                acknowledge: Sequence(0),
                word: 0,
            };
            block.fragment(&header, place)
        };
        for place in 0..6 {
            assert_eq!(of(1_440, false, place), Some(1_440));
        }
        assert_eq!(of(1_360, true, 6), Some(1_440));
        assert_eq!(of(1_440, true, 6), None, "six equal frames before it are not 8,560 bytes");
        assert_eq!(of(10_000, true, 0), Some(10_000));
        assert_eq!(of(9_999, true, 0), None, "it ends before the block does");
        assert_eq!(of(6_000, true, 1), None, "it is longer than the one before it");
        assert_eq!(of(10_001, true, 0), None);
        assert_eq!(of(1_000, true, u16::MAX), None);
    }

    #[test]
    fn blocks_of_long_frames_leave_no_crumbs() {
        let frame = u64::from(LONG_FRAGMENT_BYTES);
        assert_eq!(long_block(1, LONG_FRAGMENT_BYTES, (60 << 10, 5), u64::MAX), 1);
        assert_eq!(long_block(5 * frame, LONG_FRAGMENT_BYTES, (60 << 10, 5), u64::MAX), 5 * frame);
        assert_eq!(
            long_block(6 * frame - 1, LONG_FRAGMENT_BYTES, (60 << 10, 5), u64::MAX),
            6 * frame - 1
        );
        assert_eq!(long_block(6 * frame, LONG_FRAGMENT_BYTES, (60 << 10, 5), u64::MAX), 5 * frame);
        // A profile whose blocks are longer keeps them.
        assert_eq!(long_block(u64::MAX, LONG_FRAGMENT_BYTES, (4 << 20, 5), u64::MAX), 4 << 20);
    }

    /// The last block of a message may be nearly a frame longer, and so may the other's only one.
    #[test]
    fn one_message_leaves_room_for_a_block_of_another() {
        let frame = u64::from(LONG_FRAGMENT_BYTES);
        let (block, last) = (BLOCK_LONG_FRAMES * frame, (BLOCK_LONG_FRAMES + 1) * frame - 1);
        let all = (u64::from(LONG_BLOCKS_MAX) - 1) * block + last;
        assert!(all + last <= crate::Profile::DEFAULT.pull_bytes_max);
    }
}
