//! `emp bench board`: what a crossing between a client and the service `empd` costs, alone.

use std::io::IoSlice;
use std::time::{Duration, Instant};

use emp_link::service::{ServiceLink, ServiceOptions, socket_path};
use emp_link::{Link, LinkAddress, TxFrame};
use emp_wire::{Epoch, Flags, HEADER_BYTES, Header, Kind, NodeId, Sequence};

use crate::error::user_error;

/// Measure what a crossing between a program and the service `empd` costs: a frame from one client of it to another, both of this process.
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
        let [mut a, mut b] = [End::open(self, "a")?, End::open(self, "b")?];
        let idle: anyhow::Result<Vec<End>> =
            (0..self.idle).map(|number| End::open(self, &format!("idle {number}"))).collect();
        let idle = idle?;
        let (there, back) = (a.frame_to(b.node, self.size), b.frame_to(a.node, self.size));
        let slices = (self.rounds / SLICE).max(8);
        let mut times = Vec::with_capacity(slices as usize);
        for slice in 0..slices + slices / 8 {
            let start = Instant::now();
            for _ in 0..SLICE {
                cross(&mut a, &mut b, &there, self.sleep)?;
                cross(&mut b, &mut a, &back, self.sleep)?;
            }
            // The first are a warm-up.
            if slice >= slices / 8 {
                times.push(start.elapsed().as_secs_f64() * 1e6 / f64::from(2 * SLICE));
            }
        }
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        println!(
            "client, service, client ({}): {} bytes, {} idle clients: {:.2} µs (median of {} slices; \
             p10 {:.2}, p90 {:.2}); a crossing is half of that, {:.2} µs",
            socket_path().display(),
            HEADER_BYTES + self.size,
            idle.len(),
            at(0.5),
            times.len(),
            at(0.1),
            at(0.9),
            at(0.5) / 2.0
        );
        Ok(())
    }
}
