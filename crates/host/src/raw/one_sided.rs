//! The raw API for one-sided operations: regions of plain memory, puts, gets and atomics, for faces that manage buffers
//! themselves.

use emp_firmware::{
    AtomicDescriptor, GetDescriptor, PostError, PutDescriptor, RegionId, Rights, Segment, Time,
};

use crate::boards::lock::{Locked, Shared};
use crate::endpoint::handle::{Endpoint, make_room};
use crate::flying::slots::State;
use crate::raw::messages::RawOp;
use crate::turn::core::Core;

impl Shared {
    /// Takes a region back; once this returns nothing uses its memory any more. False: there is none.
    pub(crate) fn remove_region(&self, core: &mut Locked<'_>, key: u64) -> bool {
        let now = core.now();
        let removed = core.firmware_mut().is_some_and(|firmware| firmware.remove_region(now, key));
        core.let_go_of_memory();
        self.posted(core, now);
        removed
    }
}

impl Endpoint {
    /// Exports memory that the caller manages: other nodes reach it by `key` (`None`: one is chosen), within these rights,
    /// without this node's application having a part in it. Notifications for endpoints that are not open come here.
    ///
    /// # Errors
    ///
    /// The key is taken, there are too many regions, or the node is closed.
    ///
    /// # Safety
    ///
    /// The segment's address is a pointer of this process with exposed provenance. All bytes of it that a peer is told of
    /// are readable, and writable if the rights say so, until [`remove_region_raw`](Self::remove_region_raw) or
    /// [`Node::close`](crate::Node::close) has returned; the application expects others to read and write them at any
    /// time.
    pub unsafe fn export_region_raw(
        &self,
        key: Option<u64>,
        memory: Segment,
        rights: Rights,
    ) -> Result<RegionId, PostError> {
        let mut core = self.inner.node.shared.lock();
        let number = self.inner.number;
        let Some(firmware) = core.firmware_mut() else { return Err(PostError::Closing) };
        firmware.export_region(key, memory, rights, number)
    }

    /// Has offsets in a region count from `base` instead of 0: peers then name places by addresses of this process. To be
    /// called before they know the key. False: there is no such region.
    pub fn set_region_base_raw(&self, key: u64, base: u64) -> bool {
        let mut core = self.inner.node.shared.lock();
        core.firmware_mut().is_some_and(|firmware| firmware.set_region_base(key, base))
    }

    /// Takes a region back: once this returns, nothing reads or writes its memory any more. What is under way in it ends
    /// with an error at its initiator. False: there is none of that key.
    pub fn remove_region_raw(&self, key: u64) -> bool {
        let shared = &self.inner.node.shared;
        shared.remove_region(&mut shared.lock(), key)
    }

    /// Posts a put of memory that the caller manages. `endpoint` of the descriptor is replaced by this endpoint's number.
    /// The completion comes by [`poll_completions`](Self::poll_completions) with the descriptor's context.
    ///
    /// # Safety
    ///
    /// As for [`post_send_raw`](Self::post_send_raw).
    pub unsafe fn post_put_raw(&self, mut put: PutDescriptor) -> Result<RawOp, PostError> {
        put.endpoint = self.inner.number;
        let context = put.context;
        let shared = &self.inner.node.shared;
        self.post_raw(context, |core, state| {
            let departs = shared.sends_itself(core, false);
            // SAFETY: the caller keeps the segments valid until the completion is handed out.
            let begun = unsafe { core.post_put(put, state, departs) }?;
            Ok((core.raw_op(begun, self.inner.queue, context), core.last_post))
        })
    }

    /// Posts a get into memory that the caller manages. `endpoint` of the descriptor is replaced by this endpoint's number.
    /// The completion comes by [`poll_completions`](Self::poll_completions) with the descriptor's context.
    ///
    /// # Safety
    ///
    /// As for [`post_receive_raw`](Self::post_receive_raw), but closing the endpoint does not end the operation.
    pub unsafe fn post_get_raw(&self, mut get: GetDescriptor) -> Result<RawOp, PostError> {
        get.endpoint = self.inner.number;
        let context = get.context;
        self.post_raw(context, |core, state| {
            let now = core.now();
            // SAFETY: the caller keeps the segments valid until the completion is handed out.
            let key = unsafe { core.post_get(now, get, state) }?;
            Ok((core.requests.op(key), now))
        })
    }

    /// Posts an atomic operation. `endpoint` of the descriptor is replaced by this endpoint's number. The completion comes
    /// by [`poll_completions`](Self::poll_completions) with the descriptor's context.
    ///
    /// # Safety
    ///
    /// As for [`post_get_raw`](Self::post_get_raw) where old values go to; operands and what to compare with are read
    /// before this returns.
    pub unsafe fn post_atomic_raw(&self, mut atomic: AtomicDescriptor) -> Result<RawOp, PostError> {
        atomic.endpoint = self.inner.number;
        let context = atomic.context;
        let shared = &self.inner.node.shared;
        self.post_raw(context, |core, state| {
            let departs = shared.sends_itself(core, false);
            // SAFETY: the caller keeps the segments valid until the completion is handed out.
            let begun = unsafe { core.post_atomic(atomic, state, departs) }?;
            Ok((core.raw_op(begun, self.inner.queue, context), core.last_post))
        })
    }

    /// Has notices for this endpoint handed out with its completions from now on: of puts by others that notify
    /// ([`OpKind::Notified`](emp_firmware::OpKind::Notified)), and of sends that were complete when they were buffered but
    /// were not delivered ([`OpKind::Undelivered`](emp_firmware::OpKind::Undelivered)). Their context says nothing.
    pub fn want_notices(&self) {
        self.inner.node.shared.lock().queues.want_notices(self.inner.queue, true);
    }

    fn post_raw(
        &self,
        context: u64,
        post: impl FnOnce(&mut Core, State) -> Result<(RawOp, Time), PostError>,
    ) -> Result<RawOp, PostError> {
        let state = State::Raw { queue: self.inner.queue, context };
        let shared = &self.inner.node.shared;
        let mut core = shared.lock();
        match post(&mut core, state) {
            Ok((op, now)) => {
                shared.posted(&mut core, now);
                Ok(op)
            }
            Err(error) => {
                let now = core.now();
                make_room(&mut core, error, now);
                Err(error)
            }
        }
    }
}
