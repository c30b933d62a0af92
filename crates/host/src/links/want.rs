//! What may be asked for of links.

/// Which rungs of the ladder may be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Want {
    /// The best that is to be had: packet for small frames and udp for bulk, or whichever of them there is.
    #[default]
    Auto,
    /// AF_XDP, or an error. Never taken by itself: where the kernel copies, it is slower than packet (decision 15).
    Xdp,
    /// Packet, own or lent, or an error.
    Packet,
    /// Packet by a socket that the service `empd` lends, or an error. `Auto` and `Packet` have it where this process may open none itself.
    Lent,
    /// Raw frames through the service `empd`, or an error. `Auto` has it in place of packet where this process may not open that itself.
    Empd,
    /// UDP, or an error.
    Udp,
    /// Shared memory, or an error: reaches the nodes of this user on this machine, and no others. `Auto` has it beside the
    /// other links, for the nodes that it finds there in the same network namespace.
    Shm,
}
