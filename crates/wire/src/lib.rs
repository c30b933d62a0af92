//! Frame formats of EMP (SPEC.md): building and parsing, nothing else.
//!
//! One file per frame kind. [`Header::parse`] and each kind's `parse` return a value or a [`Reason`] and never panic,
//! whatever the bytes; `emit` writes what `parse` reads. No clock, no socket, no allocation.
#![forbid(unsafe_code)]
// Without the standard library there is no clock, socket, thread or file to reach: the compiler holds the promise.
#![no_std]

#[cfg(test)]
extern crate std;

mod ack;
mod address;
mod atomic;
mod block;
mod checksum;
mod close;
mod data;
mod done;
mod extension;
mod get;
mod header;
mod hello;
mod identity;
mod largest;
mod message;
mod not_ready;
mod operation;
mod pieces;
mod pull;
mod put;
mod reason;
mod relay;
mod sequence;
mod slice;
mod target;

pub use ack::{ACK_BODY_BYTES_MAX, Ack, AckDelay, GRANT_UNBOUNDED, SACK_WORDS_MAX};
pub use address::{AddressFamily, LinkAddress};
pub use atomic::{ATOMIC_BYTES, Atomic};
pub use block::BlockWord;
pub use checksum::{Checksum, Seed};
pub use close::{CLOSE_BYTES, Close};
pub use data::TRAIN_FRAMES_MAX;
pub use done::{DONE_BYTES, Done, DoneStatus};
pub use get::{GET_BYTES, Get};
pub use header::{
    Flags, Frames, Header, Kind, ShortRest, VERSION, begin_checksum, checksum_of, frames,
    head_checksum, store_checksum, verify, verify_unsummed,
};
pub use hello::{
    HELLO_BODY_BYTES_MAX, HELLO_BYTES, Hello, KNOWN_MAX, NAME_BYTES_MAX, ReplyWord, TOLD_MAX,
};
pub use identity::{Epoch, NodeId, destination_tag_of};
pub use largest::Largest;
pub use message::{
    IMMEDIATE_BYTES, LONG_BYTES, LongPart, MESSAGE_BODY_BYTES_MAX, MESSAGE_BYTES, Message,
};
pub use not_ready::{NOT_READY_BYTES, NotReady, NotReadyCause};
pub use operation::{AtomicOp, Datatype};
pub use pieces::{PIECES_MAX, Pieces, emit_pieces, names_memory, pieces_bytes};
pub use pull::{PULL_BYTES, Pull};
pub use put::Put;
pub use reason::Reason;
pub use relay::{
    HOP_LIMIT, RELAY_BYTES_MAX, RELAY_HEAD_BYTES, RELAY_HOP_BYTES, RELAY_KIND, RELAYS_MAX,
    RelayHead, RelayHop, RelayUse, Relayed, is_relayed, is_search,
};
pub use sequence::Sequence;
pub use slice::{SLICE_STEP_BYTES, SliceWord};
pub use target::{TARGET_BYTES, Target};

/// EtherType of EMP frames unless configured otherwise: IEEE 802 local experimental 1.
pub const ETHERTYPE_DEFAULT: u16 = 0x88B5;
/// UDP port of EMP frames unless configured otherwise.
pub const UDP_PORT_DEFAULT: u16 = 51966;
/// UDP port of the multicast groups in which nodes look for each other (`HELLO-5`): another one than theirs, as all of a machine share it.
pub const UDP_PORT_GROUP: u16 = 51965;
/// Bytes of the common header that every frame starts with (`FRAME-1`).
pub const HEADER_BYTES: usize = 32;
/// Bytes of the longest frame of a link that carries a frame in several datagrams (`LONG-1`): the header and 15 pages of 4 KB.
/// Those of an unaligned buffer are 16 pages, which with the head fit the 17 pieces of one packet of Linux; and 64 datagrams
/// of 1,472 bytes, which is what its older kernels cut one into, hold it.
pub const LONG_FRAME_BYTES: usize = HEADER_BYTES + 15 * 4096;
/// Byte offset of the 16-bit destination tag in a frame: what a link's socket filter looks at (`FRAME-3`).
pub const DESTINATION_TAG_OFFSET: usize = 4;
/// Byte offset of the first byte, which holds the version (top three bits) and the kind (low five).
pub const KIND_OFFSET: usize = 0;
/// Destination tag that every node accepts.
pub const TAG_EVERYONE: u16 = 0xFFFF;
/// Room that any frame's header and body fields fit in, in bytes.
pub const HEAD_BYTES_MAX: usize = HEADER_BYTES + HELLO_BODY_BYTES_MAX;

/// Whether frames of this kind have a payload that may be left out of their checksum (`CRC-3`). What others carry counts as fields.
pub const fn has_bulk(kind: Kind) -> bool {
    matches!(kind, Kind::Message | Kind::Data | Kind::Block | Kind::Put)
}

/// Body bytes of a frame that its checksum covers (`CRC-3`): all, or only the fields if the payload is unchecked.
#[inline]
pub fn covered_bytes(header: &Header) -> usize {
    let length = usize::from(header.length);
    if !header.flags.has(Flags::PAYLOAD_UNCHECKED) {
        return length;
    }
    match header.kind {
        Kind::Data | Kind::Block => 0,
        Kind::Message => Message::body_bytes_for(header.flags).min(length),
        Kind::Put => Put::body_bytes_for(header.flags).min(length),
        _ => length,
    }
}
