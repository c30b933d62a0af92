//! `empd`: owns raw links for programs that may not open them (docs/guide/empd.md).
//!
//! The **door** (`door/`) knows clients as connections: who they are, what they may have, when they are gone. The **switch**
//! (`switch/`) moves the frames of those that attached. Lent sockets need no switch: their holders send for themselves
//! ([`lending`]). The **engines** (`engines/`) are nodes that the service runs for clients.

mod bell;
pub mod config;
pub mod door;
pub mod engines;
pub mod lending;
pub mod log;
pub mod people;
pub mod privilege;
pub mod succession;
pub mod supervisor;
pub mod switch;
