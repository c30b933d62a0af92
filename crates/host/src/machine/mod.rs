//! What the machine tells and gives: clocks, signals, randomness, names, addresses, bells.

pub(crate) mod clock;
pub(crate) mod launcher;
pub(crate) mod processors;
pub(crate) mod second;
pub(crate) mod signals;
pub(crate) mod system;
pub(crate) mod wakeup;
