//! The blocks that were asked for and are not here yet, by the identifiers that frames name them by (`PULL-3`).

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use emp_wire::{Flags, Header, Sequence};
use hashbrown::HashMap;

use super::pulling::Puller;
use crate::limits::{POOL_SHARE_PARTS, PULLS_MAX, PULLS_OF_PEER_MAX};

/// A block that was asked for.
pub(super) struct PullState {
    pub(super) peer: u32,
    pub(super) puller: Puller,
    pub(super) offset: u64,
    pub(super) bytes: u32,
    pub(super) received: u32,
    /// Sequence number of the block's first frame, and payload bytes of each but the last: known from the first of its frames that came.
    pub(super) train: Option<(Sequence, u16)>,
}

impl PullState {
    /// Payload bytes of each of its frames but the last, by the first of them that comes (`PULL-3`). `None`: it is no frame of this block.
    #[inline]
    pub(super) fn fragment(&self, header: &Header, place: u16) -> Option<u16> {
        if !header.flags.has(Flags::LAST) {
            return Some(header.length);
        }
        let before = self.bytes.checked_sub(header.length.into())?;
        let fragment = match u32::from(place) {
            0 => header.length,
            frames => u16::try_from(before / frames).ok()?,
        };
        let ends = u32::from(fragment) * u32::from(place) == before;
        Some(fragment).filter(|fragment| ends && *fragment >= header.length)
    }
}

/// All of them.
#[derive(Default)]
pub(super) struct Pulls {
    by_name: HashMap<u16, PullState>,
    /// Of each message or get.
    of: BTreeSet<(Puller, u16)>,
    /// Identifiers are given out in turn, so one is free for as long as can be before it is used again.
    next: u16,
}

impl Pulls {
    pub(super) fn len(&self) -> usize {
        self.by_name.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= PULLS_MAX
    }

    /// Blocks that one sender may have under way: those of senders that do not answer leave some to others (`SHARE-1`).
    pub(super) fn share(&self) -> usize {
        let free = PULLS_MAX - self.len().min(PULLS_MAX);
        (free / POOL_SHARE_PARTS as usize).min(PULLS_OF_PEER_MAX)
    }

    /// Adds a block and gives its identifier. There is room for it.
    pub(super) fn add(&mut self, state: PullState) -> u16 {
        while self.by_name.contains_key(&self.next) {
            self.next = self.next.wrapping_add(1);
        }
        let name = self.next;
        self.next = name.wrapping_add(1);
        self.of.insert((state.puller, name));
        self.by_name.insert(name, state);
        name
    }

    pub(super) fn get(&self, name: u16) -> Option<&PullState> {
        self.by_name.get(&name)
    }

    pub(super) fn get_mut(&mut self, name: u16) -> Option<&mut PullState> {
        self.by_name.get_mut(&name)
    }

    pub(super) fn remove(&mut self, name: u16) -> Option<PullState> {
        let state = self.by_name.remove(&name)?;
        self.of.remove(&(state.puller, name));
        Some(state)
    }

    /// Those of a message or get.
    pub(super) fn of(&self, puller: Puller) -> Vec<u16> {
        self.of.range((puller, 0)..=(puller, u16::MAX)).map(|(_, name)| *name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(puller: Puller) -> PullState {
        PullState { peer: 1, puller, offset: 0, bytes: 9, received: 0, train: None }
    }

    #[test]
    fn identifiers_are_used_again_last_and_never_while_their_block_is_missing() {
        let mut pulls = Pulls::default();
        let (missing, other) = (Puller::Message(4), Puller::Get(4));
        let kept = [pulls.add(block(missing)), pulls.add(block(missing))];
        let first = pulls.add(block(other));
        assert!(pulls.remove(first).is_some() && pulls.remove(first).is_none());
        for round in 0..3 * u32::from(u16::MAX) {
            let name = pulls.add(block(other));
            assert!(!kept.contains(&name) && (name != first || round + 2 >= u16::MAX.into()));
            assert_eq!(pulls.of(other), [name]);
            pulls.remove(name);
        }
        assert_eq!((pulls.of(missing), pulls.len()), (kept.to_vec(), 2));
    }
}
