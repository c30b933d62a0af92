//! What the node shows to whoever looks from outside (decision 89): its state file, written by whoever makes a turn, at most every 10 ms.
//!
//! Nothing of it is noted where messages pass: the engine is asked when it is written, and since when something has not moved is found out by
//! asking again. What happens between two writes and is over by the second is not seen, but counted.

mod node;
mod peers;

use std::os::fd::OwnedFd;
use std::sync::Once;

use emp_firmware::{Firmware, Span, Time};
use emp_link::Link;
use emp_state::place::Readers;
use emp_state::{Identity, Kept, Now, Writer};

use crate::choices::StateFile;
use crate::told::directory::Directory;
use crate::told::journal::{Journal, Level};

use node::Waits;
pub(crate) use node::identity;
use peers::Peers;

/// Least time between two writes: what people and `emp top` look at changes no faster, and a write is some microseconds.
pub(crate) const SHOWN_EVERY: Span = Span::ms(10);

/// The same when something has happened to a peer: so that it is there when the program is told, and a thousand such do not take the node's time.
const SHOWN_AFTER: Span = Span::ms(1);

/// Writes between two looks at the links' interfaces, each two system calls; they are looked at as well when a line was said.
const LOOK_EVERY: u64 = 50;

/// A node's state file.
pub(crate) struct Shown {
    writer: Writer,
    peers: Peers,
    waits: Waits,
    written: Time,
    /// The engine's [`activity`](Firmware::activity) then.
    activity: u64,
    writes: u64,
    /// Something has happened since that [`activity`](Firmware::activity) does not count: a peer was told of, a timer ran.
    news: bool,
}

/// What is to be shown.
pub(crate) struct Scene<'a> {
    pub(crate) now: Time,
    pub(crate) firmware: &'a Firmware,
    pub(crate) links: &'a mut [Box<dyn Link>],
    pub(crate) directory: &'a Directory,
    /// Frames that links did not take.
    pub(crate) unsent: u64,
}

impl Shown {
    /// Makes the file, unless that is not wanted, or cannot be: then it is said once in this process.
    pub(crate) fn new(
        wish: Option<StateFile>,
        identity: &Identity,
        journal: &mut Journal,
    ) -> Option<Box<Self>> {
        made(wish, identity, journal, Ok).map(|writer| Box::new(Self::by(writer)))
    }

    /// One that another process has made and handed over, whom nothing is believed.
    pub(crate) fn given(file: OwnedFd) -> std::io::Result<Box<Self>> {
        Ok(Box::new(Self::by(Writer::given(file)?)))
    }

    fn by(writer: Writer) -> Self {
        Self {
            writer,
            peers: Peers::default(),
            waits: Waits::default(),
            written: Time::default(),
            activity: 0,
            writes: 0,
            news: false,
        }
    }

    /// When it is to be written though nothing happens: something has happened since it last was.
    pub(crate) fn due(&self, firmware: &Firmware) -> Option<Time> {
        let moved = firmware.activity() != self.activity;
        let due = self.news || moved || self.peers.has_more();
        due.then(|| self.written + SHOWN_EVERY)
    }

    /// Something was told of a peer. True if it may be shown at once: it was written some time ago.
    pub(crate) fn note_told(&mut self, now: Time) -> bool {
        self.news = true;
        now.since(self.written) >= SHOWN_AFTER
    }

    /// A timer ran: something was asked for again, looked for, probed or given up.
    pub(crate) const fn note_timer(&mut self) {
        self.news = true;
    }

    /// Writes it.
    #[cold]
    pub(crate) fn write(&mut self, scene: Scene<'_>, journal: &mut Journal) {
        let Scene { now, firmware, links, directory, unsent } = scene;
        let Self { writer, peers, waits, activity, .. } = self;
        waits.look(now, firmware);
        let news = self.news || firmware.activity() != *activity;
        peers.write((now, news), firmware, directory, writer);
        let mut said = false;
        for line in journal.recent() {
            writer.note(&node::note(&line));
            said = true;
        }
        node::counters(firmware, unsent, writer);
        node::neighbours(firmware, writer);
        let look = said || self.writes.is_multiple_of(LOOK_EVERY);
        for (index, link) in links.iter_mut().enumerate() {
            waits.link(index, &mut **link, look, writer);
        }
        let shown = waits.now(now, firmware, links.len());
        writer.publish(&Now { peers: peers.len(), peers_left_out: peers.left_out(), ..shown });
        (self.written, self.activity) = (now, firmware.activity());
        self.writes += 1;
        self.news = false;
    }
}

/// The file of a node whose engine is in the service, which is to write to it: to be handed over, and to be kept in its place.
pub(crate) fn to_hand_over(
    wish: Option<StateFile>,
    identity: &Identity,
    journal: &mut Journal,
) -> Option<(OwnedFd, Kept)> {
    made(wish, identity, journal, Writer::hand_over)
}

/// The file of a node, as it is used.
fn made<T>(
    wish: Option<StateFile>,
    identity: &Identity,
    journal: &mut Journal,
    used: impl FnOnce(Writer) -> std::io::Result<T>,
) -> Option<T> {
    static SAID: Once = Once::new();
    let readers = match wish.unwrap_or_else(|| asked_for(journal)) {
        StateFile::Off => return None,
        StateFile::Own => Readers::Own,
        StateFile::All => Readers::All,
    };
    let said = |problem: std::io::Error| {
        SAID.call_once(|| {
            let line = format!(
                "no state file, so that emp nodes, top and why do not see this process: {problem}"
            );
            journal.say(Level::Warn, &line);
        });
    };
    Writer::create(identity, readers).and_then(used).map_err(said).ok()
}

/// What the environment asks for.
fn asked_for(journal: &mut Journal) -> StateFile {
    match std::env::var("EMP_STATE").ok().as_deref() {
        None | Some("" | "own") => StateFile::Own,
        Some("off") => StateFile::Off,
        Some("all") => StateFile::All,
        Some(other) => {
            let line = format!("EMP_STATE={other}: must be off, own or all; taken as own");
            journal.say(Level::Error, &line);
            StateFile::Own
        }
    }
}
