//! Where a peer's paths lead, packed: each address as long as its kind.

use std::fmt;

use crate::field::Field;
use crate::layout::Address;

/// Bytes for them: Ethernet addresses and IPv4 ports of two interfaces, or Ethernet addresses of two and IPv6 of one.
const BYTES: usize = 38;

/// Places on links, in order, each behind a byte that says of which kind it is. What finds no room is not shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Places([u8; BYTES]);

impl Places {
    /// As many as find room. An address that finds none takes a byte, so that those behind it stay in their order.
    pub fn of(places: impl IntoIterator<Item = Address>) -> Self {
        let (mut all, mut at) = (Self::default(), 0);
        for Address { family, bytes } in places {
            let end = at + 1 + length_of(family);
            match all.0.get_mut(at..end) {
                Some(room) => {
                    room[0] = family;
                    room[1..].copy_from_slice(&bytes[..end - at - 1]);
                    at = end;
                }
                None => at += 1,
            }
        }
        all
    }

    /// They in their order, and then none for ever.
    pub fn iter(&self) -> impl Iterator<Item = Address> {
        let mut left = &self.0[..];
        let next = move || {
            let (&family, rest) = left.split_first()?;
            let (known, rest) = rest.split_at_checked(length_of(family))?;
            let mut bytes = [0; 22];
            bytes[..known.len()].copy_from_slice(known);
            left = rest;
            Some(Address { family, bytes })
        };
        std::iter::repeat_with(next).map(Option::unwrap_or_default)
    }
}

/// Bytes of an address of this family, as [`Address`] has it.
const fn length_of(family: u8) -> usize {
    match family {
        1 | 4 => 6,
        6 => 22,
        9 => 4,
        11 => 8,
        12 => 9,
        _ => 0,
    }
}

impl Default for Places {
    fn default() -> Self {
        Self([0; BYTES])
    }
}

impl fmt::Debug for Places {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter().take(BYTES).filter(|place| place.family != 0)).finish()
    }
}

impl Field for Places {
    const BYTES: usize = BYTES;

    fn put(&self, to: &mut [u8]) {
        to[..BYTES].copy_from_slice(&self.0);
    }

    fn take(from: &[u8]) -> Self {
        let mut bytes = [0; BYTES];
        bytes.copy_from_slice(&from[..BYTES]);
        Self(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::PATHS_MAX;

    fn of(family: u8, first: u8) -> Address {
        let mut bytes = [0; 22];
        bytes[..length_of(family)].fill(first);
        Address { family, bytes }
    }

    /// Raw frames and datagrams by two interfaces, with IPv6 by one; what finds no room is not shown, and those behind it are.
    #[test]
    fn places_of_paths_are_packed() {
        let none = Address::default();
        let (mac, four, six) = (|n| of(1, n), |n| of(4, n), |n| of(6, n));
        for (places, shown) in [
            ([mac(1), four(2), mac(3), four(4)], [mac(1), four(2), mac(3), four(4)]),
            ([mac(1), six(2), mac(3), none], [mac(1), six(2), mac(3), none]),
            ([mac(1), six(2), six(3), four(4)], [mac(1), six(2), none, four(4)]),
            ([of(11, 1), of(12, 2), of(9, 3), four(4)], [of(11, 1), of(12, 2), of(9, 3), four(4)]),
            ([none, none, none, four(4)], [none, none, none, four(4)]),
        ] {
            let packed = Places::of(places);
            assert!(packed.iter().take(PATHS_MAX).eq(shown), "{packed:?}");
        }
        // Whatever bytes there are, they are some places.
        for byte in 0..=u8::MAX {
            assert_eq!(Places([byte; BYTES]).iter().take(100).count(), 100);
        }
    }
}
