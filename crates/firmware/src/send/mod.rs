//! The send side: send bookkeeping, transmission, receive acknowledgement, and the timer (I1–I3).
//!
//! It shares nothing with the receive side; they talk through [`cross`](crate::cross).

use alloc::boxed::Box;
use alloc::vec::Vec;

mod acknowledged;
mod active;
mod answers;
mod body;
mod bookkeeping;
mod build;
mod doubt;
mod flight;
mod granted;
mod holdings;
mod leaving;
mod long;
mod lost;
mod message;
mod one_sided;
mod parts;
mod plan;
mod record;
mod riding;
mod shown;
mod strangers;
mod striping;
mod tail;
mod timed;
mod timer;
mod train;
mod transmission;
mod window;

use alloc::collections::{BTreeSet, VecDeque};
use emp_wire::{NodeId, Sequence};
use hashbrown::HashMap;

use crate::counters::Counters;
use crate::cross::FirstNumbers;
use crate::cross::{Control, Heard, RouteNews};
use crate::descriptor::{Completion, OpKind, Status};
use crate::event::Reached;
use crate::limits::{Pressure, SEND_POOL_BYTES, SPARE_MAX};
use crate::path::PathId;
use crate::path::rtt::Rtt;
use crate::pool::{Chain, Pool};
use crate::profile::{Collections, Profile};
use crate::tables::by_peer::Links;
use crate::tables::per_peer::PerPeer;
use crate::tables::slots::Slots;
use crate::time::{Span, Time};
use crate::timers::Timers;
use active::Active;
use flight::Carried;
pub(crate) use message::Work;
use message::{SendMessage, State};
pub(crate) use plan::Shape;
use strangers::Known;
pub(crate) use timer::ASK_HOST_AFTER;
pub(crate) use train::TRAIN_FRAMES_USUAL;
pub(crate) use transmission::Outlet;
use window::Further;

/// A peer as the send side sees it. Small: there may be a hundred thousand idle ones.
struct SendPeer {
    active: Option<Box<Active>>,
    /// Next sequence number to give out.
    next: Sequence,
    next_number: u32,
    /// Round trips of its first path.
    rtt: Rtt,
    /// Place of its windows, and of what is known of its other paths, among all such, from 1 on; 0: there are none yet.
    further: u16,
    known: strangers::Known,
    /// It stands in the queue of peers to be served.
    queued: bool,
}

impl SendPeer {
    /// Its epoch and a route are known.
    fn is_found(&self) -> bool {
        !matches!(self.known, Known::No | Known::Lost)
    }

    /// So much time is no part of any silence of this peer.
    fn excuse(&mut self, now: Time, span: Span) {
        if let Some(active) = &mut self.active {
            active.heard_at = now.min(active.heard_at + span);
            active.acked_at = now.min(active.acked_at + span);
        }
    }
}

/// Who was silent for so long and speaks again was cut off, or did not run, and what waits for it has backed off. Longer than any round trip with
/// full queues, so that no timer that means a queue begins anew.
const RESUMED_AFTER: Span = Span::ms(200);

/// And longer than so many timers of each path that has backed off: a peer whose timer is long is silent for as long by itself, as nothing was asked of it.
/// The third run of a timer that doubles, whose question is to show what does not get through (`LONG-4`), is after seven.
const RESUMED_TIMERS: u64 = 8;

/// The send side of a node.
pub(crate) struct SendSide {
    profile: Profile,
    collections: Collections,
    /// What peers' paths carried before they were last idle, of those of which that is not what was sent by the first.
    carried: HashMap<u32, Carried>,
    /// Links whose carrier checks payloads, a bit each.
    pub(crate) summing: u64,
    pub(crate) counters: Counters,
    /// For so long nobody may have looked for what comes now, in microseconds.
    pub(crate) unseen_us: u16,
    /// It is to be told what messages took by their paths (`PATH-9`).
    pub(crate) times_messages: bool,
    pub(crate) completions: VecDeque<Completion>,
    pub(crate) route_news: VecDeque<RouteNews>,
    peers: PerPeer<SendPeer>,
    messages: Slots<SendMessage>,
    /// There is no room for more, or there was none.
    posting: Pressure,
    pub(crate) reached: Reached,
    /// Those that wait for a `done`, in the lists of their peers.
    awaiting: Links,
    /// Control frames that wait to leave, of all peers.
    controls: usize,
    pub(crate) pool: Pool,
    /// Windows, and round trips of paths beside the first, of peers that needed such. They keep their place.
    further: Vec<Further>,
    /// Boxes of peers that became idle. Each is moved between here and its peer, never copied.
    spare: Vec<Box<Active>>,
    /// Peers with something to send, in turn.
    ready: VecDeque<u32>,
    /// The node itself as a peer, and whether it has something to send.
    loopback: Option<u32>,
    loopback_ready: bool,
    timers: Timers,
    active: usize,
    /// A message began to wait for a `done` since this was last asked.
    awaits: bool,
    /// Peers that owe us a `done`, or did when that was last asked.
    awaited: BTreeSet<u32>,
    /// What may still be resent to peers that never acknowledged anything.
    strangers: strangers::Strangers,
    /// An acknowledgement that is taken in later.
    late: Option<riding::Late>,
    /// Replies that have arrived: their values can be forgotten.
    pub(crate) replied: VecDeque<u32>,
    /// The middle of a train is built in one go.
    pub(crate) whole_trains: bool,
    /// Links that take many frames in a call, a bit each: long trains leave by them in parts.
    pub(crate) segmenting: u64,
    pub(crate) first: FirstNumbers,
}

impl SendSide {
    /// Whether payloads that take this way are under the frame's checksum (`CRC-3`).
    #[inline]
    pub(crate) fn checks_payload(&self, hop: Option<crate::path::Hop<'_>>) -> bool {
        let summed = hop.is_some_and(|(link, _)| self.summing >> (link.0 % 64) & 1 == 1);
        self.profile.checksum_payload && !summed
    }

    pub(crate) fn new(profile: Profile, segmenting: u64, summing: u64) -> Self {
        Self {
            summing,
            messages: Slots::new(profile.operations_max),
            posting: Pressure::default(),
            reached: Reached::default(),
            awaiting: Links::default(),
            controls: 0,
            profile,
            collections: Collections::default(),
            carried: HashMap::new(),
            counters: Counters::default(),
            unseen_us: 0,
            times_messages: false,
            completions: VecDeque::new(),
            route_news: VecDeque::new(),
            peers: PerPeer::new(),
            pool: Pool::new(SEND_POOL_BYTES),
            further: Vec::new(),
            spare: Vec::new(),
            ready: VecDeque::new(),
            loopback: None,
            loopback_ready: false,
            timers: Timers::new(),
            active: 0,
            awaits: false,
            awaited: BTreeSet::new(),
            strangers: strangers::Strangers::default(),
            late: None,
            replied: VecDeque::new(),
            whole_trains: true,
            segmenting,
            first: FirstNumbers::default(),
        }
    }

    pub(crate) fn set_collection(&mut self, frames: u32) {
        self.profile.collection = frames.max(1);
        self.collections.clear();
    }

    pub(crate) fn set_collection_of(&mut self, peer: u32, frames: u32) {
        self.collections.set(peer, frames);
    }

    /// A peer was added to the node's table, at the next index.
    pub(crate) fn add_peer(&mut self, is_self: bool) {
        let index = self.peers.push(SendPeer {
            active: None,
            next: self.first.sequence,
            next_number: self.first.message,
            rtt: Rtt::new(),
            further: 0,
            known: Known::No,
            queued: false,
        });
        self.timers.add_peer();
        if is_self {
            self.loopback = Some(index);
        }
    }

    /// A peer's epoch and route are known: what waits for it may leave.
    pub(crate) fn found(&mut self, peer: u32, now: Time) {
        let known = &mut self.peers[peer].known;
        if matches!(known, Known::No | Known::Lost) {
            *known = Known::Found;
        }
        if let Some(active) = &mut self.peers[peer].active {
            (active.heard_at, active.suspected) = (now, false);
            active.flights.each_mut().for_each(|flight| flight.progress_at = now);
            self.mark_ready(peer);
        }
    }

    /// A peer has answered a question: it is not only made up.
    pub(crate) fn met(&mut self, peer: u32) {
        self.peers[peer].known = Known::Met;
    }

    pub(crate) fn is_found(&self, peer: u32) -> bool {
        self.peers[peer].is_found()
    }

    /// Peers that something is queued for, or under way to.
    pub(crate) const fn peers_active(&self) -> usize {
        self.active
    }

    /// True if something is queued for a peer, or under way to it.
    pub(crate) fn is_active(&self, peer: u32) -> bool {
        self.peers[peer].active.is_some()
    }

    /// True if nothing is queued or under way to anyone.
    pub(crate) fn is_drained(&self) -> bool {
        self.active == 0
    }

    /// Who each message and put is for that is over for its host, and not known to have been delivered.
    pub(crate) fn undelivered(&self) -> impl Iterator<Item = NodeId> + '_ {
        let counts = |message: &&SendMessage| {
            let sent = matches!(message.work, Work::Message | Work::Put { .. });
            sent && message.is_told() && message.state != State::Void && !message.is_acked()
        };
        let messages = self.messages.indices().filter_map(|i| self.messages.at(i));
        messages.filter(counts).map(|message| message.descriptor.to)
    }

    /// True once after a message began to wait for something that no timer of ours watches.
    pub(crate) fn take_awaits(&mut self) -> bool {
        core::mem::take(&mut self.awaits)
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.timers.next()
    }

    /// What arriving frames are to this side.
    #[inline(always)]
    pub(crate) fn hear(&mut self, now: Time, peer: u32, heard: Heard) {
        match heard {
            Heard::Frame => self.heard(peer, now),
            Heard::Riding(cumulative) => self.on_riding_ack(now, peer, cumulative),
            Heard::Ack { cumulative, said, grant } => {
                self.on_ack(now, peer, cumulative, Some(said));
                if let Some(bytes) = grant {
                    self.on_grant(now, peer, bytes);
                }
            }
            Heard::NotReady { number, sequence, cause, backoff_us } => {
                self.on_not_ready(now, peer, (number, sequence), cause, backoff_us);
            }
        }
    }

    /// Any frame came from a peer.
    #[inline]
    pub(crate) fn heard(&mut self, peer: u32, now: Time) {
        if let Some(active) = &mut self.peers[peer].active {
            let silence = now.since(core::mem::replace(&mut active.heard_at, now));
            if silence >= RESUMED_AFTER {
                self.return_after(peer, now, silence);
            }
        }
    }

    /// A peer shows itself by a `hello`, which proves nothing and is no reason to be patient with it.
    pub(crate) fn heard_again(&mut self, peer: u32, now: Time) {
        let Some(active) = self.peers[peer].active.as_deref() else { return };
        let silence = now.since(active.heard_at);
        if silence >= RESUMED_AFTER {
            self.return_after(peer, now, silence);
        }
    }

    /// A peer speaks after such a silence, which may be no longer than what was asked of it explains.
    #[cold]
    fn return_after(&mut self, peer: u32, now: Time, silence: Span) {
        let entry = &self.peers[peer];
        let timer = |path| entry.rtt(&self.further, path).timeout(self.profile.ack_delay, 0);
        let backs_off = |active: &Active, path| active.flight(path).backoff > 0;
        let longest = entry.active.as_deref().and_then(|active| {
            PathId::all().filter(|path| backs_off(active, *path)).map(|path| timer(path).0).max()
        });
        if longest.is_some_and(|longest| silence.0 >= RESUMED_TIMERS * longest) {
            self.resume(peer, now);
        }
    }

    /// A peer can be reached again, or for the first time after a silence: timers that have backed off since begin as they did at first, so that
    /// what waits does not wait for as long again (`PATH-12`).
    #[cold]
    pub(crate) fn resume(&mut self, peer: u32, now: Time) {
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        for flight in active.flights.each_mut().filter(|flight| flight.backoff > 0) {
            (flight.progress_at, flight.backoff) = (now, 0);
        }
        self.arm(peer, now);
        self.mark_ready(peer);
    }

    /// Nobody looked for so long: no peer is to blame that nothing of it was heard meanwhile. Of others than those with a deadline
    /// nothing is expected.
    pub(crate) fn excuse(&mut self, now: Time, absent: Span) {
        let Self { timers, peers, .. } = self;
        for peer in timers.peers() {
            peers[peer].excuse(now, absent);
        }
    }

    /// The same of one peer.
    pub(crate) fn excuse_peer(&mut self, peer: u32, now: Time, deaf: Span) {
        self.peers[peer].excuse(now, deaf);
    }

    /// True if a control frame waits to leave for a peer.
    pub(crate) fn has_control(&self, peer: u32) -> bool {
        let entry = &self.peers[peer];
        entry.is_found()
            && entry.active.as_deref().is_some_and(|active| !active.controls.is_empty())
    }

    /// True if a peer waits to be served: [`poll`](Self::poll) may have frames to send.
    pub(crate) fn has_ready(&self) -> bool {
        !self.ready.is_empty() || self.loopback_ready || !self.route_news.is_empty()
    }

    fn mark_ready(&mut self, peer: u32) {
        if self.loopback == Some(peer) {
            self.loopback_ready = true;
        } else if !self.peers[peer].queued {
            self.peers[peer].queued = true;
            self.ready.push_back(peer);
        }
    }

    /// The peer with its active part, made if there is none.
    #[inline]
    fn activate(&mut self, peer: u32, now: Time) -> &mut SendPeer {
        let entry = &mut self.peers[peer];
        if entry.active.is_none() {
            let mut active = self.spare.pop().unwrap_or_else(Active::fresh);
            active.restart(entry.next, now);
            self.active += 1;
            entry.active = Some(active);
        }
        entry
    }

    /// Puts the active part away if nothing is under way any more.
    fn settle(&mut self, peer: u32) {
        if self.peers[peer].active.as_ref().is_some_and(|active| active.is_idle()) {
            let active = self.peers[peer].active.take().expect("checked above");
            if active.flights.are_to_be_counted() {
                let before = self.carried.entry(peer).or_default();
                *before = before.with(&active.flights);
            }
            self.retire(active);
        }
    }

    fn retire(&mut self, active: Box<Active>) {
        self.active -= 1;
        if self.spare.len() < SPARE_MAX {
            self.spare.push(active);
        }
    }

    /// Gives a peer up: all that was due ends with `status`, and its numbers start afresh.
    pub(crate) fn reset(&mut self, peer: u32, status: Status, found: bool) {
        self.late = self.late.filter(|late| late.peer != peer);
        let mut lost = Vec::new();
        if let Some(mut active) = self.peers[peer].active.take() {
            // All that is not over stands in one of these.
            let awaiting = self.awaiting.iter(active.awaiting);
            lost.extend(active.pending.iter().copied().chain(awaiting));
            self.controls -= active.controls.len();
            lost.extend(active.records.iter().filter_map(|record| record.what.message()));
            let queued = active.controls.iter().filter_map(Control::values);
            let sent = active.records.iter().filter_map(|record| record.what.values());
            self.replied.extend(queued.chain(sent));
            active.window = [record::Frame::default(); crate::limits::WINDOW_FRAMES as usize];
            self.retire(active);
        }
        lost.sort_unstable();
        lost.dedup();
        for message in lost {
            self.awaiting.forget(message);
            self.finish(message, status);
        }
        self.timers.clear(peer);
        let entry = &mut self.peers[peer];
        (entry.next, entry.next_number) = (self.first.sequence, self.first.message);
        entry.rtt = Rtt::new();
        entry.known = match status {
            _ if found => Known::Found,
            Status::PeerClosed => Known::No,
            _ => Known::Lost,
        };
        if let Some(place) = entry.further_place() {
            self.further[place] = Further::NEW;
        }
    }

    /// Tells the host, unless it was told before, and forgets the message.
    fn finish(&mut self, index: u32, status: Status) {
        self.end(index, status);
        self.forget(index);
    }

    /// Tells the host, unless it was told before, how a message ended. What is left of its frames must not name it any more: its place may be
    /// taken by another.
    #[inline(never)]
    fn end(&mut self, index: u32, status: Status) {
        self.report(index, status);
        let Some(message) = self.messages.at(index) else { return };
        let (peer, state) = (message.peer, message.state);
        let queued = matches!(state, State::Queued | State::Void);
        if state != State::Over
            && let Some(active) = self.peers[peer].active.as_deref_mut()
        {
            active.skip_message(index, queued);
            self.awaiting.remove(&mut active.awaiting, index);
        }
    }

    /// Forgets a message that nothing names any more, and gives back what it had of the pool.
    #[inline]
    fn forget(&mut self, index: u32) {
        let chain =
            self.messages.discard(index, |message, _| Some((message.peer, message.chain.take()?)));
        if let Some((peer, chain)) = chain.flatten() {
            self.give_back(peer, chain);
        }
    }

    /// What a message to a peer was copied to is its peer's part of the pool from now on.
    #[inline(always)]
    fn charge(&mut self, peer: u32, chain: Option<&Chain>) {
        if let (Some(chain), Some(active)) = (chain, self.peers[peer].active.as_deref_mut()) {
            active.copied_slots += chain.slots();
        }
    }

    /// Slots of the pool that messages to a peer have (`SHARE-1`).
    #[inline]
    fn copied_slots(&self, peer: u32) -> u32 {
        self.peers[peer].active.as_deref().map_or(0, |active| active.copied_slots)
    }

    #[inline(always)]
    fn give_back(&mut self, peer: u32, chain: Chain) {
        // Of one that is given up or done with, nothing counts any more.
        if let Some(active) = self.peers[peer].active.as_deref_mut() {
            active.copied_slots = active.copied_slots.saturating_sub(chain.slots());
        }
        self.pool.free(chain);
    }

    /// Tells the host once how a message ends; it is forgotten then, or void.
    fn report(&mut self, index: u32, status: Status) {
        let generation = self.messages.generation(index);
        let Some(message) = self.messages.at(index) else { return };
        let mut op = bookkeeping::op_id(message.work.kind(), index, generation);
        let mut context = message.descriptor.context;
        if message.is_told() {
            // A fetching atomic ends elsewhere.
            let plain = matches!(message.work, Work::Message);
            if status == Status::Ok || message.state == State::Void || !plain {
                return;
            }
            op = bookkeeping::op_id(OpKind::Undelivered, index, generation);
            context = u64::from(message.descriptor.endpoint);
        }
        let completion = Completion { context, ..message.completion(op, status) };
        self.completions.push_back(completion);
    }
}
