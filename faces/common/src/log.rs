//! What a face says to its user: one line for each thing, to standard error, or to whoever has taken that over.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

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

/// Lines to be written: 0 not read yet, 1 none, 2 warnings, 3 all.
static WANTED: AtomicU8 = AtomicU8::new(0);

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

/// Says what nobody should have to ask for, as it ends programs: a peer was lost. It goes to standard error even where the interface has a log
/// of its own, if that does not show it; `EMP_LOG=off` silences it.
#[cold]
pub fn alarm(text: &str) {
    let asked = std::env::var("EMP_LOG").unwrap_or_default();
    if writes(&asked, Level::Warning) {
        return;
    }
    let shown = SINK.get().is_some_and(|sink| sink(Level::Warning, text));
    if !shown && asked != "off" {
        write(text);
    }
}

/// Says something to those who ask (`EMP_LOG=info`).
#[cold]
pub fn inform(text: &str) {
    say(Level::Information, text);
}

fn say(level: Level, text: &str) {
    if let Some(sink) = SINK.get() {
        sink(level, text);
        return;
    }
    let needed = if level == Level::Warning { 2 } else { 3 };
    if wanted() >= needed {
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
            let level = parse(&text);
            WANTED.store(level.unwrap_or(2), Ordering::Relaxed);
            if level.is_none() {
                warn(&format!("EMP_LOG={text}: must be off, error, warn or info; taken as unset"));
            }
            level.unwrap_or(2)
        }
        wanted => wanted,
    }
}

fn parse(text: &str) -> Option<u8> {
    match text {
        // What is an error, nodes say themselves.
        "off" | "error" => Some(1),
        "" | "warn" => Some(2),
        "info" => Some(3),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_have_names() {
        assert_eq!(
            ["off", "error", "", "warn", "info", "loud"].map(parse),
            [Some(1), Some(1), Some(2), Some(2), Some(3), None]
        );
    }

    #[test]
    fn what_nodes_write_themselves_is_not_said_again() {
        let of = |asked| (writes(asked, Level::Warning), writes(asked, Level::Information));
        assert_eq!(["", "off", "error"].map(of), [(false, false); 3]);
        assert_eq!(["warn", "info"].map(of), [(true, false), (true, true)]);
    }
}
