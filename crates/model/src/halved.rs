//! A turn of an engine in halves, as the boards `split:SO`, `split:DSR` and `split:dynamic` make them: frames that came are taken by one half
//! while the other sends. Two threads would do that at once; here they take turns, and which is the quicker one is drawn. Of every second node
//! the bytes are placed when all frames were taken, the latest that boards `split:RO` and `split:SR` do it.

use std::collections::VecDeque;

use emp_firmware::{Firmware, HostMemory as _, SendHalf, Time};

use crate::inbox;
use crate::memory::{Placing, SimMemory};
use crate::network::{Delivery, Network};
use crate::node::has_room;
use crate::outbox::{Card, Outbox};
use crate::prng::Prng;

/// What a node has that sends.
pub(crate) struct Sender<'a> {
    pub(crate) outbox: &'a mut Outbox,
    pub(crate) card: &'a Card,
    pub(crate) prng: &'a mut Prng,
    pub(crate) network: &'a mut Network,
    /// The node's index.
    pub(crate) index: usize,
}

impl Sender<'_> {
    /// One batch of what there is to send. False: there is none, or it did not leave whole.
    fn send(&mut self, half: &mut SendHalf<'_>, now: Time, memory: &SimMemory) -> bool {
        if !has_room(self.network, self.index, now) {
            return false;
        }
        if self.outbox.is_done() {
            let Some(batch) = self.outbox.growing().filter(|_| half.has_transmit()) else {
                return false;
            };
            half.poll_transmit(now, memory, batch);
            self.outbox.grown();
        }
        !self.outbox.is_done()
            && self.outbox.offer(self.card, self.prng, memory, (self.index, now), self.network)
    }
}

/// Takes up to `most` frames from the front of the ring, and sends meanwhile. Returns them: they are used up.
pub(crate) fn turn(
    ring: &mut VecDeque<Delivery>,
    most: usize,
    now: Time,
    firmware: &mut Firmware,
    memory: &mut SimMemory,
    mut sender: Sender<'_>,
) -> Vec<Delivery> {
    let came: Vec<Delivery> = ring.drain(..most.min(ring.len())).collect();
    let mut next = (0, 0);
    let (places_late, mut copies) = (sender.index % 2 == 1, Vec::new());
    if let Some((mut sends, mut takes)) = firmware.halves(now) {
        // How many batches leave for each frame that is taken: none or all before the first at the ends.
        let quick = *sender.prng.pick(&[0, 20, 60, 95]);
        // Where nothing waits at the start the half that sends stays out of it.
        let has_some = sends.has_transmit();
        for (index, delivery) in came.iter().enumerate() {
            while has_some && sender.prng.percent(quick) && sender.send(&mut sends, now, memory) {}
            let Delivery { link, from, frame, marked, .. } = delivery;
            takes.set_came(inbox::waited(delivery, sender.card, now).unwrap_or_default(), *marked);
            let taken = if places_late {
                let mut placing = Placing { memory, copies: &mut copies };
                takes.handle_frame(now, *link, from, frame, &mut placing)
            } else {
                takes.handle_frame(now, *link, from, frame, memory)
            };
            next = match taken {
                Ok(()) => (index + 1, 0),
                Err(byte) => (index, byte),
            };
            if next.0 == index {
                break;
            }
        }
        while has_some && sender.prng.percent(60) && sender.send(&mut sends, now, memory) {}
        for (to, bytes) in copies {
            // Whether it may be written was asked when the frame was taken.
            let _ = memory.write(to, &bytes);
        }
        firmware.join();
    }
    for delivery in &came[next.0..] {
        let Delivery { link, from, frame, marked, .. } = delivery;
        firmware.set_unseen(inbox::waited(delivery, sender.card, now).unwrap_or_default());
        firmware.set_marked(*marked);
        let rest = &frame[std::mem::take(&mut next.1)..];
        firmware.handle_frame(now, *link, *from, rest, memory);
    }
    came
}
