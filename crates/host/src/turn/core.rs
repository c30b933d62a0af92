//! The node's core: firmware, links, and what the host keeps beside them; and the turn that drives it all.
//!
//! Whoever makes progress (a caller, the guardian, the progress thread) holds the lock around a [`Core`] and calls
//! [`Core::turn`].

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use emp_firmware::limits::PEERS_MAX;
use emp_firmware::{
    Completion, Counters, Firmware, LinkIndex, NodeEvent, ProbeInfo, Selector, Span, Time,
};
use emp_link::Link;
use emp_rings::Worked;
use emp_wire::{LinkAddress, NodeId};

use crate::choices::{Collections, WaitMode};
use crate::daemon::Tell;
use crate::daemon::remote::Remote;
use crate::flying::predict::WaitTimes;
use crate::flying::queues::Queues;
use crate::flying::requests::Requests;
use crate::flying::sleepers::Sleepers;
use crate::links::attention::{self, Seldom};
use crate::links::evidence::Evidence;
use crate::links::health::Health;
use crate::links::incoming::{Incoming, Unseen};
use crate::links::joining::Joining;
use crate::links::outgoing::Outgoing;
use crate::machine::clock;
use crate::memory::process::ProcessMemory;
use crate::told::directory::Directory;
use crate::told::journal::Journal;
use crate::told::losses::Losses;
use crate::told::news::News;
use crate::told::shown::{self, Shown};
use crate::told::work::Work;
use crate::turn::deck::{Beside, Halved};

/// Batches sent in one turn before links are looked at again: with the shortest parts of a train, 12 frames, more than one
/// peer's window.
pub(super) const TRANSMIT_ROUNDS: usize = 32;

/// Frames taken from one link in one turn: a few collections, so that acknowledgements leave in time.
pub(super) const FRAMES_MAX: usize = 64;

/// Longest sleep if a link must be polled by hand or did not take all frames: neither wakes a sleeper.
pub(super) const POLL_BY_HAND: Span = Span::us(50);

/// Where a node's firmware is.
pub(crate) enum Engine {
    /// In this process.
    Here(Box<Firmware>),
    /// In the service, which gives it so many completions at most before it waits for the application.
    Away(Box<Remote>, usize),
}

/// What a core is made of.
pub(crate) struct Parts {
    pub(crate) engine: Engine,
    pub(crate) links: Vec<Box<dyn Link>>,
    pub(crate) memory: ProcessMemory,
    pub(crate) journal: Journal,
    pub(crate) news: News,
    pub(crate) collections: Collections,
    pub(crate) shown: Option<Box<Shown>>,
    pub(crate) joining: Option<Joining>,
    pub(crate) beside: Beside,
}

/// Everything that the lock of a node protects.
pub(crate) struct Core {
    /// `None` once the node is closed, and of a node whose firmware is elsewhere. Declared first, so that it goes first: no buffer is freed
    /// under it.
    pub(crate) firmware: Option<Firmware>,
    /// The firmware in the service, of the daemon board.
    pub(crate) away: Option<Box<Remote>>,
    /// How many completions it was told that the application has not asked for.
    pub(super) unread_told: usize,
    pub(crate) links: Vec<Box<dyn Link>>,
    pub(crate) outgoing: Outgoing,
    pub(crate) memory: ProcessMemory,
    pub(crate) requests: Requests,
    /// Ended sends that may not be handed out yet, because `outgoing` still names host memory.
    pub(super) held: VecDeque<Completion>,
    /// Completions of the raw API.
    pub(crate) queues: Queues,
    pub(crate) events: VecDeque<NodeEvent>,
    /// How many events there were; read without the lock.
    pub(crate) events_told: Arc<AtomicU64>,
    pub(crate) directory: Directory,
    pub(crate) sleepers: Sleepers,
    pub(crate) wait_times: WaitTimes,
    /// Something was posted or happened since the firmware was last asked what to do.
    pub(crate) dirty: bool,
    /// When the firmware's next timer is due. Asked anew only when something has happened: a thread that spins looks at
    /// it each time.
    next_timer: Time,
    /// `next_timer` may be wrong.
    pub(crate) timer_moved: bool,
    pub(super) posts_since_turn: u32,
    pub(crate) last_turn: Time,
    /// When no link had any more frames: what comes now came after that.
    pub(super) emptied_at: Time,
    pub(crate) last_post: Time,
    /// The time of the last post was not read from the clock.
    pub(crate) guessed: bool,
    /// Some link has no descriptor to sleep on.
    poll_by_hand: bool,
    /// A socket beside rings: looked at when it is busy, and from time to time.
    pub(crate) seldom: Option<Seldom>,
    /// How the links' interfaces are.
    pub(crate) health: Health,
    /// What hosts tell of peers that are silent.
    pub(crate) evidence: Evidence,
    /// Where what happens is written down.
    pub(crate) journal: Journal,
    /// What was said of peers.
    pub(crate) news: News,
    /// Of peers that are to have their own.
    pub(super) collections: Collections,
    /// What is shown to whoever looks from outside.
    pub(crate) shown: Option<Box<Shown>>,
    /// What takes up interfaces that appear.
    pub(super) joining: Option<Box<Joining>>,
    /// What it takes to make turns on two threads.
    pub(super) halved: Option<Box<Halved>>,
    /// What the board's other thread counts of its work.
    pub(super) other_worked: Option<Arc<Worked>>,
    /// What is counted of the threads' work, if that is asked for.
    pub(super) work: Option<Box<Work>>,
    /// What was lost and nobody was told of.
    pub(crate) losses: Losses,
    /// The counters of a closed node.
    pub(super) last_counters: Counters,
}

impl Core {
    pub(crate) fn new(parts: Parts, wait_mode: WaitMode) -> Self {
        let Parts { engine, links, memory, journal, news, collections, shown, joining, beside } =
            parts;
        let (firmware, away, (completions_max, peers_max)) = match engine {
            Engine::Here(firmware) => {
                let most = (firmware.profile().completions_max(), firmware.profile().peers_max);
                (Some(*firmware), None, most)
            }
            Engine::Away(remote, completions_max) => {
                (None, Some(remote), (completions_max, PEERS_MAX))
            }
        };
        let poll_by_hand = links.iter().any(|link| link.readiness().is_none());
        let kinds: Vec<_> = links.iter().map(|link| link.capabilities().clone()).collect();
        let frame_bytes_max = kinds.iter().map(|link| link.frame_bytes_max).max().unwrap_or(0);
        let queues = Queues::new(completions_max);
        Self {
            firmware,
            away,
            unread_told: 0,
            links,
            outgoing: Outgoing::new(frame_bytes_max),
            memory,
            requests: Requests::default(),
            held: VecDeque::new(),
            queues,
            events: VecDeque::new(),
            events_told: Arc::default(),
            directory: Directory::new(peers_max),
            sleepers: Sleepers::default(),
            wait_times: WaitTimes::new(wait_mode),
            dirty: true,
            next_timer: Time::NEVER,
            timer_moved: true,
            posts_since_turn: 0,
            last_turn: Time::default(),
            emptied_at: Time::default(),
            last_post: Time::default(),
            guessed: false,
            poll_by_hand,
            seldom: attention::seldom(&kinds).map(Seldom::new),
            health: Health::default(),
            evidence: Evidence::new(peers_max),
            journal,
            news,
            collections,
            shown,
            joining: joining.map(Box::new),
            halved: beside.halved,
            other_worked: beside.worked,
            work: None,
            losses: Losses::default(),
            last_counters: Counters::default(),
        }
    }

    /// The current time. Read under the lock, so that the firmware's time never goes back.
    #[inline]
    #[allow(clippy::unused_self, reason = "being here is what keeps readings in order")]
    pub(crate) fn now(&self) -> Time {
        clock::now()
    }

    /// As [`turn`](Self::turn), uncounted.
    #[inline]
    pub(super) fn make_turn(&mut self, now: Time) -> bool {
        self.posts_since_turn = 0;
        self.last_turn = now;
        let received = self.receive(now);
        let timed_out = self.time_out(now);
        // Also of a node with nothing to do: its peers may have much.
        if self.health.is_due(now) {
            self.look_at_links(now);
        }
        if !(received | timed_out | self.dirty) {
            return false;
        }
        self.transmit(now);
        self.drain();
        if received {
            self.sleepers.arrival();
        }
        true
    }

    /// Frames up: from every link into the firmware. True if there were any, or there was something to catch up with
    /// instead.
    #[inline]
    fn receive(&mut self, now: Time) -> bool {
        if self.halved.is_some() {
            return self.receive_in_halves(now);
        }
        let Self { firmware: Some(firmware), links, memory, seldom, queues, emptied_at, .. } = self
        else {
            return self.receive_away();
        };
        firmware.set_unread(queues.unread());
        let unseen = Unseen::for_at_most(now.since(*emptied_at));
        let mut told = Span(0);
        let (mut frames, mut full) = (0, false);
        for (index, link) in links.iter_mut().enumerate() {
            if let Some(seldom) = seldom
                && seldom.has(index)
                && !seldom.looks(now)
            {
                continue;
            }
            let link_index = LinkIndex(index as u8);
            firmware.set_unseen(unseen.told);
            firmware.set_marked(false);
            let landing = None;
            let mut sink = Incoming { firmware, memory, now, link: link_index, landing, unseen };
            let received = link.receive_into(FRAMES_MAX, &mut sink);
            if received != 0 {
                told = sink.unseen.told;
            }
            frames += received;
            full |= received >= FRAMES_MAX;
            if received != 0
                && let Some(seldom) = seldom
            {
                seldom.heard(index, now);
            }
        }
        // What answers later is not late because of that.
        firmware.set_unseen(told);
        firmware.set_marked(false);
        if !full {
            *emptied_at = now;
        }
        // What waits does so for the program's next message, which it would only delay.
        frames != 0 || self.idle(now)
    }

    /// Does what the firmware has put off and nothing stands before. True if there was anything.
    #[inline]
    pub(super) fn idle(&mut self, now: Time) -> bool {
        let done = self.firmware.as_mut().is_some_and(|firmware| firmware.idle(now));
        self.timer_moved |= done;
        done
    }

    /// Does what the firmware has put off. True if there was anything.
    #[inline]
    pub(super) fn catch_up(&mut self, now: Time) -> bool {
        let done = self.firmware.as_mut().is_some_and(|firmware| firmware.catch_up(now));
        self.timer_moved |= done;
        done
    }

    /// How the links' interfaces are.
    #[cold]
    fn look_at_links(&mut self, now: Time) {
        let Self { firmware: Some(firmware), links, health, journal, .. } = self else { return };
        // Operations that ended so are to be told of in this turn.
        self.dirty |= health.look(now, firmware, links, journal);
        self.look_for_interfaces(now);
        let Some(firmware) = &self.firmware else { return };
        self.timer_moved = true;
        self.dirty |= firmware.has_transmit(now);
        self.show(now);
    }

    /// Something was told of a peer: it is shown at once, or soon.
    #[cold]
    pub(super) fn show_news(&mut self) {
        let now = self.now();
        if self.shown.as_mut().is_some_and(|shown| shown.note_told(now)) {
            self.show(now);
        }
    }

    /// Shows how things are to whoever looks from outside.
    #[cold]
    pub(crate) fn show(&mut self, now: Time) {
        let unsent = self.dropped_unsent();
        let Self { firmware, links, directory, journal, shown, .. } = self;
        if let (Some(shown), Some(firmware)) = (shown, firmware) {
            shown.write(shown::Scene { now, firmware, links, directory, unsent }, journal);
        }
    }

    /// What is wrong with the links, or was lately.
    pub(crate) fn link_troubles(&mut self) -> String {
        self.health.troubles(self.now(), &mut self.links)
    }

    /// Timers of the firmware. True if one was due.
    #[inline]
    fn time_out(&mut self, now: Time) -> bool {
        let due = self.next_timer() <= now;
        if due && let Some(firmware) = &mut self.firmware {
            firmware.handle_timeout(now, &mut self.memory);
            if let Some(shown) = &mut self.shown {
                shown.note_timer();
            }
            if firmware.has_silent() || self.evidence.due() <= now {
                self.evidence.look(now, firmware, &self.links, &self.directory);
                (self.dirty, self.timer_moved) = (true, true);
            }
        }
        due
    }

    #[inline]
    fn next_timer(&mut self) -> Time {
        if self.timer_moved {
            self.timer_moved = false;
            let timer = self.firmware.as_ref().and_then(Firmware::poll_timeout);
            self.next_timer = timer.unwrap_or(Time::NEVER).min(self.evidence.due());
        }
        self.next_timer
    }

    /// The firmware, to be looked at.
    pub(crate) fn firmware(&self) -> Option<&Firmware> {
        self.firmware.as_ref()
    }

    /// The firmware, to be asked for something.
    pub(crate) fn firmware_mut(&mut self) -> Option<&mut Firmware> {
        self.dirty = true;
        self.timer_moved = true;
        self.firmware.as_mut()
    }

    /// Looks for an unexpected message. It gives the firmware nothing to do, so nothing else needs to look again.
    pub(crate) fn probe(
        &mut self,
        number: u16,
        wanted: Selector,
        claim: bool,
    ) -> Option<ProbeInfo> {
        match &mut self.firmware {
            Some(firmware) => firmware.probe(number, wanted, claim),
            None => {
                let found = self.away.as_mut()?.probe(number, wanted, claim);
                self.deliver_away();
                found
            }
        }
    }

    /// Frames down: from the firmware to the links, until there are none or a link is full.
    #[inline]
    pub(crate) fn transmit(&mut self, now: Time) {
        if self.firmware.is_none() {
            return self.transmit_away();
        }
        let nothing = |firmware: &Firmware| !firmware.has_transmit(now);
        if self.outgoing.is_done() && self.firmware().is_none_or(nothing) {
            (self.dirty, self.timer_moved) = (false, true);
        } else {
            self.transmit_some(now);
        }
    }

    fn transmit_some(&mut self, mut now: Time) {
        let Self { firmware: Some(firmware), links, memory, outgoing, seldom, .. } = self else {
            return;
        };
        self.dirty = true;
        self.timer_moved = true;
        for round in 0..TRANSMIT_ROUNDS {
            if outgoing.is_done() {
                let more = firmware.has_transmit(now) && {
                    if round > 0 {
                        // What the batch before took to leave is no delay of this one's frames.
                        now = clock::now();
                    }
                    firmware.poll_transmit(now, memory, outgoing.batch());
                    outgoing.grown()
                };
                if !more {
                    self.dirty = false;
                    break;
                }
            }
            let done = outgoing.offer(now, links);
            if let Some(seldom) = seldom {
                seldom.sent(outgoing.used(seldom.links), now);
            }
            if !done {
                break;
            }
        }
    }

    /// When a turn must be made though nothing has arrived. `Time::NEVER`: not before something arrives.
    pub(crate) fn next_turn(&mut self, now: Time) -> Time {
        if self.firmware.is_none() {
            return self.next_turn_away(now);
        }
        // What waited for the program's answer may have become a frame by that.
        if self.catch_up(now) && self.firmware.as_mut().is_some_and(|f| f.has_transmit(now)) {
            self.dirty = true;
        }
        let mut next = self.next_timer();
        if self.poll_by_hand || !self.outgoing.is_done() {
            next = next.min(now + POLL_BY_HAND);
        } else if self.dirty {
            next = now;
        }
        let due = |(shown, firmware): (&Shown, &Firmware)| shown.due(firmware);
        if let Some(at) = self.shown.as_deref().zip(self.firmware.as_ref()).and_then(due) {
            next = next.min(at.max(now));
        }
        if let Some(at) = self.joining.as_ref().and_then(|joining| joining.next_look()) {
            next = next.min(at.max(now));
        }
        if let Some(at) = self.health.next_look() {
            next = next.min(at.max(now));
        }
        for due in self.links.iter().filter_map(|link| link.next_due()) {
            next = next.min(now + clock::span(due));
        }
        next
    }

    /// The links' descriptors, valid as long as this core.
    pub(crate) fn descriptors(&self) -> Vec<RawFd> {
        let links = self.links.iter().filter_map(|link| Some(link.readiness()?.as_raw_fd()));
        let joining = self.joining.as_ref().map(|joining| joining.descriptor());
        links.chain(self.away.iter().map(|away| away.descriptor())).chain(joining).collect()
    }

    /// Counts of the firmware, also after it was closed.
    pub(crate) fn counters(&self) -> Counters {
        self.firmware.as_ref().map_or_else(|| self.last_counters.clone(), Firmware::counters)
    }

    /// Frames dropped because a link did not take them for too long.
    pub(crate) fn dropped_unsent(&self) -> u64 {
        self.outgoing.dropped()
    }

    /// Nothing that was sent waits for an acknowledgement, nothing waits to be sent.
    pub(crate) fn is_drained(&self) -> bool {
        self.outgoing.is_done() && self.firmware.as_ref().is_none_or(Firmware::is_drained)
    }

    /// Learns where a node may be.
    pub(crate) fn note_hint(&mut self, node: NodeId, link: LinkIndex, address: LinkAddress) {
        if let Some(firmware) = self.firmware_mut() {
            firmware.hint(node, link, address);
        } else if let Some(away) = &mut self.away {
            away.tell(Tell::Hint(node, link, address));
        }
        self.directory.hint(node, link, address);
    }

    /// True once [`close`](Self::close) was called.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        self.firmware.is_none() && self.away.as_ref().is_none_or(|away| away.is_over())
    }
}
