//! What a node says aloud: choices, peers and links lost and found again, what it has counted when it is closed.
//!
//! Lines go to standard error as far as the environment asks for them (`EMP_LOG`), and to the program's own functions
//! ([`NodeBuilder::log`](crate::NodeBuilder::log), [`NodeBuilder::notices`](crate::NodeBuilder::notices)).

use std::collections::VecDeque;
use std::fmt;
use std::io::Write;

use emp_firmware::{Span, Time};
use emp_wire::NodeId;

use crate::machine::clock;

/// Gets lines about choices that were made.
pub(crate) type Log = Box<dyn Fn(&str) + Send>;

/// How much a line matters.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    /// Messages were lost of which nobody else is told, or two nodes claim one identity: something is to be done.
    Error,
    /// A peer was lost, and with it what was under way.
    Lost,
    /// A path or a link was lost, or something works again.
    Warn,
    /// What was chosen, who was met, what was counted.
    Info,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Lost | Self::Warn => "warn",
            Self::Info => "info",
        })
    }
}

/// Lines about peers and links in one such time, at most: a switch that dies takes hundreds of peers with it, and each line is
/// written while the node stands still.
const LINES_MAX: u32 = 100;
const LINES_IN: Span = Span::ms(1_000);

/// Lines of peers and links that are kept until they are shown to whoever looks from outside: as many as that shows.
const RECENT_MAX: usize = 12;

/// A line of a peer or link.
pub(crate) struct Line {
    pub(crate) at: Time,
    pub(crate) level: Level,
    /// The peer that it is of.
    pub(crate) about: Option<NodeId>,
    pub(crate) text: String,
}

/// Where a node's lines go.
pub(crate) struct Journal {
    recent: VecDeque<Line>,
    name: String,
    started: Time,
    /// The last level that is written to standard error.
    written: Option<Level>,
    log: Option<Log>,
    notices: Option<Log>,
    /// Takes lines of lost peers instead.
    alarms: Option<Log>,
    since: Time,
    lines: u32,
    left_out: u32,
}

/// What the environment asks for. `None`: nothing is said of it there.
fn wish(text: Option<&str>) -> Result<Option<Option<Level>>, String> {
    Ok(Some(match text {
        None | Some("") => return Ok(None),
        Some("off") => None,
        Some("error") => Some(Level::Error),
        Some("warn") => Some(Level::Warn),
        Some("info") => Some(Level::Info),
        Some(other) => {
            return Err(format!(
                "EMP_LOG={other}: must be off, error, warn or info; taken as unset"
            ));
        }
    }))
}

impl Journal {
    /// Of a node of this name, with the functions that the program gave.
    pub(crate) fn new(name: &str, log: Option<Log>, notices: Option<Log>) -> Self {
        let (name, now) = (name.to_owned(), clock::now());
        let mut journal = Self {
            recent: VecDeque::new(),
            name,
            started: now,
            written: None,
            log,
            notices,
            alarms: None,
            since: now,
            lines: 0,
            left_out: 0,
        };
        let wished = wish(std::env::var("EMP_LOG").ok().as_deref());
        // Who has notices told to itself decides what becomes of them.
        let unset = journal.notices.is_none().then_some(Level::Error);
        journal.written = wished.as_ref().ok().copied().flatten().unwrap_or(unset);
        if let Err(problem) = wished {
            journal.write(Level::Error, &problem);
        }
        journal
    }

    /// The program's own function for lines of this level.
    fn own(&self, level: Level) -> Option<&Log> {
        match level {
            Level::Info => self.log.as_ref(),
            Level::Lost => self.alarms.as_ref().or(self.notices.as_ref()),
            Level::Error | Level::Warn => self.notices.as_ref(),
        }
    }

    /// Has a function of the program's told of lost peers, instead of the one that is told of all that goes wrong.
    pub(crate) fn set_alarms(&mut self, alarms: Option<Log>) {
        self.alarms = alarms;
    }

    /// True if somebody wants lines of this level.
    pub(crate) fn wants(&self, level: Level) -> bool {
        self.own(level).is_some() || self.written.is_some_and(|written| level <= written)
    }

    /// Says something.
    pub(crate) fn say(&self, level: Level, text: &str) {
        if let Some(own) = self.own(level) {
            own(text);
        }
        if self.written.is_some_and(|written| level <= written) {
            self.write(level, text);
        }
    }

    /// Lines of peers and links that were said since this was last asked, the last of them.
    pub(crate) fn recent(&mut self) -> impl Iterator<Item = Line> + '_ {
        self.recent.drain(..)
    }

    /// Says something that may come often; beyond a number each second it is only counted.
    pub(crate) fn say_often(&mut self, level: Level, text: &str) {
        self.say_of(None, level, text);
    }

    /// The same of a peer.
    pub(crate) fn say_of(&mut self, about: Option<NodeId>, level: Level, text: &str) {
        let now = clock::now();
        if self.recent.len() >= RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Line { at: now, level, about, text: text.to_owned() });
        if now.since(self.since) >= LINES_IN {
            (self.since, self.lines) = (now, 0);
            let left_out = std::mem::take(&mut self.left_out);
            if left_out != 0 {
                self.say(Level::Warn, &format!("{left_out} lines were left out"));
            }
        }
        self.lines += 1;
        if self.lines > LINES_MAX && level != Level::Error {
            self.left_out += 1;
        } else {
            self.say(level, text);
        }
    }

    /// One line, in one call, so that lines of several processes stay whole. Where it cannot be written there is nobody to tell.
    fn write(&self, level: Level, text: &str) {
        let (process, name) = (std::process::id(), &self.name);
        let seconds = clock::duration(clock::now().since(self.started)).as_secs_f64();
        let line = format!("emp[{process}] {seconds:.3} {level} {name}: {text}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_says_what_is_written() {
        assert_eq!(wish(None), Ok(None));
        assert_eq!(wish(Some("off")), Ok(Some(None)));
        assert_eq!(wish(Some("warn")), Ok(Some(Some(Level::Warn))));
        let problem = wish(Some("loud")).unwrap_err();
        assert!(problem.starts_with("EMP_LOG=loud: must be"), "{problem}");
        assert!(Level::Error < Level::Warn && Level::Warn < Level::Info);
    }

    #[test]
    fn a_flood_of_lines_is_counted() {
        let (sender, lines) = std::sync::mpsc::channel();
        let notices: Log = Box::new(move |line: &str| sender.send(line.to_owned()).unwrap());
        let mut journal = Journal::new("a", None, Some(notices));
        for _ in 0..1_000 {
            journal.say_often(Level::Warn, "lost");
        }
        assert_eq!(lines.try_iter().count(), LINES_MAX as usize);
        journal.since = Time(0);
        journal.say_often(Level::Warn, "last");
        let told: Vec<_> = lines.try_iter().collect();
        assert_eq!(told, ["900 lines were left out", "last"]);
    }
}
