//! Handles: objects of a face as C holds them. What C passes is a number, never an address that is followed: a wrong
//! handle, one of another kind, or one whose object was closed is an error of the call and no more.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::pins::{Pinned, Place};
use crate::slots::Slots;

/// Bits of a handle for the place of its object: 2^20 objects of a kind.
const PLACE_BITS: u32 = 20;

/// Bits for the generation, of which 22 count: so many things must be made before an old handle is taken for a new one.
const GENERATION_BITS: u32 = 32;

/// Bits of it that may stand for the owner of a table.
const OWNER_BITS: u32 = 10;

/// Which objects a handle is of; in its top bits, so that it is no valid address of a process (those end at 2^57) and never
/// zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kind(u8);

impl Kind {
    /// Kinds are numbered from 1 to 255 within a face.
    ///
    /// # Panics
    ///
    /// At compile time, for 0.
    pub const fn new(number: u8) -> Self {
        assert!(number != 0, "a handle of kind 0 could be null");
        Self(number)
    }
}

/// A handle taken apart.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    /// Where the object is.
    pub place: u32,
    /// Which of those that were there.
    pub generation: u32,
}

impl Key {
    /// As C holds it.
    #[inline]
    pub const fn handle(self, kind: Kind) -> u64 {
        let place = self.place as u64 & ((1 << PLACE_BITS) - 1);
        // The kind has what the others leave: 12 bits, the first of which is set.
        (1 << 63)
            | (kind.0 as u64) << (PLACE_BITS + GENERATION_BITS)
            | (self.generation as u64) << PLACE_BITS
            | place
    }

    /// The owner of the table that it is of ([`Table::belongs_to`]).
    pub const fn owner(self) -> u32 {
        self.generation >> (GENERATION_BITS - OWNER_BITS)
    }

    /// What C passes, if it can be a handle of this kind.
    #[inline]
    pub const fn of(handle: u64, kind: Kind) -> Option<Self> {
        let top = handle >> (PLACE_BITS + GENERATION_BITS);
        if top != 0x800 | kind.0 as u64 {
            return None;
        }
        let place = (handle & ((1 << PLACE_BITS) - 1)) as u32;
        Some(Self { place, generation: (handle >> PLACE_BITS) as u32 })
    }
}

/// Things by key, for one thread at a time.
pub struct Table<T> {
    slots: Slots<(u32, T)>,
    /// Of the next thing. Over all places, so that a key is used again only after all of them were.
    generation: u32,
    /// Bits of generations that stay as they are.
    fixed: u32,
    max: usize,
}

impl<T> Table<T> {
    /// An empty one for at most `max` things; more than 2^20 cannot be named.
    pub fn new(max: usize) -> Self {
        Self { slots: Slots::default(), generation: 0, fixed: 0, max: max.min(1 << PLACE_BITS) }
    }

    /// Has the keys of all things from now on say whose they are: `owner` stands in the upper bits of their generations, so
    /// that no other owner's key is taken for one of these ([`Key::owner`]).
    ///
    /// # Panics
    ///
    /// If the number of the owner has more bits than there are for it.
    pub fn belongs_to(&mut self, owner: u32) {
        assert!(owner >> OWNER_BITS == 0, "owner {owner} of a table");
        self.fixed = owner << (GENERATION_BITS - OWNER_BITS);
    }

    /// Puts a thing in. `Err`: the table is full, and here it is.
    #[inline]
    pub fn insert(&mut self, thing: T) -> Result<Key, T> {
        if self.slots.used() >= self.max {
            return Err(thing);
        }
        self.generation = self.generation.wrapping_add(1);
        let counted = self.generation & ((1 << (GENERATION_BITS - OWNER_BITS)) - 1);
        let generation = self.fixed | counted;
        let place = self.slots.insert((generation, thing)) as u32;
        Ok(Key { place, generation })
    }

    /// A thing.
    #[inline]
    pub fn get(&self, key: Key) -> Option<&T> {
        let (generation, thing) = self.slots.get(key.place as usize)?;
        (*generation == key.generation).then_some(thing)
    }

    /// A thing, to be changed.
    #[inline]
    pub fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let (generation, thing) = self.slots.get_mut(key.place as usize)?;
        (*generation == key.generation).then_some(thing)
    }

    /// Takes a thing out.
    #[inline]
    pub fn remove(&mut self, key: Key) -> Option<T> {
        self.get(key)?;
        self.slots.remove(key.place as usize).map(|(_, thing)| thing)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.slots.used()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All things with their keys.
    pub fn all(&self) -> impl Iterator<Item = (Key, &T)> {
        self.slots.all().map(|(place, (generation, thing))| {
            (Key { place: place as u32, generation: *generation }, thing)
        })
    }
}

/// Objects of one kind by handle, for all threads: a `static` of the face.
pub struct Registry<T: Send + Sync + 'static> {
    kind: Kind,
    max: usize,
    /// Which places are taken, and by which generation.
    table: Mutex<Option<Table<()>>>,
    entries: OnceLock<Box<[Entry<T>]>>,
}

/// A place of a registry.
struct Entry<T: Send + Sync + 'static> {
    /// Of what is there or was there last; written before the object is put there.
    generation: AtomicU32,
    place: Place<T>,
}

impl<T: Send + Sync + 'static> Registry<T> {
    /// For at most `max` objects of this kind, for each of which there are 16 bytes from the first on.
    pub const fn new(kind: Kind, max: usize) -> Self {
        Self { kind, max, table: Mutex::new(None), entries: OnceLock::new() }
    }

    fn with<R>(&self, act: impl FnOnce(&mut Table<()>) -> R) -> R {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        act(table.get_or_insert_with(|| Table::new(self.max)))
    }

    #[inline]
    fn entry(&self, place: u32) -> Option<&Entry<T>> {
        self.entries.get()?.get(place as usize)
    }

    /// Adds an object; `None` if there are too many.
    pub fn insert(&self, object: Arc<T>) -> Option<u64> {
        let empty = || Entry { generation: AtomicU32::new(0), place: Place::new() };
        let entries = self.entries.get_or_init(|| (0..self.max).map(|_| empty()).collect());
        self.with(|table| {
            let key = table.insert(()).ok()?;
            let entry = entries.get(key.place as usize)?;
            entry.generation.store(key.generation, Ordering::Release);
            entry.place.put(object).ok()?;
            Some(key.handle(self.kind))
        })
    }

    /// The object of a handle, if there is such a one.
    #[inline]
    pub fn get(&self, handle: u64) -> Option<Pinned<T>> {
        let key = Key::of(handle, self.kind)?;
        let entry = self.entry(key.place)?;
        let is_it = || entry.generation.load(Ordering::Acquire) == key.generation;
        // Before: what is there has this generation or a later one. After: not a later one.
        let object = if is_it() { entry.place.get()? } else { return None };
        is_it().then_some(object)
    }

    /// The object at a place, whichever that is now.
    #[inline]
    pub fn at(&self, place: u32) -> Option<Pinned<T>> {
        self.entry(place)?.place.get()
    }

    /// Removes an object: its handle is of no use from now on, whoever still uses it keeps it alive.
    pub fn remove(&self, handle: u64) -> Option<Arc<T>> {
        let key = Key::of(handle, self.kind)?;
        let entry = self.entry(key.place)?;
        let away = self.with(|table| {
            table.remove(key)?;
            entry.place.take()
        });
        away.map(|away| away.object())
    }

    /// All objects, with their handles.
    pub fn all(&self) -> Vec<(u64, Arc<T>)> {
        let kind = self.kind;
        self.with(|table| {
            let objects = table.all().filter_map(|(key, ())| {
                Some((key.handle(kind), self.entry(key.place)?.place.share()?))
            });
            objects.collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Kind = Kind::new(1);
    const OTHER: Kind = Kind::new(255);

    #[test]
    fn wrong_handles_are_nothing() {
        let objects = Registry::new(ONE, 2);
        let first = objects.insert(Arc::new("first")).unwrap();
        let second = objects.insert(Arc::new("second")).unwrap();
        assert_eq!(objects.insert(Arc::new("third")), None);
        assert_eq!(objects.get(first).as_deref(), Some(&"first"));
        assert_eq!(objects.remove(first).as_deref(), Some(&"first"));
        assert!(objects.get(first).is_none() && objects.remove(first).is_none());
        let third = objects.insert(Arc::new("third")).unwrap();
        assert_ne!(third, first);
        assert!(objects.get(first).is_none());
        assert_eq!(objects.all().len(), 2);
        assert_eq!(objects.at(1).as_deref(), Some(&"second"));
        assert!(objects.at(7).is_none());
        // Null, small numbers, addresses, other kinds, flipped bits.
        for wrong in [0, 1, 0x7fff_1234_5678, u64::MAX, 1 << 63, first] {
            assert!(objects.get(wrong).is_none(), "{wrong:x}");
        }
        for bit in 0..64 {
            let found = objects.get(second ^ (1 << bit));
            assert!(found.is_none(), "bit {bit}");
        }
    }

    #[test]
    fn what_belongs_to_another_is_not_found() {
        let (mut ann, mut bob) = (Table::new(9), Table::new(9));
        ann.belongs_to(3);
        bob.belongs_to(1023);
        let (hers, his) = (ann.insert("hers").unwrap(), bob.insert("his").unwrap());
        assert_eq!((hers.owner(), his.owner()), (3, 1023));
        assert_eq!((ann.get(hers), ann.get(his)), (Some(&"hers"), None));
        assert_eq!((bob.get(hers), bob.get(his)), (None, Some(&"his")));
    }

    #[test]
    fn keys_survive_the_way_and_kinds_are_told_apart() {
        for place in [0, 1, (1 << PLACE_BITS) - 1] {
            for generation in [0, 7, u32::MAX] {
                let key = Key { place, generation };
                assert_eq!(Key::of(key.handle(ONE), ONE), Some(key));
                assert_eq!(Key::of(key.handle(OTHER), OTHER), Some(key));
                assert_eq!(Key::of(key.handle(ONE), OTHER), None);
            }
        }
    }
}
