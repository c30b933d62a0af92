//! The two DMA engines, and the bus that both share (E10, E12): what an engine's set-up takes is not the bus's time, bytes are.

use emp_firmware::{Span, Time};

use super::parameters::Parameters;
use crate::card::Server;

/// Which way an engine moves bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(usize)]
pub(super) enum Direction {
    FromHost,
    ToHost,
}

/// Both engines.
#[derive(Debug, Default)]
pub(super) struct Dma {
    engines: [Server; 2],
    bus: Server,
}

impl Dma {
    /// Moves bytes in so many runs of memory, each with a set-up of its own. Returns when the engine begins, and when all is there.
    pub(super) fn transfer(
        &mut self,
        now: Time,
        way: Direction,
        (bytes, runs): (usize, u32),
        parameters: &Parameters,
    ) -> (Time, Time) {
        let set_up = Span(parameters.dma_setup.0 * u64::from(runs.max(1)));
        let engine = &mut self.engines[way as usize];
        let (start, ready) = engine.serve(now, set_up);
        let (_, end) = self.bus.serve(ready, parameters.pci_time(bytes));
        engine.serve(end, Span(0));
        (start, end)
    }

    /// How long the bus was busy.
    pub(super) fn bus_busy(&self) -> Span {
        self.bus.busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_engines_share_a_bus() {
        let set = Parameters::IPDPS2002;
        let (set_up, bytes) = (set.dma_setup.0, set.pci_time(1_000).0);
        let mut dma = Dma::default();
        let mut at_once = |way| dma.transfer(Time(0), way, (1_000, 1), &set).1.0;
        let first = at_once(Direction::FromHost);
        // The other engine is set up meanwhile, and has the bus next; the first is set up again only when it is done.
        let second = at_once(Direction::ToHost);
        let third = at_once(Direction::FromHost);
        assert_eq!((first, second), (set_up + bytes, set_up + 2 * bytes));
        assert_eq!(third, (first + set_up).max(second) + bytes);
        assert_eq!(dma.bus_busy(), Span(3 * bytes));
        let runs = dma.transfer(Time(1_000_000), Direction::ToHost, (1_000, 2), &set);
        assert_eq!(runs, (Time(1_000_000), Time(1_000_000 + 2 * set_up + bytes)));
    }
}
