//! Progress: what has ended in the node becomes the ends of requests.

use std::sync::MutexGuard;
use std::time::Instant;

use emp_face::handles::Key;
use emp_face::log;
use emp_host::{
    Completion, NodeEvent, OpKind, PostError, RawSend, ReceiveDescriptor, Selector, Status,
};

use crate::abi::StatusCode;
use crate::endpoint::{Endpoint, State};
use crate::identities::{CONNECT_GET, CONNECT_PUT, FETCH, REQUEST, endpoint_of};
use crate::requests::{Deferred, Kind, Stage};

impl Endpoint {
    /// Makes progress, unless that was stopped; may run the handler, for which the state is unlocked meanwhile. True if
    /// anything has ended that somebody may wait for.
    #[inline]
    pub fn progress<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, bool) {
        if state.stopped || state.handling.is_some() {
            return (state, false);
        }
        let mut news = self.take_completions(&mut state);
        if !state.connects.is_empty() {
            self.connect_again(&mut state);
        }
        if state.requests.timed != 0 {
            news |= self.end_late(&mut state, Instant::now());
        }
        if !state.deferred.is_empty() {
            news |= self.post_deferred(&mut state);
        }
        if state.handler.is_some() || !state.seen.is_empty() {
            let (after, more) = self.show_unexpected(state);
            return (after, news | more);
        }
        (state, news)
    }

    /// Takes what the node has.
    #[inline]
    pub fn take_completions(&self, state: &mut State) -> bool {
        self.face.hint_later();
        let mut completions = std::mem::take(&mut state.completions);
        // Who has connected before what it has sent: messages tell the session of their sender.
        let both = [&self.control, &self.messages];
        let count = emp_host::Endpoint::poll_completions_of(&both, &mut completions);
        let mut news = false;
        if count != 0 {
            // Before what came after them: an endpoint that was opened again connects after it was closed.
            self.take_events(state);
            for completion in completions.drain(..) {
                news |= self.ended(state, &completion);
            }
        }
        state.completions = completions;
        news
    }

    /// Notes which partners have gone.
    #[inline]
    pub fn take_events(&self, state: &mut State) {
        // Before they are taken: what comes meanwhile is seen the next time.
        let told = self.face.node.events_told();
        if told == state.events_seen {
            return;
        }
        state.events_seen = told;
        while let Some(event) = self.face.node.take_event() {
            match event {
                NodeEvent::Closed(node) | NodeEvent::Ended(node) => {
                    state.partners.gone(node, StatusCode::ENDPOINT_CLOSED);
                }
                NodeEvent::Restarted(node) | NodeEvent::GaveUp(node) => {
                    state.partners.gone(node, StatusCode::BAD_SESSION);
                }
                NodeEvent::Unreachable(node) => {
                    state.partners.gone(node, StatusCode::ENDPOINT_UNREACHABLE);
                }
                // Others say how a peer is reached, not that it is gone.
                _ => {}
            }
        }
    }

    /// One operation has ended in the node.
    #[inline]
    fn ended(&self, state: &mut State, completion: &Completion) -> bool {
        match completion.op.kind() {
            OpKind::Send | OpKind::Receive => {}
            OpKind::Notified => {
                let session = completion.immediate.unwrap_or(0) as u32;
                state.partners.connected(completion.peer, session);
                return false;
            }
            OpKind::Undelivered => {
                undelivered(completion);
                return false;
            }
            OpKind::Put | OpKind::Get | OpKind::Atomic => {
                let key = Key::of(completion.context, CONNECT_PUT);
                let key = key.or_else(|| Key::of(completion.context, CONNECT_GET));
                return key.is_some_and(|key| self.half_connected(state, key, completion.status));
            }
        }
        if let Some(fetch) = Key::of(completion.context, FETCH) {
            return self.fetched(state, fetch, completion);
        }
        let Some(key) = Key::of(completion.context, REQUEST) else { return false };
        if completion.status == Status::Ok
            && let Some(request) = state.requests.get_mut(key)
            && matches!(request.kind, Kind::Send)
        {
            request.code = StatusCode::SUCCESS;
            return state.requests.end(key);
        }
        self.ended_otherwise(state, key, completion)
    }

    fn ended_otherwise(&self, state: &mut State, key: Key, completion: &Completion) -> bool {
        // A receive that ended unmatched has no source.
        let matched = matches!(completion.status, Status::Ok | Status::Truncated);
        let source = if matched {
            state.partners.address(self.place(), completion.peer)
        } else {
            Default::default()
        };
        let Some(request) = state.requests.get_mut(key) else { return false };
        let late = request.deadline.is_some_and(|deadline| deadline <= Instant::now());
        request.code = match completion.status {
            Status::Cancelled if late => StatusCode::ENDPOINT_UNREACHABLE,
            status => code(status),
        };
        match request.kind {
            Kind::Receive => {
                if matched {
                    (request.source, request.match_info) = (source, completion.match_bits);
                }
                request.msg_length = length(completion.total_bytes);
                request.xfer_length = length(completion.bytes);
            }
            _ if completion.status != Status::Ok => request.xfer_length = 0,
            _ => {}
        }
        state.requests.end(key)
    }

    /// Ends what is too late. A message that has left may still arrive, and its buffer is in use: the transport decides how
    /// it ends (`EMP_TIMEOUT`).
    #[cold]
    fn end_late(&self, state: &mut State, now: Instant) -> bool {
        let mut news = false;
        for key in state.requests.late(now) {
            let Some(request) = state.requests.get_mut(key) else { continue };
            match (&request.kind, &request.stage) {
                (Kind::Receive, _) | (_, Stage::Done) => {}
                (_, Stage::Deferred(_)) => {
                    request.code = StatusCode::ENDPOINT_UNREACHABLE;
                    request.xfer_length = 0;
                    state.deferred.retain(|deferred| *deferred != key);
                    news |= state.requests.end(key);
                }
                (Kind::Connect, _) => news |= self.give_up_connect(state, key),
                (Kind::Send, Stage::Posted(op)) => {
                    if let Some(op) = *op {
                        // Its completion says that it was cancelled; that it was late, its deadline.
                        self.messages.cancel_raw(op);
                    }
                }
            }
        }
        news
    }

    /// Tries again what the node had no room for, in order.
    #[cold]
    fn post_deferred(&self, state: &mut State) -> bool {
        let mut news = false;
        while let Some(key) = state.deferred.front().copied() {
            // Others that wait are for partners that are there.
            self.take_events(state);
            let seen = state.events_seen;
            if state.requests.get_mut(key).is_some_and(|request| matches!(request.kind, Kind::Send))
                && self.refuse_gone(state, key)
            {
                state.deferred.pop_front();
                news = true;
                continue;
            }
            let Some(request) = state.requests.get_mut(key) else {
                state.deferred.pop_front();
                continue;
            };
            let Stage::Deferred(deferred) = &request.stage else {
                state.deferred.pop_front();
                continue;
            };
            let posted = match &**deferred {
                Deferred::Send { to, segments, synchronous } => {
                    let send = self.descriptor(key, *to, request.match_info, segments.clone());
                    // SAFETY: the application keeps its segments until the request has ended.
                    match unsafe { self.post_send(send, *synchronous, seen) } {
                        Ok(None) => continue,
                        Ok(Some(posted)) => Ok(posted),
                        Err(error) => Err(error),
                    }
                }
                Deferred::Receive { match_bits, mask, segments } => {
                    let receive = ReceiveDescriptor {
                        endpoint: 0,
                        selector: Selector { ignore_bits: !mask, ..Selector::bits(*match_bits) },
                        segments: segments.clone(),
                        claim: None,
                        context: key.handle(REQUEST),
                    };
                    // SAFETY: likewise.
                    unsafe { self.messages.post_receive_raw(receive) }.map(RawSend::Flying)
                }
            };
            match posted {
                Err(PostError::Busy | PostError::PoolFull) => return news,
                Ok(RawSend::Flying(op)) => request.stage = Stage::Posted(Some(op)),
                Ok(RawSend::Over(status)) => {
                    request.code = code(status);
                    news |= state.requests.end(key);
                }
                Err(error) => {
                    log::inform(&format!("MX: a request was refused: {error:?}"));
                    request.code = StatusCode::ABORTED;
                    request.xfer_length = 0;
                    news |= state.requests.end(key);
                }
            }
            state.deferred.pop_front();
        }
        news
    }
}

/// A message that was complete when it was copied has not arrived: nobody has a request for it any more.
#[cold]
fn undelivered(completion: &Completion) {
    let (nic, id) = endpoint_of(completion.peer).unwrap_or_default();
    log::inform(&format!(
        "MX: a message of {} bytes to endpoint {id} of NIC {nic:012x} is lost: {}",
        completion.total_bytes,
        completion.status.describe()
    ));
}

/// Lengths in MX have 32 bits; messages of EMP may be longer.
#[inline]
pub fn length(bytes: u64) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// How an operation has ended, in MX's terms.
pub fn code(status: Status) -> StatusCode {
    match status {
        // The receiver gave it up: its handler has consumed it, which is a success of which nothing was transferred.
        Status::Ok | Status::Abandoned => StatusCode::SUCCESS,
        Status::Truncated => StatusCode::TRUNCATED,
        Status::Cancelled => StatusCode::CANCELLED,
        Status::Unreachable | Status::NotFound => StatusCode::ENDPOINT_UNREACHABLE,
        Status::PeerRestarted | Status::GivenUp => StatusCode::BAD_SESSION,
        Status::PeerClosed | Status::PeerEnded | Status::NoEndpoint | Status::EndpointClosed => {
            StatusCode::ENDPOINT_CLOSED
        }
        Status::BadKey | Status::NoRights | Status::BadGeneration | Status::OutOfBounds => {
            StatusCode::BAD_KEY
        }
        Status::TooLong | Status::ReceiverFull => StatusCode::NO_RESOURCES,
        Status::MemoryFault => StatusCode::ABORTED,
    }
}
