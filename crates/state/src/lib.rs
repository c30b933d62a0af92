//! The file in which a node shows its state to whoever looks from outside (decision 89).
//!
//! A node keeps one file, and writes to it beside its work; a reader needs no help of the process, so that it sees one that hangs, is
//! stopped or computes for a minute. This crate alone knows how the file is laid out ([`layout`]), where it is ([`place`]), whether
//! its process still runs ([`process`]), how it is written ([`Writer`]), by another process too where that has the engine ([`Kept`]), and how it is read by somebody who does not trust it
//! ([`read`]). What it tells and why is the host's: `emp-host` fills it.

mod field;
mod given;
pub mod layout;
mod map;
pub mod place;
mod places;
pub mod process;
mod read;
mod write;

pub use field::Text;
pub use layout::{Head, Identity, Link, Neighbour, Note, Now, Path, Peer, PeerState};
pub use places::Places;
pub use read::{Refusal, Snapshot, look, read};
pub use write::{Grown, Kept, Writer};
