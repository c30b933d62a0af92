//! Messages that no receive in the node takes. In VIA a receive must be there before its message: else a reliable connection
//! ends, and an unreliable one loses the message. Receives of VIs with reliable reception are never in the node: their messages
//! are looked at here first, so that the sender of one that does not fit is told.

use emp_face::handles::Key;
use emp_host::{ClaimId, PostError, ProbeInfo, ReceiveDescriptor, Selector};

use crate::abi::*;
use crate::descriptor::Outcome;
use crate::nic::{CHANNEL, Nic};
use crate::progress::too_short;
use crate::queue::{Context, Side, Stage};
use crate::state::State;

impl Nic {
    /// Deals with all of them. True if that has ended descriptors.
    #[cold]
    pub fn take_unexpected(&self, state: &mut State) -> bool {
        let mut news = false;
        while let Some(found) = self.endpoint.probe_raw(Selector::ANY, true) {
            let Some(claim) = found.claim else { break };
            news |= self.unexpected(state, &found, claim);
        }
        news
    }

    fn unexpected(&self, state: &mut State, found: &ProbeInfo, claim: ClaimId) -> bool {
        let key = state.conns.get(&(found.match_bits as u32)).copied();
        let vi = key.and_then(|key| state.vis.get_mut(key));
        let (Some(key), Some(vi)) = (key, vi) else {
            self.endpoint.discard_raw(claim);
            return false;
        };
        if !vi.is_open() || !vi.is_reliable() || vi.receive.doomed {
            self.endpoint.discard_raw(claim);
            return false;
        }
        let first = vi.receive.first_held().filter(|_| vi.claims());
        let Some(serial) = first else {
            self.endpoint.discard_raw(claim);
            self.break_vi(state, key, ErrorCode::RECVQ_EMPTY, ErrorCode::CONN_LOST);
            return true;
        };
        let Some(work) = vi.receive.unhold(serial) else { return false };
        let ended = |error| Stage::Ended(Outcome::error(STATUS_RECEIVE, error));
        let stage = if found.total_bytes > u64::from(work.bytes()) {
            self.endpoint.discard_raw(claim);
            vi.receive.doomed = true;
            ended(too_short(found.total_bytes, work.named_bytes()))
        } else {
            let context = Context { vi: key, side: Side::Receive, serial }.pack();
            let segments = work.segments.clone();
            let (selector, claim) = (Selector::ANY, Some(claim));
            let receive =
                ReceiveDescriptor { endpoint: CHANNEL, selector, segments, claim, context };
            // SAFETY: the segments are in registered memory that the consumer keeps, and does not use, until the descriptor is
            // done; memory is deregistered only after that.
            match unsafe { self.endpoint.post_receive_raw(receive) } {
                Ok(op) => Stage::Flying { op: Some(op), parts: 1 },
                // Its sender was lost.
                Err(PostError::NoClaim) => Stage::Held(work),
                Err(_) => {
                    vi.receive.doomed = true;
                    ended(TRANSPORT_ERROR)
                }
            }
        };
        vi.receive.held += usize::from(matches!(stage, Stage::Held(_)));
        if let Some(entry) = vi.receive.get_mut(serial) {
            entry.stage = stage;
        }
        let news = self.retire(state, key, Side::Receive);
        state.note(key);
        news
    }

    /// Gives up what has come for a connection that is over.
    pub fn discard_unexpected(&self, conn: u32) {
        let selector = Selector::bits(conn.into());
        while let Some(claim) =
            self.endpoint.probe_raw(selector, true).and_then(|found| found.claim)
        {
            self.endpoint.discard_raw(claim);
        }
    }

    /// A connection is over in order: what has come for it before is received as far as receives are there.
    pub fn take_last(&self, state: &mut State, key: Key) {
        if state.vis.get_mut(key).is_some_and(|vi| vi.claims()) {
            self.take_unexpected(state);
        }
    }
}
