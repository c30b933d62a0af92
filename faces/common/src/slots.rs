//! Slots: things by number, such as operations that have not ended, whose number is the context that the firmware gives back.

enum Slot<T> {
    Used(T),
    /// With the next free slot.
    Free(usize),
}

/// The slots. Used again; nothing is allocated once they are as many as things are held at a time.
pub struct Slots<T> {
    slots: Vec<Slot<T>>,
    free: usize,
    used: usize,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: 0, used: 0 }
    }
}

impl<T> Slots<T> {
    /// The slot that the next thing gets.
    #[inline]
    pub fn next(&self) -> usize {
        self.free
    }

    /// Puts a thing into a slot.
    #[inline(always)]
    pub fn insert(&mut self, thing: T) -> usize {
        self.used += 1;
        let slot = self.free;
        match self.slots.get_mut(slot) {
            Some(place) => {
                if let Slot::Free(next) = *place {
                    self.free = next;
                }
                *place = Slot::Used(thing);
                slot
            }
            None => {
                self.slots.push(Slot::Used(thing));
                self.free = self.slots.len();
                self.slots.len() - 1
            }
        }
    }

    /// The thing in a slot.
    #[inline]
    pub fn get(&self, slot: usize) -> Option<&T> {
        match self.slots.get(slot)? {
            Slot::Used(thing) => Some(thing),
            Slot::Free(_) => None,
        }
    }

    /// The thing in a slot, to be changed.
    #[inline]
    pub fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        match self.slots.get_mut(slot)? {
            Slot::Used(thing) => Some(thing),
            Slot::Free(_) => None,
        }
    }

    /// Frees a slot whose thing was dealt with where it lies; true if there was one.
    #[inline]
    pub fn free(&mut self, slot: usize) -> bool {
        let Some(place @ Slot::Used(_)) = self.slots.get_mut(slot) else { return false };
        *place = Slot::Free(self.free);
        self.free = slot;
        self.used -= 1;
        true
    }

    /// Takes a thing out.
    pub fn remove(&mut self, slot: usize) -> Option<T> {
        let place = self.slots.get_mut(slot)?;
        if let Slot::Free(_) = place {
            return None;
        }
        let Slot::Used(thing) = std::mem::replace(place, Slot::Free(self.free)) else {
            return None;
        };
        self.free = slot;
        self.used -= 1;
        Some(thing)
    }

    /// Things that are held.
    #[inline]
    pub fn used(&self) -> usize {
        self.used
    }

    /// All things with their slots.
    pub fn all(&self) -> impl Iterator<Item = (usize, &T)> {
        self.slots.iter().enumerate().filter_map(|(slot, place)| match place {
            Slot::Used(thing) => Some((slot, thing)),
            Slot::Free(_) => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_again() {
        let mut slots = Slots::default();
        for thing in 0..3 {
            assert_eq!(slots.insert(thing), thing);
        }
        assert_eq!(slots.remove(1), Some(1));
        assert_eq!((slots.remove(1), slots.remove(7), slots.used()), (None, None, 2));
        assert!(slots.free(0) && !slots.free(0) && !slots.free(7));
        assert_eq!(slots.next(), 0);
        assert_eq!((slots.insert(10), slots.insert(11), slots.insert(12)), (0, 1, 3));
        assert_eq!(slots.get(1), Some(&11));
        assert_eq!(slots.get_mut(4), None);
        assert_eq!(
            slots.all().map(|(slot, thing)| slot + thing).collect::<Vec<_>>(),
            [10, 12, 4, 15]
        );
    }
}
