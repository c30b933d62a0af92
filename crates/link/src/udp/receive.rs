//! Receiving: what a call fetches, and how merged datagrams become frames again.

use std::os::fd::{AsFd, BorrowedFd};

use emp_wire::{HEADER_BYTES, LinkAddress};

use super::fetching::{FETCH_MANY_BELOW_BYTES, own_bytes};
use super::inbox::Message;
use super::long::{first_frame, long_bytes};
use super::scatter::{Fetched, PLACED_MAX, Seen};
use super::{OFFERS_MAX, UdpLink};
use crate::{FrameSink, LinkStatistics, is_for, stamps};

/// Frames that are looked at first after one that came instead of another: where two peers take turns, or a peer's messages do, each
/// would be copied once more.
pub(super) const LOOKS_AFTER_MISS: u32 = 16;

impl UdpLink {
    /// True if the inbox holds something that was not handed up yet.
    pub(super) fn holds_frames(&self) -> bool {
        self.next.0 < self.inbox.filled()
    }

    /// Refills the inbox. False if nothing was there.
    #[inline]
    pub(super) fn fetch(&mut self) -> bool {
        self.counts.receive_calls += 1;
        self.next = (0, 0);
        match self.inbox.fetch(self.socket.as_fd(), self.fetching.next()) {
            Ok(()) => {
                let alone = self.inbox.filled() == 1;
                if let Some(Message { bytes, segment_bytes, marked, .. }) = self.inbox.message(0) {
                    let whole = own_bytes(bytes) == Some(bytes.len())
                        && segment_bytes.is_none_or(|segment_bytes| segment_bytes == bytes.len());
                    let full = bytes.len() >= self.capabilities.frame_bytes_max;
                    self.fetching.found(bytes.len(), alone && whole && !full && !marked);
                }
                true
            }
            Err(error) => {
                self.fetching.found_nothing();
                if !matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EINTR)) {
                    self.counts.system_errors += 1;
                }
                false
            }
        }
    }

    /// Hands up to `budget` frames out of the inbox to `sink`; a train that it takes in one go may go beyond that.
    pub(super) fn hand_up(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        let mut handed = 0;
        let mut marked = false;
        while let Some(message) = self.inbox.message(self.next.0) {
            if message.marked != marked {
                marked = message.marked;
                sink.marked(marked);
            }
            let from = message.name.decode().map(LinkAddress::udp);
            let usable = from.filter(|_| !message.truncated);
            let Some(from) = usable else {
                self.counts.receive_lost += 1;
                self.next = (self.next.0 + 1, 0);
                continue;
            };
            let Some(frame_bytes) = message.segment_bytes else {
                handed += self.hand_up_plain(budget - handed, &from, sink);
                if self.holds_frames() {
                    break;
                }
                continue;
            };
            let mut offers = OFFERS_MAX;
            while self.next.1 < message.bytes.len() && handed < budget {
                let rest = &message.bytes[self.next.1..];
                let train = rest.len() > frame_bytes && offers > 0;
                if train && long_bytes(rest, frame_bytes).is_none() {
                    offers -= 1;
                    let taken = sink.train(rest, frame_bytes, &from).min(rest.len());
                    if taken > 0 {
                        let frames = taken.div_ceil(frame_bytes);
                        self.counts.frames_received += frames as u64;
                        self.counts.bytes_received += taken as u64;
                        (self.next.1, handed) = (self.next.1 + taken, handed + frames);
                        continue;
                    }
                }
                let Some((frame, next)) = first_frame(rest, frame_bytes) else {
                    self.counts.receive_lost += 1;
                    self.next.1 = message.bytes.len();
                    break;
                };
                self.next.1 += next;
                if is_for(frame, self.node_tag) {
                    self.counts.frames_received += 1;
                    self.counts.bytes_received += frame.len() as u64;
                    handed += 1;
                    sink.frame(frame, &from);
                    if frame.len() > frame_bytes
                        && let Some(head) = frame.first_chunk()
                        && let Some(behind) = sink.following(head)
                    {
                        self.expected = Seen::behind(head, behind, from, frame_bytes);
                    }
                } else {
                    self.counts.not_for_us += 1;
                }
            }
            if self.next.1 < message.bytes.len() {
                break;
            }
            self.next = (self.next.0 + 1, 0);
        }
        handed
    }

    /// The same of what was fetched of which nothing was told: frames that lie one behind the other, in one datagram or several that were merged.
    fn hand_up_plain(
        &mut self,
        budget: usize,
        from: &LinkAddress,
        sink: &mut dyn FrameSink,
    ) -> usize {
        let mut handed = 0;
        while let Some(message) = self.inbox.message(self.next.0)
            && handed < budget
        {
            let rest = &message.bytes[self.next.1..];
            let own = own_bytes(rest);
            let first = self.next.1 == 0;
            // What is no frame is for whoever counts such: of its own, or what a link pads a frame with. Were datagrams like that merged, the next
            // ones are found when they are sent again, as from now on it is told where each begins.
            if own.is_none() {
                self.fetching.must_be_told();
            }
            let frame = &rest[..own.unwrap_or(rest.len())];
            self.next.1 += frame.len();
            if own.is_none() && !first {
                // Too short for a tag it is nobody's, as where it is told where it begins.
                let count = if rest.len() < HEADER_BYTES {
                    &mut self.counts.not_for_us
                } else {
                    &mut self.counts.receive_lost
                };
                *count += u64::from(rest.iter().any(|byte| *byte != 0));
            } else if is_for(frame, self.node_tag) {
                self.counts.frames_received += 1;
                self.counts.bytes_received += frame.len() as u64;
                handed += 1;
                sink.frame(frame, from);
            } else {
                self.counts.not_for_us += 1;
            }
            if self.next.1 >= message.bytes.len() {
                self.next = (self.next.0 + 1, 0);
            }
        }
        handed
    }
}

/// How a look at what waits ended.
pub(super) enum Looked {
    /// So many frames were handed up.
    Handed(usize),
    /// There is nothing.
    Empty,
    /// What waits is to be fetched the usual way.
    Usual,
}

impl UdpLink {
    /// Hands up the train that waits, its payload placed where the sink wants it.
    /// How many frames the caller wants does not matter: it has asked for these.
    ///
    /// After a frame the next one of its message or block is expected, and fetched without a look (a system call of 0.5 µs in a frame's 9). What comes
    /// instead is put together out of where it landed, where nothing was yet.
    pub(super) fn place_train(&mut self, sink: &mut dyn FrameSink) -> Looked {
        if let Some(next) = self.expected.take() {
            if self.looks > 0 {
                self.looks -= 1;
            } else if let Some(looked) = self.fetch_placed(next, true, sink) {
                return looked;
            }
        }
        let Some(scatter) = &mut self.scatter else { return Looked::Usual };
        self.counts.receive_calls += 1;
        match scatter.look(self.socket.as_fd()) {
            Ok(Some(seen)) => self.fetch_placed(seen, false, sink).unwrap_or(Looked::Usual),
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Looked::Empty,
            Ok(None) | Err(_) => Looked::Usual,
        }
    }

    /// Fetches what was seen, or is only `expected`. `None`: it is not to be placed, and nothing was fetched.
    fn fetch_placed(
        &mut self,
        seen: Seen,
        expected: bool,
        sink: &mut dyn FrameSink,
    ) -> Option<Looked> {
        let scatter = self.scatter.as_mut()?;
        let train = &seen.train;
        let landing = sink.landing(train)?;
        if !scatter.may_place(landing) {
            return None;
        }
        let frames = train.frames_with(landing.len()).filter(|frames| *frames <= PLACED_MAX)?;
        let placed_bytes = landing.len() + frames * HEADER_BYTES;
        self.counts.receive_calls += 1;
        let got = match scatter.fetch(self.socket.as_fd(), &seen, frames, landing) {
            Ok(got) => got,
            Err(error) if expected && error.raw_os_error() == Some(libc::EAGAIN) => {
                self.expected = Some(seen);
                return Some(Looked::Empty);
            }
            // If the user's memory is not what it was said to be, nothing more is placed there; the train is lost.
            Err(_) => {
                self.counts.system_errors += 1;
                return Some(Looked::Handed(0));
            }
        };
        self.fetching.after_long = got.bytes >= FETCH_MANY_BELOW_BYTES;
        if got.as_seen {
            self.counts.frames_received += frames as u64;
            self.counts.bytes_received += placed_bytes as u64;
            tell_of_last(self.socket.as_fd(), got.marked, sink);
            sink.landed(train, scatter.heads(frames));
            // Of frames that fit a datagram many are fetched in one call.
            if let [head] = scatter.heads(frames)
                && train.bytes == train.frame_bytes
                && let Some(next) = sink.following(head)
            {
                self.expected = Seen::behind(head, next, train.from, got.segment_bytes);
            }
            // What ends within a datagram has nothing of the next frame behind it.
            let next = placed_bytes.next_multiple_of(got.segment_bytes);
            let rest = scatter.rest(placed_bytes, next, got.bytes);
            let others = hand_up_all(&mut self.counts, self.node_tag, rest, &got, sink);
            return Some(Looked::Handed(frames + others));
        }
        // Another one: that which was seen failed its checksum, which the kernel looks at late, or it was only expected.
        self.looks = if expected { LOOKS_AFTER_MISS } else { self.looks };
        let whole = scatter.gather(train, frames, landing, &got);
        tell_of_last(self.socket.as_fd(), got.marked, sink);
        let handed = hand_up_all(&mut self.counts, self.node_tag, &whole, &got, sink);
        Some(Looked::Handed(handed))
    }
}

/// What the sink is to know of what was fetched last.
#[inline]
fn tell_of_last(socket: BorrowedFd<'_>, marked: bool, sink: &mut dyn FrameSink) {
    stamps::tell_of_last(sink, socket);
    if marked {
        sink.marked(true);
    }
}

/// Hands up frames that lie one after the other.
fn hand_up_all(
    counts: &mut LinkStatistics,
    node_tag: u16,
    bytes: &[u8],
    got: &Fetched,
    sink: &mut dyn FrameSink,
) -> usize {
    let Some(from) = got.from.filter(|_| !got.truncated) else {
        counts.receive_lost += 1;
        return 0;
    };
    let (mut handed, mut rest) = (0, bytes);
    while !rest.is_empty() {
        let Some((frame, next)) = first_frame(rest, got.segment_bytes) else {
            counts.receive_lost += 1;
            break;
        };
        rest = &rest[next..];
        if is_for(frame, node_tag) {
            counts.frames_received += 1;
            counts.bytes_received += frame.len() as u64;
            handed += 1;
            sink.frame(frame, &from);
        } else {
            counts.not_for_us += 1;
        }
    }
    handed
}

#[cfg(test)]
mod tests;
