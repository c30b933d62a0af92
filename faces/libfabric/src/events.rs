//! What others did to this process's memory, as counters are told of it (`FI_RMA_EVENT`).
//!
//! A target's node serves reads and atomics without anybody's help and tells nobody. Who was opened with `FI_RMA_EVENT`
//! therefore tells its targets: a write carries the event with it, and after an atomic or a read that has ended well a write
//! of no bytes follows, one more frame. Such puts come from the endpoint for tagged messages, which sends no others, so that
//! they are not taken for `fi_writedata`. What is counted as a read goes to a region of no bytes that each such target has,
//! as the region that was read may not be written; the key then travels as the immediate data.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use emp_host::{
    Completion, CompletionMode, PutDescriptor, RemoteRegion, Rights, Segment, SegmentList,
};

use crate::cntr::CntrInner;
use crate::domain::DomainInner;
use crate::endpoint::{Enabled, EpInner, State, join, leave};
use crate::flags::Directions;
use crate::slots::{Kind, Operation};
use crate::status::refusal;
use crate::transfer::EAGAIN;

/// Key of the region that reads are announced to: libfabric's `FI_KEY_NOTAVAIL`, which no application has.
const READS_KEY: u64 = u64::MAX;

/// What announces an operation to its target.
#[derive(Clone, Copy)]
pub struct Event {
    target: RemoteRegion,
    immediate: u64,
}

impl Event {
    /// Of a write, which may carry it itself, or of an atomic that gave nothing back.
    pub fn of_write(target: RemoteRegion) -> Self {
        Self { target, immediate: 0 }
    }

    /// Of a read, or of an atomic that gave the old values back.
    pub fn of_read(target: RemoteRegion) -> Self {
        let announced = RemoteRegion { key: READS_KEY, offset: 0, ..target };
        Self { target: announced, immediate: target.key }
    }
}

/// Counters of regions, and the endpoints that make progress for them.
#[derive(Default)]
pub struct Counted {
    regions: Mutex<Vec<(u64, Arc<CntrInner>, Directions)>>,
    endpoints: Mutex<Vec<Arc<EpInner>>>,
}

impl Counted {
    fn regions(&self) -> MutexGuard<'_, Vec<(u64, Arc<CntrInner>, Directions)>> {
        self.regions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has a counter count what is done to the region of this key. False: one does already.
    pub fn bind(&self, key: u64, counter: &Arc<CntrInner>, directions: Directions) -> bool {
        let mut regions = self.regions();
        if regions.iter().any(|(other, _, counted)| *other == key && counted.has_any(directions)) {
            return false;
        }
        regions.push((key, Arc::clone(counter), directions));
        drop(regions);
        let endpoints = self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for endpoint in &endpoints {
            follow(counter, endpoint);
        }
        true
    }

    /// A region is closed.
    pub fn forget(&self, key: u64) {
        self.regions().retain(|(other, _, _)| *other != key);
    }

    fn count(&self, key: u64, direction: Directions) {
        for (_, counter, _) in self
            .regions()
            .iter()
            .filter(|(other, _, counted)| *other == key && counted.has_any(direction))
        {
            counter.count(true);
        }
    }

    /// An endpoint that is told of events makes progress when one of the counters is looked at.
    pub fn enabled(&self, endpoint: &Arc<EpInner>) {
        join(&self.endpoints, endpoint);
        let counters: Vec<_> =
            self.regions().iter().map(|(_, counter, _)| counter.clone()).collect();
        counters.iter().for_each(|counter| follow(counter, endpoint));
    }

    /// It is being closed.
    pub fn closing(&self, endpoint: &Arc<EpInner>) {
        leave(&self.endpoints, endpoint);
        let counters: Vec<_> =
            self.regions().iter().map(|(_, counter, _)| counter.clone()).collect();
        counters.iter().for_each(|counter| leave(&counter.endpoints, endpoint));
    }
}

fn follow(counter: &Arc<CntrInner>, endpoint: &Arc<EpInner>) {
    join(&counter.endpoints, endpoint);
    if let Some(enabled) = endpoint.enabled.get() {
        counter.waiting.join(&endpoint.domain, enabled);
    }
}

impl DomainInner {
    /// Makes the region that reads are announced to. That it is there already is no mistake.
    pub fn take_events(&self) {
        let Some(exporter) = self.exporter() else { return };
        let nothing = Segment { address: 0, bytes: 0 };
        // SAFETY: there is no memory in it.
        let _ =
            unsafe { exporter.export_region_raw(Some(READS_KEY), nothing, Rights::REMOTE_WRITE) };
    }
}

/// A peer has announced what it did.
pub fn arrived(ep: &EpInner, enabled: &Enabled, completion: &Completion) {
    let (direction, key) = match completion.match_bits {
        READS_KEY => (Directions::REMOTE_READ, completion.immediate.unwrap_or(0)),
        key => (Directions::REMOTE_WRITE, key),
    };
    count(ep, enabled, direction, key);
}

/// Counts what was done to a region.
pub fn count(ep: &EpInner, enabled: &Enabled, direction: Directions, key: u64) {
    crate::ended::count(enabled, direction, true);
    ep.domain.counted.count(key, direction);
}

impl State {
    /// Announces an operation that has ended.
    pub fn announce(&mut self, enabled: &Enabled, event: Event) {
        let slot = self.slots.insert(Operation {
            kind: Kind::Event(Box::new(event)),
            raw: None,
            tagged: true,
            report: false,
            nameless: true,
            context: 0,
            buffer: 0,
            tag: 0,
        });
        self.post_event(enabled, slot);
    }

    /// Posts an event; if there is no room, it is tried again.
    pub fn post_event(&mut self, enabled: &Enabled, slot: usize) {
        let Some(operation) = self.slots.get(slot) else { return };
        let Kind::Event(event) = &operation.kind else { return };
        let put = PutDescriptor {
            target: event.target,
            endpoint: 0,
            segments: SegmentList::empty(),
            immediate: Some(event.immediate),
            completion: CompletionMode::Auto,
            context: slot as u64,
        };
        // SAFETY: there is no memory.
        match unsafe { enabled.tagged.post_put_raw(put) } {
            Ok(raw) => operation.raw = Some(raw),
            Err(refused) if refusal(refused) == EAGAIN => self.parked.push(slot),
            Err(_) => drop(self.slots.remove(slot)),
        }
    }
}
