//! Messages to the library itself: the receives that wait for them, and those that are on their way.

use std::sync::atomic::{AtomicU8, Ordering};

use emp_face::handles::Key;
use emp_host::{
    Completion, CompletionMode, NodeId, RawSend, ReceiveDescriptor, Segment, SegmentList, Selector,
    SendDescriptor, Status,
};

use crate::nic::{CONTROL, Nic};
use crate::state::State;
use crate::wire::{BYTES_MAX, Message};

/// Receives for such messages. More than come at once as a rule; the others wait in the node.
pub const CONTROLS_POSTED: usize = 32;

/// Contexts: the two top bits tell whose they are, as those of descriptors are zero.
const ARRIVED: u64 = 2 << 62;
const SENT: u64 = 3 << 62;
const CLASS: u64 = 3 << 62;

/// The number of the receive that a context is of.
#[inline]
pub fn is_arrived(context: u64) -> Option<usize> {
    (context & CLASS == ARRIVED).then_some((context & !CLASS) as usize)
}

/// The slot of the message that a context is of.
#[inline]
pub fn is_sent(context: u64) -> Option<usize> {
    (context & CLASS == SENT).then_some((context & !CLASS) as usize)
}

/// What a message is about, should it not get there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// A VI asks to be connected, or has accepted to be: which attempt.
    Connecting(Key, u32),
    Other,
}

/// A message on its way, whose bytes the node reads.
pub struct Outgoing {
    bytes: Vec<u8>,
    purpose: Purpose,
}

/// Memory that such messages are received in. Atomic bytes, as the node writes to them while others hold references.
pub struct Inbox(Box<[AtomicU8]>);

impl Default for Inbox {
    fn default() -> Self {
        Self((0..CONTROLS_POSTED * BYTES_MAX).map(|_| AtomicU8::new(0)).collect())
    }
}

impl Inbox {
    fn bytes(&self, number: usize, count: usize) -> Vec<u8> {
        let first = number * BYTES_MAX;
        let all = &self.0[first..first + count.min(BYTES_MAX)];
        all.iter().map(|byte| byte.load(Ordering::Relaxed)).collect()
    }
}

impl Nic {
    /// Posts one of the receives.
    pub fn post_control(&self, number: usize) {
        let memory = self.inbox.0[number * BYTES_MAX].as_ptr();
        let address = memory.expose_provenance() as u64;
        let receive = ReceiveDescriptor {
            endpoint: CONTROL,
            selector: Selector::ANY,
            segments: SegmentList::one(Segment { address, bytes: BYTES_MAX as u64 }),
            claim: None,
            context: ARRIVED | number as u64,
        };
        // SAFETY: the memory is the NIC's, atomic, and stays until its node is closed. Only with the node closing is there
        // no room, and then nothing comes any more.
        let _ = unsafe { self.control.post_receive_raw(receive) };
    }

    /// A message has arrived.
    pub fn control_arrived(
        &self,
        state: &mut State,
        number: usize,
        completion: &Completion,
    ) -> bool {
        if completion.status != Status::Ok {
            if completion.status == Status::Truncated {
                self.post_control(number);
            }
            return false;
        }
        let bytes = self.inbox.bytes(number, completion.bytes as usize);
        self.post_control(number);
        // Whatever else comes is no message of this library's.
        Message::decode(&bytes)
            .is_some_and(|message| self.handle_message(state, completion.peer, message))
    }

    /// Sends a message. `false`: it is known that it does not get there.
    pub fn send_control(
        &self,
        state: &mut State,
        to: NodeId,
        message: &Message,
        purpose: Purpose,
    ) -> bool {
        let slot = state.outgoing.insert(Outgoing { bytes: message.encode(), purpose });
        let Some(outgoing) = state.outgoing.get(slot) else { return false };
        let segment = Segment {
            address: outgoing.bytes.as_ptr().expose_provenance() as u64,
            bytes: outgoing.bytes.len() as u64,
        };
        let send = SendDescriptor {
            to,
            endpoint: CONTROL,
            to_endpoint: CONTROL,
            match_bits: 0,
            segments: SegmentList::one(segment),
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Auto,
            context: SENT | slot as u64,
        };
        // SAFETY: the bytes are the outgoing message's, which stays, unchanged, until the node is done with it.
        match unsafe { self.control.post_send_raw_or_end(send, false) } {
            Ok(RawSend::Flying(_)) => true,
            Ok(RawSend::Over(status)) => {
                state.outgoing.remove(slot);
                status == Status::Ok
            }
            Err(_) => {
                state.outgoing.remove(slot);
                false
            }
        }
    }

    /// A message has got there, or not.
    pub fn control_sent(&self, state: &mut State, slot: usize, completion: &Completion) -> bool {
        let Some(outgoing) = state.outgoing.remove(slot) else { return false };
        if completion.status == Status::Ok {
            return false;
        }
        let mut news = false;
        if let Purpose::Connecting(key, attempt) = outgoing.purpose {
            news |= self.attempt_failed(state, key, attempt);
        }
        if completion.status.is_silence() {
            news |= self.lost(state, completion.peer);
        }
        news
    }
}
