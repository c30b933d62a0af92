//! `emp reproduce`: the papers' experiments on models of their machines, which run EMP's engine; each published figure beside the model's.

mod als;
mod beside;
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
use emp_model::tigon2::Placement;

use crate::bail_user;
use crate::error::print;
use crate::output::check_writable;
use crate::schemes;
use beside::Beside;
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
    /// With --html: put today's figures beside the papers', from what `emp bench netpipe`, `overlap` or `logp` wrote with --json. May be given
    /// several times.
    #[arg(long, value_name = "FILE", requires = "html")]
    beside: Vec<PathBuf>,
    /// With multicpu: place the stages by this table instead of the paper's five: A=STAGE,…;B=STAGE,… as of `emp place`, or one of their names.
    #[arg(long, value_name = "TABLE")]
    placement: Option<String>,
    /// Processors of the card that such a table may use.
    #[arg(long, default_value_t = 2, requires = "placement")]
    processors: usize,
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
    let placement = args.placement()?;
    let mut beside = Beside::default();
    args.beside.iter().try_for_each(|file| beside.read(file))?;
    let mut experiments = Vec::new();
    for paper in &papers {
        let experiment = match &placement {
            Some(placement) => multi_cpu::run_placed(placement),
            None => (paper.rows)(),
        };
        let experiment = experiment.with_context(|| format!("experiment {}", paper.name))?;
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
        let pictures = papers.iter().map(|paper| match &placement {
            Some(placement) => multi_cpu::pictures_of(&[Placement::BASE, *placement]),
            None => (paper.pictures)(),
        });
        let page =
            page::page(&experiments, &pictures.collect::<anyhow::Result<Vec<_>>>()?, &beside)?;
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

impl Args {
    /// The placement that was asked for, if one was.
    fn placement(&self) -> anyhow::Result<Option<Placement>> {
        let Some(asked) = &self.placement else { return Ok(None) };
        if self.name != "multicpu" {
            bail_user!("only multicpu has placements, not {}", self.name);
        }
        if !(1..=2).contains(&self.processors) {
            bail_user!("a Tigon2 has 2 processors, not {}; choose 1 or 2", self.processors);
        }
        let placement = if asked.contains('=') {
            schemes::parse(asked)?
        } else {
            schemes::named(std::slice::from_ref(asked))?.remove(0)
        };
        if placement.places_calls() {
            bail_user!("a card calls no links: link-calls and io are for `emp place`");
        }
        schemes::within(&placement, self.processors)?;
        Ok(Some(placement))
    }
}
