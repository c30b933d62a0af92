//! Pulling (O7): the receiver asks for what was not sent unasked, a bounded number of blocks at a time over all senders.
//! That is also the incast control: no more comes in than was asked for.

use alloc::vec::Vec;
use emp_wire::{BlockWord, Header, Sequence};

use super::ReceivePath;
use super::bookkeeping::Verdict;
use crate::counters::Counter;
use crate::cross::{Control, ToSend};
use crate::limits::PULLS_MAX;
use crate::memory::HostMemory;

/// A block that was asked for.
pub(super) struct PullState {
    peer: u32,
    /// The message.
    incoming: u32,
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
                incoming: index,
                offset: incoming.pull_next,
                bytes: bytes as u32,
                fragment: incoming.fragment,
                received: 0,
                first: None,
            };
            let (index, generation) = self.pulls.insert(state).expect("not full");
            let control = Control::Pull {
                handle: incoming.handle,
                offset: incoming.pull_next,
                bytes: bytes as u32,
                pull: identifier(index, generation),
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
        let pull = u32::from(word.pull % PULLS_MAX as u16);
        let current = identifier(pull, self.pulls.generation(pull)) == word.pull;
        let state = self.pulls.at_mut(pull).filter(|state| current && state.peer == peer);
        let Some(state) = state else {
            // Its message was given up: nobody wants this any more, nor that it comes again.
            self.counters.count(Counter::DropBadHandle);
            return Verdict::Taken;
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
        self.place(incoming, offset, payload, memory);
        if complete {
            self.block_complete(pull);
        }
        Verdict::Taken
    }

    fn block_complete(&mut self, pull: u32) {
        let Some(state) = self.pulls.remove(pull) else { return };
        self.pulling_bytes -= u64::from(state.bytes);
        if let Some(incoming) = self.incoming.at_mut(state.incoming) {
            incoming.pulls_out -= 1;
            self.pull_more(state.incoming);
            self.advance(state.incoming);
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

    /// A message is given up, and its pulls with it. Blocks that are under way find another generation.
    pub(super) fn drop_pulls(&mut self, index: u32) {
        if self.incoming.at(index).is_none_or(|incoming| incoming.pulls_out == 0) {
            return;
        }
        let pulls = &self.pulls;
        let own: Vec<u32> = pulls
            .indices()
            .filter(|i| pulls.at(*i).is_some_and(|state| state.incoming == index))
            .collect();
        for pull in own {
            if let Some(state) = self.pulls.remove(pull) {
                self.pulling_bytes -= u64::from(state.bytes);
            }
        }
        if let Some(incoming) = self.incoming.at_mut(index) {
            incoming.pulls_out = 0;
        }
    }
}

/// The name of a pull on the wire: its index, and as much of the generation as fits beside it.
const fn identifier(index: u32, generation: u32) -> u16 {
    (generation as u16).wrapping_mul(PULLS_MAX as u16).wrapping_add(index as u16)
}
