//! Whose frames leave next: deficit round robin over the clients that have some, in frames and bytes at once.
//!
//! Each round gives a client its share; what a frame costs is taken off, and who is below zero waits for the next rounds. A frame is read
//! before its length is believed, so the last one of a round may go beyond the share, and counts against the next (surplus round robin).
//! Clients without frames are in no round and cost nothing.

use std::collections::VecDeque;

use super::tags::Slot;

/// What a frame costs beside its bytes, in bytes: what the system takes to send one (0.5 µs) is worth some thousand bytes of copying, and
/// half of that keeps a client of long frames from being held up by one of short ones on a slow wire as well.
const FRAME_COST: u32 = 1024;

/// What a client may send in a round: two frames of Ethernet's usual MTU, or four short ones. Small, so that who has one frame to send waits
/// for little; the round itself costs some nanoseconds a client.
const SHARE: i64 = 5000;

/// What a frame of so many bytes costs.
#[must_use]
pub const fn cost(bytes: usize) -> u32 {
    FRAME_COST + bytes as u32
}

/// The order of clients, and what each may still send.
#[derive(Debug, Default)]
pub struct Rounds {
    order: VecDeque<Slot>,
    left: Vec<i64>,
}

impl Rounds {
    /// A client may have frames. Must not be in the rounds.
    pub fn enter(&mut self, slot: Slot) {
        let at = usize::from(slot);
        if self.left.len() <= at {
            self.left.resize(at + 1, 0);
        }
        debug_assert!(!self.order.contains(&slot));
        // What it owes from before it has paid by being away.
        self.left[at] = 0;
        self.order.push_back(slot);
    }

    /// A client is to be in no more rounds.
    pub fn leave(&mut self, slot: Slot) {
        self.order.retain(|other| *other != slot);
    }

    /// The clients in the rounds.
    pub fn slots(&self) -> impl Iterator<Item = Slot> + '_ {
        self.order.iter().copied()
    }

    /// How many these are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// True if there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The client whose turn it is, with its share: it is the last then.
    #[inline]
    pub fn turn(&mut self) -> Option<Slot> {
        let slot = self.order.pop_front()?;
        self.order.push_back(slot);
        let left = &mut self.left[usize::from(slot)];
        *left = (*left + SHARE).min(SHARE);
        Some(slot)
    }

    /// True if the client may send one more in this turn.
    #[inline]
    #[must_use]
    pub fn may(&self, slot: Slot) -> bool {
        self.left[usize::from(slot)] > 0
    }

    /// It has sent something.
    #[inline]
    pub fn spend(&mut self, slot: Slot, cost: u32) {
        self.left[usize::from(slot)] -= i64::from(cost);
    }

    /// Its turn ended for a reason that is not its own: it goes on where it was, with what it has left.
    pub fn put_back(&mut self, slot: Slot) {
        if self.order.back() == Some(&slot) {
            self.order.rotate_right(1);
            self.left[usize::from(slot)] -= SHARE;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sends for a while what each client has: `frames[slot]` is how many it has at each round, and of which length. Returns what each has sent.
    fn run(clients: &[(usize, usize)], turns: usize) -> Vec<(u64, u64)> {
        let mut rounds = Rounds::default();
        (0..clients.len()).for_each(|slot| rounds.enter(slot as Slot));
        let mut sent = vec![(0, 0); clients.len()];
        for _ in 0..turns {
            let slot = rounds.turn().expect("there are some");
            let (mut has, bytes) = clients[usize::from(slot)];
            while has > 0 && rounds.may(slot) {
                rounds.spend(slot, cost(bytes));
                has -= 1;
                let (frames, sum) = &mut sent[usize::from(slot)];
                (*frames, *sum) = (*frames + 1, *sum + bytes as u64);
            }
        }
        sent
    }

    #[test]
    fn equal_clients_have_equal_shares() {
        let sent = run(&[(1000, 1500); 5], 5000);
        let (least, most) = (sent.iter().min(), sent.iter().max());
        assert_eq!(least, most, "{sent:?}");
    }

    /// Who sends short frames does not get more of them through than the share in frames and bytes, whatever the others send.
    #[test]
    fn shares_are_of_frames_and_bytes() {
        let sent = run(&[(1000, 64), (1000, 1500), (1000, 9000)], 30_000);
        let costs: Vec<u64> =
            sent.iter().map(|(frames, bytes)| frames * u64::from(FRAME_COST) + bytes).collect();
        let (least, most) = (costs.iter().min().expect("3"), costs.iter().max().expect("3"));
        assert!(most - least < most / 50, "{costs:?}");
    }

    /// One client floods, the others send a frame now and then: each of theirs leaves in its first turn, as if they were alone.
    #[test]
    fn a_flood_holds_nobody_up() {
        let quiet = run(&[(1, 700); 9], 9 * 1000);
        let mut all = [(1, 700); 10];
        all[9] = (10_000, 64);
        let flooded = run(&all, 10 * 1000);
        assert_eq!(quiet[..9], flooded[..9]);
        let per_turn = flooded[9].0 / 1000;
        assert!(per_turn <= 5, "the flood sends {per_turn} frames between two of another's");
    }

    /// Of several that all have more than they may send, one that sends in a flood of small frames takes no more than the others: each of these
    /// sends at least nine tenths of what it does among its equals.
    #[test]
    fn a_flood_among_busy_clients_costs_them_a_share_of_one() {
        let turns = 40_000;
        let equals = run(&[(1000, 1500); 4], turns);
        let flooded = run(&[(1000, 1500), (1000, 1500), (1000, 1500), (100_000, 32)], turns);
        for slot in 0..3 {
            assert!(flooded[slot].0 * 10 >= equals[slot].0 * 9, "{flooded:?} {equals:?}");
        }
    }

    #[test]
    fn who_leaves_is_in_no_round() {
        let mut rounds = Rounds::default();
        (0..3).for_each(|slot| rounds.enter(slot));
        rounds.leave(1);
        assert_eq!((0..4).map(|_| rounds.turn()).collect::<Vec<_>>(), [0, 2, 0, 2].map(Some));
        rounds.leave(0);
        rounds.leave(2);
        assert!(rounds.is_empty() && rounds.turn().is_none());
    }

    #[test]
    fn a_turn_that_was_cut_short_goes_on() {
        let mut rounds = Rounds::default();
        (0..2).for_each(|slot| rounds.enter(slot));
        assert_eq!(rounds.turn(), Some(0));
        rounds.put_back(0);
        assert_eq!(rounds.turn(), Some(0));
        rounds.spend(0, cost(9000));
        assert!(!rounds.may(0));
        assert_eq!(rounds.turn(), Some(1));
        assert!(rounds.may(1));
        // Two rounds later what the long frame cost is paid.
        assert_eq!((rounds.turn(), rounds.may(0)), (Some(0), false));
        assert_eq!(rounds.turn(), Some(1));
        assert_eq!((rounds.turn(), rounds.may(0)), (Some(0), true));
    }
}
