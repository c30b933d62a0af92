//! The raw API for one-sided operations: regions of plain memory, puts, gets and atomics, for faces that manage buffers
//! themselves.

use emp_firmware::{
    AtomicDescriptor, GetDescriptor, PostError, PutDescriptor, RegionId, Rights, Segment,
};

use crate::endpoint::mailbox::Endpoint;
use crate::raw::messages::RawOp;

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
        // SAFETY: as the caller promises.
        unsafe { self.inner.node.seat.export(key, memory, rights, self.inner.number) }
    }

    /// Has offsets in a region count from `base` instead of 0: peers then name places by addresses of this process. To be
    /// called before they know the key. False: there is no such region.
    pub fn set_region_base_raw(&self, key: u64, base: u64) -> bool {
        self.inner.node.seat.set_region_base(key, base)
    }

    /// Takes a region back: once this returns, nothing reads or writes its memory any more. What is under way in it ends
    /// with an error at its initiator. False: there is none of that key.
    pub fn remove_region_raw(&self, key: u64) -> bool {
        self.inner.node.seat.remove_region(key)
    }

    /// Posts a put of memory that the caller manages. `endpoint` of the descriptor is replaced by this endpoint's number.
    /// The completion comes by [`poll_completions`](Self::poll_completions) with the descriptor's context.
    ///
    /// # Safety
    ///
    /// As for [`post_send_raw`](Self::post_send_raw).
    pub unsafe fn post_put_raw(&self, mut put: PutDescriptor) -> Result<RawOp, PostError> {
        put.endpoint = self.inner.number;
        let to = (self.inner.queue, put.context);
        // SAFETY: the caller keeps the segments valid until the completion is handed out.
        unsafe { self.inner.node.seat.post_raw(put, to, false) }
    }

    /// Posts a get into memory that the caller manages. `endpoint` of the descriptor is replaced by this endpoint's number.
    /// The completion comes by [`poll_completions`](Self::poll_completions) with the descriptor's context.
    ///
    /// # Safety
    ///
    /// As for [`post_receive_raw`](Self::post_receive_raw), but closing the endpoint does not end the operation.
    pub unsafe fn post_get_raw(&self, mut get: GetDescriptor) -> Result<RawOp, PostError> {
        get.endpoint = self.inner.number;
        let to = (self.inner.queue, get.context);
        // SAFETY: the caller keeps the segments valid until the completion is handed out.
        unsafe { self.inner.node.seat.post_raw(get, to, false) }
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
        let to = (self.inner.queue, atomic.context);
        // SAFETY: the caller keeps the segments valid until the completion is handed out.
        unsafe { self.inner.node.seat.post_raw(atomic, to, false) }
    }

    /// Has notices for this endpoint handed out with its completions from now on: of puts by others that notify
    /// ([`OpKind::Notified`](emp_firmware::OpKind::Notified)), and of sends that were complete when they were buffered but
    /// were not delivered ([`OpKind::Undelivered`](emp_firmware::OpKind::Undelivered)). Their context says nothing.
    pub fn want_notices(&self) {
        self.inner.node.seat.want_notices(self.inner.queue, true);
    }
}
