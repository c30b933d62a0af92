//! Another service takes this one's place: it is handed the listening socket once nobody is between the door and the switch, and this one
//! goes on with those that it has until they are gone, or for as long as it may.

use std::time::{Duration, Instant};

use emp_link::service::protocol::{Answer, Handed, Holding};

use super::Door;
use super::client::{Client, State};
use crate::switch::{ClientNumber, Switch};
use crate::{log, succession, supervisor};

/// How far it has come.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Leaving {
    /// Nobody has asked.
    #[default]
    Not,
    /// This client has. Nobody else is let in meanwhile: they come to the other.
    Asked(ClientNumber),
    /// It has the listening socket; until when this service goes on.
    Until(ClientNumber, Instant),
}

impl<S: Switch> Door<S> {
    pub(super) fn is_leaving(&self) -> bool {
        !matches!(self.leaving, Leaving::Not)
    }

    /// Whether it takes calls: before it leaves, and of its engines' links that are still to come.
    pub(super) fn listens(&self) -> bool {
        match self.leaving {
            Leaving::Not => true,
            Leaving::Asked(_) => self.engines.are_starting(),
            Leaving::Until(..) => false,
        }
    }

    /// Somebody asks for this service's place.
    pub(super) fn replace(&mut self, number: ClientNumber) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let own = nix::unistd::geteuid().as_raw();
        if client.peer.user != 0 && client.peer.user != own {
            return self.refuse(number, "only its own user, or root, takes a service's place");
        }
        if !matches!(self.leaving, Leaving::Not) {
            return self.refuse(number, "another one takes its place already");
        }
        client.state = State::Successor;
        self.leaving = Leaving::Asked(number);
        self.hand_over();
    }

    /// Gives the successor the listening socket, unless there is a client that has not been given anything yet.
    pub(super) fn hand_over(&mut self) {
        let Leaving::Asked(number) = self.leaving else { return };
        let asking =
            |state: &State| matches!(state, State::New | State::Greeted | State::Waits(..));
        if self.clients.values().any(|client| asking(&client.state)) || self.engines.are_starting()
        {
            return;
        }
        if let Err(why) = self.switch.step_aside() {
            self.leaving = Leaving::Not;
            return self.refuse(number, &why);
        }
        let holdings: Vec<Holding> = self.clients.values().filter_map(Client::holding).collect();
        let Some(client) = self.clients.get(&number) else { return };
        let told = succession::held(&holdings).try_for_each(|held| client.tell(&held, &[]));
        let handed = Answer::Handed(Handed { own: self.listening.is_own() });
        let socket = self.listening.descriptor();
        if told.and_then(|()| client.tell(&handed, &[socket])).is_err() {
            // It is gone. Frames come to this service as before: who comes later finds it.
            self.leaving = Leaving::Not;
            return;
        }
        self.listening.hand_over();
        let limit = Duration::from_secs(self.config.limits.drain_seconds);
        self.leaving = Leaving::Until(number, Instant::now() + limit);
        let left = self.clients.len() - 1;
        log::say(&format!(
            "{client} takes its place; it goes on with {left} clients, for {limit:?} at most"
        ));
        supervisor::stopping();
    }

    /// What it waited for is over.
    pub(super) fn has_left(&self) -> bool {
        let Leaving::Until(successor, until) = self.leaving else { return false };
        let alone = self.clients.keys().all(|number| *number == successor);
        alone || Instant::now() >= until
    }

    /// The time for that.
    pub(super) fn leaves_at(&self) -> Option<Instant> {
        match self.leaving {
            Leaving::Until(_, until) => Some(until),
            _ => None,
        }
    }
}
