//! The node that a client wants, over this service's own links and within what each engine is given.

use std::time::Duration;

use emp_host::limits::{INCOMING_MOST, OPERATIONS_MAX, PEERS_MAX, REGIONS_MAX};
use emp_host::{Board, Integrity, Node, Profile, Span, StateFile};
use emp_link::service::protocol::Engine as Wanted;

use super::{Options, links};

/// What a client may ask for: frames that one acknowledgement covers, and the shortest and longest silence of a peer in nanoseconds (10 ms, a day).
const COLLECTION_MAX: u32 = 1 << 16;
const PATIENCE_NS: (u64, u64) = (10_000_000, 86_400_000_000_000);

/// Starts it.
///
/// # Errors
///
/// One line: why it can't be.
pub(super) fn start(
    wanted: &Wanted,
    interfaces: &[String],
    options: &Options,
) -> Result<Node, String> {
    let known = Profile::by_name(&wanted.profile);
    let mut profile =
        known.ok_or_else(|| format!("there is no profile {}", wanted.profile))?.clone();
    profile.collection = wanted.collection.clamp(1, COLLECTION_MAX);
    let patience = wanted.patience_ns.clamp(PATIENCE_NS.0, PATIENCE_NS.1);
    profile.unreachable_after = Span(patience);
    // The configuration may allow more than a node can have.
    let operations_max = options.operations_max.min(OPERATIONS_MAX);
    profile.operations_max = (wanted.operations_max as usize).clamp(1, operations_max);
    let incoming_max = options.incoming_max.min(INCOMING_MOST);
    profile.incoming_max = (wanted.incoming_max as usize).clamp(1, incoming_max);
    profile.peers_max = options.peers_max.min(PEERS_MAX);
    profile.regions_max = options.regions_max.min(REGIONS_MAX);
    [profile.eager_bytes, profile.long_eager_bytes] = wanted.eager_bytes;
    if wanted.end_to_end {
        profile.integrity = Integrity::EndToEnd;
    }
    let builder = Node::builder().name(&wanted.name).node_id(wanted.node).epoch(wanted.epoch);
    let builder = builder.seed(wanted.seed).profile(profile).state(StateFile::Off);
    let builder = builder.board(Board::Inline { guardian: false }).linger(Duration::ZERO);
    let builder = links::add(builder, wanted, interfaces, options)?;
    builder.start().map_err(|error| error.to_string())
}
