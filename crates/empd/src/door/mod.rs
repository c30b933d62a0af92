//! The door: who comes in, and what they are given.
