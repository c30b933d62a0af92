//! What is shown of peers: those that something is under way to or from have a place each, and keep it while there are places.

use std::collections::HashMap;

use emp_firmware::{Firmware, LinkIndex, Span, Time};
use emp_state::layout::PATHS_MAX;
use emp_state::{Grown, Path, Peer, PeerState as State, Places, Text, Writer};
use emp_wire::NodeId;

use super::node::{LOOKED_AT, Since, address};
use crate::told::directory::{Directory, PeerState};
use crate::told::names;

/// Peers that are looked at in one write, whether they are to have a place: all of most jobs, and a microsecond or two.
const LOOKED_FOR: usize = 1_024;

/// Places that are written in one go, each a fraction of a microsecond; more have their turn in the next.
const WRITTEN: usize = 64;

/// Who was heard within this is shown.
const RECENT: Span = Span::ms(60_000);

/// A peer that is shown.
struct Seat {
    node: NodeId,
    name: Text<32>,
    state: State,
    state_since: Time,
    out: Since,
    back: Since,
    /// Receives that wait for it by name, and the first of them.
    receives: u32,
    oldest: Option<u64>,
    /// Messages of it that wait for a receive.
    unexpected: u32,
    /// It stands among those that make room.
    idle: bool,
}

/// Those that are.
#[derive(Default)]
pub(super) struct Peers {
    seats: Vec<Seat>,
    by_node: HashMap<NodeId, usize>,
    /// The peer that is looked at next, by its number in the engine, and the seat that is written next.
    look_next: usize,
    write_next: usize,
    left_out: u32,
    /// Seats of peers with nothing under way when they were last written: they make room, if that is so still. All seats were looked at for
    /// each peer without one before, a million looks a write where thousands are looked for.
    idle: Vec<usize>,
    /// Seats that are still to be written since something last happened.
    to_write: usize,
}

impl Peers {
    pub(super) fn len(&self) -> u32 {
        self.seats.len() as u32
    }

    /// Who has something under way and no seat, as of the last round.
    pub(super) const fn left_out(&self) -> u32 {
        self.left_out
    }

    /// There is more to write than one write did.
    pub(super) const fn has_more(&self) -> bool {
        self.to_write > 0
    }

    /// Finds out who is to be shown, and shows them: some of them, where they are many. Something has happened since the last time if `news`.
    pub(super) fn write(
        &mut self,
        (now, news): (Time, bool),
        firmware: &Firmware,
        directory: &Directory,
        writer: &mut Writer,
    ) {
        self.look_for(now, firmware, directory, writer);
        self.look_at_waiting(now, firmware, directory, writer);
        if news {
            self.to_write = self.seats.len();
        }
        let most = self.seats.len().min(WRITTEN);
        for _ in 0..most {
            let next = self.write_next + 1;
            self.write_next = if next < self.seats.len() { next } else { 0 };
            let at = self.write_next;
            let seat = &mut self.seats[at];
            let peer = seat.look(now, firmware, directory);
            writer.peer(at, Some(&peer));
            if !seat.idle && nothing_under_way(&peer) {
                seat.idle = true;
                self.idle.push(at);
            }
        }
        self.to_write = self.to_write.saturating_sub(most);
    }

    /// Gives seats to peers that something is under way to or from.
    fn look_for(
        &mut self,
        now: Time,
        firmware: &Firmware,
        directory: &Directory,
        writer: &mut Writer,
    ) {
        let peers = firmware.peers();
        let mut left_out = 0;
        for _ in 0..peers.min(LOOKED_FOR) {
            self.look_next = if self.look_next + 1 < peers { self.look_next + 1 } else { 0 };
            let Some(node) = firmware.peer_node(self.look_next) else { continue };
            let busy = firmware.is_busy(now, self.look_next, RECENT);
            if busy && self.seat(now, node, firmware, directory, writer).is_none() {
                left_out += 1;
            }
        }
        self.left_out = left_out;
    }

    /// Counts what waits for each by name, and of each for a receive.
    fn look_at_waiting(
        &mut self,
        now: Time,
        firmware: &Firmware,
        directory: &Directory,
        writer: &mut Writer,
    ) {
        for seat in &mut self.seats {
            (seat.receives, seat.oldest, seat.unexpected) = (0, None, 0);
        }
        firmware.waiting_receives(LOOKED_AT, |from, post| {
            if from != NodeId::ANY
                && from != firmware.node()
                && let Some(seat) = self.seat(now, from, firmware, directory, writer)
            {
                seat.receives += 1;
                seat.oldest = Some(seat.oldest.map_or(post, |oldest| oldest.min(post)));
            }
        });
        firmware.waiting_messages(LOOKED_AT, |from, _| {
            if let Some(seat) = self.by_node.get(&from).and_then(|at| self.seats.get_mut(*at)) {
                seat.unexpected += 1;
            }
        });
    }

    /// A peer's seat. `None`: there is none for it.
    fn seat(
        &mut self,
        now: Time,
        node: NodeId,
        firmware: &Firmware,
        directory: &Directory,
        writer: &mut Writer,
    ) -> Option<&mut Seat> {
        if let Some(at) = self.by_node.get(&node) {
            return self.seats.get_mut(*at);
        }
        let name = || {
            let called = names::called(node);
            let own = || directory.get(node).map(|peer| peer.name.clone()).unwrap_or_default();
            Text::new(&called.unwrap_or_else(own))
        };
        let fresh = |name| Seat {
            node,
            name,
            state: State::Unknown,
            state_since: now,
            out: Since::default(),
            back: Since::default(),
            receives: 0,
            oldest: None,
            unexpected: 0,
            idle: false,
        };
        let at = if self.seats.len() < writer.room() || writer.grow() == Grown::Yes {
            self.seats.push(fresh(name()));
            self.seats.len() - 1
        } else {
            let at = self.idle_seat(now, firmware)?;
            self.by_node.remove(&self.seats[at].node);
            self.seats[at] = fresh(name());
            at
        };
        self.by_node.insert(node, at);
        self.seats.get_mut(at)
    }

    /// A seat whose peer has nothing under way. Each that is looked at leaves the list, and is on it again once it was written.
    fn idle_seat(&mut self, now: Time, firmware: &Firmware) -> Option<usize> {
        while let Some(at) = self.idle.pop() {
            let seat = &mut self.seats[at];
            seat.idle = false;
            if seat.is_idle(now, firmware) {
                return Some(at);
            }
        }
        None
    }
}

/// As it was shown last.
const fn nothing_under_way(peer: &Peer) -> bool {
    let waits = peer.out_messages > 0 || peer.out_frames > 0;
    let comes = peer.in_messages > 0 || peer.in_receives > 0;
    !(waits || comes || peer.state == State::Sought.number())
}

impl Seat {
    fn is_idle(&self, now: Time, firmware: &Firmware) -> bool {
        self.receives == 0 && !firmware.shown(now, self.node).is_active()
    }

    /// What is shown of the peer now.
    fn look(&mut self, now: Time, firmware: &Firmware, directory: &Directory) -> Peer {
        let shown = firmware.shown(now, self.node);
        let met = directory.get(self.node);
        if let Some(name) = met.map(|peer| &peer.name).filter(|name| !name.is_empty()) {
            self.name = Text::new(name);
        }
        let state = match met.map(|peer| peer.state) {
            _ if shown.sought => State::Sought,
            _ if shown.met => State::Met,
            Some(PeerState::Found | PeerState::Unreachable) => State::Unreachable,
            Some(PeerState::Restarted) => State::Restarted,
            Some(PeerState::GaveUp) => State::GaveUp,
            Some(PeerState::Closed) => State::Closed,
            Some(PeerState::Ended) => State::Ended,
            None if matches!(self.state, State::Sought | State::Unreachable) => State::Unreachable,
            None => State::Unknown,
        };
        if state != self.state {
            (self.state, self.state_since) = (state, now);
        }
        let waits = shown.out_messages > 0 || shown.out_frames > 0;
        let comes = shown.in_messages > self.unexpected || self.receives > 0;
        let mark = shown.in_mark ^ self.oldest.unwrap_or_default().rotate_left(32);
        let short = |count: u32| u16::try_from(count).unwrap_or(u16::MAX);
        let mut paths = [Path::default(); PATHS_MAX];
        let used = firmware.paths(self.node);
        for (place, path) in paths.iter_mut().zip(&used) {
            let fares = firmware.shown_path(self.node, path.link);
            let first = if path.first { Path::FIRST } else { 0 };
            let long = if path.long_frames { Path::LONG } else { 0 };
            let LinkIndex(link) = path.link;
            *place = Path {
                link,
                flags: Path::THERE | first | long,
                frame_bytes: u16::try_from(path.frame_bytes_max).unwrap_or(u16::MAX),
                window: fares.window,
                flight: fares.flight,
                rtt_us: fares.rtt_us,
                sent: fares.sent,
                lost: fares.lost,
            };
        }
        let places = used.iter().take(PATHS_MAX).map(|path| address(&path.address));
        Peer {
            node: self.node.0,
            epoch: shown.epoch,
            state: state.number(),
            paths_up: used.len() as u8,
            heard: shown.heard.0,
            state_since: self.state_since.0,
            out_since: self.out.look(now, waits.then_some(shown.out_mark)),
            in_since: self.back.look(now, comes.then_some(mark)),
            out_messages: shown.out_messages,
            out_awaiting: short(shown.out_awaiting),
            out_frames: shown.out_frames,
            out_timeouts: short(shown.out_timeouts),
            out_refusals: short(shown.out_refusals),
            in_messages: shown.in_messages,
            in_unexpected: short(self.unexpected),
            in_pulls: short(shown.in_pulls),
            in_receives: short(self.receives),
            granted: shown.granted,
            frames_sent: shown.frames_sent,
            frames_resent: shown.frames_lost,
            name: self.name,
            paths,
            places: Places::of(places),
        }
    }
}
