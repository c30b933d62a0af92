//! `emp bench board`: what a crossing between a client and the service `empd` costs, alone: of a frame to another client, or of what an engine in
//! the service is asked.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use emp_host::{AutoLinks, Board, Node, Selector, WaitMode, Want};
use emp_link::service::{ServiceLink, ServiceOptions, socket_path};
use emp_link::{Link, LinkAddress, TxFrame};
use emp_wire::{Epoch, Flags, HEADER_BYTES, Header, Kind, NodeId, Sequence};

use super::subject::allow_files;
use crate::error::{print, user_error};

/// What one user may attach unless the service's configuration says otherwise.
const CLIENTS_MAX: usize = 510;

/// Open files of a client: its connection, its bell, what it waits on.
const FILES_OF_CLIENT: u64 = 4;

/// An address of nobody: frames for it leave by the wire.
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0xFE, 0xFE];

/// Frames that a flood hands over at a time.
const FLOOD_BATCH: usize = 16;

/// Measure what a crossing between a program and the service `empd` costs: a frame from one client of it to another, both of this process, or
/// with --engine a question to an engine and its answer, and a message through it.
///
/// With --clients or --flood it is measured in turns with two clients alone and with the others beside them, and what they cost is said.
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
    /// Clients in all, those two among them; the others do nothing.
    #[arg(long, default_value_t = 2)]
    clients: usize,
    /// One client more floods the wire with frames that are for nobody.
    #[arg(long)]
    flood: bool,
    /// Turns with the others, and as many without.
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// Sleep between a frame and its answer, as the service may.
    #[arg(long)]
    sleep: bool,
    /// Measure an engine in the service, and not its link.
    #[arg(long, conflicts_with_all = ["clients", "flood"])]
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

/// Clients beside the two that are measured.
struct Others {
    _idle: Vec<End>,
    flood: Option<Flood>,
}

impl Others {
    fn open(args: &Args) -> anyhow::Result<Self> {
        let count = args.clients.saturating_sub(2);
        let idle: anyhow::Result<Vec<End>> =
            (0..count).map(|number| End::open(args, &format!("idle {number}"))).collect();
        let flood = args.flood.then(|| Flood::start(args)).transpose()?;
        Ok(Self { _idle: idle?, flood })
    }
}

/// A client that sends as fast as it is let, until this is dropped.
struct Flood {
    over: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Flood {
    fn start(args: &Args) -> anyhow::Result<Self> {
        let mut end = End::open(args, "flood")?;
        let (over, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (told, count) = (Arc::clone(&over), Arc::clone(&sent));
        let thread = std::thread::spawn(move || {
            let frame = end.frame_to(NodeId::from_name("nobody"), 32);
            let (to, parts) = (LinkAddress::mac(NOBODY), [IoSlice::new(&frame)]);
            while !told.load(Ordering::Relaxed) {
                match end.link.send(&[TxFrame { to, parts: &parts }; FLOOD_BATCH]) {
                    // Its ring is full: whoever it shares a core with is to have it.
                    0 => std::thread::yield_now(),
                    taken => drop(count.fetch_add(taken as u64, Ordering::Relaxed)),
                }
            }
        });
        Ok(Self { over, sent, thread: Some(thread) })
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Microseconds of each slice, in order.
struct Times(Vec<f64>);

impl Times {
    fn at(&self, part: f64) -> f64 {
        self.0[((self.0.len() - 1) as f64 * part) as usize]
    }
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
        if !(2..=CLIENTS_MAX).contains(&self.clients) || self.turns == 0 {
            return Err(user_error(format!(
                "--clients: 2 to {CLIENTS_MAX}, what one user may attach; --turns: 1 or more"
            )));
        }
        allow_files(FILES_OF_CLIENT * (self.clients as u64 + 1));
        let two =
            format!("{} bytes from one of two clients to the other", HEADER_BYTES + self.size);
        let mut ends = [End::open(self, "a")?, End::open(self, "b")?];
        if self.clients == 2 && !self.flood {
            return self.tell(&two, &self.cross(&mut ends, self.rounds)?);
        }
        let (mut alone, mut beside, mut flooded) = (Vec::new(), Vec::new(), 0);
        let rounds = self.rounds / self.turns as u32;
        for _ in 0..self.turns {
            alone.extend(self.cross(&mut ends, rounds)?.0);
            let others = Others::open(self)?;
            beside.extend(self.cross(&mut ends, rounds)?.0);
            flooded += others.flood.as_ref().map_or(0, |flood| flood.sent.load(Ordering::Relaxed));
        }
        let [alone, beside] = [alone, beside].map(|mut times| {
            times.sort_by(f64::total_cmp);
            Times(times)
        });
        let what =
            format!("{} clients{}", self.clients, if self.flood { " and a flood" } else { "" });
        self.tell(&two, &alone)?;
        self.tell(&format!("{two}, {what}"), &beside)?;
        let more =
            if self.flood { format!("; the flood: {flooded} frames") } else { String::new() };
        print(&format!("{what}, to two: {:.3}{more}\n", beside.at(0.5) / alone.at(0.5)))
    }

    fn tell(&self, what: &str, times: &Times) -> anyhow::Result<()> {
        print(&format!(
            "{what} ({}): {:.2} µs (median of {} slices; p10 {:.2}, p90 {:.2}); a crossing is half of that, {:.2} µs\n",
            socket_path().display(),
            times.at(0.5),
            times.0.len(),
            times.at(0.1),
            times.at(0.9),
            times.at(0.5) / 2.0
        ))
    }

    /// Frames there and back between two.
    fn cross(&self, [a, b]: &mut [End; 2], rounds: u32) -> anyhow::Result<Times> {
        let (there, back) = (a.frame_to(b.node, self.size), b.frame_to(a.node, self.size));
        self.measure(2, rounds, || {
            cross(a, b, &there, self.sleep)?;
            cross(b, a, &back, self.sleep)
        })
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
        let times = self.measure(1, self.rounds, || {
            node.pool_slots();
            Ok(())
        })?;
        self.tell("question and answer of an engine", &times)?;
        let (mut sent, mut room) = (vec![0x5A; self.size], vec![0; self.size]);
        let times = self.measure(1, self.rounds, || {
            let receive = endpoint.receive(Selector::ANY, std::mem::take(&mut room))?;
            let send = endpoint.send(endpoint.address(), 7, std::mem::take(&mut sent))?;
            room = receive.wait(PATIENCE)?.buffer;
            sent = send.wait(PATIENCE)?.buffer;
            Ok(())
        })?;
        let what = format!("client, engine, client: a message of {} bytes to itself", self.size);
        self.tell(&what, &times)
    }

    /// Times so many ways there and back at a time.
    fn measure(
        &self,
        ways: u32,
        rounds: u32,
        mut round: impl FnMut() -> anyhow::Result<()>,
    ) -> anyhow::Result<Times> {
        let slices = (rounds / SLICE).max(8);
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
