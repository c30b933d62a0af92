//! Buffers that a request owns while the firmware uses their memory.
//!
//! # Invariant
//!
//! From the post of an operation to its completion the firmware reads (send) or writes (receive) the memory that the
//! buffer named. Meanwhile the buffer is kept in a [`Held`], through which nothing else touches that memory: not even
//! moving it asserts anything about it, because [`MaybeUninit`] is opaque. It comes out again only by
//! [`Held::release`], whose caller knows that the firmware is done. A `Held` that is forgotten leaks the buffer and its
//! memory with it: sound, and the reason why buffers are `'static`.

use std::mem::MaybeUninit;
use std::sync::Arc;

use emp_firmware::limits::SEGMENTS_MAX;
use emp_firmware::{Segment, SegmentList};

/// Memory that can be sent: it is read until the send completes.
///
/// # Safety
///
/// Each run of memory that [`visit`](Self::visit) shows stays at its address and readable until the value is dropped,
/// also when the value itself is moved, and nobody writes to it as long as the value is neither used nor dropped.
pub unsafe trait SendBuffer: Send + 'static {
    /// Calls `run` with pointer and length in bytes of each run of memory, in message order.
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize));
}

/// Memory that a message can be received into: it is written until the receive completes.
///
/// # Safety
///
/// Each run of memory that [`visit_mut`](Self::visit_mut) shows stays at its address, initialised and writable until
/// the value is dropped, also when the value itself is moved, and nobody else reads or writes it as long as the value
/// is neither used nor dropped. The runs do not overlap. Any byte values are allowed in them.
pub unsafe trait ReceiveBuffer: Send + 'static {
    /// Calls `run` with pointer and length in bytes of each run of memory, in message order.
    fn visit_mut(&mut self, run: &mut dyn FnMut(*mut u8, usize));
}

/// Several buffers as one message, in order: a gather list for sends, a scatter list for receives.
///
/// All of them together may have at most [`SEGMENTS_MAX`] runs of memory.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Scatter<B>(pub Vec<B>);

// SAFETY: no memory at all.
unsafe impl SendBuffer for () {
    fn visit(&self, _run: &mut dyn FnMut(*const u8, usize)) {}
}

// SAFETY: no memory at all.
unsafe impl ReceiveBuffer for () {
    fn visit_mut(&mut self, _run: &mut dyn FnMut(*mut u8, usize)) {}
}

// SAFETY: a vector's elements are on the heap, stay there when it is moved, and are its own.
unsafe impl SendBuffer for Vec<u8> {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.as_ptr(), self.len());
    }
}

// SAFETY: as above; only initialised elements are shown, not spare capacity.
unsafe impl ReceiveBuffer for Vec<u8> {
    #[inline(always)]
    fn visit_mut(&mut self, run: &mut dyn FnMut(*mut u8, usize)) {
        run(self.as_mut_ptr(), self.len());
    }
}

// SAFETY: a box's contents are on the heap, stay there when it is moved, and are its own.
unsafe impl SendBuffer for Box<[u8]> {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.as_ptr(), self.len());
    }
}

// SAFETY: as above.
unsafe impl ReceiveBuffer for Box<[u8]> {
    #[inline(always)]
    fn visit_mut(&mut self, run: &mut dyn FnMut(*mut u8, usize)) {
        run(self.as_mut_ptr(), self.len());
    }
}

// SAFETY: a box's contents are on the heap, stay there when it is moved, and are its own.
unsafe impl<const N: usize> SendBuffer for Box<[u8; N]> {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.as_ptr(), N);
    }
}

// SAFETY: as above.
unsafe impl<const N: usize> ReceiveBuffer for Box<[u8; N]> {
    #[inline(always)]
    fn visit_mut(&mut self, run: &mut dyn FnMut(*mut u8, usize)) {
        run(self.as_mut_ptr(), N);
    }
}

// SAFETY: an Arc's contents are on the heap and stay there while any handle lives; nobody can write to them, since
// `Arc::get_mut` and its kin need the only handle and the request has one.
unsafe impl SendBuffer for Arc<[u8]> {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.as_ptr(), self.len());
    }
}

// SAFETY: as above; a vector behind an Arc does not change either.
unsafe impl SendBuffer for Arc<Vec<u8>> {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.as_ptr(), self.len());
    }
}

// SAFETY: static memory stays where it is, and a shared reference keeps it from being written.
unsafe impl SendBuffer for &'static [u8] {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.as_ptr(), self.len());
    }
}

// SAFETY: as above.
unsafe impl<const N: usize> SendBuffer for &'static [u8; N] {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.as_ptr(), N);
    }
}

// SAFETY: as above.
unsafe impl SendBuffer for &'static str {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.as_ptr(), self.len());
    }
}

// SAFETY: static memory stays where it is; an exclusive reference keeps everyone else away from it.
unsafe impl SendBuffer for &'static mut [u8] {
    #[inline(always)]
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        run(self.as_ptr(), self.len());
    }
}

// SAFETY: as above.
unsafe impl ReceiveBuffer for &'static mut [u8] {
    #[inline(always)]
    fn visit_mut(&mut self, run: &mut dyn FnMut(*mut u8, usize)) {
        run(self.as_mut_ptr(), self.len());
    }
}

// SAFETY: the parts are on the heap, so moving the list moves none of them; each keeps the promise itself.
unsafe impl<B: SendBuffer> SendBuffer for Scatter<B> {
    fn visit(&self, run: &mut dyn FnMut(*const u8, usize)) {
        for part in &self.0 {
            part.visit(run);
        }
    }
}

// SAFETY: as above; different parts own different memory.
unsafe impl<B: ReceiveBuffer> ReceiveBuffer for Scatter<B> {
    fn visit_mut(&mut self, run: &mut dyn FnMut(*mut u8, usize)) {
        for part in &mut self.0 {
            part.visit_mut(run);
        }
    }
}

/// A buffer whose memory the firmware may be using. See the module's text.
pub(crate) struct Held<B>(MaybeUninit<B>);

impl<B> Held<B> {
    /// Takes the buffer away from everyone.
    #[inline]
    pub(crate) fn new(buffer: B) -> Self {
        Self(MaybeUninit::new(buffer))
    }

    /// Gives the buffer back.
    ///
    /// # Safety
    ///
    /// The firmware does not use the buffer's memory (it was not posted, or the completion was handed out, or the
    /// firmware is gone).
    #[inline]
    pub(crate) unsafe fn release(self) -> B {
        // SAFETY: `new` is the only way to make a Held, and initialises it; `self` is consumed, so it comes out once.
        unsafe { self.0.assume_init() }
    }
}

impl<B: SendBuffer> Held<B> {
    /// The memory to send. `None` if there are too many runs.
    #[inline(always)]
    pub(crate) fn segments(&self) -> Option<SegmentList> {
        // SAFETY: initialised by `new`. Called before the post, when nothing uses the memory.
        let buffer = unsafe { self.0.assume_init_ref() };
        let mut list = Collector::default();
        buffer.visit(&mut |start, bytes| list.add(start.expose_provenance(), bytes));
        list.finish()
    }
}

impl<B: ReceiveBuffer> Held<B> {
    /// The memory to receive into. `None` if there are too many runs.
    #[inline(always)]
    pub(crate) fn segments_mut(&mut self) -> Option<SegmentList> {
        // SAFETY: initialised by `new`. Called before the post, when nothing uses the memory.
        let buffer = unsafe { self.0.assume_init_mut() };
        let mut list = Collector::default();
        buffer.visit_mut(&mut |start, bytes| list.add(start.expose_provenance(), bytes));
        list.finish()
    }
}

/// Collects runs of memory, without an allocation for the usual one or two.
#[derive(Default)]
struct Collector {
    /// Address and length apart: a copy of the pair in one piece would wait for the two stores before it.
    addresses: [u64; 2],
    lengths: [u64; 2],
    many: Vec<Segment>,
    count: usize,
}

impl Collector {
    #[inline(always)]
    fn add(&mut self, address: usize, bytes: usize) {
        let segment = Segment { address: address as u64, bytes: bytes as u64 };
        self.count += 1;
        match self.count {
            place @ (1 | 2) => {
                self.addresses[place - 1] = segment.address;
                self.lengths[place - 1] = segment.bytes;
            }
            3 => self.many.extend([self.few(0), self.few(1), segment]),
            // Nothing past the limit is kept: the list is refused by its count.
            4..=SEGMENTS_MAX => self.many.push(segment),
            _ => {}
        }
    }

    #[inline]
    fn few(&self, place: usize) -> Segment {
        Segment { address: self.addresses[place], bytes: self.lengths[place] }
    }

    #[inline(always)]
    fn finish(self) -> Option<SegmentList> {
        match self.count {
            0 => Some(SegmentList::empty()),
            1 => Some(SegmentList::one(self.few(0))),
            2 => SegmentList::new(&[self.few(0), self.few(1)]).ok(),
            3..=SEGMENTS_MAX => SegmentList::new(&self.many).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes<B: SendBuffer>(buffer: B) -> Option<Vec<u64>> {
        let held = Held::new(buffer);
        let sizes = held.segments().map(|list| list.as_slice().iter().map(|s| s.bytes).collect());
        // SAFETY: never posted.
        drop(unsafe { held.release() });
        sizes
    }

    #[test]
    fn lists_keep_order_and_length() {
        assert_eq!(sizes(()), Some(vec![]));
        assert_eq!(sizes(vec![1u8, 2, 3]), Some(vec![3]));
        assert_eq!(sizes("four"), Some(vec![4]));
        for count in [0usize, 1, 2, 3, 4, 17, SEGMENTS_MAX] {
            let parts: Vec<_> = (0..count).map(|i| vec![0u8; i]).collect();
            let want = (0..count as u64).collect::<Vec<_>>();
            assert_eq!(sizes(Scatter(parts)), Some(want));
        }
    }

    #[test]
    fn too_many_runs_are_refused() {
        assert_eq!(sizes(Scatter(vec![vec![0u8; 1]; SEGMENTS_MAX + 1])), None);
        assert_eq!(sizes(Scatter(vec![vec![0u8; 1]; 3 * SEGMENTS_MAX])), None);
    }

    #[test]
    fn a_moved_buffer_keeps_its_address() {
        let mut held = Held::new(vec![7u8; 100].into_boxed_slice());
        let list = held.segments_mut().unwrap();
        let boxed = Box::new(held);
        // SAFETY: never posted.
        let back = unsafe { (*boxed).release() };
        assert_eq!(list.as_slice()[0].address, back.as_ptr().addr() as u64);
    }
}
