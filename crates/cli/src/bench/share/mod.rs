//! `emp bench share`: several senders into one host behind a switch's port that has a rate and a queue. How much of the port they
//! get together, how evenly they share it, how many frames the port drops, and what becomes of a small ping-pong beside them.
//!
//! The hosts are namespaces of a lab, each with a process of its own ([`worker`]); [`crew`] starts them and tells them when.
//! Two cores do for all of them, because the port is slow and everybody sleeps while waiting.

mod board;
mod crew;
mod emp_flows;
mod fairness;
mod order;
mod tcp_flows;
mod worker;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;

use self::crew::{Crew, Phases};
use self::fairness::outcome;
use self::order::Order;
use super::args::{check_seconds, command_line};
use super::congestion;
use super::environment::{Environment, load, note_conditions};
use super::job::LinkChoice;
use super::pair::MTU_DEFAULT;
use super::results::{Run, write_json};
use crate::bail_user;
use crate::error::print;
use crate::lab::{Plan, Ports, PrivateLab, QUEUE_DEFAULT, Topology};
use crate::output::check_writable;
use crate::progress::Progress;
use crate::report::share as page;
use crate::sizes;

use self::fairness::Row;
pub use self::order::{SubjectName, WORKER};
pub use self::worker::run as run_worker;

/// Hosts of a lab besides senders: the receiver, and the one with the small ping-pong.
const OTHERS: usize = 2;

/// Senders that may be asked for: what a lab has hosts for.
const SENDERS_MAX: usize = 30;

/// How long everybody sends before it counts, in parts of the time that counts: windows have grown by then, and the first losses
/// are over.
const WARM_UP: f64 = 0.5;

/// The least of it in seconds: TCP's first time-outs take 0.2 to 1 s.
const WARM_UP_MIN: f64 = 1.0;

/// Measure how N senders share the port of a switch that leads to one host: EMP, TCP under cubic and under bbr in turn.
///
/// In a lab only, which this command makes and removes: hosts on a switch whose ports have a rate and a queue.
#[derive(clap::Args, Clone, Debug)]
pub struct Args {
    /// The hosts here, in a lab. Always so.
    #[arg(long)]
    lab: bool,
    /// How many hosts send, one or several numbers.
    #[arg(long, value_delimiter = ',', default_value = "8", value_name = "N")]
    senders: Vec<usize>,
    /// Rate of the switch's ports towards the hosts, such as 500mbit.
    #[arg(long, default_value = "500mbit", value_name = "RATE", allow_hyphen_values = true)]
    port_rate: String,
    /// Bytes that may wait at each of these ports.
    #[arg(long, default_value = QUEUE_DEFAULT, value_name = "SIZE", allow_hyphen_values = true)]
    port_queue: String,
    /// Message sizes, such as 1K,32K,1M.
    #[arg(long, default_value = "32K,1M")]
    sizes: String,
    /// What is measured, in turn: emp, tcp-cubic, tcp-bbr; emp+cubic has EMP's and TCP's senders share the port, one
    /// after the other.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "emp,tcp-cubic,tcp-bbr")]
    subjects: Vec<SubjectName>,
    /// EMP's link.
    #[arg(long, value_enum, default_value_t = LinkChoice::Auto)]
    link: LinkChoice,
    /// How EMP waits: adaptive or sleep. Not spin: there are more processes than cores.
    #[arg(long, default_value = "adaptive")]
    wait: String,
    /// Size of the largest packet in bytes.
    #[arg(long, default_value_t = MTU_DEFAULT)]
    mtu: usize,
    /// Seconds that count for each subject, size and number of senders; half as many pass before.
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw the figures to a file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// What is measured, in order.
struct Task {
    subject: SubjectName,
    size: usize,
    senders: usize,
}

/// Runs `emp bench share`.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let tasks = args.tasks()?;
    let ports = Ports::parse(&args.port_rate, &args.port_queue)?;
    check_seconds(args.seconds)?;
    check_writable(args.json.iter().chain(&args.svg))?;
    let load = load();
    let hosts = args.senders.iter().max().copied().unwrap_or(1) + OTHERS;
    let mtu = u32::try_from(args.mtu).unwrap_or(u32::MAX);
    let plan = Plan::new(hosts, Topology::Switch, mtu)?.with_ports(ports)?;
    let lab = PrivateLab::create(plan)?;
    let progress = Progress::new(tasks.len());
    let mut rows: Vec<Row> = Vec::new();
    let mut failures = 0;
    for task in &tasks {
        let text = format!(
            "share: {} senders, {}, {}",
            task.senders,
            sizes::show(task.size),
            task.subject.name()
        );
        progress.line(&text);
        let measured = Crew::start(&lab, &args.order(task), task.senders)
            .and_then(|crew| crew.measure(&args.phases()));
        match measured {
            Ok(measured) => {
                let row = outcome(task.subject, (task.size, task.senders), &ports, &measured);
                progress.line(&format!("{text}: {}", row.in_words()));
                rows.push(row);
            }
            // What one of them cannot do is a result too, and the others have theirs.
            Err(problem) => {
                failures += 1;
                progress.suspend(|| eprintln!("note: {text}: {problem:#}"));
            }
        }
        progress.step(&text);
    }
    drop((progress, lab));
    let environment = Environment::of_lab(args.mtu, load);
    let run = Run { environment, command: command_line(), results: rows };
    print(&page::table(&run.results))?;
    note_conditions(load);
    if let Some(path) = &args.json {
        write_json(path, &run)?;
    }
    if let Some(path) = &args.svg {
        let title = format!("{} a port, {} queue", args.port_rate, args.port_queue);
        page::write(path, &title, &run.results)?;
    }
    if failures > 0 {
        bail!("{failures} of {} measurements failed", tasks.len());
    }
    Ok(())
}

impl Args {
    fn tasks(&self) -> anyhow::Result<Vec<Task>> {
        if !self.lab {
            bail_user!(
                "share is measured in a lab only: add --lab, which makes one and removes it"
            );
        }
        if !["adaptive", "sleep"].contains(&self.wait.as_str()) {
            bail_user!("{} is no way to wait here; there are adaptive and sleep", self.wait);
        }
        if self.link == LinkChoice::Shm {
            bail_user!("shared memory passes no switch; there are auto, packet, xdp and udp");
        }
        if let Some(wrong) = self.senders.iter().find(|n| !(1..=SENDERS_MAX).contains(*n)) {
            bail_user!("{wrong} senders are not possible; choose 1 to {SENDERS_MAX}");
        }
        if self.subjects.contains(&SubjectName::EmpBesideCubic) && self.senders.contains(&1) {
            bail_user!("emp+cubic needs a sender of each kind: --senders 2");
        }
        let sizes = sizes::parse(&self.sizes)?;
        let there = congestion::available();
        let mut tasks = Vec::new();
        for &senders in &self.senders {
            for &size in &sizes {
                for &subject in &self.subjects {
                    let missing =
                        subject.congestion().filter(|name| !there.iter().any(|n| n == name));
                    match missing {
                        None => tasks.push(Task { subject, size, senders }),
                        Some(name) => {
                            eprintln!(
                                "note: without TCP under {name}: this kernel does not have it"
                            )
                        }
                    }
                }
            }
        }
        if tasks.is_empty() {
            bail_user!("nothing is left to measure; --subjects knows emp, tcp-cubic and tcp-bbr");
        }
        Ok(tasks)
    }

    fn order(&self, task: &Task) -> Order {
        Order::new(task.subject, task.size, (self.link, self.wait.clone()))
    }

    fn phases(&self) -> Phases {
        Phases {
            warm_up: Duration::from_secs_f64((self.seconds * WARM_UP).max(WARM_UP_MIN)),
            counted: Duration::from_secs_f64(self.seconds),
        }
    }
}
