//! `emp reproduce`: the papers' experiments on models of their machines, which run EMP's engine; each published figure beside the model's.

mod als;
mod emp;
mod experiment;
mod multi_cpu;
mod open_mx;
mod page;
mod row;
mod table;
mod vmmc;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, bail};

use crate::bail_user;
use crate::error::print;
use crate::measured::NetpipeRun;
use crate::output::check_writable;
use experiment::{Experiment, Picture};
use row::Verdict;

/// Run the papers' experiments on models of their machines, and show each published figure beside the model's.
///
/// Ends with 1 if a row misses its bar, unless the table says why no honest parameter would help.
#[derive(clap::Args)]
pub struct Args {
    /// emp, multicpu, vmmc, openmx, als, or all.
    #[arg(value_name = "NAME", default_value = "all")]
    name: String,
    /// Show what each model is made of, and where each figure comes from.
    #[arg(long)]
    parameters: bool,
    /// Write the rows to a file, for programs.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one page with the tables and the papers' curves.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// With --html: put the curves of `emp bench netpipe --json FILE` beside the papers'.
    #[arg(long, value_name = "FILE", requires = "html")]
    beside: Option<PathBuf>,
}

/// A paper's experiments: their name, their rows, their curves.
struct Paper {
    name: &'static str,
    rows: fn() -> anyhow::Result<Experiment>,
    pictures: fn() -> anyhow::Result<Vec<Picture>>,
}

const PAPERS: [Paper; 5] = [
    Paper { name: "emp", rows: emp::run, pictures: emp::pictures },
    Paper { name: "multicpu", rows: multi_cpu::run, pictures: multi_cpu::pictures },
    Paper { name: "vmmc", rows: vmmc::run, pictures: vmmc::pictures },
    Paper { name: "openmx", rows: open_mx::run, pictures: open_mx::pictures },
    Paper { name: "als", rows: als::run, pictures: || Ok(als::pictures()) },
];

/// Runs `emp reproduce`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let papers: Vec<&Paper> =
        PAPERS.iter().filter(|paper| args.name == "all" || args.name == paper.name).collect();
    if papers.is_empty() {
        let known: Vec<_> = PAPERS.iter().map(|paper| paper.name).collect();
        bail_user!("there is no experiment {}; there are {}, all", args.name, known.join(", "));
    }
    check_writable(args.json.iter().chain(&args.html))?;
    let beside = args.beside.as_ref().map(read_beside).transpose()?;
    let mut experiments = Vec::new();
    for paper in &papers {
        let experiment = (paper.rows)().with_context(|| format!("experiment {}", paper.name))?;
        print(&table::show(&experiment))?;
        if args.parameters {
            print(&table::show_parameters(&experiment))?;
        }
        experiments.push(experiment);
    }
    if let Some(file) = &args.json {
        let rows = serde_json::to_string_pretty(&table::json(&experiments))?;
        fs::write(file, rows + "\n").with_context(|| format!("writing {}", file.display()))?;
    }
    if let Some(file) = &args.html {
        let pictures: anyhow::Result<Vec<_>> =
            papers.iter().map(|paper| (paper.pictures)()).collect();
        let page = page::page(&experiments, &pictures?, beside.as_ref())?;
        fs::write(file, page).with_context(|| format!("writing {}", file.display()))?;
    }
    let verdicts =
        || experiments.iter().flat_map(|experiment| &experiment.rows).map(row::Row::verdict);
    let count = |of| verdicts().filter(|verdict| *verdict == of).count();
    let (met, missed, known) = (count(Verdict::Met), count(Verdict::Missed), count(Verdict::Known));
    print(&format!("{met} met, {missed} missed, {known} missed for a reason that is given\n"))?;
    if missed > 0 {
        bail!("{missed} rows miss their bars");
    }
    Ok(())
}

fn read_beside(file: &PathBuf) -> anyhow::Result<NetpipeRun> {
    let text = match fs::read(file) {
        Ok(text) => text,
        Err(problem) => bail_user!("{} can't be read: {problem}", file.display()),
    };
    match serde_json::from_slice(&text) {
        Ok(run) => Ok(run),
        Err(problem) => bail_user!(
            "{} is not what `emp bench netpipe --json` writes: {problem}",
            file.display()
        ),
    }
}
