//! Waiting: looking for a while, then sleeping on the links' descriptors until the next deadline.
//!
//! With the inline board, a waiting caller is also the one that makes progress. Of several that wait, one sleeps on the
//! descriptors (it *watches*), the others sleep until they are woken: by whoever sees their operation end, or by the
//! watcher when it leaves. Where waits are long, one *works* while it is awake, and the others sleep meanwhile, too:
//! several that look in turn would take the lock and the processor from each other. A sleeper that is woken by frames that another thread has already dealt with naps without
//! the descriptors for a moment, so that it does not disturb a thread that spins.

use std::time::Duration;

use emp_firmware::{Span, Time};

use crate::boards::duty::Watch;
use crate::boards::lock::{Locked, Shared};
use crate::flying::sleepers::{How, Interest};
use crate::machine::clock;
use crate::machine::wakeup::Parker;
use crate::turn::core::Core;

/// How long a sleeper leaves the descriptors alone after it saw another thread make progress: long against a round trip,
/// short against what anyone would notice.
const NAP: Duration = Duration::from_micros(250);

/// Looks at the links for each look at the clock, while nothing happens: reading it costs more than looking at a mapped
/// ring, and a frame that has just arrived should not wait for that. The time that the firmware is then given is late by
/// less than a microsecond.
const LOOKS_PER_READING: u32 = 4;

/// Waits until `check` finds what it looks for. `None`: the time has passed, or the node was closed, after which nothing
/// happens any more.
///
/// `interest` says what may make `check` succeed when another thread makes progress; `check` runs with the core locked,
/// after each turn in which anything happened.
pub(crate) fn wait_for<T>(
    shared: &Shared,
    interest: &Interest,
    timeout: Option<Duration>,
    mut check: impl FnMut(&mut Core) -> Option<T>,
) -> Option<T> {
    let mut core = shared.lock();
    if let Some(found) = check(&mut core) {
        return Some(found);
    }
    if core.is_closed() {
        return None;
    }
    let waiter = Waiter::new(shared, interest, timeout, &core);
    if shared.habits.callers_work {
        waiter.inline(core, check)
    } else {
        waiter.beside_thread(core, check)
    }
}

struct Waiter<'a> {
    shared: &'a Shared,
    interest: &'a Interest,
    deadline: Time,
    budget: Option<Span>,
    crowded: bool,
    since: Time,
    /// Since when nothing has happened.
    quiet_since: Time,
    last_yield: Time,
    /// Another thread makes progress: leave the descriptors to it for now.
    others_at_work: bool,
    /// Nudges when `check` was last asked.
    nudges: u64,
    /// This caller is the one that makes progress.
    works: bool,
}

impl<'a> Waiter<'a> {
    fn new(
        shared: &'a Shared,
        interest: &'a Interest,
        timeout: Option<Duration>,
        core: &Core,
    ) -> Self {
        let now = core.now();
        Self {
            shared,
            interest,
            deadline: timeout.map_or(Time::NEVER, |timeout| now + clock::span(timeout)),
            budget: core.wait_times.budget(now),
            crowded: core.wait_times.is_crowded(),
            since: now,
            quiet_since: now,
            last_yield: now,
            others_at_work: false,
            nudges: shared.signs.nudges(),
            works: false,
        }
    }

    /// True if threads were nudged since this was last asked.
    #[inline]
    fn is_nudged(&mut self) -> bool {
        let nudges = self.shared.signs.nudges();
        std::mem::replace(&mut self.nudges, nudges) != nudges
    }

    /// True as long as looking again is better than sleeping: the budget, and as long again in which each look is
    /// followed by a yield.
    #[inline]
    fn spins(&self, now: Time) -> bool {
        self.budget.is_none_or(|budget| now.since(self.quiet_since).0 < 2 * budget.0)
    }

    /// True if it is time to offer the processor to others.
    #[inline]
    fn yields(&self, now: Time) -> bool {
        let quiet = now.since(self.quiet_since);
        self.crowded
            || now.since(self.last_yield.max(self.quiet_since)) >= self.shared.habits.yield_every
            || self.budget.is_some_and(|budget| quiet >= budget)
    }

    /// Notes a yield, and what it says of the cores.
    fn yielded(&mut self, core: &mut Core, before: Time, now: Time) {
        core.wait_times.yielded(before, now);
        self.crowded = core.wait_times.is_crowded();
        self.last_yield = now;
    }

    /// Waits while making progress in this thread.
    fn inline<T>(
        mut self,
        mut core: Locked<'a>,
        mut check: impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        let mut now = self.quiet_since;
        let mut looks = 0u32;
        // The core was unlocked: another thread may have found what this one waits for.
        let mut was_away = false;
        let found = loop {
            if self.shared.signs.is_wanted() {
                core = self.shared.give_way(core);
                was_away = true;
                // Others may have had the core for long, and gave the firmware later times.
                now = core.now();
            }
            self.shared.signs.tick();
            self.works |= core.duty_mut().0.start_working();
            let worked = core.turn(now);
            // From here to a sleep the core stays locked: what ends this thread's operation comes before or wakes it.
            if (worked || was_away || self.is_nudged())
                && let Some(found) = check(&mut core)
            {
                break Some(found);
            }
            if was_away && core.is_closed() {
                break None;
            }
            was_away = false;
            looks = looks.wrapping_add(1);
            if !worked && !looks.is_multiple_of(LOOKS_PER_READING) {
                continue;
            }
            now = core.now();
            if worked {
                self.quiet_since = now;
            }
            if now >= self.deadline {
                break None;
            }
            if self.leaves_it_to_others(&core) || !self.spins(now) {
                core = self.sleep(core, now);
            } else if self.yields(now) {
                drop(core);
                std::thread::yield_now();
                core = self.shared.lock();
                let before = std::mem::replace(&mut now, core.now());
                self.yielded(&mut core, before, now);
            } else {
                continue;
            }
            was_away = true;
            now = core.now();
            // Whoever got the core and computes makes this one sleep, for a while.
            self.budget = core.wait_times.budget(now);
        };
        core.wait_times.learn(now.since(self.since), found.is_none());
        self.stop_working(&mut core);
        let (duty, sleepers) = core.duty_mut();
        if duty.is_watched() || duty.is_working() {
            core.mind_watcher(now);
        } else {
            duty.hand_over(sleepers);
        }
        found
    }

    /// Waits are long, and another caller makes progress, or watches.
    #[inline]
    fn leaves_it_to_others(&self, core: &Locked<'_>) -> bool {
        let others = !self.works || core.duty().watcher() == Watch::Caller;
        others && core.wait_times.are_long()
    }

    fn stop_working(&mut self, core: &mut Locked<'_>) {
        if std::mem::take(&mut self.works) {
            core.duty_mut().0.stop_working();
        }
    }

    /// Sleeps once: on the descriptors if nobody else does, otherwise until woken.
    fn sleep(&mut self, mut core: Locked<'a>, now: Time) -> Locked<'a> {
        self.stop_working(&mut core);
        // Whoever works or watches wakes another when it leaves.
        let others_at_work = std::mem::take(&mut self.others_at_work);
        let relieved = core.duty().is_working() && core.wait_times.are_long();
        if core.duty().watcher() == Watch::Caller || relieved || others_at_work {
            return self.park(core, now, (others_at_work && !relieved).then_some(NAP));
        }
        let until = core.next_turn(now).min(self.deadline);
        if until <= now {
            return core;
        }
        // The guardian has nothing to do as long as a caller watches.
        let (duty, sleepers) = core.duty_mut();
        duty.start_watching(Watch::Caller, until, sleepers);
        core.wait_times.sleeps += 1;
        let ticket = core.sleepers.enter(self.interest.clone(), How::Watching);
        let ticks = self.shared.signs.ticks();
        drop(core);
        let woken = self.shared.poll_set().sleep(timeout(until, now));
        if woken.bell {
            self.shared.bell.hush();
        }
        let mut core = self.shared.lock();
        core.sleepers.leave(ticket);
        core.duty_mut().0.stop_watching(Watch::Caller);
        self.others_at_work = woken.link && self.shared.signs.ticks() != ticks;
        core
    }

    /// Sleeps without the descriptors.
    fn park(&self, mut core: Locked<'a>, now: Time, nap: Option<Duration>) -> Locked<'a> {
        core.mind_watcher(now);
        let parker = Parker::mine();
        let how = if nap.is_some() { How::Napping } else { How::Parked };
        let ticket = core.sleepers.enter(self.interest.clone(), how(parker.clone()));
        core.wait_times.sleeps += 1;
        drop(core);
        let limit = timeout(self.deadline, now);
        parker.sleep(match (limit, nap) {
            (Some(limit), Some(nap)) => Some(limit.min(nap)),
            (limit, nap) => limit.or(nap),
        });
        let mut core = self.shared.lock();
        core.sleepers.leave(ticket);
        core
    }

    /// Waits while the progress thread works.
    fn beside_thread<T>(
        mut self,
        mut core: Locked<'a>,
        mut check: impl FnMut(&mut Core) -> Option<T>,
    ) -> Option<T> {
        let mut now = self.quiet_since;
        loop {
            // Read before the check and under the lock: what comes later moves it.
            let news = self.shared.signs.news();
            let found = check(&mut core);
            if found.is_some() || now >= self.deadline || core.is_closed() {
                core.wait_times.learn(now.since(self.since), found.is_none());
                return found;
            }
            if self.spins(now) {
                drop(core);
                let yielded = self.spin(news, &mut now);
                core = self.shared.lock();
                if let Some((before, after)) = yielded {
                    self.yielded(&mut core, before, after);
                }
            } else {
                core = self.park(core, now, None);
                now = clock::now();
            }
        }
    }
}

impl Waiter<'_> {
    /// Spins without the lock until there is news or it is time for something else. If a yield is why it returns: from
    /// when to when that took.
    fn spin(&self, news: u64, now: &mut Time) -> Option<(Time, Time)> {
        while self.shared.signs.news() == news && *now < self.deadline && self.spins(*now) {
            if self.yields(*now) {
                let before = *now;
                std::thread::yield_now();
                *now = clock::now();
                return Some((before, *now));
            }
            std::hint::spin_loop();
            *now = clock::now();
        }
        None
    }
}

/// The time left until `until`; `None` if that never comes.
fn timeout(until: Time, now: Time) -> Option<Duration> {
    (until != Time::NEVER).then(|| clock::duration(until.since(now)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Instant;

    use emp_wire::NodeId;

    use super::*;
    use crate::choices::{Board, WaitMode};
    use crate::link::Fabric;
    use crate::node::running::Node;

    const LONG: Duration = Duration::from_secs(20);

    fn lone(mode: WaitMode) -> Node {
        let fabric = Fabric::new(1).expect("descriptors");
        let link = fabric.link(0, NodeId::from_name("a").destination_tag()).expect("a place");
        let builder = Node::builder().name("a").link(link).wait_mode(mode);
        builder.board(Board::Inline { guardian: false }).start().expect("the node starts")
    }

    fn rouse(shared: &Shared) {
        let mut core = shared.lock();
        let (duty, sleepers) = core.duty_mut();
        duty.rouse(sleepers);
    }

    /// Waits until so many callers sleep away from the links and somebody, or nobody, sleeps on them.
    fn settle(shared: &Shared, parked: usize, watch: Watch) {
        let start = Instant::now();
        loop {
            let core = shared.lock();
            let seen = (core.sleepers.parked(), core.duty().watcher());
            drop(core);
            if seen == (parked, watch) {
                return;
            }
            assert!(start.elapsed() < LONG, "{seen:?} instead of {:?}", (parked, watch));
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Where waits are long, all callers but the one that makes progress sleep away from the links. When it leaves, one of them takes over, and
    /// so on to the last.
    #[test]
    fn where_waits_are_long_one_of_several_makes_progress() {
        let node = lone(WaitMode::Sleep);
        let shared = node.inner.seat.shared();
        let may_end = AtomicUsize::new(0);
        shared.lock().duty_mut().0.start_working();
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let take = |left: usize| left.checked_sub(1);
                    let check = |_: &mut Core| {
                        may_end.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).ok()
                    };
                    assert!(wait_for(shared, &Interest::Events, Some(LONG), check).is_some());
                });
            }
            settle(shared, 3, Watch::Nobody);
            let mut core = shared.lock();
            let (duty, sleepers) = core.duty_mut();
            duty.stop_working();
            duty.hand_over(sleepers);
            drop(core);
            for left in (0..3).rev() {
                settle(shared, left, Watch::Caller);
                assert!(!shared.lock().duty().is_working(), "who sleeps does not work");
                may_end.store(1, Ordering::SeqCst);
                rouse(shared);
            }
            settle(shared, 0, Watch::Nobody);
        });
    }

    /// Where they are short, each looks for itself.
    #[test]
    fn where_waits_are_short_each_looks() {
        let node = lone(WaitMode::Adaptive);
        let shared = node.inner.seat.shared();
        let may_end = AtomicUsize::new(0);
        shared.lock().duty_mut().0.start_working();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let check = |_: &mut Core| (may_end.load(Ordering::SeqCst) > 0).then_some(());
                assert!(wait_for(shared, &Interest::Events, Some(LONG), check).is_some());
            });
            settle(shared, 0, Watch::Caller);
            may_end.store(1, Ordering::SeqCst);
            rouse(shared);
        });
    }
}
