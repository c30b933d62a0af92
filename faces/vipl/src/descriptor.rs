//! Descriptors: what C has written, read once and checked when it is posted; and how each ends.

use std::sync::atomic::{AtomicU32, Ordering};

use emp_face::handles::Key;
use emp_host::{Segment, SegmentList};

use crate::abi::*;
use crate::errors::wrong;
use crate::memory::{Regions, Used};
use crate::nic::SEGMENTS_MAX;

/// What a descriptor asks for.
pub struct Work {
    pub operation: u16,
    pub immediate: Option<u32>,
    /// Not before earlier RDMA reads are done.
    pub fence: bool,
    pub segments: SegmentList,
    /// Bytes that the segments of a receive name and that are not in registered memory: found out only by a message that needs
    /// them.
    pub missing: u32,
    /// Where in the other side's memory.
    pub remote: DescriptorSegment,
    pub used: Used,
    /// What is wrong with it, as its status says it.
    pub error: u32,
}

/// Which queue a descriptor is for, and what is allowed there.
pub struct Bounds {
    pub receive: bool,
    pub ptag: Option<Key>,
    pub max_transfer: u64,
    /// The level has RDMA reads.
    pub reads: bool,
}

impl Work {
    pub fn bytes(&self) -> u32 {
        // No longer than a message may be, which has fewer bits.
        self.segments.bytes() as u32
    }

    /// With those that are not there.
    pub fn named_bytes(&self) -> u32 {
        self.bytes().saturating_add(self.missing)
    }
}

/// Reads a descriptor.
///
/// # Errors
///
/// It is not where descriptors may be: nothing is known of it, so its status cannot say so.
pub fn read(
    regions: &mut Regions,
    descriptor: u64,
    handle: MemHandle,
    bounds: &Bounds,
) -> Result<Work, Return> {
    if descriptor == 0 || !descriptor.is_multiple_of(DESCRIPTOR_ALIGNMENT as u64) {
        return Err(wrong("a descriptor is not at a multiple of 64 bytes"));
    }
    let mut used = Used::default();
    if !regions.hold((handle, descriptor, CONTROL_BYTES as u64), bounds.ptag, &mut used) {
        return Err(wrong("a descriptor is not in registered memory of its VI's protection tag"));
    }
    let control = std::ptr::with_exposed_provenance::<ControlSegment>(descriptor as usize);
    // SAFETY: aligned, and in memory that is registered, which the consumer keeps as long as it is.
    let control = unsafe { control.read() };
    let mut work = Work {
        operation: control.control & OP_MASK,
        immediate: (control.control & CONTROL_IMMEDIATE != 0).then_some(control.immediate),
        fence: control.control & CONTROL_QFENCE != 0,
        segments: SegmentList::empty(),
        missing: 0,
        remote: DescriptorSegment { address: 0, handle: 0, length: 0 },
        used,
        error: 0,
    };
    work.error = match read_segments(&mut work, regions, (descriptor, handle), &control, bounds) {
        Ok(()) => 0,
        Err(error) => error,
    };
    Ok(work)
}

/// Reads the segments into `work`.
///
/// # Errors
///
/// The status that tells what is wrong.
fn read_segments(
    work: &mut Work,
    regions: &mut Regions,
    (descriptor, handle): (u64, MemHandle),
    control: &ControlSegment,
    bounds: &Bounds,
) -> Result<(), u32> {
    let rdma = matches!(work.operation, OP_RDMA_WRITE | OP_RDMA_READ);
    let allowed = match work.operation {
        OP_SENDRECV => true,
        OP_RDMA_WRITE => !bounds.receive,
        OP_RDMA_READ => !bounds.receive && bounds.reads && work.immediate.is_none(),
        _ => false,
    };
    let count = usize::from(control.segments);
    let first_data = usize::from(rdma);
    let counted = (first_data..=SEGMENTS_MAX + first_data).contains(&count);
    if !allowed || !counted || control.control & CONTROL_RESERVED != 0 {
        return Err(FORMAT_ERROR);
    }
    let first = descriptor + CONTROL_BYTES as u64;
    if !regions.covers((handle, first, (count * SEGMENT_BYTES) as u64), bounds.ptag) {
        return Err(PROTECTION_ERROR);
    }
    let first = std::ptr::with_exposed_provenance::<DescriptorSegment>(first as usize);
    // SAFETY: so many are in registered memory, behind an aligned control segment; a thread that writes to them
    // meanwhile breaks the rule that descriptors are the library's once they are posted.
    let all = unsafe { std::slice::from_raw_parts(first, count) };
    if rdma {
        work.remote = all[0];
    }
    let mut data = &all[first_data..];
    let mut short = None;
    for (place, one) in data.iter().enumerate().filter(|(_, one)| one.length != 0) {
        let piece = (one.handle, one.address, u64::from(one.length));
        if regions.hold(piece, bounds.ptag, &mut work.used) {
            continue;
        }
        // Of a receive, what is placed there counts, not what might be.
        let part = if bounds.receive {
            regions.hold_part(piece, bounds.ptag, &mut work.used)
        } else {
            None
        };
        let bytes = part.ok_or(PROTECTION_ERROR)? as u32;
        short = Some((place, DescriptorSegment { length: bytes, ..*one }));
        break;
    }
    let cut;
    if let Some((place, last)) = short {
        let named = data.iter().map(|one| u64::from(one.length)).sum::<u64>();
        cut = [&data[..place], &[last]].concat();
        data = &cut;
        let there = data.iter().map(|one| u64::from(one.length)).sum::<u64>();
        work.missing = u32::try_from(named - there).map_err(|_| LENGTH_ERROR)?;
    }
    let segment =
        |one: &DescriptorSegment| Segment { address: one.address, bytes: u64::from(one.length) };
    work.segments = match data {
        [] => SegmentList::empty(),
        [one] => SegmentList::one(segment(one)),
        several => SegmentList::new(&several.iter().map(segment).collect::<Vec<_>>())
            .map_err(|_| FORMAT_ERROR)?,
    };
    // A receive may have more room than any message needs.
    let most = if bounds.receive { u64::from(u32::MAX) } else { bounds.max_transfer };
    if work.segments.bytes() > most { Err(LENGTH_ERROR) } else { Ok(()) }
}

/// How a descriptor has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// Of its status: the operation, the error, whether there is immediate data.
    pub status: u32,
    pub length: u32,
    pub immediate: Option<u32>,
}

impl Outcome {
    /// It ended so, and nothing more is known.
    pub fn error(operation: u32, error: u32) -> Self {
        Self { status: operation | error, length: 0, immediate: None }
    }

    pub fn is_error(&self) -> bool {
        self.status & 0x1fe != 0
    }
}

/// Writes the end into the descriptor, the status last.
pub fn finish(descriptor: u64, outcome: &Outcome) {
    let control = std::ptr::with_exposed_provenance_mut::<ControlSegment>(descriptor as usize);
    let immediate = if outcome.immediate.is_some() { STATUS_IMMEDIATE } else { 0 };
    // SAFETY: the control segment was found in registered memory when the descriptor was posted. That memory is
    // deregistered only once its descriptors are done, and until then the consumer keeps it and does not write here.
    unsafe {
        (&raw mut (*control).length).write(outcome.length);
        if let Some(immediate) = outcome.immediate {
            (&raw mut (*control).immediate).write(immediate);
        }
        // Another thread may wait for it here, and then reads what was received.
        let status = AtomicU32::from_ptr(&raw mut (*control).status);
        status.store(outcome.status | immediate | STATUS_DONE, Ordering::Release);
    }
}
