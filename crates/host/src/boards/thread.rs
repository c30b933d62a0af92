//! The progress thread of the thread board.

use emp_firmware::Time;

use crate::boards::duty::Watch;
use crate::boards::lock::{Locked, Shared};
use crate::flying::predict::WaitTimes;
use crate::machine::clock;

/// Makes turns as long as anything happens, looks a while longer, then sleeps on the links' descriptors until something
/// arrives, a deadline comes, or a caller rings.
///
/// No wake-up is lost: falling asleep is declared under the lock, callers post under the lock, and the bell keeps
/// ringing until it is heard.
pub(crate) fn run(shared: &Shared) {
    // Its own: how long it has nothing to do is not how long callers wait.
    let mut wait_times = WaitTimes::new(shared.habits.wait_mode);
    let mut poll_set = shared.poll_set();
    let mut quiet_since = clock::now();
    let mut last_yield = quiet_since;
    while !shared.is_stopping() {
        let Some(mut core) = shared.lock_unless_broken() else { return };
        let now = core.now();
        if core.turn(now) {
            wait_times.learn(now.since(quiet_since), false);
            quiet_since = now;
            shared.signs.announce();
        }
        let quiet = now.since(quiet_since);
        if wait_times.budget(now).is_none_or(|budget| quiet < budget) {
            drop(core);
            pause(shared, now, &mut last_yield, &mut wait_times);
            continue;
        }
        let until = core.next_turn(now);
        if until > now {
            sleep(shared, core, &mut poll_set, now, until);
        }
    }
}

/// Leaves the lock to those who want it, and the core to other threads from time to time.
fn pause(shared: &Shared, now: Time, last_yield: &mut Time, wait_times: &mut WaitTimes) {
    if shared.signs.is_wanted() {
        shared.stand_aside();
    } else if wait_times.is_crowded() || now.since(*last_yield) >= shared.habits.yield_every {
        std::thread::yield_now();
        *last_yield = clock::now();
        wait_times.yielded(now, *last_yield);
    }
}

fn sleep(
    shared: &Shared,
    mut core: Locked<'_>,
    poll_set: &mut crate::machine::wakeup::PollSet,
    now: Time,
    until: Time,
) {
    let (duty, sleepers) = core.duty_mut();
    duty.start_watching(Watch::Board, until, sleepers);
    drop(core);
    let timeout = (until != Time::NEVER).then(|| clock::duration(until.since(now)));
    if poll_set.sleep(timeout).bell {
        shared.bell.hush();
    }
    if let Some(mut core) = shared.lock_unless_broken() {
        core.duty_mut().0.stop_watching(Watch::Board);
    }
}
