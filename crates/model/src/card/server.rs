//! A resource that serves one after the other: a bus, a DMA engine, a wire.

use emp_firmware::{Span, Time};

/// When it is free, and how long it was busy.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Server {
    free: Time,
    pub(crate) busy: Span,
}

impl Server {
    /// Serves for so long, from `now` on or when what came before is done. Returns start and end.
    pub(crate) fn serve(&mut self, now: Time, takes: Span) -> (Time, Time) {
        let start = self.free.max(now);
        self.free = start + takes;
        self.busy.0 += takes.0;
        (start, self.free)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_after_the_other() {
        let mut bus = Server::default();
        assert_eq!(bus.serve(Time(10), Span(5)), (Time(10), Time(15)));
        assert_eq!(bus.serve(Time(12), Span(5)), (Time(15), Time(20)));
        assert_eq!(bus.serve(Time(40), Span(5)), (Time(40), Time(45)));
        assert_eq!(bus.busy, Span(15));
    }
}
