//! A simulated Tigon2 card (E8 to E13, I10 to I15) on which the real engine runs, profile `emp2001`.
//!
//! Two 88 MHz processors with one semaphore and event registers; two DMA engines on a 64-bit, 66 MHz PCI bus; a MAC that begins to send while the
//! bytes still come from the host; 512 KB of memory, in which the host posts descriptors of 20 bytes and polls them. The engine makes and takes
//! every frame. The card charges each stage of a frame's way (I9) to the processor that a placement names (I17), in virtual time.

mod card;
mod descriptor;
mod dma;
mod experiments;
mod fabric;
mod host;
mod parameters;
mod placement;
mod processors;
mod programs;
mod sram;
#[cfg(test)]
mod tests;

pub use card::Usage;
pub use experiments::{
    Bandwidth, Overlap, bidirectional, latency, line_rate, overlap, unidirectional,
};
pub use parameters::Parameters;
pub use placement::{Placement, Processor, Stage};
