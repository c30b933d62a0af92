//! What a core on two threads has beside the others, and the frames that came in one turn, which one of the threads takes.

use std::sync::Arc;

use emp_firmware::{Firmware, HostMemory, LinkIndex, ReceiveHalf, Span, Time};
use emp_link::{FrameSink, LinkAddress};
use emp_rings::Worked;

use crate::links::incoming::Incoming;
use crate::machine::second::Second;
use crate::memory::placing::Placements;
use crate::memory::process::ProcessMemory;

/// Which half is the second thread's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Placed {
    /// The one that sends: SO.
    Sending,
    /// The one that takes frames: DSR.
    Receiving,
    /// The one that takes frames, if there is something to send meanwhile, and the thread comes to it first.
    Either,
    /// Neither, but the copies of what is taken: RO.
    Copies,
    /// The one that sends, and then the copies: SR.
    SendingAndCopies,
}

/// What a core on two threads has beside the others.
pub(crate) struct Halved {
    pub(crate) second: Second,
    pub(crate) placed: Placed,
    /// The memory of messages that are sent, as the half has it that sends.
    pub(crate) source: ProcessMemory,
    /// What is to be copied by another thread than the one that takes frames, where that is so.
    pub(crate) placements: Placements,
    pub(crate) deck: Deck,
}

impl Halved {
    pub(crate) fn new(second: Second, placed: Placed, source: ProcessMemory) -> Self {
        Self { second, placed, source, placements: Placements::new(), deck: Deck::default() }
    }
}

/// What a board has beside the thread of its callers.
#[derive(Default)]
pub(crate) struct Beside {
    pub(crate) halved: Option<Box<Halved>>,
    /// What its other thread counts of its work.
    pub(crate) worked: Option<Arc<Worked>>,
}

/// Frames that came in one turn.
#[derive(Default)]
pub(crate) struct Deck {
    bytes: Vec<u8>,
    frames: Vec<Came>,
}

struct Came {
    link: LinkIndex,
    from: LinkAddress,
    start: usize,
    end: usize,
    unseen: Span,
    marked: bool,
}

impl Deck {
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Bytes of the longest frame.
    pub(super) fn longest(&self) -> usize {
        self.frames.iter().map(|came| came.end - came.start).max().unwrap_or(0)
    }

    /// What the frames hold.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.frames.clear();
    }

    /// Gives the frames to a half. Returns the first that the whole firmware must take, and from which of its bytes on.
    pub(super) fn take(
        &self,
        half: &mut ReceiveHalf<'_>,
        now: Time,
        memory: &mut impl HostMemory,
    ) -> Place {
        for (index, came) in self.frames.iter().enumerate() {
            half.set_came(came.unseen, came.marked);
            let bytes = &self.bytes[came.start..came.end];
            if let Err(byte) = half.handle_frame(now, came.link, &came.from, bytes, memory) {
                return Place { index, byte };
            }
        }
        Place { index: self.frames.len(), byte: 0 }
    }

    /// Gives the firmware the frames from there on.
    pub(super) fn give(
        &self,
        from: Place,
        now: Time,
        firmware: &mut Firmware,
        memory: &mut ProcessMemory,
    ) {
        let mut byte = from.byte;
        for came in &self.frames[from.index..] {
            firmware.set_unseen(came.unseen);
            firmware.set_marked(came.marked);
            let bytes = &self.bytes[came.start + std::mem::take(&mut byte)..came.end];
            firmware.handle_frame(now, came.link, came.from, bytes, memory);
        }
    }
}

/// A place among the frames of a deck.
#[derive(Clone, Copy, Default)]
pub(super) struct Place {
    index: usize,
    byte: usize,
}

/// Takes what one link receives into the deck.
pub(super) struct Dealt<'a> {
    pub(super) deck: &'a mut Deck,
    pub(super) whole: Incoming<'a>,
    pub(super) marked: bool,
}

impl FrameSink for Dealt<'_> {
    fn frame(&mut self, frame: &[u8], from: &LinkAddress) {
        let start = self.deck.bytes.len();
        self.deck.bytes.extend_from_slice(frame);
        let (link, unseen) = (self.whole.link, self.whole.unseen.told);
        let came = Came {
            link,
            from: *from,
            start,
            end: start + frame.len(),
            unseen,
            marked: self.marked,
        };
        self.deck.frames.push(came);
    }

    /// What becomes of it is asked at once.
    fn judge(&mut self, frame: &[u8], from: &LinkAddress, verdict: &mut String) {
        self.whole.judge(frame, from, verdict);
    }

    fn asks_what_waited(&self) -> bool {
        self.whole.asks_what_waited()
    }

    fn waited(&mut self, time: std::time::Duration) {
        self.whole.waited(time);
    }

    fn marked(&mut self, marked: bool) {
        self.marked = marked;
        self.whole.marked(marked);
    }
}
