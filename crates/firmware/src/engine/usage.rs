//! What tests ask of a node: what it holds now, against the bounds of [`limits`](crate::limits), and where its streams begin.

use alloc::vec::Vec;

use emp_wire::Sequence;

use crate::counters::Holding;
use crate::cross::FirstNumbers;
use crate::descriptor::PostError;
use crate::engine::Firmware;
use crate::limits::{
    ASSEMBLIES_MAX, DISCOVERIES_MAX, EVENTS_MAX, FORMER_MAX, FURTHER_PATHS_MAX, HOP_LISTS_MAX,
    LONG_QUESTIONS_MAX, NAMES_MAX, PEERS_ASKED_MAX, QUESTIONS_MAX, REPLIES_MAX, SEARCHES_SEEN_MAX,
    SEEKS_MAX, SIZE_SEARCHES_MAX, TRANSIT_FRAMES_MAX,
};

impl Firmware {
    /// Everything that a node may hold, how much of it there is, and how much there may be. Looks through all peers.
    pub fn holdings(&self) -> Vec<Holding> {
        let mut all = Vec::with_capacity(40);
        all.extend(self.send.holdings());
        all.extend(self.receive.holdings());
        all.extend([
            Holding::new("events", self.events.len(), EVENTS_MAX),
            Holding::new("contacts", self.routes.contacts.len(), REPLIES_MAX),
            Holding::new("searches", self.routes.searches.len(), DISCOVERIES_MAX),
            Holding::new("searches for paths", self.peers.table.searches(), SEEKS_MAX),
            Holding::new("searches for lengths", self.sizes.len(), SIZE_SEARCHES_MAX),
            Holding::new("long questions", self.peers.units.questions(), LONG_QUESTIONS_MAX),
            Holding::new("frames in transit", self.relays.queue.len(), TRANSIT_FRAMES_MAX),
            Holding::lasting("searches seen", self.relays.seen.len(), SEARCHES_SEEN_MAX),
            Holding::lasting("lists of hops", self.peers.hop_lists.len(), HOP_LISTS_MAX),
            Holding::lasting("paths of long frames", self.peers.units.len(), FURTHER_PATHS_MAX),
            Holding::lasting("questions to addresses", self.routes.questions(), QUESTIONS_MAX),
            Holding::lasting("questions to peers", self.acquaintances.len(), PEERS_ASKED_MAX),
            Holding::lasting("nodes with hints", self.routes.hinted(), DISCOVERIES_MAX),
            Holding::lasting("names of askers", self.names.len(), NAMES_MAX),
            Holding::lasting("former epochs", self.former.len(), FORMER_MAX),
            Holding::lasting("peers", self.peers(), self.profile.peers_max),
            Holding::lasting("peers with paths", self.peers.table.len(), FURTHER_PATHS_MAX),
            // A frame of which a slice was lost for good keeps its place until others need it.
            Holding::lasting("assemblies", self.assembly.len(), ASSEMBLIES_MAX),
        ]);
        all
    }

    /// Tells the host of bounds that were reached for the first time.
    #[cold]
    pub(crate) fn tell_limits(&mut self) {
        let of_sends = self.send.reached.news(&self.profile);
        for event in of_sends.chain(self.receive.reached.news(&self.profile)) {
            self.push_event(event);
        }
    }

    /// An error that is a bound's tells the host of it.
    #[inline]
    pub(crate) fn aloud<T>(&mut self, posted: Result<T, PostError>) -> Result<T, PostError> {
        if posted.is_err() {
            self.tell_limits();
        }
        posted
    }

    /// For tests: streams begin with these numbers instead of 0, so that a test need not send 2³² frames to see them wrap. All
    /// nodes of a test must be told the same, before they know anyone: nothing on the wire says it.
    ///
    /// # Panics
    /// If a peer is known already.
    pub fn set_first_numbers(&mut self, sequence: u32, message: u32) {
        assert!(self.peers() == 0, "streams have begun");
        let first = FirstNumbers { sequence: Sequence(sequence), message };
        (self.send.first, self.receive.first) = (first, first);
    }
}
