//! What two nodes do with each other, for the tests of all boards; `crate::pairs` is what makes them.
#![allow(dead_code, reason = "each test uses its part")]

pub mod messages;
pub mod one_sided;
