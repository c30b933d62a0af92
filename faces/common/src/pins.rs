//! Places for objects that threads use while others may take them away, without a locked instruction for a use.
//!
//! The calls of a face find their object by a handle, some microseconds apart and most often the same one; a lock and a reference count for each
//! were 16 of the 26 locked instructions that a message of MX has beyond the host API's. Here a thread *pins* an object instead: it writes the object's address where only it
//! writes, and looks whether the object is still in its place. Whoever takes an object away looks, after that, whether any thread has it pinned
//! (hazard pointers; Michael, 2004).
//!
//! Why that is sound. `P` is the place, `W` what a thread has pinned, `A` whether it is asked to look after what was taken away:
//!
//! | a thread pins | another takes away | the thread leaves |
//! |---|---|---|
//! | 1. `W = P` | 1. `P = null` | 1. `W = null` |
//! | 2. *light* fence | 2. `A = true` | 2. *light* fence |
//! | 3. is it still `P`? else from 1 | 3. *heavy* fence | 3. if `A`, and it was taken away: sweep |
//! | | 4. `W`? keep it for a sweep; else drop it | |
//!
//! A heavy fence is one for all threads of the process (`membarrier(2)`), so a light one need only bind the compiler. Of a light and a heavy fence one is
//! first. If it is the one of a thread that pins, its `W` is seen in 4; if the heavy one is, the thread finds in 3 that the place is empty, or has
//! another object. If the light fence of a thread that leaves is first, its null is seen in 4; if the heavy one is, the thread sees `A`, and sweeps. So what is
//! taken away is dropped by the one who takes it, by the last who leaves, or by another who sweeps then, and nobody waits. Before 4 drops it all uses are over:
//! the null in `W` is released and acquired. An address that was used again in between is no harm: `W` protects what is in the place in 3, whichever
//! object that is. Sweeps have one lock. Where the kernel has no `membarrier`, light fences are full ones.

use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering, compiler_fence, fence};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

/// Objects that one thread has pinned at a time: a call, and a handler in it that calls again. What is more is counted.
const NESTED: usize = 4;

/// What one thread has pinned. Only that thread writes its pins.
struct Thread {
    pins: [AtomicPtr<()>; NESTED],
    asked: AtomicBool,
}

/// What was taken away, with the count that its place had.
type Removed = Arc<dyn Send + Sync>;

struct Known {
    /// Of all threads that there were: one that ends leaves its own to the next.
    threads: Vec<&'static Thread>,
    free: Vec<&'static Thread>,
    /// Still pinned when it was last looked at.
    removed: Vec<Removed>,
}

static KNOWN: Mutex<Known> =
    Mutex::new(Known { threads: Vec::new(), free: Vec::new(), removed: Vec::new() });

/// Light fences are full ones. From true to false at most once, so whoever reads an old value fences too much.
static FULL: AtomicBool = AtomicBool::new(true);

fn known() -> MutexGuard<'static, Known> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn membarrier(command: libc::c_int) -> bool {
    // SAFETY: takes no pointers.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
}

#[inline]
fn light() {
    if FULL.load(Ordering::Relaxed) {
        fence(Ordering::SeqCst);
    } else {
        compiler_fence(Ordering::SeqCst);
    }
}

/// False: nothing is known of other threads.
fn heavy() -> bool {
    fence(Ordering::SeqCst);
    FULL.load(Ordering::Relaxed) || membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
}

/// This thread's.
struct Own(&'static Thread);

thread_local! {
    static OWN: Own = Own::new();
}

impl Own {
    fn new() -> Self {
        let mut known = known();
        let thread = known.free.pop().unwrap_or_else(|| {
            let pins = [const { AtomicPtr::new(ptr::null_mut()) }; NESTED];
            let new: &'static Thread = Box::leak(Box::new(Thread { pins, asked: false.into() }));
            known.threads.push(new);
            new
        });
        Self(thread)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        // A pin that outlives this, in another destructor of the thread, still writes there. And a forked child, in which nobody else lives to
        // give the lock back, is not to wait for it: then the next thread gets one of its own.
        if self.0.pins.iter().all(|pin| pin.load(Ordering::Relaxed).is_null())
            && let Ok(mut known) = KNOWN.try_lock()
        {
            known.free.push(self.0);
        }
    }
}

/// An object that lives at least as long as this value.
pub struct Pinned<T> {
    /// Of [`Arc::into_raw`].
    object: NonNull<T>,
    hold: Hold,
    /// Only the thread that pins writes its pins.
    _here: PhantomData<*const T>,
}

enum Hold {
    Pin {
        /// For its end.
        _pin: Pin,
    },
    /// One count of the object is ours.
    Count,
}

/// A pin in use: null when this is dropped.
struct Pin {
    thread: &'static Thread,
    word: &'static AtomicPtr<()>,
}

impl Drop for Pin {
    #[inline]
    fn drop(&mut self) {
        let object = self.word.load(Ordering::Relaxed);
        self.word.store(ptr::null_mut(), Ordering::Release);
        light();
        if self.thread.asked.load(Ordering::Relaxed) {
            leave(object);
        }
    }
}

impl<T> Pinned<T> {
    /// The same object, for any thread and any time.
    pub fn share(&self) -> Arc<T> {
        // SAFETY: of `into_raw`; it lives, as its place's count is given up after this value has gone, or has one of this value's own.
        unsafe {
            Arc::increment_strong_count(self.object.as_ptr());
            Arc::from_raw(self.object.as_ptr())
        }
    }
}

impl<T> Deref for Pinned<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: it is pinned or counted, and whoever takes it away leaves it alone until it is not.
        unsafe { self.object.as_ref() }
    }
}

impl<T> Drop for Pinned<T> {
    #[inline]
    fn drop(&mut self) {
        if let Hold::Count = self.hold {
            // SAFETY: the count was taken for this value.
            drop(unsafe { Arc::from_raw(self.object.as_ptr()) });
        }
    }
}

/// An object was pinned here, and this thread is asked to look after it: everybody is while somebody sweeps, but only who had pinned what is taken
/// away has to sweep as well.
#[cold]
fn leave(object: *mut ()) {
    let removed = known().removed.iter().any(|one| address(one) == object);
    if removed {
        sweep();
    }
}

fn address(one: &Removed) -> *mut () {
    Arc::as_ptr(one).cast::<()>().cast_mut()
}

/// Drops what was taken away and nobody has pinned; asks those who have to do so when they leave.
#[cold]
fn sweep() {
    let unused: Vec<Removed> = {
        let mut known = known();
        let Known { threads, removed, .. } = &mut *known;
        threads.iter().for_each(|thread| thread.asked.store(true, Ordering::Relaxed));
        if !heavy() {
            // Forbidden since: what is taken away is kept, and the next that is tries again.
            threads.iter().for_each(|thread| thread.asked.store(false, Ordering::Relaxed));
            return;
        }
        let pins = |thread: &Thread| thread.pins.each_ref().map(|pin| pin.load(Ordering::Acquire));
        let seen: Vec<_> = threads.iter().map(|thread| (*thread, pins(thread))).collect();
        let is_in = |pins: &[*mut (); NESTED], one: &Removed| pins.contains(&address(one));
        let (used, unused) = std::mem::take(removed)
            .into_iter()
            .partition(|one| seen.iter().any(|(_, pins)| is_in(pins, one)));
        *removed = used;
        for (thread, pins) in &seen {
            // By what was seen, and not by what is there now: one that has left since was asked, and sweeps next.
            let asked = removed.iter().any(|one| is_in(pins, one));
            thread.asked.store(asked, Ordering::Relaxed);
        }
        unused
    };
    // Without the lock: what is dropped may have objects of its own.
    drop(unused);
}

/// Where an object is, or none.
pub struct Place<T: Send + Sync + 'static> {
    /// Of [`Arc::into_raw`]; the place has one count of it.
    object: AtomicPtr<T>,
}

impl<T: Send + Sync + 'static> Default for Place<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// An object that is in its place no more. The place's count is given up after this is dropped, as soon as nobody has the object pinned: that
/// may drop any object that was taken away, and run what that runs.
pub struct Away<T: Send + Sync + 'static>(Arc<T>);

impl<T: Send + Sync + 'static> Away<T> {
    /// The object.
    pub fn object(&self) -> Arc<T> {
        Arc::clone(&self.0)
    }
}

impl<T: Send + Sync + 'static> Drop for Away<T> {
    fn drop(&mut self) {
        known().removed.push(self.object());
        sweep();
    }
}

impl<T: Send + Sync + 'static> Place<T> {
    /// An empty one.
    pub const fn new() -> Self {
        Self { object: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Puts an object there. `Err`: there is one already.
    ///
    /// # Errors
    ///
    /// The object that was to be put there.
    pub fn put(&self, object: Arc<T>) -> Result<(), Arc<T>> {
        static REGISTERED: Once = Once::new();
        REGISTERED.call_once(|| {
            if membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
                FULL.store(false, Ordering::SeqCst);
            }
        });
        let new = Arc::into_raw(object).cast_mut();
        let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
        match self.object.compare_exchange(ptr::null_mut(), new, release, relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: of `into_raw` above, and put nowhere.
            Err(_) => Err(unsafe { Arc::from_raw(new) }),
        }
    }

    /// The object, for this thread, while the result lives.
    #[inline]
    pub fn get(&self) -> Option<Pinned<T>> {
        match OWN.try_with(|own| self.pin(own.0)) {
            Ok(Some(pinned)) => pinned,
            // Too many at a time, or at the thread's end.
            _ => self.counted(),
        }
    }

    /// `None`: the thread has no pin left. `Some(None)`: nothing is there.
    #[inline]
    fn pin(&self, thread: &'static Thread) -> Option<Option<Pinned<T>>> {
        let word = thread.pins.iter().find(|pin| pin.load(Ordering::Relaxed).is_null())?;
        let mut object = self.object.load(Ordering::Relaxed);
        loop {
            let Some(found) = NonNull::new(object) else { return Some(None) };
            let pin = Pin { thread, word };
            // Released, so that whoever sees this sees the end of what the thread had pinned before.
            word.store(object.cast(), Ordering::Release);
            light();
            object = self.object.load(Ordering::Acquire);
            if object == found.as_ptr() {
                return Some(Some(Pinned {
                    object: found,
                    hold: Hold::Pin { _pin: pin },
                    _here: PhantomData,
                }));
            }
        }
    }

    #[cold]
    fn counted(&self) -> Option<Pinned<T>> {
        let object = NonNull::new(Arc::into_raw(self.share()?).cast_mut())?;
        Some(Pinned { object, hold: Hold::Count, _here: PhantomData })
    }

    /// The object, for any thread.
    pub fn share(&self) -> Option<Arc<T>> {
        let _known = known();
        let object = NonNull::new(self.object.load(Ordering::Acquire))?;
        // SAFETY: of `into_raw`; the place's count is given up with the lock held, after the place was emptied.
        unsafe {
            Arc::increment_strong_count(object.as_ptr());
            Some(Arc::from_raw(object.as_ptr()))
        }
    }

    /// Empties the place. From now on nobody finds the object there; whoever has found it keeps it.
    pub fn take(&self) -> Option<Away<T>> {
        // With the lock held: `share` must not see an object that is not the place's any more.
        let _known = known();
        let object = NonNull::new(self.object.swap(ptr::null_mut(), Ordering::SeqCst))?;
        // SAFETY: of `into_raw`, and the place's count is ours now.
        Some(Away(unsafe { Arc::from_raw(object.as_ptr()) }))
    }
}

impl<T: Send + Sync + 'static> Drop for Place<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests;
