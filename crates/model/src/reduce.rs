//! Less than a whole seed: actions left out, parts of its trouble switched off. How a failure is made small enough to be read.

use core::fmt;
use core::ops::RangeInclusive;

use crate::faults::FaultPlan;
use crate::prng::Ppm;
use crate::world::{World, WorldSetup};

macro_rules! parts {
    ($($(#[$doc:meta])* $name:ident = $label:literal,)*) => {
        /// A part of a world's trouble that can be left out.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum Part { $($(#[$doc])* $name,)* }

        impl Part {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Its name in arguments.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $label,)* }
            }
        }
    };
}

parts! {
    /// Frames are lost.
    Drop = "drop",
    /// Frames arrive twice.
    Duplicate = "duplicate",
    /// Frames are overtaken.
    Reorder = "reorder",
    /// Frames are late.
    Delay = "delay",
    /// Bits are flipped.
    Corrupt = "corrupt",
    /// Frames are cut short.
    Truncate = "truncate",
    /// Frames come again much later.
    Replay = "replay",
    /// Losses come in bursts.
    Bursts = "bursts",
    /// Arrival varies.
    Jitter = "jitter",
    /// Numbers and times begin near where they wrap.
    Wraps = "wraps",
    /// Links take part of a batch.
    Partial = "partial",
    /// Frames are handed up as trains.
    Trains = "trains",
    /// Nodes have one tag, or one address.
    Tags = "tags",
    /// Interfaces change their MTU.
    Mtu = "mtu",
    /// Some frames are longer than the MTU.
    Long = "long",
    /// A second fabric is for bulk.
    Paths = "paths",
    /// Nodes have cables, some several, in place of fabrics that lead to all.
    Cables = "cables",
    /// Turns come late, and with few frames.
    Boards = "boards",
    /// Engines are in halves.
    Halves = "halves",
    /// After the traffic most nodes are well and the others are not.
    Liveness = "liveness",
}

/// What of a seed is left out.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reduction {
    /// Actions by number, in the order in which they were drawn.
    pub actions: Vec<RangeInclusive<u64>>,
    /// Parts of the trouble.
    pub parts: Vec<Part>,
}

impl Reduction {
    /// True if this part is left out.
    pub fn is_without(&self, part: Part) -> bool {
        self.parts.contains(&part)
    }

    fn is_without_action(&self, number: u64) -> bool {
        self.actions.iter().any(|range| range.contains(&number))
    }

    /// Takes out of a world's making what is left out.
    pub(crate) fn reduce_setup(&self, world: &mut WorldSetup) {
        for fabric in &mut world.fabrics {
            self.reduce_faults(&mut fabric.faults);
            if self.is_without(Part::Jitter) {
                fabric.jitter = emp_firmware::Span(0);
            }
        }
        for link in world.nodes.iter_mut().flat_map(|node| &mut node.links) {
            if self.is_without(Part::Long) {
                link.long_frames = false;
            }
            if self.is_without(Part::Paths) {
                (link.cost, link.beside) = (None, Default::default());
            }
        }
    }

    fn reduce_faults(&self, plan: &mut FaultPlan) {
        for rates in plan.all_mut() {
            let each = [
                (Part::Drop, &mut rates.drop),
                (Part::Duplicate, &mut rates.duplicate),
                (Part::Reorder, &mut rates.reorder),
                (Part::Delay, &mut rates.delay),
                (Part::Corrupt, &mut rates.corrupt),
                (Part::Truncate, &mut rates.truncate),
                (Part::Replay, &mut rates.replay),
            ];
            for (_, rate) in each.into_iter().filter(|(part, _)| self.is_without(*part)) {
                *rate = Ppm::NEVER;
            }
        }
        if self.is_without(Part::Bursts) {
            plan.burst_start = Ppm::NEVER;
        }
    }

    /// Takes out of what was scheduled what is left out. Returns the numbers of all that was there.
    pub(crate) fn reduce_actions(&self, world: &mut World) -> Vec<u64> {
        let mut numbers: Vec<u64> = world.actions.keys().map(|(_, number)| *number).collect();
        numbers.sort_unstable();
        world.actions.retain(|(_, number), _| !self.is_without_action(*number));
        numbers
    }

    /// From the arguments that [`Display`](fmt::Display) writes: numbers and ranges of actions, and names of parts, with commas
    /// between them. An error names what is not understood.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reduction = Self::default();
        for word in text.split(',').filter(|word| !word.is_empty()) {
            if let Some(part) = Part::ALL.iter().find(|part| part.name() == word) {
                reduction.parts.push(*part);
                continue;
            }
            let (first, last) = word.split_once('-').unwrap_or((word, word));
            match (first.parse(), last.parse()) {
                (Ok(first), Ok(last)) if first <= last => reduction.actions.push(first..=last),
                _ => return Err(word.to_string()),
            }
        }
        Ok(reduction)
    }

    /// With these actions, by number, left out instead.
    pub(crate) fn with_actions(&self, mut left_out: Vec<u64>) -> Self {
        left_out.sort_unstable();
        let mut actions: Vec<RangeInclusive<u64>> = Vec::new();
        for number in left_out {
            match actions.last_mut() {
                Some(last) if *last.end() + 1 == number => *last = *last.start()..=number,
                _ => actions.push(number..=number),
            }
        }
        Self { actions, parts: self.parts.clone() }
    }
}

impl fmt::Display for Reduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.parts.iter().map(|part| part.name().to_string());
        let actions = self.actions.iter().map(|range| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}-{last}"),
        });
        let words: Vec<String> = parts.chain(actions).collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_again() {
        let all = Reduction { actions: vec![1..=17, 20..=20], parts: vec![Part::Drop, Part::Long] };
        assert_eq!(all.to_string(), "drop,long,1-17,20");
        assert_eq!(Reduction::parse(&all.to_string()), Ok(all.clone()));
        assert_eq!(Reduction::parse(""), Ok(Reduction::default()));
        for wrong in ["7-3", "rain", "1-x"] {
            assert_eq!(Reduction::parse(wrong), Err(wrong.to_string()));
        }
        let fewer = all.with_actions(vec![9, 3, 4, 5, 7]);
        assert_eq!(fewer.to_string(), "drop,long,3-5,7,9");
    }
}
