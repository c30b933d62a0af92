//! Sleeping and waking.

use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use super::bench::{Ends, PATIENCE, TAGS, collect, ensure, frames, send_all};
use super::{Outcome, Pair};
use crate::system::{self, Polled};

/// A wait that is to time out.
const SHORT: Duration = Duration::from_millis(20);

pub(super) fn wait(pair: &dyn Pair) -> Outcome {
    let Ends { mut a, mut b, to_b, .. } = Ends::open(pair)?;
    let start = Instant::now();
    ensure!(!b.wait(Some(SHORT)), "woke without a frame");
    ensure!(start.elapsed() >= SHORT, "gave up after {:?} of {SHORT:?}", start.elapsed());
    ensure!(!b.wait(Some(Duration::ZERO)), "a look saw a frame that is not there");
    let one = frames(TAGS[1], 0, 1, 64);
    // Without end, and with an end far off.
    for timeout in [None, Some(PATIENCE)] {
        let woken = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                std::thread::sleep(SHORT);
                send_all(&mut *a, to_b, &one)
            });
            let woken = b.wait(timeout);
            sender.join().map_err(|_| "the sender panicked".to_string())?.map(|()| woken)
        })?;
        ensure!(woken, "a frame did not end the wait");
        // Still true while the frame is there.
        ensure!(b.wait(Some(PATIENCE)), "the frame is there and the wait timed out");
        collect(&mut *b, 1)?;
    }
    ensure!(!b.wait(Some(SHORT)), "woke for a frame that was taken");
    Ok(())
}

pub(super) fn readiness(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    let poll = |ends: &Ends, time| ends.b.readiness().map(|fd| system::poll(fd, Some(time)));
    let Some(before) = poll(&ends, SHORT) else { return Ok(()) };
    ensure!(before == Polled::Nothing, "ready without a frame: {before:?}");
    let kept = ends.b.readiness().map(|fd| fd.try_clone_to_owned());
    let Some(Ok(kept)) = kept else { return Err("its descriptor cannot be kept".into()) };
    for count in [1, 30] {
        send_all(&mut *ends.a, ends.to_b, &frames(TAGS[1], 0, count, 64))?;
        let after = poll(&ends, PATIENCE);
        ensure!(after == Some(Polled::Readable), "not ready with {count} frames: {after:?}");
        collect(&mut *ends.b, count)?;
        // Of a descriptor that was asked for before, as by those who sleep on several: then this is what they ask.
        let soon = |due: Option<Duration>| due.is_some_and(|due| due <= SHORT);
        if soon(ends.b.next_due()) {
            // Its interface may have changed just now, as when the system is through with a new address: who asks has heard of it.
            let _ = ends.b.condition();
        }
        // A link may have something of its own to do later.
        let due = ends.b.next_due();
        ensure!(!soon(due), "due in {due:?} though all was taken");
        let emptied = |ends: &mut Ends| -> Outcome {
            let emptied = system::poll(kept.as_fd(), Some(SHORT));
            ensure!(
                emptied == Polled::Nothing,
                "kept, and ready though all was taken: {emptied:?}"
            );
            let emptied = poll(ends, SHORT);
            ensure!(emptied == Some(Polled::Nothing), "ready though all was taken: {emptied:?}");
            Ok(())
        };
        if let Err(failure) = emptied(&mut ends) {
            // A look that finds nothing is the end of it.
            let found = ends.b.receive(1, &mut |_, _| ());
            ensure!(pair.is_threaded() && found == 0, "{failure}; {found} frames more");
            emptied(&mut ends)?;
        }
    }
    Ok(())
}
