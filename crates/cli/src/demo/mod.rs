//! `emp demo`: what EMP does, shown on this machine in half a minute.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::bench::{
    Effort, LinkChoice, MTU_DEFAULT, Named, Pair, Session, Spec, Work, links, load, measure_sizes,
    note_conditions, verify_outcome, verify_plan,
};
use crate::error::print;
use crate::measured::{Pattern, Row, SubjectKind};
use crate::output::{check_directory, make_directory};
use crate::progress::Progress;
use crate::report::{plot, table};

/// Show EMP on this machine: a lab of two hosts, ping-pong and stream against TCP, and a run over a lossy link.
///
/// Takes under 40 seconds and leaves nothing behind but emp-demo/report.svg.
#[derive(clap::Args)]
pub struct Args {}

/// Where the curves go, from the directory the user is in.
const DIRECTORY: &str = "emp-demo";

/// The file in it.
const REPORT: &str = "report.svg";

/// Sizes of the ping-pong: the curves are made of them.
const PINGPONG: [usize; 10] =
    [4, 32, 128, 512, 2 << 10, 8 << 10, 32 << 10, 128 << 10, 512 << 10, 1 << 20];

/// Of these, the ones that the table shows: a word, a cache line, a page, and what bulk is made of.
const SHOWN: [usize; 5] = [4, 32, 2 << 10, 32 << 10, 1 << 20];

/// Sizes of the stream.
const STREAM: [usize; 3] = [2 << 10, 32 << 10, 1 << 20];

/// Time for each subject at each size, in short slices. Thirteen sizes of six subjects take about 13 seconds with the
/// finding of message counts, on a busy machine up to twice that.
const EFFORT: Effort = Effort { slice: Duration::from_millis(10), runs: 11 };

/// Part of the frames that the verify run loses on purpose, at each end.
const LOSS: f64 = 0.01;

/// Seconds of the verify run.
const VERIFY_SECONDS: f64 = 4.0;

/// Runs `emp demo`.
pub fn run(_args: &Args) -> anyhow::Result<()> {
    check_directory(Path::new(DIRECTORY), REPORT)?;
    let load = load();
    let mut pair = Pair::new(MTU_DEFAULT)?;
    print(
        "lab: two hosts (network namespaces), one cable, MTU 1500, a core each where there are two\n",
    )?;
    let (rows, verified) = pair.run(|peer| {
        let subjects = subjects();
        let mut session = Session::open(peer, subjects, &Named::default(), None)?;
        introduce(&session)?;
        let progress =
            Progress::new((PINGPONG.len() + STREAM.len()) * session.specs().len() * EFFORT.runs);
        let mut rows = measure(&mut session, Pattern::Pingpong, &PINGPONG, &progress)?;
        rows.extend(measure(&mut session, Pattern::Stream, &STREAM, &progress)?);
        drop((session, progress));
        let lossy = Spec { loss: LOSS, ..Spec::emp(LinkChoice::Auto) };
        let mut session = Session::open(peer, vec![lossy], &Named::default(), None)?;
        let plan = verify_plan(1, VERIFY_SECONDS);
        let tallies =
            Progress::during("verifying at 1 % loss", VERIFY_SECONDS, || session.verify(0, plan))?;
        Ok((rows, verify_outcome(&tallies)?))
    })?;
    drop(pair);
    let (curves, mut shown): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.pattern == Pattern::Pingpong);
    let picked = curves.iter().filter(|row| row.size.is_some_and(|size| SHOWN.contains(&size)));
    shown.splice(0..0, picked.cloned());
    let path = write_curves(&curves)?;
    note_conditions(load);
    print(&format!(
        "\n{}\nat 1 % loss, {verified}curves: {}\n",
        table::pivot(&shown),
        path.display()
    ))
}

/// What a user gets without asking first, then the links one by one.
fn subjects() -> Vec<Spec> {
    let [auto, packet, udp] =
        [LinkChoice::Auto, LinkChoice::Packet, LinkChoice::Udp].map(Spec::emp);
    let raw = [packet.against(SubjectKind::Raw), udp.against(SubjectKind::Raw)];
    let tcp = auto.against(SubjectKind::Tcp);
    [auto, packet, udp].into_iter().chain(raw).chain([tcp]).collect()
}

fn introduce(session: &Session) -> anyhow::Result<()> {
    links(session.place()).iter().try_for_each(|line| print(&format!("link {line}\n")))?;
    let auto = session.cards().first().map(|card| card.links.join("+")).unwrap_or_default();
    print(&format!(
        "EMP takes {auto} by itself; the other columns are its links one by one, bare links, TCP\n"
    ))
}

fn measure(
    session: &mut Session,
    pattern: Pattern,
    sizes: &[usize],
    progress: &Progress,
) -> anyhow::Result<Vec<Row>> {
    let subjects: Vec<usize> = (0..session.specs().len()).collect();
    let work = Work { subjects: &subjects, pattern, window: None, effort: EFFORT };
    measure_sizes(session, &work, sizes, progress)
}

fn write_curves(rows: &[Row]) -> anyhow::Result<PathBuf> {
    let directory = PathBuf::from(DIRECTORY);
    make_directory(&directory)?;
    let path = directory.join(REPORT);
    plot::write(&path, "EMP between two hosts of a lab: ping-pong, MTU 1500", rows)?;
    Ok(path)
}
