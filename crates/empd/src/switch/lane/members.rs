//! Who has a place on a lane: clients that come, that go after what they wrote has left, and what is freed with each.

use std::time::Instant;

use emp_link::Wire;
use nix::sys::epoll::{EpollEvent, EpollFlags};

use super::super::client::{Client, Place};
use super::super::rates::Rate;
use super::super::tags::Slot;
use super::{Command, Lane, Newcomer, WIRE};

/// Most clients of one interface: more than processes run on a machine that has one use for them, and half a gigabyte.
pub const CLIENTS_MAX: usize = 1024;

/// Turns in which what a link has got is taken before it goes: its ring several times over, which a flood would fill again and again.
const LEFT_TURNS: usize = 256;

impl Lane {
    /// A client has mapped its memory: from now on it is there, and is told so.
    pub(super) fn welcome(&mut self, slot: Slot) {
        self.rouse(slot);
        if let Some(Some(client)) = self.clients.get_mut(usize::from(slot)) {
            client.tell(&self.said);
            client.channel.wake();
        }
    }

    /// A client is gone: what it wrote before that still leaves.
    pub(super) fn part(&mut self, slot: Slot) {
        let Some(Some(client)) = self.clients.get_mut(usize::from(slot)) else { return };
        if client.ends_at.is_some() {
            return;
        }
        let _ = self.epoll.delete(client.bell());
        if client.place == Place::Joining {
            self.forget(slot);
            return;
        }
        client.ends_at = Some(client.channel.end());
        if client.place == Place::Quiet {
            client.place = Place::Active;
            self.rounds.enter(slot);
        }
    }

    /// Frees all that a client had.
    pub(super) fn forget(&mut self, slot: Slot) {
        let Some(client) = self.clients.get_mut(usize::from(slot)).and_then(Option::take) else {
            return;
        };
        let _ = self.epoll.delete(client.bell());
        self.numbers.remove(&client.number);
        self.tags.leave(slot);
        self.rounds.leave(slot);
        self.rates.leave(client.user);
        if let Some(at) = self.limited.iter().position(|(_, other)| *other == slot) {
            self.unlimit(at);
        }
        self.shared.clients(self.numbers.len());
        if self.numbers.is_empty() {
            self.empty_since = Instant::now();
        }
    }

    pub(super) fn obey(&mut self, command: Command) {
        match command {
            Command::Attach(newcomer) => {
                let Newcomer { attachment, channel, memory, rate, answer } = *newcomer;
                let client = Client::new(&attachment, channel, memory);
                // Nobody waits for it any more: the client hangs up, which the bell says.
                let _ = answer.send(self.take(client, rate));
            }
            Command::Detach(number) => {
                if let Some(slot) = self.numbers.get(&number) {
                    self.part(*slot);
                }
            }
            Command::StepAside(wire, done) => {
                self.step_aside(wire);
                let _ = done.send(());
            }
        }
    }

    /// Goes on by another link, which gets what comes already: what the one that there was has got is taken first.
    fn step_aside(&mut self, wire: Box<dyn Wire>) {
        for _ in 0..LEFT_TURNS {
            if !self.arrivals() {
                break;
            }
        }
        if let Some(ready) = self.wire.readiness() {
            let _ = self.epoll.delete(ready);
        }
        let before = std::mem::replace(&mut self.wire, wire);
        emp_link::let_go(before);
        if let Some(ready) = self.wire.readiness()
            && let Err(error) = self.epoll.add(ready, EpollEvent::new(EpollFlags::EPOLLIN, WIRE))
        {
            self.shared.note(format!("watching the link: {error}"));
        }
        self.look_at_wire(Instant::now());
    }

    fn take(&mut self, client: Client, rate: Option<Rate>) -> Result<(), String> {
        let node = client.holder.node();
        let tag = node.destination_tag();
        let free = self.clients.iter().position(Option::is_none);
        let at = free.unwrap_or(self.clients.len());
        let slot = Slot::try_from(at).ok().filter(|_| at < CLIENTS_MAX).ok_or_else(|| {
            format!("{CLIENTS_MAX} clients are attached to this interface, which is the most")
        })?;
        if self.wire.is_taken(tag) {
            return Err(format!(
                "another node on this interface has node {node}'s tag: choose another name"
            ));
        }
        self.tags.take(slot, tag, client.user).map_err(|_| {
            format!("node {node}, or its tag, is another user's: choose another name")
        })?;
        if let Err(error) =
            self.epoll.add(client.bell(), EpollEvent::new(EpollFlags::EPOLLIN, slot.into()))
        {
            self.tags.leave(slot);
            return Err(format!("watching the client: {error}"));
        }
        self.wire.note_somebody(tag);
        self.rates.enter(client.user, rate, Instant::now());
        self.numbers.insert(client.number, slot);
        if at == self.clients.len() {
            self.clients.push(None);
        }
        self.clients[at] = Some(client);
        self.shared.clients(self.numbers.len());
        Ok(())
    }
}
