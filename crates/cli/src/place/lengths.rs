//! Of which length frames and messages are, for what is predicted and what is measured beside it.

/// Bytes of a frame: ordinary Ethernet's.
pub const MTU: usize = 1500;

/// The two lengths that are looked at: what latency is measured by, and a stream of long messages.
pub const SMALL: usize = 32;
pub const LARGE: usize = 64 << 10;
