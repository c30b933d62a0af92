//! The node's links: how they are chosen, what they cost, how they fare, frames out and in.

pub(crate) mod apart;
pub(crate) mod attention;
pub(crate) mod capture;
pub(crate) mod choice;
pub(crate) mod costs;
pub(crate) mod division;
pub(crate) mod error;
pub(crate) mod evidence;
pub(crate) mod health;
pub(crate) mod incoming;
pub(crate) mod interfaces;
pub(crate) mod joining;
pub(crate) mod ladder;
pub(crate) mod outgoing;
pub(crate) mod peers;
pub(crate) mod raw_frames;
pub(crate) mod set;
pub(crate) mod want;
