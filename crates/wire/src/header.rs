//! The common header, 32 bytes at the start of every frame (`FRAME-1`).

use crate::{Checksum, Epoch, HEADER_BYTES, Reason, Seed, Sequence};

/// Version of the wire format that this crate speaks (`VERSION-1`).
pub const VERSION: u8 = 1;

mod field {
    use core::ops::Range;

    pub const VERSION_KIND: usize = 0;
    pub const FLAGS: usize = 1;
    pub const LENGTH: Range<usize> = 2..4;
    pub const DESTINATION_TAG: Range<usize> = 4..6;
    pub const DESTINATION_EPOCH: Range<usize> = 6..8;
    pub const SOURCE_TAG: Range<usize> = 8..12;
    pub const SOURCE_EPOCH: Range<usize> = 12..16;
    pub const SEQUENCE: Range<usize> = 16..20;
    pub const ACKNOWLEDGE: Range<usize> = 20..24;
    pub const WORD: Range<usize> = 24..28;
    pub const CHECKSUM: Range<usize> = 28..32;
}

const _: () = assert!(field::CHECKSUM.end == HEADER_BYTES);
const _: () = assert!(field::DESTINATION_TAG.start == crate::DESTINATION_TAG_OFFSET);
const _: () = assert!(field::VERSION_KIND == crate::KIND_OFFSET);

/// What a frame is (`FRAME-2`). The names are those of SPEC.md.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "each kind is described in the file of its name")]
pub enum Kind {
    Hello = 1,
    HelloReply = 2,
    Message = 3,
    Data = 4,
    Ack = 5,
    NotReady = 6,
    Pull = 7,
    Block = 8,
    Done = 9,
    Close = 10,
    Put = 11,
    Get = 12,
    Atomic = 13,
    Slice = 14,
    Skip = 15,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 15] = [
        Self::Hello,
        Self::HelloReply,
        Self::Message,
        Self::Data,
        Self::Ack,
        Self::NotReady,
        Self::Pull,
        Self::Block,
        Self::Done,
        Self::Close,
        Self::Put,
        Self::Get,
        Self::Atomic,
        Self::Slice,
        Self::Skip,
    ];

    /// The kind of this number. Those from 16 on are reserved for frames with an extension block (`VERSION-3`).
    pub const fn from_number(number: u8) -> Option<Self> {
        if number == 0 || number as usize > Self::ALL.len() {
            return None;
        }
        Some(Self::ALL[number as usize - 1])
    }

    /// Name as used by fault plans, captures and counters.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hello => "hello",
            Self::HelloReply => "hello-reply",
            Self::Message => "message",
            Self::Data => "data",
            Self::Ack => "ack",
            Self::NotReady => "not-ready",
            Self::Pull => "pull",
            Self::Block => "block",
            Self::Done => "done",
            Self::Close => "close",
            Self::Put => "put",
            Self::Get => "get",
            Self::Atomic => "atomic",
            Self::Slice => "slice",
            Self::Skip => "skip",
        }
    }

    /// True if frames of this kind carry a sequence number, are acknowledged and resent (`SEQ-2`).
    pub const fn sequenced(self) -> bool {
        !matches!(
            self,
            Self::Hello | Self::HelloReply | Self::Ack | Self::NotReady | Self::Close | Self::Slice
        )
    }

    /// True if the body starts with the sender's whole identity; the others are known by tag and epoch (`FRAME-4`).
    pub const fn identified(self) -> bool {
        !matches!(self, Self::Data | Self::Block | Self::Skip | Self::Slice)
    }

    /// True for the two kinds that are exchanged before the ends know each other (`CRC-2`).
    pub const fn contact(self) -> bool {
        matches!(self, Self::Hello | Self::HelloReply)
    }
}

/// The flag bits of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// The acknowledge field is valid: a piggybacked acknowledgement (V18).
    pub const ACK: Self = Self(0x01);
    /// The sender wants an acknowledgement now (V20).
    pub const ACK_REQUEST: Self = Self(0x02);
    /// The checksum covers header and body fields only, not the payload (`CRC-3`).
    pub const PAYLOAD_UNCHECKED: Self = Self(0x04);
    /// Last frame of its train (a message's unscheduled part, or a block).
    pub const LAST: Self = Self(0x08);
    /// Message, put: the long part is present, more than one frame belongs to it.
    pub const LONG: Self = Self(0x10);
    /// Done: the word names a get or a fetch of the frame's receiver (`GET-3`).
    pub const REPLY: Self = Self(0x10);
    /// Ack: the frame that it names came and was not taken, as its train's first had not come (`ACK-7`).
    pub const UNTAKEN: Self = Self(0x10);
    /// Ack: of the frames that came since the last such acknowledgement some were marked by the network (`ACK-9`).
    pub const MARKED: Self = Self(0x20);
    /// Atomic: the old values are wanted (`ATOMIC-4`).
    pub const FETCH: Self = Self(0x10);
    /// Message, put: eight bytes of immediate data are present.
    pub const IMMEDIATE: Self = Self(0x20);
    /// Message: the sender wants to know when it is matched (synchronous send).
    pub const SYNCHRONOUS: Self = Self(0x40);
    /// Message, put, atomic: it was cancelled after it had got its number; the receiver counts it and forgets it (`MSG-5`).
    pub const VOID: Self = Self(0x80);

    /// True if every bit of `other` is set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// `other` added if `condition`.
    #[must_use]
    pub const fn with_if(self, condition: bool, other: Self) -> Self {
        if condition { self.with(other) } else { self }
    }
}

/// The common header's values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// What the frame is.
    pub kind: Kind,
    /// Flag bits.
    pub flags: Flags,
    /// Bytes of body and payload after the header; link padding comes after them.
    pub length: u16,
    /// Tag of the node it is for.
    pub destination_tag: u16,
    /// Low 16 bits of the epoch that the sender believes the destination is in; 0 if unknown.
    pub destination_epoch: u16,
    /// Tag of the sender.
    pub source_tag: u32,
    /// The sender's epoch towards this destination.
    pub source_epoch: Epoch,
    /// Sequence number, for sequenced kinds; else 0.
    pub sequence: Sequence,
    /// Next sequence number expected from the destination, if [`Flags::ACK`].
    pub acknowledge: Sequence,
    /// A word whose meaning depends on the kind.
    pub word: u32,
}

impl Header {
    /// Writes the header with an empty checksum field.
    pub fn emit(&self, into: &mut [u8; HEADER_BYTES]) {
        self.emit_seeded(into, Seed::CONTACT);
    }

    /// Writes the header with the seed in the checksum field: ready for the checksum (without one for `CRC-4`), whose pass reads
    /// words of 8 bytes. So they are written: a processor waits for narrower stores that lie within a later load.
    #[inline]
    pub fn emit_seeded(&self, into: &mut [u8; HEADER_BYTES], seed: Seed) {
        write_words(into, &self.words(seed.0));
    }

    /// Writes the header with the checksum of a short frame: of it and of `rest`, what is covered of what follows. All but the checksum
    /// first, from registers: words that the sum was put into are stored and loaded again, and the load waits for the store.
    #[inline(always)]
    pub fn emit_summed(&self, into: &mut [u8; HEADER_BYTES], seed: Seed, rest: &ShortRest<'_>) {
        let words = self.words(seed.0);
        write_words(into, &words);
        let mut sum = Checksum::of_short(words, rest.fields);
        if !rest.payload.is_empty() {
            sum.update(rest.payload);
        }
        into[field::CHECKSUM].copy_from_slice(&sum.value().to_be_bytes());
    }

    /// The header as words, each with its first byte lowest, as sums read them; `last` is in the checksum field.
    #[inline(always)]
    fn words(&self, last: u32) -> [u64; 4] {
        let first = u64::from(VERSION << 5 | self.kind as u8) << 56
            | u64::from(self.flags.0) << 48
            | u64::from(self.length) << 32
            | u64::from(self.destination_tag) << 16
            | u64::from(self.destination_epoch);
        let words = [
            first,
            u64::from(self.source_tag) << 32 | u64::from(self.source_epoch.0),
            u64::from(self.sequence.0) << 32 | u64::from(self.acknowledge.0),
            u64::from(self.word) << 32 | u64::from(last),
        ];
        words.map(u64::swap_bytes)
    }

    /// Reads the header; returns it and the body with payload (link padding cut off). The checksum is not checked here.
    #[inline]
    pub fn parse(frame: &[u8]) -> Result<(Self, &[u8]), Reason> {
        let Some((head, rest)) = frame.split_first_chunk::<HEADER_BYTES>() else {
            return Err(Reason::TooShort);
        };
        let header = Self::parse_head(head)?;
        let body = rest.get(..usize::from(header.length)).ok_or(Reason::Length)?;
        Ok((header, body))
    }

    /// Reads the header of a frame whose rest lies elsewhere: whether that is as long as it says is the caller's to check.
    #[inline]
    pub fn parse_head(head: &[u8; HEADER_BYTES]) -> Result<Self, Reason> {
        if head[field::VERSION_KIND] >> 5 != VERSION {
            return Err(Reason::Version);
        }
        let kind = Kind::from_number(head[field::VERSION_KIND] & 0x1F).ok_or(Reason::Kind)?;
        Ok(Self {
            kind,
            flags: Flags(head[field::FLAGS]),
            length: u16_at(head, field::LENGTH.start),
            destination_tag: u16_at(head, field::DESTINATION_TAG.start),
            destination_epoch: u16_at(head, field::DESTINATION_EPOCH.start),
            source_tag: u32_at(head, field::SOURCE_TAG.start),
            source_epoch: Epoch(u32_at(head, field::SOURCE_EPOCH.start)),
            sequence: Sequence(u32_at(head, field::SEQUENCE.start)),
            acknowledge: Sequence(u32_at(head, field::ACKNOWLEDGE.start)),
            word: u32_at(head, field::WORD.start),
        })
    }
}

/// What a checksum covers behind a header, in the parts in which it was written: summed apart, no load has to wait for two
/// stores that it lies across.
pub struct ShortRest<'a> {
    /// The kind's fields.
    pub fields: &'a [u8],
    /// What it covers of the payload that stands behind them.
    pub payload: &'a [u8],
}

#[inline]
fn write_words(into: &mut [u8; HEADER_BYTES], words: &[u64; 4]) {
    let (places, _) = into.as_chunks_mut::<8>();
    for (place, word) in places.iter_mut().zip(words) {
        *place = word.to_le_bytes();
    }
}

/// Puts another value into the checksum field of a header in words; returns the one that was there.
#[inline]
fn replace_checksum(words: &mut [u64; 4], value: u32) -> u32 {
    let [.., last] = words;
    let before = ((*last >> 32) as u32).swap_bytes();
    *last = u64::from(value.swap_bytes()) << 32 | *last & u64::from(u32::MAX);
    before
}

/// The frames of a link frame (`BUNDLE-1`): at least one, however short. The last has what the link pads, and all that is left
/// where a header says nothing sensible.
#[inline]
pub fn frames(link_frame: &[u8]) -> Frames<'_> {
    Frames { rest: Some(link_frame) }
}

/// What [`frames`] gives.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest.take()?;
        if is_frame(rest) {
            let end = HEADER_BYTES + usize::from(u16_at(rest, field::LENGTH.start));
            if let Some((first, others)) = rest.split_at_checked(end)
                && is_frame(others)
            {
                self.rest = Some(others);
                return Some(first);
            }
        }
        Some(rest)
    }
}

/// True if these bytes may begin with a frame: what the link pads does not, as padding is shorter, or begins with zeros.
#[inline]
fn is_frame(bytes: &[u8]) -> bool {
    bytes.len() >= HEADER_BYTES && bytes[field::VERSION_KIND] >> 5 == VERSION
}

/// The checksum field of a frame that [`Header::parse`] accepted.
pub fn checksum_of(frame: &[u8]) -> u32 {
    frame.first_chunk::<HEADER_BYTES>().map_or(0, |head| u32_at(head, field::CHECKSUM.start))
}

/// Checks a received frame of which `covered` body bytes are under the checksum.
#[inline(always)]
pub fn verify(frame: &[u8], covered: usize, seed: Seed) -> Result<(), Reason> {
    let end = HEADER_BYTES + covered;
    let (Some(head), Some(rest)) = (frame.first_chunk(), frame.get(HEADER_BYTES..end)) else {
        return Err(Reason::BodyShort);
    };
    let mut words = words_of(head);
    let checksum = replace_checksum(&mut words, seed.0);
    if Checksum::of_short(words, rest).value() == checksum { Ok(()) } else { Err(Reason::Checksum) }
}

/// Checks a received frame that crossed no wire, and so carries its seed in place of a checksum (`CRC-4`).
#[inline]
pub fn verify_unsummed(frame: &[u8], covered: usize, seed: Seed) -> Result<(), Reason> {
    if frame.len() < HEADER_BYTES + covered {
        return Err(Reason::BodyShort);
    }
    if checksum_of(frame) == seed.0 { Ok(()) } else { Err(Reason::Checksum) }
}

/// The checksum of a received frame's header, to be continued with what it covers of the rest.
#[inline]
pub fn head_checksum(head: &[u8; HEADER_BYTES], seed: Seed) -> Checksum {
    let mut words = words_of(head);
    replace_checksum(&mut words, seed.0);
    Checksum::of_short(words, &[])
}

/// A header as it is written, each word's first byte lowest.
#[inline]
fn words_of(head: &[u8; HEADER_BYTES]) -> [u64; 4] {
    let ([a, b, c, d], _) = head.as_chunks::<8>() else { unreachable!("a header is four words") };
    [*a, *b, *c, *d].map(u64::from_le_bytes)
}

/// Starts the checksum of a frame that is written: header and the body bytes that `head` holds. Leaves the seed in the
/// checksum field until [`store_checksum`]. A header that was written with it ([`Header::emit_seeded`]) needs but
/// [`Checksum::of`].
#[inline]
pub fn begin_checksum(head: &mut [u8], seed: Seed) -> Checksum {
    head[field::CHECKSUM].copy_from_slice(&seed.0.to_be_bytes());
    Checksum::of(head)
}

/// Writes the finished checksum into the header.
#[inline]
pub fn store_checksum(head: &mut [u8], sum: Checksum) {
    head[field::CHECKSUM].copy_from_slice(&sum.value().to_be_bytes());
}

/// A big-endian 16-bit value. The caller has checked the length.
#[inline]
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// A big-endian 32-bit value. The caller has checked the length.
#[inline]
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A big-endian 64-bit value. The caller has checked the length.
#[inline]
pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) << 32 | u64::from(u32_at(bytes, at + 4))
}
