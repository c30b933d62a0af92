//! Whether a long frame costs less copied or spliced: what the calls that sent such frames took lately decides, by their length, and by
//! whether more frames of the message are before or behind it.
//!
//! Neither is right everywhere. A reference to a page costs what system calls cost; a copy of 60 KB takes 4 µs on one machine and 30 on
//! another, or on the same one a minute later, and more when many frames are under way than when memory of the last one is free again.
//! So whole runs of frames are tried, not single ones among others.

use std::time::Duration;

use emp_wire::LONG_FRAME_BYTES;

/// How a frame's payload comes to the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    Copy,
    Splice,
}

/// Lengths that are told apart, in bytes: a copy takes as long as the frame is.
const CLASS_BYTES: usize = 16 << 10;
const CLASSES: usize = LONG_FRAME_BYTES.div_ceil(CLASS_BYTES);

/// What its receiver spends more on a spliced frame, as it copies out of pages of another processor's instead of one piece: so much of what
/// sending it takes, or more where copies are slow. A train waits for its sender, so it does not count there; who waits for a single frame waits for both.
const RECEIVING: u32 = 2;

/// Frames of a run, which all go one way: more than a message of half a mebibyte has. The median of its second half counts, so that a sender that
/// is interrupted now and then does not take one way for the other.
const RUN: u32 = 12;
const COUNTED: usize = RUN as usize / 2;

/// Of so many runs one is of the way that costs more. Where that takes three times as long, it costs 2 %.
const TRIAL: u32 = 96;

#[derive(Clone, Copy)]
struct Class {
    /// What a frame takes either way, in nanoseconds; 0: not tried yet.
    took_ns: [u32; 2],
    /// What those took of this run that count.
    run_ns: [u32; COUNTED],
    frames: u32,
    /// How the frames of this run are sent.
    by: By,
}

impl Class {
    /// How the next run is sent. At first each way has one.
    fn next_run(&self, alone: bool) -> By {
        let [copied, spliced] = self.took_ns;
        let spliced = if alone { spliced.saturating_add(spliced / RECEIVING) } else { spliced };
        let tried = (self.frames / RUN).is_multiple_of(TRIAL);
        let splice = copied != 0 && (spliced == 0 || (spliced < copied) != tried);
        if splice { By::Splice } else { By::Copy }
    }
}

/// A long frame, as far as its cost depends on it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub(super) bytes: usize,
    /// It is all of its message.
    pub(super) alone: bool,
}

/// What is known of each length, of frames of trains and of those alone.
pub(super) struct Costs([[Class; CLASSES]; 2]);

impl Costs {
    /// Nothing.
    pub(super) const fn new() -> Self {
        Self(
            [[Class { took_ns: [0; 2], run_ns: [0; COUNTED], frames: 0, by: By::Copy }; CLASSES];
                2],
        )
    }

    fn class(&mut self, Shape { bytes, alone }: Shape) -> &mut Class {
        let class = (bytes.saturating_sub(1) / CLASS_BYTES).min(CLASSES - 1);
        &mut self.0[usize::from(alone)][class]
    }

    /// For a while all frames are sent so.
    #[cfg(test)]
    pub(super) fn settled(by: By) -> Self {
        let took_ns = if by == By::Splice { [u32::MAX, 1] } else { [1, u32::MAX] };
        Self([[Class { took_ns, run_ns: [0; COUNTED], frames: RUN, by }; CLASSES]; 2])
    }

    /// How the next frame of this shape is sent.
    pub(super) fn next(&mut self, shape: Shape) -> By {
        let class = self.class(shape);
        if class.frames.is_multiple_of(RUN) {
            class.by = class.next_run(shape.alone);
        }
        class.by
    }

    /// One of this shape was sent so, in this time.
    pub(super) fn took(&mut self, shape: Shape, by: By, took: Duration) {
        let class = self.class(shape);
        let place = (class.frames % RUN) as usize;
        class.frames = class.frames.wrapping_add(1);
        let Some(counted) = place.checked_sub(RUN as usize - COUNTED) else { return };
        class.run_ns[counted] = u32::try_from(took.as_nanos()).unwrap_or(u32::MAX).max(1);
        if counted + 1 == COUNTED {
            class.run_ns.sort_unstable();
            let median = class.run_ns[COUNTED / 2];
            let known = &mut class.took_ns[by as usize];
            // Half of what is known is of this run: a change is followed within two.
            *known = if *known == 0 { median } else { *known / 2 + median / 2 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRAIN: Shape = Shape { bytes: 60_000, alone: false };

    /// So many frames of a length, which take what the function says; returns those that were spliced.
    fn run(costs: &mut Costs, shape: Shape, frames: u32, took_us: impl Fn(By) -> u64) -> u32 {
        let mut spliced = 0;
        for _ in 0..frames {
            let by = costs.next(shape);
            spliced += u32::from(by == By::Splice);
            costs.took(shape, by, Duration::from_micros(took_us(by)));
        }
        spliced
    }

    fn cheap(cheaper: By) -> impl Fn(By) -> u64 {
        move |by| if by == cheaper { 8 } else { 12 }
    }

    #[test]
    fn the_cheaper_way_is_taken_after_a_run_of_each() {
        for (cheaper, most) in [(By::Splice, 10_000), (By::Copy, 0)] {
            let mut costs = Costs::new();
            run(&mut costs, TRAIN, 2 * RUN, cheap(cheaper));
            let spliced = run(&mut costs, TRAIN, 10_000, cheap(cheaper));
            // A hundredth are trials.
            assert!(spliced.abs_diff(most) < 200, "{cheaper:?}: {spliced}");
        }
    }

    #[test]
    fn a_change_is_followed_both_ways() {
        let mut costs = Costs::new();
        for cheaper in [By::Copy, By::Splice, By::Copy, By::Splice] {
            run(&mut costs, TRAIN, 4 * RUN * TRIAL, cheap(cheaper));
            let spliced = run(&mut costs, TRAIN, 1_000, cheap(cheaper));
            let right = if cheaper == By::Splice { spliced } else { 1_000 - spliced };
            assert!(right >= 1_000 - 2 * RUN, "{cheaper:?}: {right}");
        }
    }

    /// Copies of which the first few find memory that is free, as those of a short message do.
    #[test]
    fn the_first_of_a_run_do_not_count() {
        let mut costs = Costs::new();
        let mut copied_in_a_row = 0;
        let mut spliced = 0;
        for _ in 0..10_000 {
            let by = costs.next(TRAIN);
            copied_in_a_row = if by == By::Copy { copied_in_a_row + 1 } else { 0 };
            spliced += u32::from(by == By::Splice);
            let took = if by == By::Splice {
                8
            } else if copied_in_a_row <= RUN / 2 {
                7
            } else {
                11
            };
            costs.took(TRAIN, by, Duration::from_micros(took));
        }
        assert!(spliced > 9_500, "{spliced}");
    }

    #[test]
    fn lengths_are_told_apart_and_interruptions_count_for_little() {
        let mut costs = Costs::new();
        let by_length =
            |bytes: usize| move |by| if by == By::Splice { 8 } else { bytes as u64 / 4_000 };
        for bytes in [20_000, 60_000] {
            run(&mut costs, Shape { bytes, alone: false }, 2_000, by_length(bytes));
        }
        assert_eq!([costs.0[0][1].by, costs.0[0][3].by], [By::Copy, By::Splice]);
        for _ in 0..2 {
            costs.took(TRAIN, By::Splice, Duration::from_secs(1));
        }
        run(&mut costs, TRAIN, RUN, by_length(TRAIN.bytes));
        assert_eq!(costs.0[0][3].by, By::Splice);
        // Whatever is said of other lengths than there are, it has a place.
        for bytes in [0, 1, LONG_FRAME_BYTES, usize::MAX] {
            for alone in [false, true] {
                run(&mut costs, Shape { bytes, alone }, 50, |_| u64::MAX / 2_000);
            }
        }
    }
    /// What is waited for at both ends is spliced only where that saves more than its receiver spends on it.
    #[test]
    fn a_frame_alone_is_copied_unless_splicing_saves_much() {
        for (spliced_us, alone, right) in
            [(95, true, By::Copy), (95, false, By::Splice), (60, true, By::Splice)]
        {
            let (mut costs, shape) = (Costs::new(), Shape { alone, ..TRAIN });
            run(&mut costs, shape, 3 * RUN, |by| if by == By::Splice { spliced_us } else { 100 });
            assert_eq!(costs.next(shape), right, "{spliced_us} {alone}");
        }
    }
}
