//! Which clients get a frame that comes, from the wire or from another client: those whose tag it bears, and nobody else.

use emp_link::service::channel::{ADDRESS_BYTES, Broken};
use emp_link::tag_of;
use emp_wire::{Header, Hello, NodeId, TAG_EVERYONE};

use super::client::Client;
use super::shared::Shared;
use super::tags::{Slot, Tags};

/// Handing frames to clients.
pub(super) struct Handing<'a> {
    pub(super) clients: &'a mut [Option<Client>],
    pub(super) tags: &'a Tags,
    pub(super) touched: &'a mut Vec<Slot>,
    pub(super) broken: &'a mut Vec<(Slot, Broken)>,
    pub(super) shared: &'a Shared,
}

impl Handing<'_> {
    /// Hands a frame to the clients that it is for, but for its sender. Returns how many that are.
    #[inline]
    pub(super) fn hand(
        &mut self,
        frame: &[u8],
        from: &[u8; ADDRESS_BYTES],
        sender: Option<Slot>,
    ) -> usize {
        let Some(tag) = tag_of(frame) else { return 1 };
        if tag == TAG_EVERYONE {
            return self.hand_to_all(frame, from, sender);
        }
        let mut count = 0;
        for slot in self.tags.of(tag) {
            count += 1;
            if Some(slot) != sender {
                hand_to(self.clients, (self.touched, self.broken, self.shared), slot, from, frame);
            }
        }
        count
    }

    /// A frame for everyone, or for whoever it asks after.
    #[cold]
    fn hand_to_all(
        &mut self,
        frame: &[u8],
        from: &[u8; ADDRESS_BYTES],
        sender: Option<Slot>,
    ) -> usize {
        let hello = Header::parse(frame).ok().filter(|(header, _)| header.kind.contact());
        let hello = hello.and_then(|(_, body)| Hello::parse(body).ok());
        let target = hello.map_or(NodeId::ANY, |hello| hello.target);
        for at in 0..self.clients.len() {
            let slot = at as Slot;
            let is_meant = self.clients[at]
                .as_ref()
                .is_some_and(|client| target == NodeId::ANY || client.holder.node() == target);
            if is_meant && Some(slot) != sender {
                hand_to(self.clients, (self.touched, self.broken, self.shared), slot, from, frame);
            }
        }
        // Somebody's, whoever that is.
        1
    }
}

#[inline]
fn hand_to(
    clients: &mut [Option<Client>],
    (touched, broken, shared): (&mut Vec<Slot>, &mut Vec<(Slot, Broken)>, &Shared),
    slot: Slot,
    from: &[u8; ADDRESS_BYTES],
    frame: &[u8],
) {
    let Some(Some(client)) = clients.get_mut(usize::from(slot)) else { return };
    if !client.is_there() {
        return;
    }
    match client.hand(from, frame) {
        Ok(true) => {
            if !std::mem::replace(&mut client.touched, true) {
                touched.push(slot);
            }
        }
        Ok(false) => shared.count(|counts| &counts.lost, 1),
        Err(why) => broken.push((slot, why)),
    }
}
