//! Operations that the host ends before they end by themselves.

use crate::descriptor::{OpId, OpKind, Status};
use crate::engine::Firmware;
use crate::time::Time;

impl Firmware {
    /// Closes an endpoint: its receives end with `EndpointClosed`, its unexpected messages are given up. Its sends go on.
    pub fn close_endpoint(&mut self, now: Time, endpoint: u16) {
        self.receive.close_endpoint(endpoint);
        self.relay(now);
    }

    /// Tries to cancel. True: a completion with `Cancelled` follows. False: too late, it ends as it will.
    pub fn cancel(&mut self, now: Time, op: OpId) -> bool {
        let cancelled = match op.kind() {
            OpKind::Send => self.send.cancel(op),
            OpKind::Receive => self.receive.cancel(op),
            // One-sided operations end by themselves: nothing there waits for a host.
            OpKind::Put | OpKind::Get | OpKind::Atomic | OpKind::Notified | OpKind::Undelivered => {
                false
            }
        };
        self.relay(now);
        cancelled
    }

    /// Ends a send or a one-sided operation, as its memory is wanted back at once. If the peer may have begun with it, the
    /// session with that peer ends: its memory cannot be named in frames any more, and the peer is not to wait for them. What
    /// else is under way with that peer ends with [`Status::Unreachable`] then. Receives end with their endpoint.
    pub fn abort(&mut self, now: Time, op: OpId) {
        if self.cancel(now, op) {
            return;
        }
        let peer = match op.kind() {
            OpKind::Receive | OpKind::Notified | OpKind::Undelivered => None,
            OpKind::Send | OpKind::Put | OpKind::Get | OpKind::Atomic => {
                self.receive.fetched_from(op).or_else(|| self.send.sent_to(op))
            }
        };
        if let Some(peer) = peer {
            self.give_up(now, peer, Status::Unreachable);
            self.relay(now);
        }
    }
}
