//! Memory that measures: plain bytes, and a clock that is read whenever a stage begins or ends.

use std::cell::Cell;
use std::time::Instant;

use emp_firmware::{HostMemory, MemoryFault, Segment, Stage};
use emp_wire::Checksum;

/// How often a stage began, and the time in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub calls: u64,
    pub ns: f64,
}

/// What each stage took, in the order of [`Stage::ALL`].
pub type Counts = [Count; Stage::ALL.len()];

/// Bytes that are addressed from 0.
pub struct Timed {
    bytes: Vec<u8>,
    began: Instant,
    current: Cell<Stage>,
    since: Cell<u64>,
    calls: [Cell<u64>; Stage::ALL.len()],
    /// Boundaries within which the time of each was counted: each has a part of the clock's own time.
    spans: [Cell<u64>; Stage::ALL.len()],
    ns: [Cell<u64>; Stage::ALL.len()],
}

impl Timed {
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes: vec![7; bytes],
            began: Instant::now(),
            current: Cell::new(Stage::Rest),
            since: Cell::new(0),
            calls: Default::default(),
            spans: Default::default(),
            ns: Default::default(),
        }
    }

    /// The bytes of a segment.
    pub fn bytes(&self, of: Segment) -> &[u8] {
        &self.bytes[of.address as usize..][..of.bytes as usize]
    }

    /// Forgets what was counted.
    pub fn clear(&self) {
        for cell in self.calls.iter().chain(&self.spans).chain(&self.ns) {
            cell.set(0);
        }
    }

    /// What was counted, less what reading the clock takes.
    pub fn counts(&self, clock_ns: f64) -> Counts {
        core::array::from_fn(|stage| Count {
            calls: self.calls[stage].get(),
            ns: (self.ns[stage].get() as f64 - clock_ns * self.spans[stage].get() as f64).max(0.0),
        })
    }

    fn change(&self, to: Stage) -> Stage {
        let now = self.began.elapsed().as_nanos() as u64;
        let from = self.current.replace(to);
        let cell = &self.ns[from as usize];
        cell.set(cell.get() + now - self.since.get());
        self.spans[from as usize].set(self.spans[from as usize].get() + 1);
        self.since.set(now);
        from
    }
}

/// What one reading of the clock takes on average, in nanoseconds: between two of them nothing happens.
pub fn clock_ns() -> f64 {
    const READINGS: u32 = 20_000;
    // The best of some, as whatever disturbs makes it longer.
    let run = || {
        let timed = Timed::new(0);
        let start = Instant::now();
        for _ in 0..READINGS {
            timed.change(Stage::Rest);
        }
        start.elapsed().as_nanos() as f64 / f64::from(READINGS)
    };
    (0..5).map(|_| run()).fold(f64::INFINITY, f64::min)
}

impl HostMemory for Timed {
    fn read(&self, from: Segment, into: &mut [u8]) -> Result<(), MemoryFault> {
        into.copy_from_slice(self.bytes(from));
        Ok(())
    }

    fn write(&mut self, to: Segment, from: &[u8]) -> Result<(), MemoryFault> {
        let outer = self.enter(Stage::ReceiveDma);
        self.bytes[to.address as usize..][..from.len()].copy_from_slice(from);
        self.leave(outer);
        Ok(())
    }

    fn checksum(&self, of: Segment, sum: &mut Checksum) -> Result<(), MemoryFault> {
        sum.update(self.bytes(of));
        Ok(())
    }

    #[inline]
    fn enter(&self, stage: Stage) -> Stage {
        let cell = &self.calls[stage as usize];
        cell.set(cell.get() + 1);
        self.change(stage)
    }

    #[inline]
    fn leave(&self, outer: Stage) {
        self.change(outer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_goes_to_the_innermost_stage() {
        let timed = Timed::new(16);
        let wait = || std::thread::sleep(std::time::Duration::from_millis(2));
        let outer = timed.enter(Stage::Transmission);
        wait();
        let inner = timed.enter(Stage::SendAcknowledgement);
        wait();
        timed.leave(inner);
        timed.leave(outer);
        let counts = timed.counts(0.0);
        for stage in [Stage::Transmission, Stage::SendAcknowledgement] {
            let Count { calls, ns } = counts[stage as usize];
            assert!(calls == 1 && ns >= 2e6, "{stage:?}: {calls} calls, {ns} ns");
        }
        assert_eq!(counts[Stage::ReceiveDma as usize].calls, 0);
        timed.clear();
        assert_eq!(timed.counts(0.0)[Stage::Transmission as usize].calls, 0);
    }
}
