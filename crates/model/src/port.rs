//! A switch's port to one node: a rate, a queue of so many bytes, and a length from which frames are marked.

use emp_firmware::Time;

use crate::network::serialisation;

/// How a port is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortSetup {
    /// Speed.
    pub bits_per_second: u64,
    /// Bytes that wait for it at most; frames beyond are lost.
    pub queue_bytes: u64,
    /// Frames that find more bytes than this waiting are marked.
    pub ecn_bytes: Option<u64>,
    /// Bytes that go out at once after a pause, as by a token bucket (tbf). 0: it is a wire.
    pub burst_bytes: u64,
}

/// What a port has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortTotals {
    /// Frames that went out.
    pub frames: u64,
    /// Bytes of these, what Ethernet adds to each included.
    pub wire_bytes: u64,
    /// Frames that found the queue full.
    pub dropped: u64,
    /// Frames that were marked.
    pub marked: u64,
    /// Most bytes that waited at a time, what Ethernet adds included.
    pub queue_bytes_max: u64,
}

/// A port.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Port {
    /// Set, if it is not made as the others of its fabric.
    pub(crate) setup: Option<PortSetup>,
    pub(crate) totals: PortTotals,
    /// The last frame was marked.
    pub(crate) marked: bool,
    /// When all that waits has gone out: earlier than that by what goes out at once, where anything does.
    free: Time,
}

impl Port {
    /// Takes a frame that comes at `now`; says when it is out, or nothing if the queue is full. `usual`: how ports are made here.
    pub(crate) fn take(&mut self, usual: &PortSetup, now: Time, bytes: usize) -> Option<Time> {
        let setup = self.setup.as_ref().unwrap_or(usual);
        let waits = self.free.since(now);
        if waits > serialisation(setup.queue_bytes as usize, setup.bits_per_second) {
            self.totals.dropped += 1;
            return None;
        }
        let queued = waits.0 * (setup.bits_per_second / 1_000_000) / 8_000;
        self.marked = setup.ecn_bytes.is_some_and(|limit| queued > limit);
        let serial = serialisation(bytes, setup.bits_per_second);
        let saved = setup.burst_bytes * 8_000_000_000 / setup.bits_per_second.max(1);
        self.free = self.free.max(Time(now.0.saturating_sub(saved))) + serial;
        let totals = &mut self.totals;
        totals.frames += 1;
        totals.wire_bytes += serial.0 * (setup.bits_per_second / 1_000_000) / 8_000;
        totals.marked += u64::from(self.marked);
        totals.queue_bytes_max = totals.queue_bytes_max.max(queued);
        Some(self.free.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIGABIT: PortSetup = PortSetup {
        bits_per_second: 1_000_000_000,
        queue_bytes: 6_000,
        ecn_bytes: Some(3_000),
        burst_bytes: 0,
    };

    #[test]
    fn frames_wait_are_marked_and_are_lost() {
        let mut port = Port::default();
        // 1,538 bytes with what Ethernet adds: 12.304 µs.
        let out: Vec<_> = (0..6).map(|_| port.take(&GIGABIT, Time(1_000), 1_500)).collect();
        assert_eq!(out[0], Some(Time(1_000 + 12_304)));
        assert_eq!(out[3], Some(Time(1_000 + 4 * 12_304)));
        assert_eq!(out[4], None, "6,152 bytes wait");
        let totals = port.totals;
        assert_eq!((totals.frames, totals.dropped), (4, 2));
        assert_eq!(totals.marked, 2, "behind 3,076 and 4,614 bytes");
        assert_eq!(totals.wire_bytes, 4 * 1_538);
        assert_eq!(totals.queue_bytes_max, 3 * 1_538);
        // All has gone out by now.
        assert_eq!(port.take(&GIGABIT, Time(100_000), 1_500), Some(Time(112_304)));
        assert!(!port.marked);
    }

    #[test]
    fn after_a_pause_a_burst_goes_out_at_once() {
        let setup = PortSetup { burst_bytes: 3 * 1_538, ..GIGABIT };
        let mut port = Port::default();
        for start in [1_000_000, 2_000_000] {
            let out: Vec<_> = (0..5).map(|_| port.take(&setup, Time(start), 1_500)).collect();
            let late = [0, 0, 0, 12_304, 24_608].map(|late| Some(Time(start + late)));
            assert_eq!(out, late);
        }
        assert_eq!(
            port.take(&setup, Time(2_049_216), 1_500),
            Some(Time(2_049_216)),
            "two came back"
        );
    }

    #[test]
    fn a_port_of_its_own_has_its_own_rate() {
        let slow = PortSetup { bits_per_second: 100_000_000, ..GIGABIT };
        let mut port = Port { setup: Some(slow), ..Port::default() };
        assert_eq!(port.take(&GIGABIT, Time(0), 1_500), Some(Time(123_040)));
    }
}
