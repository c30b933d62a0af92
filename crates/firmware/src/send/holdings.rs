//! What the send side holds now ([`Firmware::holdings`](crate::Firmware::holdings)).

use super::SendSide;
use crate::counters::Holding;
use crate::limits::{BLOCKS_QUEUED_MAX, FURTHER_PATHS_MAX, SPARE_MAX, WINDOW_FRAMES};

impl SendSide {
    pub(crate) fn holdings(&self) -> [Holding; 8] {
        let (mut blocks, mut flying) = (0, 0);
        let actives = (0..self.peers.len()).filter_map(|peer| self.peers[peer].active.as_deref());
        for active in actives {
            blocks = blocks.max(active.blocks.len());
            flying = flying.max(active.train_next.since(active.unacked).max(0) as usize);
        }
        let (free, slots) = self.pool.slots();
        [
            Holding::new("sends", self.messages.len(), self.profile.operations_max),
            Holding::new("ended sends", self.completions.len(), self.profile.completions_max()),
            Holding::new("pool slots of sends", slots - free, slots),
            Holding::new("frames under way", flying, WINDOW_FRAMES as usize),
            Holding::new("queued controls", self.controls, self.profile.controls_max()),
            Holding::new("queued blocks", blocks, BLOCKS_QUEUED_MAX),
            Holding::lasting("peers with windows", self.further.len(), FURTHER_PATHS_MAX),
            Holding::lasting("spare windows", self.spare.len(), SPARE_MAX),
        ]
    }
}
