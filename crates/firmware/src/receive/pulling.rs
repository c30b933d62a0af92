//! Pulling (O7): the receiver asks for what was not sent unasked, a bounded number of blocks at a time over all senders.
//! That is also the incast control: no more comes in than was asked for.

use alloc::vec::Vec;
use emp_wire::{BlockWord, Header, Sequence};

use super::bookkeeping::Verdict;
use super::{ReceivePath, Slots};
use crate::counters::Counter;
use crate::cross::{Control, ToSend};
use crate::memory::HostMemory;

/// A block that was asked for.
pub(super) struct PullState {
    peer: u32,
    /// The message, or `None` if that was given up: the block is let in and thrown away.
    incoming: Option<u32>,
    offset: u64,
    bytes: u32,
    fragment: u16,
    received: u32,
    /// Sequence number of the block's first frame, known from the first of its frames that came.
    first: Option<Sequence>,
}

impl ReceivePath {
    /// Asks for as many blocks of a message as it may have under way.
    pub(super) fn pull_more(&mut self, index: u32) {
        loop {
            let profile = &self.profile;
            let Some(incoming) = self.incoming.at_mut(index) else { return };
            let left = incoming.pull_end - incoming.pull_next;
            if left == 0 || incoming.pulls_out >= profile.pull_blocks.max(1) {
                return;
            }
            let bytes = left.min(u64::from(profile.pull_block_bytes.max(1)));
            let crowded = self.pulling_bytes > 0
                && self.pulling_bytes + bytes > profile.pull_bytes_max
                || self.pulls.is_full();
            if crowded {
                // Its turn comes when another block is in.
                if !core::mem::replace(&mut incoming.waits_to_pull, true) {
                    self.pull_queue.push_back(index);
                }
                return;
            }
            let state = PullState {
                peer: incoming.peer,
                incoming: Some(index),
                offset: incoming.pull_next,
                bytes: bytes as u32,
                fragment: incoming.fragment,
                received: 0,
                first: None,
            };
            let (pull, _) = self.pulls.insert(state).expect("not full");
            let control = Control::Pull {
                handle: incoming.handle,
                offset: incoming.pull_next,
                bytes: bytes as u32,
                pull: pull as u16,
            };
            incoming.pull_next += bytes;
            incoming.pulls_out += 1;
            self.pulling_bytes += bytes;
            self.to_send.push_back(ToSend::Control { peer: incoming.peer, control });
            self.counters.count(Counter::PullsSent);
        }
    }

    /// A frame of a block.
    pub(super) fn on_block(
        &mut self,
        peer: u32,
        header: &Header,
        word: BlockWord,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Verdict {
        let pull = u32::from(word.pull);
        let Some(state) = self.pulls.at_mut(pull).filter(|state| state.peer == peer) else {
            return Verdict::Dropped(Counter::DropBadHandle);
        };
        let start = u64::from(word.index) * u64::from(state.fragment);
        let wanted = u64::from(state.fragment).min(u64::from(state.bytes).saturating_sub(start));
        let first = header.sequence.minus(word.index.into());
        if wanted == 0
            || payload.len() as u64 != wanted
            || state.first.is_some_and(|known| known != first)
        {
            return Verdict::Dropped(Counter::DropBadPlace);
        }
        state.first = Some(first);
        state.received += payload.len() as u32;
        let complete = state.received == state.bytes;
        let (incoming, offset) = (state.incoming, state.offset + start);
        if let Some(index) = incoming {
            self.place(index, offset, payload, memory);
        }
        if complete {
            self.block_complete(pull);
        }
        Verdict::Taken
    }

    fn block_complete(&mut self, pull: u32) {
        let Some(state) = self.pulls.remove(pull) else { return };
        self.pulling_bytes -= u64::from(state.bytes);
        if let Some(index) = state.incoming
            && let Some(incoming) = self.incoming.at_mut(index)
        {
            incoming.pulls_out -= 1;
            self.pull_more(index);
            self.advance(index);
        }
        self.serve_pull_queue();
    }

    /// Lets messages pull that waited for room.
    pub(super) fn serve_pull_queue(&mut self) {
        for _ in 0..self.pull_queue.len() {
            if self.pulling_bytes >= self.profile.pull_bytes_max || self.pulls.is_full() {
                return;
            }
            let Some(index) = self.pull_queue.pop_front() else { return };
            if let Some(incoming) = self.incoming.at_mut(index)
                && core::mem::take(&mut incoming.waits_to_pull)
            {
                self.pull_more(index);
            }
        }
    }

    /// The message of some pulls is given up. Their identifiers stay taken until the blocks are in (or the peer is
    /// lost): a block that is under way must not land in another message.
    pub(super) fn orphan_pulls(&mut self, index: u32) {
        if self.incoming.at(index).is_none_or(|incoming| incoming.pulls_out == 0) {
            return;
        }
        let own: Vec<u32> = self.pulls_where(|state| state.incoming == Some(index));
        for pull in own {
            self.pulls.at_mut(pull).expect("listed").incoming = None;
        }
    }

    /// A peer is lost: its blocks will not come.
    pub(super) fn drop_pulls_of(&mut self, peer: u32) {
        for pull in self.pulls_where(|state| state.peer == peer) {
            if let Some(state) = self.pulls.remove(pull) {
                self.pulling_bytes -= u64::from(state.bytes);
            }
        }
        self.serve_pull_queue();
    }

    fn pulls_where(&self, wanted: impl Fn(&PullState) -> bool) -> Vec<u32> {
        let pulls: &Slots<PullState> = &self.pulls;
        pulls.indices().filter(|i| pulls.at(*i).is_some_and(&wanted)).collect()
    }
}
