//! One-sided operations of simulated applications: what they do, where, and how it ended.
//!
//! Every node that takes part exports one region. Its parts are of three kinds: a counter for each node that adds to it,
//! bytes that nobody changes (to be got), and places of which each belongs to one put alone. So whatever is found
//! anywhere has exactly one explanation.

mod drive;
mod judge;

pub use drive::schedule;

use emp_firmware::{Status, Time};

use crate::ledger::{MessageId, Posted};
use crate::memory::BufferId;

/// Number of a one-sided operation: its place in [`OneSided::deeds`].
pub type DeedId = usize;

/// Bytes of each node's region.
pub const REGION_BYTES: u64 = 512 << 10;
/// Where in it the bytes are that nobody changes; before them are the counters.
const CONSTANT_AT: u64 = 4 << 10;
/// Where the places of puts begin.
const PLACES_AT: u64 = 132 << 10;
/// The key of every node's region, and of one that may only be read.
const KEY: u64 = 0x0E39;
const KEY_READ_ONLY: u64 = KEY + 1;
/// A key that nobody has.
const KEY_OF_NOBODY: u64 = 0xDEAD;

/// What an application wants to do to another node's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    /// Write so many bytes to a place of their own; perhaps with a notification; perhaps with a message right after.
    Put {
        /// Bytes.
        bytes: u64,
        /// With eight bytes for the target's host.
        notify: bool,
        /// A message that is posted right after it.
        follower: Option<MessageId>,
    },
    /// Read some of the bytes that nobody changes.
    Get {
        /// Bytes.
        bytes: u64,
        /// First of them.
        skip: u64,
    },
    /// Add one to the own counter; perhaps fetch what it was.
    Add {
        /// Fetch the old value.
        fetch: bool,
    },
    /// Something that must be refused with this status; a get or a put.
    Wrong {
        /// What must come of it.
        status: Status,
        /// It is a get.
        get: bool,
    },
}

/// A one-sided operation's way.
#[derive(Clone, Debug)]
pub struct Done {
    /// Who does it.
    pub from: usize,
    /// To whom; may be the same node.
    pub to: usize,
    /// What.
    pub deed: Deed,
    /// Where in the region, for puts.
    place: u64,
    /// Set when the firmware took it.
    pub posted: Option<Posted>,
    /// The target's incarnation then.
    target_incarnation: u32,
    /// How it ended, and the value that it fetched.
    pub ended: Option<(Status, Time)>,
    fetched: Option<u64>,
    /// The target's host was told.
    notified: bool,
}

/// A node's region in one incarnation.
struct Export {
    incarnation: u32,
    buffer: BufferId,
    address: u64,
    removed: Option<Time>,
}

/// All one-sided operations of a run.
#[derive(Default)]
pub struct OneSided {
    /// The operations.
    pub deeds: Vec<Done>,
    /// Nodes export regions when they start.
    exporting: bool,
    exports: Vec<Option<Export>>,
    /// Nodes that took their region back, and in which incarnation: the answer of one that was stopped since may still be on its way.
    removals: Vec<(usize, u32)>,
    /// Bytes of places given out, by target.
    given_out: Vec<u64>,
    /// The order of the last notification, by initiator, its incarnation, and target.
    last_notified: std::collections::BTreeMap<(usize, u32, usize), u64>,
}

/// Contexts of one-sided operations have this bit.
const CONTEXT: u64 = 1 << 62;

/// The operation that a context names, if it names one.
pub fn of_context(context: u64) -> Option<DeedId> {
    (context >> 62 == 1).then_some((context & !CONTEXT) as usize)
}

/// What numbers the bytes of a put.
fn put_seed(id: DeedId) -> u64 {
    id as u64 | 0x70 << 56
}

/// What numbers the bytes that nobody changes.
fn constant_seed(node: usize, incarnation: u32) -> u64 {
    0x71 << 56 | (node as u64) << 32 | u64::from(incarnation)
}

impl OneSided {
    /// Plans an operation. `None`: the target's region has no place left for it.
    pub fn plan(&mut self, from: usize, to: usize, deed: Deed) -> Option<DeedId> {
        let mut place = 0;
        if let Deed::Put { bytes, .. } = deed {
            if self.given_out.len() <= to {
                self.given_out.resize(to + 1, PLACES_AT);
            }
            place = self.given_out[to];
            if place + bytes > REGION_BYTES {
                return None;
            }
            self.given_out[to] += bytes;
        }
        self.deeds.push(Done {
            from,
            to,
            deed,
            place,
            posted: None,
            target_incarnation: 0,
            ended: None,
            fetched: None,
            notified: false,
        });
        Some(self.deeds.len() - 1)
    }

    /// Operations of a node's incarnation that have not ended.
    pub fn open(&self, node: usize, incarnation: u32) -> impl Iterator<Item = DeedId> + '_ {
        let open = move |done: &Done| {
            let here = done.posted.is_some_and(|posted| posted.incarnation == incarnation);
            done.from == node && here && done.ended.is_none()
        };
        (0..self.deeds.len()).filter(move |id| open(&self.deeds[*id]))
    }

    fn export(&self, node: usize) -> Option<&Export> {
        self.exports.get(node)?.as_ref()
    }
}
