//! What a path takes for a frame because of its length: the time of its slowest wire, and of copies at both ends (`WINDOW-2`).
//!
//! Frames of 61 KB take 1 ms by themselves at 500 Mb/s. A window of 61 KB puts as much into the queue, and is judged by it. One of 1.5 KB
//! that a message goes on with which was cut so before does not: it lets such a frame out every forty round trips. If that were taken for
//! a queue it would shrink to nothing, and the path would be taken for one that others keep full.

/// Frames of so many bytes tell it: the least round trip may be that of a frame of the MTU, which takes a tenth of their time.
const TELLING_BYTES: u32 = 16 << 10;

/// What a path takes for length.
#[derive(Clone, Copy, Debug)]
pub(super) struct Serial {
    /// Least time for a byte, in units of 2^-20 µs: since the path was last looked at with little of ours in it, and before that. So a path
    /// that became slower is known after two such looks. `u32::MAX`: none is known.
    each: [u32; 2],
    /// Least round trip of a long frame, in microseconds. If the least of all is not less, that is a long frame's as well, and says nothing of
    /// its length: a path begins with long ones, or nothing else came for some seconds.
    least_us: u32,
}

impl Serial {
    pub(super) const UNKNOWN: Self = Self { each: [u32::MAX; 2], least_us: u32::MAX };

    /// The path is going to be looked at.
    pub(super) const fn turn(&mut self) {
        let [now, before] = self.each;
        self.each = [u32::MAX, if now == u32::MAX { before } else { now }];
    }

    /// The round trip of a frame of so many bytes was so long; the least of all is `base_us`.
    pub(super) fn learn(&mut self, us: u32, bytes: u32, base_us: u32) {
        if bytes < TELLING_BYTES {
            return;
        }
        self.least_us = self.least_us.min(us);
        if base_us < self.least_us {
            let each = (u64::from(us - base_us) << 20) / u64::from(bytes);
            self.each[0] = self.each[0].min(u32::try_from(each).unwrap_or(u32::MAX));
        }
    }

    /// What so many bytes take, in microseconds.
    pub(super) fn us(&self, bytes: u32) -> u32 {
        match self.each[0].min(self.each[1]) {
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
        serial.learn(60, 1_500, 50);
        assert_eq!(serial.us(61_472), 0);
        serial.learn(2_050, 61_472, 50);
        serial.learn(1_050, 61_472, 50);
        serial.learn(1_550, 32_768, 50);
        assert!((999..=1_000).contains(&serial.us(61_472)));
        assert!((499..=500).contains(&serial.us(30_736)));
    }

    /// Where the least round trip is a long frame's, that says nothing of its length: not of a path that begins with them, nor after a while
    /// in which nothing else came.
    #[test]
    fn long_frames_alone_say_nothing() {
        let mut serial = Serial::UNKNOWN;
        (0..2).for_each(|more| serial.learn(1_050 + more, 61_472, 1_050));
        assert_eq!(serial.us(61_472), 0);
        serial.learn(1_050, 61_472, 50);
        (0..10).for_each(|more| serial.learn(1_055 + more, 61_472, 1_055));
        assert!((999..=1_000).contains(&serial.us(61_472)));
        serial.learn(1_060, 61_472, 50);
        assert!((999..=1_000).contains(&serial.us(61_472)));
    }

    #[test]
    fn a_path_that_became_slower_is_known_after_two_looks() {
        let mut serial = Serial::UNKNOWN;
        serial.learn(1_050, 61_472, 50);
        serial.turn();
        serial.learn(5_050, 61_472, 50);
        assert!((999..=1_000).contains(&serial.us(61_472)));
        // Looks in which no long frame came say nothing.
        serial.turn();
        serial.turn();
        assert!((4_999..=5_000).contains(&serial.us(61_472)));
    }

    #[test]
    fn nothing_overflows() {
        let mut serial = Serial::UNKNOWN;
        serial.learn(u32::MAX, TELLING_BYTES, 0);
        assert_eq!(serial.us(u32::MAX), 0, "as good as unknown");
        serial.learn(1 << 24, TELLING_BYTES, u32::MAX);
        assert_eq!(serial.us(u32::MAX), 0, "the least is no short frame's");
        serial.learn(1 << 24, TELLING_BYTES, 0);
        assert_eq!(serial.us(u32::MAX), u32::MAX);
    }
}
