//! What applications and fate do to a world, and when.

use emp_firmware::{LinkIndex, Selector, Span, Time};
use emp_wire::NodeId;

use crate::host::{ReceiveSpec, Want};
use crate::ledger::{MessageId, ReceiveId};
use crate::network::{Jack, Plug};
use crate::one_sided::DeedId;
use crate::world::World;

/// How often a host looks at its interfaces, and how often it tells peers again that their MTU has changed: as the real one.
const MTU_LOOK_EVERY: Span = Span::ms(10);
const MTU_REPEATS: u32 = 5;

/// How soon a host notices that a carrier came or went: the kernel tells within milliseconds.
const CARRIER_LOOK_EVERY: Span = Span::ms(10);

/// What an application does with a message that its probe claimed.
#[derive(Clone, Copy, Debug)]
pub enum ClaimUse {
    /// Receives it after this long.
    Receive(Span),
    /// Gives it up after this long.
    Discard(Span),
}

/// Something that is done to the world.
#[derive(Clone, Debug)]
pub enum Action {
    /// Posts a planned message.
    Send(MessageId),
    /// Posts a receive.
    Receive(ReceiveSpec),
    /// Posts the receive of a claimed message.
    ReceiveClaimed(ReceiveId),
    /// Gives a claimed message up.
    DiscardClaimed(ReceiveId),
    /// Cancels one of the node's open operations.
    Cancel {
        /// The node.
        node: usize,
        /// Which of them, modulo their number.
        pick: usize,
    },
    /// Probes, and perhaps claims.
    Probe {
        /// The node.
        node: usize,
        /// Its endpoint.
        endpoint: u16,
        /// For what.
        want: Want,
        /// What to do with the message; `None`: only look.
        claim: Option<ClaimUse>,
    },
    /// Changes the collection on a live node (E24).
    SetCollection {
        /// The node.
        node: usize,
        /// Frames per acknowledgement.
        frames: u32,
    },
    /// The node does not run for a while.
    Pause {
        /// The node.
        node: usize,
        /// How long.
        span: Span,
    },
    /// The node stops.
    Stop {
        /// The node.
        node: usize,
        /// It says goodbye first.
        goodbye: bool,
    },
    /// The node comes back in a new epoch.
    Start {
        /// The node.
        node: usize,
    },
    /// One direction between two nodes is cut for a while.
    Cut {
        /// On this fabric.
        fabric: usize,
        /// From this node.
        from: usize,
        /// To this one.
        to: usize,
        /// How long.
        span: Span,
    },
    /// A cut ends.
    Mend {
        /// On this fabric.
        fabric: usize,
        /// From this node.
        from: usize,
        /// To this one.
        to: usize,
    },
    /// A plug of a cable is pulled, or put in again. The hosts at its ends notice soon after.
    SetPlug {
        /// The cable.
        cable: usize,
        /// Which of its two plugs.
        side: usize,
        /// Whether it is in from now on.
        is_in: bool,
    },
    /// A plug of a cable is put in elsewhere.
    MovePlug {
        /// The cable.
        cable: usize,
        /// Which of its two plugs.
        side: usize,
        /// Where it goes.
        to: Plug,
    },
    /// A node's host looks whether a link has a carrier and tells its firmware.
    NoticeCarrier {
        /// The node.
        node: usize,
        /// Its link.
        link: usize,
    },
    /// The node's cable is moved (V28).
    Relocate {
        /// The node.
        node: usize,
    },
    /// The MTU of a node's interfaces changes; its host notices soon after.
    SetMtu {
        /// The node.
        node: usize,
        /// Longest frame that they take from now on. `None`: what they took at first.
        frame_bytes: Option<usize>,
    },
    /// A node's host looks at its interfaces and tells its firmware what they take.
    NoticeMtu {
        /// The node.
        node: usize,
        /// How often peers are to be told again.
        repeats: u32,
    },
    /// Closes an endpoint.
    CloseEndpoint {
        /// The node.
        node: usize,
        /// Its endpoint.
        endpoint: u16,
    },
    /// Posts a planned one-sided operation.
    OneSided(DeedId),
    /// Takes the node's exported region back.
    RemoveRegion {
        /// The node.
        node: usize,
    },
    /// Opens it again.
    OpenEndpoint {
        /// The node.
        node: usize,
        /// Its endpoint.
        endpoint: u16,
    },
}

impl Action {
    /// The node whose application does it; `None` if fate does.
    fn actor(&self, world: &World) -> Option<usize> {
        match self {
            Self::OneSided(id) => Some(world.one_sided.deeds[*id].from),
            Self::Send(message) => Some(world.ledger.messages[*message].spec.from),
            Self::Receive(spec) => Some(spec.node),
            Self::ReceiveClaimed(receive) | Self::DiscardClaimed(receive) => {
                Some(world.ledger.receives[*receive].node)
            }
            Self::Cancel { node, .. }
            | Self::Probe { node, .. }
            | Self::SetCollection { node, .. }
            | Self::RemoveRegion { node }
            | Self::NoticeMtu { node, .. }
            | Self::NoticeCarrier { node, .. }
            | Self::CloseEndpoint { node, .. }
            | Self::OpenEndpoint { node, .. } => Some(*node),
            _ => None,
        }
    }
}

impl World {
    /// Does something at a time.
    pub fn schedule(&mut self, at: Time, action: Action) {
        self.action_order += 1;
        self.actions.insert((at.max(self.now), self.action_order), action);
    }

    /// Cuts one direction between two nodes for a while, on every fabric.
    pub fn cut(&mut self, from: usize, to: usize, span: Span) {
        for fabric in 0..self.network.fabrics() {
            self.apply(Action::Cut { fabric, from, to, span });
        }
    }

    /// The selector that an application's wish means.
    pub fn selector(&self, want: &Want) -> Selector {
        let (match_bits, ignore_bits) = want.bits.resolve(&self.ledger);
        let from = want.from.map_or(NodeId::ANY, |node| self.ids[node]);
        Selector { from, from_endpoint: want.from_endpoint, match_bits, ignore_bits }
    }

    /// Does something now. An application that is away does nothing; one that is paused does it later.
    pub fn apply(&mut self, action: Action) {
        if let Some(node) = action.actor(self) {
            if self.nodes[node].firmware.is_none() {
                return;
            }
            if let Some(later) = self.nodes[node].paused(self.now) {
                self.schedule(later, action);
                return;
            }
            let now = self.now;
            self.nodes[node].wake(now);
        }
        match action {
            Action::OneSided(id) => self.post_deed(id),
            Action::RemoveRegion { node } => self.remove_region(node),
            Action::Send(message) => self.post_send(message),
            Action::Receive(spec) => {
                self.post_receive(&spec);
            }
            Action::ReceiveClaimed(receive) => self.receive_claimed(receive),
            Action::DiscardClaimed(receive) => self.discard_claimed(receive),
            Action::Cancel { node, pick } => self.cancel_any(node, pick),
            Action::Probe { node, endpoint, want, claim } => {
                self.probe(node, endpoint, &want, claim);
            }
            Action::SetCollection { node, frames } => {
                self.poke(node, |firmware, _, _| firmware.set_collection(frames));
            }
            Action::Pause { node, span } => {
                let until = self.now + span;
                self.nodes[node].pause(until);
            }
            Action::Stop { node, goodbye } => self.leave(node, goodbye),
            Action::Start { node } => self.start(node),
            Action::Cut { fabric, from, to, span } => {
                self.history.cut(fabric, from, to, self.now, self.now + span);
                self.network.cut(fabric, from, to, true);
                self.schedule(self.now + span, Action::Mend { fabric, from, to });
            }
            Action::Mend { fabric, from, to } => self.network.cut(fabric, from, to, false),
            Action::Relocate { node } => self.network.relocate(node),
            Action::SetPlug { cable, side, is_in } => {
                let changed = self.network.set_plug(cable, side, is_in);
                self.rewired(cable, &changed);
            }
            Action::MovePlug { cable, side, to } => {
                let changed = self.network.move_plug(cable, side, to);
                self.rewired(cable, &changed);
            }
            Action::NoticeCarrier { node, link } => {
                let carrier = self.network.has_carrier(node, link);
                let index = LinkIndex(link as u8);
                self.poke(node, |firmware, _, now| firmware.set_carrier(now, index, carrier));
            }
            Action::SetMtu { node, frame_bytes } => self.set_mtu(node, frame_bytes),
            Action::NoticeMtu { node, repeats } => self.notice_mtu(node, repeats),
            Action::CloseEndpoint { node, endpoint } => {
                self.history.endpoint_closed(node, endpoint);
                self.poke(node, |firmware, _, now| firmware.close_endpoint(now, endpoint));
            }
            Action::OpenEndpoint { node, endpoint } => {
                self.history.endpoint_opened(node, endpoint, self.now);
                let opened = self.poke(node, |firmware, _, _| firmware.open_endpoint(endpoint));
                if let Err(error) = opened {
                    self.fail(format!("node {node}: endpoint {endpoint} not opened: {error:?}"));
                }
            }
        }
    }

    /// Sets the MTU of a node's interfaces, which its host notices within a moment.
    fn set_mtu(&mut self, node: usize, frame_bytes: Option<usize>) {
        self.history.limited(node, self.now);
        let links = self.nodes[node].setup.links.iter().enumerate();
        let cuts = links.map(|(index, link)| u64::from(link.long_frames) << index);
        self.network.set_limit(node, frame_bytes, cuts.sum());
        let notices = self.now + Span(self.prng.below(MTU_LOOK_EVERY.0));
        self.schedule(notices, Action::NoticeMtu { node, repeats: MTU_REPEATS });
    }

    /// Notes where links lead now, and has hosts notice theirs.
    fn rewired(&mut self, cable: usize, changed: &[Jack]) {
        let trunk = self
            .network
            .cable(cable)
            .is_some_and(|(cable, _)| cable.ends.iter().all(|end| matches!(end, Plug::Switch(_))));
        let ends = self.network.cable(cable).into_iter().flat_map(|(cable, _)| cable.ends);
        let mut jacks: Vec<Jack> = ends.filter_map(Plug::jack).chain(changed.to_vec()).collect();
        if trunk {
            // Who hangs on its switches has other neighbours now.
            let nodes = 0..self.nodes.len();
            let links = |node| (0..self.network.links(node)).map(move |link| Jack { node, link });
            jacks = nodes.flat_map(links).collect();
        }
        for jack in jacks {
            let fabric = self.network.fabric_of(jack.node, jack.link);
            self.history.leads(jack, fabric, self.now);
        }
        for Jack { node, link } in changed.iter().copied() {
            let notices = self.now + Span(self.prng.below(CARRIER_LOOK_EVERY.0));
            self.schedule(notices, Action::NoticeCarrier { node, link });
        }
    }

    /// As a host does that looks at its interfaces.
    fn notice_mtu(&mut self, node: usize, repeats: u32) {
        let links = &self.nodes[node].setup.links;
        let usual: Vec<_> = links.iter().map(|link| link.frame_bytes_max).collect();
        let limit = self.network.limit(node).unwrap_or(usize::MAX);
        self.poke(node, |firmware, _, now| {
            for (usual, link) in usual.iter().zip(0..) {
                let (fits, link) = (limit.min(*usual), LinkIndex(link));
                let changed = firmware.limit_frame_bytes(now, link, fits)
                    || firmware.raise_frame_bytes(now, link, fits);
                if !changed {
                    firmware.announce(now, link);
                }
            }
        });
        if repeats > 0 {
            let again = Action::NoticeMtu { node, repeats: repeats - 1 };
            self.schedule(self.now + MTU_LOOK_EVERY, again);
        }
    }

    /// A node goes away for good or until it is started.
    fn leave(&mut self, node: usize, goodbye: bool) {
        if self.nodes[node].firmware.is_none() {
            return;
        }
        self.history.stopped(node, self.now, goodbye);
        if goodbye {
            self.poke(node, |firmware, _, now| firmware.close(now));
            // Goodbyes leave with this turn; what it completes no longer matters to anyone.
            self.nodes[node].turn(node, self.now, &mut self.network);
        }
        self.nodes[node].stop();
    }
}
