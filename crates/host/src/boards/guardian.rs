//! The guardian of an inline board: it takes over when the application is silent.
//!
//! It is in one of three states:
//!
//! - *looking*: the application makes calls. From time to time, the sooner the fewer they are, the guardian looks at a counter that
//!   they move, without the lock; that is all it costs a busy application. The descriptors it leaves alone: a frame that arrives wakes nobody.
//! - *on duty*: the counter stood still between two looks. The guardian makes turns and in between sleeps on the links'
//!   descriptors until the firmware's next deadline; on a quiet node, without end. When the counter moves, or a caller
//!   wants to sleep on the descriptors itself, it goes back to looking.
//! - *off duty*: a caller sleeps in a wait and is therefore the board itself. The guardian sleeps until that is over.

use std::time::Duration;

use emp_firmware::Time;

use crate::boards::duty::Watch;
use crate::boards::lock::{Locked, Shared};
use crate::machine::clock;

/// How often the guardian looks at an application of which it knows no better.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How often it looks at an application that has been at work at each of the last looks: each takes the application's core
/// for some 5 to 10 µs, at both ends of a ping-pong, which once a millisecond is 1 to 2 % of it. The application's peers wait
/// twice as long at most: as long as the scheduler may keep a program waiting that shares its core.
const LOOK_EVERY_MAX: Duration = Duration::from_millis(4);

/// Calls between two looks that only an application makes that does nothing else: one that waits makes hundreds in a millisecond.
const CALLS_AT_WORK: u64 = 100;

/// How soon it looks again at an application that makes a call now and then: one that computes and asks every few milliseconds whether
/// something has come would else have nobody to make progress for most of the time, at both ends.
const LOOK_SOON: Duration = Duration::from_micros(250);

/// Calls between two looks that count as one now and then: a test of a request, and what follows if it has ended.
const CALLS_NOW_AND_THEN: u64 = 2;

/// When to look again, after so many calls since the last look.
fn next_look(calls: u64, last: Duration) -> Duration {
    match calls {
        0..=CALLS_NOW_AND_THEN => LOOK_SOON,
        CALLS_AT_WORK.. => (2 * last).clamp(LOOK_EVERY, LOOK_EVERY_MAX),
        _ => LOOK_EVERY,
    }
}

/// The guardian's thread.
pub(crate) fn run(shared: &Shared) {
    let mut seen = shared.signs.ticks();
    let mut look_after = LOOK_EVERY;
    while !shared.is_stopping() {
        shared.guardian_parker.sleep(Some(look_after));
        let ticks = shared.signs.ticks();
        if ticks != seen {
            look_after = next_look(ticks.wrapping_sub(seen), look_after);
            seen = ticks;
            continue;
        }
        look_after = LOOK_SOON;
        let Some(mut core) = shared.lock_unless_broken() else { return };
        // It may have moved while the lock was waited for.
        if shared.signs.ticks() != seen {
            continue;
        }
        if core.duty().watcher() == Watch::Nobody {
            on_duty(shared, core, seen);
            seen = shared.signs.ticks();
        } else {
            core.duty_mut().0.rest_guardian(&shared.guardian_parker);
            drop(core);
            shared.guardian_parker.sleep(None);
        }
    }
}

/// Makes progress until the application does.
fn on_duty<'a>(shared: &'a Shared, mut core: Locked<'a>, seen: u64) {
    let mut poll_set = shared.guardian_poll_set();
    while !shared.is_stopping() && shared.signs.ticks() == seen {
        let now = core.now();
        core.turn(now);
        let until = core.next_turn(now);
        if until <= now {
            core = shared.give_way(core);
            continue;
        }
        let (duty, sleepers) = core.duty_mut();
        duty.start_watching(Watch::Guardian, until, sleepers);
        drop(core);
        let timeout = (until != Time::NEVER).then(|| clock::duration(until.since(now)));
        if poll_set.sleep(timeout).bell {
            shared.guardian_bell.hush();
        }
        let Some(again) = shared.lock_unless_broken() else { return };
        core = again;
        core.duty_mut().0.stop_watching(Watch::Guardian);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_does_nothing_else_is_looked_at_seldom_and_who_asks_now_and_then_soon() {
        let looks = [1_000, 1_000, 1_000, 1_000].iter().scan(LOOK_SOON, |last, calls| {
            *last = next_look(*calls, *last);
            Some(last.as_millis())
        });
        assert_eq!(looks.collect::<Vec<_>>(), [1, 2, 4, 4]);
        assert_eq!(next_look(1, LOOK_EVERY_MAX), LOOK_SOON);
        assert_eq!(next_look(20, LOOK_EVERY_MAX), LOOK_EVERY);
    }
}
