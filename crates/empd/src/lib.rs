//! `empd`: owns raw links for programs that may not open them (docs/guide/empd.md).
//!
//! The **door** (`door/`) knows clients as connections: who they are, what they may have, when they are gone. The **switch**
//! (`switch/`) moves the frames of those that attached. Lent sockets need no switch: their holders send for themselves.

pub mod door;
pub mod switch;
