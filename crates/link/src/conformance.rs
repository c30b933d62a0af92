//! What every link must do, checked over any pair of links: real ones in tests, and whatever a user
//! has at hand (`emp doctor`).
//!
//! Nothing here panics: a check that fails says in a sentence what it saw.

mod bench;
mod delivery;
mod landing;
mod limits;
mod long_frames;
mod sleeping;

pub use bench::source_tag_of;

use crate::Link;

/// What a check answers.
pub type Outcome = Result<(), String>;

/// Two links that reach each other, fresh for each check.
pub trait Pair {
    /// What is tested, for people: `udp on 127.0.0.1`.
    fn name(&self) -> String;

    /// Opens both ends; end `i` takes frames with `tags[i]`, and all that it sends bears [`source_tag_of`] that. A frame to everyone from one
    /// end reaches the other.
    fn open(&self, tags: [u16; 2]) -> Result<[Box<dyn Link>; 2], String>;

    /// Whether another thread of this process says that frames are there: so it may when they were taken already, once.
    fn is_threaded(&self) -> bool {
        false
    }

    /// Takes end 0's interface down, or up again. False if this pair has none to play with.
    fn set_up(&self, up: bool) -> bool {
        let _ = up;
        false
    }
}

/// One check: its name, and what it does.
#[derive(Clone, Copy)]
pub struct Check {
    /// What is promised, in a few words.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&dyn Pair) -> Outcome,
}

/// All checks.
pub const CHECKS: [Check; 18] = [
    Check { name: "frames of every size arrive intact", run: delivery::every_size },
    Check { name: "frames are gathered from parts", run: delivery::gather },
    Check { name: "what is lent may change at once", run: delivery::lent },
    Check { name: "batches keep their order", run: delivery::order },
    Check { name: "trains arrive as single frames", run: delivery::trains },
    Check { name: "payload lands where memory is offered", run: landing::landing },
    Check { name: "long frames arrive whole, or are refused", run: long_frames::long_frames },
    Check { name: "the source's address leads back", run: delivery::source_address },
    Check { name: "frames to everyone arrive", run: delivery::everyone },
    Check { name: "both ways work at once", run: delivery::both_ways },
    Check { name: "counts add up", run: delivery::statistics },
    Check { name: "other nodes' frames are filtered", run: limits::tags },
    Check { name: "impossible frames are refused and counted", run: limits::refused },
    Check { name: "a budget is respected", run: limits::budget },
    Check { name: "a flood does no harm", run: limits::flood },
    Check { name: "an interface may go down and up", run: limits::down_and_up },
    Check { name: "waiting ends with a frame or the time", run: sleeping::wait },
    Check { name: "the descriptor shows frames", run: sleeping::readiness },
];

/// Runs all checks; the error names each that failed.
pub fn run(pair: &dyn Pair) -> Outcome {
    let failures: Vec<String> = CHECKS
        .iter()
        .filter_map(|check| Some(format!("{}: {}", check.name, (check.run)(pair).err()?)))
        .collect();
    if failures.is_empty() {
        Ok(())
    } else {
        Err(format!("{}: {}", pair.name(), failures.join("; ")))
    }
}
