//! Sending: which frames leave together, in which call, and what an error means for them.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;

use emp_wire::LinkAddress;

use super::{BATCH_MAX, DOUBTS_MAX, PARTS_MAX, RETRY_SEGMENTS_SENDS, UdpLink, train};
use crate::failure::SendFailure;
use crate::gather::{Filling, Gather};
use crate::name::SocketName;
use crate::{TxFrame, system};

impl UdpLink {
    /// The address of a frame, or `None` if the frame can never be sent.
    #[inline]
    pub(super) fn destination(&self, frame: &TxFrame<'_>, bytes: usize) -> Option<SocketAddr> {
        let most = self.capabilities.frame_bytes_max.max(self.long.most());
        let fits = (1..=most).contains(&bytes);
        if !fits || frame.parts.len() > PARTS_MAX {
            return None;
        }
        frame.to.as_udp().filter(|to| to.is_ipv4() == self.local.is_ipv4())
    }

    /// Sends a copy of the frame to every configured peer (`HELLO-5`). Copies that find no room are lost:
    /// frames to everyone only look for nodes, and are repeated.
    pub(super) fn send_to_everyone(&mut self, frame: &TxFrame<'_>) {
        for index in 0..self.peers.len() {
            let to = LinkAddress::udp(self.peers[index]);
            let copy = TxFrame { to, parts: frame.parts };
            let bytes = copy.len();
            let short = bytes <= self.capabilities.frame_bytes_max;
            if !short || self.destination(&copy, bytes).is_none() {
                self.counts.send_refused += 1;
                continue;
            }
            self.send_trains(&[copy]);
        }
        self.send_to_group(frame);
    }

    /// Sends a frame that fits a datagram and has nothing to leave with: by the socket of its peer, or else by the link's. True if it was taken.
    #[inline]
    pub(super) fn send_lone(&mut self, to: SocketAddr, frame: &TxFrame<'_>, bytes: usize) -> bool {
        let copied = self.copied(frame, bytes);
        let own = (self.socket.as_fd(), self.local);
        if let Some(leads) = self.send_only.as_mut().and_then(|all| all.lead(own, to, bytes)) {
            self.counts.send_calls += 1;
            let sent = if copied {
                system::send(leads, &self.copy[..bytes])
            } else {
                let mut filling = self.gather.fill();
                filling.begin();
                filling.parts(frame.parts);
                filling.send(leads, 0)
            };
            match sent.map_err(|error| SendFailure::of(&error)) {
                Ok(_) => return self.sent_lone(bytes),
                Err(SendFailure::Full) => {
                    self.counts.send_full += 1;
                    return false;
                }
                // What it means is asked by the link's own socket.
                Err(_) => self.send_only.iter_mut().for_each(|all| all.fail(to)),
            }
        }
        if !copied {
            return self.send_trains(std::slice::from_ref(frame)).0 == 1;
        }
        let name = SocketName::of(to);
        loop {
            self.counts.send_calls += 1;
            match system::send_to(self.socket.as_fd(), &self.copy[..bytes], &name) {
                Ok(_) => return self.sent_lone(bytes),
                Err(error) => match self.judge(&error, 1) {
                    SendFailure::Again => {}
                    SendFailure::Full => return false,
                    SendFailure::Refused | SendFailure::Lost => return true,
                },
            }
        }
    }

    /// Puts the parts of a frame together if it is short. True if they are.
    #[inline]
    pub(super) fn copied(&mut self, frame: &TxFrame<'_>, bytes: usize) -> bool {
        let Some(mut room) = self.copy.get_mut(..bytes) else { return false };
        for part in frame.parts {
            let (place, rest) = room.split_at_mut(part.len());
            place.copy_from_slice(part);
            room = rest;
        }
        true
    }

    /// Counts a frame that has left: it was taken.
    #[inline]
    pub(super) fn sent_lone(&mut self, bytes: usize) -> bool {
        self.counts.frames_sent += 1;
        self.counts.bytes_sent += bytes as u64;
        true
    }

    /// Gathers the frames at the front of `batch` into trains and sends them, as far as they fit
    /// into one call and are not refused. Returns how many frames were taken, and whether the link
    /// is full.
    pub(super) fn send_trains(&mut self, batch: &[TxFrame<'_>]) -> (usize, bool) {
        self.try_segments_again();
        // Taken out for the while, so that errors can be counted while messages are in it.
        let mut gather = std::mem::replace(&mut self.gather, Gather::new(0, 0));
        let mut filling = gather.fill();
        let mut frames_of = [0u8; BATCH_MAX];
        self.fill_trains(&mut filling, &mut frames_of, batch);
        self.alone = false;
        let mut left = &frames_of[..filling.messages()];
        let (mut taken, mut full) = (0, false);
        while !left.is_empty() && !full {
            let at = filling.messages() - left.len();
            let frames = usize::from(left[0]);
            self.counts.send_calls += 1;
            match filling.send(self.socket.as_fd(), at) {
                Ok(sent) => {
                    let (gone, rest) = left.split_at(sent.min(left.len()));
                    for (message, frames) in gone.iter().enumerate() {
                        self.counts.bytes_sent += filling.sent_bytes(at + message) as u64;
                        self.counts.frames_sent += u64::from(*frames);
                        taken += usize::from(*frames);
                        if *frames > 1 {
                            self.trust_segments();
                        }
                    }
                    left = rest;
                }
                Err(error) if frames > 1 && cannot_segment(&error) => {
                    // The caller comes back with the same frames, which now go one by one.
                    self.alone = true;
                    self.doubt_segments();
                    break;
                }
                Err(error) => match self.judge(&error, frames) {
                    SendFailure::Again => {}
                    SendFailure::Full => full = true,
                    SendFailure::Refused | SendFailure::Lost => {
                        taken += frames;
                        left = &left[1..];
                    }
                },
            }
        }
        self.gather = gather;
        (taken, full)
    }

    /// Makes one message of each train at the front of `batch`, and notes its number of frames.
    fn fill_trains<'a>(
        &self,
        filling: &mut Filling<'_, 'a>,
        frames_of: &mut [u8; BATCH_MAX],
        batch: &[TxFrame<'a>],
    ) {
        let mut rest = batch;
        let segments_max = if self.alone { 1 } else { self.segments_max };
        while let Some(first) = rest.first() {
            let bytes = first.len();
            let short = bytes <= self.capabilities.frame_bytes_max;
            let Some(to) = self.destination(first, bytes).filter(|_| short) else { break };
            let train = train::longest(rest, segments_max);
            if !filling.has_room(train.parts) {
                break;
            }
            frames_of[filling.messages()] = train.frames as u8;
            filling.begin();
            filling.name(&SocketName::of(to));
            if train.frames > 1 {
                filling.segment(train.frame_bytes as u16);
            }
            let (frames, others) = rest.split_at(train.frames);
            for frame in frames {
                filling.parts(frame.parts);
            }
            rest = others;
        }
    }

    /// Segmentation that was given up is tried again after many sends.
    pub(super) fn try_segments_again(&mut self) {
        if self.segments_max < self.segments_once {
            self.sends_alone += 1;
            if self.sends_alone >= RETRY_SEGMENTS_SENDS {
                (self.sends_alone, self.doubts) = (0, DOUBTS_MAX - 1);
                self.segments_max = self.segments_once;
            }
        }
    }

    /// The kernel has taken a segmented send.
    pub(super) fn trust_segments(&mut self) {
        self.doubts = 0;
        if !self.capabilities.segmentation {
            self.capabilities.segmentation = true;
            self.capabilities.long_frame_bytes = self.long.bytes(true);
        }
    }

    /// The kernel has not taken a segmented send as such. Several in a row end them.
    #[cold]
    pub(super) fn doubt_segments(&mut self) {
        self.counts.system_errors += 1;
        self.doubts += 1;
        if self.doubts >= DOUBTS_MAX {
            self.segments_max = 1;
            self.capabilities.segmentation = false;
            self.capabilities.long_frame_bytes = 0;
        }
    }

    /// Decides what the failed send of so many frames means, and counts it.
    #[cold]
    pub(super) fn judge(&mut self, error: &io::Error, frames: usize) -> SendFailure {
        let failure = SendFailure::of(error);
        match failure {
            SendFailure::Full => self.counts.send_full += 1,
            SendFailure::Refused => self.counts.send_refused += frames as u64,
            SendFailure::Lost => self.counts.system_errors += frames as u64,
            SendFailure::Again => {}
        }
        failure
    }
}

/// What the kernel says when the card cannot do checksums, or the kernel not so many segments, or when they are longer than the
/// interface takes now.
pub(super) fn cannot_segment(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EMSGSIZE))
}
