//! Frame formats of EMP (SPEC.md): building and parsing, nothing else.
#![forbid(unsafe_code)]

mod address;

pub use address::{AddressFamily, LinkAddress};

/// EtherType of EMP frames unless configured otherwise: IEEE 802 local experimental 1.
pub const ETHERTYPE_DEFAULT: u16 = 0x88B5;
/// UDP port of EMP frames unless configured otherwise.
pub const UDP_PORT_DEFAULT: u16 = 51966;
/// Bytes of the common header that every frame starts with (`FRAME-1`).
pub const HEADER_BYTES: usize = 32;
/// Byte offset of the 16-bit destination tag in a frame: what a link's socket filter looks at (`FRAME-3`).
pub const DESTINATION_TAG_OFFSET: usize = 4;
/// Byte offset of the first byte, which holds the version (top three bits) and the kind (low five).
pub const KIND_OFFSET: usize = 0;
/// Destination tag that every node accepts.
pub const TAG_EVERYONE: u16 = 0xFFFF;
