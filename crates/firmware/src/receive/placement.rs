//! Placement (I5, "receive DMA"): payload goes to its offset in the user's buffer, or in the pool.

use emp_wire::{DoneStatus, Header, NodeId, Sequence};

use super::bookkeeping::Verdict;
use super::frame::{NoSlot, Room, Spot, room};
use super::pulling::{Puller, Pulling};
use super::sequence::Received;
use super::{Incoming, NONE, Place, Posted, ReceiveSide};
use crate::counters::Counter;
use crate::cross::ToSend;
use crate::descriptor::{BufferPlace, Completion, OpId, OpKind, Status};
use crate::memory::{HostMemory, MemoryFault};
use crate::path::unit::is_long_cut;
use crate::pool::Chain;
use crate::stage::Stage;

impl ReceiveSide {
    /// A data or block frame: its payload is copied to its place.
    pub(super) fn on_payload(
        &mut self,
        peer: u32,
        header: &Header,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) -> Verdict {
        let outer = memory.enter(Stage::ReceiveFrame);
        let verdict = match self.slot(peer, header) {
            Ok(slot) if payload.len() as u64 == slot.bytes() => {
                self.note_bytes(&slot, slot.bytes());
                self.place(slot.owner, slot.offset, payload, memory);
                self.end_part(&slot, memory);
                Verdict::Taken
            }
            Ok(_) => Verdict::Dropped(Counter::DropBadPlace),
            Err(NoSlot::Unwanted(counter)) => {
                self.counters.count(counter);
                Verdict::Taken
            }
            Err(NoSlot::Wrong(counter)) => Verdict::Dropped(counter),
        };
        memory.leave(outer);
        verdict
    }

    /// Puts bytes of a message or get where they belong. If that cannot be written to, it ends.
    pub(super) fn place(
        &mut self,
        owner: Puller,
        offset: u64,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) {
        if self.write_to(owner, offset, payload, memory).is_ok() {
            return;
        }
        match owner {
            Puller::Get(index) => self.finish_fetch(index, Status::MemoryFault),
            Puller::Message(index) => self.end_faulty(index),
        }
    }

    /// Host memory that a message belongs to cannot be written to.
    pub(super) fn end_faulty(&mut self, index: u32) {
        let place = self.incoming.at(index).map(|incoming| &incoming.place);
        if matches!(place, Some(Place::Region { .. })) {
            self.counters.count(Counter::RefusedFault);
            self.give_up_with(index, DoneStatus::Fault);
        } else {
            self.fail(index, Status::MemoryFault);
        }
    }

    /// Gives a waiting message the receive that it matched: what is here is copied, the rest will be placed.
    pub(super) fn hand_over(&mut self, index: u32, spot: Spot, memory: &mut impl HostMemory) {
        let arrived = self.arrived(index);
        let incoming = self.incoming.at_mut(index).expect("the caller has it");
        let place = core::mem::replace(&mut incoming.place, Place::Posted(spot));
        let mut moved = Ok(());
        match place {
            Place::Pool(chain) => moved = self.unstore(index, chain, &arrived, memory),
            Place::Later => {
                // Nothing was kept: the whole message is pulled.
                incoming.received = 0;
                (incoming.unscheduled, incoming.first_payload) = (0, 0);
            }
            Place::Posted(_) | Place::Fetch(_) | Place::Region { .. } => {}
        }
        self.bind(index, spot);
        if moved.is_err() {
            self.end_faulty(index);
        }
        self.advance(index, memory);
    }

    /// Copies what of a message waited in the pool to where it belongs now.
    pub(super) fn unstore(
        &mut self,
        index: u32,
        chain: Chain,
        arrived: &Arrived,
        memory: &mut impl HostMemory,
    ) -> Result<(), MemoryFault> {
        let incoming = self.incoming.at_mut(index).expect("the caller has it");
        let room = room(&incoming.place, &self.posted, &self.fetches, &self.regions);
        let (mut placed, mut moved) = (0, Ok(()));
        for range in arrived.ranges() {
            self.pool.drain(&chain, range, |at, slice| {
                match incoming.write_part(&room, at as u64, slice, memory) {
                    Ok(bytes) => placed += bytes,
                    Err(fault) => moved = Err(fault),
                }
            });
        }
        self.pool.free(chain);
        self.counters.add(Counter::BytesPlaced, placed);
        moved
    }

    /// Ties a message to its receive, and says so to a sender that waits for it.
    pub(super) fn bind(&mut self, index: u32, spot: Spot) {
        let receive = self.posted.at_mut(spot.receive).expect("it was matched");
        receive.bound = receive.multi == NONE;
        self.bound += 1;
        let wanted = receive.segments.bytes() - spot.at;
        let incoming = self.incoming.at_mut(index).expect("the caller has it");
        let start = u64::from(incoming.unscheduled);
        incoming.pulling = Pulling::of(start, incoming.total.min(wanted).max(start));
        let pulled = incoming.deferred.is_some() || start < incoming.total;
        if incoming.synchronous && !pulled {
            self.say_done(index, DoneStatus::Matched);
        }
        self.bring(index);
    }

    /// A message of one frame that found its receive, which is on no list any more.
    #[inline(always)]
    pub(super) fn place_single(
        &mut self,
        spot: Spot,
        message: impl Fn() -> Envelope,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) {
        let receive = self.posted.at(spot.receive).expect("it was matched");
        if receive.multi != NONE {
            return self.place_share(spot, &message(), payload, memory);
        }
        let written = Room::Buffer(&receive.segments, spot.at).write(0, payload, memory);
        let status = match self.note_written(written) {
            Ok(()) => Status::Ok,
            Err(MemoryFault) => Status::MemoryFault,
        };
        self.report_single(spot.receive, message, status);
    }

    /// The same in its share of a receive for several.
    #[inline(never)]
    fn place_share(
        &mut self,
        spot: Spot,
        message: &Envelope,
        payload: &[u8],
        memory: &mut impl HostMemory,
    ) {
        let status = match self.write_whole(&Place::Posted(spot), payload, memory) {
            Ok(()) => Status::Ok,
            Err(MemoryFault) => Status::MemoryFault,
        };
        self.report_share(spot, message, status);
    }

    /// Ends a message if all of it is here.
    pub(super) fn advance(&mut self, index: u32, memory: &mut impl HostMemory) {
        let Some(incoming) = self.incoming.at(index) else { return };
        let here = incoming.train_complete();
        if here {
            self.unlink_progress(index);
        }
        let incoming = self.incoming.at(index).expect("seen above");
        if !here || !incoming.pulling.is_over() {
            return;
        }
        let spot = match incoming.place {
            Place::Posted(spot) => spot,
            Place::Region { .. } => return self.put_arrived(index, memory),
            Place::Pool(_) | Place::Fetch(_) | Place::Later => return,
        };
        if incoming.deferred.is_some() || u64::from(incoming.unscheduled) < incoming.total {
            self.say_done(index, DoneStatus::Complete);
        }
        let incoming = self.take_incoming(index).expect("seen above");
        self.report(spot, &incoming.envelope(), Status::Ok);
    }

    /// Ends a receive whose message can't be placed; the message is given up.
    pub(super) fn fail(&mut self, index: u32, status: Status) {
        let Some(incoming) = self.incoming.at_mut(index) else { return };
        let Place::Posted(spot) = incoming.place else { return };
        let envelope = incoming.envelope();
        incoming.place = Place::Later;
        self.bound -= 1;
        self.report(spot, &envelope, status);
        self.give_up(index);
    }

    /// Gives a message up, and tells its sender if that waits.
    pub(super) fn give_up(&mut self, index: u32) {
        self.give_up_with(index, DoneStatus::Abandoned);
    }

    /// The same, and says why.
    pub(super) fn give_up_with(&mut self, index: u32, status: DoneStatus) {
        if self.incoming.at(index).is_some_and(|incoming| incoming.needs_done() && !incoming.void) {
            self.say_done(index, status);
        }
        self.remove_incoming(index);
    }

    /// Takes a message out of the table.
    pub(super) fn take_incoming(&mut self, index: u32) -> Option<Incoming> {
        let listed = self.incoming.at(index)?;
        self.unlist(index, listed.endpoint, listed.without_endpoint_ms.is_some());
        let incoming = self.incoming.remove(index)?;
        self.incoming_of.remove(incoming.peer, index);
        self.bound -= usize::from(matches!(incoming.place, Place::Posted(_)));
        if incoming.deferred.is_some() || incoming.early {
            self.named.remove(&(incoming.peer, incoming.number));
        }
        Some(incoming)
    }

    /// Forgets a message and gives back what it holds. Data of it that still comes is discarded.
    pub(super) fn remove_incoming(&mut self, index: u32) {
        self.forget_incoming(index);
        // Only now: it may itself have waited for room.
        self.serve_pulls();
    }

    /// The same without asking others for what there is room for then.
    pub(super) fn forget_incoming(&mut self, index: u32) {
        self.unlink_progress(index);
        self.drop_pulls(Puller::Message(index));
        let Some(incoming) = self.take_incoming(index) else { return };
        self.forget_claims(&incoming);
        if let Place::Pool(chain) = incoming.place {
            self.pool.free(chain);
        }
    }

    pub(super) fn say_done(&mut self, index: u32, status: DoneStatus) {
        let incoming = self.incoming.at(index).expect("the caller has it");
        let (peer, control) = (incoming.peer, incoming.answer(status));
        self.to_send.push_back(ToSend::Control { peer, control });
    }

    /// Tells the host how a matched receive ended, and forgets it.
    pub(super) fn report(&mut self, spot: Spot, message: &Envelope, status: Status) {
        let Some(receive) = self.posted.at(spot.receive) else { return };
        if receive.multi != NONE {
            return self.report_share(spot, message, status);
        }
        self.report_single(spot.receive, || *message, status);
    }

    /// The same for one that is for one message, as nearly all are. A buffer that was too short is the receiver's affair alone (`MSG-4`).
    #[inline(always)]
    fn report_single(&mut self, receive: u32, message: impl Fn() -> Envelope, status: Status) {
        let last = |receive: &mut Posted, generation| {
            (receive.segments.bytes(), receive.context, generation)
        };
        let ended = self.posted.discard(receive, last);
        let (capacity, context, generation) = ended.expect("it was matched");
        let op = OpId::new(OpKind::Receive, receive, generation);
        let too_long = status == Status::Ok && message().total > capacity;
        let status = if too_long { Status::Truncated } else { status };
        if matches!(status, Status::Ok | Status::Truncated) {
            self.counters.count(Counter::MessagesReceived);
        }
        let completion = || message().completion(op, context, status, capacity);
        if self.order.is_idle() {
            // As nearly always. It is written where it stays: what is copied at once waits for what was just written.
            self.completions.push_back(completion());
        } else {
            let Envelope { peer, number, .. } = message();
            self.tell_in_order(peer, number, completion());
        }
    }

    pub(super) fn link_progress(&mut self, peer: u32, index: u32) {
        let head = self.peers[peer].progress;
        let incoming = self.incoming.at_mut(index).expect("the caller has it");
        incoming.next_progress = head;
        incoming.lands =
            is_long_cut(incoming.fragment) && matches!(incoming.place, Place::Posted(_));
        self.long_trains += u32::from(incoming.lands);
        self.peers[peer].progress = index;
    }

    pub(super) fn unlink_progress(&mut self, index: u32) {
        let Some(incoming) = self.incoming.at_mut(index) else { return };
        let (peer, next) = (incoming.peer, incoming.next_progress);
        if self.peers[peer].progress == index {
            self.peers[peer].progress = next;
        } else {
            let is_before = |(_, other): &(u32, &Incoming)| other.next_progress == index;
            let Some((before, _)) = self.in_progress(peer).find(is_before) else { return };
            self.incoming.at_mut(before).expect("listed").next_progress = next;
        }
        let incoming = self.incoming.at_mut(index).expect("seen above");
        self.long_trains -= u32::from(core::mem::take(&mut incoming.lands));
    }
}

/// Which bytes of a message's unscheduled part are here.
pub(super) struct Arrived {
    received: Received,
    first: Sequence,
    first_payload: usize,
    fragment: usize,
    unscheduled: usize,
    /// Frames of its train, or 1 if all of it is here; 0 if nothing is, as what came was withdrawn and comes again.
    frames: u32,
}

impl Arrived {
    /// Their places and lengths. Its first frame is here, as that is what made the message known.
    pub(super) fn ranges(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let here = |place: &u32| *place == 0 || self.received.contains(self.first.plus(*place));
        let range = |place: u32| match place {
            0 => (0, self.first_payload),
            _ => {
                let start = self.first_payload + (place as usize - 1) * self.fragment;
                (start, self.fragment.min(self.unscheduled.saturating_sub(start)))
            }
        };
        (0..self.frames).filter(here).map(range)
    }
}

impl ReceiveSide {
    /// What of a message that waits in the pool has arrived: its slots held others before, and what does not come is not to be shown.
    pub(super) fn arrived(&self, index: u32) -> Arrived {
        let incoming = self.incoming.at(index).expect("the caller has it");
        let (unscheduled, first) = (incoming.unscheduled, incoming.first_payload);
        let whole = incoming.received == unscheduled;
        let rest = unscheduled.saturating_sub(first).div_ceil(incoming.fragment.max(1).into());
        Arrived {
            received: self.peers[incoming.peer].received,
            first: incoming.first,
            first_payload: if whole { unscheduled } else { first } as usize,
            fragment: incoming.fragment.into(),
            unscheduled: unscheduled as usize,
            frames: match (whole, incoming.withdrawn) {
                (true, _) => 1,
                (false, true) => 0,
                (false, false) => 1 + rest,
            },
        }
    }

    /// A frame was withdrawn. If it was of a train that is not wholly here, the message comes again, from its start.
    pub(super) fn on_skip(&mut self, peer: u32, sequence: Sequence) {
        let mut at = self.peers[peer].progress;
        while let Some(incoming) = self.incoming.at_mut(at) {
            let rest = incoming.unscheduled.saturating_sub(incoming.first_payload);
            let frames = 1 + rest.div_ceil(incoming.fragment.max(1).into());
            incoming.withdrawn |= (0..frames).contains(&(sequence.since(incoming.first) as u32));
            at = incoming.next_progress;
        }
    }
}

/// What a completion shows of a message.
#[derive(Clone, Copy)]
pub(super) struct Envelope {
    pub(super) peer: u32,
    pub(super) number: u32,
    pub(super) node: NodeId,
    pub(super) source_endpoint: u16,
    pub(super) match_bits: u64,
    pub(super) immediate: Option<u64>,
    pub(super) total: u64,
}

impl Envelope {
    /// The end of a receive that had room for so many bytes of it.
    #[inline(always)]
    pub(super) fn completion(
        &self,
        op: OpId,
        context: u64,
        status: Status,
        room: u64,
    ) -> Completion {
        Completion {
            op,
            context,
            status,
            bytes: self.total.min(room),
            total_bytes: self.total,
            peer: self.node,
            peer_endpoint: self.source_endpoint,
            match_bits: self.match_bits,
            immediate: self.immediate,
            place: BufferPlace::WHOLE,
        }
    }
}

impl Incoming {
    pub(super) fn envelope(&self) -> Envelope {
        Envelope {
            peer: self.peer,
            number: self.number,
            node: self.node,
            source_endpoint: self.source_endpoint,
            match_bits: self.match_bits,
            immediate: self.immediate,
            total: self.total,
        }
    }
}
