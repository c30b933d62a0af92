//! Posts of small messages that may leave at once: the host has the frame before anything is noted of it, so that what is
//! noted takes the time in which the frame is under way.

use emp_wire::{HEADER_BYTES, IMMEDIATE_BYTES, LONG_BYTES, LONG_FRAME_BYTES, MESSAGE_BYTES};

use crate::descriptor::{CompletionMode, PostError, Posted, SendDescriptor};
use crate::encode::HEAD_ROOM_BYTES;
use crate::engine::Firmware;
use crate::memory::HostMemory;
use crate::path::PathId;
use crate::send::{AtOnceEnd, Form, Load, Outlet};
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Says that a message may leave at once, and how. Good until anything else is asked of the firmware.
pub struct AtOnce {
    peer: u32,
    path: PathId,
    /// It is too long for a usual frame.
    long: Option<Long>,
    end: AtOnceEnd,
}

/// What is known of a message that leaves in a frame longer than the MTU.
#[derive(Clone, Copy)]
struct Long {
    /// It would take so many of the usual length.
    usual_frames: u32,
}

impl AtOnce {
    /// The message's memory stays as it is until its completion, as that of any [`post_send`](Firmware::post_send); so its frame may
    /// name it, and wait or be sent by reference like others.
    #[inline]
    pub fn lasts(&self) -> bool {
        self.end == AtOnceEnd::Acknowledged
    }
}

/// Bytes of a frame of one message besides its payload, at most.
const SHORT_FIELDS_BYTES: u64 = (HEADER_BYTES + MESSAGE_BYTES + IMMEDIATE_BYTES) as u64;

/// Body and payload of the frame in which a message leaves that is too long for a usual one, as it is cut if it has to wait: with
/// the fields of one that goes on in others.
fn long_fragment(send: &SendDescriptor) -> usize {
    let immediate = if send.immediate.is_some() { IMMEDIATE_BYTES } else { 0 };
    MESSAGE_BYTES + LONG_BYTES + immediate + send.segments.bytes() as usize
}

impl Firmware {
    /// Whether this message would be the next frame to its node, and whole; and the batch has room. `last`
    /// is any earlier time: searches for paths depend on it, and nothing else. `None`: it is to be posted by [`post_send`](Self::post_send),
    /// which also says what is wrong with it.
    #[inline]
    pub fn goes_at_once(
        &mut self,
        last: Time,
        send: &SendDescriptor,
        batch: &TransmitBatch,
    ) -> Option<AtOnce> {
        let open = self.closing.is_none() && self.receive.is_open(send.endpoint);
        // An acknowledgement that is due leaves by itself, and before the message.
        if !open || batch.is_full() || self.receive.has_due_acks() || self.is_full_of_completions()
        {
            return None;
        }
        let peer = self.peers.find(send.to)?;
        if self.receive.has_waiting_done(peer) {
            return None;
        }
        let frame_bytes_max = self.peers[peer].frame_bytes_max;
        let bytes = send.segments.bytes();
        // As much as a buffered message may have, whether with immediate data or without.
        let (path, long) = if bytes + SHORT_FIELDS_BYTES <= frame_bytes_max.into() {
            (self.peers.single_path(last, peer)?, None)
        } else {
            let buffered = matches!(send.completion, CompletionMode::Buffered);
            if buffered && bytes > self.single_frame_bytes_max() as u64 {
                // Refused at any time, and not only when something else is under way.
                return None;
            }
            if self.peers[peer].long == 0 {
                return None;
            }
            let room = HEAD_ROOM_BYTES as u64 + bytes;
            if room > LONG_FRAME_BYTES as u64 || !batch.fits(room as usize) {
                return None;
            }
            if HEADER_BYTES + long_fragment(send) - LONG_BYTES <= batch.frame_bytes_max() {
                // The peer takes only shorter ones, but for the link it is a usual one, which would leave in slices.
                return None;
            }
            let frames = (long_fragment(send) as u64)
                .div_ceil((frame_bytes_max - HEADER_BYTES as u16).into());
            let path = self.peers.long_way(peer, frames as u32)?.0;
            (path, Some(Long { usual_frames: frames as u32 }))
        };
        let form = (path, long.is_some());
        // What came last may have made room for it; that is taken in once.
        let end = loop {
            let end = self.send.may_go_at_once(peer, send, form);
            if end.is_some() || !self.send.settle_acks(last) {
                break end?;
            }
        };
        Some(AtOnce { peer, path, long, end })
    }

    /// Posts a message that [`goes_at_once`](Self::goes_at_once). Its frame is added to the batch; then `depart` is called,
    /// which may send what is in the batch but leaves it as it is, and says what time it is. The completion comes with the post, unless
    /// the message [lasts](AtOnce::lasts); then its frame may name its memory. With `lends` that of any may, and the memory can always be
    /// read: once the post is done such a frame must be gone, [taken in](TransmitBatch::take_in), or forgotten as if it were lost.
    ///
    /// # Errors
    ///
    /// [`PostError::MemoryFault`], [`PostError::TooLong`]; `depart` was not called then.
    #[inline]
    pub fn post_at_once(
        &mut self,
        at_once: &AtOnce,
        send: SendDescriptor,
        memory: &impl HostMemory,
        (batch, lends): (&mut TransmitBatch, bool),
        depart: impl FnOnce(&TransmitBatch) -> Time,
    ) -> Result<Posted, PostError> {
        let AtOnce { peer, path, long, end } = *at_once;
        let frame_bytes_max = self.peers[peer].frame_bytes_max;
        let form = match long {
            None => {
                let way = self.peers.way(peer, path).ok_or(PostError::Busy)?;
                let fragment = frame_bytes_max - HEADER_BYTES as u16;
                let usual_frames = 1;
                let load = Load::of(SHORT_FIELDS_BYTES + send.segments.bytes(), false);
                Form { path, way, long: false, load, fragment, usual_frames, lent: false, end }
            }
            Some(Long { usual_frames }) => {
                let way = self.peers.way(peer, path).ok_or(PostError::Busy)?;
                // It goes on in no others, and has no fields for that.
                let body = long_fragment(&send) - LONG_BYTES;
                let load = Load::of((body + HEADER_BYTES) as u64, true);
                let fragment = long_fragment(&send) as u16;
                Form { path, way, long: true, load, fragment, usual_frames, lent: lends, end }
            }
        };
        let (peers, cross, frame_bytes_max) = (&self.peers, &mut self.cross, self.takes_bytes_max);
        let mut out = Outlet { peers, cross, memory, batch, frame_bytes_max };
        self.send.post_at_once(peer, send, &form, &mut out, depart)
    }

    /// As [`post_send`](Self::post_send); a small message that nothing stands before is in `batch` when this returns, as if
    /// [`poll_transmit`](Self::poll_transmit) had put it there, and its completion may come with the post. Whatever else is in the
    /// batch must still be to be sent.
    #[inline]
    pub fn post_send_into(
        &mut self,
        now: Time,
        send: SendDescriptor,
        memory: &mut impl HostMemory,
        batch: &mut TransmitBatch,
    ) -> Result<Posted, PostError> {
        match self.goes_at_once(now, &send, batch) {
            Some(at_once) => self.post_at_once(&at_once, send, memory, (batch, false), |_| now),
            None => {
                let op = self.post_send(now, send, memory)?;
                Ok(Posted { op, over: None })
            }
        }
    }
}
