//! What the program calls nodes. An identity is a hash of a name, so an error that has only the identity could not say
//! "b"; the names that were used are remembered here, for the whole process, as an identity means the same to all its nodes.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use emp_wire::NodeId;

/// Names remembered: more than one program types or reads from a list. Beyond it, errors show identities. About 100 bytes each.
const NAMES_MAX: usize = 16_384;

/// Identities whose names were noted lately, so that a send by name need not look into the map each time.
const LATELY: usize = 64;

static NAMES: Mutex<Option<HashMap<u64, String>>> = Mutex::new(None);
static NOTED: [AtomicU64; LATELY] = [const { AtomicU64::new(0) }; LATELY];

/// The identity that a name stands for. The name is remembered.
#[inline]
pub(crate) fn identity(name: &str) -> NodeId {
    let node = NodeId::from_name(name);
    let place = &NOTED[node.0 as usize % LATELY];
    // A name that is noted twice, or a moment late, does no harm.
    if place.load(Ordering::Relaxed) != node.0 {
        note(node, name);
        place.store(node.0, Ordering::Relaxed);
    }
    node
}

#[cold]
fn note(node: NodeId, name: &str) {
    let mut names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    let names = names.get_or_insert_with(HashMap::new);
    if names.len() < NAMES_MAX {
        names.entry(node.0).or_insert_with(|| name.to_owned());
    }
}

/// What the program called a node, if it used a name for it.
pub(crate) fn called(node: NodeId) -> Option<String> {
    let names = NAMES.lock().unwrap_or_else(PoisonError::into_inner);
    names.as_ref()?.get(&node.0).cloned()
}

/// A node for people: as the program calls it, else by the name that it gives itself with its identity, else by that alone.
pub(crate) fn show(node: NodeId, own_name: &str) -> String {
    match (called(node), own_name) {
        (Some(name), _) => name,
        (None, "") => node.to_string(),
        (None, name) => format!("{name} ({node})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_shown_as_it_was_called() {
        let node = identity("names-test-x");
        assert_eq!(node, NodeId::from_name("names-test-x"));
        assert_eq!(show(node, "another"), "names-test-x");
        let (unknown, id) = (NodeId(0x77), "0000000000000077");
        assert_eq!(show(unknown, ""), id);
        assert_eq!(show(unknown, "y"), format!("y ({id})"));
    }
}
