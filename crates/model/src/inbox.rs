//! Frames from a node's receive ring into its firmware: one by one, as a train in one piece, or with their payload where it
//! belongs, as different links hand them up.

use std::collections::VecDeque;

use emp_firmware::{Arriving, Firmware, HostMemory, Span, Time};
use emp_wire::HEADER_BYTES;

use crate::memory::SimMemory;
use crate::network::{Delivery, Network};
use crate::outbox::Card;

/// Frames of one train that a link hands up at a time: as many as one call of a segmenting link brings.
const TRAIN_FRAMES_MAX: usize = 44;

/// What a frame waited less than that is not asked for, as in the host.
const STAMPED_MIN: Span = Span::us(50);

/// Frames of one length, the last perhaps shorter, that come one after the other from one place.
fn train_length(ring: &VecDeque<Delivery>, most: usize) -> usize {
    let Some(first) = ring.front() else { return 0 };
    let frame_bytes = first.frame.len();
    let mut frames = 1;
    for next in ring.iter().skip(1).take(most.min(TRAIN_FRAMES_MAX) - 1) {
        let same = (next.link, next.from, next.marked) == (first.link, first.from, first.marked);
        if !same || next.frame.len() > frame_bytes || next.frame.len() <= HEADER_BYTES {
            break;
        }
        frames += 1;
        if next.frame.len() < frame_bytes {
            break;
        }
    }
    frames
}

/// How long a frame has waited, if its card says so.
pub(crate) fn waited(delivery: &Delivery, card: &Card, now: Time) -> Option<Span> {
    Some(now.since(delivery.came)).filter(|waited| card.stamps && *waited >= STAMPED_MIN)
}

/// Hands up to `most` frames from the front of the ring to the firmware. Returns them: they are used up.
pub fn hand_up(
    ring: &mut VecDeque<Delivery>,
    most: usize,
    card: &Card,
    now: Time,
    firmware: &mut Firmware,
    memory: &mut SimMemory,
) -> Vec<Delivery> {
    let frames = if card.trains || card.places { train_length(ring, most) } else { 1 };
    let train: Vec<Delivery> = ring.drain(..frames.min(ring.len())).collect();
    let mut taken = 0;
    // The kernel merges what is marked alike.
    firmware.set_marked(train.first().is_some_and(|first| first.marked));
    let waited = |delivery: &Delivery| waited(delivery, card, now);
    firmware.set_unseen(train.last().and_then(waited).unwrap_or_default());
    if card.places && firmware.expects_landing() {
        taken = place(&train, now, firmware, memory);
    }
    if card.trains && taken == 0 && train.len() > 1 {
        taken = hand_train(&train, now, firmware, memory);
    }
    for delivery in &train[taken..] {
        let Delivery { link, from, frame, marked, .. } = delivery;
        firmware.set_unseen(waited(delivery).unwrap_or_default());
        firmware.set_marked(*marked);
        firmware.handle_frame(now, *link, *from, frame, memory);
    }
    train
}

/// In one piece; returns how many of them the firmware took.
fn hand_train(
    train: &[Delivery],
    now: Time,
    firmware: &mut Firmware,
    memory: &mut SimMemory,
) -> usize {
    let Delivery { link, from, ref frame, .. } = train[0];
    let bytes: Vec<u8> = train.iter().flat_map(|delivery| &delivery.frame).copied().collect();
    let taken = firmware.handle_train(now, (link, from), &bytes, frame.len(), memory);
    taken.div_ceil(frame.len())
}

/// With their payload put where it belongs; returns how many of them were.
fn place(train: &[Delivery], now: Time, firmware: &mut Firmware, memory: &mut SimMemory) -> usize {
    let Delivery { link, from, ref frame, .. } = train[0];
    let frame_bytes = frame.len();
    let Some(head) = frame.first_chunk().filter(|_| Firmware::is_worth_placing(frame_bytes)) else {
        return 0;
    };
    let bytes = train.iter().map(|delivery| delivery.frame.len()).sum();
    let Some(landing) = firmware.plan_landing(&Arriving { link, from, head, frame_bytes, bytes })
    else {
        return 0;
    };
    let (into, mut at) = (landing.memory(), 0);
    let mut heads = Vec::new();
    for delivery in train.iter().take(landing.frames()) {
        let Some((head, payload)) = delivery.frame.split_first_chunk::<HEADER_BYTES>() else {
            break;
        };
        let part = into.part(at, payload.len() as u64);
        // A fault is noted by the memory and fails the run.
        let _ = memory.write(part, &payload[..part.bytes as usize]);
        at += part.bytes;
        heads.push(*head);
    }
    firmware.take_landed(now, &landing, &heads, memory);
    heads.len()
}

/// Gives the frames' buffers back.
pub fn recycle(train: Vec<Delivery>, network: &mut Network) {
    for delivery in train {
        network.recycle(delivery.frame);
    }
}
