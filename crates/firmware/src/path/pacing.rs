//! When a frame may leave that is longer than its path's window (`WINDOW-4`).
//!
//! A window of a tenth of a frame is one frame in ten round trips. Nothing else is paced: acknowledgements clock the rest.

use super::rtt::Rtt;
use crate::time::{Span, Time};

/// Longest pause between two frames: a window as small as that is one whose path is as good as dead, which timers find out sooner.
const PAUSE_MAX: Span = Span::ms(20);

/// How long after the departure of one frame the next may leave, if it is alone under way and a frame as short as the window takes so many
/// microseconds. `None`: the window allows it at any time.
#[inline]
pub(crate) fn pause(window: u32, frame_bytes: u32, trip_us: u32) -> Option<Span> {
    if frame_bytes <= window {
        return None;
    }
    let trip = Span::us(trip_us.max(1).into());
    let pause = Span(trip.0 * u64::from(frame_bytes) / u64::from(window.max(1)));
    Some(pause.min(PAUSE_MAX))
}

/// A path that was silent for longer than its timer and this may have others' queues by now. Programs compute for milliseconds between two
/// exchanges, and would begin each of them with the first window.
const IDLE: Span = Span::ms(50);

/// The path was silent for so long that its window says nothing of it any more.
#[inline]
pub(crate) fn is_stale(last: Time, now: Time, rtt: &Rtt, ack_delay: Span) -> bool {
    now.since(last) > IDLE && now.since(last) > rtt.timeout(ack_delay, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_longer_than_the_window_waits_in_proportion() {
        assert_eq!(pause(1_500, 1_500, 100), None);
        assert_eq!(pause(750, 1_500, 100), Some(Span::us(200)));
        assert_eq!(pause(150, 1_500, 100), Some(Span::us(1_000)));
        assert_eq!(pause(1_500, 60_000, 100), Some(Span::us(4_000)));
        assert_eq!(pause(96, 1_500, 10_000), Some(PAUSE_MAX));
    }

    #[test]
    fn a_window_is_stale_after_a_while_and_the_timer() {
        let mut rtt = Rtt::new();
        for i in 0..100 {
            rtt.on_sample(80_000, i);
        }
        let (then, delay) = (Time(1_000_000), Span::us(60));
        let timer = rtt.timeout(delay, 0);
        assert!(timer > IDLE);
        assert!(!is_stale(then, then + timer, &rtt, delay));
        assert!(is_stale(then, then + Span(timer.0 + 1), &rtt, delay));
    }
}
