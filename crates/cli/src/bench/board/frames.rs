//! Frames between clients of the service's link.

use std::io::IoSlice;
use std::time::Duration;

use emp_link::service::{ServiceLink, ServiceOptions};
use emp_link::{Link, LinkAddress, TxFrame};
use emp_wire::{Epoch, Flags, HEADER_BYTES, Header, Kind, NodeId, Sequence};

use super::args::Args;
use super::flood::{Flood, Others};
use crate::error::user_error;

/// An address of nobody: frames for it leave by the wire.
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0xFE, 0xFE];

/// Frames that a flood hands over at a time.
const FLOOD_BATCH: usize = 16;

/// A frame that does not come for so long never will.
const PATIENCE: Duration = Duration::from_secs(10);

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

/// Two clients, and a frame for each from the other.
pub(super) struct Pair {
    ends: [End; 2],
    frames: [Vec<u8>; 2],
}

impl Pair {
    pub(super) fn open(args: &Args) -> anyhow::Result<Self> {
        let ends = [End::open(args, "a")?, End::open(args, "b")?];
        let [a, b] = &ends;
        let frames = [a.frame_to(b.node, args.size), b.frame_to(a.node, args.size)];
        Ok(Self { ends, frames })
    }

    /// A frame there and one back.
    pub(super) fn round(&mut self, sleep: bool) -> anyhow::Result<()> {
        let Self { ends: [a, b], frames: [there, back] } = self;
        cross(a, b, there, sleep)?;
        cross(b, a, back, sleep)
    }
}

pub(super) fn others(args: &Args) -> anyhow::Result<Others> {
    let idle: anyhow::Result<Vec<End>> =
        (2..args.clients).map(|number| End::open(args, &format!("idle {number}"))).collect();
    let flood = args.flood.then(|| flood(args)).transpose()?;
    Ok(Others { _idle: Box::new(idle?), flood })
}

fn flood(args: &Args) -> anyhow::Result<Flood> {
    let mut end = End::open(args, "flood")?;
    let frame = end.frame_to(NodeId::from_name("nobody"), 32);
    Ok(Flood::start(move || {
        let (to, parts) = (LinkAddress::mac(NOBODY), [IoSlice::new(&frame)]);
        Some(end.link.send(&[TxFrame { to, parts: &parts }; FLOOD_BATCH]))
    }))
}
