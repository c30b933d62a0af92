//! What is pinned lives, and what is not is dropped.

use super::*;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::channel;

/// Counts those of its kind that live, where tests see it when they are gone.
struct Thing(&'static AtomicU32);

impl Thing {
    fn new(living: &'static AtomicU32) -> Arc<Self> {
        living.fetch_add(1, Ordering::SeqCst);
        Arc::new(Self(living))
    }
}

impl Drop for Thing {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn counter() -> &'static AtomicU32 {
    Box::leak(Box::default())
}

fn living(counter: &AtomicU32) -> u32 {
    counter.load(Ordering::SeqCst)
}

#[test]
fn the_last_who_leaves_drops_it() {
    let (things, place) = (counter(), Place::new());
    assert!(place.get().is_none());
    place.put(Thing::new(things)).ok().unwrap();
    assert!(place.put(Thing::new(things)).is_err(), "one at a time");
    // More than a thread has pins for.
    let mut pinned: Vec<_> = (0..2 * NESTED).map(|_| place.get().unwrap()).collect();
    let counted = pinned.iter().filter(|one| matches!(one.hold, Hold::Count)).count();
    assert_eq!(counted, NESTED, "the others are counted");
    let away = place.take().unwrap();
    assert!(place.get().is_none() && place.take().is_none() && place.share().is_none());
    drop(away);
    while let Some(one) = pinned.pop() {
        assert_eq!(living(one.0), 1, "{} use it still", pinned.len() + 1);
    }
    assert_eq!(living(things), 0, "nobody does");
    // Unused, it is gone at once; so is what is there when a place ends.
    place.put(Thing::new(things)).ok().unwrap();
    drop(place.take());
    assert_eq!(living(things), 0);
    place.put(Thing::new(things)).ok().unwrap();
    let last = place.get().unwrap();
    drop(place);
    assert_eq!(living(last.0), 1);
    drop(last);
    assert_eq!(living(things), 0);
}

/// A thread that is asleep in a call keeps what it uses, and nobody waits for it.
#[test]
fn another_thread_keeps_what_it_has_pinned() {
    let (things, place) = (counter(), Place::new());
    place.put(Thing::new(things)).ok().unwrap();
    let ((pinned, is_pinned), (leave, may_leave)) = (channel(), channel::<()>());
    std::thread::scope(|scope| {
        // In here, so that the other thread leaves should this one fail.
        let leave = leave;
        let place = &place;
        let other = scope.spawn(move || {
            let own = place.get().unwrap();
            pinned.send(()).unwrap();
            may_leave.recv().unwrap();
            assert_eq!(living(own.0), 1);
        });
        is_pinned.recv().unwrap();
        drop(place.take());
        assert_eq!(living(things), 1);
        // Its place is free meanwhile, and what is there next is another matter.
        let others = counter();
        place.put(Thing::new(others)).ok().unwrap();
        drop(place.take());
        assert_eq!((living(others), living(things)), (0, 1));
        leave.send(()).unwrap();
        other.join().unwrap();
        assert_eq!(living(things), 0, "it was dropped by the thread that left last");
    });
}

/// Threads look for objects that others put there and take away all the time: what they find lives while they have it.
#[test]
fn nobody_finds_what_is_gone() {
    const ROUNDS: usize = 300;
    let places: [Place<Thing>; 2] = [Place::new(), Place::new()];
    let busy = AtomicU32::new(places.len() as u32);
    let found = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (places, busy, found) = (&places, &busy, &found);
            scope.spawn(move || {
                while living(busy) != 0 {
                    let Some(one) = places[thread % 2].get() else { continue };
                    // With the other one beside it, as a handler has.
                    let other = places[1 - thread % 2].get();
                    assert_eq!(living(one.0), 1);
                    std::hint::spin_loop();
                    assert_eq!(living(one.0), 1, "it was dropped under its user");
                    drop(other);
                    found.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for place in &places {
            let busy = &busy;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    // A counter each: memory that is used again tells nothing of who was there before.
                    place.put(Thing::new(counter())).ok().unwrap();
                    (0..round * 10).for_each(|_| std::hint::spin_loop());
                    drop(place.take());
                }
                busy.fetch_sub(1, Ordering::SeqCst);
            });
        }
    });
    assert!(living(&found) > 0, "nobody found anything, so nothing was shown");
    assert!(places.iter().all(|place| place.get().is_none()));
}

/// Threads come and go; what they pinned by is used again.
#[test]
fn threads_that_end_leave_their_pins_to_others() {
    let place = Place::new();
    place.put(Thing::new(counter())).ok().unwrap();
    for _ in 0..200 {
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(place.get().is_some()));
        });
    }
    assert!(known().threads.len() < 100);
}
