//! The largest frames that a node takes, as hellos and first frames tell it (`HELLO-1`, `HELLO-7`, `MSG-1`).

/// By each of a node's links, and by the one on which it says so: two numbers of 16 bits, as they stand in a first frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Largest(u32);

impl Largest {
    /// So many bytes by each link, and so many by the one on which this is said; 0 there: no more.
    pub const fn new(every_link: u16, this_link: u16) -> Self {
        Self((this_link as u32) << 16 | every_link as u32)
    }

    /// Bytes by each link: the one number of nodes that know of no others.
    pub const fn every_link(self) -> u16 {
        self.0 as u16
    }

    /// What is said of the link on which this came, in bytes; 0: nothing.
    pub const fn this_link(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// Bytes by the link on which this came. Never less than by each.
    pub const fn here(self) -> u16 {
        let (every, this) = (self.every_link(), self.this_link());
        if this > every { this } else { every }
    }

    /// As it stands in a first frame.
    pub(crate) const fn bits(self) -> u32 {
        self.0
    }

    /// What these say.
    pub(crate) const fn of_bits(bits: u32) -> Self {
        Self(bits)
    }
}

/// So many bytes, by whatever link.
impl From<u16> for Largest {
    fn from(every_link: u16) -> Self {
        Self::new(every_link, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_takes_what_all_take_or_more() {
        let cases = [(1_450, 9_000, 9_000), (1_450, 0, 1_450), (1_450, 300, 1_450), (0, 0, 0)];
        for (every, this, here) in cases {
            let largest = Largest::new(every, this);
            assert_eq!((largest.every_link(), largest.this_link()), (every, this));
            assert_eq!(largest.here(), here);
            assert_eq!(Largest::of_bits(largest.bits()), largest);
        }
        assert_eq!(Largest::from(1_500), Largest::new(1_500, 0));
    }
}
