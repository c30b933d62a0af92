//! Asking whether frames longer than the MTU get through by a path (`LONG-2`), and what the answer changes.

use emp_wire::{Epoch, Header, Hello, LONG_FRAME_BYTES};

use crate::counters::Counter;
use crate::engine::Firmware;
use crate::link::LinkIndex;
use crate::path::{Hop, PathId};
use crate::time::Time;

impl Firmware {
    /// A link has begun or ceased to carry long frames ([`LinkInfo::long_frames`](crate::LinkInfo::long_frames)).
    pub fn set_long_frames(&mut self, link: LinkIndex, carries: bool) {
        let able =
            self.links.get(usize::from(link.0)).is_some() && self.profile.takes_long_frames();
        if self.peers.units.set(link, carries && able) {
            for peer in 0..self.peers.len() {
                self.peers.look_for_long(peer);
            }
        }
    }

    /// Asks whether long frames get through to a peer by a path, unless that is known.
    pub(crate) fn seek_long(&mut self, now: Time, peer: u32, path: PathId) {
        let hop = self.peers.paths(peer).hop(path).map(|(link, to)| (link, *to));
        let Some((link, to)) = hop.filter(|_| self.closing.is_none()) else { return };
        if self.peers.units.may_ask(now, peer, (link, &to)) {
            let nonce = self.routes.draw();
            self.peers.units.ask(now, peer, (link, to), nonce);
            self.run_long_questions(now);
        }
    }

    /// Asks the questions that are due (`LONG-2`).
    pub(crate) fn run_long_questions(&mut self, now: Time) {
        while self.routes.has_room() {
            let Some((peer, link, nonce)) = self.peers.units.pop_due(now) else { return };
            let by = |(_, (by, _)): &(PathId, Hop<'_>)| *by == link;
            let hop = self.peers.paths(peer).each().find(by).map(|(path, (_, to))| (path, *to));
            let entry = &self.peers[peer];
            let Some((path, to)) = hop.filter(|_| entry.remote_epoch != Epoch::UNKNOWN) else {
                self.peers.units.forget(peer);
                continue;
            };
            if !self.send.has_room_for_long(peer, path, (link, &to)) {
                self.peers.units.abandon(peer, link);
                continue;
            }
            self.ask_by(nonce, (link, to), peer, LONG_FRAME_BYTES as u16);
        }
    }

    /// Takes a reply that answers a question of this kind. False: it does not.
    pub(crate) fn answers_for_long(
        &mut self,
        now: Time,
        peer: u32,
        header: &Header,
        hello: &Hello,
    ) -> bool {
        if !self.peers.units.answered(now, peer, hello.nonce, header.word) {
            return false;
        }
        let before = self.peers[peer].long;
        self.peers.look_for_long(peer);
        self.send.long_opened(now, peer, (self.peers[peer].long & !before) as u8);
        self.counters.count(Counter::LongOpened);
        true
    }

    /// Too many long frames to a peer were lost by a path (`LONG-4`).
    pub(crate) fn long_failed(&mut self, now: Time, peer: u32, path: PathId) {
        let paths = self.peers.paths(peer);
        let link = paths.hop(path).filter(|_| paths.is_long(path)).map(|(link, _)| link);
        if let Some(link) = link {
            self.peers.units.fail(now, peer, link);
            self.peers.look_for_long(peer);
            self.counters.count(Counter::LongClosed);
        }
    }
}
