//! Send acknowledgement (I6): what is owed to a peer, and when it leaves (`ACK-3`). It rides on data that goes back; by itself it leaves
//! - after *n* frames, or messages, as the profile has it;
//! - when the sender asks: by its flag, by sending again what is here, by a frame behind a gap or that closes one;
//! - when the delay is over.
//!
//! One that the flag asks for at the end of a message waits for the program's answer where that is expected at once (`ACK-6`, `predict.rs`).
//! So does the `done` of a put that the program is told of, and carries the acknowledgement when it leaves.

use alloc::collections::VecDeque;

use emp_wire::{AckDelay, Flags, SACK_WORDS_MAX, Sequence};

use super::sequence::Arrival;
use super::{NONE, ReceivePeer, ReceiveSide};
use crate::cross::{Control, Cross, Explicit, ToSend};
use crate::path::PathId;
use crate::predict::AnswersSoon;
use crate::profile::{AckTrigger, RetransmitUnit};
use crate::time::{Span, Time};

/// What is owed to one peer.
#[derive(Clone, Copy)]
pub(super) struct Owed {
    frames: u16,
    messages: u16,
    /// When the last frame came, in microseconds (wrapping).
    arrived_us: u32,
    /// It may wait until then.
    delayed: bool,
    until: Time,
    /// The peer has an entry in the delay queue, of this debt or of an older one.
    queued: bool,
    due: bool,
    /// Frames of other paths than the first come: its own overtake them, and a gap does not mean a loss (`PATH-4`).
    mixed: bool,
    /// The path by which acknowledgements leave (`PATH-5`).
    path: AckPath,
    /// Whether one that was asked for waits for the program's answer.
    answers: AnswersSoon,
    /// What it tells that cannot ride on another frame.
    tells: Tells,
}

/// The path by which acknowledgements leave: the usual one, or that by which something came twice. Both in a byte, as each idle peer has it.
#[derive(Clone, Copy)]
struct AckPath(u8);

impl AckPath {
    /// The usual one, when the last left.
    const USUAL: u8 = 0x0f;

    /// Something came twice by this path: acknowledgements take that.
    const fn take(&mut self, path: PathId) {
        self.0 = self.0 & Self::USUAL | (path.index() as u8 + 1) << 4;
    }

    /// Something new came by this path: if it is the usual one, acknowledgements take that again.
    const fn came_by(&mut self, path: PathId) {
        if path.index() as u8 == self.0 & Self::USUAL {
            self.0 &= Self::USUAL;
        }
    }

    /// The path of an acknowledgement now, if the usual one is this.
    fn now(&mut self, usual: PathId) -> PathId {
        self.0 = self.0 & !Self::USUAL | usual.index() as u8;
        (self.0 >> 4).checked_sub(1).map_or(usual, |path| PathId::new(path.into()))
    }
}

/// What an acknowledgement tells beyond what it acknowledges: some of these together.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tells(u8);

impl Tells {
    const NOTHING: Self = Self(0);
    /// It answers a repetition, or tells of a gap that opened or closed.
    const MORE: Self = Self(1);
    /// The frame that came last was not taken (`ACK-7`).
    const UNTAKEN: Self = Self(2);
    /// Something came marked (`ACK-9`).
    const MARKED: Self = Self(4);
    /// How much may be sent unasked (`CREDIT-4`).
    const GRANT: Self = Self(8);

    const fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// More was said. What was not taken did not come last any more.
    fn more(&mut self) {
        self.0 = self.0 & !Self::UNTAKEN.0 | Self::MORE.0;
    }

    /// Adds it; true if it was there.
    fn add(&mut self, other: Self) -> bool {
        let had = self.has(other);
        self.0 |= other.0;
        had
    }
}

impl Owed {
    pub(super) const fn new() -> Self {
        Self {
            frames: 0,
            messages: 0,
            arrived_us: 0,
            delayed: false,
            until: Time(0),
            queued: false,
            due: false,
            mixed: false,
            path: AckPath(0),
            answers: AnswersSoon::NEW,
            tells: Tells::NOTHING,
        }
    }

    /// After a peer was given up: its entry still stands in the delay queue.
    pub(super) fn succeed(&mut self, old: Self) {
        self.queued = old.queued;
    }
}

/// For so long looks find nothing else to do before an acknowledgement that waits for an answer leaves by itself: a program that answers
/// does so within about one microsecond. It counts from the first such look: what the frame before took to be fetched and copied is no
/// time in which the program could have answered, and is more than this for 4 KB by `udp`.
pub(crate) const IDLE: Span = Span::us(2);

/// Frames that were taken at once, in order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Debt {
    pub(super) frames: u32,
    /// Of those before the last: how many end their train, and their flags together.
    pub(super) lasts: u32,
    pub(super) flags: Flags,
    /// Flags of the last.
    pub(super) last: Flags,
    /// They open or close a gap.
    pub(super) gap: bool,
}

impl Debt {
    /// One frame.
    #[inline]
    pub(super) const fn of(last: Flags, gap: bool) -> Self {
        Self { frames: 1, lasts: 0, flags: Flags(0), last, gap }
    }
}

/// Peers that wait for an acknowledgement.
#[derive(Default)]
pub(super) struct AckQueues {
    /// The one whose acknowledgement waits for an answer since last.
    waits: Option<u32>,
    /// When a look first found nothing else to do since.
    idle_since: Option<Time>,
    /// The `done` that waits with it, and for whom.
    done: Option<(u32, Control)>,
    /// That of a put that ended with the frame that is being taken, and of which the program was told: it may be the one that waits.
    ended: Option<(u32, Control)>,
    /// Now.
    due: VecDeque<u32>,
    /// When to look whether a peer's may wait longer: most debts are paid by data that goes back, so an entry stays while
    /// debts come and go. In order, one a peer.
    delayed: VecDeque<(Time, u32)>,
}

impl AckQueues {
    /// What is owed to this peer leaves now.
    #[inline]
    fn make_due(&mut self, peer: u32, owed: &mut Owed) {
        if !core::mem::replace(&mut owed.due, true) {
            self.due.push_back(peer);
        }
    }

    /// The `done` that waits for this peer's host, to be sent now.
    #[inline]
    pub(super) fn take_done(&mut self, peer: u32) -> Option<ToSend> {
        let (peer, control) = self.done.take_if(|(to, _)| *to == peer)?;
        Some(ToSend::Control { peer, control })
    }
}

/// An acknowledgement to send.
pub(crate) struct AckOut {
    pub(crate) peer: u32,
    pub(crate) cumulative: Sequence,
    pub(crate) said: Explicit,
    /// What the peer may send unasked, if it is to be told.
    pub(crate) grant: Option<u32>,
}

impl ReceiveSide {
    /// Sequenced frames were taken: decides whether their acknowledgement is due, or may wait for a ride (`ACK-3`).
    #[inline(always)]
    pub(super) fn owe(&mut self, now: Time, peer: u32, debt: Debt, cross: &Cross) {
        let profile = &self.profile;
        let done = self.acks.ended.take();
        let ends_put = done.is_some();
        let entry = &mut self.peers[peer];
        let cell = &cross.acks[peer];
        let owed = &mut entry.ack;
        let carried = cell.is_carried();
        if carried {
            (owed.frames, owed.messages, owed.delayed) = (0, 0, false);
        }
        let mut overtaken = false;
        if owed.answers.waits() {
            let took_us = cell.carried_us().wrapping_sub(owed.arrived_us as u16);
            owed.answers.end(carried && u32::from(took_us) <= AnswersSoon::HIT_US);
            // More came instead of an answer.
            overtaken = !carried;
            if let Some(done) = self.acks.take_done(peer) {
                self.to_send.push_back(done);
            }
        }
        let add = |count: u16, more: u32| count.saturating_add(more.min(u16::MAX.into()) as u16);
        owed.frames = add(owed.frames, debt.frames);
        owed.messages = add(owed.messages, debt.lasts + u32::from(debt.last.has(Flags::LAST)));
        owed.arrived_us = microseconds(now);
        // What was not taken is not the last any more.
        if debt.gap || owed.tells.has(Tells::UNTAKEN) {
            owed.tells.more();
        }
        let count = match profile.ack_trigger {
            AckTrigger::Frames => owed.frames,
            AckTrigger::Messages => owed.messages,
        };
        let gap = entry.received.has_gap();
        cell.owe(entry.received.next(), !gap);
        // What rides elsewhere cannot tell it.
        let marks = self.marked && (!owed.tells.add(Tells::MARKED) || carried);
        let asked = debt.gap || marks || overtaken || debt.flags.has(Flags::ACK_REQUEST);
        let mut due = asked || u32::from(count) >= self.collections.of(peer, profile.collection);
        let (mut other, mut done_waits) = (None, false);
        if !due && (debt.last.has(Flags::ACK_REQUEST) || ends_put) {
            let waits = debt.last.has(Flags::LAST)
                && !(gap || owed.due || owed.tells != Tells::NOTHING)
                && profile.retransmit == RetransmitUnit::Frame
                && owed.answers.begin();
            if waits {
                other = self.acks.waits.replace(peer).filter(|other| *other != peer);
                self.acks.idle_since = None;
                done_waits = ends_put;
            }
            due = !waits && debt.last.has(Flags::ACK_REQUEST);
        }
        if due {
            self.acks.make_due(peer, owed);
        } else if !owed.delayed && !owed.due {
            owed.delayed = true;
            owed.until = now + profile.ack_delay;
            if !core::mem::replace(&mut owed.queued, true) {
                // All delays are equal, so this keeps the order.
                self.acks.delayed.push_back((owed.until, peer));
            }
        }
        if let Some(other) = other {
            self.end_wait(other, false, cross);
        }
        if let Some(done) = done {
            self.send_or_keep(done, done_waits);
        }
    }

    /// What tells a peer of its put's end is to be sent, or waits with the acknowledgement.
    #[inline(never)]
    fn send_or_keep(&mut self, (peer, control): (u32, Control), waits: bool) {
        if waits {
            self.acks.done = Some((peer, control));
        } else {
            self.to_send.push_back(ToSend::Control { peer, control });
        }
    }

    /// A put ended of which the program was told, which may answer at once: its `done` need not leave before that (`ACK-6`). What is owed for
    /// its last frame settles it.
    pub(super) fn put_down(&mut self, peer: u32, control: Control) {
        self.send_ended();
        self.acks.ended = Some((peer, control));
    }

    /// It leaves: nothing is owed for what ended it.
    #[inline]
    pub(crate) fn send_ended(&mut self) {
        if let Some(done) = self.acks.ended.take() {
            self.send_or_keep(done, false);
        }
    }

    /// A `done` waits to leave with what the host posts next for this peer (`ACK-6`).
    #[inline]
    pub(crate) fn has_waiting_done(&self, peer: u32) -> bool {
        self.acks.done.as_ref().is_some_and(|(to, _)| *to == peer)
    }

    /// It leaves now, if there is one. True if there is.
    #[inline]
    pub(crate) fn release_done(&mut self, peer: u32) -> bool {
        let done = self.acks.take_done(peer);
        let waits = done.is_some();
        if let Some(done) = done {
            self.to_send.push_back(done);
        }
        waits
    }

    /// Nothing came, or is to be done: an acknowledgement that waits for an answer becomes due once that has been so for `least`. True if there
    /// was one.
    #[inline]
    pub(crate) fn answer_no_more(&mut self, now: Time, least: Span, cross: &Cross) -> bool {
        let Some(peer) = self.acks.waits else { return false };
        let since = *self.acks.idle_since.get_or_insert(now);
        if now.since(since) < least && !cross.acks[peer].is_carried() {
            return false;
        }
        self.acks.waits = None;
        self.end_wait(peer, false, cross)
    }

    /// One that waits for an answer becomes due, unless it was carried; a `done` that waits with it leaves. True if either is so.
    fn end_wait(&mut self, peer: u32, hit: bool, cross: &Cross) -> bool {
        let done = self.release_done(peer);
        let owed = &mut self.peers[peer].ack;
        let waits = !cross.acks[peer].is_carried() && owed.answers.end(hit);
        // A `done` carries it.
        if waits && !done {
            self.acks.make_due(peer, owed);
        }
        waits || done
    }

    /// A duplicate came by this path: acknowledgements by another may not arrive. Until something new comes by the
    /// usual one they take this one (`PATH-5`).
    pub(super) fn answer_by(&mut self, peer: u32, path: PathId) {
        self.peers[peer].ack.path.take(path);
    }

    /// The path of an acknowledgement, where `usual` is that of acknowledgements to this peer.
    pub(crate) fn path_of_ack(&mut self, peer: u32, usual: PathId) -> PathId {
        self.peers[peer].ack.path.now(usual)
    }

    /// What a peer sent asks for an acknowledgement, though nothing of it was taken.
    pub(super) fn owe_now(&mut self, now: Time, peer: u32, cross: &Cross) {
        let entry = &mut self.peers[peer];
        entry.ack.arrived_us = microseconds(now);
        let cell = &cross.acks[peer];
        cell.owe(entry.received.next(), cell.is_owed());
        entry.ack.tells.more();
        self.acks.make_due(peer, &mut entry.ack);
    }

    /// It is told how much it may send unasked, by the next acknowledgement, which leaves now.
    pub(super) fn owe_grant(&mut self, peer: u32) {
        let owed = &mut self.peers[peer].ack;
        owed.tells.add(Tells::GRANT);
        self.acks.make_due(peer, owed);
    }

    /// The same, and it says that the frame that came last was not taken.
    pub(super) fn owe_untaken(&mut self, now: Time, peer: u32, cross: &Cross) {
        self.owe_now(now, peer, cross);
        self.peers[peer].ack.tells.add(Tells::UNTAKEN);
    }

    /// The next acknowledgement to send by itself. Those that can ride on what is about to leave for their peer, as `rides`
    /// says, stay due.
    pub(crate) fn poll_ack(
        &mut self,
        now: Time,
        cross: &Cross,
        rides: impl Fn(u32) -> bool,
    ) -> Option<AckOut> {
        self.ripen(now, cross);
        let mut riders = 0;
        loop {
            if riders == self.acks.due.len() {
                return None;
            }
            let peer = self.acks.due.pop_front()?;
            let entry = &mut self.peers[peer];
            let plain = entry.ack.tells == Tells::NOTHING && !entry.received.has_gap();
            if entry.ack.due && cross.acks[peer].is_owed() && plain && rides(peer) {
                self.acks.due.push_back(peer);
                riders += 1;
                continue;
            }
            if !core::mem::take(&mut entry.ack.due) {
                continue;
            }
            let tells = core::mem::replace(&mut entry.ack.tells, Tells::NOTHING);
            let (untaken, marked) = (tells.has(Tells::UNTAKEN), tells.has(Tells::MARKED));
            if entry.ack.answers.drop_wait()
                && let Some(done) = self.acks.take_done(peer)
            {
                self.to_send.push_back(done);
            }
            let cell = &cross.acks[peer];
            let carried = cell.is_carried();
            cell.withdraw();
            (entry.ack.frames, entry.ack.messages, entry.ack.delayed) = (0, 0, false);
            let granted = tells.has(Tells::GRANT);
            if carried && !untaken && !marked && !granted && !entry.received.has_gap() {
                continue;
            }
            let goes_on = entry.progress != NONE;
            let grant = if granted || self.grants.is_bounded() {
                self.grants.tell(now, peer, (goes_on, granted), self.pool.bytes_free())
            } else {
                None
            };
            let sack = if self.profile.selective_acks {
                *entry.received.after()
            } else {
                [0; SACK_WORDS_MAX]
            };
            let delay_us = microseconds(now).wrapping_sub(entry.ack.arrived_us);
            // The clocks of a host's threads may differ a little, and that must not read as an hour.
            let held_us = delay_us.cast_signed().clamp(0, u16::MAX.into()) as u16;
            let delay = AckDelay { held_us, unseen_us: self.unseen_us };
            let (cumulative, latest) = (cell.debt().acknowledge(), entry.received.latest);
            let said = Explicit { latest, untaken, marked, sack, delay };
            return Some(AckOut { peer, cumulative, said, grant });
        }
    }

    /// Moves acknowledgements whose delay is over to the due ones.
    fn ripen(&mut self, now: Time, cross: &Cross) {
        while let Some((time, peer)) = self.acks.delayed.front().copied()
            && time <= now
        {
            self.acks.delayed.pop_front();
            let owed = &mut self.peers[peer].ack;
            owed.queued = false;
            if !owed.delayed {
                continue;
            }
            if owed.until > now && !cross.acks[peer].is_carried() {
                // A younger debt than the entry was made for.
                owed.queued = true;
                let delayed = &mut self.acks.delayed;
                let at = delayed.partition_point(|(time, _)| *time <= owed.until);
                delayed.insert(at, (owed.until, peer));
                continue;
            }
            owed.delayed = false;
            let done = self.acks.take_done(peer);
            let told = done.is_some();
            self.to_send.extend(done);
            if cross.acks[peer].is_carried() {
                owed.answers.drop_wait();
                continue;
            }
            owed.answers.end(false);
            if !told {
                self.acks.make_due(peer, owed);
            }
        }
    }

    /// When the next delayed acknowledgement may be due. Debts that were paid meanwhile are skipped, within reason.
    #[inline(always)]
    pub(crate) fn next_deadline(&self, cross: &Cross) -> Option<Time> {
        match (self.next_delayed(cross), self.credit.due()) {
            (Some(delayed), Some(pulls)) => Some(delayed.min(pulls)),
            (delayed, pulls) => delayed.or(pulls),
        }
    }

    #[inline(always)]
    fn next_delayed(&self, cross: &Cross) -> Option<Time> {
        /// Entries looked at: this is asked after every batch, and looking once too often costs less.
        const LOOKED_AT: usize = 4;
        let delayed = &self.acks.delayed;
        for place in 0..LOOKED_AT {
            let &(time, peer) = delayed.get(place)?;
            let owes = !cross.acks[peer].is_carried() || self.has_waiting_done(peer);
            if owes && self.peers[peer].ack.delayed {
                return Some(time);
            }
        }
        delayed.get(LOOKED_AT).map(|(time, _)| *time)
    }

    /// True if a `done` waits for the program's answer.
    pub(crate) fn has_any_waiting_done(&self) -> bool {
        self.acks.done.is_some()
    }

    /// True if an acknowledgement or a "not ready" waits to be sent now.
    #[inline(always)]
    pub(crate) fn has_due_acks(&self) -> bool {
        !self.acks.due.is_empty() || !self.not_ready.is_empty()
    }

    /// True if [`poll_ack`](Self::poll_ack) may have something by now, or a "not ready" waits.
    pub(crate) fn may_speak(&self, now: Time) -> bool {
        self.has_due_acks() || self.acks.delayed.front().is_some_and(|(time, ..)| *time <= now)
    }
}

impl ReceivePeer {
    /// Notes by which path something new came. True if what is missing before it may only have been overtaken.
    #[inline(always)]
    pub(super) fn overtakes(&mut self, path: PathId, arrival: Arrival) -> bool {
        self.ack.path.came_by(path);
        if path != PathId::FIRST {
            self.ack.mixed = true;
            return false;
        }
        // Nothing is behind: what is missing from now on was lost, until something comes by another path again.
        if self.ack.mixed && arrival == Arrival::InOrder && !self.received.has_gap() {
            self.ack.mixed = false;
        }
        self.ack.mixed
    }
}

/// As acknowledgements tell how long they were held back.
const fn microseconds(now: Time) -> u32 {
    (now.0 / 1_000) as u32
}
