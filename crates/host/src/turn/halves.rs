//! A turn on two threads: frames that came are taken by one half of the firmware, on one thread, while the other half sends, on the other
//! (boards `split:SO`, `split:DSR`, `split:dynamic`), or what they bring is copied there (`split:RO`), or both (`split:SR`). All the rest is one
//! thread's, as on other boards, and so is the lock.

use emp_firmware::{LinkIndex, SendHalf, Span, Time};
use emp_link::Link;

use crate::links::incoming::{Incoming, Unseen};
use crate::links::outgoing::Outgoing;
use crate::machine::second::pause;
use crate::memory::placing::{self, Copies};
use crate::memory::process::ProcessMemory;
use crate::turn::core::{Core, FRAMES_MAX, TRANSMIT_ROUNDS};
use crate::turn::deck::{Dealt, Halved, Place, Placed};

/// Sends what there is to send, as [`Core::transmit`] does.
fn send(
    half: &mut SendHalf<'_>,
    now: Time,
    source: &ProcessMemory,
    outgoing: &mut Outgoing,
    links: &mut [Box<dyn Link>],
) {
    for _ in 0..TRANSMIT_ROUNDS {
        if outgoing.is_done() {
            let more = half.has_transmit() && {
                half.poll_transmit(now, source, outgoing.batch());
                outgoing.grown()
            };
            if !more {
                return;
            }
        }
        if !outgoing.offer(now, links) {
            return;
        }
    }
}

/// Makes the copies of a turn.
fn copy(copies: Copies<'_>) {
    let mut looks = 0;
    copies.make(|| pause(&mut looks));
}

impl Core {
    /// Frames up, and what waits to be sent down meanwhile. True if there were any frames, or there was something to catch up with instead.
    pub(super) fn receive_in_halves(&mut self, now: Time) -> bool {
        let Some((frames, told)) = self.deal(now) else { return false };
        let Self {
            firmware: Some(firmware),
            memory,
            halved: Some(halved),
            links,
            outgoing,
            seldom,
            ..
        } = self
        else {
            return false;
        };
        let Halved { second, placed, source, placements, deck } = &mut **halved;
        let (mut next, mut sent) = (Place::default(), false);
        if !deck.is_empty()
            && let Some((mut sends, mut takes)) = firmware.halves(now)
        {
            let has_sends = sends.has_transmit() || !outgoing.is_done();
            sent = has_sends;
            let mut send = || send(&mut sends, now, source, outgoing, links);
            let copied = matches!(placed, Placed::Copies | Placed::SendingAndCopies);
            if copied && deck.longest() >= placing::BYTES_MIN {
                let (mut placing, copies) = placements.lend(memory, deck.bytes());
                let take = || {
                    next = deck.take(&mut takes, now, &mut placing);
                    // Who copies is not to wait for more.
                    drop(placing);
                };
                if *placed == Placed::Copies {
                    let here = || {
                        take();
                        send();
                    };
                    second.beside(here, || copy(copies), false);
                } else {
                    let there = || {
                        send();
                        copy(copies);
                    };
                    second.beside(take, there, false);
                }
            } else {
                let mut take = || next = deck.take(&mut takes, now, memory);
                match placed {
                    Placed::Sending | Placed::SendingAndCopies if has_sends => {
                        second.beside(take, send, false);
                    }
                    Placed::Receiving => second.beside(send, take, false),
                    Placed::Either if has_sends => second.beside(send, take, true),
                    _ => take(),
                }
            }
            firmware.join();
            if let Some(seldom) = seldom {
                seldom.sent(has_sends && outgoing.used(seldom.links), now);
            }
        }
        deck.give(next, now, firmware, memory);
        // What answers later is not late because of that.
        firmware.set_unseen(told);
        firmware.set_marked(false);
        self.dirty |= sent;
        self.timer_moved |= sent;
        frames != 0 || self.idle(now)
    }

    /// Frames of every link into the deck. How many there were, and how long they may have waited.
    fn deal(&mut self, now: Time) -> Option<(usize, Span)> {
        let Self { firmware: Some(firmware), links, memory, seldom, queues, emptied_at, .. } = self
        else {
            return None;
        };
        let deck = &mut self.halved.as_mut()?.deck;
        deck.clear();
        firmware.set_unread(queues.unread());
        let unseen = Unseen::for_at_most(now.since(*emptied_at));
        let (mut told, mut frames, mut full) = (Span(0), 0, false);
        for (index, link) in links.iter_mut().enumerate() {
            if let Some(seldom) = seldom
                && seldom.has(index)
                && !seldom.looks(now)
            {
                continue;
            }
            firmware.set_unseen(unseen.told);
            firmware.set_marked(false);
            let link_index = LinkIndex(index as u8);
            let whole = Incoming { firmware, memory, now, link: link_index, landing: None, unseen };
            let mut sink = Dealt { deck, whole, marked: false };
            let received = link.receive_into(FRAMES_MAX, &mut sink);
            if received != 0 {
                told = sink.whole.unseen.told;
                if let Some(seldom) = seldom {
                    seldom.heard(index, now);
                }
            }
            frames += received;
            full |= received >= FRAMES_MAX;
        }
        if !full {
            *emptied_at = now;
        }
        Some((frames, told))
    }
}
