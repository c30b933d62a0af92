//! The faces' API: memory that callers promise, and many completions at a time.

pub(crate) mod address_space;
pub(crate) mod alarms;
pub(crate) mod desk;
pub(crate) mod messages;
pub(crate) mod one_sided;
pub(crate) mod several;
pub(crate) mod windows;
