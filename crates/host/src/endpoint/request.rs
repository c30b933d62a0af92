//! Requests: operations in flight, with the buffers that they use.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use emp_firmware::{Completion, Status};

use crate::endpoint::error::{Failed, OperationError};
use crate::flying::requests::{Begun, SlotKey};
use crate::machine::clock;
use crate::memory::buffer::Held;
use crate::node::running::NodeInner;
use crate::told::names;

/// A send in flight.
pub type SendRequest<B> = Request<B>;

/// A receive in flight.
pub type ReceiveRequest<B> = Request<B>;

/// An operation in flight and the buffer that it uses.
///
/// The buffer cannot be reached until the operation has ended; it comes back with the result, whatever that is. A request
/// that is dropped before leaves its buffer with the node, which frees it when the operation has ended; a receive is
/// cancelled, a send goes on.
#[must_use = "dropping a request cancels a receive and loses sight of a send"]
pub struct Request<B: Send + 'static> {
    ticket: Ticket,
    /// Always there until the request is taken apart or dropped.
    buffer: Option<Held<B>>,
}

/// An operation that ended well.
#[derive(Clone, Debug)]
pub struct Finished<B> {
    /// The buffer.
    pub buffer: B,
    /// Bytes, match bits, peer and the like. Its `context` means nothing here.
    pub completion: Completion,
}

impl<B> Finished<B> {
    /// Bytes that were sent, or placed in the buffer.
    pub fn bytes(&self) -> usize {
        // Not longer than the buffer, which fits into memory.
        self.completion.bytes as usize
    }
}

impl<B: Send + 'static> Request<B> {
    #[inline]
    pub(crate) fn new(ticket: Ticket, buffer: Held<B>) -> Self {
        Self { ticket, buffer: Some(buffer) }
    }

    /// Makes progress and says whether the operation has ended.
    pub fn test(&mut self) -> bool {
        self.ticket.test()
    }

    /// The result, if the operation has ended; otherwise the request again. Makes progress.
    pub fn try_finish(mut self) -> Result<Result<Finished<B>, Failed<B>>, Self> {
        if self.ticket.test() { Ok(self.finish()) } else { Err(self) }
    }

    /// Waits until the operation has ended, at most for `timeout` (`None`: without limit).
    #[inline(always)]
    pub fn wait(
        mut self,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Finished<B>, WaitError<B>> {
        match self.ticket.wait(timeout.into()) {
            Some(completion) => self.finish_with(completion).map_err(WaitError::Failed),
            None => Err(WaitError::TimedOut(self)),
        }
    }

    /// Tries to cancel. True: it will end with [`Status::Cancelled`], so wait for that. False: too late, it ends as it
    /// will.
    pub fn cancel(&mut self) -> bool {
        self.ticket.cancel()
    }

    /// The result of an operation that has ended.
    fn finish(self) -> Result<Finished<B>, Failed<B>> {
        let Progress::Done(completion) = self.ticket.progress else {
            unreachable!("only called when the operation has ended")
        };
        self.finish_with(completion)
    }

    /// The same; this is its completion. Inlined, so that the result is made where its owner keeps it.
    #[inline(always)]
    fn finish_with(mut self, completion: Completion) -> Result<Finished<B>, Failed<B>> {
        let held = self.buffer.take().expect("present until the request is taken apart");
        // SAFETY: the completion was handed out, so the firmware is done with the buffer.
        let buffer = unsafe { held.release() };
        match completion.status {
            Status::Ok => Ok(Finished { buffer, completion }),
            _ => Err(Failed { error: self.ticket.error(completion), buffer }),
        }
    }
}

impl<B: Send + 'static> Drop for Request<B> {
    fn drop(&mut self) {
        let Some(held) = self.buffer.take() else { return };
        let orphan = Orphan(Some(held));
        match self.ticket.progress {
            Progress::Done(_) | Progress::Handed => drop(orphan),
            Progress::Flying(key) => match &self.ticket.node {
                Some(node) => node.seat.orphan(key, Box::new(orphan)),
                // What flies has a node. Were it otherwise, nobody could say when the buffer is free.
                None => std::mem::forget(orphan),
            },
        }
    }
}

/// A buffer without a request. Dropped only when the firmware is done with it: by [`Request::drop`] after the completion,
/// or by the core (`Orphan` and `bury`) after the completion or the firmware's end.
struct Orphan<B>(Option<Held<B>>);

impl<B> Drop for Orphan<B> {
    fn drop(&mut self) {
        if let Some(held) = self.0.take() {
            // SAFETY: the firmware is done with the buffer, as the type's text says.
            drop(unsafe { held.release() });
        }
    }
}

/// Why a wait did not end with success. The buffer is in there in any case.
pub enum WaitError<B: Send + 'static> {
    /// The time has passed; the operation goes on.
    TimedOut(Request<B>),
    /// The operation failed.
    Failed(Failed<B>),
}

impl<B: Send + 'static> WaitError<B> {
    /// The operation's failure, unless time ran out.
    pub fn operation(&self) -> Option<&OperationError> {
        match self {
            Self::TimedOut(_) => None,
            Self::Failed(failed) => Some(&failed.error),
        }
    }
}

impl<B: Send + 'static> fmt::Display for WaitError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut(_) => f.write_str("the operation has not ended in the given time"),
            Self::Failed(failed) => failed.fmt(f),
        }
    }
}

impl<B: Send + 'static> fmt::Debug for WaitError<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut(_) => f.write_str("TimedOut(..)"),
            Self::Failed(failed) => failed.fmt(f),
        }
    }
}

impl<B: Send + 'static> std::error::Error for WaitError<B> {}

/// An operation in flight, without its buffer.
pub(crate) struct Ticket {
    /// `None` if the operation was over, and well, when its post returned, as most sends are: nobody needs the node then.
    node: Option<Arc<NodeInner>>,
    progress: Progress,
}

#[derive(Clone, Copy)]
enum Progress {
    Flying(SlotKey),
    Done(Completion),
    /// It is over, and whoever waited has the completion.
    Handed,
}

impl Ticket {
    /// For an operation that was just posted.
    #[inline]
    pub(crate) fn new(node: &Arc<NodeInner>, begun: Begun) -> Self {
        match begun {
            Begun::Over(completion) => {
                let well = completion.status == Status::Ok;
                let node = (!well).then(|| Arc::clone(node));
                Self { node, progress: Progress::Done(completion) }
            }
            Begun::Flying(key) => {
                Self { node: Some(Arc::clone(node)), progress: Progress::Flying(key) }
            }
        }
    }

    /// The error for a completion that is not a success.
    fn error(&self, completion: Completion) -> OperationError {
        match &self.node {
            Some(node) => node.error(completion),
            None => OperationError { completion, peer_name: String::new(), trouble: String::new() },
        }
    }

    fn test(&mut self) -> bool {
        let (Progress::Flying(key), Some(node)) = (self.progress, &self.node) else { return true };
        let end = node.seat.test(key);
        if let Some(completion) = end {
            self.progress = Progress::Done(completion);
        }
        end.is_some()
    }

    /// The completion, once it is there.
    #[inline]
    fn wait(&mut self, timeout: Option<Duration>) -> Option<Completion> {
        let key = match self.progress {
            Progress::Done(completion) => return Some(completion),
            Progress::Handed => return None,
            Progress::Flying(key) => key,
        };
        let found = self.node.as_ref()?.seat.wait(key, timeout);
        if found.is_some() {
            self.progress = Progress::Handed;
        }
        found
    }

    fn cancel(&mut self) -> bool {
        match (self.progress, &self.node) {
            (Progress::Flying(key), Some(node)) => node.seat.cancel(key),
            _ => false,
        }
    }
}

impl NodeInner {
    /// The error for a completion that is not a success.
    pub(crate) fn error(&self, completion: Completion) -> OperationError {
        let (own_name, trouble) = self.seat.explain(&completion);
        let peer_name = names::called(completion.peer).or(own_name).unwrap_or_default();
        OperationError { completion, peer_name, trouble }
    }
}

/// Requests whose ends can be waited for together, whatever their buffers are.
pub trait Pending: sealed::Sealed {}

impl<B: Send + 'static> Pending for Request<B> {}

mod sealed {
    /// Gives [`super::wait_any`] the part of a request that does not depend on its buffer.
    pub trait Sealed {
        #[doc(hidden)]
        fn ticket(&mut self) -> Opaque<'_>;
    }

    /// Keeps [`super::Ticket`] out of the public interface.
    pub struct Opaque<'a>(pub(super) &'a mut super::Ticket);

    impl<B: Send + 'static> Sealed for super::Request<B> {
        fn ticket(&mut self) -> Opaque<'_> {
            Opaque(&mut self.ticket)
        }
    }
}

/// How long [`wait_any`] waits on one node before it turns to the next, if the requests are on several.
const SLICE: Duration = Duration::from_micros(200);

/// Waits until one of the requests has ended, at most for `timeout` (`None`: without limit), and returns its place.
/// `None`: the time has passed, or there are no requests. [`Request::try_finish`] then gives its result.
///
/// The requests should be on one node. If not, the nodes are waited on in turn, 0.2 ms each.
pub fn wait_any(
    requests: &mut [&mut dyn Pending],
    timeout: impl Into<Option<Duration>>,
) -> Option<usize> {
    let timeout: Option<Duration> = timeout.into();
    let deadline = timeout.map(|timeout| clock::now() + clock::span(timeout));
    // Of each node, the operations and the places of their requests.
    let mut nodes: Vec<(Arc<NodeInner>, Vec<SlotKey>, Vec<usize>)> = Vec::new();
    for (index, request) in requests.iter_mut().enumerate() {
        let sealed::Opaque(ticket) = request.ticket();
        let (Progress::Flying(key), Some(own)) = (ticket.progress, &ticket.node) else {
            return Some(index);
        };
        match nodes.iter_mut().find(|(node, ..)| Arc::ptr_eq(node, own)) {
            Some((_, keys, places)) => {
                keys.push(key);
                places.push(index);
            }
            None => nodes.push((Arc::clone(own), vec![key], vec![index])),
        }
    }
    if nodes.is_empty() {
        return None;
    }
    loop {
        for (node, keys, places) in &nodes {
            let left = deadline.map(|deadline| clock::duration(deadline.since(clock::now())));
            let slice = match nodes.len() {
                1 => left,
                _ => Some(left.map_or(SLICE, |left| left.min(SLICE))),
            };
            if let Some((at, completion)) = node.seat.wait_any(keys, slice) {
                let sealed::Opaque(ticket) = requests[places[at]].ticket();
                ticket.progress = Progress::Done(completion);
                return Some(places[at]);
            }
        }
        if deadline.is_some_and(|deadline| clock::now() >= deadline) {
            return None;
        }
    }
}

/// Waits for all of the requests, at most for `timeout` altogether (`None`: without limit). The results are in the order
/// of the requests.
pub fn wait_all<B: Send + 'static>(
    requests: impl IntoIterator<Item = Request<B>>,
    timeout: impl Into<Option<Duration>>,
) -> Vec<Result<Finished<B>, WaitError<B>>> {
    let timeout: Option<Duration> = timeout.into();
    let deadline = timeout.map(|timeout| clock::now() + clock::span(timeout));
    let left = || deadline.map(|deadline| clock::duration(deadline.since(clock::now())));
    requests.into_iter().map(|request| request.wait(left())).collect()
}
