//! Giving the core away when there is nothing to read.
//!
//! An MPI library spins on its completion queues. With more ranks than cores, what a rank spins for cannot happen before
//! it gives its core up; left to the scheduler, that takes milliseconds for each message.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Empty looks after which the core is offered to others, as long as nobody takes it: about 20 µs, of which the call
/// costs one part in fifty.
const PATIENCE_MAX: u32 = 256;

/// Once others have taken the core: each such look in vain holds up the rank that is waited for.
const PATIENCE_CROWDED: u32 = 1;

/// An offer that took longer was taken: the call alone is below a microsecond.
const TAKEN: Duration = Duration::from_micros(3);

/// How a queue or counter deals with empty looks. Its numbers guide; that threads mix them up does no harm.
pub struct Courtesy {
    in_vain: AtomicU32,
    patience: AtomicU32,
}

impl Default for Courtesy {
    fn default() -> Self {
        Self { in_vain: AtomicU32::new(0), patience: AtomicU32::new(PATIENCE_MAX) }
    }
}

impl Courtesy {
    /// There was something.
    #[inline]
    pub fn found(&self) {
        self.in_vain.store(0, Ordering::Relaxed);
    }

    /// There was nothing.
    #[inline]
    pub fn nothing(&self) {
        let in_vain = self.in_vain.load(Ordering::Relaxed) + 1;
        if in_vain < self.patience.load(Ordering::Relaxed) {
            self.in_vain.store(in_vain, Ordering::Relaxed);
        } else {
            self.offer();
        }
    }

    #[cold]
    fn offer(&self) {
        self.in_vain.store(0, Ordering::Relaxed);
        let start = Instant::now();
        std::thread::yield_now();
        self.patience.store(
            patience(self.patience.load(Ordering::Relaxed), start.elapsed()),
            Ordering::Relaxed,
        );
    }
}

/// The patience after an offer that took so long.
fn patience(before: u32, offer: Duration) -> u32 {
    if offer > TAKEN { PATIENCE_CROWDED } else { (2 * before).min(PATIENCE_MAX) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_company_is_soon_courteous_and_who_has_none_soon_spins_again() {
        let crowded = patience(PATIENCE_MAX, Duration::from_millis(1));
        assert_eq!(crowded, 1);
        let mut alone = crowded;
        for _ in 0..8 {
            alone = patience(alone, Duration::from_nanos(300));
        }
        assert_eq!(alone, PATIENCE_MAX);
        assert_eq!(patience(alone, Duration::ZERO), PATIENCE_MAX);
    }
}
