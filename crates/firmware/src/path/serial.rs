//! What a path takes for a frame because of its length: the time of its slowest wire, and of copies at both ends (`WINDOW-2`).
//!
//! Frames of 61 KB take 1 ms by themselves at 500 Mb/s. A window of 61 KB puts as much into the queue, and is judged by it. One of 1.5 KB
//! that a message goes on with which was cut so before does not: it lets such a frame out every forty round trips. If that were taken for
//! a queue it would shrink to nothing, and the path would be taken for one that others keep full.

/// Frames of so many bytes tell it: the least round trip may be that of a frame of the MTU, which takes a tenth of their time.
const TELLING_BYTES: u32 = 16 << 10;

/// Least time for a byte, in units of 2^-20 µs: since the path was last looked at with little of ours in it, and before that. So a path
/// that became slower is known after two such looks. `u32::MAX`: none is known.
#[derive(Clone, Copy, Debug)]
pub(super) struct Serial([u32; 2]);

impl Serial {
    pub(super) const UNKNOWN: Self = Self([u32::MAX; 2]);

    /// The path is going to be looked at.
    pub(super) const fn turn(&mut self) {
        let [now, before] = self.0;
        self.0 = [u32::MAX, if now == u32::MAX { before } else { now }];
    }

    /// A frame of so many bytes took so many microseconds more than the least round trip.
    pub(super) fn learn(&mut self, us: u32, bytes: u32) {
        if bytes >= TELLING_BYTES {
            let each = (u64::from(us) << 20) / u64::from(bytes);
            self.0[0] = self.0[0].min(u32::try_from(each).unwrap_or(u32::MAX));
        }
    }

    /// What so many bytes take, in microseconds.
    pub(super) fn us(&self, bytes: u32) -> u32 {
        match self.0[0].min(self.0[1]) {
            u32::MAX => 0,
            each => u32::try_from((u64::from(each) * u64::from(bytes)) >> 20).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_of_long_frames_is_what_their_length_takes() {
        let mut serial = Serial::UNKNOWN;
        assert_eq!(serial.us(61_472), 0);
        // Frames of the MTU say nothing.
        serial.learn(10, 1_500);
        assert_eq!(serial.us(61_472), 0);
        serial.learn(2_000, 61_472);
        serial.learn(1_000, 61_472);
        serial.learn(1_500, 32_768);
        assert!((999..=1_000).contains(&serial.us(61_472)));
        assert!((499..=500).contains(&serial.us(30_736)));
    }

    #[test]
    fn a_path_that_became_slower_is_known_after_two_looks() {
        let mut serial = Serial::UNKNOWN;
        serial.learn(1_000, 61_472);
        serial.turn();
        serial.learn(5_000, 61_472);
        assert!((999..=1_000).contains(&serial.us(61_472)));
        // Looks in which no long frame came say nothing.
        serial.turn();
        serial.turn();
        assert!((4_999..=5_000).contains(&serial.us(61_472)));
    }

    #[test]
    fn nothing_overflows() {
        let mut serial = Serial::UNKNOWN;
        serial.learn(u32::MAX, TELLING_BYTES);
        assert_eq!(serial.us(u32::MAX), 0, "as good as unknown");
        serial.learn(1 << 24, TELLING_BYTES);
        assert_eq!(serial.us(u32::MAX), u32::MAX);
    }
}
