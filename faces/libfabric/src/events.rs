//! What others did to this process's memory, as counters are told of it (`FI_RMA_EVENT`).
//!
//! A target's node serves reads and atomics without anybody's help and tells nobody. Who was opened with `FI_RMA_EVENT`
//! therefore tells its targets: a write carries the event with it, and after an atomic or a read that has ended well a write
//! of no bytes follows, one more frame. Such puts come from the endpoint for tagged messages, which sends no others, so that
//! they are not taken for `fi_writedata`. What is counted as a read goes to a region of its own that each such target has,
//! as the region that was read may not be written; the key then travels as the immediate data. An atomic that gives old values
//! back and may change them is both, a read and a write (as psm2 and sockets have it, and as SHMEM's waits need it).
//!
//! An operation on several regions is one for counters of the endpoint, and one for those of each region: what concerns the
//! others goes to that region as well, and how many bytes are written there says what it is.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use emp_host::{
    Completion, CompletionMode, PutDescriptor, RemoteRegion, Rights, Segment, SegmentList,
};

use crate::cntr::CntrInner;
use crate::domain::DomainInner;
use crate::endpoint::{Enabled, Endpoints, EpInner, State, join, leave};
use crate::flags::Directions;
use crate::operations::{Kind, Operation};
use crate::status::refusal;
use crate::transfer::EAGAIN;

/// Key of the region that is written to for its key's sake: libfabric's `FI_KEY_NOTAVAIL`, which no application has.
const EVENTS_KEY: u64 = u64::MAX;

/// What an operation was to the memory it reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    Read,
    Written,
    /// Old values were given back, and may have been changed: an atomic that fetches.
    Both,
}

impl Access {
    /// Of an atomic that fetches or does not, and has operands or has none.
    pub const fn of_atomic(fetches: bool, has_operands: bool) -> Self {
        match (fetches, has_operands) {
            (false, _) => Self::Written,
            (true, false) => Self::Read,
            (true, true) => Self::Both,
        }
    }

    fn directions(self) -> Directions {
        match self {
            Self::Read => Directions::REMOTE_READ,
            Self::Written => Directions::REMOTE_WRITE,
            Self::Both => Directions::REMOTE_READ.with(Directions::REMOTE_WRITE),
        }
    }
}

/// What as many bytes written there as its place says mean: what was done, and whether it counts for the endpoint too, or was
/// announced there as an operation on another region already. A whole write needs none: it is announced in its own region.
const MEANINGS: [(Access, bool); 5] = [
    (Access::Read, true),
    (Access::Read, false),
    (Access::Written, false),
    (Access::Both, true),
    (Access::Both, false),
];

/// What is written there: nobody reads it.
static WRITTEN: [AtomicU8; MEANINGS.len() - 1] = [const { AtomicU8::new(0) }; MEANINGS.len() - 1];

/// What announces an operation to its target.
#[derive(Clone, Copy)]
pub struct Event {
    target: RemoteRegion,
    immediate: u64,
    bytes: usize,
}

impl Event {
    /// Of an operation that was this to its target. A write may carry it itself.
    pub fn of(access: Access, target: RemoteRegion) -> Self {
        match access {
            Access::Written => Self { target, immediate: 0, bytes: 0 },
            read => Self::named(target, read, true),
        }
    }

    fn named(target: RemoteRegion, access: Access, whole: bool) -> Self {
        let bytes = MEANINGS.iter().position(|meaning| *meaning == (access, whole)).unwrap_or(0);
        let announced = RemoteRegion { key: EVENTS_KEY, offset: 0, ..target };
        Self { target: announced, immediate: target.key, bytes }
    }

    /// Of an operation on these runs of memory. `told`: the target counts the last run's region without being told.
    pub fn of_several(targets: &[RemoteRegion], access: Access, told: bool) -> Vec<Self> {
        let whole = if told { targets.last() } else { targets.first() };
        let Some(whole) = whole else { return Vec::new() };
        let mut keys = vec![whole.key];
        let mut events: Vec<_> = (!told).then(|| Self::of(access, *whole)).into_iter().collect();
        for target in targets {
            if !keys.contains(&target.key) {
                keys.push(target.key);
                events.push(Self::named(*target, access, false));
            }
        }
        events
    }
}

/// Counters of regions, and the endpoints that make progress for them.
#[derive(Default)]
pub struct Counted {
    regions: Mutex<Vec<(u64, Arc<CntrInner>, Directions)>>,
    endpoints: Endpoints,
    /// There are endpoints that are told of events.
    listens: AtomicBool,
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
        for endpoint in &self.endpoints() {
            follow(counter, endpoint);
        }
        true
    }

    /// A region is closed: endpoints make progress no longer for counters that were its alone. The lock is held throughout, so
    /// that a counter that is bound again meanwhile is followed.
    pub fn forget(&self, key: u64) {
        let mut regions = self.regions();
        let (gone, left): (Vec<_>, Vec<_>) =
            regions.drain(..).partition(|(other, _, _)| *other == key);
        *regions = left;
        let counted = |counter| regions.iter().any(|(_, other, _)| Arc::ptr_eq(other, counter));
        for (_, counter, _) in gone.iter().filter(|(_, counter, _)| !counted(counter)) {
            for endpoint in self.endpoints().iter().filter(|endpoint| !endpoint.has(counter)) {
                leave(&counter.endpoints, endpoint);
            }
        }
    }

    fn endpoints(&self) -> Vec<Arc<EpInner>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// One operation that was these.
    fn count(&self, key: u64, directions: Directions) {
        for (_, counter, _) in self
            .regions()
            .iter()
            .filter(|(other, _, counted)| *other == key && counted.has_any(directions))
        {
            counter.count(true);
        }
    }

    /// An endpoint that is told of events makes progress when one of the counters is looked at.
    pub fn enabled(&self, endpoint: &Arc<EpInner>) {
        let regions = self.regions();
        join(&self.endpoints, endpoint);
        self.listens.store(true, Ordering::Relaxed);
        regions.iter().for_each(|(_, counter, _)| follow(counter, endpoint));
    }

    /// It is being closed.
    pub fn closing(&self, endpoint: &Arc<EpInner>) {
        let regions = self.regions();
        leave(&self.endpoints, endpoint);
        regions.iter().for_each(|(_, counter, _)| leave(&counter.endpoints, endpoint));
    }

    /// Who makes progress at one endpoint takes what others were told of as well: a program that looks at no counter of events for long
    /// would else fill the node's room for them (`NOTIFICATIONS_MAX`), and its peers' writes and atomics wait.
    #[inline]
    pub fn listen(&self, but: &EpInner) {
        if self.listens.load(Ordering::Relaxed) {
            self.listen_for_others(but);
        }
    }

    #[cold]
    fn listen_for_others(&self, but: &EpInner) {
        for endpoint in self.endpoints() {
            if !std::ptr::eq(&raw const *endpoint, but)
                && let Some(enabled) = endpoint.enabled.get()
            {
                endpoint.lock().progress(&endpoint, enabled);
            }
        }
    }
}

fn follow(counter: &Arc<CntrInner>, endpoint: &Arc<EpInner>) {
    join(&counter.endpoints, endpoint);
    if let Some(enabled) = endpoint.enabled.get() {
        counter.waiting.join(&endpoint.domain, enabled);
    }
}

impl DomainInner {
    /// Makes the region that events are announced to. That it is there already is no mistake.
    pub fn take_events(&self) {
        let Some(exporter) = self.exporter() else { return };
        let memory = written(WRITTEN.len());
        // SAFETY: it lives as long as the process, may be written through its address, and nobody looks at it.
        let _ =
            unsafe { exporter.export_region_raw(Some(EVENTS_KEY), memory, Rights::REMOTE_WRITE) };
    }
}

/// So many bytes of [`WRITTEN`].
fn written(bytes: usize) -> Segment {
    Segment { address: WRITTEN.as_ptr().expose_provenance() as u64, bytes: bytes as u64 }
}

/// A peer has announced what it did.
pub fn arrived(ep: &EpInner, enabled: &Enabled, completion: &Completion) {
    if completion.match_bits != EVENTS_KEY {
        return count(ep, enabled, Directions::REMOTE_WRITE, completion.match_bits);
    }
    let key = completion.immediate.unwrap_or(0);
    // More is not in the region.
    let Some((access, whole)) = MEANINGS.get(completion.bytes as usize) else { return };
    if *whole {
        enabled.bound.counters.count_all(access.directions());
    }
    ep.domain.counted.count(key, access.directions());
}

/// Counts what was done to a region.
pub fn count(ep: &EpInner, enabled: &Enabled, direction: Directions, key: u64) {
    enabled.bound.counters.count(direction, true);
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
            segments: SegmentList::one(written(event.bytes)),
            immediate: Some(event.immediate),
            completion: CompletionMode::Auto,
            context: slot as u64,
        };
        // SAFETY: what is read, if anything, lives as long as the process.
        match unsafe { enabled.tagged.post_put_raw(put) } {
            Ok(raw) => operation.raw = Some(raw),
            Err(refused) if refusal(refused) == EAGAIN => self.parked.push(slot),
            Err(_) => drop(self.slots.remove(slot)),
        }
    }
}
