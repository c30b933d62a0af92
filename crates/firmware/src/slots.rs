//! A slab whose keys carry a generation, so that a name kept too long names nothing instead of something else.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Items addressed by index and generation.
pub(crate) struct Slots<T> {
    entries: Vec<Entry<T>>,
    /// First freed, first used again: a name that is still about in the network stays unused for longest.
    free: VecDeque<u32>,
    used: usize,
    limit: usize,
}

struct Entry<T> {
    generation: u32,
    item: Option<T>,
}

impl<T> Slots<T> {
    /// Never more than `limit` items.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { entries: Vec::new(), free: VecDeque::new(), used: 0, limit }
    }

    pub(crate) fn len(&self) -> usize {
        self.used
    }

    pub(crate) fn is_full(&self) -> bool {
        self.used >= self.limit
    }

    /// Adds an item unless the limit is reached; returns index and generation.
    pub(crate) fn insert(&mut self, item: T) -> Option<(u32, u32)> {
        if self.is_full() {
            return None;
        }
        self.used += 1;
        if let Some(index) = self.free.pop_front() {
            let entry = &mut self.entries[index as usize];
            entry.item = Some(item);
            return Some((index, entry.generation));
        }
        let index = self.entries.len() as u32;
        self.entries.push(Entry { generation: 1, item: Some(item) });
        Some((index, 1))
    }

    /// Index and generation of what is added next, if there is room.
    #[inline]
    pub(crate) fn next_name(&self) -> Option<(u32, u32)> {
        if self.is_full() {
            return None;
        }
        let index = self.free.front().copied().unwrap_or(self.entries.len() as u32);
        Some((index, self.entries.get(index as usize).map_or(1, |entry| entry.generation)))
    }

    /// The item at `index`, whatever its generation.
    #[inline]
    pub(crate) fn at(&self, index: u32) -> Option<&T> {
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
        entry.generation = entry.generation.wrapping_add(1);
        self.used -= 1;
        self.free.push_back(index);
        Some(item)
    }

    /// Removes an item where it lies, once `last` has seen it. Unlike [`remove`](Self::remove) it moves nothing.
    #[inline(always)]
    pub(crate) fn discard<R>(&mut self, index: u32, last: impl FnOnce(&mut T) -> R) -> Option<R> {
        let entry = self.entries.get_mut(index as usize)?;
        let seen = last(entry.item.as_mut()?);
        entry.item = None;
        entry.generation = entry.generation.wrapping_add(1);
        self.used -= 1;
        self.free.push_back(index);
        Some(seen)
    }

    /// Indices in use. For rare walks over everything (a peer was lost).
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        let used = |(i, entry): (usize, &Entry<T>)| entry.item.is_some().then_some(i as u32);
        self.entries.iter().enumerate().filter_map(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_generations_name_nothing() {
        let mut slots = Slots::new(2);
        assert_eq!(slots.next_name(), Some((0, 1)));
        let (i, g) = slots.insert('a').unwrap();
        slots.insert('b').unwrap();
        assert!(slots.insert('c').is_none(), "the limit holds");
        assert_eq!(slots.next_name(), None);
        assert_eq!(slots.remove(i), Some('a'));
        assert_eq!(slots.next_name(), Some((i, g + 1)));
        let (j, h) = slots.insert('d').unwrap();
        assert_eq!(i, j);
        assert_eq!(slots.get(i, g), None);
        assert_eq!(slots.get(j, h), Some(&'d'));
    }
}
