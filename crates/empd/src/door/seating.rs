//! Clients that want an engine: who may have one, and on which interfaces.

use std::os::fd::AsFd;

use emp_link::interfaces;
use emp_link::service::protocol::{Answer, Engine};

use super::Door;
use super::client::State;
use crate::config::Config;
use crate::engines::Options;
use crate::log;
use crate::switch::{ClientNumber, Switch};

/// What engines are given here.
pub(super) fn options(config: &Config) -> Options {
    Options {
        socket: config.socket.clone(),
        ethertype: config.ethertype,
        polling: config.polling,
        held_bytes_max: config.limits.held_bytes_per_engine,
        per_user: config.limits.engines_per_user,
    }
}

impl<S: Switch> Door<S> {
    pub(super) fn seat(&mut self, number: ClientNumber, engine: Engine) {
        let Some(client) = self.clients.get(&number) else { return };
        let user = client.peer.user;
        let tag = engine.node.destination_tag();
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

    /// Interfaces that an engine may use without naming one.
    fn usable(&self) -> Result<Vec<String>, String> {
        let all = interfaces().map_err(|error| format!("listing the interfaces: {error}"))?;
        let served = all.into_iter().filter(|one| self.config.serves(&one.name));
        let up = served.filter(emp_link::Interface::usable_for_packet);
        let names: Vec<_> = up.map(|one| one.name).collect();
        if names.is_empty() { Err("no interface that is served is up".into()) } else { Ok(names) }
    }
}
