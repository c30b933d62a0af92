//! Connecting: a remote endpoint's filter key is checked, and each learns the other's session.
//!
//! An endpoint exports a region by its filter key. Who connects puts nothing there, but has the target notified of its
//! session, and gets the target's. Both are the firmware's work: it refuses a key that is not there, and answers while the
//! application computes.

use std::time::{Duration, Instant};

use emp_face::handles::Key;
use emp_face::pointers::store;
use emp_host::{
    CompletionMode, GetDescriptor, NodeId, PostError, PutDescriptor, RemoteRegion, Segment,
    SegmentList, Status,
};

use crate::abi::*;
use crate::complete::end;
use crate::endpoint::{CONTROL, Endpoint, State};
use crate::errors::{call_on, enter};
use crate::identities::{
    CONNECT_GET, CONNECT_PUT, ENDPOINTS_MAX, PLACES, Parts, REQUEST, endpoint_of, is_nic, node_of,
    whereabouts,
};
use crate::names;
use crate::partners::Fate;
use crate::process::library;
use crate::progress::code;
use crate::requests::{Kind, Request};

/// Upper half of the key of the region by which an endpoint is connected to; the lower half is the filter key.
const DOOR: u64 = 0x4d58_0001 << 32;

/// Bytes of that region: the session, and zeros.
pub const DOOR_BYTES: usize = 8;

/// How often a connect is tried again by itself because the remote endpoint was opened just now: its pair starts anew, or its
/// door is not there yet.
const TRIES_MAX: u8 = 4;

/// The pause before the first of these; it doubles.
const AGAIN_AFTER: Duration = Duration::from_millis(2);

/// A remote endpoint that has not answered for so long, while others of its NIC do, is closed. Longer than a node takes to be
/// found that is there, even if some questions are lost.
const CLOSED_AFTER: Duration = Duration::from_secs(1);

/// The key of an endpoint's door.
pub fn door(key: u32) -> u64 {
    DOOR | u64::from(key)
}

/// A connect that is under way. It outlives its request, as what it has posted writes to the reply.
pub struct Connect {
    request: Option<Key>,
    to: NodeId,
    filter: u32,
    reply: Box<[u8; DOOR_BYTES]>,
    /// Halves that have not ended.
    flying: u8,
    /// How the first half that failed has ended.
    failed: Option<Status>,
    tries: u8,
    /// When it is tried again.
    pub again_at: Option<Instant>,
}

impl Endpoint {
    /// Begins to connect.
    fn connect(
        &self,
        state: &mut State,
        (nic, id, filter): (u64, u32, u32),
        request: Request,
    ) -> Result<Key, Return> {
        if !is_nic(nic) {
            return Err(Return::NIC_NOT_FOUND);
        }
        if id >= ENDPOINTS_MAX {
            return Err(Return::BAD_ENDPOINT_ID);
        }
        let ours = library()?.board_of(nic).is_some();
        let to = node_of(nic, id);
        let key = state.requests.insert(request).ok_or(Return::NO_RESOURCES)?;
        let itself = to == self.face.node.id();
        if itself || (ours && PLACES.is_free(nic, id)) {
            let code = match (itself, filter == self.key) {
                (true, true) => StatusCode::SUCCESS,
                (true, false) => StatusCode::BAD_KEY,
                (false, _) => StatusCode::ENDPOINT_CLOSED,
            };
            self.connect_ended(state, key, to, code);
            return Ok(key);
        }
        self.face.learn(&whereabouts(nic, id));
        let connect = Connect {
            request: Some(key),
            to,
            filter,
            reply: Box::default(),
            flying: 0,
            failed: None,
            tries: 0,
            again_at: None,
        };
        let Ok(connect) = state.connects.insert(connect) else {
            state.requests.remove(key);
            return Err(Return::NO_RESOURCES);
        };
        self.post_connect(state, connect);
        Ok(key)
    }

    /// Posts both halves.
    fn post_connect(&self, state: &mut State, key: Key) {
        let Some(connect) = state.connects.get_mut(key) else { return };
        (connect.failed, connect.again_at) = (None, None);
        connect.tries += 1;
        let target = RemoteRegion {
            to: connect.to,
            to_endpoint: CONTROL,
            key: door(connect.filter),
            generation: 0,
            offset: 0,
        };
        let put = PutDescriptor {
            target,
            endpoint: CONTROL,
            segments: SegmentList::empty(),
            immediate: Some(self.session.into()),
            completion: CompletionMode::Auto,
            context: key.handle(CONNECT_PUT),
        };
        let address = connect.reply.as_mut_ptr().expose_provenance() as u64;
        let segments = SegmentList::one(Segment { address, bytes: DOOR_BYTES as u64 });
        let context = key.handle(CONNECT_GET);
        let get = GetDescriptor { target, endpoint: CONTROL, segments, context };
        // SAFETY: the put has no segments; the reply is a box that stays where it is until both halves have ended.
        let posted = unsafe { [self.control.post_put_raw(put), self.control.post_get_raw(get)] };
        for half in posted {
            match half {
                Ok(_) => connect.flying += 1,
                Err(error) => connect.failed = Some(refusal(error)),
            }
        }
        if connect.flying == 0 {
            self.connected(state, key);
        }
    }

    /// One half has ended. True if a request has.
    pub fn half_connected(&self, state: &mut State, key: Key, status: Status) -> bool {
        let Some(connect) = state.connects.get_mut(key) else { return false };
        connect.flying -= 1;
        if status != Status::Ok {
            connect.failed.get_or_insert(status);
        }
        connect.flying == 0 && self.connected(state, key)
    }

    /// Both halves have ended. True if a request has.
    fn connected(&self, state: &mut State, key: Key) -> bool {
        let Some(connect) = state.connects.get_mut(key) else { return false };
        // The target was opened just now, or is only being opened.
        let early = matches!(
            connect.failed,
            Some(
                Status::PeerRestarted
                    | Status::GivenUp
                    | Status::PeerClosed
                    | Status::BadKey
                    | Status::NoEndpoint
            )
        );
        if early && connect.request.is_some() && connect.tries < TRIES_MAX {
            let pause = AGAIN_AFTER * (1 << connect.tries);
            connect.again_at = Some(Instant::now() + pause);
            return false;
        }
        let Some(connect) = state.connects.remove(key) else { return false };
        let Some(request) = connect.request else { return false };
        let code = connect.failed.map_or(StatusCode::SUCCESS, code);
        if code == StatusCode::SUCCESS {
            let [a, b, c, d, ..] = *connect.reply;
            state.partners.connected(connect.to, u32::from_le_bytes([a, b, c, d]));
        }
        self.connect_ended(state, request, connect.to, code)
    }

    fn connect_ended(&self, state: &mut State, key: Key, to: NodeId, code: StatusCode) -> bool {
        let source = state.partners.address(self.place(), to);
        let Some(request) = state.requests.get_mut(key) else { return false };
        (request.code, request.source) = (code, source);
        state.requests.end(key)
    }

    /// Tries again what is due.
    #[cold]
    pub fn connect_again(&self, state: &mut State) {
        let now = Instant::now();
        let due = |connect: &Connect| connect.again_at.is_some_and(|at| at <= now);
        let due: Vec<Key> =
            state.connects.all().filter(|(_, connect)| due(connect)).map(|(key, _)| key).collect();
        for key in due {
            if state.connects.get_mut(key).is_some_and(|connect| connect.request.is_none()) {
                state.connects.remove(key);
            } else {
                self.post_connect(state, key);
            }
        }
    }

    /// The request of a connect is of no interest any more.
    pub fn abandon_connect(&self, state: &mut State, request: Key) {
        let of = |(_, connect): &(Key, &Connect)| connect.request == Some(request);
        let Some(key) = state.connects.all().find(of).map(|(key, _)| key) else { return };
        let Some(connect) = state.connects.get_mut(key) else { return };
        connect.request = None;
        if connect.flying == 0 {
            state.connects.remove(key);
        }
    }

    /// Ends a connect that takes too long. True if its request has ended.
    pub fn give_up_connect(&self, state: &mut State, request: Key) -> bool {
        self.abandon_connect(state, request);
        let Some(found) = state.requests.get_mut(request) else { return false };
        found.code = StatusCode::ENDPOINT_UNREACHABLE;
        state.requests.end(request)
    }

    /// True if the endpoint is not there but others of its NIC are.
    fn is_closed_there(&self, nic: u64, id: u32) -> bool {
        let wanted = node_of(nic, id);
        let node = &self.face.node;
        if node.find(wanted, CLOSED_AFTER / 2).is_ok() {
            return false;
        }
        let found = |peer: &emp_host::Peer| {
            peer.state == emp_host::PeerState::Found
                && endpoint_of(peer.node).is_some_and(|(of, _)| of == nic)
        };
        node.peers().iter().any(found)
    }
}

/// How a half ends that the node does not take.
fn refusal(error: PostError) -> Status {
    match error {
        PostError::Closing => Status::EndpointClosed,
        PostError::Busy | PostError::PoolFull => Status::NoEndpoint,
        _ => Status::Unreachable,
    }
}

/// What `mx_connect` returns for a connect that has ended.
fn returned(code: StatusCode) -> Result<(), Return> {
    Err(match code {
        StatusCode::SUCCESS => return Ok(()),
        StatusCode::BAD_KEY => Return::BAD_CONNECTION_KEY,
        StatusCode::ENDPOINT_UNREACHABLE | StatusCode::TIMEOUT => Return::TIMEOUT,
        StatusCode::BAD_ENDPOINT => Return::BAD_ENDPOINT_ID,
        _ => Return::CONNECTION_FAILED,
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_connect(
    endpoint: EndpointHandle,
    nic: u64,
    id: u32,
    key: u32,
    timeout: u32,
    address: *mut Address,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let end = end(timeout);
            let mut patient = Some(Instant::now() + CLOSED_AFTER);
            loop {
                let request = {
                    let mut state = endpoint.lock()?;
                    let new = Request::new(Kind::Connect, 0, 0, false);
                    endpoint.connect(&mut state, (nic, id, key), new)?
                };
                let ended = |state: &mut State| {
                    let ended = state.requests.get_mut(request)?.is_done();
                    ended.then(|| state.requests.remove(request)).flatten()
                };
                let first = [end, patient].into_iter().flatten().min();
                let mut done = endpoint.wait(first, None, ended)?;
                let late = |end: Option<Instant>| end.is_some_and(|end| end <= Instant::now());
                if done.is_none() && !late(end) && patient.take().is_some() {
                    if endpoint.is_closed_there(nic, id) {
                        let mut state = endpoint.lock()?;
                        endpoint.abandon_connect(&mut state, request);
                        state.requests.remove(request);
                        return Err(Return::CONNECTION_FAILED);
                    }
                    done = endpoint.wait(end, None, ended)?;
                }
                match done {
                    Some(done) if done.code == StatusCode::ENDPOINT_UNREACHABLE && !late(end) => {
                        // It may still be started: that is what the time is for.
                    }
                    Some(done) => {
                        returned(done.code)?;
                        // SAFETY: the header's rules: null or valid.
                        unsafe { store(address, done.source) };
                        return Ok(());
                    }
                    None => {
                        let mut state = endpoint.lock()?;
                        endpoint.abandon_connect(&mut state, request);
                        state.requests.remove(request);
                        return Err(Return::TIMEOUT);
                    }
                }
            }
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_iconnect(
    endpoint: EndpointHandle,
    nic: u64,
    id: u32,
    key: u32,
    match_info: u64,
    context: *mut std::ffi::c_void,
    request: *mut RequestHandle,
) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let mut state = endpoint.lock()?;
            let forgotten = request.is_null();
            let context = context.expose_provenance();
            let mut new = Request::new(Kind::Connect, match_info, context, forgotten);
            new.deadline = state.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
            let new = endpoint.connect(&mut state, (nic, id, key), new)?;
            // SAFETY: the header's rules: null or valid.
            unsafe { store(request, new.handle(REQUEST)) };
            drop(state);
            endpoint.waiters.tell(&endpoint.face.node, false);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_disconnect(endpoint: EndpointHandle, address: Address) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let mut state = endpoint.lock()?;
            let partner = state.partners.get_mut(endpoint.place(), address);
            let partner = partner.ok_or(Return::BAD_ENDPOINT)?;
            partner.fate = Fate::Gone(StatusCode::BAD_SESSION);
            let node = partner.node;
            endpoint.end_sends_to(&mut state, node);
            drop(state);
            endpoint.waiters.tell(&endpoint.face.node, false);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_get_endpoint_addr(endpoint: EndpointHandle, address: *mut Address) -> Return {
    enter(|| {
        call_on(endpoint, |endpoint| {
            let own = endpoint.address(&mut *endpoint.lock()?);
            // SAFETY: the header's rules: null or valid.
            unsafe { store(address, own) };
            Ok(())
        })
    })
}

/// Takes an address apart. It need not be a partner's any more.
pub fn decompose(
    address: Address,
    nic: *mut u64,
    id: *mut u32,
    session: *mut u32,
) -> Result<(), Return> {
    names::initialized()?;
    let parts = Parts::of(address);
    let (of, endpoint) = endpoint_of(parts.node).ok_or(Return::BAD_ENDPOINT)?;
    // SAFETY: the header's rules: each is null or valid.
    unsafe {
        store(nic, of);
        store(id, endpoint);
        store(session, parts.session);
    }
    Ok(())
}
