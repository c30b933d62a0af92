//! Connecting two peers: both ask, again and again, until one of them is asked while it waits.

use std::ffi::c_ulong;
use std::time::{Duration, Instant};

use emp_face::handles::Key;
use emp_face::pointers::store;

use crate::abi::*;
use crate::attributes::agree;
use crate::connect::points;
use crate::connecting::Outcome;
use crate::control::Purpose;
use crate::errors::enter;
use crate::listen::For;
use crate::nic::{Nic, end};
use crate::points::{Point, VI};
use crate::state::{State, owner_of};
use crate::vi::{Phase, remote_attributes};
use crate::wire::{Message, Party};

/// The pause after which the other side is asked again that does not wait yet; it doubles.
const AGAIN_AFTER: Duration = Duration::from_millis(5);
/// Where that ends: a peer that comes late finds this one soon.
const AGAIN_AFTER_MAX: Duration = Duration::from_millis(100);

/// A VI that waits for its peer.
pub struct Peering {
    local: Point,
    remote: Point,
    listener: u64,
    deadline: Option<Instant>,
    /// When it asks next; `None`: it waits for an answer.
    next: Option<Instant>,
    pause: Duration,
}

impl Peering {
    /// The other one does not wait yet.
    pub fn again(&mut self) {
        self.next = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(AGAIN_AFTER_MAX);
    }
}

impl Nic {
    /// Asks the peers that are due, and gives up those that are late.
    #[cold]
    pub fn ask_peers(&self, state: &mut State) -> bool {
        let now = Instant::now();
        let due = |(key, vi): (Key, &crate::vi::Vi)| match &vi.phase {
            Phase::Peering(peering) => {
                let late = peering.deadline.is_some_and(|deadline| deadline <= now);
                let due = peering.next.is_some_and(|next| next <= now);
                (late || due).then_some((key, late))
            }
            _ => None,
        };
        let due: Vec<(Key, bool)> = state.vis.all().filter_map(due).collect();
        let mut news = false;
        for (key, late) in due {
            if late {
                self.not_connected(state, key, Outcome::Gone);
                news = true;
                continue;
            }
            let Some(vi) = state.vis.get_mut(key) else { continue };
            let Phase::Peering(peering) = &mut vi.phase else { continue };
            peering.next = None;
            let (local, remote) = (peering.local.clone(), peering.remote.clone());
            if !self.ask(state, key, true, (&local, &remote))
                && let Some(vi) = state.vis.get_mut(key)
                && let Phase::Peering(peering) = &mut vi.phase
            {
                peering.again();
            }
        }
        news
    }

    /// Somebody asks for a VI that waits for its peer. False: it waits for somebody else.
    pub fn asked_by_peer(&self, state: &mut State, key: Key, from: &Party, local: &Point) -> bool {
        let Some(vi) = state.vis.get_mut(key) else { return false };
        let Phase::Peering(peering) = &vi.phase else { return false };
        if peering.remote != *local {
            return false;
        }
        let remote = self.meet(from);
        let (node, own) = (remote.node, self.party(vi));
        match agree(&vi.offer(), &from.offer) {
            Ok(()) => {
                vi.remote = Some(remote);
                self.connected(state, key);
            }
            Err(error) => self.not_connected(state, key, Outcome::Refused(error)),
        }
        // If both do not fit, the other one finds out by this.
        let accept = Message::Accept { conn: from.conn, attempt: from.attempt, from: own };
        self.send_control(state, node, &accept, Purpose::Other);
        true
    }

    /// A VI waits for its peer no longer.
    pub fn end_peering(&self, state: &mut State, key: Key) {
        let Some(vi) = state.vis.get_mut(key) else { return };
        let Phase::Peering(peering) = &vi.phase else { return };
        let listener = peering.listener;
        vi.phase = Phase::Idle;
        state.peering -= 1;
        self.unlisten(state, listener);
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipConnectPeerRequest(
    handle: Handle,
    local: *const NetAddress,
    remote: *const NetAddress,
    timeout: c_ulong,
) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        // SAFETY: the header's rules: each is null or valid.
        let (local, remote) = unsafe { points(&nic, local, remote) }?;
        let idle = |state: &mut State| match state.vi(key)?.phase {
            _ if timeout == 0 => Err(Return::INVALID_PARAMETER),
            Phase::Idle => Ok(()),
            _ => Err(Return::INVALID_STATE),
        };
        idle(&mut *nic.lock()?)?;
        let listener = nic.share().listen(local.clone(), For::Peer(key))?;
        let mut state = nic.lock()?;
        // Another thread may have been faster.
        if let Err(error) = idle(&mut state) {
            nic.unlisten(&mut state, listener);
            return Err(error);
        }
        let peering = Peering {
            local,
            remote,
            listener,
            deadline: end(timeout),
            next: Some(Instant::now()),
            pause: AGAIN_AFTER,
        };
        let vi = state.vi(key)?;
        vi.attempt = vi.attempt.wrapping_add(1);
        (vi.phase, vi.outcome) = (Phase::Peering(Box::new(peering)), None);
        state.peering += 1;
        nic.ask_peers(&mut state);
        drop(state);
        nic.service.wake(&nic);
        Ok(())
    })
}

/// How it has ended; `None`: it goes on.
fn look(state: &mut State, key: Key) -> Option<Result<ViAttributes, Return>> {
    let vi = match state.vi(key) {
        Ok(vi) => vi,
        Err(error) => return Some(Err(error)),
    };
    let ended = match vi.outcome.take() {
        Some(Outcome::Connected) => {
            let offer = vi.remote.as_ref().map(|remote| remote.offer).unwrap_or_default();
            Ok(remote_attributes(&offer))
        }
        Some(Outcome::Refused(error)) => Err(error),
        Some(_) => Err(Return::TIMEOUT),
        None if matches!(vi.phase, Phase::Peering(_)) => return None,
        None => Err(Return::INVALID_STATE),
    };
    Some(ended)
}

#[unsafe(no_mangle)]
pub extern "C" fn VipConnectPeerDone(handle: Handle, attributes: *mut ViAttributes) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        let found = nic.glance(|state| look(state, key))?.ok_or(Return::NOT_DONE)??;
        // SAFETY: the header's rules: null or valid.
        unsafe { store(attributes, found) };
        Ok(())
    })
}

/// The time is that of the request.
#[unsafe(no_mangle)]
pub extern "C" fn VipConnectPeerWait(handle: Handle, attributes: *mut ViAttributes) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        let found = nic.wait(None, |state| look(state, key))?.ok_or(Return::TIMEOUT)??;
        // SAFETY: the header's rules: null or valid.
        unsafe { store(attributes, found) };
        Ok(())
    })
}
