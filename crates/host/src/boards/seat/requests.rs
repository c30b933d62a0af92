//! Operations with requests: posted, looked at, waited for, cancelled, left alone.

use std::time::Duration;

use emp_firmware::{Completion, OpId, OpKind, PostError, Time};

use crate::boards::lock::{Locked, Shared};
use crate::boards::seat::{Post, Seat, is_temporary};
use crate::boards::wait::wait_for;
use crate::daemon::Tell;
use crate::flying::requests::{Begun, SlotKey, State};
use crate::flying::sleepers::Interest;

/// After a refusal for lack of room: a turn, so that a caller who just tries again gets there.
#[cold]
fn make_room(core: &mut Locked<'_>, error: PostError) -> PostError {
    if is_temporary(error) {
        let now = core.now();
        core.turn(now);
    }
    error
}

/// Posts for `state`; says as well at what time that was.
///
/// # Safety
///
/// As for [`Post::post`].
#[inline(always)]
pub(super) unsafe fn begin(
    shared: &Shared,
    core: &mut Locked<'_>,
    what: impl Post,
    state: State,
    more: bool,
) -> Result<(Begun, Time), PostError> {
    let departs = shared.sends_itself(core, more);
    // SAFETY: as the caller promises.
    let begun = unsafe { what.post(core, state, (more, departs)) };
    begun.map_err(|error| make_room(core, error))
}

impl Seat {
    /// Posts an operation whose end a request takes: what ended at once has its end here.
    ///
    /// # Safety
    ///
    /// As for [`Post::post`]: the segments stay valid until the operation's end was handed out by this seat.
    #[inline(always)]
    pub(crate) unsafe fn post(&self, what: impl Post, more: bool) -> Result<Begun, PostError> {
        let shared = &*self.shared;
        let mut core = shared.lock();
        // SAFETY: as the caller promises.
        let (begun, now) = unsafe { begin(shared, &mut core, what, State::InFlight, more) }?;
        shared.posted_with(&mut core, now, more);
        Ok(match begun {
            Begun::Flying(key) => core.requests.take_done(key).map_or(begun, Begun::Over),
            Begun::Over(_) => begun,
        })
    }

    /// The end of an operation, if it is there. Makes progress if it is not at first.
    pub(crate) fn test(&self, key: SlotKey) -> Option<Completion> {
        let mut core = self.lock();
        if let Some(completion) = core.requests.take_done(key) {
            return Some(completion);
        }
        self.shared.turn_now(&mut core);
        core.requests.take_done(key)
    }

    /// The end of an operation, once it is there.
    #[inline]
    pub(crate) fn wait(&self, key: SlotKey, timeout: Option<Duration>) -> Option<Completion> {
        wait_for(&self.shared, &Interest::One(key), timeout, |core| core.requests.take_done(key))
    }

    /// The end of the first of these operations that has ended, and its place among them, once there is one.
    pub(crate) fn wait_any(
        &self,
        keys: &[SlotKey],
        timeout: Option<Duration>,
    ) -> Option<(usize, Completion)> {
        wait_for(&self.shared, &Interest::Any(keys.to_vec()), timeout, |core| {
            let mut ends = keys.iter().map(|key| core.requests.take_done(*key)).enumerate();
            ends.find_map(|(place, end)| Some((place, end?)))
        })
    }

    /// Tries to cancel an operation. False: too late.
    pub(crate) fn cancel(&self, key: SlotKey) -> bool {
        let mut core = self.lock();
        let op = core.requests.op(key);
        self.cancel_op(&mut core, op)
    }

    /// The same, by the firmware's name of it.
    pub(super) fn cancel_op(&self, core: &mut Locked<'_>, op: OpId) -> bool {
        let now = core.now();
        let cancelled = match &mut core.away {
            Some(away) => away.cancel(op),
            None => core.firmware_mut().is_some_and(|firmware| firmware.cancel(now, op)),
        };
        self.shared.posted(core, now);
        cancelled
    }

    /// Leaves the buffer of a dropped request here until the operation has ended.
    pub(crate) fn orphan(&self, key: SlotKey, buffer: Box<dyn Send>) {
        let Some(mut core) = self.shared.lock_to_drop() else {
            // The firmware is broken but may still be referenced by a thread, or this is not its process: leaking is the sound thing to do.
            std::mem::forget(buffer);
            return;
        };
        match core.requests.orphan(key, buffer) {
            Err(buffer) => core.sleepers.bury(buffer),
            Ok(op) => {
                // A send goes on: its message was promised. A receive would take a message from others.
                if op.kind() == OpKind::Receive {
                    let now = core.now();
                    if let Some(away) = &mut core.away {
                        away.tell(Tell::Cancel(op.to_bits()));
                    } else if let Some(firmware) = core.firmware_mut() {
                        firmware.cancel(now, op);
                    }
                    self.shared.posted(&mut core, now);
                }
            }
        }
    }
}
