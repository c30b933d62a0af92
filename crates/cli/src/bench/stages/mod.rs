//! `emp bench stages`: the multi-CPU paper's Table 1 (I9) for this machine.

pub mod crossing;
mod engines;
mod timed;

use std::path::PathBuf;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use emp_firmware::{Profile, Stage};
use serde::Serialize;

use super::results::write_json;
use crate::bail_user;
use crate::error::print;
use crate::output::check_writable;
use crate::sizes;

/// What each stage of a message's way takes here: the multi-CPU paper's Table 1 for this machine, beside the paper's.
///
/// Two engines in one thread hand each other frames through memory, so that caches are warm and no link has a part in it. The clock
/// is read where stages begin and end, and what that takes is subtracted. Below it is what a crossing between two cores takes.
#[derive(clap::Args)]
pub struct Args {
    /// Protocol parameters: default, emp2001, openmx, vmmc2.
    #[arg(long, default_value = "default")]
    profile: String,
    /// Messages' lengths.
    #[arg(long, default_value = "32,64K")]
    sizes: String,
    /// Largest frame, in bytes.
    #[arg(long, default_value_t = 1500)]
    mtu: usize,
    /// Messages each way, after as many of a tenth to warm up.
    #[arg(long, default_value_t = 20_000)]
    messages: u64,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// Microseconds that the paper has for each stage (I9, I17: the two halves of receive bookkeeping), in the order of [`Stage::ALL`].
const PAPER_US: [Option<f64>; Stage::ALL.len()] =
    [Some(5.25), Some(5.5), Some(5.75), Some(6.25), Some(4.25), Some(2.75), Some(2.5), None];

/// Slices of which the median counts, as another program on the core makes some longer.
const SLICES: u64 = 11;

/// Bytes of messages whose time is spent on few of them: those of a slice share so many.
const SLICE_BYTES: u64 = 256 << 20;

/// Largest message: half of the memory that the engines have.
const SIZE_MAX: usize = 4 << 20;

/// Frames that the engines' link may have.
const MTUS: std::ops::RangeInclusive<usize> = 576..=9_216;

/// Messages that may be asked for.
const MESSAGES: std::ops::RangeInclusive<u64> = 100..=10_000_000;

/// One stage for messages of one length.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Cost {
    /// Times that it begins for each message, both ends together.
    pub calls: f64,
    /// Nanoseconds for each message, both ends together.
    pub ns: f64,
}

/// What messages of one length take.
#[derive(Clone, Debug, Serialize)]
pub struct Costs {
    /// Their length.
    pub bytes: usize,
    /// Each stage, in the order of [`Stage::ALL`].
    pub stages: [Cost; Stage::ALL.len()],
}

#[derive(Serialize)]
struct Written<'a> {
    profile: &'a str,
    mtu: usize,
    clock_ns: f64,
    crossing_ns: f64,
    names: [&'static str; Stage::ALL.len()],
    paper_us: [Option<f64>; Stage::ALL.len()],
    costs: &'a [Costs],
}

/// Measures messages of one length.
pub fn measure(
    profile: &Profile,
    mtu: usize,
    bytes: usize,
    messages: u64,
) -> anyhow::Result<Costs> {
    let clock_ns = timed::clock_ns();
    let most = SLICE_BYTES / (bytes as u64).max(1);
    let each = (messages / SLICES).min(most).max(1);
    let mut engines = engines::Engines::new(profile, mtu);
    for _ in 0..each.div_ceil(10).max(3) {
        engines.exchange(bytes as u64)?;
    }
    let mut slices = Vec::new();
    for _ in 0..SLICES {
        engines.clear();
        for _ in 0..each {
            engines.exchange(bytes as u64)?;
        }
        // Both ways are messages.
        let count = 2.0 * each as f64;
        let counts = engines.counts(clock_ns);
        slices.push(counts.map(|one| Cost { calls: one.calls as f64 / count, ns: one.ns / count }));
    }
    let stages = core::array::from_fn(|stage| {
        let mut ns: Vec<f64> = slices.iter().map(|slice| slice[stage].ns).collect();
        ns.sort_by(f64::total_cmp);
        Cost { ns: ns[ns.len() / 2], ..slices[0][stage] }
    });
    Ok(Costs { bytes, stages })
}

/// Runs `emp bench stages`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some(profile) = Profile::by_name(&args.profile) else {
        let known: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
        bail_user!("there is no profile {}; there are {}", args.profile, known.join(", "));
    };
    let sizes = sizes::parse(&args.sizes)?;
    if let Some(size) = sizes.iter().find(|size| **size > SIZE_MAX) {
        bail_user!("messages of {size} bytes are too long here; choose up to 4M");
    }
    if !MTUS.contains(&args.mtu) {
        bail_user!(
            "frames of {} bytes are not possible; choose {} to {}",
            args.mtu,
            MTUS.start(),
            MTUS.end()
        );
    }
    if !MESSAGES.contains(&args.messages) {
        let (least, most) = (MESSAGES.start(), MESSAGES.end());
        bail_user!("{} messages are not possible; choose {least} to {most}", args.messages);
    }
    check_writable(&args.json)?;
    let costs = sizes.iter().map(|bytes| measure(profile, args.mtu, *bytes, args.messages));
    let costs = costs.collect::<anyhow::Result<Vec<_>>>()?;
    let crossing_ns = crossing::measure();
    if let Some(path) = &args.json {
        let names = Stage::ALL.map(Stage::name);
        let (profile, mtu, clock_ns) = (profile.name, args.mtu, timed::clock_ns());
        let paper_us = PAPER_US;
        let costs = &costs;
        let written = Written { profile, mtu, clock_ns, crossing_ns, names, paper_us, costs };
        write_json(path, &written)?;
    }
    print(&format!(
        "{}from one core to another: {crossing_ns:.0} ns until it sees a word that was written\n",
        table(&costs)
    ))
}

fn table(costs: &[Costs]) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    let mut header = vec!["stage".to_owned(), "paper µs".to_owned()];
    for cost in costs {
        let size = sizes::show(cost.bytes);
        header.extend([
            format!("{size}: calls"),
            "ns a call".to_owned(),
            "ns a message".to_owned(),
        ]);
    }
    table.set_header(header);
    let row = |stage: Stage| {
        let paper = PAPER_US[stage as usize];
        let mut row =
            vec![stage.name().to_owned(), paper.map_or("-".to_owned(), |us| format!("{us:.2}"))];
        for cost in costs {
            let Cost { calls, ns } = cost.stages[stage as usize];
            let each = if calls > 0.0 { format!("{:.0}", ns / calls) } else { "-".to_owned() };
            row.extend([format!("{calls:.2}"), each, format!("{ns:.0}")]);
        }
        row
    };
    let counted = Stage::ALL.into_iter().filter(|stage| *stage != Stage::Rest);
    counted.clone().for_each(|stage| {
        table.add_row(row(stage));
    });
    let mut sum = vec!["all".to_owned(), format!("{:.2}", PAPER_US.iter().flatten().sum::<f64>())];
    for cost in costs {
        let ns: f64 = counted.clone().map(|stage| cost.stages[stage as usize].ns).sum();
        sum.extend([String::new(), String::new(), format!("{ns:.0}")]);
    }
    table.add_row(sum);
    format!(
        "{table}\npaper: for each frame, on an 88 MHz processor of a card (multi-CPU paper, Tables 1 and 2)\n\
         here: both ends of a message together, one thread, warm caches, no link\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is counted follows from the protocol; times only have to be there.
    #[test]
    fn every_stage_of_a_message_is_counted() {
        let small = measure(&Profile::DEFAULT, 1500, 32, 220).unwrap();
        let calls = |costs: &Costs, stage: Stage| costs.stages[stage as usize].calls;
        assert!((calls(&small, Stage::SendBookkeeping) - 1.0).abs() < 1e-9);
        assert!(calls(&small, Stage::Transmission) >= 1.0);
        assert!(calls(&small, Stage::ReceiveBookkeeping) >= 1.0);
        assert!(calls(&small, Stage::ReceiveAcknowledgement) >= 1.0, "they ride on answers");
        let large = measure(&Profile::DEFAULT, 1500, 64 << 10, 110).unwrap();
        // 64 KiB are 45 frames or more; the first of each part is found with its message.
        assert!(calls(&large, Stage::ReceiveFrame) > 35.0, "{large:?}");
        assert!(calls(&large, Stage::ReceiveDma) >= calls(&large, Stage::ReceiveFrame));
        for costs in [&small, &large] {
            assert!(costs.stages[Stage::SendBookkeeping as usize].ns > 0.0, "{costs:?}");
            assert!(costs.stages[Stage::ReceiveBookkeeping as usize].ns > 0.0, "{costs:?}");
        }
        let text = table(&[small, large]);
        for stage in Stage::ALL.into_iter().filter(|stage| *stage != Stage::Rest) {
            assert!(text.contains(stage.name()), "{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
}
