//! What `emp bench bars` measures, and where each bar is. Data only.

use super::job::{LinkChoice, Measure, Pattern, Spec, SubjectKind};

/// Which figure of a slice counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Figure {
    OneWay,
    Gbps,
    MessageRate,
}

impl Figure {
    /// Of one slice.
    pub fn of(self, measure: &Measure) -> f64 {
        match self {
            Self::OneWay => measure.one_way_us().unwrap_or(f64::NAN),
            Self::Gbps => measure.gbps(),
            Self::MessageRate => measure.messages_per_s(),
        }
    }

    /// With its unit.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::OneWay => format!("{value:.2} µs"),
            Self::Gbps => format!("{value:.2} Gb/s"),
            Self::MessageRate => format!("{:.0} k msg/s", value / 1e3),
        }
    }
}

/// Where the bar is.
#[derive(Clone, Copy)]
pub enum Limit {
    AtMost(f64),
    AtLeast(f64),
    /// Nowhere: the figure is told beside the others.
    Told,
}

/// What is made of the figures of the first subject, with those of another one measured in turn with it.
#[derive(Clone, Copy)]
pub enum Value {
    /// The median itself.
    Alone,
    /// The median of the ratios of neighbouring slices.
    Ratio(usize),
    /// The median of the differences of neighbouring slices.
    Difference(usize),
    /// The ratio of the means over all messages: what is rare counts.
    Means(usize),
}

impl Value {
    /// The other subject.
    pub fn to(self) -> Option<usize> {
        match self {
            Self::Alone => None,
            Self::Ratio(to) | Self::Difference(to) | Self::Means(to) => Some(to),
        }
    }
}

/// One promise.
pub struct Bar {
    pub name: &'static str,
    pub value: Value,
    pub limit: Limit,
}

/// Subjects that take turns, and what is promised of the first.
pub struct Group {
    pub pattern: Pattern,
    pub size: usize,
    /// Messages outstanding, if it is to be a certain number.
    pub window: Option<usize>,
    pub figure: Figure,
    pub specs: Vec<Spec>,
    pub bars: Vec<Bar>,
}

const fn at_most(name: &'static str, value: Value, limit: f64) -> Bar {
    Bar { name, value, limit: Limit::AtMost(limit) }
}

const fn at_least(name: &'static str, value: Value, limit: f64) -> Bar {
    Bar { name, value, limit: Limit::AtLeast(limit) }
}

const fn told(name: &'static str, value: Value) -> Bar {
    Bar { name, value, limit: Limit::Told }
}

fn group(pattern: Pattern, size: usize, specs: Vec<Spec>, bars: Vec<Bar>) -> Group {
    let figure = match pattern {
        Pattern::Pingpong => Figure::OneWay,
        Pattern::Rate => Figure::MessageRate,
        _ => Figure::Gbps,
    };
    Group { pattern, size, window: None, figure, specs, bars }
}

/// All promises that are measured within seconds. What EMP chooses by itself (`auto`) is meant where no link is named, and by TCP
/// the one under the congestion control that it is faster with.
#[expect(clippy::too_many_lines, reason = "a table")]
pub fn all() -> Vec<Group> {
    use Pattern::{Pingpong, Rate, Stream};
    use Value::{Alone, Difference, Means, Ratio};
    let emp = Spec::emp;
    let auto = || emp(LinkChoice::Auto);
    let raw = |link| emp(link).against(SubjectKind::Raw);
    let beside_raw = |link| vec![emp(link), raw(link)];
    let tcp = || auto().against(SubjectKind::Tcp);
    let lossy = |spec: Spec| vec![Spec { loss: 0.001, ..spec.clone() }, spec];
    let (packet, udp, xdp, shm) =
        (LinkChoice::Packet, LinkChoice::Udp, LinkChoice::Xdp, LinkChoice::Shm);
    const MIB: usize = 1 << 20;
    vec![
        group(
            Pingpong,
            32,
            vec![emp(packet), raw(packet), tcp()],
            vec![
                at_most("32 B one way, packet, to bare ring", Ratio(1), 1.4),
                at_most("32 B one way, packet, to TCP", Ratio(2), 0.5),
            ],
        ),
        group(
            Pingpong,
            32,
            beside_raw(xdp),
            vec![at_most("32 B one way, xdp, to bare ring", Ratio(1), 1.4)],
        ),
        group(
            Pingpong,
            32,
            beside_raw(udp),
            vec![at_most("32 B one way, udp, to bare UDP", Ratio(1), 1.3)],
        ),
        group(
            Pingpong,
            32,
            vec![auto(), tcp()],
            vec![at_most("32 B one way, to TCP", Ratio(1), 0.36)],
        ),
        // As programs wait that say nothing about it, beside the spinning that is measured elsewhere and TCP that sleeps.
        group(
            Pingpong,
            32,
            vec![
                Spec { wait: Some("adaptive".to_owned()), ..auto() },
                auto(),
                auto().against(SubjectKind::TcpBlock),
            ],
            vec![told("32 B one way, adaptive waiting, µs", Alone)],
        ),
        group(Pingpong, 32, beside_raw(shm), vec![at_most("32 B one way, shm, µs", Alone, 0.35)]),
        Group {
            figure: Figure::Gbps,
            ..group(
                Pingpong,
                MIB,
                beside_raw(shm),
                vec![at_least("1 MiB, shm, to process_vm_readv", Ratio(1), 0.85)],
            )
        },
        Group {
            figure: Figure::Gbps,
            ..group(
                Pingpong,
                MIB,
                beside_raw(udp),
                vec![at_least("1 MiB one way, udp, to bare segmented UDP", Ratio(1), 0.9)],
            )
        },
        group(
            Stream,
            MIB,
            vec![auto(), raw(udp), tcp()],
            vec![
                at_least("1 MiB stream, to bare segmented UDP", Ratio(1), 0.9),
                // As much as TCP at its fastest. 2.5 times was asked of TCP under bbr, which has about a quarter of cubic's.
                at_least("1 MiB stream, to TCP", Ratio(2), 1.0),
            ],
        ),
        group(Rate, 64, vec![auto()], vec![at_least("64 B messages/s, one sender", Alone, 1e6)]),
        Group {
            window: Some(64),
            ..group(
                Rate,
                64,
                vec![Spec { bundle: true, ..auto() }],
                vec![at_least("64 B messages/s, window 64, bundled", Alone, 3e6)],
            )
        },
        group(
            Stream,
            MIB,
            lossy(emp(packet)),
            vec![at_least("1 MiB stream, packet, 0.1 % loss to none", Ratio(1), 0.9)],
        ),
        group(
            Stream,
            MIB,
            lossy(emp(udp)),
            vec![at_least("1 MiB stream, udp, 0.1 % loss to none", Ratio(1), 0.9)],
        ),
        group(
            Pingpong,
            64,
            lossy(auto()),
            vec![at_most("64 B, mean, 0.1 % loss to none", Means(1), 2.0)],
        ),
        group(
            Pingpong,
            64 << 10,
            lossy(auto()),
            vec![at_most("64 KB, mean, 0.1 % loss to none", Means(1), 2.0)],
        ),
        group(
            Pingpong,
            8,
            vec![auto().against(SubjectKind::LIBFABRIC), auto()],
            vec![at_most("8 B one way, libfabric less host API, µs", Difference(1), 0.19)],
        ),
        group(
            Pingpong,
            32,
            vec![emp(packet), Spec { guardian: false, ..emp(packet) }],
            vec![at_most("32 B one way, guardian, to none", Ratio(1), 1.02)],
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::Value::Alone;
    use super::*;

    #[test]
    fn bars_have_names_of_their_own_and_subjects_that_are_there() {
        let groups = all();
        let mut names: Vec<_> =
            groups.iter().flat_map(|group| &group.bars).map(|bar| bar.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for group in &groups {
            let there = |subject: usize| subject < group.specs.len();
            assert!(group.bars.iter().all(|bar| bar.value.to().is_none_or(there)));
            let used = |subject: usize| {
                group.bars.iter().any(|bar| subject == 0 || bar.value.to() == Some(subject))
            };
            // What is beside a bar that is a time is shown with it.
            let shown = |_| group.bars.iter().any(|bar| matches!(bar.value, Alone));
            assert!((0..group.specs.len()).all(|subject| used(subject) || shown(subject)));
        }
    }
}
