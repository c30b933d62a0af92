//! A ring of slots between two threads of one process: one fills them, the other empties them, nobody locks.
//!
//! Slots stay where they are and are used over and over, so what they own (the buffer of a frame) is allocated once and read in place.
//! Either end trusts the other: both are this program. Between processes, which do not, there is [`crate::Producer`].
//!
//! # Invariant
//!
//! `head` counts the slots that were filled since the beginning, `tail` those that were emptied, so `tail <= head <= tail + slots`. Only
//! the producer stores `head`, and touches the slots from `head` to `tail + slots` alone; only the consumer stores `tail`, and touches those
//! from `tail` to `head` alone. Each stores its count, releasing, after its last touch of what it hands over, and loads the other's count,
//! acquiring, before its first touch of what it was given. Neither end can be cloned, so there is one thread at either.

#[cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};
#[cfg(not(loom))]
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering, fence},
};

/// As loom's, which notes each access.
#[cfg(not(loom))]
struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    fn new(value: T) -> Self {
        Self(std::cell::UnsafeCell::new(value))
    }

    #[inline]
    fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    #[inline]
    fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// A word that one thread writes and the other looks at, two cache lines from the next, because processors fetch lines in pairs.
#[repr(align(128))]
struct Apart<W>(W);

struct Ring<T> {
    slots: Box<[UnsafeCell<T>]>,
    head: Apart<AtomicUsize>,
    tail: Apart<AtomicUsize>,
    /// The consumer sleeps, or is about to.
    asleep: Apart<AtomicBool>,
}

// SAFETY: a slot is touched by one thread at a time (module invariant), so it moves between threads but is never shared: `T: Send` will do.
unsafe impl<T: Send> Send for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Ring<T> {}

impl<T> Ring<T> {
    #[inline]
    fn slot(&self, count: usize) -> &UnsafeCell<T> {
        &self.slots[count & (self.slots.len() - 1)]
    }
}

/// The end that fills slots.
pub struct SlotProducer<T> {
    ring: Arc<Ring<T>>,
    /// Slots that were filled, those that were not published yet included.
    filled: usize,
    /// The other end's count as last seen.
    tail: usize,
}

/// The end that empties slots.
pub struct SlotConsumer<T> {
    ring: Arc<Ring<T>>,
    emptied: usize,
    /// The other end's count as last seen.
    head: usize,
}

/// A ring of at least so many slots: the next power of two.
#[must_use]
pub fn slot_ring<T: Default>(slots: usize) -> (SlotProducer<T>, SlotConsumer<T>) {
    let slots = (0..slots.max(1).next_power_of_two()).map(|_| UnsafeCell::new(T::default()));
    let ring = Arc::new(Ring {
        slots: slots.collect(),
        head: Apart(AtomicUsize::new(0)),
        tail: Apart(AtomicUsize::new(0)),
        asleep: Apart(AtomicBool::new(false)),
    });
    let producer = SlotProducer { ring: Arc::clone(&ring), filled: 0, tail: 0 };
    (producer, SlotConsumer { ring, emptied: 0, head: 0 })
}

impl<T> SlotProducer<T> {
    /// Slots that can be filled now.
    #[inline]
    pub fn free(&mut self) -> usize {
        self.tail = self.ring.tail.0.load(Ordering::Acquire);
        self.room()
    }

    #[inline]
    fn room(&self) -> usize {
        self.ring.slots.len() - self.filled.wrapping_sub(self.tail)
    }

    /// Fills the next slot, which holds what was left there a lap ago. `None`: all are full.
    #[inline]
    pub fn fill<R>(&mut self, fill: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.room() == 0 && self.free() == 0 {
            return None;
        }
        // SAFETY: the slot lies between `head` and `tail + slots`, so it is this end's alone (module invariant); the reference ends with
        // the closure.
        let result = self.ring.slot(self.filled).with_mut(|slot| fill(unsafe { &mut *slot }));
        self.filled = self.filled.wrapping_add(1);
        Some(result)
    }

    /// Hands over what was filled.
    #[inline]
    pub fn publish(&mut self) {
        self.ring.head.0.store(self.filled, Ordering::Release);
    }

    /// True if the other end went to sleep, and this one is to wake it. To be asked after [`publish`](Self::publish); if true, not said again
    /// before the other end has said again that it sleeps.
    #[inline]
    pub fn must_wake(&self) -> bool {
        // Pairs with the fence in `SlotConsumer::arm`: either that end sees what was published, or this one sees that it sleeps.
        fence(Ordering::SeqCst);
        let asleep = &self.ring.asleep.0;
        asleep.load(Ordering::Relaxed) && asleep.swap(false, Ordering::AcqRel)
    }
}

impl<T> SlotConsumer<T> {
    /// Filled slots that are there now.
    #[inline]
    pub fn ready(&mut self) -> usize {
        self.head = self.ring.head.0.load(Ordering::Acquire);
        self.seen()
    }

    #[inline]
    fn seen(&self) -> usize {
        self.head.wrapping_sub(self.emptied)
    }

    /// The slot at this place among those that [`ready`](Self::ready) has counted.
    #[inline]
    pub fn get(&self, place: usize) -> Option<&T> {
        if place >= self.seen() {
            return None;
        }
        let slot = self.ring.slot(self.emptied.wrapping_add(place));
        // SAFETY: the slot lies between `tail` and `head`, so it is this end's alone (module invariant). The reference borrows this end,
        // whose `release` needs it mutably.
        Some(slot.with(|slot| unsafe { &*slot }))
    }

    /// Takes what it wants out of the first slot, and releases that. `None`: there is none.
    pub fn take<R>(&mut self, take: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.seen() == 0 && self.ready() == 0 {
            return None;
        }
        // SAFETY: as in `get`; the reference ends with the closure.
        let result = self.ring.slot(self.emptied).with_mut(|slot| take(unsafe { &mut *slot }));
        self.release(1);
        Some(result)
    }

    /// Gives the first slots back, to be filled again: so many, of those that were counted.
    #[inline]
    pub fn release(&mut self, slots: usize) {
        self.emptied = self.emptied.wrapping_add(slots.min(self.seen()));
        self.ring.tail.0.store(self.emptied, Ordering::Release);
    }

    /// Says that this end is about to sleep. True: something is there, do not sleep.
    pub fn arm(&self) -> bool {
        self.ring.asleep.0.swap(true, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        self.ring.head.0.load(Ordering::Acquire) != self.emptied
    }

    /// Says that this end is awake.
    pub fn disarm(&self) {
        self.ring.asleep.0.swap(false, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn slots_are_filled_emptied_and_filled_again() {
        let (mut from, mut to) = slot_ring::<Vec<u8>>(3);
        assert_eq!((from.free(), to.ready()), (4, 0));
        for lap in 0..5u8 {
            for number in 0..4 {
                let fill = |slot: &mut Vec<u8>| {
                    assert_eq!(slot.is_empty(), lap == 0, "what was left there a lap ago");
                    *slot = vec![lap, number];
                };
                assert!(from.fill(fill).is_some());
            }
            assert!(from.fill(|_| ()).is_none(), "all are full");
            assert!(to.get(0).is_none() && to.ready() == 0, "nothing was published");
            from.publish();
            assert_eq!(to.ready(), 4);
            assert_eq!(to.get(3), Some(&vec![lap, 3]));
            assert!(to.get(4).is_none());
            assert_eq!(to.take(|slot| slot.clone()), Some(vec![lap, 0]));
            assert_eq!((from.free(), to.get(0)), (1, Some(&vec![lap, 1])));
            to.release(9);
            assert_eq!((from.free(), to.ready()), (4, 0));
        }
    }

    #[test]
    fn a_sleeper_is_woken_once() {
        let (mut from, to) = slot_ring::<u8>(2);
        assert!(!from.must_wake(), "it is awake");
        assert!(!to.arm(), "there is nothing");
        from.fill(|slot| *slot = 1);
        from.publish();
        assert!(from.must_wake() && !from.must_wake());
        assert!(to.arm(), "something is there");
        to.disarm();
        assert!(!from.must_wake());
    }

    #[test]
    fn between_threads_all_comes_in_order() {
        const NUMBERS: u64 = if cfg!(miri) { 200 } else { 10_000 };
        let (mut from, mut to) = slot_ring::<u64>(8);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for number in 0..NUMBERS {
                    while from.fill(|slot| *slot = number).is_none() {
                        std::thread::yield_now();
                    }
                    from.publish();
                }
            });
            let mut next = 0;
            while next < NUMBERS {
                let ready = to.ready();
                for place in 0..ready {
                    assert_eq!(to.get(place), Some(&next));
                    next += 1;
                }
                to.release(ready);
                if ready == 0 {
                    std::thread::yield_now();
                }
            }
        });
    }
}
