//! Whoever offers memory for the payload of trains gets the same frames as one who takes them one by one.

use std::time::{Duration, Instant};

use emp_wire::{HEADER_BYTES, LinkAddress};

use super::bench::{BUDGET, Ends, PATIENCE, TAGS, ensure, frame, frames, same, send_all};
use super::{Outcome, Pair};
use crate::{FrameSink, Head, Link, Train};

/// Frames of the classic train: as many of 1472 bytes as fit into 64 KiB.
const TRAIN: usize = 44;
/// Trains sent before the first is fetched, so that a link which looks ahead after long ones has
/// something to look at. Less than any receive buffer holds.
const TRAINS: u64 = 3;

/// Takes frames both ways, and puts those that landed together again.
struct Lander {
    /// Most frames of a train that memory is offered for; 0: for none.
    most: usize,
    memory: Vec<u8>,
    got: Vec<Vec<u8>>,
    landed: usize,
}

impl Lander {
    fn new(most: usize) -> Self {
        Self { most, memory: Vec::new(), got: Vec::new(), landed: 0 }
    }

    /// Receives until `count` frames are there.
    fn collect(&mut self, link: &mut dyn Link, count: usize) -> Result<Vec<Vec<u8>>, String> {
        let start = Instant::now();
        while self.got.len() < count {
            if link.receive_into(BUDGET, self) == 0 {
                ensure!(start.elapsed() < PATIENCE, "{} of {count} arrived", self.got.len());
                link.wait(Some(Duration::from_millis(1)));
            }
        }
        Ok(std::mem::take(&mut self.got))
    }
}

impl FrameSink for Lander {
    fn frame(&mut self, frame: &[u8], _from: &LinkAddress) {
        self.got.push(frame.to_vec());
    }

    fn lands(&self) -> bool {
        true
    }

    fn landing(&mut self, train: &Train) -> Option<&mut [u8]> {
        let payload = |index| train.frame_bytes_of(index).saturating_sub(HEADER_BYTES);
        let bytes: usize = (0..self.most).map(payload).sum();
        self.memory = vec![0; bytes];
        (bytes > 0).then_some(&mut self.memory[..])
    }

    fn landed(&mut self, train: &Train, heads: &[Head]) {
        let mut rest = &self.memory[..];
        for (index, head) in heads.iter().enumerate() {
            let bytes = train.frame_bytes_of(index).saturating_sub(HEADER_BYTES);
            let (payload, others) = rest.split_at(bytes.min(rest.len()));
            self.got.push([&head[..], payload].concat());
            rest = others;
        }
        self.landed += heads.len();
    }
}

pub(super) fn landing(pair: &dyn Pair) -> Outcome {
    let mut ends = Ends::open(pair)?;
    for most in [0, 1, 5, TRAIN, usize::from(u8::MAX)] {
        check(&mut ends, most).map_err(|e| format!("memory for {most} frames: {e}"))?;
        if ends.long_bytes > 0 {
            long(&mut ends, most).map_err(|e| format!("long, memory for {most} frames: {e}"))?;
        }
    }
    Ok(())
}

/// Sends trains with and without a short end, then frames that are none, to one who offers memory for so many frames.
fn check(ends: &mut Ends, most: usize) -> Outcome {
    let bytes = ends.bytes_max.min(1472);
    let mut sent = Vec::new();
    for train in 0..TRAINS {
        let mut batch = frames(TAGS[1], train * 1000, TRAIN - 1, bytes);
        if train % 2 == 0 {
            batch.push(frame(TAGS[1], train * 1000 + 999, HEADER_BYTES + 50 + train as usize));
        }
        send_all(&mut *ends.a, ends.to_b, &batch)?;
        sent.extend(batch);
    }
    let last = frame(TAGS[1], 9999, 100.min(ends.bytes_max));
    send_all(&mut *ends.a, ends.to_b, std::slice::from_ref(&last))?;
    sent.push(last);
    let mut lander = Lander::new(most);
    let got = lander.collect(&mut *ends.b, sent.len())?;
    same(&got, &sent)?;
    ensure!(most > 0 || lander.landed == 0, "{} frames landed nowhere", lander.landed);
    Ok(())
}

/// The same with long frames, which are trains of one, among trains of others.
fn long(ends: &mut Ends, most: usize) -> Outcome {
    let (long, short) = (ends.long_bytes, ends.bytes_max.min(1472));
    let mut sent = Vec::new();
    for (number, bytes) in (0u64..).zip([long, long, 3 * short, long - 100, short, short, long, 90])
    {
        sent.push(frame(TAGS[1], number, bytes.min(long)));
    }
    send_all(&mut *ends.a, ends.to_b, &sent)?;
    let mut lander = Lander::new(most);
    let got = lander.collect(&mut *ends.b, sent.len())?;
    same(&got, &sent)?;
    ensure!(most > 0 || lander.landed == 0, "{} frames landed nowhere", lander.landed);
    Ok(())
}
