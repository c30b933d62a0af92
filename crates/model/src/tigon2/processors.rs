//! The two processors: each runs one piece of work after the other, and both share one memory and one semaphore.
//!
//! Work in a locked region needs the semaphore, and spins for it if the other has it (I10, I14). While both run, each is slowed down by the other's
//! use of the memory (I12).

use std::collections::VecDeque;

use emp_firmware::{Span, Time};

use super::placement::Processor;

/// A piece of work.
pub(super) struct Job<W> {
    /// Nanoseconds under the semaphore, before the rest.
    pub(super) locked: Span,
    /// Nanoseconds of the rest.
    pub(super) free: Span,
    pub(super) work: W,
}

impl<W> Job<W> {
    /// One that needs no semaphore.
    pub(super) fn plain(takes: Span, work: W) -> Self {
        Self { locked: Span(0), free: takes, work }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Idle,
    Spinning,
    Locked,
    Free,
}

struct Core<W> {
    queue: VecDeque<Job<W>>,
    state: State,
    /// Of the present step, in picoseconds at full speed.
    left_ps: u64,
    busy: Span,
    /// Its last work is done, and what follows from that is being noted: nothing begins before.
    held: bool,
}

/// Both.
pub(super) struct Processors<W> {
    cores: [Core<W>; 2],
    contention: u64,
    at: Time,
}

impl<W> Processors<W> {
    /// `contention`: how much slower each is while both run, in a thousandth.
    pub(super) fn new(contention: u64) -> Self {
        let core = || Core {
            queue: VecDeque::new(),
            state: State::Idle,
            left_ps: 0,
            busy: Span(0),
            held: false,
        };
        Self { cores: [core(), core()], contention, at: Time(0) }
    }

    /// Adds work behind what waits.
    pub(super) fn push(&mut self, now: Time, on: Processor, job: Job<W>) {
        self.advance(now);
        self.cores[on as usize].queue.push_back(job);
        self.start(on);
    }

    /// Adds work that goes on with what was done last, before what waits.
    pub(super) fn push_first(&mut self, now: Time, on: Processor, job: Job<W>) {
        self.advance(now);
        let core = &mut self.cores[on as usize];
        // What runs is at the front.
        let place = usize::from(core.state != State::Idle);
        core.queue.insert(place, job);
        self.start(on);
    }

    /// How long it has worked.
    pub(super) fn busy(&self, on: Processor) -> Span {
        self.cores[on as usize].busy
    }

    /// When the next step of any ends.
    pub(super) fn next(&self) -> Option<Time> {
        let slow = self.slowness();
        let running = self.cores.iter().filter(|core| core.runs());
        running.map(|core| self.at + Span((core.left_ps * slow).div_ceil(1_000_000))).min()
    }

    /// What followed from its last work is noted: it goes on.
    pub(super) fn resume(&mut self, on: Processor) {
        self.cores[on as usize].held = false;
        self.start(on);
    }

    /// Goes on to `now`; returns work that is done, with its processor, which [`resume`](Self::resume) lets go on. To be called until there is
    /// none.
    pub(super) fn finish(&mut self, now: Time) -> Option<(Processor, W)> {
        self.advance(now);
        loop {
            let done = [Processor::A, Processor::B].into_iter().find(|on| {
                let core = &self.cores[*on as usize];
                core.runs() && core.left_ps == 0
            })?;
            if let Some(work) = self.step(done) {
                return Some((done, work));
            }
        }
    }

    /// Ends a step that is over. Work: it was its last.
    fn step(&mut self, on: Processor) -> Option<W> {
        let core = &mut self.cores[on as usize];
        if core.state == State::Locked {
            core.state = State::Free;
            core.left_ps = core.queue.front().map_or(0, |job| job.free.0 * 1_000);
            let other = &mut self.cores[on.other() as usize];
            if other.state == State::Spinning {
                other.lock();
            }
            return None;
        }
        (core.state, core.held) = (State::Idle, true);
        core.queue.pop_front().map(|job| job.work)
    }

    /// Begins the first in the queue if none runs.
    fn start(&mut self, on: Processor) {
        let held = self.cores[on.other() as usize].state == State::Locked;
        let core = &mut self.cores[on as usize];
        let Some(job) = core.queue.front() else { return };
        if core.state != State::Idle || core.held {
            return;
        }
        if job.locked == Span(0) {
            (core.state, core.left_ps) = (State::Free, job.free.0 * 1_000);
        } else if held {
            core.state = State::Spinning;
        } else {
            core.lock();
        }
    }

    fn slowness(&self) -> u64 {
        let both = self.cores.iter().all(Core::runs);
        1_000 + if both { self.contention } else { 0 }
    }

    fn advance(&mut self, now: Time) {
        let passed = now.since(self.at).0;
        let slow = self.slowness();
        for core in &mut self.cores {
            if core.state != State::Idle {
                core.busy.0 += passed;
            }
            if core.runs() {
                core.left_ps = core.left_ps.saturating_sub(passed * 1_000_000 / slow);
                // Less than a nanosecond is none: steps end at whole ones.
                if core.left_ps < 1_000 {
                    core.left_ps = 0;
                }
            }
        }
        self.at = self.at.max(now);
    }
}

impl<W> Core<W> {
    fn runs(&self) -> bool {
        matches!(self.state, State::Locked | State::Free)
    }

    fn lock(&mut self) {
        self.state = State::Locked;
        self.left_ps = self.queue.front().map_or(0, |job| job.locked.0 * 1_000);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Processor::{A, B};

    fn run(processors: &mut Processors<char>) -> Vec<(u64, char)> {
        let mut done = Vec::new();
        while let Some(now) = processors.next() {
            while let Some((on, work)) = processors.finish(now) {
                processors.resume(on);
                done.push((now.0, work));
            }
        }
        done
    }

    #[test]
    fn each_runs_alone_at_full_speed_and_both_slower() {
        let mut two = Processors::new(250);
        two.push(Time(0), A, Job::plain(Span(1_000), 'a'));
        two.push(Time(0), A, Job::plain(Span(500), 'c'));
        two.push(Time(0), B, Job::plain(Span(800), 'b'));
        // Both at 4/5 of the speed until b is done at 1000; then a has 200 left.
        assert_eq!(run(&mut two), [(1_000, 'b'), (1_200, 'a'), (1_700, 'c')]);
        assert_eq!((two.busy(A), two.busy(B)), (Span(1_700), Span(1_000)));
    }

    #[test]
    fn one_spins_while_the_other_has_the_semaphore() {
        let mut two = Processors::new(0);
        let locked = |locked, free, work| Job { locked: Span(locked), free: Span(free), work };
        two.push(Time(0), A, locked(300, 100, 'a'));
        two.push(Time(0), B, locked(200, 0, 'b'));
        assert_eq!(run(&mut two), [(400, 'a'), (500, 'b')]);
    }

    #[test]
    fn what_goes_on_comes_before_what_waits() {
        let mut two = Processors::new(0);
        for work in ['a', 'c'] {
            two.push(Time(0), A, Job::plain(Span(10), work));
        }
        two.push_first(Time(5), A, Job::plain(Span(10), 'b'));
        assert_eq!(run(&mut two), [(10, 'a'), (20, 'b'), (30, 'c')]);
    }
}
