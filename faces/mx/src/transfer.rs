//! Posting: sends and receives, and giving them up.

use std::ffi::c_void;
use std::time::Instant;

use emp_face::handles::Key;
use emp_face::log;
use emp_face::pointers::{slice, store};
use emp_host::{
    CompletionMode, NodeId, PostError, RawSend, ReceiveDescriptor, Segment, SegmentList, Selector,
    SendDescriptor,
};

use crate::abi::*;
use crate::endpoint::{Endpoint, MESSAGES, State};
use crate::errors::{call_on, enter};
use crate::identities::REQUEST;
use crate::progress::code;
use crate::requests::{Deferred, Kind, Request, Stage};

/// The segments that C passes, and the bytes in them.
///
/// # Errors
///
/// What is wrong with them.
///
/// # Safety
///
/// `first` is null or points to so many segments.
#[inline]
unsafe fn segments(first: *const MxSegment, count: u32) -> Result<(SegmentList, u32), Return> {
    if count > MAX_SEGMENTS {
        return Err(Return::BAD_SEG_CNT);
    }
    if count != 0 && first.is_null() {
        return Err(Return::BAD_SEG_LIST);
    }
    // SAFETY: as the caller says.
    let list = unsafe { slice(first, count as usize) };
    let segment = |one: &MxSegment| Segment {
        address: one.pointer.expose_provenance() as u64,
        bytes: u64::from(one.length),
    };
    if list.iter().any(|one| one.pointer.is_null() && one.length != 0) {
        return Err(Return::BAD_SEG_MEM);
    }
    let segments = match list {
        [] => SegmentList::empty(),
        [one] => SegmentList::one(segment(one)),
        several => SegmentList::new(&several.iter().map(segment).collect::<Vec<_>>())
            .map_err(|_| Return::BAD_SEG_CNT)?,
    };
    let bytes = u32::try_from(segments.bytes()).map_err(|_| Return::BAD_SEG_LIST)?;
    Ok((segments, bytes))
}

/// Which messages a receive or probe wants.
///
/// # Errors
///
/// It wants bits that it does not look at.
#[inline]
pub fn selector(match_info: u64, match_mask: u64) -> Result<Selector, Return> {
    if match_info & !match_mask != 0 {
        return Err(Return::BAD_MATCH_MASK);
    }
    Ok(Selector { ignore_bits: !match_mask, ..Selector::bits(match_info) })
}

impl ContextId {
    /// The bits of match information in which the context is.
    fn mask(self) -> u64 {
        let ones = (1u64 << self.bits) - 1;
        ones.checked_shl(self.shift.into()).unwrap_or(0)
    }
}

impl Endpoint {
    /// The descriptor of a send.
    #[inline]
    pub fn descriptor(
        &self,
        key: Key,
        to: NodeId,
        match_bits: u64,
        segments: SegmentList,
    ) -> SendDescriptor {
        SendDescriptor {
            to,
            endpoint: MESSAGES,
            to_endpoint: MESSAGES,
            match_bits,
            segments,
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Auto,
            context: key.handle(REQUEST),
        }
    }

    /// Posts a send, if nothing has happened to partners since that was looked at: else the look is to be taken again.
    ///
    /// # Safety
    ///
    /// The application keeps the segments until the request has ended.
    #[inline]
    pub unsafe fn post_send(
        &self,
        mut send: SendDescriptor,
        synchronous: bool,
        seen: u64,
    ) -> Result<Option<RawSend>, PostError> {
        send.synchronous = synchronous;
        // SAFETY: as the caller says; the request ends when the completion was handed out, or with this call.
        unsafe { self.messages.post_send_raw_unless_told(send, seen) }
    }

    /// Posts a request whose parts are known, or puts it behind those that wait for room already; or ends it, as its partner has
    /// gone.
    ///
    /// # Safety
    ///
    /// The application keeps the segments until the request has ended.
    #[inline]
    unsafe fn start_send(
        &self,
        state: &mut State,
        key: Key,
        (to, match_info, segments, synchronous): (NodeId, u64, SegmentList, bool),
    ) -> Result<(), Return> {
        let posted = loop {
            if !state.deferred.is_empty() {
                break Err(PostError::Busy);
            }
            let send = self.descriptor(key, to, match_info, segments.clone());
            // SAFETY: as the caller says.
            match unsafe { self.post_send(send, synchronous, state.events_seen) } {
                Ok(Some(posted)) => break Ok(posted),
                Err(error) => break Err(error),
                Ok(None) if self.refuse_gone(state, key) => return Ok(()),
                Ok(None) => {}
            }
        };
        let Some(request) = state.requests.get_mut(key) else { return Ok(()) };
        match posted {
            Ok(RawSend::Flying(op)) => request.stage = Stage::Posted(Some(op)),
            Ok(RawSend::Over(status)) => {
                request.code = code(status);
                if state.requests.end(key) {
                    self.waiters.tell(&self.face.node, false);
                }
            }
            Err(PostError::Busy | PostError::PoolFull) => {
                let deferred = Deferred::Send { to, segments, synchronous };
                request.stage = Stage::Deferred(Box::new(deferred));
                state.deferred.push_back(key);
            }
            Err(error) => return Err(self.refused(state, key, error)),
        }
        Ok(())
    }

    /// Ends a send whose partner has gone. False: it has not, or not yet.
    pub fn refuse_gone(&self, state: &mut State, key: Key) -> bool {
        self.take_events(state);
        let Some(to) = state.requests.get_mut(key).map(|request| request.source) else {
            return false;
        };
        let partner = state.partners.get_mut(self.place(), to);
        let Some(code) = partner.and_then(|partner| partner.refuses(to)) else { return false };
        if let Some(request) = state.requests.get_mut(key) {
            (request.code, request.xfer_length) = (code, 0);
        }
        if state.requests.end(key) {
            self.waiters.tell(&self.face.node, false);
        }
        true
    }

    /// A post that cannot succeed: the request was never there.
    #[cold]
    fn refused(&self, state: &mut State, key: Key, error: PostError) -> Return {
        state.requests.remove(key);
        log::warn(&format!("MX: endpoint {} refuses a request: {error:?}", self.id));
        match error {
            PostError::MemoryFault => Return::BAD_SEG_MEM,
            _ => Return::NO_RESOURCES,
        }
    }

    /// Posts a receive, or puts it behind those that wait for room already.
    ///
    /// # Safety
    ///
    /// The application keeps the segments until the request has ended.
    pub unsafe fn start_receive(
        &self,
        state: &mut State,
        key: Key,
        selector: Selector,
        segments: SegmentList,
    ) -> Result<(), Return> {
        let posted = if state.deferred.is_empty() {
            let segments = segments.clone();
            let context = key.handle(REQUEST);
            let receive =
                ReceiveDescriptor { endpoint: MESSAGES, selector, segments, claim: None, context };
            // SAFETY: as the caller says.
            unsafe { self.messages.post_receive_raw(receive) }
        } else {
            Err(PostError::Busy)
        };
        let Some(request) = state.requests.get_mut(key) else { return Ok(()) };
        match posted {
            Ok(op) => request.stage = Stage::Posted(Some(op)),
            Err(PostError::Busy | PostError::PoolFull) => {
                let (match_bits, mask) = (selector.match_bits, !selector.ignore_bits);
                let deferred = Deferred::Receive { match_bits, mask, segments };
                request.stage = Stage::Deferred(Box::new(deferred));
                state.deferred.push_back(key);
            }
            Err(error) => return Err(self.refused(state, key, error)),
        }
        Ok(())
    }
}

/// What a send is of, as C passes it.
struct Sending {
    segments: *const MxSegment,
    count: u32,
    to: Address,
    match_info: u64,
    context: *mut c_void,
    request: *mut RequestHandle,
    synchronous: bool,
}

#[inline]
fn send(endpoint: EndpointHandle, sending: Sending) -> Return {
    let Sending { segments: first, count, to, match_info, context, request, synchronous } = sending;
    call_on(endpoint, |endpoint| {
        // SAFETY: the header's rules: so many segments.
        let (segments, bytes) = unsafe { segments(first, count) }?;
        let mut state = endpoint.lock()?;
        endpoint.take_events(&mut state);
        let partner = state.partners.get_mut(endpoint.place(), to);
        let partner = partner.ok_or(Return::BAD_ENDPOINT)?;
        let (node, gone) = (partner.node, partner.refuses(to).is_some());
        let mut new =
            Request::new(Kind::Send, match_info, context.expose_provenance(), request.is_null());
        new.source = to;
        (new.msg_length, new.xfer_length) = (bytes, bytes);
        new.deadline = state.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let key = state.requests.insert(new).ok_or(Return::NO_RESOURCES)?;
        if !gone || !endpoint.refuse_gone(&mut state, key) {
            let parts = (node, match_info, segments, synchronous);
            // SAFETY: the header's rules: buffers stay until the request has ended.
            unsafe { endpoint.start_send(&mut state, key, parts) }?;
        }
        // SAFETY: the header's rules: null or valid.
        unsafe { store(request, key.handle(REQUEST)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_isend(
    endpoint: EndpointHandle,
    segments: *const MxSegment,
    count: u32,
    to: Address,
    match_info: u64,
    context: *mut c_void,
    request: *mut RequestHandle,
) -> Return {
    enter(|| {
        let synchronous = false;
        send(endpoint, Sending { segments, count, to, match_info, context, request, synchronous })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_issend(
    endpoint: EndpointHandle,
    segments: *const MxSegment,
    count: u32,
    to: Address,
    match_info: u64,
    context: *mut c_void,
    request: *mut RequestHandle,
) -> Return {
    enter(|| {
        let synchronous = true;
        send(endpoint, Sending { segments, count, to, match_info, context, request, synchronous })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_irecv(
    endpoint: EndpointHandle,
    first: *const MxSegment,
    count: u32,
    match_info: u64,
    match_mask: u64,
    context: *mut c_void,
    request: *mut RequestHandle,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            // SAFETY: the header's rules: so many segments.
            let (segments, _) = unsafe { segments(first, count) }?;
            let selector = selector(match_info, match_mask)?;
            if endpoint.context_id.mask() & !match_mask != 0 {
                return Err(Return::BAD_MATCHING_FOR_CONTEXT_ID_MASK);
            }
            let mut state = endpoint.lock()?;
            let context = context.expose_provenance();
            let new = Request::new(Kind::Receive, match_info, context, request.is_null());
            let key = state.requests.insert(new).ok_or(Return::NO_RESOURCES)?;
            // SAFETY: the header's rules: buffers stay until the request has ended.
            unsafe { endpoint.receive(&mut state, key, selector, segments) }?;
            // SAFETY: the header's rules: null or valid.
            unsafe { store(request, key.handle(REQUEST)) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_cancel(
    endpoint: EndpointHandle,
    request: *mut RequestHandle,
    result: *mut u32,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let mut state = endpoint.lock()?;
            // SAFETY: the header's rules: null or valid.
            let handle = unsafe { request.as_ref() }.copied().unwrap_or(0);
            let (key, found) = state.requests.named(handle).ok_or(Return::BAD_REQUEST)?;
            let kind = found.kind;
            if kind == Kind::Send {
                return Err(Return::CANCEL_NOT_SUPPORTED);
            }
            let cancelled = match &found.stage {
                Stage::Done => false,
                _ if kind == Kind::Connect => {
                    endpoint.abandon_connect(&mut state, key);
                    state.requests.remove(key);
                    true
                }
                Stage::Deferred(_) => {
                    state.deferred.retain(|deferred| *deferred != key);
                    state.requests.remove(key);
                    true
                }
                Stage::Posted(Some(op)) if endpoint.messages.cancel_raw(*op) => {
                    // Its completion follows, and finds nobody who wants it.
                    found.forgotten = true;
                    true
                }
                Stage::Posted(_) => false,
            };
            // SAFETY: the header's rules: null or valid.
            unsafe {
                store(result, cancelled.into());
                if cancelled {
                    store(request, 0);
                }
            }
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_forget(endpoint: EndpointHandle, request: *mut RequestHandle) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let mut state = endpoint.lock()?;
            // SAFETY: the header's rules: null or valid.
            let handle = unsafe { request.as_ref() }.copied().unwrap_or(0);
            let (key, found) = state.requests.named(handle).ok_or(Return::BAD_REQUEST)?;
            if found.is_done() {
                state.requests.remove(key);
            } else {
                found.forgotten = true;
            }
            // SAFETY: the header's rules: valid, as it was read.
            unsafe { store(request, 0) };
            Ok(())
        })
    })
}
