//! The destination space: addresses that stand for the bytes of imported buffers. They have the top bit set, so that they are
//! no addresses of this process: what is read or written there by mistake is a fault at once, as it is no memory.

use emp_face::slots::Slots;

use crate::abi::{BUFFER_MAX, Proxy};

/// In all of them.
const TOP: u64 = 1 << 63;

/// Bits for the place of an import, and for which of those that were there: with each import another number, so that a proxy
/// that is used again is not that of the next import before so many were made.
const PLACE_BITS: u32 = 12;
const GENERATION_BITS: u32 = 13;
const OFFSET_BITS: u32 = BUFFER_MAX.trailing_zeros();
const _: () = assert!(1 + GENERATION_BITS + PLACE_BITS + OFFSET_BITS == 64);

/// Buffers that a process imports at a time.
pub const IMPORTS_MAX: usize = 1 << PLACE_BITS;

/// True if an address is of the destination space: nothing can be sent from there.
#[inline]
pub const fn is_proxy(address: u64) -> bool {
    address & TOP != 0
}

/// An import by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Name {
    pub place: u32,
    pub generation: u32,
}

impl Name {
    /// The address that stands for the first byte.
    pub const fn proxy(self) -> Proxy {
        let high = TOP >> (PLACE_BITS + OFFSET_BITS) | self.generation as u64;
        high << (PLACE_BITS + OFFSET_BITS) | (self.place as u64) << OFFSET_BITS
    }

    /// Import and offset that an address stands for.
    #[inline]
    pub const fn of(address: Proxy) -> Option<(Self, u64)> {
        if address & TOP == 0 {
            return None;
        }
        let place = (address >> OFFSET_BITS) as u32 & ((1 << PLACE_BITS) - 1);
        let generation =
            (address >> (OFFSET_BITS + PLACE_BITS)) as u32 & ((1 << GENERATION_BITS) - 1);
        Some((Self { place, generation }, address & (BUFFER_MAX - 1)))
    }
}

/// Things by name.
pub struct Places<T> {
    slots: Slots<(u32, T)>,
    generation: u32,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Self { slots: Slots::default(), generation: 0 }
    }
}

impl<T> Places<T> {
    /// Puts a thing in. `None`: there is no place.
    pub fn insert(&mut self, thing: T) -> Option<Name> {
        if self.slots.used() >= IMPORTS_MAX {
            return None;
        }
        self.generation = (self.generation + 1) & ((1 << GENERATION_BITS) - 1);
        let generation = self.generation;
        let place = self.slots.insert((generation, thing)) as u32;
        Some(Name { place, generation })
    }

    #[inline]
    pub fn get_mut(&mut self, name: Name) -> Option<&mut T> {
        let (generation, thing) = self.slots.get_mut(name.place as usize)?;
        (*generation == name.generation).then_some(thing)
    }

    pub fn remove(&mut self, name: Name) -> Option<T> {
        self.get_mut(name)?;
        self.slots.remove(name.place as usize).map(|(_, thing)| thing)
    }

    pub fn names(&self) -> Vec<Name> {
        let name = |(place, (generation, _)): (usize, &(u32, T))| Name {
            place: place as u32,
            generation: *generation,
        };
        self.slots.all().map(name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_import_and_offset() {
        for name in [
            Name { place: 0, generation: 0 },
            Name { place: (1 << PLACE_BITS) - 1, generation: (1 << GENERATION_BITS) - 1 },
            Name { place: 5, generation: 7 },
        ] {
            for offset in [0, 1, BUFFER_MAX - 1] {
                assert_eq!(Name::of(name.proxy() + offset), Some((name, offset)));
                assert!(is_proxy(name.proxy() + offset));
            }
        }
        assert_eq!(Name::of(4096), None);
    }

    #[test]
    fn a_place_that_is_used_again_has_another_name() {
        let mut places = Places::default();
        let first = places.insert('a').unwrap();
        assert_eq!(places.remove(first), Some('a'));
        let second = places.insert('b').unwrap();
        assert_eq!(second.place, first.place);
        assert_eq!(places.get_mut(first), None);
        assert_eq!(places.remove(first), None);
        assert_eq!(places.get_mut(second), Some(&mut 'b'));
        assert_eq!(places.names(), [second]);
        let others = (1..IMPORTS_MAX).map(|_| places.insert('c'));
        assert!(others.collect::<Vec<_>>().iter().all(Option::is_some));
        assert_eq!(places.insert('d'), None);
    }
}
