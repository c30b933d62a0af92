//! Pulling (O7): the receiver asks for what was not sent unasked, a bounded number of blocks at a time over all senders.
//! That is also the incast control: no more comes in than was asked for (`PULL-2`).

use alloc::vec::Vec;
use emp_wire::Sequence;

use super::ReceivePath;
use crate::counters::Counter;
use crate::cross::{Control, ToSend};
use crate::limits::PULLS_MAX;
use crate::path::unit::is_long_cut;

/// Long frames of one block: a request takes its sender 1.8 to 2.5 µs, as much as a quarter of what receiving one of them takes.
const BLOCK_LONG_FRAMES: u64 = 5;

/// Blocks of long frames that one message may have under way. Of 1 MB over all senders they leave room for another message's
/// block, or all would wait for a sender that does not answer.
const LONG_BLOCKS_MAX: u32 = 2;

/// What blocks are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
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
    /// It stands in the queue of those that wait for room.
    waits: bool,
}

impl Pulling {
    pub(super) const fn of(start: u64, end: u64) -> Self {
        Self { next: start, end, out: 0, waits: false }
    }

    pub(super) const fn is_over(&self) -> bool {
        self.next >= self.end && self.out == 0
    }

    pub(super) const fn is_under_way(&self) -> bool {
        self.out > 0
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

/// A block that was asked for.
pub(super) struct PullState {
    peer: u32,
    pub(super) puller: Puller,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) fragment: u16,
    pub(super) received: u32,
    /// Sequence number of the block's first frame, known from the first of its frames that came.
    pub(super) first: Option<Sequence>,
}

impl ReceivePath {
    fn pulling_mut(&mut self, puller: Puller) -> Option<&mut Pulling> {
        match puller {
            Puller::Message(index) => Some(&mut self.incoming.at_mut(index)?.pulling),
            Puller::Get(index) => Some(&mut self.fetches.at_mut(index)?.pulling),
        }
    }

    /// Asks for as many blocks of a message or region as it may have under way.
    pub(super) fn pull_more(&mut self, puller: Puller) {
        loop {
            let profile = &self.profile;
            let (most, block) = (profile.pull_blocks.max(1), profile.pull_block_bytes.max(1));
            let bytes_max = profile.pull_bytes_max;
            let (pulling_bytes, full) = (self.pulling_bytes, self.pulls.is_full());
            let long = self.long_cut(puller);
            let most = if long.is_some() { most.min(LONG_BLOCKS_MAX) } else { most };
            let Some(pulling) = self.pulling_mut(puller) else { return };
            let left = pulling.end - pulling.next;
            if left == 0 || pulling.out >= most {
                return;
            }
            let bytes = match long {
                Some(frame) => long_block(left, frame, block),
                None => left.min(u64::from(block)),
            };
            if full || pulling_bytes > 0 && pulling_bytes + bytes > bytes_max {
                // Its turn comes when another block is in.
                return self.wait_to_pull(puller);
            }
            let offset = pulling.next;
            pulling.next += bytes;
            pulling.out += 1;
            self.ask_block(puller, offset, bytes as u32);
        }
    }

    /// Payload bytes of the frames that it comes in, if these are long.
    fn long_cut(&self, puller: Puller) -> Option<u16> {
        let fragment = match puller {
            Puller::Message(index) => self.incoming.at(index).map(|incoming| incoming.fragment),
            Puller::Get(index) => self.fetches.at(index).map(|get| get.fragment),
        };
        fragment.filter(|fragment| is_long_cut(*fragment))
    }

    /// Asks for one block.
    fn ask_block(&mut self, puller: Puller, offset: u64, bytes: u32) {
        let (peer, fragment) = match puller {
            Puller::Message(index) => {
                let incoming = self.incoming.at(index).expect("the caller has it");
                (incoming.peer, incoming.fragment)
            }
            Puller::Get(index) => {
                let get = self.fetches.at(index).expect("the caller has it");
                (get.peer, get.fragment)
            }
        };
        let state = PullState { peer, puller, offset, bytes, fragment, received: 0, first: None };
        let (pull, generation) = self.pulls.insert(state).expect("not full");
        let pull = identifier(pull, generation);
        let control = match puller {
            Puller::Message(index) => {
                let handle = self.incoming.at(index).expect("seen above").handle;
                Control::Pull { handle, offset, bytes, pull }
            }
            Puller::Get(index) => self.get_block(index, offset, bytes, pull),
        };
        self.pulling_bytes += u64::from(bytes);
        self.to_send.push_back(ToSend::Control { peer, control });
        self.counters.count(Counter::PullsSent);
    }

    /// The pull that a peer's block names, if it is still wanted.
    pub(super) fn current_pull(&self, pull: u32, named: u16, peer: u32) -> Option<&PullState> {
        let current = identifier(pull, self.pulls.generation(pull)) == named;
        self.pulls.at(pull).filter(|state| current && state.peer == peer)
    }

    /// All of a block is here.
    pub(super) fn block_complete(&mut self, pull: u32) {
        let Some(state) = self.pulls.remove(pull) else { return };
        self.pulling_bytes -= u64::from(state.bytes);
        if let Some(pulling) = self.pulling_mut(state.puller) {
            pulling.out -= 1;
            if self.pull_queue.is_empty() {
                self.pull_more(state.puller);
            } else {
                // Others wait for room: it has had its turn.
                self.wait_to_pull(state.puller);
            }
            match state.puller {
                Puller::Message(index) => self.advance(index),
                Puller::Get(index) => self.advance_get(index),
            }
        }
        self.serve_pull_queue();
    }

    /// Puts a message or get at the end of the queue of those that wait for room, if there is anything left to ask for.
    fn wait_to_pull(&mut self, puller: Puller) {
        let Some(pulling) = self.pulling_mut(puller) else { return };
        if pulling.next < pulling.end && !core::mem::replace(&mut pulling.waits, true) {
            self.pull_queue.push_back(puller);
        }
    }

    /// Lets those pull that waited for room, in turn, until there is none.
    pub(super) fn serve_pull_queue(&mut self) {
        for _ in 0..self.pull_queue.len() {
            if self.pulling_bytes >= self.profile.pull_bytes_max || self.pulls.is_full() {
                return;
            }
            let Some(puller) = self.pull_queue.pop_front() else { return };
            let Some(pulling) = self.pulling_mut(puller) else { continue };
            if !core::mem::take(&mut pulling.waits) {
                continue;
            }
            let before = pulling.next;
            self.pull_more(puller);
            let stuck = |pulling: &mut Pulling| pulling.waits && pulling.next == before;
            if self.pulling_mut(puller).is_some_and(stuck) {
                // No room for a block of it: it is still the first.
                self.pull_queue.rotate_right(1);
                return;
            }
        }
    }

    /// A message or get is given up, and its pulls with it. Blocks that are under way find another generation.
    pub(super) fn drop_pulls(&mut self, puller: Puller) {
        if self.pulling_mut(puller).is_none_or(|pulling| pulling.out == 0) {
            return;
        }
        let pulls = &self.pulls;
        let own: Vec<u32> = pulls
            .indices()
            .filter(|i| pulls.at(*i).is_some_and(|state| state.puller == puller))
            .collect();
        for pull in own {
            if let Some(state) = self.pulls.remove(pull) {
                self.pulling_bytes -= u64::from(state.bytes);
            }
        }
        if let Some(pulling) = self.pulling_mut(puller) {
            pulling.out = 0;
        }
    }
}

/// Bytes of the next block of long frames of this length, where so many are left, and a block usually has so many: several frames,
/// so that their receiver asks seldom. What would be less than a frame by itself belongs to the block before it.
fn long_block(left: u64, frame: u16, usual: u32) -> u64 {
    let frame = u64::from(frame);
    let block = (BLOCK_LONG_FRAMES * frame).max(usual.into());
    if left < block + frame { left } else { block }
}

/// The name of a pull on the wire: its index, and as much of the generation as fits beside it.
const fn identifier(index: u32, generation: u32) -> u16 {
    (generation as u16).wrapping_mul(PULLS_MAX as u16).wrapping_add(index as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::unit::LONG_FRAGMENT_BYTES;

    #[test]
    fn blocks_of_long_frames_leave_no_crumbs() {
        let frame = u64::from(LONG_FRAGMENT_BYTES);
        assert_eq!(long_block(1, LONG_FRAGMENT_BYTES, 60 << 10), 1);
        assert_eq!(long_block(5 * frame, LONG_FRAGMENT_BYTES, 60 << 10), 5 * frame);
        assert_eq!(long_block(6 * frame - 1, LONG_FRAGMENT_BYTES, 60 << 10), 6 * frame - 1);
        assert_eq!(long_block(6 * frame, LONG_FRAGMENT_BYTES, 60 << 10), 5 * frame);
        // A profile whose blocks are longer keeps them.
        assert_eq!(long_block(u64::MAX, LONG_FRAGMENT_BYTES, 4 << 20), 4 << 20);
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
