//! What the receive side holds now ([`Firmware::holdings`](crate::Firmware::holdings)).

use super::ReceiveSide;
use crate::counters::Holding;
use crate::limits::{
    EARLY_MAX, ENDPOINTS_MAX, GETS_MAX, GRANTED_MAX, NOT_READY_MAX, NOTIFICATIONS_MAX, PULLS_MAX,
    WITHOUT_ENDPOINT_MAX,
};

impl ReceiveSide {
    pub(crate) fn holdings(&self) -> [Holding; 14] {
        let early = (0..self.peers.len()).map(|peer| usize::from(self.peers[peer].early_count));
        let ((free, slots), cells) = (self.pool.slots(), self.pool.cells());
        [
            Holding::new("receives", self.posted.len(), self.profile.operations_max),
            Holding::new("ended receives", self.completions.len(), self.profile.completions_max()),
            Holding::new("incoming messages", self.incoming.len(), self.profile.incoming_max),
            Holding::new("early messages of a peer", early.max().unwrap_or(0), EARLY_MAX),
            Holding::new(
                "messages for no endpoint",
                self.without_endpoint_count,
                WITHOUT_ENDPOINT_MAX,
            ),
            Holding::new("pool slots of arrivals", slots - free, slots),
            Holding::new("pool cells of arrivals", cells, self.profile.incoming_max),
            Holding::new("pulls", self.pulls.len(), PULLS_MAX),
            Holding::new("gets", self.fetches.len(), GETS_MAX),
            Holding::new("notifications", self.notifications, NOTIFICATIONS_MAX),
            Holding::new("answers to what was not taken", self.not_ready.len(), NOT_READY_MAX),
            Holding::lasting("endpoints", self.open, ENDPOINTS_MAX),
            Holding::lasting("regions", self.regions.len(), self.profile.regions_max),
            Holding::lasting("senders with grants", self.grants.len(), GRANTED_MAX),
        ]
    }
}
