//! Posts of small messages that may leave at once: the host has the frame before anything is noted of it, so that what is
//! noted takes the time in which the frame is under way.

use crate::descriptor::{PostError, Posted, SendDescriptor};
use crate::engine::Firmware;
use crate::memory::HostMemory;
use crate::send::Outlet;
use crate::time::Time;
use crate::transmit::TransmitBatch;

/// Says that a message may leave at once, and how. Good until anything else is asked of the firmware.
pub struct AtOnce {
    peer: u32,
}

impl Firmware {
    /// Whether this message would be the next frame to its node, whole, and complete at once; and the batch has room. `last`
    /// is any earlier time: searches for lanes depend on it, and nothing else. `None`: it is to be posted by [`post_send`](Self::post_send),
    /// which also says what is wrong with it.
    #[inline]
    pub fn goes_at_once(
        &mut self,
        last: Time,
        send: &SendDescriptor,
        batch: &TransmitBatch,
    ) -> Option<AtOnce> {
        let open = self.closing.is_none() && self.receive.is_open(send.endpoint);
        // An acknowledgement that is due leaves by itself, and before the message.
        if !open || batch.is_full() || self.receive.has_due_acks() || self.is_unheard() {
            return None;
        }
        let peer = self.peers.find(send.to)?;
        let goes = self.peers.small_way(last, peer).is_some()
            && (self.send.may_go_at_once(peer, send, &self.peers)
                || self.send.settle_acks(last)
                    && self.send.may_go_at_once(peer, send, &self.peers));
        goes.then_some(AtOnce { peer })
    }

    /// Posts a message that [`goes_at_once`](Self::goes_at_once). Its frame is added to the batch; then `depart` is called,
    /// which may send what is in the batch but leaves it as it is, and says what time it is. The completion comes with the post.
    ///
    /// # Errors
    ///
    /// [`PostError::MemoryFault`], [`PostError::TooLong`]; `depart` was not called then.
    #[inline]
    pub fn post_at_once(
        &mut self,
        at_once: &AtOnce,
        send: SendDescriptor,
        memory: &impl HostMemory,
        batch: &mut TransmitBatch,
        depart: impl FnOnce(&TransmitBatch) -> Time,
    ) -> Result<Posted, PostError> {
        let AtOnce { peer } = *at_once;
        let way = self.peers[peer].route().ok_or(PostError::Busy)?;
        let (peers, cross, frame_bytes_max) = (&self.peers, &mut self.cross, self.takes_bytes_max);
        let mut out = Outlet { peers, cross, memory, batch, frame_bytes_max };
        self.send.post_at_once(peer, send, way, &mut out, depart)
    }

    /// As [`post_send`](Self::post_send); a small message that nothing stands before is in `batch` when this returns, as if
    /// [`poll_transmit`](Self::poll_transmit) had put it there, and its completion comes with the post. Whatever else is in the
    /// batch must still be to be sent.
    #[inline]
    pub fn post_send_into(
        &mut self,
        now: Time,
        send: SendDescriptor,
        memory: &mut impl HostMemory,
        batch: &mut TransmitBatch,
    ) -> Result<Posted, PostError> {
        match self.goes_at_once(now, &send, batch) {
            Some(at_once) => self.post_at_once(&at_once, send, memory, batch, |_| now),
            None => {
                let op = self.post_send(now, send, memory)?;
                Ok(Posted { op, over: None })
            }
        }
    }
}
