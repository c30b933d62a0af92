//! Open-MX's hosts (O9 to O18): the real engine, profile `openmx`, under a generic Ethernet driver with interrupts, copies and one bottom half.
//!
//! A send is a call of the kernel, which copies (up to 32 KB) or pins (O13). A frame that arrives waits for an interrupt, which may be deferred
//! (O22), and is handled by one core's bottom half (O24); what is not of a large message is copied twice (O15).

mod experiments;
mod fabric;
mod parameters;

pub use experiments::{Busy, Copies, bandwidth, copies, latency, receiver_busy};
pub use parameters::{Network, Parameters};
