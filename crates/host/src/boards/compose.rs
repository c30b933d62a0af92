//! What a board is made of. All boards run the same work, a turn ([`Core::turn`](crate::turn::core::Core::turn)); they differ in who runs
//! it, which is settled here, once, when a node starts.

use emp_firmware::Span;

use crate::boards::lock::{Habits, Shared};
use crate::boards::{guardian, thread};
use crate::choices::{Board, WaitMode};

/// While it spins fruitlessly, a thread offers its core to others this often, in case there are fewer cores than
/// spinning threads. The call costs about 0.2 µs.
const YIELD_EVERY: Span = Span::us(20);

/// A thread of the node's own, and its work until the node stops.
pub(crate) struct Worker {
    pub(crate) name: &'static str,
    pub(crate) work: fn(&Shared),
}

/// A board, composed.
pub(crate) struct Composition {
    pub(crate) habits: Habits,
    pub(crate) worker: Option<Worker>,
}

impl Composition {
    pub(crate) fn of(board: Board, wait_mode: WaitMode) -> Self {
        let habits = Habits { callers_work: true, yield_every: YIELD_EVERY, wait_mode };
        let worker = |name, work| Some(Worker { name, work });
        match board {
            Board::Inline { guardian: false } => Self { habits, worker: None },
            // Turns of the service's are not this process's; its own take what has come out of the ring, and write what found no room there. Of a
            // split board the links have a thread beside it, which knows nothing of turns.
            Board::Inline { guardian: true } | Board::Daemon | Board::Split { .. } => {
                Self { habits, worker: worker("emp-guardian", guardian::run) }
            }
            Board::Thread => {
                // If caller and progress thread share the only core that this process may use, what one spins for cannot happen before
                // it gives the core up: then always (a round trip is ten times shorter so). Where callers work, one spins for other
                // processes.
                let cores = std::thread::available_parallelism();
                let one_core = cores.is_ok_and(|cores| cores.get() == 1);
                let yield_every = if one_core { Span(0) } else { YIELD_EVERY };
                let habits = Habits { callers_work: false, yield_every, ..habits };
                Self { habits, worker: worker("emp-board", thread::run) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_board_has_its_worker() {
        let of = |board| {
            let Composition { habits, worker } = Composition::of(board, WaitMode::Adaptive);
            (habits.callers_work, worker.map(|worker| worker.name))
        };
        assert_eq!(of(Board::Inline { guardian: false }), (true, None));
        assert_eq!(of(Board::Inline { guardian: true }), (true, Some("emp-guardian")));
        assert_eq!(of(Board::Thread), (false, Some("emp-board")));
        assert_eq!(of(Board::Daemon), (true, Some("emp-guardian")));
        let split = Board::named("split:io").unwrap();
        assert_eq!(of(split), (true, Some("emp-guardian")));
    }
}
