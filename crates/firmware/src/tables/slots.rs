//! A slab whose keys carry a generation, so that a name kept too long names nothing instead of something else.

use alloc::vec::Vec;

/// No entry.
const NONE: u32 = u32::MAX;

#[cfg(test)]
std::thread_local! {
    /// Entries that were looked at, of all tables: what tests measure walks by.
    pub(crate) static LOOKS: core::cell::Cell<u64> = const { core::cell::Cell::new(0) };
}

/// Notes that an entry was looked at.
#[inline(always)]
pub(crate) fn note_look() {
    #[cfg(test)]
    LOOKS.set(LOOKS.get() + 1);
}

/// Items addressed by index and generation.
pub(crate) struct Slots<T> {
    entries: Vec<Entry<T>>,
    /// Free entries, each naming the next: first freed, first used again, so that a name that is still about in the network
    /// stays unused for longest.
    first_free: u32,
    last_free: u32,
    used: usize,
    limit: usize,
    /// Generation of entries that are new: those that were given back have had all before it.
    fresh: u32,
}

/// Entries that a table keeps when none is used: beyond that it has grown for a burst, and gives its memory back.
const KEPT_MAX: usize = 4_096;

struct Entry<T> {
    generation: u32,
    /// Of a free entry: the one that is used after it.
    next_free: u32,
    item: Option<T>,
}

impl<T> Entry<T> {
    /// Its names name nothing any more.
    #[inline(always)]
    fn retire(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.next_free = NONE;
    }
}

impl<T> Slots<T> {
    /// Never more than `limit` items.
    pub(crate) const fn new(limit: usize) -> Self {
        let entries = Vec::new();
        Self { entries, first_free: NONE, last_free: NONE, used: 0, limit, fresh: 1 }
    }

    /// As many items as there may be.
    pub(crate) const fn limit(&self) -> usize {
        self.limit
    }

    /// Names what was removed last: a table that is full, and of which this stays the same, has made no room meanwhile.
    pub(crate) fn last_removed(&self) -> (u32, u32) {
        (self.last_free, self.generation(self.last_free))
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.limit
    }

    /// Adds an item unless the limit is reached; returns index and generation.
    #[inline]
    pub(crate) fn insert(&mut self, item: T) -> Option<(u32, u32)> {
        self.insert_with(|| item)
    }

    /// The same; `item` makes it where it is to lie.
    #[inline(always)]
    pub(crate) fn insert_with(&mut self, item: impl FnOnce() -> T) -> Option<(u32, u32)> {
        let (place, index, generation) = self.take_place()?;
        place.get_or_insert_with(item);
        Some((index, generation))
    }

    /// A place, with its index and generation, which the caller fills.
    #[inline(always)]
    pub(crate) fn take_place(&mut self) -> Option<(&mut Option<T>, u32, u32)> {
        if self.is_full() {
            return None;
        }
        if self.first_free == NONE {
            self.add_free();
        }
        let index = self.first_free;
        let entry = &mut self.entries[index as usize];
        self.first_free = entry.next_free;
        self.used += 1;
        Some((&mut entry.item, index, entry.generation))
    }

    /// Adds an entry when none is free.
    #[cold]
    #[inline(never)]
    fn add_free(&mut self) {
        let index = self.entries.len() as u32;
        self.entries.push(Entry { generation: self.fresh, next_free: NONE, item: None });
        (self.first_free, self.last_free) = (index, index);
    }

    /// Index and generation of what is added next, if there is room.
    #[inline]
    pub(crate) fn next_name(&self) -> Option<(u32, u32)> {
        if self.is_full() {
            return None;
        }
        match self.entries.get(self.first_free as usize) {
            Some(entry) => Some((self.first_free, entry.generation)),
            None => Some((self.entries.len() as u32, self.fresh)),
        }
    }

    /// The item at `index`, whatever its generation.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
        note_look();
        self.entries.get(index as usize)?.item.as_ref()
    }

    /// The item at `index`, whatever its generation.
    #[inline]
    pub(crate) fn at_mut(&mut self, index: u32) -> Option<&mut T> {
        self.entries.get_mut(index as usize)?.item.as_mut()
    }

    /// The item of exactly this generation.
    #[inline]
    pub(crate) fn get(&self, index: u32, generation: u32) -> Option<&T> {
        let entry = self.entries.get(index as usize)?;
        if entry.generation == generation { entry.item.as_ref() } else { None }
    }

    pub(crate) fn generation(&self, index: u32) -> u32 {
        self.entries.get(index as usize).map_or(0, |entry| entry.generation)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        let entry = self.entries.get_mut(index as usize)?;
        let item = entry.item.take()?;
        entry.retire();
        self.note_free(index);
        Some(item)
    }

    /// Removes an item where it lies, once `last` has seen it and its generation. Unlike [`remove`](Self::remove) it moves nothing.
    #[inline(always)]
    pub(crate) fn discard<R>(
        &mut self,
        index: u32,
        last: impl FnOnce(&mut T, u32) -> R,
    ) -> Option<R> {
        let entry = self.entries.get_mut(index as usize)?;
        let seen = last(entry.item.as_mut()?, entry.generation);
        entry.retire();
        entry.item = None;
        self.note_free(index);
        Some(seen)
    }

    /// An entry has just become free.
    #[inline(always)]
    fn note_free(&mut self, index: u32) {
        self.used -= 1;
        if self.first_free == NONE {
            self.first_free = index;
        } else {
            self.entries[self.last_free as usize].next_free = index;
        }
        self.last_free = index;
        if self.used == 0 && self.entries.len() > KEPT_MAX {
            self.give_back();
        }
    }

    /// Gives back the memory of a table that nothing is in. What it named stays unused, as new entries begin with later generations.
    #[cold]
    #[inline(never)]
    fn give_back(&mut self) {
        let last = self.entries.iter().map(|entry| entry.generation.wrapping_sub(self.fresh)).max();
        self.fresh = self.fresh.wrapping_add(last.unwrap_or(0));
        self.entries = Vec::new();
        (self.first_free, self.last_free) = (NONE, NONE);
    }

    /// Indices in use. For rare walks over everything (a peer was lost).
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        let used = |(i, entry): (usize, &Entry<T>)| {
            note_look();
            entry.item.is_some().then_some(i as u32)
        };
        self.entries.iter().enumerate().filter_map(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_generations_name_nothing() {
        let mut slots = Slots::new(2);
        let (i, g) = slots.insert('a').unwrap();
        slots.insert('b').unwrap();
        assert!(slots.insert('c').is_none(), "the limit holds");
        assert_eq!(slots.remove(i), Some('a'));
        let (j, h) = slots.insert('d').unwrap();
        assert_eq!((i, g + 1), (j, h));
        assert_eq!(slots.get(i, g), None);
        assert_eq!(slots.get(j, h), Some(&'d'));
    }

    #[test]
    fn the_first_freed_is_the_first_used_again() {
        let mut slots = Slots::new(8);
        let index = |slots: &mut Slots<u32>, item| slots.insert(item).unwrap().0;
        assert_eq!([0, 1, 2, 3].map(|item| index(&mut slots, item)), [0, 1, 2, 3]);
        assert_eq!([2, 0, 3].map(|index| slots.remove(index)), [Some(2), Some(0), Some(3)]);
        assert_eq!(slots.remove(2), None);
        assert_eq!([4, 5].map(|item| index(&mut slots, item)), [2, 0]);
        assert_eq!(slots.discard(2, |item, _| *item), Some(4));
        assert_eq!([6, 7, 8].map(|item| index(&mut slots, item)), [3, 2, 4]);
        assert_eq!((slots.len(), slots.indices().count()), (5, 5));
    }

    /// After a burst a table is as small as it was, and names nothing of before.
    #[test]
    fn a_table_that_is_empty_again_gives_its_memory_back() {
        let mut slots = Slots::new(1 << 20);
        let names: Vec<_> = (0..KEPT_MAX + 1).map(|i| slots.insert(i).unwrap()).collect();
        assert_eq!(slots.remove(7), Some(7));
        assert_eq!(slots.insert(0).unwrap(), (7, 2));
        for (index, _) in &names {
            let full = slots.last_removed();
            assert!(slots.remove(*index).is_some());
            assert_ne!(slots.last_removed(), full);
        }
        assert_eq!((slots.len(), slots.entries.capacity()), (0, 0));
        assert_eq!(slots.next_name(), Some((0, 3)));
        let again: Vec<_> = (0..KEPT_MAX + 1).map(|i| slots.insert(i).unwrap()).collect();
        assert!(again.iter().zip(&names).all(|(new, old)| new.0 == old.0 && new.1 > old.1 + 1));
        assert!(names.iter().all(|(index, generation)| slots.get(*index, *generation).is_none()));
    }
}
