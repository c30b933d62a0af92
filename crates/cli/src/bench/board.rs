//! `emp bench board`: what a crossing between a client and the service `empd` costs, alone: of a frame to another client, or of what an engine in
//! the service is asked.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use emp_host::{AutoLinks, Board, Node, Selector, WaitMode, Want};
use emp_link::service::{ServiceLink, ServiceOptions, socket_path};
use emp_link::{Link, LinkAddress, TxFrame};
use emp_wire::{Epoch, Flags, HEADER_BYTES, Header, Kind, NodeId, Sequence};

use crate::error::user_error;

/// Measure what a crossing between a program and the service `empd` costs: a frame from one client of it to another, both of this process, or
/// with --engine a question to an engine and its answer, and a message through it.
#[derive(clap::Args)]
pub struct Args {
    /// Interface that the service serves.
    #[arg(long)]
    interface: String,
    /// Bytes behind a frame's header.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Frames there and back.
    #[arg(long, default_value_t = 200_000)]
    rounds: u32,
    /// Clients beside these two, which do nothing.
    #[arg(long, default_value_t = 0)]
    idle: usize,
    /// Sleep between a frame and its answer, as the service may.
    #[arg(long)]
    sleep: bool,
    /// Measure an engine in the service, and not its link.
    #[arg(long)]
    engine: bool,
}

/// A frame that does not come for so long never will.
const PATIENCE: Duration = Duration::from_secs(10);

/// Rounds that are timed together: reading the clock costs a tenth of a crossing.
const SLICE: u32 = 64;

struct End {
    link: ServiceLink,
    node: NodeId,
}

impl End {
    fn open(args: &Args, name: &str) -> anyhow::Result<Self> {
        let node = NodeId::from_name(&format!("board {} {name}", std::process::id()));
        let options = ServiceOptions::new(&args.interface, node);
        let link = ServiceLink::open(&options).map_err(|error| user_error(error.to_string()))?;
        Ok(Self { link, node })
    }

    fn frame_to(&self, to: NodeId, payload: usize) -> Vec<u8> {
        let header = Header {
            kind: Kind::Data,
            flags: Flags(0),
            length: payload as u16,
            destination_tag: to.destination_tag(),
            destination_epoch: 1,
            source_tag: self.node.source_tag(),
            source_epoch: Epoch(1),
            sequence: Sequence(0),
            acknowledge: Sequence(0),
            word: 0,
        };
        let mut bytes = [0; HEADER_BYTES];
        header.emit(&mut bytes);
        [&bytes[..], &vec![0x5A; payload]].concat()
    }
}

/// One frame from `from` to `to`.
fn cross(from: &mut End, to: &mut End, frame: &[u8], sleep: bool) -> anyhow::Result<()> {
    let address: LinkAddress = to.link.capabilities().address;
    let parts = [IoSlice::new(frame)];
    while from.link.send(&[TxFrame { to: address, parts: &parts }]) == 0 {}
    let mut empty = 0u64;
    while to.link.receive(1, &mut |_, _| ()) == 0 {
        if sleep {
            to.link.wait(Some(PATIENCE));
        }
        empty += 1;
        // Some ten seconds.
        if empty > 1 << 30 {
            return Err(user_error("the service does not hand a frame to its client"));
        }
    }
    Ok(())
}

impl Args {
    /// Measures and prints.
    pub fn run(&self) -> anyhow::Result<()> {
        if self.size > 1024 {
            return Err(user_error("--size: at most 1024 bytes, which every interface takes"));
        }
        if self.engine {
            return self.run_engine();
        }
        let [mut a, mut b] = [End::open(self, "a")?, End::open(self, "b")?];
        let idle: anyhow::Result<Vec<End>> =
            (0..self.idle).map(|number| End::open(self, &format!("idle {number}"))).collect();
        let idle = idle?;
        let (there, back) = (a.frame_to(b.node, self.size), b.frame_to(a.node, self.size));
        let times = self.measure(2, || {
            cross(&mut a, &mut b, &there, self.sleep)?;
            cross(&mut b, &mut a, &back, self.sleep)
        })?;
        let what = format!("{} bytes, {} idle clients", HEADER_BYTES + self.size, idle.len());
        times.say(&format!("client, service, client: {what}"));
        Ok(())
    }

    /// An engine: a question and its answer, which no other has a part in, and a message of the node's to itself.
    fn run_engine(&self) -> anyhow::Result<()> {
        let wait = if self.sleep { WaitMode::Sleep } else { WaitMode::Spin };
        let auto = AutoLinks {
            want: Want::Empd,
            interfaces: vec![self.interface.clone()],
            ..AutoLinks::default()
        };
        let name = format!("board {}", std::process::id());
        let builder = Node::builder().name(name).board(Board::Daemon).auto_links(auto);
        let node = builder.wait_mode(wait).start()?;
        let endpoint = node.endpoint(1)?;
        let times = self.measure(1, || {
            node.pool_slots();
            Ok(())
        })?;
        times.say("question and answer of an engine");
        let (mut sent, mut room) = (vec![0x5A; self.size], vec![0; self.size]);
        let times = self.measure(1, || {
            let receive = endpoint.receive(Selector::ANY, std::mem::take(&mut room))?;
            let send = endpoint.send(endpoint.address(), 7, std::mem::take(&mut sent))?;
            room = receive.wait(PATIENCE)?.buffer;
            sent = send.wait(PATIENCE)?.buffer;
            Ok(())
        })?;
        times.say(&format!("client, engine, client: a message of {} bytes to itself", self.size));
        Ok(())
    }

    /// Times so many ways there and back at a time.
    fn measure(
        &self,
        ways: u32,
        mut round: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Times> {
        let slices = (self.rounds / SLICE).max(8);
        let mut times = Vec::with_capacity(slices as usize);
        for slice in 0..slices + slices / 8 {
            let start = Instant::now();
            (0..SLICE).try_for_each(|_| round())?;
            // The first are a warm-up.
            if slice >= slices / 8 {
                times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(ways * SLICE));
            }
        }
        times.sort_by(f64::total_cmp);
        Ok(Times(times))
    }
}

/// Microseconds of ways there and back, in order.
struct Times(Vec<f64>);

impl Times {
    fn at(&self, part: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * part) as usize]
    }

    fn say(&self, what: &str) {
        println!(
            "{what} ({}): {:.2} µs (median of {} slices; p10 {:.2}, p90 {:.2}); a crossing is half of that, {:.2} µs",
            socket_path().display(),
            self.at(0.5),
            self.0.len(),
            self.at(0.1),
            self.at(0.9),
            self.at(0.5) / 2.0
        );
    }
}
