//! Turns of a node whose firmware is in the service: what has come out of the ring goes to those who wait for it.

use emp_firmware::{PostError, ReceiveDescriptor, Segment, SendDescriptor, Time};

use crate::flying::slots::{Begun, State};
use crate::memory::process::is_apart;
use crate::told::journal::Level;
use crate::turn::core::{Core, POLL_BY_HAND};

impl Core {
    /// Why a post is refused where there is no firmware: the node is closed, or what is posted is none of what the service does.
    pub(crate) const fn refusal(&self) -> PostError {
        if self.away.is_some() { PostError::NotOnBoard } else { PostError::Closing }
    }

    /// What has come. True if there was anything.
    #[inline]
    pub(super) fn receive_away(&mut self) -> bool {
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

    /// Posts a send.
    ///
    /// # Safety
    ///
    /// As for [`Post::post`](crate::turn::posts::Post::post).
    pub(super) unsafe fn post_send_away(
        &mut self,
        send: &SendDescriptor,
        state: State,
        more: bool,
    ) -> Result<Begun, PostError> {
        self.check_away(&state, send.segments.as_slice())?;
        let Self { away: Some(away), requests, .. } = self else { return Err(PostError::Closing) };
        requests.insert_unless_over(state, |context| {
            // SAFETY: as the caller promises; all segments are pointers.
            unsafe { away.post_send(send, context, more) }
        })
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
