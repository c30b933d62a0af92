//! Messages that no receive has taken, and the handler that an application has them shown to.
//!
//! Without a handler they stay in the node, which matches them with receives as these are posted. With one, progress takes
//! each of them out of the node (claims it) and shows it; what the handler does not consume waits here, and receives look
//! here first: what is here came before what is in the node.

use std::ffi::c_void;
use std::sync::{Arc, MutexGuard};

use emp_face::handles::Key;
use emp_face::log;
use emp_host::{
    ClaimId, Completion, PostError, ProbeInfo, ReceiveDescriptor, Segment, SegmentList, Selector,
    Status,
};

use crate::abi::RECV_CONTINUE;
use crate::abi::{MatchingCallback, RECV_FINISHED, Return, StatusCode, UnexpHandler};
use crate::endpoint::{Endpoint, MESSAGES, State};
use crate::identities::{FETCH, REQUEST};
use crate::progress::length;
use crate::requests::Stage;

/// Messages up to this many bytes are shown with their bytes: what MX sends in one piece.
const SHOWN_WHOLE: u64 = 4096;

/// Messages that wait here. Beyond it they stay in the node, which bounds them and has senders wait.
const SEEN_MAX: usize = 4096;

/// What the application has registered, with its pointer.
#[derive(Clone, Copy)]
pub enum Handler {
    Unexpected(UnexpHandler, usize),
    /// The older kind, which is told and has no say.
    Callback(MatchingCallback, usize),
}

/// A message that was taken out of the node.
pub struct Seen {
    serial: u32,
    pub info: ProbeInfo,
    body: Body,
    /// The handler has seen it and left it.
    shown: bool,
    /// The receive that takes it once its bytes are here.
    taken: Option<(Key, SegmentList)>,
}

/// Where the bytes of a message are.
enum Body {
    /// With its sender, or in the node.
    Claimed(ClaimId),
    /// On their way into this buffer, which stays where it is.
    Fetching(Box<[u8]>),
    Here(Arc<[u8]>),
}

impl State {
    /// The first message here that no receive has taken and that a selector accepts.
    pub fn first_seen(&self, selector: Selector) -> Option<usize> {
        self.seen.iter().position(|seen| {
            let info = &seen.info;
            seen.taken.is_none() && selector.accepts(info.from, info.from_endpoint, info.match_bits)
        })
    }

    /// True if another message may be taken out of the node.
    pub fn has_room_to_show(&self) -> bool {
        self.seen.len() < SEEN_MAX
    }
}

/// Copies a message into the segments of a receive; returns how many bytes fit.
///
/// # Safety
///
/// The segments are writable memory of this process that nobody else uses.
unsafe fn copy(from: &[u8], into: &SegmentList) -> usize {
    let mut rest = from;
    for segment in into.as_slice() {
        let count = rest.len().min(segment.bytes as usize);
        let (now, later) = rest.split_at(count);
        let place = std::ptr::with_exposed_provenance_mut::<u8>(segment.address as usize);
        if count != 0 {
            // SAFETY: as the caller says; the segment has room for so many bytes.
            unsafe { std::ptr::copy_nonoverlapping(now.as_ptr(), place, count) };
        }
        rest = later;
    }
    from.len() - rest.len()
}

impl Endpoint {
    /// Gives a receive the first message that it takes: one that waits here, or whichever the node has or will have.
    ///
    /// # Safety
    ///
    /// The application keeps the segments until the request has ended.
    pub unsafe fn receive(
        &self,
        state: &mut State,
        key: Key,
        selector: Selector,
        segments: SegmentList,
    ) -> Result<(), Return> {
        while let Some(place) = state.first_seen(selector) {
            let seen = &mut state.seen[place];
            let claim = match &seen.body {
                Body::Fetching(_) => {
                    seen.taken = Some((key, segments));
                    return Ok(());
                }
                Body::Here(bytes) => {
                    let (bytes, info) = (Arc::clone(bytes), seen.info);
                    state.seen.remove(place);
                    // SAFETY: as the caller says.
                    unsafe { self.hand_over(state, key, &segments, &info, &bytes) };
                    return Ok(());
                }
                Body::Claimed(claim) => *claim,
            };
            state.seen.remove(place);
            // SAFETY: as the caller says.
            match unsafe { self.receive_claimed(key.handle(REQUEST), segments.clone(), claim) } {
                Ok(op) => {
                    if let Some(request) = state.requests.get_mut(key) {
                        request.stage = Stage::Posted(Some(op));
                    }
                    return Ok(());
                }
                // Its sender was lost: the next one, then.
                Err(PostError::NoClaim) => {}
                Err(error) => {
                    log::warn(&format!("MX: a message cannot be received: {error:?}"));
                    state.requests.remove(key);
                    return Err(Return::NO_RESOURCES);
                }
            }
        }
        // SAFETY: as the caller says.
        unsafe { self.start_receive(state, key, selector, segments) }
    }

    /// # Safety
    ///
    /// The segments stay until the completion was handed out.
    unsafe fn receive_claimed(
        &self,
        context: u64,
        segments: SegmentList,
        claim: ClaimId,
    ) -> Result<emp_host::RawOp, PostError> {
        let selector = Selector::ANY;
        let claim = Some(claim);
        // SAFETY: as the caller says.
        unsafe {
            self.messages.post_receive_raw(ReceiveDescriptor {
                endpoint: MESSAGES,
                selector,
                segments,
                claim,
                context,
            })
        }
    }

    /// Ends a receive with a message whose bytes are here.
    ///
    /// # Safety
    ///
    /// The application keeps the segments until the request has ended.
    unsafe fn hand_over(
        &self,
        state: &mut State,
        key: Key,
        segments: &SegmentList,
        info: &ProbeInfo,
        bytes: &[u8],
    ) {
        let source = state.partners.address(self.place(), info.from);
        let Some(request) = state.requests.get_mut(key) else { return };
        // SAFETY: as the caller says.
        let fits = unsafe { copy(bytes, segments) };
        let whole = fits == bytes.len();
        request.code = if whole { StatusCode::SUCCESS } else { StatusCode::TRUNCATED };
        (request.source, request.match_info) = (source, info.match_bits);
        (request.msg_length, request.xfer_length) =
            (length(bytes.len() as u64), length(fits as u64));
        if state.requests.end(key) {
            self.waiters.tell(&self.face.node, false);
        }
    }

    /// The bytes of a message are here, or its sender was lost. True if a request has ended.
    pub fn fetched(&self, state: &mut State, fetch: Key, completion: &Completion) -> bool {
        let serial = fetch.generation;
        let Some(place) = state.seen.iter().position(|seen| seen.serial == serial) else {
            return false;
        };
        let seen = &mut state.seen[place];
        let Body::Fetching(bytes) = &mut seen.body else { return false };
        let bytes: Arc<[u8]> = std::mem::take(bytes).into();
        let (info, taken) = (seen.info, seen.taken.take());
        let arrived = completion.status == Status::Ok;
        match taken {
            None if arrived => seen.body = Body::Here(bytes),
            None => drop(state.seen.remove(place)),
            Some((key, segments)) => {
                state.seen.remove(place);
                if arrived {
                    // SAFETY: the segments are those of a request that has not ended.
                    unsafe { self.hand_over(state, key, &segments, &info, &bytes) };
                    return true;
                }
                let Some(request) = state.requests.get_mut(key) else { return false };
                request.code = crate::progress::code(completion.status);
                return state.requests.end(key);
            }
        }
        false
    }

    /// Takes messages out of the node.
    fn claim_unexpected(&self, state: &mut State) {
        while state.has_room_to_show() {
            let Some(info) = self.messages.probe_raw(Selector::ANY, true) else { return };
            let Some(claim) = info.claim else { return };
            state.next_seen = state.next_seen.wrapping_add(1);
            let serial = state.next_seen;
            let mut body = Body::Claimed(claim);
            if info.total_bytes <= SHOWN_WHOLE {
                let mut bytes = vec![0u8; info.total_bytes as usize].into_boxed_slice();
                let address = bytes.as_mut_ptr().expose_provenance() as u64;
                let segment = Segment { address, bytes: info.total_bytes };
                let context = Key { place: 0, generation: serial }.handle(FETCH);
                // SAFETY: the buffer stays in the list, where it is not touched, until it is fetched; and the list until
                // the node is closed.
                let posted =
                    unsafe { self.receive_claimed(context, SegmentList::one(segment), claim) };
                match posted {
                    Ok(_) => body = Body::Fetching(bytes),
                    // Its sender was lost.
                    Err(PostError::NoClaim) => continue,
                    // Shown without its bytes, then.
                    Err(_) => {}
                }
            }
            state.seen.push_back(Seen { serial, info, body, shown: false, taken: None });
        }
    }

    /// Shows the handler what has come, in order. True if anything has ended.
    #[cold]
    pub fn show_unexpected<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, bool) {
        if state.handler.is_some() {
            self.claim_unexpected(&mut state);
        }
        // Those that came with their bytes.
        let mut news = self.take_completions(&mut state);
        while let Some(handler) = state.handler
            && let Some(place) =
                state.seen.iter().position(|seen| !seen.shown && seen.taken.is_none())
        {
            let seen = &state.seen[place];
            let bytes = match &seen.body {
                Body::Fetching(_) => break,
                Body::Here(bytes) => Some(Arc::clone(bytes)),
                Body::Claimed(_) => None,
            };
            let (serial, info) = (seen.serial, seen.info);
            let source = state.partners.address(self.place(), info.from);
            state.handling = Some(std::thread::current().id());
            drop(state);
            let data = bytes
                .as_ref()
                .map_or(std::ptr::null_mut(), |bytes| bytes.as_ptr().cast_mut().cast::<c_void>());
            let verdict = match handler {
                Handler::Unexpected(handler, context) => {
                    let context = std::ptr::with_exposed_provenance_mut(context);
                    let bytes = length(info.total_bytes);
                    // SAFETY: what the application has registered, with the arguments that the header names; the data
                    // is there until this returns.
                    unsafe { handler(context, source, info.match_bits, bytes, data) }
                }
                Handler::Callback(callback, context) => {
                    let context = std::ptr::with_exposed_provenance_mut(context);
                    let bytes = i32::try_from(info.total_bytes).unwrap_or(i32::MAX);
                    // SAFETY: likewise.
                    unsafe { callback(context, info.match_bits, bytes) };
                    RECV_CONTINUE
                }
            };
            state = self.lock_even_closed();
            state.handling = None;
            self.resumed.notify_all();
            if verdict != RECV_CONTINUE && verdict != RECV_FINISHED {
                log::warn(&format!("MX: an unexpected handler returned {verdict}: taken for 0"));
            }
            news |= self.shown(&mut state, serial, verdict);
        }
        (state, news)
    }

    /// The handler has seen a message: it is gone, or stays. A receive that was posted meanwhile may have taken it. True if
    /// threads that probe may see it now.
    fn shown(&self, state: &mut State, serial: u32, verdict: i32) -> bool {
        let place = state.seen.iter().position(|seen| seen.serial == serial);
        let Some(place) = place else { return true };
        if verdict != RECV_FINISHED {
            state.seen[place].shown = true;
            return true;
        }
        if let Some(Seen { body: Body::Claimed(claim), .. }) = state.seen.remove(place) {
            // Receives none of it: its completion is nobody's.
            // SAFETY: there are no segments.
            let discarded = unsafe { self.receive_claimed(0, SegmentList::empty(), claim) };
            if let Err(error) = discarded {
                log::inform(&format!("MX: a message was not discarded: {error:?}"));
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_cut_to_the_segments_there_are() {
        let (mut one, mut two) = ([0u8; 2], [0u8; 3]);
        let segment = |room: &mut [u8]| Segment {
            address: room.as_mut_ptr().expose_provenance() as u64,
            bytes: room.len() as u64,
        };
        let segments = SegmentList::new(&[segment(&mut one), segment(&mut two)]).unwrap();
        // SAFETY: the segments are the arrays above.
        unsafe {
            assert_eq!(copy(b"abcdefg", &segments), 5);
            assert_eq!((&one, &two), (b"ab", b"cde"));
            assert_eq!(copy(b"xyz", &segments), 3);
            assert_eq!((&one, &two), (b"xy", b"zde"));
            assert_eq!(copy(b"", &segments), 0);
            assert_eq!(copy(b"abc", &SegmentList::empty()), 0);
        }
    }
}
