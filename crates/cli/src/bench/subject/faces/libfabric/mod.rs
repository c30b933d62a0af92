//! EMP through its libfabric provider.

mod door;
mod interface;
pub mod open;
