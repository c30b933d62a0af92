//! `emp place`: how the stages of the engine would best be put on the cores of this machine, as far as that can be predicted.

mod lengths;
mod machine;
mod measured;
mod predict;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use emp_firmware::Profile;
use emp_model::tigon2::Placement;
use serde::Serialize;

use self::lengths::{LARGE, MTU, SMALL};
use self::measured::{DYNAMIC, Measured};
use self::predict::{Machine, Prediction, Work, predict};
use crate::bail_user;
use crate::bench::{StageCosts, measure_stages, write_json};
use crate::error::print;
use crate::output::check_writable;
use crate::schemes;

/// Predict what two cores would gain: the stages' costs measured here, placed as the multi-CPU paper's schemes place them.
///
/// Each scheme has a board, which is measured beside that: base is the board inline, io is split:io, SO is split:SO, and so on. Both ends are
/// on this machine then, over datagrams on loopback; with fewer than four cores the threads of those on two share them with the other end's.
#[derive(clap::Args)]
pub struct Args {
    /// Cores that may be used [default: those of this machine, two at most].
    #[arg(long)]
    cores: Option<usize>,
    /// Schemes of the paper: base, SO, RO, DSR, SR; io, which has the links' calls on the other core; or all, with dynamic (either core takes
    /// what comes next) among them.
    #[arg(long, value_delimiter = ',', default_value = "all", value_name = "SCHEMES")]
    scheme: Vec<String>,
    /// Another placement: A=STAGE,…;B=STAGE,… with each of send-bookkeeping, transmission, ack-arrival, ack-release,
    /// receive-bookkeeping, receive-frame, receive-dma, send-ack on one of them, and link-calls if they are not made by the stages
    /// that need them.
    #[arg(long, value_name = "TABLE")]
    placement: Option<String>,
    /// Protocol parameters: default, emp2001, openmx, vmmc2.
    #[arg(long, default_value = "default")]
    profile: String,
    /// Predict only.
    #[arg(long)]
    no_measure: bool,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    json: Option<std::path::PathBuf>,
}

/// Bytes of a frame that are not payload, about: EMP's head and what a first frame has.
const HEAD_BYTES: usize = 40;

/// Times that all costs are measured anew: what does not hold in each of them is noise.
const ROUNDS: usize = 3;

/// Messages of each length that are measured each time.
const MESSAGES: u64 = 7_000;

/// Cores on which the threads of both ends have one each.
const CORES_OF_BOTH_ENDS: usize = 4;

/// A gain below this is not worth a core, in parts of one: other programs make more of a difference.
const WORTH: f64 = 0.05;

/// Most cores that a scheme uses.
const CORES_MAX: usize = 2;

/// What is predicted of a scheme.
#[derive(Clone, Debug, Serialize)]
struct Row {
    scheme: String,
    cores: usize,
    /// Microseconds of a small message, the wire aside.
    one_way_us: f64,
    /// Gb/s of long messages one way.
    one_way_gbps: f64,
    /// Gb/s both ways together.
    both_ways_gbps: f64,
    /// The same three measured, of schemes that have a board.
    measured: Option<Measured>,
}

#[derive(Serialize)]
struct Written {
    /// Cores of the machine, which both ends of what was measured share.
    cores: usize,
    send_call_ns: f64,
    receive_call_ns: f64,
    crossing_ns: f64,
    schemes: Vec<Row>,
    recommended: String,
}

/// Runs `emp place`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let Some(profile) = Profile::by_name(&args.profile) else {
        let known: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
        bail_user!("there is no profile {}; there are {}", args.profile, known.join(", "));
    };
    let there = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = cores(args.cores, there)?;
    let placements = args.placements(cores)?;
    check_writable(&args.json)?;
    let with_dynamic = args.scheme == ["all"] && cores >= CORES_MAX;
    let (machine, rounds) = predict_all(profile, &placements, with_dynamic)?;
    let mut rows = middle(&rounds);
    if !args.no_measure {
        let names: Vec<&str> = rows.iter().map(|row| row.scheme.as_str()).collect();
        match measured::measure(&names) {
            Ok(all) => rows.iter_mut().zip(all).for_each(|(row, one)| row.measured = one),
            // What is predicted holds all the same.
            Err(problem) => eprintln!("note: nothing was measured: {problem:#}"),
        }
    }
    let (recommended, why) = recommend(&rows, &rounds, there);
    let text = tell(&rows, &machine, (recommended, why), there);
    if let Some(path) = &args.json {
        let [send_call_ns, receive_call_ns] = machine.calls;
        let written = Written {
            cores: there,
            send_call_ns,
            receive_call_ns,
            crossing_ns: machine.crossing,
            recommended: recommended.map_or_else(String::new, |row| row.scheme.clone()),
            schemes: rows,
        };
        write_json(path, &written)?;
        return print(&text);
    }
    print(&text)
}

impl Args {
    /// Those that were asked for. Of all there are, those that fit; one that was named must.
    fn placements(&self, cores: usize) -> anyhow::Result<Vec<Placement>> {
        let mut placements = schemes::named(&self.scheme)?;
        if self.scheme == ["all"] {
            placements.retain(|one| one.processors() <= cores);
        }
        if let Some(table) = &self.placement {
            placements.push(schemes::parse(table)?);
        }
        placements.iter().try_for_each(|one| schemes::within(one, cores))?;
        Ok(placements)
    }
}

fn cores(asked: Option<usize>, there: usize) -> anyhow::Result<usize> {
    match asked {
        None => Ok(there.min(CORES_MAX)),
        Some(0) => bail_user!("0 cores run nothing; choose 1 or {CORES_MAX}"),
        Some(many) if many > CORES_MAX => {
            bail_user!("{many} cores are more than any scheme uses; choose 1 or {CORES_MAX}")
        }
        Some(many) if many > there => {
            bail_user!(
                "this machine has {there} core for it, not {many}: crossings can't be measured"
            )
        }
        Some(many) => Ok(many),
    }
}

/// Predicts from costs that are measured anew each time. The machine as it was the last time.
fn predict_all(
    profile: &Profile,
    placements: &[Placement],
    with_dynamic: bool,
) -> anyhow::Result<(Machine, Vec<Vec<Row>>)> {
    let one = || {
        let machine = machine::measure()?;
        let costs = |bytes| measure_stages(profile, MTU, bytes, MESSAGES);
        let mut rows = rows(placements, &costs(SMALL)?, &costs(LARGE)?, &machine);
        if with_dynamic {
            rows.extend(dynamic(&rows));
        }
        anyhow::Ok((machine, rows))
    };
    let mut rounds = (0..ROUNDS).map(|_| one()).collect::<anyhow::Result<Vec<_>>>()?;
    let machine = rounds[ROUNDS - 1].0;
    Ok((machine, rounds.drain(..).map(|(_, rows)| rows).collect()))
}

/// Of each figure the one in the middle.
fn middle(rounds: &[Vec<Row>]) -> Vec<Row> {
    let of = |index: usize, figure: fn(&Row) -> f64| {
        let mut all: Vec<f64> = rounds.iter().map(|rows| figure(&rows[index])).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let first = rounds.first().into_iter().flatten().enumerate();
    let middle = first.map(|(index, row)| Row {
        one_way_us: of(index, |row| row.one_way_us),
        one_way_gbps: of(index, |row| row.one_way_gbps),
        both_ways_gbps: of(index, |row| row.both_ways_gbps),
        ..row.clone()
    });
    middle.collect()
}

/// Whichever takes what comes next: no more than the better of base, in which nothing waits for another core, and of DSR, whose second core takes
/// frames.
fn dynamic(rows: &[Row]) -> Option<Row> {
    let of = |name: &str| rows.iter().find(|row| row.scheme == name);
    let (base, dsr) = of("base").zip(of("DSR"))?;
    Some(Row {
        scheme: DYNAMIC.to_owned(),
        cores: CORES_MAX,
        one_way_us: base.one_way_us.min(dsr.one_way_us),
        one_way_gbps: base.one_way_gbps.max(dsr.one_way_gbps),
        both_ways_gbps: base.both_ways_gbps.max(dsr.both_ways_gbps),
        measured: None,
    })
}

fn rows(
    placements: &[Placement],
    small: &StageCosts,
    large: &StageCosts,
    machine: &Machine,
) -> Vec<Row> {
    let frames = LARGE.div_ceil(MTU - HEAD_BYTES) as f64;
    let (short, long) = (Work::of(small, 1.0, machine), Work::of(large, frames, machine));
    let row = |placement: &Placement| {
        let Prediction { one_way, .. } = predict(placement, &short, 1.0, machine);
        let stream = predict(placement, &long, frames, machine);
        let gbps = |rate: f64| rate * LARGE as f64 * 8e-9;
        Row {
            scheme: placement.name().to_owned(),
            cores: placement.processors(),
            one_way_us: one_way / 1e3,
            one_way_gbps: gbps(stream.one_way_rate),
            both_ways_gbps: 2.0 * gbps(stream.both_ways_rate),
            measured: None,
        }
    };
    placements.iter().map(row).collect()
}

/// The one that moves most both ways, of those that can be recommended; of some that are about as good the one with fewest cores, then the quickest.
/// And, where another is predicted to be better, why it is not that.
fn recommend<'a>(
    rows: &'a [Row],
    rounds: &[Vec<Row>],
    there: usize,
) -> (Option<&'a Row>, &'static str) {
    let base = rows.iter().find(|row| row.cores == 1);
    let why_not = |row: &Row| base.and_then(|base| why_not((row, base), rounds, there));
    let can: Vec<&Row> = rows.iter().filter(|row| why_not(row).is_none()).collect();
    let (one, by_prediction) = (best(can), best(rows.iter().collect()));
    (one, by_prediction.and_then(why_not).unwrap_or_default())
}

fn best(rows: Vec<&Row>) -> Option<&Row> {
    let most = rows.iter().map(|row| row.both_ways_gbps).fold(0.0, f64::max);
    let good = rows.into_iter().filter(|row| row.both_ways_gbps >= most * (1.0 - WORTH));
    good.min_by(|a, b| a.cores.cmp(&b.cores).then(a.one_way_us.total_cmp(&b.one_way_us)))
}

/// Why a scheme of several cores is not recommended, though it may be predicted to gain: it does not each time, or was not seen to where base was
/// measured, by a board with a core for each thread.
fn why_not((one, base): (&Row, &Row), rounds: &[Vec<Row>], there: usize) -> Option<&'static str> {
    if one.cores == 1 {
        return None;
    }
    let gains = |rows: &Vec<Row>| {
        let of = |name: &str| rows.iter().find(|row| row.scheme == name);
        let pair = of(&one.scheme).zip(of(&base.scheme));
        pair.is_some_and(|(one, base)| one.both_ways_gbps >= base.both_ways_gbps * (1.0 + WORTH))
    };
    if !rounds.iter().all(gains) {
        return Some(": what others gain lies within the spread of what was measured here");
    }
    match (base.measured, one.measured) {
        (None, _) => None,
        (Some(_), None) => Some(": what is predicted to gain more has no board"),
        (Some(_), Some(_)) if there < CORES_OF_BOTH_ENDS => {
            Some(": what is predicted to gain more needs a core for each thread to show it")
        }
        (Some(base), Some(one)) => {
            let gains = one.both_ways_gbps >= base.both_ways_gbps * (1.0 + WORTH);
            (!gains).then_some(": what was predicted to gain more did not when it was measured")
        }
    }
}

fn tell(
    rows: &[Row],
    machine: &Machine,
    (recommended, why): (Option<&Row>, &str),
    there: usize,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING);
    table.set_header(["scheme", "cores", "one way, 32 B", "stream of 64 KB", "both ways"]);
    let figures = |us: f64, one_way: f64, both: f64| {
        [format!("{us:.2} µs"), format!("{one_way:.1} Gb/s"), format!("{both:.1} Gb/s")]
    };
    for row in rows {
        let [us, one_way, both] = figures(row.one_way_us, row.one_way_gbps, row.both_ways_gbps);
        table.add_row([row.scheme.clone(), row.cores.to_string(), us, one_way, both]);
        if let Some(Measured { one_way_us, one_way_gbps, both_ways_gbps }) = row.measured {
            let [us, one_way, both] = figures(one_way_us, one_way_gbps, both_ways_gbps);
            table.add_row(["  measured".to_owned(), String::new(), us, one_way, both]);
        }
    }
    let recommended = recommended.map_or_else(String::new, |row| {
        format!(
            "recommended: {} on {} core{}{why}\n",
            row.scheme,
            row.cores,
            if row.cores > 1 { "s" } else { "" }
        )
    });
    let [send, receive] = machine.calls;
    format!(
        "{table}\n{recommended}predicted, where it does not say measured; base is the board inline, io is split:io, and so on\nmeasured over udp on loopback, whose kernel takes several \
         frames in a call, both ends on this machine's {there} cores; those on two would have two for each end\n\
         from: stages measured here (emp bench stages), a datagram's calls over loopback {send:.0} and {receive:.0} ns, from core to \
         core {:.0} ns; frames of {MTU} bytes, no wire\n",
        machine.crossing
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;

    fn row(scheme: &str, cores: usize, one_way_us: f64, both_ways_gbps: f64) -> Row {
        Row {
            scheme: scheme.to_owned(),
            cores,
            one_way_us,
            one_way_gbps: 1.0,
            both_ways_gbps,
            measured: None,
        }
    }

    #[test]
    fn a_second_core_is_recommended_only_for_a_gain() {
        let base = row("base", 1, 2.0, 10.0);
        let of = |rows: &[Row]| {
            let (one, why) = recommend(rows, &[rows.to_vec()], 2);
            assert_eq!(why, "");
            one.unwrap().scheme.clone()
        };
        let choose = |other: Row| of(&[base.clone(), other]);
        assert_eq!(choose(row("DSR", 2, 2.1, 16.0)), "DSR");
        assert_eq!(choose(row("DSR", 2, 1.9, 10.3)), "base");
        let rows = [base.clone(), row("SO", 2, 2.4, 16.0), row("DSR", 2, 2.1, 15.9)];
        assert_eq!(of(&rows), "DSR", "the quicker one");
        assert!(recommend(&[], &[], 2).0.is_none());
    }

    #[test]
    fn what_is_not_so_each_time_or_where_it_is_measured_is_not_recommended() {
        let rows = |gbps: f64| vec![row("base", 1, 2.0, 10.0), row("DSR", 2, 2.1, gbps)];
        let rounds = [rows(15.0), rows(9.9), rows(16.0)];
        let middle = middle(&rounds);
        assert_eq!(middle[1].both_ways_gbps, 15.0);
        let (one, why) = recommend(&middle, &rounds, 8);
        assert!(one.unwrap().scheme == "base" && why.contains("within the spread"), "{why}");
        let mut seen = rows(15.0);
        let gbps = |both_ways_gbps| Some(Measured { both_ways_gbps, ..Measured::default() });
        (seen[0].measured, seen[1].measured) = (gbps(9.0), gbps(7.0));
        let rounds = [rows(15.0)];
        let of = |seen: &[Row], there| {
            let (one, why) = recommend(seen, &rounds, there);
            (one.unwrap().scheme.clone(), why)
        };
        assert!(of(&seen, 4).0 == "base" && of(&seen, 4).1.contains("did not"));
        assert!(of(&seen, 2).0 == "base" && of(&seen, 2).1.contains("a core for each thread"));
        seen[1].measured = gbps(12.0);
        assert_eq!(of(&seen, 4), ("DSR".to_owned(), ""));
        seen[1].measured = None;
        assert!(of(&seen, 4).0 == "base" && of(&seen, 4).1.contains("has no board"));
        // One that can't be recommended hides no other.
        let mut three = rows(15.0);
        three.push(row("given", 2, 2.0, 20.0));
        (three[0].measured, three[1].measured) = (gbps(9.0), gbps(12.0));
        let (one, why) = recommend(&three, &[three.clone()], 4);
        assert!(one.unwrap().scheme == "DSR" && why.contains("has no board"), "{why}");
    }

    #[test]
    fn either_core_does_no_better_than_the_better_of_two_schemes() {
        let rows = [row("base", 1, 2.0, 10.0), row("DSR", 2, 2.1, 16.0)];
        let dynamic = dynamic(&rows).unwrap();
        assert_eq!((dynamic.one_way_us, dynamic.both_ways_gbps, dynamic.cores), (2.0, 16.0, 2));
    }

    #[test]
    fn cores_that_make_no_sense_are_the_users_mistake() {
        assert_eq!((cores(None, 1).unwrap(), cores(None, 8).unwrap()), (1, 2));
        for (asked, there) in [(0, 4), (3, 4), (2, 1)] {
            let error = cores(Some(asked), there).unwrap_err();
            assert!(error.is::<UserError>(), "{error}");
        }
    }
}
