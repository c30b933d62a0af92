//! Endpoints and requests: the safe API.

pub(crate) mod blocking;
pub(crate) mod claim;
pub(crate) mod error;
pub(crate) mod mailbox;
pub(crate) mod one_sided;
pub(crate) mod region;
pub(crate) mod request;
