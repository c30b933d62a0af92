//! Messages that a probe has set aside.

use emp_firmware::{ProbeInfo, Selector};

use crate::endpoint::error::Refused;
use crate::endpoint::mailbox::Endpoint;
use crate::endpoint::request::ReceiveRequest;
use crate::memory::buffer::ReceiveBuffer;

/// A message that arrived before a receive was posted for it and that only the holder of this can receive: between
/// looking at its size and receiving it, no other thread gets it.
///
/// Dropping the claim gives the message up; its sender's send ends as abandoned if it still waits.
#[must_use = "dropping a claim gives the message up"]
pub struct Claim {
    endpoint: Endpoint,
    info: ProbeInfo,
}

impl Endpoint {
    /// As [`probe`](Self::probe), but sets the message aside: only the [`Claim`] can receive it.
    pub fn claim(&self, selector: Selector) -> Option<Claim> {
        let info = self.look(selector, true)?;
        Some(Claim { endpoint: self.clone(), info })
    }
}

impl Claim {
    /// Who sent it, how long it is, and so on.
    pub fn info(&self) -> ProbeInfo {
        self.info
    }

    /// Receives the message. A refused receive keeps the claim no longer: the message is given up.
    pub fn receive<B: ReceiveBuffer>(mut self, buffer: B) -> Result<ReceiveRequest<B>, Refused<B>> {
        let request = self.endpoint.receive_claimed(Selector::ANY, self.info.claim, buffer)?;
        self.info.claim = None;
        Ok(request)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(claim) = self.info.claim else { return };
        self.endpoint.inner.node.seat.discard_dropped(claim);
    }
}
