//! What is sent arrives: whole, in order, at the right end.

use std::io::IoSlice;

use emp_wire::{HEADER_BYTES, LinkAddress};

use super::bench::{
    Ends, TAGS, collect, ensure, frame, frames, matches, same, send_all, send_batch,
};
use super::{Outcome, Pair};
use crate::{Link, TxFrame};

/// Up to this many bytes every single size is tried; beyond, sizes in prime steps, so that no
/// alignment is missed.
const EVERY_SIZE_BYTES: usize = 2048;
const STEP_BYTES: usize = 97;
/// Frames in flight at once: no link's queue is that short.
const BURST: usize = 16;
/// Frames of the classic train: as many of 1472 bytes as fit into 64 KiB.
const TRAIN: usize = 44;
/// Round trips of the two-way check.
const ROUNDS: u64 = 1000;

pub(super) fn every_size(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let small = HEADER_BYTES..=ends.bytes_max.min(EVERY_SIZE_BYTES);
    let large = (EVERY_SIZE_BYTES..ends.bytes_max).step_by(STEP_BYTES);
    let sizes: Vec<usize> = small.chain(large).chain([ends.bytes_max]).collect();
    for burst in sizes.chunks(BURST) {
        let frames: Vec<Vec<u8>> =
            burst.iter().map(|size| frame(TAGS[1], *size as u64, *size)).collect();
        ends.deliver(&frames)?;
        // One by one takes other ways through a link than a batch.
        for alone in &frames {
            ends.deliver(std::slice::from_ref(alone))?;
        }
    }
    Ok(())
}

pub(super) fn gather(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let parts_max = ends.a.capabilities().parts_max;
    ensure!(parts_max >= 2, "header and payload need two parts, and there are {parts_max}");
    for bytes in [HEADER_BYTES, 700, ends.bytes_max].map(|bytes| bytes.min(ends.bytes_max)) {
        for count in 1..=parts_max {
            let whole = frame(TAGS[1], count as u64, bytes);
            // Uneven parts: the header, then ever longer ones, the last takes what is left.
            let mut rest = &whole[..];
            let mut parts = Vec::new();
            for part in 0..count {
                let take = if part + 1 == count { rest.len() } else { (part * 3).min(rest.len()) };
                let (head, tail) = rest.split_at(take);
                parts.push(IoSlice::new(head));
                rest = tail;
            }
            // Alone, and as two frames of one batch.
            let one = TxFrame { to: ends.to_b, parts: &parts };
            send_batch(&mut *ends.a, &[one])?;
            send_batch(&mut *ends.a, &[one, one])?;
            for got in collect(&mut *ends.b, 3)? {
                ensure!(matches(&got, &whole), "{bytes} bytes in {count} parts came changed");
            }
        }
    }
    Ok(())
}

pub(super) fn order(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let batch_max = ends.a.capabilities().batch_max;
    let mut first = 0;
    for count in [1, 2, 3, 7, batch_max - 1, batch_max, batch_max + 1, 2 * batch_max + 3] {
        for bytes in [HEADER_BYTES, 600.min(ends.bytes_max)] {
            let batch = frames(TAGS[1], first, count, bytes);
            ends.deliver(&batch).map_err(|e| format!("batch of {count} times {bytes}: {e}"))?;
            first += count as u64;
        }
    }
    // Sizes that change all the time break every run of equal frames.
    let mixed: Vec<Vec<u8>> = (0..60u64)
        .map(|number| frame(TAGS[1], number, HEADER_BYTES + (number * 37 % 400) as usize))
        .collect();
    ends.deliver(&mixed)
}

pub(super) fn trains(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let bytes = ends.bytes_max.min(1472);
    for (equal, tail) in [(TRAIN, Some(100)), (TRAIN, None), (2, Some(HEADER_BYTES)), (64, None)] {
        let mut train = frames(TAGS[1], 0, equal, bytes);
        train.extend(tail.map(|tail| frame(TAGS[1], 9999, tail)));
        ends.deliver(&train).map_err(|e| format!("{equal} frames of {bytes}: {e}"))?;
    }
    // Two trains back to back, cut by a short and a long frame.
    let mut batch = frames(TAGS[1], 0, 20, bytes.min(900));
    batch.push(frame(TAGS[1], 100, 40));
    batch.push(frame(TAGS[1], 101, 41));
    batch.extend(frames(TAGS[1], 200, 20, bytes.min(901)));
    ends.deliver(&batch)?;
    // A train of more than one part a frame, as the firmware sends: header here, payload there.
    let whole = frames(TAGS[1], 300, TRAIN, bytes);
    let parts: Vec<[IoSlice<'_>; 3]> = whole
        .iter()
        .map(|bytes| {
            let (head, body) = bytes.split_at(HEADER_BYTES);
            let (body, tail) = body.split_at(body.len() / 2);
            [IoSlice::new(head), IoSlice::new(body), IoSlice::new(tail)]
        })
        .collect();
    let to = ends.to_b;
    let batch: Vec<TxFrame<'_>> = parts.iter().map(|parts| TxFrame { to, parts }).collect();
    send_batch(&mut *ends.a, &batch)?;
    super::bench::same(&collect(&mut *ends.b, TRAIN)?, &whole)
}

/// Receives one frame and says where it came from.
fn source(link: &mut dyn Link) -> Result<LinkAddress, String> {
    let start = std::time::Instant::now();
    let mut source = None;
    while link.receive(1, &mut |_, from| source = Some(*from)) == 0 {
        ensure!(start.elapsed() < super::bench::PATIENCE, "the frame did not arrive");
    }
    source.ok_or_else(|| "a frame was counted but not handed up".into())
}

pub(super) fn source_address(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    send_all(&mut *ends.a, ends.to_b, &frames(TAGS[1], 0, 1, 64))?;
    let from = source(&mut *ends.b)?;
    ensure!(from == ends.to_a, "frames of {} seem to come from {from}", ends.to_a);
    send_all(&mut *ends.b, from, &frames(TAGS[0], 1, 1, 64))?;
    let from = source(&mut *ends.a)?;
    ensure!(from == ends.to_b, "the answer of {} seems to come from {from}", ends.to_b);
    Ok(())
}

pub(super) fn everyone(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let hello = frames(emp_wire::TAG_EVERYONE, 0, 1, 64);
    send_all(&mut *ends.a, LinkAddress::EVERYONE, &hello)?;
    super::bench::same(&collect(&mut *ends.b, 1)?, &hello)?;
    let own = ends.a.receive(1, &mut |_, _| ());
    ensure!(own == 0, "the sender hears its own frame to everyone");
    Ok(())
}

pub(super) fn both_ways(pair: &dyn Pair) -> Outcome {
    let Ends { mut a, mut b, to_a, to_b, .. } = Ends::open(pair)?;
    std::thread::scope(|scope| {
        let echo = scope.spawn(move || -> Outcome {
            for number in 0..ROUNDS {
                collect(&mut *b, 1)?;
                send_all(&mut *b, to_a, &[frame(TAGS[0], number, 48)])?;
            }
            Ok(())
        });
        let mut outcome = Ok(());
        for number in 0..ROUNDS {
            outcome = send_all(&mut *a, to_b, &[frame(TAGS[1], number, 48)])
                .and_then(|()| collect(&mut *a, 1))
                .and_then(|got| super::bench::same(&got, &[frame(TAGS[0], number, 48)]));
            if outcome.is_err() {
                break;
            }
        }
        let echo = echo.join().map_err(|_| "the echoing end panicked".to_string())?;
        outcome.and(echo)
    })
}

pub(super) fn statistics(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let mut bytes = 0;
    for count in [1, 5, 50] {
        let batch = frames(TAGS[1], 0, count, 200);
        bytes += (count * 200) as u64;
        ends.deliver(&batch)?;
    }
    let (a, b) = (ends.a.statistics(), ends.b.statistics());
    ensure!(a.frames_sent == 56, "sent 56 frames and counted {}", a.frames_sent);
    ensure!(a.bytes_sent == bytes, "sent {bytes} bytes and counted {}", a.bytes_sent);
    ensure!(b.frames_received == 56, "received 56 frames and counted {}", b.frames_received);
    ensure!(b.bytes_received == bytes, "received {bytes} bytes and counted {}", b.bytes_received);
    ensure!((1..=56).contains(&a.send_calls), "56 frames took {} calls", a.send_calls);
    let bad = a.send_refused + a.system_errors + b.receive_lost + b.not_for_us + b.system_errors;
    ensure!(bad == 0, "nothing went wrong, yet the counts say so: {a:?}, {b:?}");
    Ok(())
}

/// Of a frame whose memory is lent nothing is read later, however long it is.
pub(super) fn lent(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let long = ends.long_bytes.max(ends.bytes_max);
    for (number, bytes) in (0u64..).zip([100, ends.bytes_max, long / 2, long]) {
        let mut lent = frame(TAGS[1], number, bytes);
        let sent = lent.clone();
        let (head, payload) = lent.split_at_mut(HEADER_BYTES);
        let parts = [IoSlice::new(head), IoSlice::new(payload)];
        let taken = ends.a.send_lent(&TxFrame { to: ends.to_b, parts: &parts });
        payload.fill(0xAA);
        ensure!(taken, "{bytes} bytes were not taken by a link with nothing to do");
        same(&collect(&mut *ends.b, 1)?, &[sent]).map_err(|e| format!("{bytes} bytes: {e}"))?;
    }
    Ok(())
}
