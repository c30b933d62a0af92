//! What the firmware must know of the node's links.

use emp_wire::LinkAddress;

/// What the firmware must know of a link. Its place in [`Config::links`](crate::Config::links) is its [`LinkIndex`](crate::LinkIndex).
#[derive(Clone, Copy, Debug)]
pub struct LinkInfo {
    /// Largest frame in bytes, common header included.
    pub frame_bytes_max: usize,
    /// A hello to everyone reaches nodes that are not configured (or configured peers): worth asking when searching.
    pub broadcast: bool,
    /// Its peers are on this machine, and may name their memory to be read ([`HostMemory::fetch`](crate::HostMemory::fetch), `DIRECT-1`).
    pub reads_memory: bool,
    /// Frames of one train leave in one call, and arrive together: long trains are given to it in parts.
    pub segments: bool,
    /// Frames of up to [`LONG_FRAME_BYTES`](emp_wire::LONG_FRAME_BYTES) arrive whole or not at all, whatever `frame_bytes_max` is
    /// (`LONG-1`).
    pub long_frames: bool,
    /// As many of them can wait unread, of whatever senders. 0: nobody knows.
    pub long_frames_held: u32,
    /// Trains of at least so many frames take this link to nodes that are also reached over a better one (`LANE-3`).
    /// `None`: it is a link like any other. One link of a node can have this; later ones are as if they had not.
    pub bulk_frames: Option<u32>,
    /// The same of trains that leave in frames longer than the MTU, where such get through. `None`: as many.
    pub bulk_frames_long: Option<u32>,
    /// This node's address on that bulk link, for nodes that hear of it on this one (`LANE-1`). Links without this have
    /// no bulk lane beside them.
    pub second: Option<LinkAddress>,
}

impl LinkInfo {
    /// A link that takes small and large alike.
    pub const fn new(frame_bytes_max: usize, broadcast: bool) -> Self {
        Self {
            frame_bytes_max,
            broadcast,
            reads_memory: false,
            segments: false,
            long_frames: false,
            long_frames_held: 0,
            bulk_frames: None,
            bulk_frames_long: None,
            second: None,
        }
    }
}
