//! What both ways of connecting share: who is to be connected, and what comes of it.

use emp_face::handles::Key;
use emp_face::whereabouts::Whereabouts;
use emp_host::NodeId;

use crate::abi::{ErrorCode, Return};
use crate::attributes::agree;
use crate::control::Purpose;
use crate::nic::Nic;
use crate::points::{Point, door_at, door_of};
use crate::state::State;
use crate::vi::{Phase, Remote, Vi};
use crate::wire::{Message, Party};

/// A request that waits for the application's answer.
pub struct Incoming {
    pub from: Party,
}

/// How an attempt has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    Connected,
    Rejected,
    NoMatch,
    /// The question did not get there: it may be put again.
    Failed,
    /// The other side has given up meanwhile.
    Gone,
    /// Both do not fit.
    Refused(Return),
}

impl Nic {
    /// A VI as its partner must know it.
    pub fn party(&self, vi: &Vi) -> Party {
        Party {
            conn: vi.conn,
            attempt: vi.attempt,
            tag: vi.tag,
            offer: vi.offer(),
            node: self.face.node.id().0,
            mac: self.face.mac,
            udp: self.face.udp,
        }
    }

    /// The other end, as a VI has it; its node can be reached from now on.
    pub fn meet(&self, party: &Party) -> Remote {
        let node = NodeId(party.node);
        self.face.learn(&Whereabouts { node, mac: party.mac, udp: party.udp });
        Remote { node, conn: party.conn, tag: party.tag, offer: party.offer }
    }

    /// Asks for a connection to a point.
    pub fn ask(
        &self,
        state: &mut State,
        key: Key,
        peer: bool,
        (local, remote): (&Point, &Point),
    ) -> bool {
        let Some(vi) = state.vis.get_mut(key) else { return false };
        let (from, attempt) = (self.party(vi), vi.attempt);
        let door = door_of(remote.host);
        self.face.learn(&door_at(remote.host));
        let ask = Message::Ask { peer, from, local: local.clone(), remote: remote.clone() };
        self.send_control(state, door, &ask, Purpose::Connecting(key, attempt))
    }

    /// What was asked or accepted in this attempt did not get there. True if somebody waits for that.
    pub fn attempt_failed(&self, state: &mut State, key: Key, attempt: u32) -> bool {
        let Some(vi) = state.vis.get_mut(key).filter(|vi| vi.attempt == attempt) else {
            return false;
        };
        match &mut vi.phase {
            Phase::Requesting => vi.outcome = Some(Outcome::Failed),
            Phase::Accepting => vi.outcome = Some(Outcome::Gone),
            Phase::Peering(peering) => peering.again(),
            _ => return false,
        }
        true
    }

    /// Somebody's library says something about a connection. True if anybody may wait for that.
    pub fn handle_message(&self, state: &mut State, peer: NodeId, message: Message) -> bool {
        match message {
            Message::Ask { ref from, ref remote, .. } => {
                if remote.host == self.host && !self.pass_on(remote, &message) {
                    self.no_match(state, from);
                }
                false
            }
            Message::Accept { conn, attempt, from } => {
                from.node == peer.0 && self.accepted(state, (conn, attempt), &from)
            }
            Message::NoMatch { conn, attempt } => {
                let Some((_, vi)) = of_attempt(state, conn, attempt) else { return false };
                match &mut vi.phase {
                    Phase::Requesting => vi.outcome = Some(Outcome::NoMatch),
                    Phase::Peering(peering) => peering.again(),
                    _ => {}
                }
                true
            }
            Message::Reject { conn, attempt } => {
                let Some((_, vi)) = of_attempt(state, conn, attempt) else { return false };
                if matches!(vi.phase, Phase::Requesting) {
                    vi.outcome = Some(Outcome::Rejected);
                }
                true
            }
            Message::Ack { conn, from } => {
                let Some((_, vi)) = of_connection(state, peer, conn, from) else { return false };
                if matches!(vi.phase, Phase::Accepting) {
                    (vi.phase, vi.outcome) = (Phase::Connected, Some(Outcome::Connected));
                }
                true
            }
            Message::End { conn, from, why } => {
                let found = of_connection(state, peer, conn, from).map(|(key, _)| key);
                found.is_some_and(|key| self.ended_there(state, key, why))
            }
            Message::Alive => false,
        }
    }

    /// Tells somebody that nobody waits where they want to connect.
    pub fn no_match(&self, state: &mut State, from: &Party) {
        let node = self.meet(from).node;
        let answer = Message::NoMatch { conn: from.conn, attempt: from.attempt };
        self.send_control(state, node, &answer, Purpose::Other);
    }

    /// The other side says that it is connected to one of ours.
    fn accepted(&self, state: &mut State, (conn, attempt): (u32, u32), from: &Party) -> bool {
        let remote = self.meet(from);
        let node = remote.node;
        let end = Message::End { conn: from.conn, from: conn, why: ErrorCode::CONN_LOST };
        let Some((key, vi)) = of_attempt(state, conn, attempt) else {
            // Too late: it was given up.
            self.send_control(state, node, &end, Purpose::Other);
            return false;
        };
        let peering = matches!(vi.phase, Phase::Peering(_));
        if !peering && !matches!(vi.phase, Phase::Requesting) {
            // Both of two peers may accept the other; a connection to somebody else is no longer wanted.
            let same = vi.remote.as_ref().is_some_and(|known| {
                (known.node, known.conn) == (node, from.conn) && !matches!(vi.phase, Phase::Idle)
            });
            if !same {
                self.send_control(state, node, &end, Purpose::Other);
            }
            return false;
        }
        let agreed = agree(&vi.offer(), &from.offer);
        match agreed {
            Ok(()) => {
                vi.remote = Some(remote);
                self.connected(state, key);
                let ack = Message::Ack { conn: from.conn, from: conn };
                self.send_control(state, node, &ack, Purpose::Other);
            }
            Err(error) => {
                self.not_connected(state, key, Outcome::Refused(error));
                self.send_control(state, node, &end, Purpose::Other);
            }
        }
        true
    }

    /// A VI has its other end: messages may come and go.
    pub fn connected(&self, state: &mut State, key: Key) {
        self.end_peering(state, key);
        let Some(vi) = state.vis.get_mut(key) else { return };
        (vi.phase, vi.outcome) = (Phase::Connected, Some(Outcome::Connected));
        state.note(key);
    }

    /// An attempt of a VI has ended without one.
    pub fn not_connected(&self, state: &mut State, key: Key, outcome: Outcome) {
        self.end_peering(state, key);
        let Some(vi) = state.vis.get_mut(key) else { return };
        (vi.phase, vi.outcome, vi.remote) = (Phase::Idle, Some(outcome), None);
        // Answers to this attempt come too late.
        vi.attempt = vi.attempt.wrapping_add(1);
        state.note(key);
    }
}

/// The VI of a connection number, if that is the attempt which it makes.
fn of_attempt(state: &mut State, conn: u32, attempt: u32) -> Option<(Key, &mut Vi)> {
    let key = *state.conns.get(&conn)?;
    let vi = state.vis.get_mut(key)?;
    (vi.attempt == attempt).then_some((key, vi))
}

/// The VI that is connected so.
fn of_connection(state: &mut State, peer: NodeId, conn: u32, from: u32) -> Option<(Key, &mut Vi)> {
    let key = *state.conns.get(&conn)?;
    let vi = state.vis.get_mut(key)?;
    let remote = vi.remote.as_ref()?;
    (remote.node == peer && remote.conn == from).then_some((key, vi))
}
