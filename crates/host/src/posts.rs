//! Posts of one-sided operations to the firmware, with a slot for each.

use emp_firmware::{
    AtomicDescriptor, Completion, Firmware, GetDescriptor, OpId, OpKind, PostError, PutDescriptor,
    Time,
};

use crate::core::Core;
use crate::memory::ProcessMemory;
use crate::outgoing::Outgoing;
use crate::requests::{SlotKey, State};

impl Core {
    /// Posts by `post`, which is given the descriptor's context, and keeps a slot for the operation.
    #[inline]
    pub(crate) fn insert(
        &mut self,
        state: State,
        post: impl FnOnce(
            &mut Firmware,
            &mut ProcessMemory,
            &mut Outgoing,
            u64,
        ) -> Result<OpId, PostError>,
    ) -> Result<SlotKey, PostError> {
        let Some(firmware) = &mut self.firmware else { return Err(PostError::Closing) };
        if matches!(state, State::Raw { .. }) && self.queues.is_full() {
            return Err(PostError::Busy);
        }
        let (memory, outgoing) = (&mut self.memory, &mut self.outgoing);
        self.requests.insert(state, |context| post(firmware, memory, outgoing, context))
    }

    /// Posts a put. The caller goes on with [`posted`](Self::posted).
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory`].
    pub(crate) unsafe fn post_put(
        &mut self,
        now: Time,
        mut put: PutDescriptor,
        state: State,
    ) -> Result<SlotKey, PostError> {
        self.insert(state, |firmware, memory, _, context| {
            put.context = context;
            firmware.post_put(now, put, memory)
        })
    }

    /// Posts a get. The caller goes on with [`posted`](Self::posted).
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory`].
    pub(crate) unsafe fn post_get(
        &mut self,
        now: Time,
        mut get: GetDescriptor,
        state: State,
    ) -> Result<SlotKey, PostError> {
        self.insert(state, |firmware, memory, _, context| {
            get.context = context;
            firmware.post_get(now, get, memory)
        })
    }

    /// Posts an atomic operation. The caller goes on with [`posted`](Self::posted).
    ///
    /// # Safety
    ///
    /// The segments are covered by the invariant of [`crate::memory`].
    pub(crate) unsafe fn post_atomic(
        &mut self,
        now: Time,
        mut atomic: AtomicDescriptor,
        state: State,
    ) -> Result<SlotKey, PostError> {
        self.insert(state, |firmware, memory, _, context| {
            atomic.context = context;
            firmware.post_atomic(now, atomic, memory)
        })
    }

    /// Drops frames that are still to be sent and name host memory: the firmware resends what still matters.
    pub(crate) fn let_go_of_memory(&mut self) {
        if self.outgoing.names_memory() {
            self.outgoing.forget();
        }
    }

    /// A completion of nothing that this node's host has in flight: of a peer's doing, or of a send that had ended.
    pub(crate) fn notice(&mut self, completion: Completion) {
        debug_assert!(matches!(completion.op.kind(), OpKind::Notified | OpKind::Undelivered));
        let (number, kind) = (completion.context as u16, completion.op.kind());
        let Some(key) = self.queues.wanting_notices(number, kind) else { return };
        if self.queues.push(key, completion) && kind == OpKind::Notified {
            // Peers are held back when the application does not look.
            if let Some(firmware) = &mut self.firmware {
                firmware.keep_notification();
            }
        }
        self.sleepers.raw(key);
    }
}
