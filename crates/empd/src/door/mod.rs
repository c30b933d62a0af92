//! The door: who comes in, and what they are given. One thread, which waits for no client: a message is there whole or not at all, an answer
//! that a client does not take ends it.

mod client;
mod leaving;
mod listening;
mod seating;

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_link::service::protocol::{
    Answer, Attach, BUFFER_BYTES, Hello, Lend, Refused, Request, VERSION, Welcome,
};
use emp_link::service::socket;
use emp_link::{LoanOptions, interfaces};
use emp_wire::TAG_EVERYONE;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::config::Config;
use crate::engines::Engines;
use crate::lending::{Borrower, Lending, News};
use crate::succession::Predecessor;
use crate::switch::{Attachment, ClientNumber, Switch};
use crate::{log, supervisor};
use client::{Client, State};
use leaving::Leaving;
pub use listening::Listening;

/// How long a client may be connected without having asked for anything.
const ASKING: Duration = Duration::from_secs(10);

/// How long nobody is let in after descriptors ran out: what it takes others to go, and no more than a moment of a program's start.
const PAUSE: Duration = Duration::from_millis(100);

/// How often the switch is asked whom it has put out, if it has nothing to wake with.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Most that is taken in one turn from one client, and of new clients.
const BUDGET: usize = 16;

/// The door of a running service.
pub struct Door<S> {
    config: Config,
    listening: Listening,
    lending: Lending,
    /// Before the switch, whose clients they are.
    engines: Engines,
    switch: S,
    /// By a number that is never used again.
    clients: HashMap<ClientNumber, Client>,
    next: ClientNumber,
    /// No descriptors are left: nobody is let in until then.
    paused: Option<Instant>,
    leaving: Leaving,
    /// Whose place this service has taken.
    predecessor: Option<Predecessor>,
}

impl<S: Switch> Door<S> {
    /// Opens it; clients of `switch` are those that attach.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn open(config: Config, listening: Listening, switch: S) -> io::Result<Self> {
        let lending = Lending::start(config.limits.lent_per_user)?;
        let engines = Engines::new(seating::options(&config))?;
        let (clients, next, paused) = (HashMap::new(), 1, None);
        let (leaving, predecessor) = (Leaving::Not, None);
        let it = Self {
            config,
            listening,
            lending,
            engines,
            switch,
            clients,
            next,
            paused,
            leaving,
            predecessor,
        };
        Ok(it)
    }

    /// The same after another service, which goes on with its clients: their tags are nobody else's.
    #[must_use]
    pub fn after(mut self, predecessor: Option<Predecessor>) -> Self {
        self.predecessor = predecessor;
        self
    }

    /// Serves until `end` is readable, or another service has taken its place and its clients are gone.
    ///
    /// # Errors
    ///
    /// The system's, if it can't be waited for clients.
    pub fn serve(&mut self, end: BorrowedFd<'_>) -> io::Result<()> {
        let watchdog = supervisor::watchdog().map(|limit| limit / 3);
        let mut told = Instant::now();
        loop {
            let awake = self.sleep(end, watchdog)?;
            if awake.end {
                return Ok(());
            }
            // Before those who hang up, as one does whose engine has just ended: the log says why.
            for (client, why) in self.engines.take_ended() {
                self.put_out(client, &why);
            }
            for client in awake.clients {
                self.hear(client);
            }
            self.take_news();
            for (client, why) in self.switch.take_ended() {
                self.put_out(client, &why);
            }
            self.switch.take_lines().iter().for_each(|line| log::client(line));
            if awake.callers {
                self.let_in();
            }
            self.put_out_silent();
            self.seat_who_waits();
            self.hand_over();
            if self.has_left() {
                return Ok(());
            }
            if watchdog.is_some_and(|every| told.elapsed() >= every) && self.switch.is_alive() {
                told = Instant::now();
                supervisor::alive();
            }
        }
    }

    /// Until there is something to do.
    fn sleep(&mut self, end: BorrowedFd<'_>, watchdog: Option<Duration>) -> io::Result<Awake> {
        let now = Instant::now();
        if self.paused.is_some_and(|until| now >= until) {
            self.paused = None;
        }
        let asking = self.clients.values().filter_map(|client| client.deadline(ASKING));
        let ended = self.switch.ended();
        let times = asking
            .chain(self.paused)
            .chain(self.leaves_at())
            .chain(self.looks_again(now))
            .map(|at| at.saturating_duration_since(now))
            .chain(watchdog)
            .chain(ended.is_none().then_some(LOOK_EVERY));
        // A millisecond more, so that it is over when it ends.
        let timeout = times.min().map(|time| time + Duration::from_millis(1));
        let timeout = timeout.map_or(PollTimeout::NONE, |time| {
            PollTimeout::try_from(time).unwrap_or(PollTimeout::MAX)
        });
        let entry = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut entries =
            vec![entry(end), entry(self.lending.descriptor()), entry(self.engines.ended())];
        entries.extend(ended.map(entry));
        let callers = entries.len();
        let lets_in = self.paused.is_none() && self.listens();
        if lets_in {
            entries.push(entry(self.listening.descriptor()));
        }
        let first = entries.len();
        let numbers: Vec<ClientNumber> = self.clients.keys().copied().collect();
        entries.extend(self.clients.values().map(|client| entry(client.connection.as_fd())));
        match poll(&mut entries, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |entry: &PollFd<'_>| entry.any().unwrap_or(true);
        let heard = numbers.into_iter().zip(&entries[first..]);
        Ok(Awake {
            end: is_ready(&entries[0]),
            callers: lets_in && is_ready(&entries[callers]),
            clients: heard.filter(|(_, entry)| is_ready(entry)).map(|(number, _)| number).collect(),
        })
    }

    /// Takes who waits at the door.
    fn let_in(&mut self) {
        for _ in 0..BUDGET {
            match socket::accept(self.listening.descriptor()) {
                Ok(connection) => self.greet(connection),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // It hung up before it was let in, or a signal came.
                Err(error)
                    if matches!(error.raw_os_error(), Some(libc::ECONNABORTED | libc::EINTR)) => {}
                Err(error) => {
                    log::client(&format!("letting clients in: {error}; in a moment again"));
                    self.paused = Some(Instant::now() + PAUSE);
                    return;
                }
            }
        }
    }

    fn greet(&mut self, connection: OwnedFd) {
        // Whoever is gone already has nobody to be told.
        let Ok(peer) = socket::peer(connection.as_fd()) else { return };
        let limits = self.config.limits;
        let same = self.clients.values().filter(|client| client.peer.user == peer.user).count();
        let reason = if is_own(&peer) {
            // An engine's link: its client was counted.
            None
        } else if self.is_leaving() {
            Some("another service takes this one's place at this moment: ask again".into())
        } else if self.clients.len() >= limits.connections {
            Some(format!("all {} connections of this service are in use", limits.connections))
        } else if same >= limits.connections_per_user {
            Some(format!("user {} has {same} connections, and may have no more", peer.user))
        } else {
            None
        };
        let client = Client::new(connection, peer);
        match reason {
            Some(reason) => {
                let _ = client.tell(&Answer::Refused(Refused { reason: reason.clone() }), &[]);
                log::client(&format!("{client}: refused: {reason}"));
            }
            None => {
                self.clients.insert(self.next, client);
                self.next += 1;
            }
        }
    }

    /// Takes what a client says.
    fn hear(&mut self, number: ClientNumber) {
        let mut bytes = [0; BUFFER_BYTES];
        for _ in 0..BUDGET {
            let Some(client) = self.clients.get(&number) else { return };
            match socket::receive(client.connection.as_fd(), &mut bytes) {
                Ok(0) => return self.gone(number),
                Ok(got) => self.answer(number, &bytes[..got]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.gone(number),
            }
        }
    }

    fn answer(&mut self, number: ClientNumber, bytes: &[u8]) {
        let Some(client) = self.clients.get(&number) else { return };
        match (Request::parse(bytes), &client.state) {
            (Ok(Request::Hello(hello)), State::New) => self.welcome(number, hello),
            (Ok(Request::Lend(lend)), State::Greeted) => self.lend(number, lend),
            (Ok(Request::Attach(attach)), State::Greeted) => self.attach(number, attach),
            (Ok(Request::Replace), State::Greeted) => self.replace(number),
            (Ok(Request::Engine(engine)), State::Greeted) => self.seat(number, engine, None),
            (Ok(_), _) => self.refuse(number, "this is not the time for that message"),
            (Err(malformed), _) => self.refuse(number, &malformed.to_string()),
        }
    }

    fn welcome(&mut self, number: ClientNumber, hello: Hello) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let welcome = Welcome {
            version: VERSION,
            lends: self.config.lend.include(&client.peer),
            attaches: self.config.attach.include(&client.peer),
            clients_max: self.config.limits.connections_per_user.try_into().unwrap_or(u32::MAX),
        };
        client.state = State::Greeted;
        if client.tell(&Answer::Welcome(welcome), &[]).is_err() {
            return self.gone(number);
        }
        if hello.version != VERSION {
            let reason = format!(
                "this service speaks version {VERSION} of its messages, the client {}: upgrade the \
                 older of the two",
                hello.version
            );
            return self.refuse(number, &reason);
        }
        let own = emp_link::service::namespace();
        if hello.namespace != own && hello.namespace != 0 && own != 0 {
            let reason =
                "this service's network namespace is not the client's: it needs one of its own";
            self.refuse(number, reason);
        }
    }

    /// What holds for both kinds of requests.
    fn check(
        &self,
        interface: &str,
        ethertype: u16,
        (tag, user): (u16, u32),
    ) -> Result<(), String> {
        if !self.config.serves(interface) {
            let served = self.config.interfaces.join(", ");
            return Err(format!("{interface} is not served here, but {served}"));
        }
        if ethertype != self.config.ethertype {
            let own = self.config.ethertype;
            return Err(format!("EtherType {ethertype:#06x} is not served here, but {own:#06x}"));
        }
        if self.predecessor.as_ref().is_some_and(|before| before.has(tag, user)) {
            return Err("this node's tag is another user's: choose another name".into());
        }
        Ok(())
    }

    fn lend(&mut self, number: ClientNumber, lend: Lend) {
        let Some(client) = self.clients.get_mut(&number) else { return };
        let (user, included) = (client.peer.user, self.config.lend.include(&client.peer));
        let checked = if self.config.lend.is_nobody() {
            Err("nothing is lent here: `lend` is not in the service's configuration".into())
        } else if !included {
            let to = &self.config.lend;
            Err(format!("user {user} is none of those to whom raw sockets are lent: {to}"))
        } else if lend.tag == TAG_EVERYONE {
            Err("the tag of a node can't be that of all".into())
        } else {
            self.check(&lend.interface, lend.ethertype, (lend.tag, user))
        };
        if let Err(reason) = checked {
            return self.refuse(number, &reason);
        }
        self.forget_who_hung_up(lend.tag);
        let Some(client) = self.clients.get_mut(&number) else { return };
        client.state = State::Lent { tag: lend.tag, interface: lend.interface.clone() };
        let options = LoanOptions { tag: lend.tag, small_frames_only: lend.small_frames_only };
        let (interface, ethertype) = (lend.interface, lend.ethertype);
        self.lending.lend(Borrower { loan: number, user, interface, ethertype, options });
    }

    /// A node that asks again has closed its connection before, which may not have been seen.
    fn forget_who_hung_up(&mut self, wanted: u16) {
        let hung_up = |client: &Client| {
            matches!(client.state, State::Lent { tag, .. } if tag == wanted)
                && socket::is_over(client.connection.as_fd())
        };
        let gone = self.clients.iter().filter(|(_, client)| hung_up(client));
        for number in gone.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.gone(number);
        }
    }

    fn attach(&mut self, number: ClientNumber, attach: Attach) {
        let Some(client) = self.clients.get(&number) else { return };
        let process = client.peer.process;
        let tag = attach.node.destination_tag();
        // An engine's link is its client's.
        let owner = Some(&client.peer).filter(|peer| is_own(peer));
        let owner = owner.and_then(|_| self.engines.user_of(attach.node));
        let user = owner.unwrap_or(client.peer.user);
        let checked = if owner.is_some() || self.config.attach.include(&client.peer) {
            self.check(&attach.interface, attach.ethertype, (tag, user))
        } else {
            Err(format!("user {user} may not attach, but {}", self.config.attach))
        };
        let given = checked.and_then(|()| {
            let carrier = carrier(&attach.interface)?;
            let Attach { interface, ethertype, node, token } = attach;
            let client = number;
            self.switch.attach(&Attachment {
                client,
                user,
                process,
                interface,
                carrier,
                ethertype,
                node,
                token,
            })
        });
        let given = match given {
            Ok(given) => given,
            Err(reason) => return self.refuse(number, &reason),
        };
        let Some(client) = self.clients.get_mut(&number) else { return };
        client.state = State::Attached { tag, user };
        let descriptors = [given.memory.as_fd(), given.bell.as_fd()];
        if client.tell(&Answer::Attached(given.answer), &descriptors).is_err() {
            self.gone(number);
        }
    }

    fn take_news(&mut self) {
        for news in self.lending.take() {
            match news {
                News::Lent(number, lent, socket) => {
                    let client = self.clients.get(&number);
                    let Some(client) = client else {
                        // It hung up meanwhile, which the lending thread was told.
                        continue;
                    };
                    if client.tell(&Answer::Lent(lent), &[socket.as_fd()]).is_err() {
                        self.gone(number);
                        continue;
                    }
                    if let State::Lent { interface, tag } = &client.state {
                        log::client(&format!("{client}: lent {interface} for tag {tag:#06x}"));
                    }
                }
                News::Refused(number, reason) => self.refuse(number, &reason),
                News::Over(number, why) => self.put_out(number, why),
            }
        }
    }

    /// Tells a client why it gets nothing, and lets it go.
    fn refuse(&mut self, number: ClientNumber, reason: &str) {
        let Some(client) = self.clients.get(&number) else { return };
        let _ = client.tell(&Answer::Refused(Refused { reason: reason.to_owned() }), &[]);
        log::client(&format!("{client}: refused: {reason}"));
        self.gone(number);
    }

    fn put_out(&mut self, number: ClientNumber, why: &str) {
        if let Some(client) = self.clients.get(&number) {
            log::client(&format!("{client}: put out: {why}"));
            // Links come back by themselves and would take it for an answer; who has an engine loses it, and may know why.
            if matches!(client.state, State::Seated { .. }) {
                let _ = client.tell(&Answer::Refused(Refused { reason: why.to_owned() }), &[]);
            }
            self.gone(number);
        }
    }

    /// A client is gone: what it had goes with it.
    fn gone(&mut self, number: ClientNumber) {
        let Some(client) = self.clients.remove(&number) else { return };
        match client.state {
            State::New | State::Greeted | State::Waits(..) => {}
            // It is served by whoever listens then, which is nobody if it did not get so far.
            State::Successor if matches!(self.leaving, Leaving::Asked(_)) => {
                self.leaving = Leaving::Not;
            }
            State::Successor => {}
            State::Lent { .. } => self.lending.end(number),
            State::Attached { .. } => self.switch.detach(number),
            State::Seated { .. } => self.engines.leave(number),
        }
    }

    fn put_out_silent(&mut self) {
        let now = Instant::now();
        let is_late = |client: &Client| client.deadline(ASKING).is_some_and(|at| now >= at);
        let late = self.clients.iter().filter(|(_, client)| is_late(client));
        for number in late.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.refuse(number, "nothing was asked for in time");
        }
    }
}

/// This process itself: one of its engines' links. By its user as well: who connected before this process had its number, and has ended since,
/// may have had the same.
fn is_own(peer: &socket::Peer) -> bool {
    u32::try_from(peer.process) == Ok(std::process::id())
        && peer.user == nix::unistd::geteuid().as_raw()
}

/// What [`Door::sleep`] saw.
struct Awake {
    end: bool,
    callers: bool,
    clients: Vec<ClientNumber>,
}

/// An interface as the kernel has it, if it is one that frames can leave by.
fn carrier(name: &str) -> Result<emp_link::service::protocol::Carrier, String> {
    let all = interfaces().map_err(|error| format!("listing the interfaces: {error}"))?;
    let found = all.into_iter().find(|interface| interface.name == name);
    let found = found.ok_or_else(|| format!("there is no interface {name}"))?;
    let mac = found.mac.ok_or_else(|| format!("{name} has no Ethernet address"))?;
    if !found.up {
        return Err(format!("{name} is down"));
    }
    let mtu = found.mtu.try_into().unwrap_or(u32::MAX);
    Ok(emp_link::service::protocol::Carrier { index: found.index, mtu, mac })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_this_one_by_number_and_user() {
        let user = nix::unistd::geteuid().as_raw();
        let process = std::process::id() as i32;
        let own = socket::Peer { user, group: 0, process, groups: Vec::new() };
        assert!(is_own(&own));
        assert!(!is_own(&socket::Peer { user: user + 1, ..own.clone() }), "its number was reused");
        assert!(!is_own(&socket::Peer { process: process + 1, ..own }));
    }
}
