//! Whether long frames get through, tried by both ends.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use emp_link::TxFrame;

use super::end::Raw;
use super::frame::{Head, Kind};

/// How long the ends look for each other's long frames: they begin a job within a few milliseconds of each other, on a busy
/// machine within tens.
const PATIENCE: Duration = Duration::from_millis(200);
/// Time between two tries.
const PAUSE: Duration = Duration::from_millis(1);
/// Tries after an end knows, so that the other learns it too where many are lost.
const LAST_TRIES: usize = 16;

impl Raw {
    /// Finds out, once, whether long frames get through both ways, if jobs of `size` would use them.
    pub(super) fn meet_long(&mut self, size: usize) {
        let wanted = self.long.payload > self.payload && size > self.payload;
        if wanted && self.long.through.is_none() {
            self.long.through = Some(self.try_long());
        }
    }

    /// Sends long frames that say whether this end has got one, until the other's say so too. True: both have.
    fn try_long(&mut self) -> bool {
        let body = vec![0; self.long.payload];
        let start = Instant::now();
        let (mut heard, mut both) = (false, false);
        while start.elapsed() < PATIENCE && !both {
            self.send_try(heard, &body);
            let until = Instant::now() + PAUSE;
            while Instant::now() < until && !both {
                // One by one: what comes behind the frame that tells both know is the job's.
                self.link.receive(1, &mut |frame, _| {
                    let Some((head, bytes)) = Head::parse(frame) else { return };
                    if head.kind == Kind::Try && bytes.len() == body.len() {
                        heard = true;
                        both |= head.index == 1;
                    }
                });
            }
        }
        if both {
            (0..LAST_TRIES).for_each(|_| self.send_try(true, &body));
        } else {
            // The other end may still be trying, and would take the job's first frames for nothing.
            std::thread::sleep(PATIENCE);
        }
        both
    }

    fn send_try(&mut self, heard: bool, body: &[u8]) {
        let index = u32::from(heard);
        let head = Head { kind: Kind::Try, job: self.job, tag: self.tag, sequence: 0, index };
        let head = head.emit(body.len());
        let parts = [IoSlice::new(&head), IoSlice::new(body)];
        // Not taken is like lost.
        self.link.send(&[TxFrame { to: self.to, parts: &parts }]);
    }
}
