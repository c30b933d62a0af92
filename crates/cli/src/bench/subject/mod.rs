//! The things that are measured, behind one trait ([`kind::Subject`]): EMP, by its own interface and its faces, the bare link, TCP.

mod emp;
mod faces;
mod kind;
mod memory;
mod opening;
mod place;
mod raw;
mod route;
mod tcp;

pub use emp::idle::allow_files;
pub use emp::node::OpenNode;
pub use kind::{Card, Role, Subject};
pub use opening::open_all;
pub use place::{End, Named, Place};
