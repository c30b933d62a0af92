//! Clients that want an engine: who may have one, and on which interfaces.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use emp_link::interfaces;
use emp_link::service::protocol::{Answer, Engine};

use super::Door;
use super::client::{Client, State};
use crate::config::Config;
use crate::engines::Options;
use crate::log;
use crate::switch::{ClientNumber, Switch};

/// How long a client waits for an engine of its own that is about to end: it says goodbye, which takes it milliseconds.
const MAKING_WAY: Duration = Duration::from_secs(1);

/// How often it is looked whether it has.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// What engines are given here.
pub(super) fn options(config: &Config) -> Options {
    Options {
        socket: config.socket.clone(),
        ethertype: config.ethertype,
        polling: config.polling,
        held_bytes_max: config.limits.held_bytes_per_engine,
        operations_max: config.limits.operations_per_engine.max(1),
        incoming_max: config.limits.unexpected_per_engine.max(1),
        peers_max: config.limits.peers_per_engine,
        regions_max: config.limits.regions_per_engine,
        per_user: config.limits.engines_per_user,
        datagrams: config.datagrams && config.limits.rate().is_none(),
    }
}

impl<S: Switch> Door<S> {
    /// Gives an engine to a client, who may wait until then for one that is about to end; nobody else waits for that.
    pub(super) fn seat(&mut self, number: ClientNumber, engine: Engine, until: Option<Instant>) {
        let Some(user) = self.clients.get(&number).map(|client| client.peer.user) else { return };
        let until = until.unwrap_or_else(|| Instant::now() + MAKING_WAY);
        // A program that ends, and begins anew at once, may be heard in this order: the new one first.
        let before = self.engines.client_of(engine.node).filter(|before| *before != number);
        let has_left =
            |before: &ClientNumber| self.clients.get(before).is_some_and(Client::has_hung_up);
        if let Some(before) = before.filter(has_left) {
            self.gone(before);
        }
        if self.engines.makes_way(user, engine.node) && Instant::now() < until {
            if let Some(client) = self.clients.get_mut(&number) {
                client.state = State::Waits(Box::new(engine), until);
            }
            return;
        }
        let tag = engine.node.destination_tag();
        let Some(client) = self.clients.get(&number) else { return };
        let on = if !self.config.attach.include(&client.peer) {
            Err(format!("user {user} may not attach, but {}", self.config.attach))
        } else if engine.interface.is_empty() {
            self.usable()
        } else {
            Ok(vec![engine.interface.clone()])
        };
        let on = on.and_then(|on| {
            let ethertype = self.config.ethertype;
            on.iter().try_for_each(|one| self.check(one, ethertype, (tag, user)))?;
            Ok(on)
        });
        let name = engine.name.clone();
        let given = on.and_then(|on| self.engines.seat((number, user), engine, on));
        let given = match given {
            Ok(given) => given,
            Err(reason) => return self.refuse(number, &reason),
        };
        let Some(client) = self.clients.get_mut(&number) else { return };
        client.state = State::Seated { tag };
        let descriptors = [given.memory.as_fd(), given.bell.as_fd()];
        if client.tell(&Answer::Seated(given.answer), &descriptors).is_err() {
            return self.gone(number);
        }
        let name: String = name.chars().filter(|letter| !letter.is_control()).collect();
        log::client(&format!("{client}: an engine, node {name}"));
    }

    /// When it is looked again whether those who wait for engines can have them.
    pub(super) fn looks_again(&self, now: Instant) -> Option<Instant> {
        let waits = |client: &Client| matches!(client.state, State::Waits(..));
        self.clients.values().any(waits).then_some(now + LOOK_AGAIN)
    }

    /// Gives engines to those who wait for them.
    pub(super) fn seat_who_waits(&mut self) {
        let waits = |(number, client): (&ClientNumber, &Client)| match &client.state {
            State::Waits(engine, until) => Some((*number, Engine::clone(engine), *until)),
            _ => None,
        };
        for (number, engine, until) in self.clients.iter().filter_map(waits).collect::<Vec<_>>() {
            self.seat(number, engine, Some(until));
        }
    }

    /// Interfaces that an engine may use without naming one.
    fn usable(&self) -> Result<Vec<String>, String> {
        let all = interfaces().map_err(|error| format!("listing the interfaces: {error}"))?;
        let served = all.into_iter().filter(|one| self.config.serves(&one.name));
        let up = served.filter(emp_link::Interface::usable_for_packet);
        let names: Vec<_> = up.map(|one| one.name).collect();
        if names.is_empty() { Err("no interface that is served is up".into()) } else { Ok(names) }
    }
}
