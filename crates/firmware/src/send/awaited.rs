//! Which peers owe us a `done`: whoever looks after peers finds them without a walk over all that is sent.

use alloc::vec::Vec;

use super::SendPath;
use crate::slots::note_look;

/// Peers that owed us one when this was last looked through, or since.
#[derive(Default)]
pub(super) struct Awaited {
    list: Vec<u32>,
    /// Who stands in the list, one bit each.
    listed: Vec<u64>,
}

impl Awaited {
    fn add(&mut self, peer: u32) {
        let (word, bit) = (peer as usize / 64, 1 << (peer % 64));
        if word >= self.listed.len() {
            self.listed.resize(word + 1, 0);
        }
        if self.listed[word] & bit == 0 {
            self.listed[word] |= bit;
            self.list.push(peer);
        }
    }

    /// Takes those off the list of whom that is not so.
    fn retain(&mut self, owes: impl Fn(u32) -> bool) {
        let listed = &mut self.listed;
        self.list.retain(|peer| {
            note_look();
            let stays = owes(*peer);
            if !stays {
                listed[*peer as usize / 64] &= !(1 << (peer % 64));
            }
            stays
        });
    }
}

impl SendPath {
    /// A message began to wait for a `done` of this peer.
    pub(super) fn note_awaited(&mut self, peer: u32) {
        self.awaits = true;
        self.awaited.add(peer);
    }

    /// Peers that owe us a `done`.
    pub(crate) fn peers_awaited(&mut self) -> &[u32] {
        let Self { awaited, peers, .. } = self;
        awaited
            .retain(|peer| peers[peer].active.as_deref().is_some_and(|a| !a.awaiting.is_empty()));
        &self.awaited.list
    }
}
