//! Receive bookkeeping (I4): classifies a sequenced frame, and decides whether it is taken. Only what is taken is
//! acknowledged; what is acknowledged is never asked for again.

use alloc::boxed::Box;

use emp_wire::{Done, Flags, Header, Kind, NotReadyCause, Pull, Sequence, names_memory};

use super::acknowledge::Debt;
use super::describe::First;
use super::frame::Spot;
use super::pulling::Puller;
use super::sequence::Arrival;
use super::{Incoming, NotTaken, Place, ReceiveSide, Wants};
use crate::counters::Counter;
use crate::cross::{Cross, ToSend};
use crate::event::Limit;
use crate::limits::NOT_READY_MAX;
use crate::memory::HostMemory;
use crate::path::PathId;
use crate::profile::Unexpected;
use crate::time::Time;

/// Payload bytes of frames that are surely longer than the MTU of any Ethernet: their trains are few frames, and each costs much.
const LONG_BYTES_MIN: u16 = 16 << 10;

/// What became of a message in its turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Outcome {
    /// It is on its way to a receive, or wholly stored, or its sender waits for a `done`.
    Taken,
    /// It has its place in the order; its sender must be told that its bytes will be pulled.
    Deferred(NotReadyCause),
    /// It must come again.
    Refused,
    /// It does not come again: who waits for room for it waits for ever.
    Stuck,
}

/// Whether a frame was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    /// It is, or its contents are of no use any more: acknowledge it.
    Taken,
    /// It is not: it will be sent again.
    Dropped(Counter),
    /// It begins a message that is not taken, and its sender is told why (`READY-1`). If that is lost the frame comes again,
    /// and is answered again.
    NotReady(NotReadyCause),
}

impl ReceiveSide {
    /// Takes a sequenced frame of a known peer whose header, checksum and epochs are right.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        (peer, path): (u32, PathId),
        header: &Header,
        body: &[u8],
        cross: &Cross,
        memory: &mut impl HostMemory,
    ) {
        let received = &mut self.peers[peer].received;
        let arrival = received.classify(header.sequence);
        if arrival != Arrival::OutOfWindow {
            received.latest = header.sequence;
        }
        if arrival != Arrival::InOrder && !self.takes_unordered(now, (peer, path), arrival, cross) {
            return;
        }
        let verdict = if is_plain(header) {
            // The same as for all that begin with a first frame, without what these do not have.
            self.on_first(now, peer, header, body, memory)
        } else {
            self.on_other(now, peer, header, body, memory)
        };
        match verdict {
            Verdict::Taken => {}
            // Nothing is owed for it. But puts behind it may have had their turn.
            Verdict::Dropped(counter) => {
                self.send_ended();
                return self.drop_frame(now, (peer, path), header, counter, cross);
            }
            Verdict::NotReady(cause) => {
                self.send_ended();
                return self.refuse((peer, path), header, cause);
            }
        }
        let entry = &mut self.peers[peer];
        let opens_gap = arrival == Arrival::Ahead && entry.received.opens_gap(header.sequence);
        let closed_gap = entry.received.take(header.sequence);
        // Noted of every frame: what comes in order by the first path brings acknowledgements back to it.
        let opens_gap = !entry.overtakes(path, arrival) && opens_gap;
        self.owe(now, peer, Debt::of(header.flags, opens_gap || closed_gap), cross);
    }

    /// A frame was not taken. Of a train of long ones that comes without its first, which alone says where it belongs, the sender hears
    /// at once, by an acknowledgement that names it (`ACK-7`).
    #[inline(never)]
    fn drop_frame(
        &mut self,
        now: Time,
        (peer, path): (u32, PathId),
        header: &Header,
        counter: Counter,
        cross: &Cross,
    ) {
        self.counters.count(counter);
        // Of many frames the first and the last: then it has been heard of all.
        let told = header.word == 1 || header.flags.has(Flags::LAST);
        if counter == Counter::DropBeforeMessage {
            self.hear_sender(now, peer);
        }
        if counter == Counter::DropBeforeMessage && told && header.length >= LONG_BYTES_MIN {
            // By its own path: not in front of the `not-ready` for the first one.
            self.answer_by(peer, path);
            self.owe_untaken(now, peer, cross);
        }
    }

    /// This peer sends long messages: whoever is to be told now how much it may send unasked is acknowledged at once (`CREDIT-4`).
    fn hear_sender(&mut self, now: Time, peer: u32) {
        self.grants.hear(now, peer, self.pool.bytes_free());
        while let Some(peer) = self.grants.take_news() {
            self.owe_grant(peer);
        }
    }

    /// Whether a frame is taken whose turn it is not; what there is to say of one that is not.
    #[inline(never)]
    fn takes_unordered(
        &mut self,
        now: Time,
        (peer, path): (u32, PathId),
        arrival: Arrival,
        cross: &Cross,
    ) -> bool {
        match arrival {
            Arrival::OutOfWindow => {
                self.counters.count(Counter::DropOutOfWindow);
                false
            }
            Arrival::Duplicate => {
                // V14: the acknowledgement may have been lost.
                self.counters.count(Counter::DropDuplicate);
                self.answer_by(peer, path);
                self.owe_now(now, peer, cross);
                false
            }
            Arrival::Ahead if !self.profile.accept_out_of_order => {
                self.counters.count(Counter::DropOutOfOrder);
                self.owe_now(now, peer, cross);
                false
            }
            Arrival::InOrder | Arrival::Ahead => true,
        }
    }

    /// Whether a frame of this number, of which a slice came, would be taken if it were whole. If not, its sender hears so where the slice
    /// `tells`.
    pub(crate) fn wants_slice(
        &mut self,
        now: Time,
        (peer, path): (u32, PathId),
        sequence: Sequence,
        tells: bool,
        cross: &Cross,
    ) -> bool {
        let received = &mut self.peers[peer].received;
        match received.classify(sequence) {
            Arrival::InOrder => true,
            Arrival::Ahead if self.profile.accept_out_of_order => true,
            arrival if tells => {
                if arrival != Arrival::OutOfWindow {
                    received.latest = sequence;
                }
                self.takes_unordered(now, (peer, path), arrival, cross)
            }
            _ => false,
        }
    }

    /// This frame has come, or is so old that it must have.
    pub(crate) fn has_taken(&self, peer: u32, sequence: Sequence) -> bool {
        self.peers[peer].received.contains(sequence)
    }

    /// Takes what a frame brings that is not a message by itself.
    #[inline(never)]
    fn on_other(
        &mut self,
        now: Time,
        peer: u32,
        header: &Header,
        body: &[u8],
        memory: &mut impl HostMemory,
    ) -> Verdict {
        self.credit.set_time(now);
        match header.kind {
            Kind::Message | Kind::Put | Kind::Atomic => {
                let long = header.flags.has(Flags::LONG) && !names_memory(header, body);
                if long || header.length >= LONG_BYTES_MIN {
                    self.hear_sender(now, peer);
                }
                self.on_first(now, peer, header, body, memory)
            }
            Kind::Data | Kind::Block => self.on_payload(peer, header, body, memory),
            Kind::Skip => {
                if self.peers[peer].received.next() != header.sequence {
                    // It asks after what is missing: a sender that there was no room for is one more that sends.
                    self.hear_sender(now, peer);
                }
                self.on_skip(peer, header.sequence);
                Verdict::Taken
            }
            Kind::Pull => self.on_pull(peer, header, body),
            Kind::Done => self.on_done(peer, header, body, memory),
            Kind::Get => self.on_get(peer, body),
            _ => Verdict::Dropped(Counter::DropKind),
        }
    }

    fn on_pull(&mut self, peer: u32, header: &Header, body: &[u8]) -> Verdict {
        match Pull::parse(body) {
            Ok(Pull { offset, bytes, pull, .. }) => {
                let handle = header.word;
                self.to_send.push_back(ToSend::PullRequested { peer, handle, offset, bytes, pull });
                Verdict::Taken
            }
            Err(reason) => Verdict::Dropped(reason.into()),
        }
    }

    fn on_done(
        &mut self,
        peer: u32,
        header: &Header,
        body: &[u8],
        memory: &mut impl HostMemory,
    ) -> Verdict {
        match Done::parse(body) {
            Ok(Done { status, .. }) if header.flags.has(Flags::REPLY) => {
                let values = &body[emp_wire::DONE_BYTES..];
                self.on_reply(peer, header.word, status, values, memory);
                Verdict::Taken
            }
            Ok(Done { status, .. }) => {
                self.to_send.push_back(ToSend::DoneReceived { peer, handle: header.word, status });
                Verdict::Taken
            }
            Err(reason) => Verdict::Dropped(reason.into()),
        }
    }

    /// The first frame of a message, put or atomic. It is matched before anything is noted of it: most messages are whole with it.
    #[inline(always)]
    fn on_first(
        &mut self,
        now: Time,
        peer: u32,
        header: &Header,
        body: &[u8],
        memory: &mut impl HostMemory,
    ) -> Verdict {
        let first = match First::parse(header, body) {
            Ok(first) => first,
            Err(reason) => return Verdict::Dropped(reason.into()),
        };
        let whole = first.is_whole(header.flags);
        let Some(spot) = self.match_in_turn(peer, header, &first, whole) else {
            return self.on_unmatched(now, peer, header, first, memory);
        };
        if whole {
            let envelope = || first.envelope(peer, header.word);
            self.place_single(spot, envelope, first.payload, memory);
        } else {
            self.begin(spot, first, peer, header, memory);
        }
        let entry = &mut self.peers[peer];
        entry.next_number = entry.next_number.wrapping_add(1);
        if entry.early_count > 0 {
            self.take_waiting(peer, memory);
        }
        Verdict::Taken
    }

    /// The receive that a message goes to whose turn it is, taken off its list. `None`: it is none such, nothing waits for it, or there
    /// is no room to remember it, as one must that is not `whole`.
    #[inline(always)]
    fn match_in_turn(
        &mut self,
        peer: u32,
        header: &Header,
        first: &First<'_>,
        whole: bool,
    ) -> Option<Spot> {
        let usual = header.kind == Kind::Message && !header.flags.has(Flags::VOID);
        let in_turn = header.word == self.peers[peer].next_number;
        if !usual || !in_turn || !whole && self.incoming.is_full() {
            return None;
        }
        let message = &first.message;
        let open = self.endpoint(message.destination_endpoint)?;
        let from = (message.node, message.source_endpoint, message.match_bits);
        self.take_posted(open, from, first.total())
    }

    /// A message of which more comes, or whose sender waits for an answer, begins to arrive at its receive.
    #[inline(never)]
    fn begin(
        &mut self,
        spot: Spot,
        first: First<'_>,
        peer: u32,
        header: &Header,
        memory: &mut impl HostMemory,
    ) {
        let payload = first.payload;
        let mut incoming = first.describe(peer, header);
        incoming.place = Place::Posted(spot);
        let index = self.add_incoming(incoming).expect("not full");
        self.link_progress(peer, index);
        self.bind(index, spot);
        self.place(Puller::Message(index), 0, payload, memory);
        self.advance(index, memory);
    }

    /// A first frame that no posted receive was there for, or whose turn it is not.
    #[inline(never)]
    fn on_unmatched(
        &mut self,
        now: Time,
        peer: u32,
        header: &Header,
        first: First<'_>,
        memory: &mut impl HostMemory,
    ) -> Verdict {
        let number = header.word;
        let payload = first.payload;
        let incoming = first.describe(peer, header);
        let ahead = number.wrapping_sub(self.peers[peer].next_number) as i32;
        if ahead < 0 || ahead > 0 && self.named.contains_key(&(peer, number)) {
            return self.on_old_message(&incoming, payload, memory);
        }
        if ahead > 0 {
            return self.take_early(incoming, payload);
        }
        let outcome = self.take_in_turn(now, incoming, payload, memory);
        if !matches!(outcome, Outcome::Refused | Outcome::Stuck) {
            let entry = &mut self.peers[peer];
            entry.next_number = entry.next_number.wrapping_add(1);
            self.take_waiting(peer, memory);
        }
        match outcome {
            Outcome::Taken => Verdict::Taken,
            Outcome::Deferred(cause) => Verdict::NotReady(cause),
            Outcome::Refused => Verdict::NotReady(NotReadyCause::Full),
            Outcome::Stuck => Verdict::NotReady(NotReadyCause::Stuck),
        }
    }

    /// A message that had its turn comes again. If it is deferred, its sender has not heard of that yet; else it
    /// was sent again after a refusal although another copy had been taken.
    fn on_old_message(
        &mut self,
        again: &Incoming,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Verdict {
        let (peer, number) = (again.peer, again.number);
        // The train of the copy that was taken may have been withdrawn: the latest copy is the one that goes on.
        let is_it = |(_, incoming): &(u32, &Incoming)| incoming.number == number;
        let at = self.in_progress(peer).find(is_it).map(|(at, _)| at);
        if let Some(at) = at
            && let Some(incoming) = self.incoming.at_mut(at)
        {
            if incoming.first.before(again.first) && incoming.unscheduled == again.unscheduled {
                (incoming.first, incoming.fragment) = (again.first, again.fragment);
                (incoming.first_payload, incoming.received) = (again.first_payload, again.received);
                incoming.withdrawn = false;
                self.place(Puller::Message(at), 0, payload, memory);
                self.advance(at, memory);
            }
            return Verdict::Taken;
        }
        let deferred =
            self.named.get(&(peer, number)).and_then(|at| self.incoming.at(*at)?.deferred);
        match deferred {
            Some(cause) => Verdict::NotReady(cause),
            None => {
                self.counters.count(Counter::DropDuplicate);
                Verdict::Taken
            }
        }
    }

    /// Queues what there is to say of a message that was not taken: by the path that its first frame came by, as the other may
    /// have failed (`PATH-5`).
    fn refuse(&mut self, (peer, path): (u32, PathId), header: &Header, cause: NotReadyCause) {
        if self.not_ready.len() < NOT_READY_MAX {
            let (number, sequence) = (header.word, header.sequence);
            self.not_ready.push_back(NotTaken { peer, path, number, sequence, cause });
        }
        self.counters.count(Counter::NotTaken);
    }

    /// There is no place for a message that nothing waits for. If a receive waits for another, and for too long no message was received that
    /// has a place, its sender is told that there will be none (`READY-5`): the one that is waited for may be behind it.
    #[cold]
    fn refuse_unexpected(&mut self, now: Time, open: usize) -> Outcome {
        self.reached.note(Limit::Unexpected);
        let patience = self.profile.unreachable_after;
        let stuck = self.arriving.is_stuck(now, self.incoming.last_removed(), patience);
        let awaited = self.endpoints[open].as_ref().is_some_and(|open| open.posted_count > 0);
        if stuck && awaited { Outcome::Stuck } else { Outcome::Refused }
    }

    /// A message, put or atomic whose turn it is.
    fn take_in_turn(
        &mut self,
        now: Time,
        incoming: Incoming,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Outcome {
        if incoming.void {
            return Outcome::Taken;
        }
        match incoming.wants {
            Wants::Receive => {}
            Wants::Put { .. } => return self.take_put(incoming, payload, memory),
            Wants::Atomic { .. } => return self.take_atomic(incoming, payload, memory),
        }
        let Some(open) = self.endpoint(incoming.endpoint) else {
            return self.keep_without_endpoint(now, incoming);
        };
        let (node, source, bits) = (incoming.node, incoming.source_endpoint, incoming.match_bits);
        if self.match_posted(open, node, source, bits).is_some() {
            // Else it would have been taken: there is no room to remember it.
            return Outcome::Refused;
        }
        let (stored, cause) = match self.profile.unexpected {
            Unexpected::Pool => (self.store(incoming, payload), NotReadyCause::NoRoom),
            Unexpected::Drop => (Err(Box::new(incoming)), NotReadyCause::NotPosted),
        };
        let (index, outcome) = match stored {
            Ok(index) => (index, Outcome::Taken),
            Err(incoming) => match self.defer(*incoming, cause) {
                Some(deferred) => deferred,
                None => return self.refuse_unexpected(now, open),
            },
        };
        self.counters.count(Counter::Unexpected);
        self.list_unexpected(open, index);
        outcome
    }
}

/// The frame is all of a message whose sender waits for nothing, as most are, and not a long one.
#[inline(always)]
fn is_plain(header: &Header) -> bool {
    let flags = header.flags;
    header.kind == Kind::Message
        && header.length < LONG_BYTES_MIN
        && !(flags.has(Flags::LONG) || flags.has(Flags::SYNCHRONOUS) || flags.has(Flags::VOID))
}
