//! Blocks over several interfaces at once (`PATH-13`): each has at most one train that has not left, which waits for its path's window while
//! others leave by theirs. A train that waits is parked; whichever can go on is the current one.

use arrayvec::ArrayVec;
use emp_wire::{HEADER_BYTES, Sequence};

use super::SendSide;
use super::active::Active;
use super::record::What;
use crate::limits::{INTERFACES_MAX, PATHS_MAX};
use crate::path::stripe::{Backlog, Lane, stripe};
use crate::path::{PathId, Paths};
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Frames of one batch that another interface's need not wait for: a call to the kernel costs as much as sending one or two, and eight take a
/// twentieth of the delay that is taken as normal.
const RUN_FRAMES_MIN: usize = 8;

impl SendSide {
    /// Blocks to this peer are spread over several interfaces, or some that were still wait.
    #[inline]
    pub(super) fn are_striped(&self, peer: u32, paths: &Paths) -> bool {
        let Some(active) = self.peers[peer].active.as_deref() else { return false };
        if !active.parked.is_empty() {
            return true;
        }
        if !paths.several {
            return false;
        }
        // Without blocks there is nothing to spread.
        let blocks = !active.blocks.is_empty()
            || active.records.back().is_some_and(|record| is_block(&record.what));
        blocks && paths.lanes().nth(1).is_some()
    }

    /// The frame leaves by another interface than all that is in the batch, which takes its sender some time: it is better off in the next, whose
    /// time is that in which that begins to leave. What others took before it would look like a queue in front of it.
    #[inline(never)]
    pub(super) fn would_wait_for_another(
        &self,
        peer: u32,
        sequence: Sequence,
        paths: &Paths,
        batch: &TransmitBatch,
    ) -> bool {
        let Some(last) = batch.frames().last() else { return false };
        if batch.frames().len() < RUN_FRAMES_MIN {
            return false;
        }
        let hop = paths.hop(self.load_now(peer, sequence, paths).0);
        hop.is_some_and(|(link, _)| paths.costs.interface(link) != paths.costs.interface(last.link))
    }

    /// The next frame to leave of the current train, one that is parked, or one that begins now. `room`: a number is free.
    #[inline(never)]
    pub(super) fn choose_of_lanes(
        &mut self,
        now: Time,
        peer: u32,
        paths: &Paths,
        (room, reads): (bool, impl Fn() -> bool),
    ) -> Option<Sequence> {
        let open = self.peers[peer].active.as_deref_mut().map_or(0, Active::sort_trains);
        for _ in 0..open {
            self.turn_train(peer);
            if let Some(next) = self.next_by_window(now, peer, paths) {
                return next.or_else(|| self.choose(now, peer, paths, reads));
            }
        }
        if !room {
            self.note_starved(peer);
            return None;
        }
        if !self.begin_beside(now, peer, paths, reads) {
            return None;
        }
        self.next_by_window(now, peer, paths).flatten()
    }

    /// The current train's next frame, if it may leave. `Some(None)`: its message begins anew, and there is another.
    fn next_by_window(&mut self, now: Time, peer: u32, paths: &Paths) -> Option<Option<Sequence>> {
        self.bound(now, peer);
        let (sequence, path, load) = self.next_unsent(peer, paths)?;
        if load.long && self.begins_anew(peer, sequence, paths) {
            return Some(None);
        }
        let bytes = load.bytes.into();
        if self.fits(now, peer, paths, (path, bytes, 0)) {
            return Some(Some(sequence));
        }
        self.limit(now, peer, paths, (path, bytes));
        None
    }

    /// Another train that waits becomes the current one, which is parked if it has not left.
    fn turn_train(&mut self, peer: u32) {
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return };
        let Some(train) = active.parked.pop_at(0) else { return };
        // A place is free now, or there is one more than may stay.
        active.park();
        (active.train_next, active.train_end) = train;
    }

    /// Begins another train while those that have begun wait, blocks and messages in turn.
    fn begin_beside(
        &mut self,
        now: Time,
        peer: u32,
        paths: &Paths,
        reads: impl Fn() -> bool,
    ) -> bool {
        self.refresh_windows(now, peer);
        let Some(active) = self.peers[peer].active.as_deref_mut() else { return false };
        let turn = active.message_turn || active.blocks.is_empty();
        if active.may_begin_message(now) && turn && active.park() {
            active.message_turn = false;
            self.begin_next_message(now, peer, paths, reads);
            return true;
        }
        while let Some(block) = self.next_block_of(peer) {
            let Some(path) = self.lane_for(peer, &block, paths) else { return false };
            let Some(active) = self.peers[peer].active.as_deref_mut() else { return false };
            if !active.park() {
                return false;
            }
            active.blocks.pop_front();
            active.message_turn = true;
            if active.flight(path).in_flight == 0 {
                self.begin_rate(now, peer, path);
            }
            // Else its message is gone.
            if self.begin_block(peer, block, Some(path), paths) {
                self.bound(now, peer);
                return true;
            }
        }
        false
    }

    fn next_block_of(&self, peer: u32) -> Option<What> {
        self.peers[peer].active.as_deref()?.blocks.front().copied()
    }

    /// The path for a block, of those that may carry its frames whole if there are any. `None`: it waits.
    fn lane_for(&self, peer: u32, block: &What, paths: &Paths) -> Option<PathId> {
        let (bytes, fragment) = extent(block);
        let frame = bytes.min(fragment.into()) + HEADER_BYTES as u64;
        let entry = &self.peers[peer];
        let active = entry.active.as_deref()?;
        let frames = bytes.div_ceil(u64::from(paths.usual_bytes())) as u32;
        let best = |bits| paths.choose_among(bits, frames, frame as u32);
        let whole = |path| paths.may_carry(path, frame as u32);
        let speaking = paths.lanes().map(|bits| (bits, best(bits)));
        let speaking = speaking.filter(|(_, path)| !active.flight(*path).doubt.is_silent());
        let speaking: ArrayVec<_, PATHS_MAX> = speaking.collect();
        let any = speaking.iter().any(|(_, path)| whole(*path));
        let apt = speaking.into_iter().filter(|(_, path)| !any || whole(*path));
        let mut lanes: ArrayVec<Lane, INTERFACES_MAX> = ArrayVec::new();
        // A node may be reached over more: its relays' cables.
        for (bits, path) in apt.take(INTERFACES_MAX) {
            let of = |sequence: Sequence| {
                let record = &active.records[active.record_of(sequence)?];
                Some(paths.pick(record.path).0)
            };
            let open = active.parked.iter().copied();
            let open = open.chain([(active.train_next, active.train_end)]);
            let waiting = open
                .filter(|(next, end)| next.before(*end))
                .filter(|(next, _)| of(*next).is_some_and(|path| bits & path.bit() != 0));
            let left: u64 = waiting.map(|(next, end)| end.since(next) as u64 * frame).sum();
            let under_way =
                PathId::of_bits(bits).map(|path| active.flight(path).in_flight).sum::<u32>();
            let (rate, is_guess, trip_us) = self.rate_and_trip(peer, path);
            let queued = left + u64::from(under_way);
            lanes.push(Lane { path, queued, rate, is_guess, trip_us, taken: left > 0 });
        }
        let all = active.blocks.iter().map(|block| extent(block).0).sum();
        stripe(&lanes, &Backlog { block: bytes, all, frame })
    }
}

/// Trains that wait.
impl Active {
    /// The current train waits, if it has not left, and another becomes the current one. False: too many wait.
    pub(super) fn park(&mut self) -> bool {
        let waits = self.train_next.before(self.train_end);
        let parked = !waits || self.parked.try_push((self.train_next, self.train_end)).is_ok();
        if parked {
            self.train_next = self.train_end;
        }
        parked
    }

    /// A parked train that goes on with the number for which the receiver waits becomes the current one.
    pub(super) fn unpark_unacked(&mut self) {
        let holds_up = |(next, _): &(Sequence, Sequence)| *next == self.unacked;
        let Some(at) = self.parked.iter().position(holds_up) else { return };
        let train = self.parked.remove(at);
        // There is the place that it leaves.
        self.park();
        (self.train_next, self.train_end) = train;
    }

    /// Trains that have not left, the one with the lowest numbers first, are all parked; gives how many. What has the lowest holds up all others'
    /// numbers, so it leaves first where several wait for one path.
    pub(super) fn sort_trains(&mut self) -> usize {
        self.park();
        let unacked = self.unacked;
        self.parked.sort_unstable_by_key(|(next, _)| next.since(unacked));
        self.parked.len()
    }

    /// Frames of the train that begins with this number that were sent at least once: all of any but the current one, and those that are
    /// parked.
    pub(super) fn sent_of(&self, first: Sequence, count: u32) -> u32 {
        let end = first.plus(count);
        let open = self.parked.iter().find(|(_, parked)| *parked == end);
        open.map_or_else(
            || {
                if self.train_end == end {
                    count.min(self.train_next.since(first) as u32)
                } else {
                    count
                }
            },
            |(next, _)| next.since(first) as u32,
        )
    }
}

const fn is_block(what: &What) -> bool {
    matches!(what, What::Block { .. } | What::Region(_))
}

/// Bytes of a block, and of its frames' payloads.
const fn extent(block: &What) -> (u64, u16) {
    match block {
        What::Block { bytes, fragment, .. } => (*bytes as u64, *fragment),
        What::Region(block) => (block.memory.bytes, block.fragment),
        _ => (0, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of trains that wait the one goes on that a receiver in order waits for, and the current one waits in its place.
    #[test]
    fn what_holds_up_the_window_is_unparked() {
        let mut active = Active::fresh();
        active.unacked = Sequence(8);
        (active.train_next, active.train_end) = (Sequence(30), Sequence(40));
        active.parked.push((Sequence(20), Sequence(25)));
        active.parked.push((Sequence(8), Sequence(12)));
        active.unpark_unacked();
        assert_eq!((active.train_next, active.train_end), (Sequence(8), Sequence(12)));
        let waiting = [(Sequence(20), Sequence(25)), (Sequence(30), Sequence(40))];
        assert_eq!(active.parked[..], waiting);
        active.unacked = Sequence(9);
        active.unpark_unacked();
        assert_eq!(active.train_next, Sequence(8), "nothing that is parked is waited for");
    }
}
