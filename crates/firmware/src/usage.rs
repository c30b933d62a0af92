//! What a node holds now, against the bounds of [`limits`](crate::limits): for tests that look whether those hold.

use alloc::vec::Vec;

use crate::engine::Firmware;
use crate::limits::{
    ASSEMBLIES_MAX, DISCOVERIES_MAX, EVENTS_MAX, FURTHER_PATHS_MAX, PEERS_MAX, REPLIES_MAX,
    SEEKS_MAX, SIZE_SEARCHES_MAX,
};

/// A table, queue or pool of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Holding {
    /// Its name.
    pub name: &'static str,
    /// Entries, or slots, in use now; of what there is for each peer, the most that one has.
    pub held: usize,
    /// Most that there may be.
    pub limit: usize,
    /// A node that has nothing to do holds none.
    pub passing: bool,
}

impl Holding {
    pub(crate) const fn new(name: &'static str, held: usize, limit: usize) -> Self {
        Self { name, held, limit, passing: true }
    }

    /// Something that stays when nothing is to be done.
    const fn lasting(name: &'static str, held: usize, limit: usize) -> Self {
        Self { name, held, limit, passing: false }
    }
}

impl Firmware {
    /// Everything that a node may hold, how much of it there is, and how much there may be. Looks through all peers.
    pub fn holdings(&self) -> Vec<Holding> {
        let mut all = Vec::with_capacity(24);
        all.extend(self.send.holdings());
        all.extend(self.receive.holdings());
        all.extend([
            Holding::new("events", self.events.len(), EVENTS_MAX),
            Holding::new("contacts", self.routes.contacts.len(), REPLIES_MAX),
            Holding::new("searches", self.routes.searches.len(), DISCOVERIES_MAX),
            Holding::new("searches for paths", self.peers.table.searches(), SEEKS_MAX),
            Holding::new("searches for lengths", self.sizes.len(), SIZE_SEARCHES_MAX),
            Holding::lasting("peers", self.peers(), PEERS_MAX),
            Holding::lasting("peers with paths", self.peers.table.len(), FURTHER_PATHS_MAX),
            // A frame of which a slice was lost for good keeps its place until others need it.
            Holding::lasting("assemblies", self.assembly.len(), ASSEMBLIES_MAX),
        ]);
        all
    }
}
