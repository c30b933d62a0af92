//! Frames longer than the MTU: one header, then more payload than a datagram holds. The kernel cuts them (`UDP_SEGMENT`) and the
//! receiver's kernel puts them together again (`UDP_GRO`), or they are lost.
//!
//! A receiver finds them by their header, whose length goes beyond the datagram that begins with it, however they were cut. One
//! that arrives in one datagram is a frame like any other.
//!
//! # Payload that is referenced, not copied
//!
//! Where pieces are spliced ([`super::splice`]) the frame names pages until its receiver has read them, longer than the call
//! that sends it. The firmware gives a buffer back when the peer has acknowledged what is in it, so a page that changes sooner
//! than it is read belongs to a frame whose bytes have already come another way: a duplicate, which the peer drops by its
//! number. No payload that is under a frame's checksum is spliced (`CRC-3`). Operations that ended without an answer (the peer was silent for
//! too long) give buffers back as well: a peer that wakes up late does not take such frames (`CRC-5`). Nothing waits for the kernel to let
//! go of pages.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::time::Instant;

use emp_wire::{Flags, HEADER_BYTES, Header, KIND_OFFSET, Kind, LONG_FRAME_BYTES};

use super::copy_or_splice::{By, Costs, Shape};
use super::past_ip::{NO_ROOM_SENDS, Sent};
use super::splice::{self, Pipe};
use super::splice_test::splicing_works;
use super::{DOUBTS_MAX, RETRY_SEGMENTS_SENDS, SEGMENTS_MAX, UdpLink, send};
use crate::failure::SendFailure;
use crate::name::SocketName;
use crate::{Head, TxFrame};

/// Where the flags of a frame are (`FRAME-1`).
const FLAGS_OFFSET: usize = 1;

/// What a link knows about its long frames.
pub(super) struct Long {
    /// Longest frame in bytes that it ever carries so; 0 for none.
    most: usize,
    /// Bytes of the datagrams that one is cut into, as the MTU is now.
    segment_bytes: usize,
    /// `None`: payload is copied.
    pub(super) pipe: Option<Pipe>,
    /// What frames cost either way.
    pub(super) costs: Costs,
    /// Whether pages can be spliced was found out.
    tried: bool,
    /// Frames that are copied before one is spliced again.
    resting: u32,
    /// Frames in a row whose splicing failed, and could be copied.
    doubts: u32,
    /// Frames that were copied since splicing was given up. `None`: it was not, or cannot be had here.
    copied: Option<u32>,
    /// Why it was given up the first time: `None` until then, an empty text once that was said.
    notice: Option<String>,
}

impl Long {
    /// For a link that segments, or does not, with other frames of up to `frame_bytes_max` bytes. Long ones are cut into datagrams of
    /// at most `segment_bytes`.
    pub(super) fn new(frame_bytes_max: usize, segment_bytes: usize, segments: bool) -> Self {
        let longer = frame_bytes_max < LONG_FRAME_BYTES;
        let most = if segments && longer && enough(frame_bytes_max) { LONG_FRAME_BYTES } else { 0 };
        Self {
            most,
            segment_bytes,
            pipe: None,
            costs: Costs::new(),
            tried: false,
            resting: 0,
            doubts: 0,
            copied: None,
            notice: None,
        }
    }

    /// Finds out, once, whether pages can be spliced: a link that never sends a long frame need not know.
    pub(super) fn try_splicing(&mut self) {
        if !self.tried && self.most > 0 {
            self.tried = true;
            let able = splicing_works();
            self.pipe = if able { Pipe::open().ok() } else { None };
        }
    }

    /// Longest frame in bytes that is sent in one segmented send now; 0 for none.
    pub(super) fn bytes(&self, segments: bool) -> usize {
        if segments && enough(self.segment_bytes) { self.most } else { 0 }
    }

    /// Longest frame in bytes that was ever promised: it is sent even if it has to go in fragments of IP.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Frames that are cut from now on are cut into datagrams of at most so many bytes.
    pub(super) fn cut_to(&mut self, segment_bytes: usize) {
        self.segment_bytes = segment_bytes;
    }

    /// A frame whose splicing failed went when it was copied.
    fn doubt(&mut self, error: &io::Error) {
        self.doubts += 1;
        if self.doubts >= DOUBTS_MAX {
            (self.pipe, self.copied) = (None, Some(0));
            self.notice.get_or_insert_with(|| {
                format!(
                    "long datagrams are copied, as the kernel does not take their pages: {error}"
                )
            });
        }
    }

    /// What people should know of, once.
    pub(super) fn take_notice(&mut self) -> Option<String> {
        let notice = core::mem::take(self.notice.as_mut()?);
        (!notice.is_empty()).then_some(notice)
    }

    /// Splicing that was given up is tried again after some frames: what it failed at may have passed.
    fn try_splicing_again(&mut self) {
        let Some(copied) = &mut self.copied else { return };
        *copied += 1;
        if *copied >= RETRY_SEGMENTS_SENDS {
            self.pipe = Pipe::open().ok();
            (self.doubts, self.copied) = (DOUBTS_MAX - 1, self.pipe.is_none().then_some(0));
        }
    }

    /// A frame was not spliced.
    fn renew(&mut self) {
        self.pipe = Pipe::open().ok();
        self.copied = self.pipe.is_none().then_some(0);
    }

    /// Size of the datagrams that a frame of so many bytes is cut into. The last is always shorter, so that no card or kernel
    /// on the way merges the next one to it.
    fn segment_of(&self, bytes: usize) -> Option<u16> {
        let fits = bytes > self.segment_bytes && bytes <= self.most && enough(self.segment_bytes);
        let whole = bytes.is_multiple_of(self.segment_bytes);
        u16::try_from(self.segment_bytes - usize::from(whole)).ok().filter(|_| fits)
    }
}

/// True if datagrams of so many bytes are long enough to cut a long frame into as many as kernels take.
fn enough(segment_bytes: usize) -> bool {
    segment_bytes * SEGMENTS_MAX >= LONG_FRAME_BYTES
}

impl UdpLink {
    /// Sends a frame longer than others by itself, its payload spliced where that costs less and it `lasts` as long. True if it was
    /// taken.
    pub(super) fn send_long(
        &mut self,
        to: SocketAddr,
        frame: &TxFrame<'_>,
        bytes: usize,
        lasts: bool,
    ) -> bool {
        self.try_segments_again();
        self.long.try_splicing_again();
        let usable = self.segments_max > 1;
        let segment = self.long.segment_of(bytes).filter(|_| usable);
        let mut parts = splice::split(frame.parts).filter(|_| lasts && !is_summed(frame));
        if parts.is_some() {
            self.long.try_splicing();
            parts = parts.filter(|_| self.long.pipe.is_some());
        }
        let rests = self.long.resting > 0;
        let (Some(segment), Some(parts), false) = (segment, parts, rests) else {
            let taken = self.copy_long(to, frame, bytes, segment);
            self.long.resting = self.long.resting.saturating_sub(u32::from(taken));
            return taken;
        };
        let shape = Shape { bytes, alone: is_alone(frame) };
        let by = self.long.costs.next(shape);
        let begun = Instant::now();
        let taken = match by {
            By::Copy => self.copy_long(to, frame, bytes, Some(segment)),
            By::Splice => match self.splice_long(to, parts, segment) {
                Ok(true) => self.sent_lone(bytes),
                Ok(false) => return self.copy_long(to, frame, bytes, Some(segment)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    // That is found out late, with the pages in the pipe: of the next ones it is by the call that copies.
                    self.long.resting = NO_ROOM_SENDS;
                    self.counts.send_full += 1;
                    return false;
                }
                Err(error) => {
                    self.counts.system_errors += 1;
                    let taken = self.copy_long(to, frame, bytes, Some(segment));
                    // Segmentation may have been at fault, or the peer, and not splicing.
                    if taken && self.doubts == 0 && !is_told_of_peer(&error) {
                        self.long.doubt(&error);
                    }
                    return taken;
                }
            },
        };
        if taken {
            self.long.costs.took(shape, by, begun.elapsed());
        }
        taken
    }

    /// Sends such a frame so that the kernel copies its payload: past IP where that may be, else by the link's socket. True if it was taken.
    fn copy_long(
        &mut self,
        to: SocketAddr,
        frame: &TxFrame<'_>,
        bytes: usize,
        mut segment: Option<u16>,
    ) -> bool {
        match segment.map(|segment| self.send_past_ip(to, frame, bytes, segment)) {
            Some(Sent::Taken) => return true,
            Some(Sent::Full) => return false,
            Some(Sent::NotNow) | None => {}
        }
        let name = SocketName::of(to);
        loop {
            let mut filling = self.gather.fill();
            filling.begin();
            filling.name(&name);
            segment.into_iter().for_each(|bytes| filling.segment(bytes));
            filling.parts(frame.parts);
            self.counts.send_calls += 1;
            let Err(error) = filling.send(self.socket.as_fd(), 0) else { break };
            if segment.is_some() && send::cannot_segment(&error) {
                self.doubt_segments();
                if is_of_kind(frame, Kind::Hello) {
                    // Whether such frames get through is what it asks: in fragments it would.
                    self.counts.system_errors += 1;
                    return true;
                }
                // As one datagram: the kernel sends it in fragments of IP, which is slow, and better than not at all.
                segment = None;
                continue;
            }
            match self.judge(&error, 1) {
                SendFailure::Again => {}
                SendFailure::Full => return false,
                SendFailure::Refused | SendFailure::Lost => return true,
            }
        }
        if segment.is_some() {
            self.trust_segments();
        }
        self.sent_lone(bytes)
    }

    /// Sends a frame, as [`splice::split`], with its payload spliced. False: that cannot be done to there.
    fn splice_long(
        &mut self,
        to: SocketAddr,
        parts: (&[IoSlice<'_>], &[IoSlice<'_>]),
        segment: u16,
    ) -> io::Result<bool> {
        let (Some(pipe), Some(send_only)) = (&mut self.long.pipe, &mut self.send_only) else {
            return Ok(false);
        };
        let own = (self.socket.as_fd(), self.local);
        let Some(socket) = send_only.aim(own, to, segment) else { return Ok(false) };
        self.counts.send_calls += 2;
        if let Err(error) = pipe.send(socket, parts) {
            // An address that is gone, or another way to the peer: what the socket was made for is true no more.
            if error.raw_os_error() == Some(libc::EINVAL) || is_told_of_peer(&error) {
                send_only.forget();
            }
            self.long.renew();
            return Err(error);
        }
        self.long.doubts = 0;
        self.trust_segments();
        Ok(true)
    }
}

/// What a connected socket says of an earlier datagram, by whoever could not deliver it, or of an address that it has no more.
fn is_told_of_peer(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    matches!(
        code,
        Some(
            libc::ECONNREFUSED
                | libc::EHOSTUNREACH
                | libc::ENETUNREACH
                | libc::ENETDOWN
                | libc::EADDRNOTAVAIL
                | libc::EPROTO
        )
    )
}

/// A hello asks whether long frames get through (`LONG-2`).
fn is_of_kind(frame: &TxFrame<'_>, kind: Kind) -> bool {
    byte(frame, KIND_OFFSET) & 0x1F == kind as u8
}

/// It has all of its message.
fn is_alone(frame: &TxFrame<'_>) -> bool {
    let first = is_of_kind(frame, Kind::Message) || is_of_kind(frame, Kind::Put);
    first && flags(frame).has(Flags::LAST)
}

/// False if the frame says that its payload is not under its checksum. One that is was summed in memory that must not change any more, which is
/// promised of no memory that a program may write to: it is copied, so that what is sent is what was summed.
fn is_summed(frame: &TxFrame<'_>) -> bool {
    !flags(frame).has(Flags::PAYLOAD_UNCHECKED)
}

fn flags(frame: &TxFrame<'_>) -> Flags {
    Flags(byte(frame, FLAGS_OFFSET))
}

/// A byte of the head, which is the first part.
fn byte(frame: &TxFrame<'_>, at: usize) -> u8 {
    frame.parts.first().and_then(|head| head.get(at)).copied().unwrap_or(0)
}

/// The frame at the front of datagrams of `segment_bytes` bytes each that were merged, and the bytes up to the next one.
/// `None`: a long frame whose end is missing.
#[inline]
pub(super) fn first_frame(merged: &[u8], segment_bytes: usize) -> Option<(&[u8], usize)> {
    let bytes = long_bytes(merged, segment_bytes).unwrap_or(segment_bytes.min(merged.len()));
    let next = bytes.next_multiple_of(segment_bytes).min(merged.len());
    Some((merged.get(..bytes)?, next))
}

/// Length of a frame that goes beyond the datagram that it begins with. Nothing else has to be true of it. A datagram
/// that is the last is not looked at: what is longer than that was cut short, and is dropped by whoever reads it. Nor are those
/// that are too short for a header.
#[inline]
pub(super) fn long_bytes(merged: &[u8], segment_bytes: usize) -> Option<usize> {
    if merged.len() <= segment_bytes || segment_bytes < HEADER_BYTES {
        return None;
    }
    long_head(merged.first_chunk()?, segment_bytes)
}

/// The same for a head whose datagram is known to be merged with others.
#[inline]
pub(super) fn long_head(head: &Head, segment_bytes: usize) -> Option<usize> {
    let header = Header::parse_head(head).ok()?;
    let bytes = HEADER_BYTES + usize::from(header.length);
    (bytes > segment_bytes).then_some(bytes)
}

#[cfg(test)]
mod tests;
