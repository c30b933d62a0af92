//! The short way of a post: a small message to a peer that nothing else waits for goes into the batch at once, instead of
//! through the queues for [`poll`](SendPath::poll) to find it there. What is noted of it is the same.

use emp_wire::{Flags, Kind, Message};

use super::bookkeeping::{handle, op_id};
use super::record::{Active, Record, What};
use super::transmission::Outlet;
use super::{Load, SendMessage, SendPath, Stage, Work};
use crate::counters::Counter;
use crate::descriptor::{
    Completion, CompletionMode, OpKind, PostError, Posted, SendDescriptor, Status,
};
use crate::encode::{self, EncodeError, Head, Line, Payload};
use crate::limits::{FRAME_SEGMENTS_MAX, WINDOW_FRAMES};
use crate::memory::HostMemory;
use crate::path::{PathId, Way};
use crate::profile::Profile;
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// As what a message leaves at once.
pub(crate) struct Form<'a> {
    pub(crate) path: PathId,
    pub(crate) way: Way<'a>,
    /// In a frame that may be longer than the MTU; and how long it is.
    pub(crate) long: bool,
    pub(crate) load: Load,
    /// Payload bytes of its frames: it has one.
    pub(crate) fragment: u16,
    /// Frames of the usual length that it would take.
    pub(crate) usual_frames: u32,
    /// Its payload may be read where it is when it departs, and not copied before.
    pub(crate) lent: bool,
    pub(crate) end: AtOnceEnd,
}

/// When a message that leaves at once is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AtOnceEnd {
    /// With its post: what may have to be sent again is copied.
    Over,
    /// When it is acknowledged: until then it stays with the host. That is asked for, and may ride on the answer (`ACK-6`).
    Acknowledged,
}

/// Bytes that may be under way for a message that is longer than most to leave at once: 64 KB with their headers. Behind more it would
/// wait, and what waits leaves in fewer calls. Those that are then copied are complete with that; otherwise both of two programs that send a few messages and then wait would have to send as many
/// acknowledgements (1.8 µs each); one that sends more goes on meanwhile.
const LITTLE_BYTES: u32 = 66_000;

/// Bytes from which on a payload that is lent is not copied next to its header: what that saves is then more than what one more
/// piece of memory costs the kernel, and summing while copying gains.
const LENT_BYTES_MIN: u64 = 4096;

impl SendPath {
    /// Whether this message would be the next frame to its peer by `path`, and whole: then
    /// [`post_at_once`](Self::post_at_once) may send it, if that path is there and takes such frames ([`Peers::small_way`],
    /// [`Peers::long_way`]).
    #[inline(always)]
    pub(crate) fn may_go_at_once(
        &self,
        peer: u32,
        send: &SendDescriptor,
        (path, long): (PathId, bool),
    ) -> Option<AtOnceEnd> {
        let bytes = send.segments.bytes();
        if send.synchronous || bytes > self.profile.eager_bytes || self.messages.is_full() {
            return None;
        }
        let end = self.end_at_once(peer, send, long)?;
        if end == AtOnceEnd::Over && !self.pool.has_room(bytes) {
            return None;
        }
        let entry = &self.peers[peer];
        if !entry.found || self.loopback == Some(peer) {
            return None;
        }
        let Some(active) = entry.active.as_deref() else { return Some(end) };
        let may = active.is_waiting()
            && active.refusals == 0
            && (entry.next.since(active.unacked) as u32) < WINDOW_FRAMES
            && active.flight(path).in_flight + bytes as u32 <= entry.window(&self.further, path);
        may.then_some(end)
    }

    /// When a message that leaves at once is complete. `None`: it is too long for its host to wait while it leaves.
    #[inline]
    fn end_at_once(&self, peer: u32, send: &SendDescriptor, long: bool) -> Option<AtOnceEnd> {
        let bytes = send.segments.bytes();
        let Profile { buffered_bytes, long_buffered_bytes, .. } = self.profile;
        let usual = || bytes <= u64::from(buffered_bytes);
        let alone = || long && self.has_little_under_way(peer);
        match send.completion {
            CompletionMode::Buffered => Some(AtOnceEnd::Over),
            _ if !usual() && !alone() => None,
            CompletionMode::Auto if bytes <= long_buffered_bytes.max(buffered_bytes).into() => {
                Some(AtOnceEnd::Over)
            }
            // What is not copied has to fit a frame piece by piece when it is sent again: beside its header there is no room for a long one.
            _ if long && send.segments.as_slice().len() > FRAME_SEGMENTS_MAX => None,
            CompletionMode::Auto | CompletionMode::Delivered => Some(AtOnceEnd::Acknowledged),
        }
    }

    /// Nothing is under way to a peer that had to be sent again, and little else.
    #[inline]
    fn has_little_under_way(&self, peer: u32) -> bool {
        let little =
            |active: &Active| active.lost() == 0 && active.flights.in_flight() <= LITTLE_BYTES;
        self.peers[peer].active.as_deref().is_none_or(little)
    }

    /// Posts a message and builds its frame. Only if [`may_go_at_once`](Self::may_go_at_once),
    /// and the batch has room. Once the frame is built `depart` is called, which may send it and says what time it is; the
    /// rest is done while it is under way.
    #[inline]
    pub(crate) fn post_at_once(
        &mut self,
        peer: u32,
        send: SendDescriptor,
        form: &Form<'_>,
        out: &mut Outlet<'_, impl HostMemory>,
        depart: impl FnOnce(&TransmitBatch) -> Time,
    ) -> Result<Posted, PostError> {
        let Some((index, generation)) = self.messages.next_name() else {
            return Err(PostError::Busy);
        };
        let Form { path, way, long, load, fragment, usual_frames, lent, end } = form;
        let (path, load, fragment) = (*path, *load, *fragment);
        let over = *end == AtOnceEnd::Over;
        // Both are looked at: that is shorter than to choose.
        let asks = self.asks(&self.peers[peer], path, self.peers[peer].next, load.bytes);
        let request = asks | (*end == AtOnceEnd::Acknowledged);
        let (sequence, number) = (self.peers[peer].next, self.peers[peer].next_number);
        let bytes = send.segments.bytes() as u32;

        let Outlet { peers, cross, memory, batch, frame_bytes_max } = out;
        // Made where it is used, of registers: what is stored in between is loaded in other pieces, which waits for the stores.
        let (own, frame_bytes_max, immediate) = (peers.own, *frame_bytes_max, send.immediate);
        let fields = move || Message {
            node: own,
            source_endpoint: send.endpoint,
            destination_endpoint: send.to_endpoint,
            match_bits: send.match_bits,
            frame_bytes_max,
            handle: handle(index, generation),
            long: None,
            immediate,
        };
        let cell = &mut cross.acks[peer];
        let flags = Flags::ACK.with(Flags::LAST).with_if(request, Flags::ACK_REQUEST);
        let (flags, acknowledge) = (flags.with(fields().flags()), cell.acknowledge);
        let head = Head { kind: Kind::Message, flags, sequence, acknowledge, word: number };
        let (bundles, check_payload) = (self.profile.bundles, self.checks_payload(Some(*way)));
        let way = Some(*way);
        // If it is over, the buffer is the caller's own again when this returns: all of it is copied, whatever its length, or gone.
        let lent = (*lent || !over) && *long && send.segments.as_slice().len() == 1;
        let inline_bytes = if lent { LENT_BYTES_MIN } else { u64::MAX };
        let lent = lent && u64::from(bytes) > inline_bytes;
        let (source_tag, peer_entry, long) = (peers.source_tag, &peers[peer], *long);
        let line =
            Line { source_tag, peer: peer_entry, way, check_payload, inline_bytes, bundles, long };
        let list = &send.segments;
        let payload = Payload::Host { list, offset: 0, bytes: bytes.into() };
        let body = move |into: &mut [u8]| fields().emit(into);
        let built = encode::frame(batch, &line, &head, body, payload, *memory).map(drop);
        match built {
            Ok(()) => {}
            Err(EncodeError::Full) => return Err(PostError::Busy),
            Err(EncodeError::Unsendable) => return Err(PostError::TooLong),
            Err(EncodeError::Fault) => return Err(PostError::MemoryFault),
        }
        let now = depart(batch);

        // What is sent again comes from the pool where the buffer is the caller's own again, and else from there.
        let chain = over.then(|| self.pool.alloc(bytes as usize).expect("it has room for it"));
        if let Some(chain) = &chain {
            if lent {
                let list = &send.segments;
                let read = |at: usize, slice: &mut [u8]| list.read(*memory, at as u64, slice);
                let filled = self.pool.fill(chain, bytes as usize, read);
                filled.expect("memory that lends has no faults");
            } else {
                self.pool.write(chain, 0, batch.last_bytes(bytes as usize));
            }
        }
        let copies = u64::from(over) + u64::from(!lent);
        self.counters.add(Counter::BytesCopied, copies * u64::from(bytes));
        if cell.carry(now) {
            self.counters.count(Counter::AcksPiggybacked);
        }

        let op = op_id(OpKind::Send, index, generation);
        let completion = over.then_some(Completion {
            op,
            context: send.context,
            status: Status::Ok,
            bytes: bytes.into(),
            total_bytes: bytes.into(),
            peer: send.to,
            peer_endpoint: send.to_endpoint,
            match_bits: send.match_bits,
            immediate: send.immediate,
            place: crate::descriptor::BufferPlace::WHOLE,
        });
        self.messages.insert_with(|| SendMessage {
            number: Some(number),
            unscheduled: bytes,
            first_payload: bytes,
            fragment,
            usual_frames: *usual_frames,
            stage: Stage::Sending,
            completed: over,
            ..SendMessage::new(peer, Work::Message, send, chain)
        });
        // Behind the message, whose place is named in its frame, and before its frame, which may be the only one under way.
        self.settle_ack_beside(now, peer);
        let what = What::Message { message: index, number };
        self.note_at_once(now, peer, what, (path, load), request);
        Ok(Posted { op, over: completion })
    }

    /// Notes a frame that went out as the next of its peer, a train of its own.
    #[inline]
    fn note_at_once(
        &mut self,
        now: Time,
        peer: u32,
        what: What,
        (path, load): (PathId, Load),
        request: bool,
    ) {
        let entry = &mut self.peers[peer];
        let first = entry.next;
        entry.next = first.plus(1);
        entry.next_number = entry.next_number.wrapping_add(1);
        let active = self.activate_at(peer, first, now);
        let was_waiting = active.flight(path).is_waiting();
        let usual_frames = 1;
        active.records.push_back(Record {
            first,
            count: 1,
            sent: 1,
            acked: 0,
            path,
            usual_frames,
            what,
        });
        (active.train_next, active.train_end) = (first, first.plus(1));
        let resent = active.on_sent(first, (path, load), request, now);
        self.count_sent((path, load), resent);
        if load.long {
            self.arm(peer, now);
        } else if !was_waiting {
            self.arm_later(peer, now);
        }
    }
}
