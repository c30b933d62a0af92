//! The bare link: what EMP would be if it cost nothing.

mod end;
mod flow;
mod frame;
mod long;
mod memory;
pub mod opening;
mod placing;
mod trying;
