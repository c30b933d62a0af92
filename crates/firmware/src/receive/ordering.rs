//! What a host is told of a peer keeps to the order of that peer's posts: not of a message, or of a put, before the puts
//! before it are wholly in their regions (`PUT-4`). Data is placed as it comes; only the telling waits.

use alloc::collections::{BTreeSet, VecDeque};

use hashbrown::HashMap;

use super::ReceiveSide;
use crate::descriptor::{Completion, OpKind, Status};

/// Puts that are arriving, and what may not be told before they are here.
#[derive(Default)]
pub(super) struct Order {
    /// By peer and number.
    puts: BTreeSet<(u32, u32)>,
    /// Of each peer, in the order of its posts: number and completion. None is empty.
    held: HashMap<u32, VecDeque<(u32, Completion)>>,
    held_count: usize,
}

impl Order {
    /// A put begins to arrive.
    pub(super) fn put_begins(&mut self, peer: u32, number: u32) {
        self.puts.insert((peer, number));
    }

    /// Completions that wait.
    pub(super) const fn held(&self) -> usize {
        self.held_count
    }

    /// No put is arriving.
    pub(super) fn is_idle(&self) -> bool {
        self.puts.is_empty()
    }

    /// Numbers before another are the 2³¹ below it, which may lie on both sides of 0.
    fn put_before(&self, peer: u32, number: u32) -> bool {
        let first = number.wrapping_sub(1 << 31);
        let any = |from, to| self.puts.range((peer, from)..(peer, to)).next().is_some();
        if first < number {
            any(first, number)
        } else {
            any(0, number) || self.puts.range((peer, first)..=(peer, u32::MAX)).next().is_some()
        }
    }
}

impl ReceiveSide {
    /// Tells the host of the end of message `number` of a peer, as soon as no put before it is arriving.
    pub(super) fn tell_in_order(&mut self, peer: u32, number: u32, completion: Completion) {
        if !self.order.put_before(peer, number) {
            return self.tell(completion);
        }
        // Several may wait for one put, and have come in another order than they were posted; most came last.
        let held = self.order.held.entry(peer).or_default();
        let sooner = |(other, _): &(u32, Completion)| (other.wrapping_sub(number) as i32) <= 0;
        let at = held.iter().rposition(sooner).map_or(0, |at| at + 1);
        held.insert(at, (number, completion));
        self.order.held_count += 1;
    }

    /// A put is not arriving any more: it is here, or given up.
    pub(super) fn put_over(&mut self, peer: u32, number: u32) {
        self.order.puts.remove(&(peer, number));
        // If the first goes on waiting, so do those behind it.
        while let Some((next, _)) = self.order.held.get(&peer).and_then(VecDeque::front)
            && !self.order.put_before(peer, *next)
            && let Some(held) = self.order.held.get_mut(&peer)
        {
            let first = held.pop_front();
            self.order.held_count -= 1;
            if held.is_empty() {
                self.order.held.remove(&peer);
            }
            if let Some((_, completion)) = first {
                self.tell(completion);
            }
        }
    }

    /// A peer is given up with puts under way: what came after them is not what their initiator meant to be seen.
    pub(super) fn end_puts_of(&mut self, peer: u32, status: Status) {
        while let Some(&put) = self.order.puts.range((peer, 0)..=(peer, u32::MAX)).next() {
            self.order.puts.remove(&put);
        }
        for (_, completion) in self.order.held.remove(&peer).into_iter().flatten() {
            self.order.held_count -= 1;
            if completion.op.kind() == OpKind::Notified {
                self.notifications -= 1;
            } else {
                self.tell(Completion { status, ..completion });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_put_before_is_found_by_serial_order_and_peer() {
        let mut x = 5u64;
        for start in [0u32, u32::MAX - 40, 1 << 31] {
            let mut order = Order::default();
            let mut model = alloc::vec::Vec::new();
            for _ in 0..200 {
                x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let (peer, number) =
                    ((x >> 60) as u32 % 3, start.wrapping_add((x >> 33) as u32 % 80));
                if x >> 32 & 1 == 0 {
                    order.put_begins(peer, number);
                    model.push((peer, number));
                }
                let before =
                    |put: &(u32, u32)| put.0 == peer && (put.1.wrapping_sub(number) as i32) < 0;
                assert_eq!(order.put_before(peer, number), model.iter().any(before));
                if model.len() > 20 {
                    let gone = model.remove(0);
                    model.retain(|put| *put != gone);
                    order.puts.remove(&gone);
                }
            }
        }
    }
}
