//! What users are told: the journal, names, the directory of peers, losses, events.

pub(crate) mod counters;
pub(crate) mod directory;
pub(crate) mod journal;
pub(crate) mod losses;
pub(crate) mod names;
pub(crate) mod news;
pub(crate) mod shown;
pub(crate) mod work;
