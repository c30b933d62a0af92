//! How long frames may be by each of the node's links: at its start, and now (`HELLO-7`, `LIMIT-1`). What a path takes is the lesser of
//! what its link takes at both ends.

use alloc::boxed::Box;

use emp_wire::Largest;

use crate::limits::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use crate::link::LinkIndex;
use crate::link::LinkInfo;

/// Of one link, in bytes.
#[derive(Clone, Copy)]
struct Length {
    /// At the node's start.
    most: u16,
    /// Now.
    takes: u16,
}

/// Of all links.
pub(crate) struct Lengths {
    links: Box<[Length]>,
    /// The least of all at the node's start: frames of this length are what trains are compared by, whatever path they take.
    usual: u16,
    /// The greatest.
    most: u16,
    /// What is told by each link that there may be: asked for with every message, so that each index has a place.
    told: Box<[Largest; LINKS]>,
}

/// Indices that a link may have.
const LINKS: usize = u8::MAX as usize + 1;

impl Lengths {
    pub(crate) fn new(links: &[LinkInfo]) -> Self {
        let of = |link: &LinkInfo| {
            let most = link.frame_bytes_max.clamp(FRAME_BYTES_MIN, FRAME_BYTES_MAX) as u16;
            Length { most, takes: most }
        };
        let links: Box<[_]> = links.iter().map(of).collect();
        let all = || links.iter().map(|link| link.most);
        let usual = all().min().unwrap_or(FRAME_BYTES_MIN as u16);
        let most = all().max().unwrap_or(usual);
        let told = Box::new([Largest::from(usual); LINKS]);
        let mut lengths = Self { links, usual, most, told };
        lengths.note_told();
        lengths
    }

    /// There are these links from now on, more than before. What the new ones take is bounded by what the first ones took at most.
    pub(crate) fn extend(&mut self, infos: &[LinkInfo]) {
        let new = infos.iter().skip(self.links.len()).map(|link| {
            let most = link.frame_bytes_max.clamp(FRAME_BYTES_MIN, self.most.into()) as u16;
            Length { most, takes: most }
        });
        self.links = self.links.iter().copied().chain(new).collect();
        self.note_told();
    }

    fn note_told(&mut self) {
        let all = self.links.iter().map(|link| link.takes).min().unwrap_or(self.usual);
        let takes = |at: usize| self.links.get(at).map_or(0, |link| link.takes);
        for (at, told) in self.told.iter_mut().enumerate() {
            *told = Largest::new(all, if takes(at) > all { takes(at) } else { 0 });
        }
    }

    /// Bytes of a frame that fitted all links when the node started.
    #[inline]
    pub(crate) const fn usual(&self) -> u16 {
        self.usual
    }

    /// Bytes of the longest frame that some link took when the node started.
    #[inline]
    pub(crate) const fn most(&self) -> u16 {
        self.most
    }

    /// The same of one link. One that there is not is the node's own loopback.
    #[inline]
    pub(crate) fn most_by(&self, link: LinkIndex) -> u16 {
        self.links.get(usize::from(link.0)).map_or(self.usual, |link| link.most)
    }

    /// Bytes of the longest frame that a link takes now.
    #[inline]
    pub(crate) fn takes(&self, link: LinkIndex) -> u16 {
        self.links.get(usize::from(link.0)).map_or(self.usual, |link| link.takes)
    }

    /// What is told by a link of the longest frames that this node takes.
    #[inline(always)]
    pub(crate) fn told(&self, link: LinkIndex) -> Largest {
        self.told[usize::from(link.0)]
    }

    /// What a path by this link takes whose other end takes so many bytes.
    pub(crate) fn fitting(&self, link: LinkIndex, told: u16) -> u16 {
        told.clamp(FRAME_BYTES_MIN as u16, self.takes(link))
    }

    /// A link takes so much from now on, and no more than at the start. It is one of the node's.
    pub(crate) fn set(&mut self, link: LinkIndex, bytes: usize) {
        let link = &mut self.links[usize::from(link.0)];
        link.takes = bytes.min(link.most.into()) as u16;
        self.note_told();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JUMBO: LinkIndex = LinkIndex(0);
    const SMALL: LinkIndex = LinkIndex(1);

    fn lengths() -> Lengths {
        Lengths::new(&[9_000, 1_450].map(|bytes| LinkInfo::new(bytes, true)))
    }

    #[test]
    fn each_link_has_its_own() {
        let lengths = lengths();
        assert_eq!((lengths.usual(), lengths.most()), (1_450, 9_000));
        assert_eq!([JUMBO, SMALL].map(|link| lengths.takes(link)), [9_000, 1_450]);
        assert_eq!(lengths.takes(LinkIndex(u8::MAX)), 1_450, "the loopback");
        assert_eq!(lengths.told(JUMBO), Largest::new(1_450, 9_000));
        assert_eq!(lengths.told(SMALL), Largest::new(1_450, 0));
    }

    #[test]
    fn what_one_takes_falls_and_rises_alone() {
        let mut lengths = lengths();
        lengths.set(JUMBO, 1_000);
        assert_eq!([JUMBO, SMALL].map(|link| lengths.takes(link)), [1_000, 1_450]);
        assert_eq!(lengths.told(SMALL), Largest::new(1_000, 1_450));
        lengths.set(JUMBO, usize::MAX);
        assert_eq!([JUMBO, SMALL].map(|link| lengths.takes(link)), [9_000, 1_450]);
        assert_eq!((lengths.usual(), lengths.told(SMALL).every_link()), (1_450, 1_450));
    }

    /// What others say is bounded by what this end takes, and by the shortest frame that holds any header and its fields.
    #[test]
    fn what_a_peer_says_is_bounded() {
        let lengths = lengths();
        for (told, fits) in [(0, FRAME_BYTES_MIN as u16), (1_400, 1_400), (u16::MAX, 1_450)] {
            assert_eq!(lengths.fitting(SMALL, told), fits, "{told}");
        }
        assert_eq!(lengths.fitting(JUMBO, u16::MAX), 9_000);
    }

    #[test]
    fn a_node_without_links_takes_the_least() {
        let lengths = Lengths::new(&[]);
        assert_eq!((lengths.usual(), lengths.most()), (128, 128));
        let huge = Lengths::new(&[LinkInfo::new(1 << 20, true)]);
        assert_eq!(usize::from(huge.most()), FRAME_BYTES_MAX);
    }
}
