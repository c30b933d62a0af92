//! Building a frame in a batch: header, body, payload by copy or by reference, checksum (none where there is no wire, `CRC-4`).

use emp_wire::{
    ACK_BODY_BYTES_MAX, ATOMIC_BYTES, Checksum, Flags, GET_BYTES, HEADER_BYTES, Header,
    IMMEDIATE_BYTES, Kind, LONG_BYTES, LONG_FRAME_BYTES, MESSAGE_BODY_BYTES_MAX, Sequence,
    ShortRest, TARGET_BYTES, store_checksum,
};

pub(crate) mod cut;

use alloc::boxed::Box;

use crate::link::LinkIndex;
use crate::memory::{HostMemory, MemoryFault, Segment, SegmentList};
use crate::pair::{Peer, Peers};
use crate::path::Hop;
use crate::path::hop_lists::Prefix;
use crate::pool::{Chain, Pool};
use crate::transmit::{FrameSegments, Small, TransmitBatch};

/// Payloads up to this many bytes are copied next to the header: cheaper than one more gather entry, and a frame in one
/// piece can leave by plain `send`.
pub(crate) const INLINE_PAYLOAD_BYTES: u64 = 256;

/// The same where a link takes many frames in a call: the kernel copies a train of 60 KB in one piece in 2.4 µs, in 1440-byte
/// pieces with headers between them in 3.8 to 4.4 (whole calls 7.0 and 10.5), and a copy that sums as it goes takes hardly longer
/// than the sum. Of pieces of 9 KB it gains nothing. The same holds for receiving (`Firmware::expects_landing`).
pub(crate) const INLINE_PAYLOAD_BYTES_OF_TRAINS: u64 = 4096;

/// Room for a frame's header and fields, whatever it is.
pub(crate) const HEAD_ROOM_BYTES: usize = HEADER_BYTES + SMALL_FIELDS_BYTES_MAX;

/// Fields of the longest frame that may share a link frame: of a put.
const SMALL_FIELDS_BYTES_MAX: usize = TARGET_BYTES + LONG_BYTES + IMMEDIATE_BYTES;
const _: () = assert!(SMALL_FIELDS_BYTES_MAX >= ATOMIC_BYTES);
const _: () = assert!(SMALL_FIELDS_BYTES_MAX >= GET_BYTES);
const _: () = assert!(SMALL_FIELDS_BYTES_MAX >= ACK_BODY_BYTES_MAX);
const _: () = assert!(SMALL_FIELDS_BYTES_MAX >= MESSAGE_BODY_BYTES_MAX);

/// Frames up to this many bytes are summed part by part as they were written; longer ones in one go, whose pass is wider.
const SUMMED_APART_BYTES_MAX: usize = 256;

/// What a frame says in its common header.
#[derive(Clone, Copy)]
pub(crate) struct Head {
    pub(crate) kind: Kind,
    pub(crate) flags: Flags,
    pub(crate) sequence: Sequence,
    pub(crate) acknowledge: Sequence,
    pub(crate) word: u32,
}

/// Between whom a frame goes, and how it is checked.
#[derive(Clone, Copy)]
pub(crate) struct Line<'a> {
    pub(crate) peers: &'a Peers,
    pub(crate) peer: &'a Peer,
    pub(crate) hop: Option<Hop<'a>>,
    pub(crate) check_payload: bool,
    /// Payloads up to so many bytes are copied next to the header.
    pub(crate) inline_bytes: u64,
    /// It may share a link frame with others (`BUNDLE-1`).
    pub(crate) bundles: bool,
    /// Largest frame of this way, in bytes: longer ones leave in slices.
    pub(crate) room: u16,
    /// But for those that are longer than any usual one of its link, if it cuts such and they get through (`LONG-1`, `LONG-3`).
    pub(crate) long: bool,
}

/// What stands between a frame's header and its payload.
pub(crate) trait Fields: Copy {
    /// Writes it and returns its length.
    fn emit(&self, into: &mut [u8]) -> usize;
}

impl<F: Fn(&mut [u8]) -> usize + Copy> Fields for F {
    #[inline(always)]
    fn emit(&self, into: &mut [u8]) -> usize {
        self(into)
    }
}

/// Where a frame's payload is.
pub(crate) enum Payload<'a> {
    None,
    Host { list: &'a SegmentList, offset: u64, bytes: u64 },
    Pool { pool: &'a mut Pool, chain: &'a Chain, offset: u64, bytes: u64 },
}

impl Payload<'_> {
    const fn bytes(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Host { bytes, .. } | Self::Pool { bytes, .. } => *bytes,
        }
    }
}

/// Why a frame was not built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EncodeError {
    /// There is no route, or the frame is longer than the batch's frames.
    Unsendable,
    /// It needs more room than this batch has left, being sent in slices.
    Full,
    /// The user's memory could not be read.
    Fault,
}

impl From<MemoryFault> for EncodeError {
    fn from(_: MemoryFault) -> Self {
        Self::Fault
    }
}

/// Payload bytes of frames that are surely summed part by part.
const SHORT_PAYLOAD_BYTES_MAX: u64 = (SUMMED_APART_BYTES_MAX - HEAD_ROOM_BYTES) as u64;

/// Adds a frame for `peer` to the batch; `fields` are the kind's. Returns the payload
/// bytes that were copied.
#[inline(always)]
pub(crate) fn frame(
    batch: &mut TransmitBatch,
    line: &Line<'_>,
    head: &Head,
    fields: impl Fields,
    payload: Payload<'_>,
    memory: &impl HostMemory,
) -> Result<u64, EncodeError> {
    if payload.bytes() <= SHORT_PAYLOAD_BYTES_MAX {
        short_frame(batch, line, head, fields, payload, memory)
    } else {
        // Copies, so that those of a short frame stay in registers.
        any_frame(batch, &{ *line }, &{ *head }, &{ fields }, payload, memory)
    }
}

/// One whose payload is copied next to its fields, and summed with them.
#[inline(always)]
fn short_frame(
    batch: &mut TransmitBatch,
    line: &Line<'_>,
    head: &Head,
    fields: impl Fields,
    payload: Payload<'_>,
    memory: &impl HostMemory,
) -> Result<u64, EncodeError> {
    let hop @ (_, to) = line.hop.ok_or(EncodeError::Unsendable)?;
    if to.is_behind_relays() {
        put_before(batch, line.peers, hop, line.peer.tag)?;
    }
    let room = usize::from(line.room);
    let bytes = payload.bytes() as usize;
    let most = HEAD_ROOM_BYTES + bytes;
    let small =
        (line.bundles && most <= room).then_some(Small { node: line.peer.node, most, room });
    let alone = batch.open(hop, small);
    let (inline, _) = batch.opened();
    let written = write_short(inline, line, head, fields, (payload, to.is_memory()), memory);
    let length_bytes = written.unwrap_or(0);
    batch.close(alone, written)?;
    if length_bytes > room && !to.is_memory() {
        batch.cut_last(room, line.peer.outgoing, memory)?;
    }
    Ok(bytes as u64)
}

/// Writes such a frame where it lies, and returns its length. What crosses memory has no sum.
#[inline(always)]
fn write_short(
    inline: &mut [u8],
    line: &Line<'_>,
    head: &Head,
    fields: impl Fields,
    (payload, crosses_memory): (Payload<'_>, bool),
    memory: &impl HostMemory,
) -> Result<usize, EncodeError> {
    let bytes = payload.bytes() as usize;
    let (into, rest) = inline.split_first_chunk_mut().ok_or(EncodeError::Unsendable)?;
    let fields_bytes = fields.emit(rest);
    let body_bytes = fields_bytes + bytes;
    let whole = rest.get_mut(..body_bytes).ok_or(EncodeError::Unsendable)?;
    let (fields, copy) = whole.split_at_mut(fields_bytes);
    match payload {
        Payload::None => {}
        Payload::Host { list, offset, .. } => list.read(memory, offset, copy)?,
        Payload::Pool { pool, chain, offset, .. } => pool.read(chain, offset as usize, copy),
    }
    let header = header(line, head, body_bytes as u16, bytes > 0);
    if crosses_memory {
        header.emit_seeded(into, line.peer.outgoing);
    } else {
        let payload = if line.check_payload { &*copy } else { &[] };
        header.emit_summed(into, line.peer.outgoing, &ShortRest { fields, payload });
    }
    Ok(HEADER_BYTES + body_bytes)
}

/// The same, however long it is.
#[expect(clippy::too_many_lines, reason = "most of it is one closure, on the way of every frame")]
fn any_frame(
    batch: &mut TransmitBatch,
    line: &Line<'_>,
    head: &Head,
    fields: &impl Fields,
    payload: Payload<'_>,
    memory: &impl HostMemory,
) -> Result<u64, EncodeError> {
    let Line { peer, hop, check_payload, inline_bytes: inline_max, .. } = *line;
    let hop @ (_, to) = hop.ok_or(EncodeError::Unsendable)?;
    if to.is_behind_relays() {
        put_before(batch, line.peers, hop, line.peer.tag)?;
    }
    let (mut copied, mut length_bytes) = (0, 0);
    let most = match &payload {
        Payload::Host { bytes, .. } if *bytes > inline_max => None,
        _ => Some(HEAD_ROOM_BYTES + payload.bytes() as usize),
    };
    let room = usize::from(line.room);
    let small = most.filter(|most| line.bundles && *most <= room);
    let build = |inline: &mut [u8], segments: &mut FrameSegments| {
        let end = HEADER_BYTES + fields.emit(&mut inline[HEADER_BYTES..]);
        let payload_bytes = payload.bytes();
        let whole = end as u64 + payload_bytes;
        // What is longer than a frame with all its bytes inline has its payload in host memory.
        let named = matches!(payload, Payload::Host { .. }) && whole <= LONG_FRAME_BYTES as u64;
        if end > inline.len() || (whole > inline.len() as u64 && !named) {
            return Err(EncodeError::Unsendable);
        }
        length_bytes = whole as usize;
        let length = (whole - HEADER_BYTES as u64) as u16;
        let header = header(line, head, length, payload_bytes > 0);
        if let Payload::Host { list, offset, bytes } = payload
            && bytes <= inline_max
            // A batch that has no long room left gives as much as for a usual frame.
            && whole <= inline.len() as u64
            && check_payload
            && !to.is_memory()
            && whole > SUMMED_APART_BYTES_MAX as u64
        {
            copied = bytes;
            copy_summed(inline, end, &header, peer.outgoing, |into, sum| {
                list.read_and_sum(memory, offset, into, sum)
            })?;
            return Ok(whole as usize);
        }
        let mut inline_bytes = end;
        if place(payload, inline_max, &mut inline[end..], segments, memory)? {
            inline_bytes = whole as usize;
        }
        let covered = if check_payload { inline_bytes } else { end };
        let (head, rest) =
            inline.split_first_chunk_mut().expect("a batch's frames have room for a header");
        if !to.is_memory() && covered <= SUMMED_APART_BYTES_MAX && segments.is_empty() {
            let (fields, payload) = rest[..covered - HEADER_BYTES].split_at(end - HEADER_BYTES);
            header.emit_summed(head, peer.outgoing, &ShortRest { fields, payload });
            copied = (inline_bytes - end) as u64;
            return Ok(inline_bytes);
        }
        header.emit_seeded(head, peer.outgoing);
        if !to.is_memory() {
            let mut sum = Checksum::of(&inline[..covered]);
            if check_payload {
                for segment in segments.iter() {
                    memory.checksum(*segment, &mut sum)?;
                }
            }
            store_checksum(inline, sum);
        }
        copied = (inline_bytes - end) as u64;
        Ok(inline_bytes)
    };
    // One that is copied and longer than most. If it finds no room here, it does in a batch of its own.
    let long = most.filter(|most| *most > batch.frame_bytes_max());
    match long.filter(|most| batch.fits(*most)) {
        Some(most) => batch.add_long(hop, most, build)?,
        None => batch
            .add(hop, small.map(|most| Small { node: peer.node, most, room }), build)
            .map_err(|error| match error {
                EncodeError::Unsendable if long.is_some_and(|most| batch.would_fit(most)) => {
                    EncodeError::Full
                }
                error => error,
            })?,
    }
    // What crosses memory has no MTU, and no sum by which slices are known. A link cuts what is longer than any usual frame of it; what
    // was cut as a usual one, before the peer took only shorter ones, would leave in one datagram and be lost.
    let cut_by_link = line.long && length_bytes > line.peers.lengths.most_by(hop.0).into();
    if length_bytes > room && !cut_by_link && !to.is_memory() {
        batch.cut_last(room, peer.outgoing, memory)?;
    }
    Ok(copied)
}

/// Has a relay's head and list stand before the next frame, which is for the node with this tag and goes behind relays (`RELAY-1`).
#[cold]
pub(crate) fn put_before(
    batch: &mut TransmitBatch,
    peers: &Peers,
    (link, to): Hop<'_>,
    tag: u16,
) -> Result<(), EncodeError> {
    let prefix = peers.hop_lists.prefix(to, peers.lengths.takes(link), tag);
    batch.before = prefix.ok_or(EncodeError::Unsendable)?;
    Ok(())
}

/// The common header of a frame to the line's peer.
fn header(line: &Line<'_>, head: &Head, length: u16, payload: bool) -> Header {
    let Line { peers, peer, check_payload, .. } = *line;
    Header {
        kind: head.kind,
        flags: head.flags.with_if(!check_payload && payload, Flags::PAYLOAD_UNCHECKED),
        length,
        destination_tag: peer.tag,
        destination_epoch: peer.remote_epoch.check(),
        source_tag: peers.source_tag,
        source_epoch: peer.local_epoch,
        sequence: head.sequence,
        acknowledge: head.acknowledge,
        word: head.word,
    }
}

/// Frames of one train without body fields, as they are in its middle: all of one length, their numbers and words
/// following one another, each with its payload in one piece of host memory.
pub(crate) struct Alike {
    link: LinkIndex,
    to: emp_wire::LinkAddress,
    seed: emp_wire::Seed,
    check_payload: bool,
    copies: bool,
    first: Header,
    /// What stands before each, if they go behind relays.
    before: Option<Box<Prefix>>,
}

impl Alike {
    /// For frames of which `head` is the first's; `payload_bytes` is more than nothing. `None`: there is no route.
    pub(crate) fn new(line: &Line<'_>, head: &Head, payload_bytes: u16) -> Option<Self> {
        let (link, &to) = line.hop?;
        let first = header(line, head, payload_bytes, true);
        let check_payload = line.check_payload;
        let copies = u64::from(payload_bytes) <= line.inline_bytes;
        let seed = line.peer.outgoing;
        let before = if to.is_behind_relays() {
            let takes = line.peers.lengths.takes(link);
            Some(Box::new(line.peers.hop_lists.prefix(&to, takes, line.peer.tag)?))
        } else {
            None
        };
        Some(Self { link, to, seed, check_payload, copies, first, before })
    }

    /// The payload is copied next to the header, not named.
    pub(crate) const fn copies(&self) -> bool {
        self.copies
    }

    /// Adds the frame that is `place` after the first. The caller has seen that frames of this length fit the batch, and
    /// that it is not full.
    #[inline]
    pub(crate) fn frame(
        &mut self,
        place: u32,
        flags: Flags,
        batch: &mut TransmitBatch,
        payload: Segment,
        memory: &impl HostMemory,
    ) -> Result<(), MemoryFault> {
        let header = Header {
            sequence: self.first.sequence.plus(place),
            word: self.first.word.wrapping_add(place),
            flags: self.first.flags.with(flags),
            ..self.first
        };
        if let Some(before) = &self.before {
            batch.before = Prefix::clone(before);
        }
        batch.add((self.link, &self.to), None, |inline, segments| {
            if self.copies {
                let end = HEADER_BYTES + payload.bytes as usize;
                let (head, copy) = inline[..end].split_at_mut(HEADER_BYTES);
                header.emit_seeded(head.first_chunk_mut().expect("just cut so"), self.seed);
                let mut sum = Checksum::of(head);
                if self.check_payload {
                    memory.read_and_sum(payload, copy, &mut sum)?;
                } else {
                    memory.read(payload, copy)?;
                }
                store_checksum(head, sum);
                return Ok(end);
            }
            let inline = &mut inline[..HEADER_BYTES];
            header.emit_seeded(inline.first_chunk_mut().expect("just cut so"), self.seed);
            if !self.to.is_memory() {
                let mut sum = Checksum::of(inline);
                if self.check_payload {
                    memory.checksum(payload, &mut sum)?;
                }
                store_checksum(inline, sum);
            }
            segments.push(payload);
            Ok(HEADER_BYTES)
        })
    }
}

/// Writes a frame's header, and copies its payload behind the fields, which end at `fields_end`, while it is summed.
fn copy_summed(
    inline: &mut [u8],
    fields_end: usize,
    header: &Header,
    seed: emp_wire::Seed,
    copy: impl FnOnce(&mut [u8], &mut Checksum) -> Result<(), MemoryFault>,
) -> Result<(), MemoryFault> {
    let end = HEADER_BYTES + usize::from(header.length);
    let head = inline.first_chunk_mut().expect("a batch's frames have room for a header");
    header.emit_seeded(head, seed);
    let (fields, payload) = inline[..end].split_at_mut(fields_end);
    let mut sum = Checksum::of(fields);
    copy(payload, &mut sum)?;
    store_checksum(fields, sum);
    Ok(())
}

/// Copies the payload inline (true) or names its segments (false).
fn place(
    payload: Payload<'_>,
    inline_max: u64,
    inline: &mut [u8],
    segments: &mut FrameSegments,
    memory: &impl HostMemory,
) -> Result<bool, EncodeError> {
    match payload {
        Payload::None => Ok(true),
        Payload::Pool { pool, chain, offset, bytes } => {
            pool.read(chain, offset as usize, &mut inline[..bytes as usize]);
            Ok(true)
        }
        Payload::Host { list, offset, bytes } => {
            let gathered = (bytes > inline_max || bytes > inline.len() as u64)
                && list.range(offset, bytes, |piece| segments.try_push(piece)).is_ok();
            if !gathered {
                segments.clear();
                let inline = inline.get_mut(..bytes as usize).ok_or(EncodeError::Unsendable)?;
                list.read(memory, offset, inline)?;
            }
            Ok(!gathered)
        }
    }
}

/// Adds a contact frame (hello or reply), which has no peer entry behind it. Zeros make it `bytes_min` long (`LONG-2`).
pub(crate) fn contact_frame(
    batch: &mut TransmitBatch,
    hop: Hop<'_>,
    header: &Header,
    bytes_min: usize,
    body: impl FnOnce(&mut [u8]) -> usize,
) {
    let Ok(()) = batch.add_long(hop, bytes_min, |inline, _| {
        let fields = HEADER_BYTES + body(&mut inline[HEADER_BYTES..]);
        let end = fields.max(bytes_min);
        inline[fields..end].fill(0);
        let header = Header { length: (end - HEADER_BYTES) as u16, ..*header };
        let head = inline.first_chunk_mut().expect("a batch's frames have room for a header");
        header.emit_seeded(head, emp_wire::Seed::CONTACT);
        store_checksum(inline, Checksum::of(&inline[..end]));
        Ok::<_, core::convert::Infallible>(end)
    });
}
