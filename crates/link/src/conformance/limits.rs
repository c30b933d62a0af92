//! What a link must not let through, must bound, and must survive.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use emp_wire::{LinkAddress, TAG_EVERYONE};

use super::bench::{
    Ends, PATIENCE, QUIET, TAGS, collect, drain, ensure, frame, frames, same, send_all, send_batch,
    settle,
};
use super::{Outcome, Pair};
use crate::TxFrame;

/// Bytes of a flood: four times the largest receive buffer or ring that a link makes by default,
/// counting what the kernel adds to each frame.
const FLOOD_BYTES: usize = 64 << 20;
/// Most frames of a flood, for links whose frames are small.
const FLOOD_FRAMES: usize = 50_000;

pub(super) fn tags(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let other = frame(TAGS[1] ^ 1, 1, 100);
    let own = frame(TAGS[1], 2, 100);
    let every = frame(TAG_EVERYONE, 3, 100);
    // Too short to carry a tag: nobody's.
    let stump = vec![0x24; 5];
    // The other node's are in between, behind, and alone.
    let sent =
        [own.clone(), other.clone(), every.clone(), stump.clone(), other.clone(), own.clone()];
    send_all(&mut *ends.a, ends.to_b, &sent)?;
    same(&collect(&mut *ends.b, 3)?, &[own.clone(), every, own])?;
    send_all(&mut *ends.a, ends.to_b, &[other])?;
    send_all(&mut *ends.a, ends.to_b, &[stump])?;
    let more = drain(&mut *ends.b, QUIET);
    ensure!(more == 0, "{more} frames for others came through");
    let wrong = ends.b.statistics().receive_lost;
    ensure!(wrong == 0, "filtered frames count as lost: {wrong}");
    Ok(())
}

pub(super) fn refused(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let parts_max = ends.a.capabilities().parts_max;
    let good = frame(TAGS[1], 1, 64);
    let long = frame(TAGS[1], 2, ends.a.capabilities().sent_bytes_max() + 1);
    let good = [IoSlice::new(&good)];
    let long = [IoSlice::new(&long)];
    let many = vec![IoSlice::new(&[0x24; 4]); parts_max + 1];
    let to = ends.to_b;
    let batch = [
        TxFrame { to, parts: &long },
        TxFrame { to, parts: &good },
        TxFrame { to, parts: &many },
        TxFrame { to: LinkAddress::LOOPBACK, parts: &good },
        TxFrame { to, parts: &[] },
        TxFrame { to, parts: &good },
        TxFrame { to, parts: &long },
    ];
    send_batch(&mut *ends.a, &batch)?;
    let whole = good[0].to_vec();
    same(&collect(&mut *ends.b, 2)?, &[whole.clone(), whole])?;
    let (sent, bad) = (ends.a.statistics().frames_sent, ends.a.statistics().send_refused);
    ensure!(sent == 2 && bad == 5, "of 5 bad frames and 2 good, {bad} were refused, {sent} sent");
    Ok(())
}

pub(super) fn budget(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let sent = frames(TAGS[1], 0, 50, 100);
    send_all(&mut *ends.a, ends.to_b, &sent)?;
    ensure!(ends.b.wait(Some(PATIENCE)), "frames were sent and the wait timed out");
    let none = ends.b.receive(0, &mut |_, _| ());
    ensure!(none == 0, "a budget of 0 gave {none} frames");
    let start = Instant::now();
    let mut got: Vec<Vec<u8>> = Vec::new();
    while got.len() < sent.len() && start.elapsed() < PATIENCE {
        let before = got.len();
        let count = ends.b.receive(3, &mut |bytes, _| got.push(bytes.to_vec()));
        let handed = got.len() - before;
        ensure!(count == handed, "{handed} frames were handed up and {count} counted");
        ensure!(count <= 3, "a budget of 3 gave {count} frames");
        // Frames that wait inside the link must not be slept over.
        if got.len() < sent.len() {
            ensure!(ends.b.wait(Some(PATIENCE)), "slept with {} of 50 frames got", got.len());
        }
    }
    same(&got, &sent)
}

pub(super) fn flood(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let bytes = ends.bytes_max.min(1400);
    let batch = frames(TAGS[1], 0, ends.a.capabilities().batch_max, bytes);
    let count = (FLOOD_BYTES / bytes).min(FLOOD_FRAMES);
    for _ in 0..count / batch.len() {
        send_all(&mut *ends.a, ends.to_b, &batch)?;
    }
    let sent = ends.a.statistics().frames_sent;
    let got = settle((&mut *ends.a, &mut *ends.b), (ends.to_b, TAGS[1]))? as u64;
    let lost = ends.b.statistics().receive_lost;
    ensure!(got > 0, "nothing of the flood arrived");
    ensure!(got < sent, "all {sent} frames were kept: the queue has no bound");
    ensure!(lost > 0, "{} frames were lost and none counted", sent - got);
    // And now it works as before.
    ends.deliver(&frames(TAGS[1], 7, 10, 100)).map_err(|error| format!("after it: {error}"))
}

pub(super) fn down_and_up(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    ends.deliver(&frames(TAGS[1], 0, 5, 100))?;
    if !pair.set_up(false) {
        return Ok(());
    }
    let down = while_down(&mut ends);
    // Up again whatever was seen: other checks follow.
    pair.set_up(true);
    down?;
    // The kernel takes its time until a carrier is back: try until a frame comes through.
    for way in 0..2 {
        let start = Instant::now();
        let (from, to, address) = match way {
            0 => (&mut ends.a, &mut ends.b, ends.to_b),
            _ => (&mut ends.b, &mut ends.a, ends.to_a),
        };
        let probe = [frame(TAGS[1 - way], 50, 100)];
        loop {
            send_all(&mut **from, address, &probe)?;
            to.wait(Some(Duration::from_millis(20)));
            if to.receive(1, &mut |_, _| ()) > 0 {
                break;
            }
            ensure!(start.elapsed() < PATIENCE, "no frame came through after it was up again");
        }
        settle((&mut **from, &mut **to), (address, TAGS[1 - way]))?;
    }
    ends.deliver(&frames(TAGS[1], 100, 40, 100))
}

/// Both ends try to use the dead cable: frames are taken and lost, nothing hangs.
fn while_down(ends: &mut Ends) -> Outcome {
    let before = ends.a.statistics().system_errors + ends.b.statistics().system_errors;
    send_all(&mut *ends.a, ends.to_b, &frames(TAGS[1], 10, 10, 100))?;
    send_all(&mut *ends.a, ends.to_b, &frames(TAGS[1], 10, 1, 100))?;
    send_all(&mut *ends.b, ends.to_a, &frames(TAGS[0], 20, 10, 1000.min(ends.bytes_max)))?;
    let start = Instant::now();
    let woken = ends.a.wait(Some(QUIET));
    ensure!(!woken, "a dead interface has a frame");
    ensure!(start.elapsed() >= QUIET, "waiting on a dead interface does not wait");
    let after = ends.a.statistics().system_errors + ends.b.statistics().system_errors;
    ensure!(after > before, "frames went into a dead cable and no error was counted");
    Ok(())
}
