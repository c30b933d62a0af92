//! What a face says to its user: one line for each thing, to standard error, or to whoever has taken that over.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, OnceLock};

/// How much the user wants to know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Level {
    /// What should be known without asking: mistakes, failures, peers that were lost.
    Warning,
    /// What was chosen, and why.
    Information,
}

/// Takes the lines instead of standard error; those of a level that nobody wants as well. True: somebody sees it.
pub type Sink = fn(Level, &str) -> bool;

static SINK: OnceLock<Sink> = OnceLock::new();

/// Lines to be written: 0 not read yet, else one of those below.
static WANTED: AtomicU8 = AtomicU8::new(0);

const NONE: u8 = 1;
const ERRORS: u8 = 2;
const WARNINGS: u8 = 3;
const ALL: u8 = 4;

/// The error that was written last: some interfaces ask for the same thing many times, and one line is enough.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Has all lines given to `sink` from now on: the interface has a log of its own.
pub fn redirect(sink: Sink) {
    // The first one stays: there is one interface in one library.
    let _ = SINK.set(sink);
}

/// True if nodes are to give their lines to the face: it has a log of its own, or nothing was asked for by `EMP_LOG`, by which
/// nodes write to standard error themselves.
pub fn takes_lines_of_nodes() -> bool {
    SINK.get().is_some() || std::env::var_os("EMP_LOG").is_none_or(|text| text.is_empty())
}

/// Says what a node tells of itself, unless it writes that to standard error by itself, as `EMP_LOG` asks: one line for each thing.
#[cold]
pub fn of_node(level: Level, text: &str) {
    let asked = std::env::var("EMP_LOG").unwrap_or_default();
    if !writes(&asked, level) {
        say(level, text);
    }
}

/// Whether nodes write lines of a level to standard error by themselves.
fn writes(asked: &str, level: Level) -> bool {
    asked == "info" || asked == "warn" && level == Level::Warning
}

/// Says something that the user should know without asking.
#[cold]
pub fn warn(text: &str) {
    say(Level::Warning, text);
}

/// Says what nobody should have to ask for, as it ends programs: a peer was lost. As [`error`], unless nodes write it by themselves.
#[cold]
pub fn alarm(text: &str) {
    let asked = std::env::var("EMP_LOG").unwrap_or_default();
    if !writes(&asked, Level::Warning) {
        tell(Level::Warning, ERRORS, text);
    }
}

/// Says why a call fails that the user has to mend: a setting that makes no sense, say. It goes to standard error even where the interface has a
/// log of its own, if that does not show it; `EMP_LOG=off` silences it. Once, if it is the same again.
#[cold]
pub fn error(text: &str) {
    // Whoever holds it was perhaps not forked with this process.
    if let Ok(mut last) = LAST.try_lock() {
        if *last == text {
            return;
        }
        text.clone_into(&mut last);
    }
    tell(Level::Warning, ERRORS, text);
}

/// Says something to those who ask (`EMP_LOG=info`).
#[cold]
pub fn inform(text: &str) {
    say(Level::Information, text);
}

fn say(level: Level, text: &str) {
    tell(level, if level == Level::Warning { WARNINGS } else { ALL }, text);
}

/// To the interface's own log, and to standard error if that does not show it and so much is wanted there.
fn tell(level: Level, needed: u8, text: &str) {
    let shown = SINK.get().is_some_and(|sink| sink(level, text));
    if !shown && wanted() >= needed {
        write(text);
    }
}

/// One write for each line, so that those of several processes do not mix. Nobody is left to hear of a failure.
fn write(text: &str) {
    let line = format!("emp: {text}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

/// What `EMP_LOG` asks for.
fn wanted() -> u8 {
    match WANTED.load(Ordering::Relaxed) {
        0 => {
            let text = std::env::var("EMP_LOG").unwrap_or_default();
            // Where the interface has a log of its own, warnings are there for those who ask it.
            let usual = if SINK.get().is_some() { ERRORS } else { WARNINGS };
            let asked = if text.is_empty() { Some(usual) } else { parse(&text) };
            WANTED.store(asked.unwrap_or(usual), Ordering::Relaxed);
            if asked.is_none() {
                error(&format!("EMP_LOG={text}: must be off, error, warn or info; taken as unset"));
            }
            asked.unwrap_or(usual)
        }
        wanted => wanted,
    }
}

fn parse(text: &str) -> Option<u8> {
    match text {
        "off" => Some(NONE),
        "error" => Some(ERRORS),
        "warn" => Some(WARNINGS),
        "info" => Some(ALL),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names() {
        assert_eq!(
            ["off", "error", "warn", "info", "loud"].map(parse),
            [Some(NONE), Some(ERRORS), Some(WARNINGS), Some(ALL), None]
        );
    }

    #[test]
    fn what_nodes_write_themselves_is_not_said_again() {
        let of = |asked| (writes(asked, Level::Warning), writes(asked, Level::Information));
        assert_eq!(["", "off", "error"].map(of), [(false, false); 3]);
        assert_eq!(["warn", "info"].map(of), [(true, false), (true, true)]);
    }
}
