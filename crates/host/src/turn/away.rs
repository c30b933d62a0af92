//! Turns of a node whose firmware is in the service: what has come out of the ring goes to those who wait for it.

use emp_firmware::{AtomicDescriptor, GetDescriptor, PostError, ReceiveDescriptor, Segment, Time};

use crate::daemon::Tell;
use crate::flying::requests::{Begun, State};
use crate::memory::process::is_apart;
use crate::told::journal::Level;
use crate::turn::core::{Core, POLL_BY_HAND};
use crate::turn::posts::Departing;

/// Completions more or less that wait for the application, of which the engine is told: a part of what it lets wait, and a record in a thousand.
const UNREAD_STEP: usize = 1024;

impl Core {
    /// What has come. True if there was anything.
    #[inline]
    pub(super) fn receive_away(&mut self) -> bool {
        let unread = self.queues.held();
        if self.queues.has_taken() || self.unread_told.abs_diff(unread) >= UNREAD_STEP {
            self.tell_read();
        }
        let worked = self.away.as_mut().is_some_and(|away| away.turn());
        worked | self.deliver_away()
    }

    /// Hands out what was read. True if there was anything.
    #[inline]
    pub(crate) fn deliver_away(&mut self) -> bool {
        let mut worked = false;
        while let Some(completion) = self.away.as_mut().and_then(|away| away.take_ended()) {
            self.complete(completion);
            worked = true;
        }
        while let Some(event) = self.away.as_mut().and_then(|away| away.take_event()) {
            self.happened(event);
            worked = true;
        }
        if self.away.as_mut().is_some_and(|away| away.takes_leave()) {
            self.lose_away();
            worked = true;
        }
        worked
    }

    /// The application has taken notifications: there is room for others. Or it has taken other completions, or has not.
    #[cold]
    fn tell_read(&mut self) {
        self.unread_told = self.queues.held();
        let taken = self.queues.notifications_taken() as u64;
        if let Some(away) = &mut self.away {
            away.tell(Tell::Unread(self.unread_told as u64));
            if taken != 0 {
                away.tell(Tell::Taken(taken));
            }
            away.flush();
        }
    }

    /// The service has ended, or broke the rules.
    #[cold]
    fn lose_away(&mut self) {
        let why = self.away.as_ref().map_or("", |away| away.why_over());
        let line = format!("empd: {why}; this node is closed, and what was under way has ended");
        self.journal.say(Level::Error, &line);
        self.end_all();
    }

    /// The service is told of what was posted.
    #[inline]
    pub(super) fn transmit_away(&mut self) {
        (self.dirty, self.timer_moved) = (false, false);
        if let Some(away) = &mut self.away {
            away.flush();
        }
        self.deliver_away();
    }

    /// As [`next_turn`](Core::next_turn). The service is asked to ring from now on.
    pub(super) fn next_turn_away(&mut self, now: Time) -> Time {
        let Some(away) = &mut self.away else { return Time::NEVER };
        if away.arm() {
            now
        } else if away.is_blocked() {
            now + POLL_BY_HAND
        } else {
            Time::NEVER
        }
    }

    /// Posts what may leave within its post elsewhere.
    ///
    /// # Safety
    ///
    /// As for [`Post::post`](crate::turn::posts::Post::post).
    pub(super) unsafe fn post_away(
        &mut self,
        posted: Departing,
        state: State,
        more: bool,
    ) -> Result<Begun, PostError> {
        match &posted {
            Departing::Send(send) => self.check_away(&state, send.segments.as_slice())?,
            Departing::Put(put) => self.check_away(&state, put.segments.as_slice())?,
            Departing::Atomic(atomic) => {
                let AtomicDescriptor { operands, compare, fetch_into, .. } = atomic;
                let lists = [Some(operands), compare.as_ref(), fetch_into.as_ref()];
                let mut lists = lists.into_iter().flatten();
                lists.try_for_each(|list| self.check_away(&state, list.as_slice()))?;
            }
        }
        let Self { away: Some(away), requests, .. } = self else { return Err(PostError::Closing) };
        // SAFETY (all): as the caller promises; all segments are pointers.
        let key = match posted {
            Departing::Send(send) => {
                return requests.insert_unless_over(state, |context| {
                    // SAFETY: see above.
                    unsafe { away.post_send(&send, context, more) }
                });
            }
            Departing::Put(put) => {
                // SAFETY: see above.
                requests.insert(state, |context| unsafe { away.post_put(&put, context) })
            }
            Departing::Atomic(atomic) => {
                // SAFETY: see above.
                requests.insert(state, |context| unsafe { away.post_atomic(atomic, context) })
            }
        };
        key.map(Begun::Flying)
    }

    /// Posts a get.
    ///
    /// # Safety
    ///
    /// As for [`Post::post`](crate::turn::posts::Post::post).
    pub(super) unsafe fn post_get_away(
        &mut self,
        get: GetDescriptor,
        state: State,
    ) -> Result<(Begun, Time), PostError> {
        self.check_away(&state, get.segments.as_slice())?;
        let now = self.now();
        let Self { away: Some(away), requests, .. } = self else { return Err(PostError::Closing) };
        // SAFETY: as the caller promises; all segments are pointers.
        let key = requests.insert(state, |context| unsafe { away.post_get(get, context) })?;
        Ok((Begun::Flying(key), now))
    }

    /// Posts a receive.
    ///
    /// # Safety
    ///
    /// As for [`Post::post`](crate::turn::posts::Post::post).
    pub(super) unsafe fn post_receive_away(
        &mut self,
        receive: ReceiveDescriptor,
        least_free: Option<u64>,
        state: State,
    ) -> Result<(Begun, Time), PostError> {
        self.check_away(&state, receive.segments.as_slice())?;
        let now = self.now();
        let Self { away: Some(away), requests, .. } = self else { return Err(PostError::Closing) };
        let key = requests.insert(state, |context| {
            // SAFETY: as the caller promises; all segments are pointers.
            unsafe { away.post_receive(receive, least_free, context) }
        })?;
        Ok((Begun::Flying(key), now))
    }

    /// There is a queue for the end, and the memory can be copied by this process.
    fn check_away(&self, state: &State, segments: &[Segment]) -> Result<(), PostError> {
        if segments.iter().any(|segment| is_apart(*segment)) {
            return Err(PostError::NotOnBoard);
        }
        if matches!(state, State::Raw { .. }) && self.queues.is_full() {
            return Err(PostError::Busy);
        }
        Ok(())
    }

    /// Ends the engine.
    #[cold]
    pub(super) fn close_away(&mut self) {
        let Some(away) = &mut self.away else { return };
        self.last_counters = away.counters();
        away.close();
        self.receive_away();
        self.away = None;
        self.end_all();
    }
}
