//! Tables by a peer's index, by index and generation, and lists of their entries.

pub(crate) mod by_peer;
pub(crate) mod per_peer;
pub(crate) mod slots;
