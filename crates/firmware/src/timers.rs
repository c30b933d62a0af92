//! One deadline per peer, the earliest first: a binary heap whose entries can be moved.

use crate::tables::per_peer::PerPeer;
use crate::time::Time;
use alloc::vec::Vec;

const ABSENT: u32 = u32::MAX;

/// Deadlines of peers, by peer index.
pub(crate) struct Timers {
    heap: Vec<(Time, u32)>,
    place: PerPeer<u32>,
}

impl Timers {
    pub(crate) const fn new() -> Self {
        Self { heap: Vec::new(), place: PerPeer::new() }
    }

    /// Makes room for one more peer.
    pub(crate) fn add_peer(&mut self) {
        self.place.push(ABSENT);
    }

    /// The earliest deadline.
    pub(crate) fn next(&self) -> Option<Time> {
        self.heap.first().map(|(time, _)| *time)
    }

    /// The peers that have one.
    pub(crate) fn peers(&self) -> impl Iterator<Item = u32> + '_ {
        self.heap.iter().map(|(_, peer)| *peer)
    }

    /// Takes out a peer whose deadline has come.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<u32> {
        let (time, peer) = *self.heap.first()?;
        if time > now {
            return None;
        }
        self.clear(peer);
        Some(peer)
    }

    /// Sets a peer's deadline unless it has an earlier one.
    #[inline]
    pub(crate) fn set_by(&mut self, peer: u32, time: Time) {
        if !self.is_set_by(peer, time) {
            self.set(peer, time);
        }
    }

    /// True if a peer's deadline is not later than this.
    #[inline(always)]
    pub(crate) fn is_set_by(&self, peer: u32, time: Time) -> bool {
        let place = self.place[peer];
        place != ABSENT && self.heap[place as usize].0 <= time
    }

    /// Sets a peer's deadline, replacing an earlier or later one.
    pub(crate) fn set(&mut self, peer: u32, time: Time) {
        let place = self.place[peer];
        if place == ABSENT {
            self.heap.push((time, peer));
            self.up(self.heap.len() - 1);
            return;
        }
        let place = place as usize;
        let old = self.heap[place].0;
        self.heap[place].0 = time;
        if time < old {
            self.up(place);
        } else {
            self.down(place);
        }
    }

    /// Removes a peer's deadline, if it has one.
    pub(crate) fn clear(&mut self, peer: u32) {
        let place = self.place[peer];
        if place == ABSENT {
            return;
        }
        self.place[peer] = ABSENT;
        let place = place as usize;
        let last = self.heap.pop().expect("an entry with a place is in the heap");
        if place < self.heap.len() {
            self.heap[place] = last;
            self.place[last.1] = place as u32;
            self.up(place);
            self.down(place);
        }
    }

    fn up(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 {
            let parent = (at - 1) / 2;
            if self.heap[parent].0 <= entry.0 {
                break;
            }
            self.heap[at] = self.heap[parent];
            self.place[self.heap[at].1] = at as u32;
            at = parent;
        }
        self.heap[at] = entry;
        self.place[entry.1] = at as u32;
    }

    fn down(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let mut child = 2 * at + 1;
            if child >= self.heap.len() {
                break;
            }
            if child + 1 < self.heap.len() && self.heap[child + 1].0 < self.heap[child].0 {
                child += 1;
            }
            if entry.0 <= self.heap[child].0 {
                break;
            }
            self.heap[at] = self.heap[child];
            self.place[self.heap[at].1] = at as u32;
            at = child;
        }
        self.heap[at] = entry;
        self.place[entry.1] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn behaves_as_a_sorted_map() {
        let mut timers = Timers::new();
        let mut model = std::collections::BTreeMap::new();
        for _ in 0..50 {
            timers.add_peer();
        }
        let mut x = 12345u64;
        for _ in 0..5000 {
            x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let peer = (x >> 33) as u32 % 50;
            let time = Time((x >> 40) % 1000);
            match x >> 61 {
                0 => {
                    timers.clear(peer);
                    model.remove(&peer);
                }
                1 => {
                    if let Some(due) = timers.pop_due(time) {
                        let at = model.remove(&due).unwrap();
                        assert!(at <= time && model.values().all(|other| *other >= at));
                    }
                }
                _ => {
                    timers.set(peer, time);
                    model.insert(peer, time);
                }
            }
            assert_eq!(timers.next(), model.values().min().copied());
        }
    }
}
