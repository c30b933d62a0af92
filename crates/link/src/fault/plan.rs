//! What shall go wrong, and how it is written down.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use emp_wire::Kind;

/// Faults to inject. Probabilities are per frame, from 0 to 1, and independent of each other.
///
/// Written as a comma-separated list, for example `drop:1%,reorder:0.05@4,kinds:data+ack,seed:7`:
///
/// | item | meaning |
/// |---|---|
/// | `drop:P` `duplicate:P` | the frame is lost; comes twice |
/// | `corrupt:P` `truncate:P` | one bit is flipped (`shm`, where nothing is summed: the frame is lost); the end is cut off |
/// | `reorder:P@N` | it is overtaken by up to N later frames (3 if not said) |
/// | `delay:P@D..D` | it is held for a time; `delay:200us` holds every frame that long |
/// | `kinds:K+K` | only link frames that have one of these kinds in them, by name (`data`) or number (`4`) |
/// | `on:send` `on:receive` `on:both` | which way (`send` if not said) |
/// | `seed:N` | another seed, other faults; the same seed, the same faults |
#[derive(Clone, Debug, PartialEq)]
pub struct FaultPlan {
    /// Where the random numbers start.
    pub seed: u64,
    /// Probability that a frame is lost.
    pub drop: f64,
    /// Probability that it comes twice.
    pub duplicate: f64,
    /// Probability that later frames overtake it.
    pub reorder: f64,
    /// Probability that it is held for a time from `delay_range`.
    pub delay: f64,
    /// Probability that one of its bits is flipped.
    pub corrupt: f64,
    /// Probability that its end is cut off.
    pub truncate: f64,
    /// Shortest and longest time that a delayed frame is held.
    pub delay_range: (Duration, Duration),
    /// Most frames that overtake a reordered one.
    pub reorder_distance: u32,
    /// Which kinds of frames (the low five bits of the first byte): bit k stands for kind k.
    pub kinds: u32,
    /// Faults strike frames on their way out.
    pub on_send: bool,
    /// Faults strike frames on their way in.
    pub on_receive: bool,
}

impl Default for FaultPlan {
    /// No faults.
    fn default() -> Self {
        Self {
            seed: 1,
            drop: 0.0,
            duplicate: 0.0,
            reorder: 0.0,
            delay: 0.0,
            corrupt: 0.0,
            truncate: 0.0,
            // From half to several round trips of a local network under load.
            delay_range: (Duration::from_micros(50), Duration::from_millis(1)),
            // Three later frames are what TCP took as the sign of a loss: the classic hard case.
            reorder_distance: 3,
            kinds: u32::MAX,
            on_send: true,
            on_receive: false,
        }
    }
}

impl FaultPlan {
    /// True if nothing will ever go wrong.
    pub fn is_quiet(&self) -> bool {
        let all =
            [self.drop, self.duplicate, self.reorder, self.delay, self.corrupt, self.truncate];
        all.iter().all(|probability| *probability <= 0.0)
            || self.kinds == 0
            || !(self.on_send || self.on_receive)
    }

    fn set(&mut self, item: &str) -> Result<(), String> {
        let (key, value) =
            item.split_once(':').ok_or_else(|| "write it as `what:value`".to_string())?;
        let value = value.trim();
        match key.trim() {
            "drop" => self.drop = probability(value)?,
            "duplicate" => self.duplicate = probability(value)?,
            "corrupt" => self.corrupt = probability(value)?,
            "truncate" => self.truncate = probability(value)?,
            "reorder" => (self.reorder, self.reorder_distance) = reorder(value)?,
            "delay" => (self.delay, self.delay_range) = delay(value)?,
            "kinds" => self.kinds = kinds(value)?,
            "on" => (self.on_send, self.on_receive) = direction(value)?,
            "seed" => {
                self.seed =
                    value.parse().map_err(|_| format!("`{value}` is not a whole number"))?;
            }
            key => {
                return Err(format!(
                    "`{key}` is none of drop, duplicate, reorder, delay, corrupt, truncate, kinds, \
                     on, seed"
                ));
            }
        }
        Ok(())
    }
}

/// What is wrong with the text of a fault plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("fault plan, `{item}`: {problem}")]
pub struct FaultPlanError {
    item: String,
    problem: String,
}

impl FromStr for FaultPlan {
    type Err = FaultPlanError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut plan = Self::default();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            plan.set(item).map_err(|problem| FaultPlanError { item: item.into(), problem })?;
        }
        Ok(plan)
    }
}

impl fmt::Display for FaultPlan {
    /// In the form that parses back to the same plan.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed:{}", self.seed)?;
        for (name, probability) in [
            ("drop", self.drop),
            ("duplicate", self.duplicate),
            ("corrupt", self.corrupt),
            ("truncate", self.truncate),
        ] {
            if probability > 0.0 {
                write!(f, ",{name}:{probability}")?;
            }
        }
        if self.reorder > 0.0 {
            write!(f, ",reorder:{}@{}", self.reorder, self.reorder_distance)?;
        }
        if self.delay > 0.0 {
            let (from, to) = (self.delay_range.0.as_nanos(), self.delay_range.1.as_nanos());
            write!(f, ",delay:{}@{from}ns..{to}ns", self.delay)?;
        }
        if self.kinds != u32::MAX {
            let numbers = (0..32).filter(|kind| self.kinds >> kind & 1 != 0);
            let names: Vec<String> = numbers.map(kind_name).collect();
            write!(f, ",kinds:{}", names.join("+"))?;
        }
        match (self.on_send, self.on_receive) {
            (true, false) => Ok(()),
            (false, true) => f.write_str(",on:receive"),
            (true, true) => f.write_str(",on:both"),
            (false, false) => f.write_str(",on:none"),
        }
    }
}

fn kind_name(number: u8) -> String {
    Kind::from_number(number).map_or_else(|| number.to_string(), |kind| kind.name().into())
}

fn probability(text: &str) -> Result<f64, String> {
    let (number, scale) = match text.strip_suffix('%') {
        Some(percent) => (percent, 100.0),
        None => (text, 1.0),
    };
    let value = number.trim().parse::<f64>().map(|value| value / scale);
    value
        .ok()
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| format!("`{text}` is not a probability (0 to 1, or 0% to 100%)"))
}

fn reorder(text: &str) -> Result<(f64, u32), String> {
    let Some((chance, distance)) = text.split_once('@') else {
        return Ok((probability(text)?, FaultPlan::default().reorder_distance));
    };
    let frames = distance.trim().parse().ok().filter(|frames| *frames > 0);
    let frames = frames.ok_or_else(|| format!("`{distance}` is not a number of frames above 0"))?;
    Ok((probability(chance.trim())?, frames))
}

fn delay(text: &str) -> Result<(f64, (Duration, Duration)), String> {
    let (chance, range) = match text.split_once('@') {
        Some((chance, range)) => (probability(chance.trim())?, range.trim()),
        None => (1.0, text),
    };
    let (from, to) = match range.split_once("..") {
        Some((from, to)) => (duration(from.trim())?, duration(to.trim())?),
        None => (duration(range)?, duration(range)?),
    };
    if from > to {
        return Err(format!("`{range}` ends before it begins"));
    }
    Ok((chance, (from, to)))
}

/// Longest delay in seconds: above it the peer has long been declared dead, and a plan is a
/// mistake.
const DELAY_SECONDS_MAX: f64 = 3600.0;

fn duration(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return Err(format!("`{text}` is not a time (a number and ns, us, ms or s)")),
    };
    let value = number.trim().parse::<f64>().map(|value| value * seconds);
    value
        .ok()
        .filter(|value| (0.0..=DELAY_SECONDS_MAX).contains(value))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("`{text}` is not a time from 0 to {DELAY_SECONDS_MAX} s"))
}

fn kinds(text: &str) -> Result<u32, String> {
    let mut mask = 0;
    for name in text.split('+').map(str::trim) {
        let by_name = Kind::ALL.iter().find(|kind| kind.name() == name).map(|kind| *kind as u8);
        let number = by_name.or_else(|| name.parse().ok().filter(|number| *number < 32));
        let Some(number) = number else {
            let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
            let names = names.join(", ");
            return Err(format!("`{name}` is no kind of frame (0 to 31, or {names})"));
        };
        mask |= 1 << number;
    }
    Ok(mask)
}

fn direction(text: &str) -> Result<(bool, bool), String> {
    match text {
        "send" => Ok((true, false)),
        "receive" => Ok((false, true)),
        "both" => Ok((true, true)),
        "none" => Ok((false, false)),
        _ => Err(format!("`{text}` is none of send, receive, both, none")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_plan_is_read() {
        let plan: FaultPlan =
            "drop:1%, reorder:0.05@4,delay:0.1@100us..2ms,kinds:data+ack+31,on:both,seed:7"
                .parse()
                .expect("it is well formed");
        assert_eq!(plan.drop, 0.01);
        assert_eq!((plan.reorder, plan.reorder_distance), (0.05, 4));
        assert_eq!(plan.delay, 0.1);
        let range = (Duration::from_micros(100), Duration::from_millis(2));
        assert_eq!(plan.delay_range, range);
        assert_eq!(plan.kinds, 1 << 4 | 1 << 5 | 1 << 31);
        assert!(plan.on_send && plan.on_receive);
        assert_eq!(plan.seed, 7);
        assert_eq!(plan.to_string().parse(), Ok(plan));
    }

    #[test]
    fn the_short_forms_are_read() {
        let plan: FaultPlan = "delay:200us".parse().expect("it is well formed");
        assert_eq!(plan.delay, 1.0);
        assert_eq!(plan.delay_range.0, plan.delay_range.1);
        assert!(!plan.is_quiet());
        let none: FaultPlan = "".parse().expect("nothing is a plan");
        assert_eq!(none, FaultPlan::default());
        assert!(none.is_quiet());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("drop", "what:value"),
            ("drop:2", "not a probability"),
            ("drop:NaN", "not a probability"),
            ("lose:0.1", "none of drop"),
            ("delay:5", "ns, us, ms or s"),
            ("delay:2ms..1ms", "ends before"),
            ("delay:inf s", "not a time"),
            ("reorder:0.1@0", "above 0"),
            ("kinds:datum", "no kind of frame"),
            ("kinds:32", "no kind of frame"),
            ("on:off", "none of send"),
            ("seed:x", "whole number"),
        ] {
            let error = text.parse::<FaultPlan>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
