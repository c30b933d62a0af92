//! One turn of a node's work: the firmware between its links and its host.

pub(crate) mod away;
pub(crate) mod core;
pub(crate) mod cut_short;
pub(crate) mod deck;
pub(crate) mod ends;
mod halves;
mod joining;
pub(crate) mod posts;
mod work;
