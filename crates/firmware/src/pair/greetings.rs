//! How often this node shows itself to those that send it frames for an incarnation of it that is no more (`EPOCH-3`): who does so hears
//! of it at once, and then more and more seldom. For the frames may be for another node whose 16-bit tag is the same: then they never
//! cease, and no hello changes that.

use alloc::boxed::Box;

use emp_wire::{Epoch, Header};

use crate::limits::{GREETED_MAX, GREETINGS_BURST, HELLO_INTERVAL, HELLO_INTERVAL_MAX};
use crate::time::{Span, Time};

/// A sender whose frames missed this node.
#[derive(Clone, Copy)]
struct Greeted {
    key: u64,
    next: Time,
    interval: Span,
}

/// Those that were greeted last, each in the place that its name gives it; who takes another's begins anew.
pub(crate) struct Greetings {
    greeted: Box<[Greeted; GREETED_MAX]>,
    /// When all that have been sent are paid for, at one each [`HELLO_INTERVAL`].
    paid_at: Time,
}

impl Greetings {
    pub(crate) fn new() -> Self {
        let none = Greeted { key: 0, next: Time(0), interval: Span(0) };
        Self { greeted: Box::new([none; GREETED_MAX]), paid_at: Time(0) }
    }

    /// True if the sender of this frame, which is not for `local`, may be greeted now; then it is noted.
    pub(crate) fn may_greet(&mut self, now: Time, header: &Header, local: Epoch) -> bool {
        let (tag, epoch) = (header.source_tag, header.source_epoch.0);
        // Tags and epochs are evenly spread. That a pair moved on makes it another one, which shall not wait long.
        let key = u64::from(tag ^ local.0) << 32 | u64::from(epoch) | 1;
        let greeted = &mut self.greeted[(tag ^ epoch ^ local.0) as usize % GREETED_MAX];
        let again = greeted.key == key;
        if again && now < greeted.next || self.paid_at.since(now) >= GREETINGS_BURST {
            return false;
        }
        let interval = match again {
            // It was quiet: what it does now has another cause.
            true if now.since(greeted.next) > HELLO_INTERVAL_MAX => HELLO_INTERVAL,
            true => Span(greeted.interval.0 * 2).min(HELLO_INTERVAL_MAX),
            false => HELLO_INTERVAL,
        };
        *greeted = Greeted { key, next: now + interval, interval };
        self.paid_at = self.paid_at.max(now) + HELLO_INTERVAL;
        true
    }
}

#[cfg(test)]
mod tests {
    use emp_wire::{Flags, Kind, Sequence};

    use super::*;

    fn from(source_tag: u32) -> Header {
        Header {
            kind: Kind::Data,
            flags: Flags::default(),
            length: 0,
            destination_tag: 7,
            destination_epoch: 9,
            source_tag,
            source_epoch: Epoch(77),
            sequence: Sequence(0),
            acknowledge: Sequence(0),
            word: 0,
        }
    }

    #[test]
    fn the_same_sender_is_greeted_more_and_more_seldom() {
        let mut greetings = Greetings::new();
        let mut greeted = 0;
        for us in 0..10_000_000 {
            let may = greetings.may_greet(Time(0) + Span::us(us), &from(1), Epoch(1));
            greeted += u32::from(may);
        }
        // After 0, 1, 3, 7 … 1,023 ms, then each second.
        assert_eq!(greeted, 19);
        let later = Time(0) + Span::ms(12_000);
        for (ms, may) in [(0, true), (1, true), (2, false), (3, true)] {
            assert_eq!(greetings.may_greet(later + Span::ms(ms), &from(1), Epoch(1)), may, "{ms}");
        }
    }

    #[test]
    fn all_together_hear_no_more_than_a_burst_and_one_each_interval() {
        let mut greetings = Greetings::new();
        let mut greeted = 0;
        for tag in 0..200_000u32 {
            let now = Time(0) + Span::us(tag.into());
            let header = from(tag.wrapping_mul(0x9e37_79b9));
            greeted += u64::from(greetings.may_greet(now, &header, Epoch(1)));
        }
        assert_eq!(greeted, 200 + GREETINGS_BURST.0 / HELLO_INTERVAL.0);
    }
}
