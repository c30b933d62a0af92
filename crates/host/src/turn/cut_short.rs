//! The end of a node's core: what is cut short, and what was counted.

use std::time::Duration;

use emp_firmware::{Counter, OpKind, Span, Status, Time};

use crate::told::counters::{counters_line, link_line};
use crate::told::journal::Level;
use crate::told::losses::CutShort;
use crate::turn::core::Core;

/// How long goodbyes wait for a link that is full, as long as one that shares its core with busy programs may stand still; and between two tries.
const GOODBYE_PATIENCE: Span = Span::ms(100);
const GOODBYE_NAP: Duration = Duration::from_micros(50);

/// What shows that delivery goes on.
#[derive(Clone, Copy, Default)]
pub(crate) struct Left {
    pub(crate) operations: usize,
    /// Sent for the first time, and refused: what is refused is sent anew without an end.
    frames: u64,
    refused: u64,
}

impl Left {
    /// Less is left than was before: operations have ended, or long messages have gone on.
    pub(crate) const fn is_less_than(self, before: Self) -> bool {
        let on = self.frames > before.frames && self.refused == before.refused;
        self.operations < before.operations || on
    }
}

impl Core {
    /// No firmware is left: all that is under way ends, and so do all waits.
    pub(super) fn end_all(&mut self) {
        for completion in self.requests.in_flight(Status::EndpointClosed) {
            self.complete(completion);
        }
        self.sleepers.everyone();
    }

    /// Operations under way whose end somebody waits for, or was promised.
    fn unfinished(&self) -> usize {
        let kinds = [OpKind::Send, OpKind::Put, OpKind::Get, OpKind::Atomic];
        kinds.into_iter().map(|kind| self.requests.flying(kind)).sum()
    }

    /// How much there is to be delivered still.
    pub(crate) fn left(&mut self) -> Left {
        let operations = self.unfinished();
        if let Some(away) = &mut self.away {
            let left = away.left();
            let operations = operations + left.undelivered.len();
            return Left { operations, frames: left.frames, refused: left.refused };
        }
        let Some(firmware) = &self.firmware else { return Left::default() };
        let counters = firmware.counters();
        Left {
            operations: operations + firmware.undelivered().count(),
            frames: counters.get(Counter::FramesSent),
            refused: counters.get(Counter::NotReadyReceived),
        }
    }

    /// All that was sent is delivered, and all operations have ended.
    pub(crate) fn is_all_over(&mut self) -> bool {
        self.unfinished() == 0
            && match &mut self.away {
                Some(away) => away.left().drained,
                None => self.is_drained(),
            }
    }

    /// What closing now cuts short.
    pub(crate) fn cut_short(&mut self) -> Result<(), CutShort> {
        let Self { firmware, away, losses, .. } = self;
        let under_way = firmware.iter().flat_map(|firmware| firmware.undelivered());
        under_way.for_each(|node| losses.note_unacknowledged(node));
        let elsewhere = away.iter_mut().flat_map(|away| away.left().undelivered);
        elsewhere.for_each(|node| losses.note_unacknowledged(node));
        let (sends, undelivered) = (self.unfinished(), self.losses.total());
        if sends == 0 && undelivered == 0 {
            return Ok(());
        }
        let details = self.losses.details(|node| self.directory.show(node));
        Err(CutShort { sends, undelivered, details })
    }

    /// Says goodbye and ends the firmware. Everything in flight ends with [`Status::EndpointClosed`].
    pub(crate) fn close(&mut self, now: Time) {
        self.catch_up(now);
        if self.firmware.is_none() {
            return self.close_away();
        }
        // What ends others' operations leaves first, if it can.
        self.transmit(now);
        self.say_goodbye(now);
        self.hear_links_out();
        self.outgoing.forget();
        self.drain();
        self.last_counters = self.counters();
        self.firmware = None;
        self.shown = None;
        self.end_all();
    }

    /// Goodbyes to all peers. A link that is full of what is cut short takes them once it has room: peers that are not told wait until the node
    /// has been silent for long.
    fn say_goodbye(&mut self, now: Time) {
        // The goodbyes would wait behind these.
        self.outgoing.forget();
        if let Some(firmware) = &mut self.firmware {
            firmware.close(now);
        }
        loop {
            // At the time of the first try: by a later one the batch would be given up before its time.
            self.transmit(now);
            let done = self.outgoing.is_done();
            // One call takes so many of them, and thousands of peers are more.
            if (done && !self.dirty) || self.now().since(now) >= GOODBYE_PATIENCE {
                return;
            }
            if !done {
                std::thread::sleep(GOODBYE_NAP);
            }
        }
    }

    /// Nobody uses the node any more, and nobody need wait for what the kernel does to forget a packet socket. Ports and places of
    /// other links are free at once.
    pub(crate) fn let_packet_links_go(&mut self) {
        for link in std::mem::take(&mut self.links) {
            if link.capabilities().kind == "packet" {
                emp_link::let_go(link);
            }
        }
    }

    /// What links have not said yet. The links live on for their figures, but nobody asks them again: a capture of a node that never
    /// slept is written down here.
    pub(crate) fn hear_links_out(&mut self) {
        for link in &mut self.links {
            if let Some(notice) = link.notice() {
                self.journal.say_often(Level::Warn, &notice);
            }
        }
    }

    /// What was counted, as far as it is not zero, for the journal.
    pub(crate) fn tell_counters(&mut self) {
        if !self.journal.wants(Level::Info) {
            return;
        }
        let line = counters_line(&self.counters(), self.dropped_unsent());
        self.journal.say(Level::Info, &line);
        for link in &self.links {
            let line = link_line(link.capabilities(), &link.statistics());
            self.journal.say(Level::Info, &line);
        }
    }
}
