//! Partners: remote endpoints that an endpoint was connected to, or that connected to it.

use std::collections::HashMap;

use emp_host::NodeId;

use crate::abi::{Address, StatusCode};
use crate::identities::{PARTNERS_MAX, Parts};

/// What became of a partner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It can be sent to.
    Open,
    /// It was closed, lost, or was taken leave of: messages to it end so, until somebody connects again.
    Gone(StatusCode),
}

/// A partner.
pub struct Partner {
    pub node: NodeId,
    /// Drawn anew each time that the endpoint is opened.
    pub session: u32,
    pub fate: Fate,
    /// The application's pointer: null at first.
    pub context: usize,
}

/// All partners of an endpoint. None is ever removed: applications have addresses that name them.
#[derive(Default)]
pub struct Partners {
    all: Vec<Partner>,
    by_node: HashMap<NodeId, u32>,
    /// The one that was looked for last: an endpoint hears from few at a time.
    last: Option<(NodeId, u32)>,
}

impl Partners {
    /// The place of a node's endpoint, which is noted if it is new. `None`: there are too many.
    #[inline]
    pub fn place(&mut self, node: NodeId) -> Option<u32> {
        match self.last {
            Some((last, place)) if last == node => Some(place),
            _ => self.look_up(node),
        }
    }

    fn look_up(&mut self, node: NodeId) -> Option<u32> {
        let place = match self.by_node.get(&node) {
            Some(place) => *place,
            None if self.all.len() >= PARTNERS_MAX => return None,
            None => {
                let place = self.all.len() as u32;
                self.all.push(Partner { node, session: 0, fate: Fate::Open, context: 0 });
                self.by_node.insert(node, place);
                place
            }
        };
        self.last = Some((node, place));
        Some(place)
    }

    /// The address of a partner, for the application.
    #[inline]
    pub fn address(&mut self, local: u32, node: NodeId) -> Address {
        let Some(partner) = self.place(node) else { return Address::default() };
        let session = self.all[partner as usize].session;
        Parts { node, session, place: local, partner }.pack()
    }

    /// The partner that an address names, of whatever session; `None` if it is not one of this endpoint's.
    #[inline]
    pub fn get_mut(&mut self, local: u32, address: Address) -> Option<&mut Partner> {
        let parts = Parts::of(address);
        let partner = self.all.get_mut(parts.partner as usize)?;
        (parts.place == local && partner.node == parts.node).then_some(partner)
    }

    /// The nodes of all of them.
    pub fn nodes(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.all.iter().map(|partner| partner.node)
    }

    /// A partner by its node, if it is known.
    pub fn known(&mut self, node: NodeId) -> Option<&mut Partner> {
        let place = *self.by_node.get(&node)?;
        self.all.get_mut(place as usize)
    }

    /// Somebody has connected: the partner is of this session from now on.
    pub fn connected(&mut self, node: NodeId, session: u32) {
        if let Some(place) = self.place(node) {
            let partner = &mut self.all[place as usize];
            (partner.session, partner.fate) = (session, Fate::Open);
        }
    }

    /// A partner is gone.
    pub fn gone(&mut self, node: NodeId, how: StatusCode) {
        if let Some(partner) = self.known(node) {
            partner.fate = Fate::Gone(how);
        }
    }
}

impl Partner {
    /// How a message to this address would end at once, if it would.
    #[inline]
    pub fn refuses(&self, address: Address) -> Option<StatusCode> {
        match self.fate {
            Fate::Gone(how) => Some(how),
            Fate::Open if Parts::of(address).session != self.session => {
                Some(StatusCode::BAD_SESSION)
            }
            Fate::Open => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: NodeId = NodeId(7);
    const BOB: NodeId = NodeId(8);

    #[test]
    fn copies_of_an_address_are_one_partner() {
        let mut partners = Partners::default();
        partners.connected(ANN, 5);
        let ann = partners.address(3, ANN);
        let bob = partners.address(3, BOB);
        assert_eq!(partners.address(3, ANN), ann);
        partners.get_mut(3, ann).unwrap().context = 70;
        assert_eq!(partners.get_mut(3, partners_copy(ann)).unwrap().context, 70);
        assert_eq!(partners.get_mut(3, bob).unwrap().context, 0);
        assert!(partners.get_mut(4, ann).is_none());
        assert!(partners.get_mut(3, Address::default()).is_none());
        assert!(partners.get_mut(3, Address { stuff: [7, u64::MAX] }).is_none());
    }

    fn partners_copy(address: Address) -> Address {
        Address { stuff: address.stuff }
    }

    #[test]
    fn old_sessions_and_lost_partners_are_refused() {
        let mut partners = Partners::default();
        partners.connected(ANN, 5);
        let old = partners.address(0, ANN);
        assert_eq!(partners.get_mut(0, old).unwrap().refuses(old), None);
        partners.gone(ANN, StatusCode::ENDPOINT_CLOSED);
        let how = partners.get_mut(0, old).unwrap().refuses(old);
        assert_eq!(how, Some(StatusCode::ENDPOINT_CLOSED));
        partners.connected(ANN, 6);
        assert_eq!(partners.get_mut(0, old).unwrap().refuses(old), Some(StatusCode::BAD_SESSION));
        let new = partners.address(0, ANN);
        assert_eq!(partners.get_mut(0, new).unwrap().refuses(new), None);
        partners.gone(BOB, StatusCode::ENDPOINT_CLOSED);
        assert!(partners.known(BOB).is_none());
    }
}
