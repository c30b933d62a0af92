//! What a host is told of a peer keeps to the order of that peer's posts: not of a message, or of a put, before the puts
//! before it are wholly in their regions (`PUT-4`). Data is placed as it comes; only the telling waits.

use super::ReceivePath;
use crate::descriptor::{Completion, OpKind, Status};

/// A completion that waits for a put.
pub(super) struct Held {
    peer: u32,
    number: u32,
    completion: Completion,
}

impl ReceivePath {
    /// Tells the host of the end of message `number` of a peer, as soon as no put before it is arriving.
    pub(super) fn tell_in_order(&mut self, peer: u32, number: u32, completion: Completion) {
        if self.put_before(peer, number) {
            // Several may wait for one put, and have come in another order than they were posted.
            let later =
                |held: &Held| held.peer == peer && (held.number.wrapping_sub(number) as i32) > 0;
            let at = self.held.iter().position(later).unwrap_or(self.held.len());
            self.held.insert(at, Held { peer, number, completion });
        } else {
            self.completions.push_back(completion);
        }
    }

    fn put_before(&self, peer: u32, number: u32) -> bool {
        let before = |put: u32| (put.wrapping_sub(number) as i32) < 0;
        self.puts.iter().any(|(other, put)| *other == peer && before(*put))
    }

    /// A put is not arriving any more: it is here, or given up.
    pub(super) fn put_over(&mut self, peer: u32, number: u32) {
        if let Some(at) = self.puts.iter().position(|put| *put == (peer, number)) {
            self.puts.swap_remove(at);
        }
        // Those that go on waiting keep their places: other peers' must not lose their order by this one's.
        let mut at = 0;
        while let Some(held) = self.held.get(at) {
            if held.peer == peer && !self.put_before(peer, held.number) {
                self.completions.extend(self.held.remove(at).map(|held| held.completion));
            } else {
                at += 1;
            }
        }
    }

    /// A peer is given up with puts under way: what came after them is not what their initiator meant to be seen.
    pub(super) fn end_puts_of(&mut self, peer: u32, status: Status) {
        self.puts.retain(|(other, _)| *other != peer);
        for _ in 0..self.held.len() {
            let Some(held) = self.held.pop_front() else { return };
            if held.peer != peer {
                self.held.push_back(held);
            } else if held.completion.op.kind() == OpKind::Notified {
                self.notifications -= 1;
            } else {
                self.completions.push_back(Completion { status, ..held.completion });
            }
        }
    }
}
