//! A link as its thread has it.

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use emp_rings::{SlotConsumer, SlotProducer};
use emp_wire::LinkAddress;

use super::halves::{Frame, TOGETHER};
use super::talk::{Answered, TalkedTo};
use crate::system;
use crate::{FrameSink, Link, TxFrame};

/// Most frames that are sent or received in one call: as many as the links take at once.
const BATCH: usize = 64;

/// Who has not looked for so long asks for how long frames had waited: less is noise, and some links make a call to tell.
const UNSEEN: Duration = Duration::from_micros(50);

/// How long frames that the link does not take wait before they are lost, as those that nodes keep do: twice the time in which a 1 Gb/s card sends
/// a batch of the longest.
const FULL_MAX: Duration = Duration::from_millis(10);

/// A link, and the thread's ends of its rings.
pub(super) struct Served {
    /// `None` once it is closed.
    link: Option<Box<dyn Link>>,
    down: SlotConsumer<Frame>,
    up: SlotProducer<Frame>,
    talk: TalkedTo,
    /// Makes whoever sleeps at the other end look.
    ready: Arc<OwnedFd>,
    /// Told to the other end: the link takes nothing now.
    full: Arc<AtomicBool>,
    full_since: Option<Instant>,
    looked: Instant,
    /// The link took less than it was given, or there is no room for what it has: neither wakes the thread.
    stuck: bool,
}

impl Served {
    pub(super) fn new(
        link: Box<dyn Link>,
        (down, up): (SlotConsumer<Frame>, SlotProducer<Frame>),
        talk: TalkedTo,
        (ready, full): (Arc<OwnedFd>, Arc<AtomicBool>),
    ) -> Self {
        let looked = Instant::now();
        let (full_since, stuck) = (None, false);
        Self { link: Some(link), down, up, talk, ready, full, full_since, looked, stuck }
    }

    /// Whether its link is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.link.is_none()
    }

    /// All that can be done now. True if anything was.
    pub(super) fn turn(&mut self, now: Instant) -> bool {
        // Before frames, so that who asks for counts after a send finds its frames counted.
        let asked = self.talk.asked();
        self.stuck = false;
        let moved = self.send(now) | self.receive(now);
        if asked > 0
            && let Some(link) = &mut self.link
        {
            match self.talk.answer(asked, &mut **link) {
                Answered::Asked => {}
                Answered::News => system::event_set(self.ready.as_fd()),
                Answered::Close => {
                    self.link = None;
                    self.talk.closed();
                }
            }
        }
        moved || asked > 0
    }

    /// Nothing moves. A link that has something to do though is to be looked at, as after a change of its interface: so it is, and whoever
    /// sleeps at the other end is woken to hear of it.
    pub(super) fn tell(&mut self) {
        let Some(link) = &mut self.link else { return };
        if link.next_due() == Some(Duration::ZERO) && self.talk.tell(&mut **link) {
            system::event_set(self.ready.as_fd());
        }
    }

    /// From the ring to the link, until there is nothing, or the link is full.
    fn send(&mut self, now: Instant) -> bool {
        let mut moved = false;
        loop {
            let Some(link) = &mut self.link else { return moved };
            let frames = self.down.ready().min(BATCH);
            if frames == 0 {
                return moved;
            }
            // Most often it is one.
            let taken = match frames {
                1 => offer::<1>(&mut **link, &self.down, frames),
                _ => offer::<BATCH>(&mut **link, &self.down, frames),
            };
            self.down.release(taken);
            moved |= taken > 0;
            self.note_full(taken == 0, now);
            if taken < frames {
                self.stuck = true;
                return moved;
            }
        }
    }

    /// Notes whether the link took nothing. What it does not take for too long is lost: it may be the one frame that it never takes, as an
    /// interface does whose MTU was lowered at its other end, and others wait behind it.
    #[inline]
    fn note_full(&mut self, full: bool, now: Instant) {
        if !full {
            if self.full_since.take().is_some() {
                self.full.store(false, Ordering::Relaxed);
            }
            return;
        }
        self.full.store(true, Ordering::Relaxed);
        if now.saturating_duration_since(*self.full_since.get_or_insert(now)) > FULL_MAX {
            let waiting = self.down.ready();
            self.down.release(waiting);
            self.talk.note_lost(waiting);
            self.full_since = None;
            self.full.store(false, Ordering::Relaxed);
        }
    }

    /// From the link to the ring, as far as there is room.
    fn receive(&mut self, now: Instant) -> bool {
        let Some(link) = &mut self.link else { return false };
        let room = self.up.free().min(BATCH);
        if room == 0 {
            self.stuck = true;
            return false;
        }
        let asks = now.saturating_duration_since(self.looked) >= UNSEEN;
        self.looked = now;
        let up = &mut self.up;
        let mut raising = Raising { up, now, asks, waited: Duration::ZERO, marked: false, held: 0 };
        let received = link.receive_into(room, &mut raising);
        if received == 0 {
            return false;
        }
        self.up.publish();
        if self.up.must_wake() {
            system::event_set(self.ready.as_fd());
        }
        true
    }

    /// Wants to be woken by what comes next, from either side. True: something is there.
    pub(super) fn arm(&self) -> bool {
        // Both, whatever the first says.
        self.down.arm() | self.talk.arm()
    }

    pub(super) fn disarm(&self) {
        self.down.disarm();
        self.talk.disarm();
    }

    /// How long the thread may sleep; `by_hand` if nothing would wake it.
    pub(super) fn next_due(&self, by_hand: Duration) -> Option<Duration> {
        let link = self.link.as_ref()?;
        let due = link.next_due();
        let polled = (self.stuck || link.readiness().is_none()).then_some(by_hand);
        [due, polled].into_iter().flatten().min()
    }

    /// What to sleep on.
    pub(super) fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.link.as_ref()?.readiness()
    }

    /// It would be woken at once by what it has no room for.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck
    }
}

/// Offers the first `frames` frames of the ring, at most `MOST`. Returns how many were taken.
fn offer<const MOST: usize>(
    link: &mut dyn Link,
    ring: &SlotConsumer<Frame>,
    frames: usize,
) -> usize {
    let parts: [[IoSlice<'_>; 1]; MOST] = std::array::from_fn(|place| {
        [IoSlice::new(ring.get(place).map_or(&[], |frame| &frame.bytes))]
    });
    let batch: [TxFrame<'_>; MOST] = std::array::from_fn(|place| TxFrame {
        to: ring.get(place).map_or(LinkAddress::LOOPBACK, |frame| frame.address),
        parts: &parts[place],
    });
    // One part each: of such a frame no link reads anything later.
    link.send(&batch[..frames.min(MOST)])
}

/// Takes what a link receives into the ring.
struct Raising<'a> {
    up: &'a mut SlotProducer<Frame>,
    now: Instant,
    asks: bool,
    waited: Duration,
    marked: bool,
    /// Frames that were not handed over yet.
    held: usize,
}

impl FrameSink for Raising<'_> {
    fn frame(&mut self, frame: &[u8], from: &LinkAddress) {
        // No more come than there was room for.
        self.up.fill(|slot| {
            (slot.address, slot.fetched) = (*from, self.now);
            (slot.waited, slot.marked) = (self.waited, self.marked);
            slot.bytes.clear();
            slot.bytes.extend_from_slice(frame);
        });
        self.held += 1;
        if self.held >= TOGETHER {
            self.held = 0;
            self.up.publish();
        }
    }

    fn asks_what_waited(&self) -> bool {
        self.asks
    }

    fn waited(&mut self, time: Duration) {
        self.waited = time;
    }

    fn marked(&mut self, marked: bool) {
        self.marked = marked;
    }
}
