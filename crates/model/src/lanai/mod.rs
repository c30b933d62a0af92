//! A simulated Myrinet card with a LANai 4.1 (V1 to V4) on which the real engine runs, profile `vmmc2`.
//!
//! One 33 MHz processor whose control program supervises the DMA engines (V3): it waits for the one between host and card, which it has started;
//! the one to the network has a queue; the one from the network takes what the other card's gives, as fast as it comes, and so needs none. Packets
//! of 4 KB with numbers of 16 bits (V11) travel through source-routed switches; a card finds the route to a node when it first has a packet for
//! it (V26).

mod card;
mod experiments;
mod fabric;
mod numbers;
mod parameters;
mod routes;

pub use experiments::{
    Acks, LogP, Mapping, acks_of_stream, latency, log_p, map_and_recover, ping_pong, simultaneous,
    unidirectional,
};
pub use parameters::Parameters;
pub use routes::{End, Topology};
