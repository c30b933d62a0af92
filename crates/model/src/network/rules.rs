//! What relays hold to, whatever they are sent (V26, V30): no frame passes one twice, and each repeats a search once by each of its
//! links, or again if that copy may cross more cables than the one before.

use std::collections::HashMap;

use emp_wire::{Header, Hello, LinkAddress, RelayUse, Relayed, TAG_EVERYONE, is_relayed};

/// Who searches, the search's nonce, a node that sends it, and by which of its links.
type Crossing = (u64, u64, usize, u8);

/// What nodes of a world with relays have sent.
pub(crate) struct Rules {
    /// Frames are damaged on their way. Nothing says so of a list of hops, as on Ethernet the check sequence does: any may stand there.
    damaged: bool,
    /// How often a search has left, and how many cables it might still cross the last time.
    searches: HashMap<Crossing, (u32, u8)>,
}

impl Rules {
    pub(crate) fn new(damaged: bool) -> Self {
        Self { damaged, searches: HashMap::new() }
    }

    /// A node that starts knows nothing of what it repeated before.
    pub(crate) fn forget(&mut self, node: usize) {
        self.searches.retain(|(_, _, of, _), _| *of != node);
    }

    /// Holds a frame to the rules that a node sends by a link; it is at these addresses.
    pub(crate) fn judge(
        &mut self,
        node: usize,
        link: u8,
        frame: &[u8],
        own: impl Fn(&LinkAddress) -> bool,
    ) -> Result<(), String> {
        if !is_relayed(frame) {
            return Ok(());
        }
        let relayed = Relayed::parse(frame).map_err(|reason| {
            format!("node {node} sends a relay's head that is none: {reason:?}")
        })?;
        let head = relayed.head;
        let is_search = head.usage == RelayUse::Search;
        let before = if is_search { head.hops } else { head.place };
        let passed = (0..before).filter_map(|place| relayed.hop(place).ok());
        if !self.damaged && passed.map(|hop| hop.address).any(|address| own(&address)) {
            return Err(format!("a frame passes node {node} twice: {head:?}"));
        }
        if !is_search {
            return Ok(());
        }
        let hello =
            Header::parse(relayed.carried).ok().and_then(|(_, body)| Hello::parse(body).ok());
        let Some(hello) = hello else {
            return Err(format!("node {node} repeats a search that is none"));
        };
        if head.destination_tag == TAG_EVERYONE && head.place == 0 {
            // The second copy of a search by name, for who has that on this cable (`RELAY-11`).
            return Ok(());
        }
        let crossing = (hello.node.0, hello.nonce, node, link);
        let (times, left) = self.searches.entry(crossing).or_default();
        if *times > 0 && head.place <= *left {
            return Err(format!("node {node} sends a search twice by link {link}"));
        }
        (*times, *left) = (*times + 1, head.place);
        Ok(())
    }

    /// How often each search has left by a link.
    pub(crate) fn crossings(&self) -> Vec<u32> {
        let mut by_search: HashMap<(u64, u64), u32> = HashMap::new();
        for ((who, nonce, ..), (times, _)) in &self.searches {
            *by_search.entry((*who, *nonce)).or_default() += times;
        }
        by_search.into_values().collect()
    }
}
