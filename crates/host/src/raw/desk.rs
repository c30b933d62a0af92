//! Running a node for somebody else: a service whose clients say by number what is to be done, and hear by one queue what has ended.

use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use emp_firmware::{
    AtomicDescriptor, ClaimId, Completion, GetDescriptor, LinkIndex, PostError, ProbeInfo,
    PutDescriptor, ReceiveDescriptor, RegionId, Rights, Selector, SendDescriptor,
};
use emp_wire::{LinkAddress, NodeId};

use crate::boards::seat::{MultiReceive, RawBegun};
use crate::daemon::Left;
use crate::flying::queues::QueueKey;
use crate::node::running::Node;
use crate::raw::messages::{RawOp, RawSend};

/// All endpoints of a node that are opened by it, and one queue for what ends there. For one thread at a time.
pub struct Desk {
    node: Node,
    queue: QueueKey,
}

impl Desk {
    /// Of this node.
    pub fn new(node: &Node) -> Self {
        Self { node: node.clone(), queue: node.inner.seat.common_queue() }
    }

    /// Opens an endpoint.
    pub fn open(&self, number: u16) -> Result<(), PostError> {
        self.node.inner.seat.open_common(number)
    }

    /// Closes one: its receives end, its sends go on.
    pub fn close(&self, number: u16) {
        self.node.inner.seat.close_and_end(number, []);
    }

    /// Posts a send from the descriptor's endpoint. If it is over at once no completion follows.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::post_send_raw_or_end`](crate::Endpoint::post_send_raw_or_end).
    pub unsafe fn send(&self, send: SendDescriptor, more: bool) -> Result<RawSend, PostError> {
        let to = (self.queue, send.context);
        // SAFETY: as the caller promises. Told of nothing, it is always posted.
        let begun = unsafe { self.node.inner.seat.post_raw_or_end(send, to, more, None) }?;
        Ok(match begun {
            Some(RawBegun::Flying(op)) => RawSend::Flying(op),
            Some(RawBegun::Over(completion)) => RawSend::Over(completion.status),
            None => unreachable!("nothing was to be told of"),
        })
    }

    /// Posts a receive at the descriptor's endpoint; with `least_free`, for several messages.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::post_receive_raw`](crate::Endpoint::post_receive_raw) and
    /// [`post_multi_receive_raw`](crate::Endpoint::post_multi_receive_raw); closing the endpoint does not end it.
    pub unsafe fn receive(
        &self,
        receive: ReceiveDescriptor,
        least_free: Option<u64>,
    ) -> Result<RawOp, PostError> {
        let (seat, to) = (&self.node.inner.seat, (self.queue, receive.context));
        // SAFETY: as the caller promises.
        unsafe {
            match least_free {
                None => seat.post_raw(receive, to, false),
                Some(least) => seat.post_raw(MultiReceive(receive, least), to, false),
            }
        }
    }

    /// Posts a put.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::post_put_raw`](crate::Endpoint::post_put_raw).
    pub unsafe fn put(&self, put: PutDescriptor) -> Result<RawOp, PostError> {
        let to = (self.queue, put.context);
        // SAFETY: as the caller promises.
        unsafe { self.node.inner.seat.post_raw(put, to, false) }
    }

    /// Posts a get.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::post_get_raw`](crate::Endpoint::post_get_raw).
    pub unsafe fn get(&self, get: GetDescriptor) -> Result<RawOp, PostError> {
        let to = (self.queue, get.context);
        // SAFETY: as the caller promises.
        unsafe { self.node.inner.seat.post_raw(get, to, false) }
    }

    /// Posts an atomic operation.
    ///
    /// # Safety
    ///
    /// As for [`Endpoint::post_atomic_raw`](crate::Endpoint::post_atomic_raw).
    pub unsafe fn atomic(&self, atomic: AtomicDescriptor) -> Result<RawOp, PostError> {
        let to = (self.queue, atomic.context);
        // SAFETY: as the caller promises.
        unsafe { self.node.inner.seat.post_raw(atomic, to, false) }
    }

    /// From now on the memory of the process whose `/proc/PID/mem` this is can be exported. Reading and writing it may take as long as whoever
    /// serves that memory wants, in the thread that makes progress.
    pub fn reach(&self, memory: File) {
        self.node.inner.seat.reach(memory);
    }

    /// From now on the node shows its state in this file, which whoever it runs for has made, and is not believed in anything.
    ///
    /// # Errors
    ///
    /// It is no file that may be written to.
    pub fn show_in(&self, file: OwnedFd) -> std::io::Result<()> {
        self.node.inner.seat.show_in(file)
    }

    /// Exports memory of that process, by its addresses there.
    pub fn export(
        &self,
        key: Option<u64>,
        (address, bytes): (u64, u64),
        rights: Rights,
        number: u16,
    ) -> Result<RegionId, PostError> {
        self.node.inner.seat.export_there(key, (address, bytes), rights, number)
    }

    /// Has offsets in a region count from `base`. False: there is no such region.
    pub fn set_region_base(&self, key: u64, base: u64) -> bool {
        self.node.inner.seat.set_region_base(key, base)
    }

    /// Takes a region back. False: there is none.
    pub fn remove_region(&self, key: u64) -> bool {
        self.node.inner.seat.remove_region(key)
    }

    /// So many completions that were polled wait for the application elsewhere: what bounds receives for several messages.
    pub fn set_unread(&self, count: usize) {
        self.node.inner.seat.set_unread(count);
    }

    /// So many notifications that were polled are over, and make room for others.
    pub fn release_notifications(&self, count: usize) {
        self.node.inner.seat.release_notifications(count);
    }

    /// Tries to cancel an operation. False: too late.
    pub fn cancel(&self, op: RawOp) -> bool {
        self.node.inner.seat.cancel_raw(op)
    }

    /// Ends an operation, whatever that costs its peer.
    pub fn abort(&self, op: RawOp) {
        self.node.inner.seat.abort(op);
    }

    /// What has ended, as much as fits. Makes progress if there is nothing.
    pub fn poll(&self, into: &mut Vec<Completion>) -> usize {
        self.node.inner.seat.poll(self.queue, into)
    }

    /// True if the last look for what has ended found nothing to do at all.
    pub fn is_idle(&self) -> bool {
        self.node.inner.seat.is_idle()
    }

    /// Looks for a message that no receive has taken; with `claim`, sets it aside.
    pub fn probe(&self, number: u16, selector: Selector, claim: bool) -> Option<ProbeInfo> {
        self.node.inner.seat.probe(number, selector, (claim, false))
    }

    /// Gives up a message that was set aside.
    pub fn discard(&self, claim: ClaimId) {
        self.node.inner.seat.discard(claim);
    }

    /// A node may be there.
    pub fn hint(&self, node: NodeId, link: LinkIndex, address: LinkAddress) {
        self.node.inner.seat.note_hint(node, link, address);
    }

    /// Looks for a node there, once.
    pub fn look_for(&self, node: NodeId, link: LinkIndex, address: LinkAddress) {
        self.node.inner.seat.look_for(node, link, address);
    }

    /// What is left to be delivered.
    pub fn left(&self) -> Left {
        self.node.inner.seat.left()
    }

    /// Sleeps until there is something to do for the node, one of these descriptors is readable, or the time has passed.
    pub fn sleep(&self, others: &[BorrowedFd<'_>], limit: Option<Duration>) {
        let others: Vec<_> = others.iter().map(AsRawFd::as_raw_fd).collect();
        self.node.inner.seat.sleep_beside(&others, limit);
    }
}
