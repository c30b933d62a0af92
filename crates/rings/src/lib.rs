//! Ring primitives shared with the kernel. Each module is small, holds the unsafe code of one ring,
//! and states the invariant that makes it sound.

mod packet_ring;

pub use packet_ring::{PacketRing, RingFrame, RingShape};
