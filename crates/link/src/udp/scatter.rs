//! Fetching a train so that the kernel puts payload where it belongs: heads here, what follows them there.
//!
//! The head of the train that waits is looked at first (`MSG_PEEK`), unless it is known from the last one what should come;
//! then it is fetched with a list of places: a head's, a payload's, a head's, a payload's, and one for all that is left. What
//! came instead of what was expected is put together again.
//!
//! # Invariant
//!
//! The kernel writes only to this struct's own boxes and to the slice that [`Scatter::fetch`] was given, only during
//! that call, and only as many bytes as the places have. What is left in `iovecs` afterwards is never read again before
//! it was overwritten.

use std::io;
use std::mem::{size_of, zeroed};
use std::ops::Range;
use std::os::fd::BorrowedFd;

use emp_wire::{Flags, HEADER_BYTES, Header, Kind, LinkAddress, Seed};

use super::inbox::{BUFFER_BYTES, CONTROL_BYTES, Control, Told};
use super::long::long_head;
use crate::name::RawName;
use crate::system;
use crate::{Head, Train};

/// Most frames whose payload is placed in one call: as many as the longest train of a sender like ours has.
pub(super) const PLACED_MAX: usize = 64;

/// Ranges of memory that are remembered as ones that the kernel could not write to: those of as many broken receives at a time.
const REFUSED_MAX: usize = 8;

/// As many trains for such a range are not placed before it is tried again: other memory may be there by then, and a train that fails is
/// lost.
const TRIED_AGAIN_AFTER: u32 = 1_000;

/// Memory that the kernel could not write to. What is for it is fetched the usual way, and whoever copies there finds out.
#[derive(Default)]
struct Refused {
    /// And how many trains more are not placed there. The last one is the oldest.
    ranges: Vec<(Range<usize>, u32)>,
}

impl Refused {
    fn note(&mut self, place: Range<usize>) {
        // Pieces of one buffer come one behind the other.
        let touches =
            |(range, _): &(Range<usize>, u32)| range.start <= place.end && place.start <= range.end;
        let place = match self.ranges.iter().position(touches) {
            Some(at) => {
                let (range, _) = self.ranges.remove(at);
                range.start.min(place.start)..range.end.max(place.end)
            }
            None => place,
        };
        self.ranges.truncate(REFUSED_MAX - 1);
        self.ranges.insert(0, (place, TRIED_AGAIN_AFTER));
    }

    /// Nothing is to be placed there now.
    fn holds(&mut self, place: &Range<usize>) -> bool {
        let within =
            |(range, _): &(Range<usize>, u32)| range.start < place.end && place.start < range.end;
        let Some(at) = self.ranges.iter().position(within) else { return false };
        self.ranges[at].1 -= 1;
        if self.ranges[at].1 == 0 {
            self.ranges.remove(at);
        }
        true
    }
}

/// Where memory is, as numbers.
fn place_of(memory: &[u8]) -> Range<usize> {
    let start = memory.as_ptr() as usize;
    start..start + memory.len()
}

/// The places. See the module's invariant.
pub(super) struct Scatter {
    refused: Refused,
    heads: Box<[Head; PLACED_MAX]>,
    iovecs: Box<[libc::iovec; 2 * PLACED_MAX + 1]>,
    name: Box<RawName>,
    control: Box<Control>,
    rest: Box<[u8]>,
}

// SAFETY: the raw pointers in `iovecs` are used only during a call that wrote them; nothing is tied to a thread.
unsafe impl Send for Scatter {}

/// What was seen to wait, or is expected to.
pub(super) struct Seen {
    /// As its receiver is to take it.
    pub(super) train: Train,
    /// Bytes of the datagrams that were merged, and of all of them.
    segment_bytes: usize,
    bytes: usize,
}

impl Seen {
    /// The long frame behind the one with this head, which came from there in datagrams of so many bytes: with the next number and place,
    /// and so many bytes of payload.
    pub(super) fn behind(
        head: &Head,
        payload_bytes: usize,
        from: LinkAddress,
        segment_bytes: usize,
    ) -> Option<Self> {
        let before = Header::parse_head(head).ok()?;
        let bytes = HEADER_BYTES + payload_bytes;
        // What fits a datagram is seen by nobody before it is fetched, and what would fill the last is cut otherwise.
        let cut = bytes > segment_bytes && !bytes.is_multiple_of(segment_bytes);
        let length = u16::try_from(payload_bytes).ok().filter(|_| cut)?;
        let (kind, word) = match before.kind {
            Kind::Message => (Kind::Data, 1),
            kind => (kind, before.word.wrapping_add(1)),
        };
        let (sequence, flags) = (before.sequence.plus(1), Flags::default());
        let mut head = [0; HEADER_BYTES];
        Header { kind, length, sequence, word, flags, ..before }
            .emit_seeded(&mut head, Seed::CONTACT);
        let train = Train { from, head, frame_bytes: bytes, bytes };
        Some(Self { train, segment_bytes, bytes })
    }
}

/// Two heads are of frames that belong to the same place: what they acknowledge, their flags and their checksums may differ.
fn alike(one: &Head, other: &Head) -> bool {
    const SAME: [std::ops::Range<usize>; 4] = [0..1, 2..16, 16..20, 24..28];
    SAME.into_iter().all(|range| one[range.clone()] == other[range])
}

#[cfg(test)]
impl Seen {
    /// As if this had been seen.
    pub(super) fn of(train: Train) -> Self {
        Self { train, segment_bytes: train.frame_bytes, bytes: train.bytes }
    }
}

/// What was fetched.
pub(super) struct Fetched {
    /// It is the train that was waited for, by sender, lengths and the first head.
    pub(super) as_seen: bool,
    /// Its sender, if known, the length of its datagrams, and of all of them; the end may have been cut off.
    pub(super) from: Option<LinkAddress>,
    pub(super) segment_bytes: usize,
    pub(super) bytes: usize,
    pub(super) truncated: bool,
    /// A switch has marked it.
    pub(super) marked: bool,
}

impl Scatter {
    pub(super) fn new() -> Self {
        // SAFETY: all-zero is valid for this C structure (null pointer, no length).
        let iovec = unsafe { zeroed::<libc::iovec>() };
        Self {
            refused: Refused::default(),
            heads: Box::new([[0; HEADER_BYTES]; PLACED_MAX]),
            iovecs: Box::new([iovec; 2 * PLACED_MAX + 1]),
            name: Box::new(RawName::empty()),
            control: Box::new(Control([0; CONTROL_BYTES])),
            rest: vec![0; BUFFER_BYTES].into(),
        }
    }

    /// Calls `recvmsg` with the first so many places. Returns the message's header and what the call did.
    ///
    /// # Safety
    ///
    /// The places name memory that is alive, writable and borrowed by nobody.
    unsafe fn receive(
        &mut self,
        fd: BorrowedFd<'_>,
        places: usize,
        flags: libc::c_int,
    ) -> io::Result<(usize, libc::msghdr)> {
        // SAFETY: all-zero is valid for this C structure.
        let mut message = unsafe { zeroed::<libc::msghdr>() };
        message.msg_name = (&raw mut *self.name).cast();
        message.msg_namelen = size_of::<RawName>() as libc::socklen_t;
        message.msg_iov = self.iovecs.as_mut_ptr();
        message.msg_iovlen = places as _;
        message.msg_control = (&raw mut *self.control).cast();
        message.msg_controllen = CONTROL_BYTES as _;
        // SAFETY: name, control and the list are our own; the places are the caller's promise.
        let bytes = unsafe { system::receive_message_with(fd, &mut message, flags)? };
        Ok((bytes, message))
    }

    /// Looks at the train that waits first, and leaves it there. A long frame is a train of one. `None`: what waits is not a train.
    pub(super) fn look(&mut self, fd: BorrowedFd<'_>) -> io::Result<Option<Seen>> {
        let head = &mut self.heads[0];
        self.iovecs[0] = libc::iovec { iov_base: head.as_mut_ptr().cast(), iov_len: HEADER_BYTES };
        // SAFETY: the one place is our own.
        let (bytes, message) = unsafe { self.receive(fd, 1, libc::MSG_PEEK | libc::MSG_TRUNC)? };
        let from = self.name.decode().map(LinkAddress::udp);
        let segment_bytes =
            self.told(&message).merged_bytes.filter(|s| *s > HEADER_BYTES && bytes > *s);
        Ok(from.zip(segment_bytes).and_then(|(from, segment_bytes)| {
            let head = self.heads[0];
            let train = match long_head(&head, segment_bytes) {
                Some(long) if long > bytes => return None,
                Some(long) => Train { from, head, frame_bytes: long, bytes: long },
                None => Train { from, head, frame_bytes: segment_bytes, bytes },
            };
            Some(Seen { train, segment_bytes, bytes })
        }))
    }

    fn told(&self, message: &libc::msghdr) -> Told {
        Told::of(&self.control.0[..message.msg_controllen.min(CONTROL_BYTES)])
    }

    /// False: the kernel could not write to that memory lately.
    pub(super) fn may_place(&mut self, landing: &[u8]) -> bool {
        self.refused.ranges.is_empty() || !self.refused.holds(&place_of(landing))
    }

    /// Fetches what waits: `frames` heads to our own places, what follows them to `landing`, the rest to our own.
    pub(super) fn fetch(
        &mut self,
        fd: BorrowedFd<'_>,
        seen: &Seen,
        frames: usize,
        landing: &mut [u8],
    ) -> io::Result<Fetched> {
        let train = &seen.train;
        let place = place_of(landing);
        let mut left = landing;
        for index in 0..frames {
            let bytes = train.frame_bytes_of(index).saturating_sub(HEADER_BYTES).min(left.len());
            let (payload, others) = left.split_at_mut(bytes);
            left = others;
            let head = self.heads[index].as_mut_ptr().cast();
            self.iovecs[2 * index] = libc::iovec { iov_base: head, iov_len: HEADER_BYTES };
            let payload = payload.as_mut_ptr().cast();
            self.iovecs[2 * index + 1] = libc::iovec { iov_base: payload, iov_len: bytes };
        }
        let rest =
            libc::iovec { iov_base: self.rest.as_mut_ptr().cast(), iov_len: self.rest.len() };
        self.iovecs[2 * frames] = rest;
        // SAFETY: each place is our own, or a part of `landing`, which is borrowed for this call alone.
        let received = unsafe { self.receive(fd, 2 * frames + 1, 0) };
        let (bytes, message) = received.inspect_err(|error| {
            if error.raw_os_error() == Some(libc::EFAULT) {
                self.refused.note(place);
            }
        })?;
        let from = self.name.decode().map(LinkAddress::udp);
        let Told { merged_bytes, marked } = self.told(&message);
        let segment_bytes = merged_bytes.unwrap_or(bytes).max(1);
        let truncated = message.msg_flags & libc::MSG_TRUNC != 0;
        let as_seen = from == Some(train.from)
            && (segment_bytes, bytes) == (seen.segment_bytes, seen.bytes)
            && alike(&self.heads[0], &train.head)
            && !truncated;
        Ok(Fetched { as_seen, from, segment_bytes, bytes, truncated, marked })
    }

    /// Heads of the frames that [`fetch`](Self::fetch) placed.
    pub(super) fn heads(&self, frames: usize) -> &[Head] {
        &self.heads[..frames]
    }

    /// What lies behind the first `placed` of `bytes` bytes, which were placed, from byte `next` on.
    pub(super) fn rest(&self, placed: usize, next: usize, bytes: usize) -> &[u8] {
        let end = bytes.saturating_sub(placed).min(self.rest.len());
        self.rest[..end].get(next - placed..).unwrap_or_default()
    }

    /// Puts what [`fetch`](Self::fetch) got, but should not have placed so, together again.
    pub(super) fn gather(
        &self,
        train: &Train,
        frames: usize,
        landing: &[u8],
        got: &Fetched,
    ) -> Vec<u8> {
        let mut whole = Vec::with_capacity(got.bytes);
        let mut left = landing;
        for index in 0..frames {
            if whole.len() >= got.bytes {
                break;
            }
            whole.extend_from_slice(&self.heads[index]);
            let bytes = train.frame_bytes_of(index).saturating_sub(HEADER_BYTES).min(left.len());
            let (payload, others) = left.split_at(bytes);
            // Something short may have come where a long frame was expected: what lies behind it is not of it.
            let came = got.bytes.saturating_sub(whole.len()).min(bytes);
            whole.extend_from_slice(&payload[..came]);
            left = others;
        }
        whole.truncate(got.bytes);
        whole.extend_from_slice(self.rest(whole.len(), whole.len(), got.bytes));
        whole
    }
}
