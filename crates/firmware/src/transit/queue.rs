//! Frames on their way through a relay: a bounded queue of several flows that take turns, so that one that floods it keeps none of the others
//! out (stochastic fair queueing).

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use emp_wire::LinkAddress;

use crate::limits::{TRANSIT_FLOWS, TRANSIT_FRAMES_MAX};
use crate::link::LinkIndex;

/// A frame that waits to be sent on.
pub(crate) struct Waiting {
    pub(crate) link: LinkIndex,
    pub(crate) to: LinkAddress,
    pub(crate) bytes: Vec<u8>,
    pub(crate) source: Source,
}

/// Whose frame it is that waits, by which it is counted when it has left, or is lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The relay's own word, or a search.
    Other,
    /// That of the neighbour in this place.
    Neighbour(u8),
}

const _: () = assert!(TRANSIT_FLOWS == u64::BITS as usize, "a bit for each");

/// All of them.
pub(crate) struct Queue {
    /// Places of frames, their memory used again.
    places: Vec<Waiting>,
    free: Vec<u16>,
    flows: [VecDeque<u16>; TRANSIT_FLOWS],
    /// Those of which any waits, a bit each.
    busy: u64,
    /// The flow whose turn it is.
    turn: usize,
    waiting: usize,
}

impl Queue {
    pub(crate) fn new() -> Self {
        let flows = core::array::from_fn(|_| VecDeque::new());
        Self { places: Vec::new(), free: Vec::new(), flows, busy: 0, turn: 0, waiting: 0 }
    }

    /// Frames that wait.
    pub(crate) const fn len(&self) -> usize {
        self.waiting
    }

    /// Flows of which any waits.
    pub(crate) const fn flows(&self) -> usize {
        self.busy.count_ones() as usize
    }

    /// Adds a frame of a flow, any number, as `write` writes it. Full, the latest of the flow that holds most makes room. Whose frame was lost,
    /// this one or that, if one was.
    pub(crate) fn push(
        &mut self,
        (flow, source): (u32, Source),
        (link, to): (LinkIndex, LinkAddress),
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(), Source> {
        let flow = flow as usize % TRANSIT_FLOWS;
        let mut room = Ok(());
        let place = match self.free.pop() {
            Some(place) => place,
            None if self.places.len() < TRANSIT_FRAMES_MAX => {
                self.places.push(Waiting { link, to, bytes: Vec::new(), source });
                self.places.len() as u16 - 1
            }
            None => {
                let longest = (0..TRANSIT_FLOWS).max_by_key(|of| self.flows[*of].len());
                let longest = longest.filter(|of| self.flows[*of].len() > self.flows[flow].len());
                let Some(place) = longest.and_then(|of| self.flows[of].pop_back()) else {
                    return Err(source);
                };
                self.waiting -= 1;
                if let Some(of) = longest.filter(|of| self.flows[*of].is_empty()) {
                    self.busy &= !(1 << of);
                }
                room = Err(self.places[usize::from(place)].source);
                place
            }
        };
        let waiting = &mut self.places[usize::from(place)];
        (waiting.link, waiting.to, waiting.source) = (link, to, source);
        waiting.bytes.clear();
        write(&mut waiting.bytes);
        self.flows[flow].push_back(place);
        self.busy |= 1 << flow;
        self.waiting += 1;
        room
    }

    /// Takes the next frame out: one of each flow in turn.
    pub(crate) fn pop(&mut self) -> Option<&Waiting> {
        if self.busy == 0 {
            return None;
        }
        // The next one that has any, from the one whose turn it is on.
        let ahead = self.busy.rotate_right(self.turn as u32).trailing_zeros() as usize;
        let flow = (self.turn + ahead) % TRANSIT_FLOWS;
        let place = self.flows[flow].pop_front()?;
        if self.flows[flow].is_empty() {
            self.busy &= !(1 << flow);
        }
        self.turn = (flow + 1) % TRANSIT_FLOWS;
        self.waiting -= 1;
        self.free.push(place);
        self.places.get(usize::from(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkIndex = LinkIndex(1);

    fn push(queue: &mut Queue, flow: u32, byte: u8) -> Result<(), Source> {
        let source = Source::Neighbour(flow as u8);
        queue.push((flow, source), (LINK, LinkAddress::index(flow)), |bytes| bytes.push(byte))
    }

    #[test]
    fn flows_take_turns_and_each_is_in_order() {
        let mut queue = Queue::new();
        for byte in 0..40 {
            assert_eq!(push(&mut queue, 3, byte), Ok(()));
        }
        for byte in 0..3 {
            assert_eq!(push(&mut queue, 5, byte), Ok(()));
        }
        assert_eq!((queue.len(), queue.flows()), (43, 2));
        let mut seen = [0; 2];
        for at in 0..43 {
            let waiting = queue.pop().expect("it waits");
            let flow = usize::from(waiting.to == LinkAddress::index(5));
            assert_eq!(waiting.bytes, [seen[flow]], "in order, and nothing of an earlier frame");
            seen[flow] += 1;
            assert!(at >= 6 || seen[0].abs_diff(seen[1]) <= 1, "{seen:?}");
        }
        assert!(queue.pop().is_none() && seen == [40, 3]);
    }

    /// `RELAY-6`: a flow that floods a relay loses its own frames.
    #[test]
    fn one_flow_keeps_no_other_out() {
        let mut queue = Queue::new();
        for _ in 0..4 * TRANSIT_FRAMES_MAX {
            let _ = push(&mut queue, 0, 0);
        }
        assert_eq!(queue.len(), TRANSIT_FRAMES_MAX);
        for byte in 0..20 {
            let lost = push(&mut queue, 1, byte);
            assert_eq!(lost, Err(Source::Neighbour(0)), "another's was lost for it");
        }
        assert_eq!(queue.len(), TRANSIT_FRAMES_MAX);
        let mut of_other = 0;
        for _ in 0..2 * 20 {
            of_other += u32::from(queue.pop().expect("it waits").to == LinkAddress::index(1));
        }
        assert_eq!(of_other, 20);
    }
}
