//! Frames longer than the link's usual ones, where it carries them.

use std::io::IoSlice;

use emp_wire::HEADER_BYTES;

use super::bench::{Ends, TAGS, collect, ensure, frame, same, send_all, send_batch};
use super::{Outcome, Pair};
use crate::TxFrame;

/// Bytes of a page: pieces that are cut at other places than pages are take other ways through a link.
const PAGE_BYTES: usize = 4096;

/// Long frames of many lengths, by themselves and among short ones, whole and in order.
pub(super) fn long_frames(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let (short, long) = (ends.bytes_max, ends.long_bytes);
    if long == 0 {
        return refused(&mut ends);
    }
    ensure!(long > short, "long frames of {long} bytes are no longer than others of {short}");
    let sizes = [short, short + 1, 2 * short, 2 * short + 1, 16_384, 16_385, long - 1, long];
    let sizes = sizes.map(|size| size.clamp(short, long));
    for (number, size) in sizes.into_iter().enumerate() {
        let lone = frame(TAGS[1], number as u64, size);
        ends.deliver(std::slice::from_ref(&lone)).map_err(|e| format!("{size} bytes: {e}"))?;
    }
    let mixed = [100, long, short, short, 40, long - 7, long, short + 100, 64];
    let batch: Vec<Vec<u8>> =
        (0u64..).zip(mixed).map(|(number, size)| frame(TAGS[1], number, size)).collect();
    ends.deliver(&batch).map_err(|e| format!("long and short in one batch: {e}"))?;
    pieces(&mut ends)
}

/// Who says that it carries none refuses them.
fn refused(ends: &mut Ends) -> Outcome {
    let before = ends.a.statistics().send_refused;
    send_all(&mut *ends.a, ends.to_b, &[frame(TAGS[1], 1, ends.bytes_max + 1)])?;
    let refused = ends.a.statistics().send_refused - before;
    ensure!(refused == 1, "a frame that is too long was not refused");
    Ok(())
}

/// As a firmware sends them: a head, and payload that lies anywhere, in one piece or several.
fn pieces(ends: &mut Ends) -> Outcome {
    // Room for a page's worth of places to begin at.
    let mut memory = vec![0u8; ends.long_bytes + 2 * PAGE_BYTES];
    let aligned = memory.as_ptr().align_offset(PAGE_BYTES);
    let long = ends.long_bytes;
    // Bytes of the head that is copied, and where the pieces behind it are cut.
    let cuts: [(usize, &[usize]); 6] = [
        (HEADER_BYTES, &[]),
        (100, &[]),
        (HEADER_BYTES, &[PAGE_BYTES]),
        (HEADER_BYTES, &[9000, 30_001]),
        (HEADER_BYTES, &[8, 72, 20_000]),
        (60, &[1000, 2000, 3000, 4000, 5000, 6000, 7000, 8000, 9000, 10_000]),
    ];
    for (number, (head, cuts)) in (0u64..).zip(cuts) {
        for offset in [0, 1, 100, PAGE_BYTES - 1] {
            for bytes in [long, long - 3, long / 2] {
                let whole = frame(TAGS[1], number, bytes);
                let (head, body) = whole.split_at(head);
                let place = &mut memory[aligned + offset..][..body.len()];
                place.copy_from_slice(body);
                let mut parts = vec![IoSlice::new(head)];
                let mut at = 0;
                for cut in cuts.iter().copied().chain([place.len()]).filter(|c| *c <= place.len()) {
                    parts.push(IoSlice::new(&place[at..cut]));
                    at = cut;
                }
                let one = TxFrame { to: ends.to_b, parts: &parts };
                send_batch(&mut *ends.a, &[one, one])?;
                same(&collect(&mut *ends.b, 2)?, &[whole.clone(), whole.clone()])
                    .map_err(|e| format!("{} parts, offset {offset}: {e}", parts.len()))?;
            }
        }
    }
    let counts = ends.a.statistics();
    ensure!(counts.system_errors == 0, "nothing went wrong, yet the counts say so: {counts:?}");
    Ok(())
}
