//! The guardian of an inline board: it takes over when the application is silent (DESIGN section 6).
//!
//! It is in one of three states:
//!
//! - *looking*: the application makes calls. From time to time the guardian looks at a counter that they move, without
//!   the lock; that is all it costs a busy application. The descriptors it leaves alone: a frame that arrives wakes nobody.
//! - *on duty*: the counter stood still between two looks. The guardian makes turns and in between sleeps on the links'
//!   descriptors until the firmware's next deadline; on a quiet node, without end. When the counter moves, or a caller
//!   wants to sleep on the descriptors itself, it goes back to looking.
//! - *off duty*: a caller sleeps in a wait and is therefore the board itself. The guardian sleeps until that is over.

use std::sync::Arc;
use std::time::Duration;

use emp_firmware::Time;

use crate::clock;
use crate::shared::{Locked, Shared};
use crate::sleepers::Watch;

/// How long the application must be silent, and how often the guardian looks, as long as it does not know better.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How often it looks at an application that has been at work at each of the last looks: each takes the application's core
/// for some 5 to 10 µs, at both ends of a ping-pong, which once a millisecond is 1 to 2 % of it. The application's peers wait
/// twice as long at most: as long as the scheduler may keep a program waiting that shares its core.
const LOOK_EVERY_MAX: Duration = Duration::from_millis(4);

/// The guardian's thread.
pub(crate) fn run(shared: &Shared) {
    let mut seen = shared.ticks();
    let mut look_after = LOOK_EVERY;
    while !shared.is_stopping() {
        shared.guardian_parker.sleep(Some(look_after));
        let ticks = shared.ticks();
        if ticks != seen {
            seen = ticks;
            look_after = (2 * look_after).min(LOOK_EVERY_MAX);
            continue;
        }
        look_after = LOOK_EVERY;
        let Some(mut core) = shared.lock_unless_broken() else { return };
        // It may have moved while the lock was waited for.
        if shared.ticks() != seen {
            continue;
        }
        if core.sleepers.watch == Watch::Nobody {
            on_duty(shared, core, seen);
        } else {
            core.sleepers.guardian = Some(Arc::clone(&shared.guardian_parker));
            drop(core);
            shared.guardian_parker.sleep(None);
        }
    }
}

/// Makes progress until the application does.
fn on_duty<'a>(shared: &'a Shared, mut core: Locked<'a>, seen: u64) {
    let mut poll_set = shared.guardian_poll_set();
    while !shared.is_stopping() && shared.ticks() == seen {
        let now = core.now();
        core.turn(now);
        let until = core.next_turn(now);
        if until <= now {
            core = shared.give_way(core);
            continue;
        }
        core.sleepers.watch = Watch::Guardian;
        core.sleepers.until = until;
        drop(core);
        let timeout = (until != Time::NEVER).then(|| clock::duration(until.since(now)));
        if poll_set.sleep(timeout).bell {
            shared.guardian_bell.hush();
        }
        let Some(again) = shared.lock_unless_broken() else { return };
        core = again;
        // A caller may have taken the watch over.
        if core.sleepers.watch == Watch::Guardian {
            core.sleepers.watch = Watch::Nobody;
        }
    }
}
