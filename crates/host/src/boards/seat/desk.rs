//! What is asked by who runs a node for somebody else, in a loop of its own: all operations end in one queue, and sleep is shared with other
//! descriptors.

use std::fs::File;
use std::os::fd::{OwnedFd, RawFd};
use std::time::Duration;

use emp_firmware::{Counter, LinkIndex, OpId, PostError, RegionId, Rights, Time};
use emp_wire::{LinkAddress, NodeId};

use crate::boards::duty::Watch;
use crate::boards::seat::Seat;
use crate::daemon::Left;
use crate::flying::queues::QueueKey;
use crate::machine::clock;
use crate::memory::guarded::{ALL, Whose};
use crate::told::shown::Shown;

impl Seat {
    /// The queue of all endpoints that are opened here. What is exported from now on is memory of nobody's, until it is somebody's.
    pub(crate) fn common_queue(&self) -> QueueKey {
        let mut core = self.lock();
        core.memory.guarded = Whose::Nobodys;
        core.queues.common()
    }

    /// What is exported is memory of the process whose memory this is.
    pub(crate) fn reach(&self, memory: File) {
        self.lock().memory.guarded = Whose::Of(memory);
    }

    /// Exports memory of that process.
    pub(crate) fn export_there(
        &self,
        key: Option<u64>,
        (address, bytes): (u64, u64),
        rights: Rights,
        number: u16,
    ) -> Result<RegionId, PostError> {
        let mut core = self.lock();
        let memory = ALL.part(address, bytes);
        if !matches!(core.memory.guarded, Whose::Of(_)) || memory.bytes != bytes {
            return Err(PostError::MemoryFault);
        }
        let firmware = core.firmware_mut().ok_or(PostError::Closing)?;
        firmware.export_region(key, memory, rights, number)
    }

    /// So many completions that were polled wait for the application elsewhere.
    pub(crate) fn set_unread(&self, count: usize) {
        self.lock().queues.set_elsewhere(count);
    }

    /// So many notifications that were polled are over, and make room for others.
    pub(crate) fn release_notifications(&self, count: usize) {
        self.lock().queues.release(count);
    }

    /// Opens an endpoint without a queue of its own.
    pub(crate) fn open_common(&self, number: u16) -> Result<(), PostError> {
        let mut core = self.lock();
        core.firmware_mut().ok_or(PostError::Closing)?.open_endpoint(number)
    }

    /// Shows how the node is in this file from now on.
    pub(crate) fn show_in(&self, file: OwnedFd) -> std::io::Result<()> {
        let shown = Shown::given(file)?;
        let mut core = self.lock();
        let now = core.now();
        core.shown = Some(shown);
        core.show(now);
        Ok(())
    }

    /// Ends an operation, whatever that costs.
    pub(crate) fn abort(&self, op: OpId) {
        self.ask(|firmware, now| firmware.abort(now, op));
    }

    /// Looks for a node at a place.
    pub(crate) fn look_for(&self, node: NodeId, link: LinkIndex, address: LinkAddress) {
        let mut core = self.lock();
        if usize::from(link.0) < core.links.len() {
            let now = core.now();
            if let Some(firmware) = core.firmware_mut() {
                firmware.resolve(now, link, address, node);
            }
            self.shared.posted(&mut core, now);
        }
    }

    /// What is left to be delivered.
    pub(crate) fn left(&self) -> Left {
        let core = self.lock();
        let drained = core.is_drained();
        let Some(firmware) = core.firmware() else { return Left { drained, ..Left::default() } };
        let counters = firmware.counters();
        Left {
            drained,
            undelivered: firmware.undelivered().collect(),
            frames: counters.get(Counter::FramesSent),
            refused: counters.get(Counter::NotReadyReceived),
        }
    }

    /// Sleeps until there is something to do for this node, one of these descriptors is readable, or the time has passed.
    pub(crate) fn sleep_beside(&self, others: &[RawFd], limit: Option<Duration>) {
        let mut core = self.lock();
        let now = core.now();
        let end = limit.map_or(Time::NEVER, |limit| now + clock::span(limit));
        let until = core.next_turn(now).min(end);
        if until <= now {
            return;
        }
        let (duty, sleepers) = core.duty_mut();
        duty.start_watching(Watch::Caller, until, sleepers);
        drop(core);
        let timeout = (until != Time::NEVER).then(|| clock::duration(until.since(now)));
        if self.shared.poll_set().with(others).sleep(timeout).bell {
            self.shared.bell.hush();
        }
        self.lock().duty_mut().0.stop_watching(Watch::Caller);
    }
}
