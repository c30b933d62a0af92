//! EMP through its public, safe interface.

mod calls;
mod end;
mod harness_link;
pub mod idle;
pub mod node;
mod one_sided;
pub mod opening;
pub mod post;
