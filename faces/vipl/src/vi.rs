//! VIs: making, asking, changing and destroying them.

use std::ffi::{c_int, c_void};

use emp_face::handles::Key;
use emp_face::pointers::{look, store};
use emp_host::NodeId;

use crate::abi::*;
use crate::attributes::check;
use crate::connecting::Outcome;
use crate::errors::{enter, enter_or_null, enter_silently, lacking};
use crate::nic::nic;
use crate::peer::Peering;
use crate::points::{CQ, VI};
use crate::queue::{Queue, Side};
use crate::state::{State, owner_of};
use crate::wire::Offer;

/// How far a VI is connected.
pub enum Phase {
    Idle,
    /// A client waits for the server.
    Requesting,
    /// A peer waits for the other one.
    Peering(Box<Peering>),
    /// A server has accepted, and waits for the client to know.
    Accepting,
    Connected,
    /// It was connected: until it is disconnected, all descriptors end flushed.
    Error,
}

/// The other end.
#[derive(Clone, Debug)]
pub struct Remote {
    pub node: NodeId,
    pub conn: u32,
    pub tag: u32,
    pub offer: Offer,
}

pub struct Vi {
    pub attributes: ViAttributes,
    /// `None`: the NIC's default tag.
    pub ptag: Option<Key>,
    /// The tag's number.
    pub tag: u32,
    pub send_cq: Option<Key>,
    pub receive_cq: Option<Key>,
    pub phase: Phase,
    /// Number of the connection that it has or will have next: the match bits of what comes.
    pub conn: u32,
    pub attempt: u32,
    pub remote: Option<Remote>,
    /// How connecting has ended, until the call that waits for it takes that.
    pub outcome: Option<Outcome>,
    pub send: Queue,
    pub receive: Queue,
    /// Whether it is counted among those that are starving, and owing.
    starving: bool,
    owing: bool,
    /// What the consumer keeps with it (`VipSetUserData`).
    pub user_data: usize,
    /// Numbers of both queues when the service thread looked last.
    pub seen: (u32, u32),
}

impl Vi {
    fn new(
        attributes: ViAttributes,
        (ptag, tag): (Option<Key>, u32),
        (send_cq, receive_cq): (Option<Key>, Option<Key>),
    ) -> Self {
        Self {
            attributes,
            ptag,
            tag,
            send_cq,
            receive_cq,
            phase: Phase::Idle,
            conn: 0,
            attempt: 0,
            remote: None,
            outcome: None,
            send: Queue::default(),
            receive: Queue::default(),
            starving: false,
            owing: false,
            user_data: 0,
            seen: (0, 0),
        }
    }

    #[inline]
    pub fn queue(&mut self, side: Side) -> &mut Queue {
        match side {
            Side::Send => &mut self.send,
            Side::Receive => &mut self.receive,
        }
    }

    #[inline]
    pub fn cq(&self, side: Side) -> Option<Key> {
        match side {
            Side::Send => self.send_cq,
            Side::Receive => self.receive_cq,
        }
    }

    pub fn is_reliable(&self) -> bool {
        self.attributes.reliability != UNRELIABLE
    }

    /// Receives wait here for their messages, which are looked at first: errors must reach the sender.
    pub fn claims(&self) -> bool {
        self.attributes.reliability == RELIABLE_RECEPTION
    }

    /// Messages may come.
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Connected | Phase::Accepting)
    }

    pub fn offer(&self) -> Offer {
        Offer {
            reliability: self.attributes.reliability,
            // Checked against what a NIC allows, which has fewer bits.
            max_transfer: self.attributes.max_transfer_size as u32,
            rdma_write: self.attributes.rdma_write != 0,
            rdma_read: self.attributes.rdma_read != 0,
        }
    }
}

impl State {
    #[inline]
    pub fn vi(&mut self, key: Key) -> Result<&mut Vi, Return> {
        self.vis.get_mut(key).ok_or(Return::INVALID_PARAMETER)
    }

    /// To be called when the phase or a queue of a VI has changed: counts those that progress has to look after.
    #[inline]
    pub fn note(&mut self, key: Key) {
        let Some(vi) = self.vis.get_mut(key) else { return };
        let starving = vi.is_open() && (vi.receive.entries.is_empty() || vi.claims());
        let owing = vi.send.held + vi.send.owes != 0;
        self.starving = self.starving + usize::from(starving) - usize::from(vi.starving);
        self.owing = self.owing + usize::from(owing) - usize::from(vi.owing);
        (vi.starving, vi.owing) = (starving, owing);
    }

    /// Takes out a VI that is not in use.
    fn destroy(&mut self, key: Key) -> Result<(), Return> {
        let vi = self.vi(key)?;
        if !matches!(vi.phase, Phase::Idle) {
            return Err(Return::INVALID_STATE);
        }
        if !vi.send.is_empty() || !vi.receive.is_empty() {
            return Err(Return::ERROR_RESOURCE);
        }
        let Some(vi) = self.vis.remove(key) else { return Ok(()) };
        self.conns.remove(&vi.conn);
        // Nobody can ask about it any more.
        self.events.retain(|event| event.vi != key.handle(VI));
        self.notifies -= vi.send.notify.len() + vi.receive.notify.len();
        self.leave_tag(vi.ptag);
        for cq in [vi.send_cq, vi.receive_cq].into_iter().flatten() {
            if let Some(cq) = self.cqs.get_mut(cq) {
                cq.users -= 1;
                cq.entries.retain(|(of, _)| *of != key);
            }
        }
        Ok(())
    }
}

/// The completion queue of a handle, which may be null.
fn optional_cq(state: &State, handle: Handle) -> Result<Option<Key>, Return> {
    if handle == 0 {
        return Ok(None);
    }
    let key = Key::of(handle, CQ).filter(|key| state.cqs.get(*key).is_some());
    key.map(Some).ok_or(Return::INVALID_PARAMETER)
}

#[unsafe(no_mangle)]
pub extern "C" fn VipCreateVi(
    handle: Handle,
    attributes: *const ViAttributes,
    send_cq: Handle,
    receive_cq: Handle,
    into: *mut Handle,
) -> Return {
    enter(|| {
        let nic = nic(handle)?;
        let mut state = nic.lock()?;
        // SAFETY: the header's rules: null or valid.
        let attributes = *unsafe { look(attributes) }.ok_or(Return::INVALID_PARAMETER)?;
        if into.is_null() {
            return Err(Return::INVALID_PARAMETER);
        }
        let send_cq = optional_cq(&state, send_cq)?;
        let receive_cq = optional_cq(&state, receive_cq)?;
        let (ptag, tag) = check(&mut state, &attributes)?;
        if ptag.is_none() {
            nic.let_untagged(&mut state)?;
        }
        let vi = Vi::new(attributes, (ptag, tag), (send_cq, receive_cq));
        let key = state.vis.insert(vi).map_err(|_| lacking(&"too many VIs"))?;
        let conn = state.new_conn(key);
        state.vi(key)?.conn = conn;
        state.use_tag(ptag);
        for cq in [send_cq, receive_cq].into_iter().flatten() {
            if let Some(cq) = state.cqs.get_mut(cq) {
                cq.users += 1;
            }
        }
        // SAFETY: not null, and by the header's rules valid.
        unsafe { store(into, key.handle(VI)) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipDestroyVi(handle: Handle) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        nic.lock()?.destroy(key)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipSetViAttributes(handle: Handle, attributes: *const ViAttributes) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        let mut state = nic.lock()?;
        // SAFETY: the header's rules: null or valid.
        let attributes = *unsafe { look(attributes) }.ok_or(Return::INVALID_PARAMETER)?;
        let vi = state.vi(key)?;
        if !matches!(vi.phase, Phase::Idle) {
            return Err(Return::INVALID_STATE);
        }
        // Receives that are posted were checked by these two, and are waited for as the level has it.
        let same = vi.attributes.ptag == attributes.ptag
            && vi.attributes.reliability == attributes.reliability;
        if !same && !vi.receive.entries.is_empty() {
            return Err(Return::INVALID_STATE);
        }
        let (ptag, tag) = check(&mut state, &attributes)?;
        if ptag.is_none() {
            nic.let_untagged(&mut state)?;
        }
        let vi = state.vi(key)?;
        let before = std::mem::replace(&mut vi.ptag, ptag);
        (vi.attributes, vi.tag) = (attributes, tag);
        state.use_tag(ptag);
        state.leave_tag(before);
        Ok(())
    })
}

/// Not of VIA, but of Giganet's library: something of the consumer's that is kept with a VI.
#[unsafe(no_mangle)]
pub extern "C" fn VipGetUserData(handle: Handle) -> *mut c_void {
    enter_or_null(|| {
        let (nic, key) = owner_of(handle, VI)?;
        let data = nic.lock()?.vi(key)?.user_data;
        Ok(std::ptr::with_exposed_provenance_mut(data))
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipSetUserData(handle: Handle, data: *mut c_void) {
    enter_silently(|| {
        let (nic, key) = owner_of(handle, VI)?;
        nic.lock()?.vi(key)?.user_data = data.expose_provenance();
        Ok(())
    });
}

#[unsafe(no_mangle)]
pub extern "C" fn VipQueryVi(
    handle: Handle,
    phase: *mut c_int,
    attributes: *mut ViAttributes,
    send_empty: *mut c_int,
    receive_empty: *mut c_int,
) -> Return {
    enter(|| {
        let (nic, key) = owner_of(handle, VI)?;
        // Whoever asks again and again waits for a change.
        nic.glance(|_| None::<()>)?;
        let mut state = nic.lock()?;
        let vi = state.vi(key)?;
        let found = match vi.phase {
            Phase::Idle => STATE_IDLE,
            Phase::Requesting | Phase::Peering(_) | Phase::Accepting => STATE_CONNECT_PENDING,
            Phase::Connected => STATE_CONNECTED,
            Phase::Error => STATE_ERROR,
        };
        // SAFETY: the header's rules: each is null or valid.
        unsafe {
            store(phase, found);
            store(attributes, vi.attributes);
            store(send_empty, vi.send.is_empty().into());
            store(receive_empty, vi.receive.is_empty().into());
        }
        Ok(())
    })
}

/// The attributes of the other side, as C gets them.
pub fn remote_attributes(offer: &Offer) -> ViAttributes {
    ViAttributes {
        reliability: offer.reliability,
        max_transfer_size: offer.max_transfer.into(),
        qos: 0,
        ptag: 0,
        rdma_write: offer.rdma_write.into(),
        rdma_read: offer.rdma_read.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle(state: &mut State) -> Key {
        let attributes = ViAttributes {
            reliability: RELIABLE_DELIVERY,
            max_transfer_size: 64,
            qos: 0,
            ptag: 0,
            rdma_write: 0,
            rdma_read: 0,
        };
        let vi = Vi::new(attributes, (None, 0), (None, None));
        state.vis.insert(vi).ok().expect("there is room")
    }

    /// The connection of a VI was lost just before the application destroyed it: the error handler, which runs later in another
    /// thread, hears of the other VI alone.
    #[test]
    fn no_error_is_told_of_a_vi_that_is_destroyed() {
        let mut state = State::new();
        let (gone, other) = (idle(&mut state), idle(&mut state));
        for vi in [gone, other, gone] {
            state.push_event(ErrorDescriptor {
                nic: 1,
                vi: vi.handle(VI),
                cq: 0,
                descriptor: 0,
                operation: 0,
                resource: RESOURCE_VI,
                code: ErrorCode(1),
            });
        }
        assert_eq!(state.destroy(gone), Ok(()));
        let told: Vec<_> = state.events.iter().map(|event| event.vi).collect();
        assert_eq!(told, [other.handle(VI)]);
        assert_eq!(state.destroy(gone), Err(Return::INVALID_PARAMETER));
    }
}
