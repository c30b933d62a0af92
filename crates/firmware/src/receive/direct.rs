//! Long messages of peers on this machine: read from the sender's memory (`DIRECT-2`), one copy and no frames.
//!
//! The sender has named its memory in the first frame. If it cannot be read, the message is pulled like any other.

use alloc::boxed::Box;
use arrayvec::ArrayVec;
use emp_wire::{LongPart, PIECES_MAX, Pieces, Reason};

use super::ReceiveSide;
use super::kept::KEPT_BYTES;
use super::pulling::Puller;
use crate::counters::Counter;
use crate::memory::{FetchError, HostMemory, PeerMemory, Segment, SegmentList};
use crate::pair::Peers;

/// Bytes read at a time: half a millisecond in which nothing else happens on the node.
const FETCH_BYTES_MAX: u64 = 4 << 20;

/// Segments of this host's memory filled at a time; a list has more only if it is in small pieces.
const FETCH_SEGMENTS_MAX: usize = 16;

/// Where the sender has a message.
pub(super) struct Direct {
    stamp: u64,
    pieces: SegmentList,
}

/// The list of pieces that a first frame may carry in place of payload; and its payload.
#[inline]
pub(super) fn parse<'a>(
    long: Option<&LongPart>,
    payload: &'a [u8],
) -> Result<(Option<Box<Direct>>, &'a [u8]), Reason> {
    match long {
        Some(long) if long.pieces > 0 => Ok((Some(parse_list(long, payload)?), &[])),
        _ => Ok((None, payload)),
    }
}

#[cold]
fn parse_list(long: &LongPart, payload: &[u8]) -> Result<Box<Direct>, Reason> {
    let pieces = Pieces::parse(payload, long.total_bytes)?;
    let list: ArrayVec<Segment, PIECES_MAX> =
        pieces.iter().map(|(address, bytes)| Segment { address, bytes }).take(PIECES_MAX).collect();
    let stamp = pieces.stamp;
    let pieces = SegmentList::new(&list).map_err(|_| Reason::Field)?;
    Ok(Box::new(Direct { stamp, pieces }))
}

impl ReceiveSide {
    /// Brings here what the sender of a message does not send unasked: reads it, or pulls it.
    pub(super) fn bring(&mut self, index: u32) {
        let Some(incoming) = self.incoming.at(index) else { return };
        if incoming.direct.is_some() && incoming.pulling.left().1 > 0 {
            self.direct.push_back((index, self.incoming.generation(index)));
        } else {
            self.pull_more(Puller::Message(index));
        }
    }

    /// Messages wait to be read.
    pub(crate) fn is_fetching(&self) -> bool {
        !self.direct.is_empty()
    }

    /// Reads the next part of the next message, unless more than `bytes_max` are left of it. Returns a peer that turns out
    /// to be gone.
    pub(crate) fn fetch_some(
        &mut self,
        peers: &Peers,
        memory: &mut impl HostMemory,
        bytes_max: u64,
    ) -> Option<u32> {
        let (index, generation) = *self.direct.front()?;
        let Some(incoming) = self.incoming.get(index, generation) else {
            self.direct.pop_front();
            return None;
        };
        if incoming.pulling.left().1 > bytes_max {
            return None;
        }
        self.direct.pop_front();
        let peer = incoming.peer;
        match self.fetch_part(index, peers, memory) {
            Ok(bytes) => {
                self.counters.add(Counter::BytesFetched, bytes);
                self.counters.add(Counter::BytesPlaced, bytes);
                let incoming = self.incoming.at_mut(index)?;
                incoming.pulling.skip(bytes);
                if incoming.pulling.left().1 > 0 {
                    // Others have their turn.
                    self.direct.push_back((index, generation));
                } else {
                    self.advance(index, memory);
                    self.send_ended();
                }
                None
            }
            Err(error) => {
                self.counters.count(Counter::FetchRefused);
                self.incoming.at_mut(index)?.direct = None;
                self.pull_more(Puller::Message(index));
                (error == FetchError::Gone).then_some(peer)
            }
        }
    }

    /// Reads as much of what is left of a message as one turn takes.
    fn fetch_part(
        &mut self,
        index: u32,
        peers: &Peers,
        memory: &mut impl HostMemory,
    ) -> Result<u64, FetchError> {
        let incoming = self.incoming.at(index).ok_or(FetchError::Refused)?;
        let direct = incoming.direct.as_ref().ok_or(FetchError::Refused)?;
        let (link, &peer) = peers[incoming.peer].route().ok_or(FetchError::Refused)?;
        let (offset, left) = incoming.pulling.left();
        let kept = incoming.kept_from(offset, left);
        let mut to = ArrayVec::<Segment, FETCH_SEGMENTS_MAX>::new();
        let mut bytes = 0;
        let fill = |piece: Segment| {
            to.try_push(piece).map_err(|_| ())?;
            bytes += piece.bytes;
            Ok::<(), ()>(())
        };
        // The list is cut short where it is full: the rest has another turn.
        let most = (left - kept).min(FETCH_BYTES_MAX);
        let _ = self.room_of(Puller::Message(index)).range(offset, most, fill);
        let kept = if bytes == left - kept { kept } else { 0 };
        let mut pieces = ArrayVec::<Segment, PIECES_MAX>::new();
        let named = |piece: Segment| pieces.try_push(piece).map_err(|_| FetchError::Refused);
        direct.pieces.range(offset, bytes + kept, named)?;
        if bytes + kept == 0 {
            return Err(FetchError::Refused);
        }
        let from = PeerMemory { link, peer, stamp: direct.stamp, pieces: &pieces };
        let mut last = [0; KEPT_BYTES];
        let last = &mut last[..kept as usize];
        memory.fetch(&from, &to, last)?;
        if let Some(incoming) = self.incoming.at_mut(index) {
            incoming.keep(offset + bytes, last).map_err(|_| FetchError::Refused)?;
        }
        Ok(bytes + kept)
    }
}
