//! A host: a program that posts descriptors by PIO and polls them over PCI (E40, E47). There are no interrupts, and no calls of the kernel but
//! for the translation of addresses (E37).

use emp_firmware::{Segment, Span, Time};

use super::card::Card;
use super::descriptor::{
    CHAINED_PAGES_MAX, DESCRIPTOR_BYTES, Descriptors, ENTRY_BYTES, LONG_PAGES_MAX, Transfer,
    entry_of,
};
use super::fabric::Event;
use super::parameters::Parameters;
use crate::card::{Agenda, HostRam};

/// A buffer of a program.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) runs: Vec<Segment>,
    pub(super) bytes: u32,
    /// Where its addresses are written for a long descriptor.
    list: Option<Segment>,
}

/// What a program waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// It polls until a descriptor is its own again.
    Poll,
    /// It computes until then.
    Compute(Time),
    /// It is over.
    End,
}

/// A program.
pub(super) trait Program {
    /// Goes on, as far as it can without waiting.
    fn step(&mut self, port: &mut Port<'_>) -> Next;
}

pub(super) struct Host {
    pub(super) ram: HostRam,
    pub(super) next: Next,
    /// Polling since.
    pub(super) since: Time,
}

impl Host {
    pub(super) fn new(pages: u64) -> Self {
        let mut ram = HostRam::new(pages);
        ram.pin_all();
        Self { ram, next: Next::Compute(Time(0)), since: Time(0) }
    }

    /// When a poll sees what the card has written at `now`: polls follow each other, and each reads in the middle of its time.
    pub(super) fn sees(&self, now: Time, parameters: &Parameters) -> Time {
        let period = parameters.poll.0;
        let polls = (now.since(self.since).0 + period / 2).div_ceil(period);
        self.since + Span(polls.max(1) * period)
    }
}

/// What a program works with: its processor's time goes on with each call.
pub(super) struct Port<'a> {
    pub(super) now: Time,
    pub(super) index: u32,
    pub(super) card: &'a mut Card,
    pub(super) ram: &'a mut HostRam,
    pub(super) agenda: &'a mut Agenda<Event>,
}

impl Port<'_> {
    /// Memory for a message.
    pub(super) fn buffer(&mut self, bytes: u32) -> Buffer {
        let runs = self.ram.buffer(bytes.into(), 0);
        let long = runs.len() > CHAINED_PAGES_MAX;
        assert!(runs.len() <= LONG_PAGES_MAX, "a message of {bytes} bytes has too many pages");
        let list = long.then(|| self.ram.buffer((runs.len() * ENTRY_BYTES) as u64, 0)[0]);
        Buffer { runs, bytes, list }
    }

    /// Its processor works for so long.
    pub(super) fn spend(&mut self, span: Span) {
        self.now = self.now + span;
    }

    pub(super) fn send(&mut self, buffer: &Buffer, tag: u32) -> Option<usize> {
        self.post(false, (1 - self.index) as u8, buffer, tag)
    }

    pub(super) fn receive(&mut self, buffer: &Buffer, tag: u32) -> Option<usize> {
        self.post(true, (1 - self.index) as u8, buffer, tag)
    }

    /// Posts a descriptor. `None`: all are in use.
    pub(super) fn post(
        &mut self,
        receive: bool,
        node: u8,
        buffer: &Buffer,
        tag: u32,
    ) -> Option<usize> {
        let pages = match buffer.list {
            None => buffer.runs.clone(),
            Some(list) => {
                let entries: Vec<u8> = buffer.runs.iter().flat_map(|run| entry_of(*run)).collect();
                self.ram.fill(&[list], &entries);
                vec![list]
            }
        };
        let long = buffer.list.is_some();
        let transfer = Transfer { receive, node, tag, bytes: buffer.bytes, pages, long };
        let at = self.card.descriptors.post(&transfer)?;
        let p = &self.card.parameters;
        let translation = Span(p.translate.0 * buffer.runs.len() as u64);
        let needed = Descriptors::needed(transfer.pages.len(), long);
        let words = (needed * DESCRIPTOR_BYTES).div_ceil(8) as u64;
        // The descriptor, and the card's event register.
        let [burst, word] = p.pio;
        self.spend(Span(p.call.0 + translation.0 + 2 * burst.0 + (words + 1) * word.0));
        self.agenda.note(self.now, Event::Posted { node: self.index, descriptor: at });
        Some(at)
    }

    /// The bytes that were transferred, once the descriptor is the host's again; it is free then.
    pub(super) fn take(&mut self, at: usize) -> Option<(bool, u32)> {
        let over = self.card.descriptors.poll(at)?;
        self.card.descriptors.release(at);
        Some(over)
    }
}
