//! Nodes: started, found, closed.

pub(crate) mod closing;
pub(crate) mod elsewhere;
pub(crate) mod find;
pub(crate) mod running;
pub(crate) mod start;
