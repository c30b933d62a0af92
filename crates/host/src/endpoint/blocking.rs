//! Calls that wait: a send until it is delivered, a receive until a message is there.

use std::fmt;
use std::time::Duration;

use emp_firmware::{Completion, CompletionMode, ProbeInfo, Selector, Status};

use crate::endpoint::error::{Failed, Refused};
use crate::endpoint::mailbox::{Address, Endpoint, SendOptions};
use crate::endpoint::request::{Finished, SendRequest, WaitError};
use crate::machine::clock;
use crate::memory::buffer::{ReceiveBuffer, SendBuffer};

/// First pause of a blocking send that was refused for lack of room; it makes progress meanwhile.
const REFUSED_PAUSE: Duration = Duration::from_micros(50);

/// Why a blocking call did not end with success.
pub enum CallError<B: Send + 'static> {
    /// The operation was not started.
    Refused(Refused<B>),
    /// It was started, but has not ended well.
    Wait(WaitError<B>),
}

impl<B: Send + 'static> fmt::Display for CallError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Wait(error) => error.fmt(f),
        }
    }
}

impl<B: Send + 'static> fmt::Debug for CallError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => refused.fmt(f),
            Self::Wait(error) => error.fmt(f),
        }
    }
}

impl<B: Send + 'static> std::error::Error for CallError<B> {}

impl Endpoint {
    /// Sends and waits until the message is *delivered*: the destination's node has all of it, for its program to receive.
    ///
    /// It waits at most for `timeout` (`None`: until the node knows how it ended). That long a destination is looked for that is
    /// not there yet, so it does not matter who starts first; without a timeout, for the profile's
    /// [`unreachable_after`](emp_firmware::Profile::unreachable_after) (5 s). A lack of room is waited for as well.
    /// [`send_wait_with`](Self::send_wait_with) can wait for less, or for more.
    ///
    /// # Errors
    ///
    /// The node was not found ([`Status::NotFound`]: nothing has left), was lost, restarted or closed (the message may have been
    /// delivered all the same), has no such endpoint, or the time has passed: then the request is in the error, and goes on. The
    /// buffer is in the error in any case.
    pub fn send_wait<B: SendBuffer>(
        &self,
        to: impl Into<Address>,
        match_bits: u64,
        buffer: B,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Finished<B>, CallError<B>> {
        self.send_wait_with(to, match_bits, buffer, SendOptions::default(), timeout)
    }

    /// As [`send_wait`](Self::send_wait), with options. Of [`CompletionMode`], `Auto` and `Delivered` wait for delivery;
    /// `Buffered`, for messages of up to [`Node::buffered_bytes_max`](crate::Node::buffered_bytes_max), until the message is copied and the node takes care of it: such a message
    /// may still be lost with its destination, which only [`Node::close`](crate::Node::close) tells. `synchronous` waits until a receive has
    /// matched the message.
    pub fn send_wait_with<B: SendBuffer>(
        &self,
        to: impl Into<Address>,
        match_bits: u64,
        mut buffer: B,
        options: SendOptions,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Finished<B>, CallError<B>> {
        let to = to.into();
        let completion = match options.completion {
            CompletionMode::Auto => CompletionMode::Delivered,
            other => other,
        };
        // Nothing follows before this call returns.
        let options = options.completion(completion).more(false);
        let deadline = timeout.into().map(|timeout| clock::now() + clock::span(timeout));
        let left = || deadline.map(|end| clock::duration(end.since(clock::now())));
        let is_late = || deadline.is_none_or(|end| clock::now() >= end);
        loop {
            match self.send_with(to, match_bits, buffer, options) {
                Ok(request) => match request.wait(left()) {
                    Err(WaitError::TimedOut(request)) => {
                        return Err(CallError::Wait(self.end_search(to, request)));
                    }
                    Err(WaitError::Failed(failed)) if may_come(&failed) && !is_late() => {
                        buffer = failed.buffer;
                    }
                    ended => return ended.map_err(CallError::Wait),
                },
                Err(refused) => {
                    let late = deadline.is_some_and(|end| clock::now() >= end);
                    if late || !refused.reason.is_temporary() {
                        return Err(CallError::Refused(refused));
                    }
                    buffer = refused.buffer;
                    self.inner.node.seat.progress_for(REFUSED_PAUSE);
                }
            }
        }
    }

    /// The time for a send has passed. If its destination was not found yet, nothing of it has left, and it ends with that.
    fn end_search<B: SendBuffer>(&self, to: Address, mut request: SendRequest<B>) -> WaitError<B> {
        let node = &self.inner.node;
        let found = node.seat.route(to.node).is_some() || node.id == to.node;
        if found || !request.cancel() {
            return WaitError::TimedOut(request);
        }
        match request.wait(None) {
            Err(WaitError::Failed(Failed { error, buffer })) => {
                let completion = Completion {
                    status: Status::NotFound,
                    peer: to.node,
                    peer_endpoint: to.endpoint,
                    ..error.completion
                };
                WaitError::Failed(Failed { error: node.error(completion), buffer })
            }
            Err(other) => other,
            Ok(done) => {
                debug_assert!(false, "a cancelled send ended well");
                WaitError::Failed(Failed {
                    error: node.error(done.completion),
                    buffer: done.buffer,
                })
            }
        }
    }

    /// Receives and waits until that has ended, at most for `timeout` (`None`: without limit).
    pub fn receive_wait<B: ReceiveBuffer>(
        &self,
        selector: Selector,
        buffer: B,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Finished<B>, CallError<B>> {
        let request = self.receive(selector, buffer).map_err(CallError::Refused)?;
        request.wait(timeout).map_err(CallError::Wait)
    }

    /// As [`probe`](Self::probe), but waits for such a message, at most for `timeout` (`None`: without limit). `None` also if
    /// the node is closed meanwhile.
    pub fn probe_wait(
        &self,
        selector: Selector,
        timeout: impl Into<Option<Duration>>,
    ) -> Option<ProbeInfo> {
        self.inner.node.seat.wait_probe(self.inner.number, selector, timeout.into())
    }
}

/// Nobody was found whom the message is for: nothing of it has left, and its destination may still be started.
fn may_come<B>(failed: &Failed<B>) -> bool {
    failed.error.status() == Status::NotFound
}
