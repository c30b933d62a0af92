//! Frames longer than the link's usual ones, where it carries them.

use super::bench::{Ends, TAGS, ensure, frame, send_all};
use super::{Outcome, Pair};

/// A short frame, then long ones of many lengths, whole and in order.
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
    ends.deliver(&batch).map_err(|e| format!("long and short in one batch: {e}"))
}

/// Who says that it carries none refuses them.
fn refused(ends: &mut Ends) -> Outcome {
    let before = ends.a.statistics().send_refused;
    send_all(&mut *ends.a, ends.to_b, &[frame(TAGS[1], 1, ends.bytes_max + 1)])?;
    let refused = ends.a.statistics().send_refused - before;
    ensure!(refused == 1, "a frame that is too long was not refused");
    Ok(())
}
