//! The hosts' processes of one measurement: started, told, counted and ended.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use super::order::{Answer, Command, Order, Report, Role, WORKER};
use crate::bench::subject::Card;
use crate::lab::{Host, PrivateLab};

/// How long things last.
pub struct Phases {
    /// Before it counts.
    pub warm_up: Duration,
    /// While it counts.
    pub counted: Duration,
}

/// What was counted.
pub struct Measured {
    pub seconds: f64,
    /// Payload received from each sender.
    pub bytes: Vec<u64>,
    /// Of the small ping-pong, the longest last.
    pub round_trips_us: Vec<f64>,
    /// Frames that the port to the receiver sent, and that it dropped.
    pub sent: u64,
    pub dropped: u64,
}

/// All processes, in the order receiver, senders, ping-pong. They end when this is dropped.
pub struct Crew<'lab> {
    lab: &'lab PrivateLab,
    receiver: Worker,
    senders: Vec<Worker>,
    prober: Worker,
}

/// A host's process.
struct Worker {
    name: String,
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl<'lab> Crew<'lab> {
    /// Starts the receiver, then those who send to it.
    pub fn start(lab: &'lab PrivateLab, order: &Order, senders: usize) -> anyhow::Result<Self> {
        let hosts: Vec<Host<'_>> = lab.hosts().collect();
        let (receiver, others) = hosts.split_first().context("a lab without hosts")?;
        let (first, last) = others.split_at_checked(senders).context("too few hosts")?;
        let prober = last.first().context("no host for the ping-pong")?;
        let at = |role: Role, own: &Host<'_>, peer: &Host<'_>| Order {
            role,
            own: own.address().into(),
            peer: peer.address().into(),
            ..order.clone()
        };
        let role = Role::Receiver { senders };
        let mut main = Worker::start(receiver, &at(role, receiver, prober))?;
        let card = main.ready()?;
        let to = || card.clone();
        let mut crew_senders = Vec::with_capacity(senders);
        for (number, host) in first.iter().enumerate() {
            let role = Role::Sender { number, to: to() };
            crew_senders.push(Worker::start(host, &at(role, host, receiver))?);
        }
        let role = Role::Prober { to: to() };
        let mut prober = Worker::start(prober, &at(role, prober, receiver))?;
        for worker in crew_senders.iter_mut().chain([&mut prober]) {
            worker.ready()?;
        }
        Ok(Self { lab, receiver: main, senders: crew_senders, prober })
    }

    /// Has them send, and counts.
    pub fn measure(mut self, phases: &Phases) -> anyhow::Result<Measured> {
        for worker in self.senders.iter_mut().chain([&mut self.prober]) {
            worker.tell(&Command::Start)?;
        }
        sleep(phases.warm_up);
        let (frames, before) = (self.port()?, self.receiver.mark()?);
        self.prober.mark()?;
        sleep(phases.counted);
        let (frames_after, after) = (self.port()?, self.receiver.mark()?);
        let round_trips_us = self.prober.mark()?.round_trips_us;
        // A sender that has failed is no share of a port.
        for worker in &mut self.senders {
            worker.mark()?;
        }
        let bytes = after.bytes.iter().zip(&before.bytes).map(|(after, before)| after - before);
        Ok(Measured {
            seconds: after.seconds - before.seconds,
            bytes: bytes.collect(),
            round_trips_us,
            sent: frames_after.packets - frames.packets,
            dropped: frames_after.drops - frames.drops,
        })
    }

    /// What the port to the receiver has done so far.
    fn port(&self) -> anyhow::Result<PortCounters> {
        let text = self.lab.port_statistics(0)?;
        let all: Vec<PortCounters> = serde_json::from_str(&text).context("the output of tc")?;
        all.into_iter().find(|one| one.kind == "tbf").context("the port has no rate")
    }
}

/// The part of `tc -s -j qdisc show` that is read.
#[derive(Deserialize)]
struct PortCounters {
    kind: String,
    packets: u64,
    drops: u64,
}

impl Worker {
    fn start(host: &Host<'_>, order: &Order) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = host.command(program)?;
        command.args(["bench", WORKER]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("starting {}", host.name()))?;
        let (orders, answers) = (child.stdin.take(), child.stdout.take());
        let (Some(orders), Some(answers)) = (orders, answers) else { bail!("no pipes") };
        let name = host.name().to_owned();
        let mut worker = Self { name, child, orders, answers: BufReader::new(answers) };
        worker.tell(order)?;
        Ok(worker)
    }

    fn tell(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        self.orders.write_all(&line).with_context(|| format!("{} has ended", self.name))
    }

    fn answer(&mut self) -> anyhow::Result<Answer> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("{} has ended", self.name);
        }
        match serde_json::from_str(&line).with_context(|| format!("what {} says", self.name))? {
            Answer::Failed(why) => bail!("{}: {why}", self.name),
            answer => Ok(answer),
        }
    }

    fn ready(&mut self) -> anyhow::Result<Card> {
        match self.answer()? {
            Answer::Ready(card) => Ok(card),
            _ => bail!("{} did not get ready", self.name),
        }
    }

    fn mark(&mut self) -> anyhow::Result<Report> {
        self.tell(&Command::Mark)?;
        match self.answer()? {
            Answer::Marked(report) => Ok(report),
            _ => bail!("{} did not say how far it is", self.name),
        }
    }
}
