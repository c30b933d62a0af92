//! Ring primitives shared with the kernel or with another process. Each module is small; those with unsafe code state
//! the invariant that makes it sound.

mod bpf;
mod mapping;
mod packet_ring;
mod page;
mod pieces;
mod shm_map;
mod shm_ring;
mod slot_ring;
mod worked;
mod xsk;

pub use bpf::{BpfInstruction, XdpAttachment, XdpProgram, XskMap};
pub use packet_ring::{PacketRing, RingFrame, RingShape};
pub use page::WrittenOnce;
pub use pieces::Pieces;
pub use shm_map::{RING_FRAME_BYTES_MAX, SHM_BYTES, SharedEnd, SharedHalf, ShmEnd, shm_bytes};
pub use shm_ring::{Consumer, Corrupt, LINE_BYTES, Producer, RingMemory, record_bytes};
pub use slot_ring::{SlotConsumer, SlotProducer, slot_ring};
pub use worked::{Worked, cpu_nanoseconds};
pub use xsk::{Xsk, XskBind, XskCounts, XskFrame, XskShape};
