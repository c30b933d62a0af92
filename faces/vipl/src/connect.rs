//! Connecting a client to a server.

use std::ffi::c_ulong;
use std::time::{Duration, Instant};

use emp_face::handles::Key;
use emp_face::pointers::store;

use crate::abi::*;
use crate::attributes::agree;
use crate::connecting::{Incoming, Outcome};
use crate::control::Purpose;
use crate::errors::{enter, lacking};
use crate::listen::For;
use crate::nic::{Nic, end, nic};
use crate::points::{CONN, Point, VI};
use crate::state::{State, owner_of};
use crate::vi::{Phase, remote_attributes};
use crate::wire::Message;

/// How long a server waits for the client to know that it was accepted. The client is waiting: a round trip, or the
/// retransmissions of one.
const ACCEPT_WAIT: Duration = Duration::from_secs(10);

/// The pause before a question is put again that did not get there.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The points of a request: the local one must be of this NIC.
///
/// # Safety
///
/// Each is null or an address with as many bytes as it says.
pub unsafe fn points(
    nic: &Nic,
    local: *const NetAddress,
    remote: *const NetAddress,
) -> Result<(Point, Point), Return> {
    // SAFETY: as the caller says.
    let (local, remote) = unsafe { (Point::read(local)?, Point::read(remote)?) };
    if local.host == nic.host { Ok((local, remote)) } else { Err(Return::INVALID_PARAMETER) }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipConnectWait(
    handle: Handle,
    local: *const NetAddress,
    timeout: c_ulong,
    remote: *mut NetAddress,
    attributes: *mut ViAttributes,
    into: *mut Handle,
) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        // SAFETY: the header's rules: null or valid.
        let point = unsafe { Point::read(local) }?;
        if into.is_null() || point.host != nic.host {
            return Err(Return::INVALID_PARAMETER);
        }
        let listener = nic.share().listen(point, For::Server)?;
        let asked = |state: &mut State| state.listener(listener)?.queue.pop_front();
        let found = nic.wait(end(timeout), asked);
        nic.unlisten(&mut nic.lock_even_closed(), listener);
        let (from, of) = found?.ok_or(Return::TIMEOUT)?;
        let offer = from.offer;
        let mut state = nic.lock()?;
        let key = state.incoming.insert(Incoming { from }).map_err(|refused| {
            nic.no_match(&mut state, &refused.from);
            lacking(&"too many connections are neither accepted nor rejected")
        })?;
        // SAFETY: the header's rules: null or valid, with room for an address.
        unsafe {
            of.write(remote);
            store(attributes, remote_attributes(&offer));
            store(into, key.handle(CONN));
        }
        Ok(())
    })
}

/// Tells the client that a VI is connected to it.
fn begin_to_accept(nic: &Nic, incoming: Key, key: Key) -> Result<(), Return> {
    let mut state = nic.lock()?;
    let from = &state.incoming.get(incoming).ok_or(Return::INVALID_PARAMETER)?.from;
    let from = from.clone();
    let vi = state.vi(key)?;
    if !matches!(vi.phase, Phase::Idle) {
        return Err(Return::INVALID_STATE);
    }
    agree(&vi.offer(), &from.offer)?;
    let remote = nic.meet(&from);
    let node = remote.node;
    vi.attempt = vi.attempt.wrapping_add(1);
    (vi.phase, vi.remote, vi.outcome) = (Phase::Accepting, Some(remote), None);
    let purpose = Purpose::Connecting(key, vi.attempt);
    let own = nic.party(vi);
    state.incoming.remove(incoming);
    state.note(key);
    let accept = Message::Accept { conn: from.conn, attempt: from.attempt, from: own };
    if !nic.send_control(&mut state, node, &accept, purpose) {
        nic.not_connected(&mut state, key, Outcome::Gone);
        return Err(Return::TIMEOUT);
    }
    Ok(())
}

/// How an attempt has ended, if it has.
fn outcome(state: &mut State, key: Key) -> Option<Result<Outcome, Return>> {
    match state.vi(key) {
        Ok(vi) => vi.outcome.take().map(Ok),
        Err(error) => Some(Err(error)),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipConnectAccept(handle: Handle, vi: Handle) -> Return {
    enter(|| {
        let (nic, incoming) = owner_of(handle, CONN)?;
        let (other, key) = owner_of(vi, VI)?;
        if !std::ptr::eq(&*nic, &*other) {
            return Err(Return::INVALID_PARAMETER);
        }
        begin_to_accept(&nic, incoming, key)?;
        let end = Some(Instant::now() + ACCEPT_WAIT);
        let found = nic.wait(end, |state| outcome(state, key))?.transpose()?;
        if found == Some(Outcome::Connected) {
            return Ok(());
        }
        let mut state = nic.lock()?;
        nic.not_connected(&mut state, key, Outcome::Gone);
        state.vi(key)?.outcome = None;
        Err(Return::TIMEOUT)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipConnectReject(handle: Handle) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, CONN)?;
        let mut state = nic.lock()?;
        let Incoming { from } = state.incoming.remove(key).ok_or(Return::INVALID_PARAMETER)?;
        let node = nic.meet(&from).node;
        let answer = Message::Reject { conn: from.conn, attempt: from.attempt };
        nic.send_control(&mut state, node, &answer, Purpose::Other);
        Ok(())
    })
}

/// Asks until there is an answer, or the time has passed.
fn request(
    nic: &Nic,
    key: Key,
    points: (&Point, &Point),
    end: Option<Instant>,
) -> Result<(), Return> {
    loop {
        let sent = nic.ask(&mut *nic.lock()?, key, false, points);
        let found = if sent { nic.wait(end, |state| outcome(state, key))? } else { None };
        match found.transpose()? {
            Some(Outcome::Connected) => return Ok(()),
            Some(Outcome::Rejected) => return Err(Return::REJECT),
            Some(Outcome::NoMatch) => return Err(Return::NO_MATCH),
            Some(Outcome::Refused(error)) => return Err(error),
            Some(Outcome::Gone) => return Err(Return::TIMEOUT),
            None | Some(Outcome::Failed) => {}
        }
        let now = Instant::now();
        if end.is_some_and(|end| end <= now) {
            return Err(Return::TIMEOUT);
        }
        let pause = now + AGAIN_AFTER;
        nic.wait(Some(end.map_or(pause, |end| end.min(pause))), |_| None::<()>)?;
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipConnectRequest(
    handle: Handle,
    local: *const NetAddress,
    remote: *const NetAddress,
    timeout: c_ulong,
    attributes: *mut ViAttributes,
) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        // SAFETY: the header's rules: each is null or valid.
        let (local, remote) = unsafe { points(&nic, local, remote) }?;
        {
            let mut state = nic.lock()?;
            let vi = state.vi(key)?;
            if timeout == 0 {
                return Err(Return::INVALID_PARAMETER);
            }
            if !matches!(vi.phase, Phase::Idle) {
                return Err(Return::INVALID_STATE);
            }
            vi.attempt = vi.attempt.wrapping_add(1);
            (vi.phase, vi.outcome) = (Phase::Requesting, None);
        }
        let connected = request(&nic, key, (&local, &remote), end(timeout));
        let mut state = nic.lock()?;
        let vi = state.vi(key)?;
        match connected {
            Ok(()) => {
                let offer = vi.remote.as_ref().map(|remote| remote.offer).unwrap_or_default();
                // SAFETY: the header's rules: null or valid.
                unsafe { store(attributes, remote_attributes(&offer)) };
                Ok(())
            }
            Err(error) => {
                if matches!(vi.phase, Phase::Requesting) {
                    nic.not_connected(&mut state, key, Outcome::Failed);
                }
                state.vi(key)?.outcome = None;
                Err(error)
            }
        }
    })
}
