//! A simulated Myrinet card with a LANai 4.1 (V1 to V4) on which the real engine runs, profile `vmmc2`.
//!
//! One 33 MHz processor whose control program supervises three DMA engines: between host and card, card to network, network to card. Packets of
//! 4 KB travel through source-routed switches; a card finds the route to a node when it first has a packet for it (V26).

mod card;
mod experiments;
mod fabric;
mod parameters;
mod routes;

pub use experiments::{
    Acks, LogP, Mapping, acks_of_stream, latency, log_p, map_and_recover, ping_pong, simultaneous,
    unidirectional,
};
pub use parameters::Parameters;
pub use routes::{End, Topology};
