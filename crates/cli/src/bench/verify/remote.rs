//! Puts, gets and atomics of a direction: what was written is read again and compared, and no addition is lost or done
//! twice.

use std::collections::VecDeque;
use std::time::Duration;

use anyhow::{anyhow, bail};
use emp_host::{
    Endpoint, Node, NodeId, Refused, Region, RegionOptions, RemoteRegion, Request, Values,
};

use super::message::{Random, Script};

/// The key of each end's region.
const KEY: u64 = 2;

/// Bytes of the number at a region's start, which the other end adds to.
const COUNTER_BYTES: usize = 8;

/// Bytes that one put writes at most: several blocks of any profile, so that long ones are covered.
const PUT_BYTES_MAX: usize = 300_000;

/// Puts, or the gets that follow them, under way at a time, each to a part of the region that is its own.
const AREAS: usize = 3;

/// Additions under way at a time.
const ADDITIONS: usize = 4;

/// What an area is about to see end.
enum Flying {
    Put(Request<Vec<u8>>),
    Get(Request<Vec<u8>>),
}

struct Area {
    /// Where in the region, and what the bytes follow from.
    offset: usize,
    index: u64,
    flying: Option<Flying>,
}

/// One direction, at the end that reaches.
pub struct Remote {
    script: Script,
    random: Random,
    target: RemoteRegion,
    areas: Vec<Area>,
    additions: VecDeque<Request<Values<u64>>>,
    /// The other end's number before the first addition.
    first: Option<u64>,
    /// Operations that have ended, each as it must.
    pub puts: u64,
    /// See [`puts`](Self::puts).
    pub gets: u64,
    /// See [`puts`](Self::puts).
    pub atomics: u64,
    /// The first thing that was not as it must be.
    pub mismatch: Option<String>,
}

/// Exports what the other end reaches.
pub fn export(node: &Node) -> anyhow::Result<Region> {
    let options = RegionOptions { key: Some(KEY), ..RegionOptions::default() };
    let bytes = vec![0; COUNTER_BYTES + AREAS * PUT_BYTES_MAX];
    node.export_with(bytes, options).map_err(|refused| anyhow!("EMP exports nothing: {refused}"))
}

/// The number that the other end adds to.
pub fn number(region: &Region) -> u64 {
    let mut bytes = [0; COUNTER_BYTES];
    region.read(0, &mut bytes);
    u64::from_le_bytes(bytes)
}

impl Remote {
    /// Nothing done yet.
    pub fn new(script: Script, seed: u64, to: NodeId) -> Self {
        let target = RemoteRegion { to, to_endpoint: 0, key: KEY, generation: 0, offset: 0 };
        let area = |nth| Area {
            offset: COUNTER_BYTES + nth * PUT_BYTES_MAX,
            index: nth as u64,
            flying: None,
        };
        Self {
            script,
            random: Random::new(seed, to.0),
            target,
            areas: (0..AREAS).map(area).collect(),
            additions: VecDeque::new(),
            first: None,
            puts: 0,
            gets: 0,
            atomics: 0,
            mismatch: None,
        }
    }

    /// What the other end's number must be now, if nothing is under way.
    pub fn number(&self) -> u64 {
        self.first.unwrap_or_default() + self.atomics
    }

    /// Nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.additions.is_empty() && self.areas.iter().all(|area| area.flying.is_none())
    }

    /// What was done, in words.
    pub fn state(&self) -> String {
        let Self { puts, gets, atomics, .. } = self;
        let idle = if self.is_idle() { "idle" } else { "some under way" };
        format!("{puts} puts, {gets} gets, {atomics} atomics, {idle}")
    }

    /// Goes on with what has ended; begins anew only while `open`. True if anything moved.
    pub fn step(&mut self, endpoint: &Endpoint, open: bool) -> anyhow::Result<bool> {
        let mut moved = self.add(endpoint, open)?;
        for nth in 0..self.areas.len() {
            moved |= self.step_area(nth, endpoint, open)?;
        }
        Ok(moved)
    }

    fn step_area(&mut self, nth: usize, endpoint: &Endpoint, open: bool) -> anyhow::Result<bool> {
        let area = &mut self.areas[nth];
        let ended = match &mut area.flying {
            Some(Flying::Put(request) | Flying::Get(request)) => request.test(),
            None => open,
        };
        if !ended {
            return Ok(false);
        }
        let (offset, index) = (area.offset, area.index);
        let target = RemoteRegion { offset: offset as u64, ..self.target };
        let next = match area.flying.take() {
            None => {
                let bytes = self.bytes(index);
                started(endpoint.put(target, bytes))?.map(Flying::Put)
            }
            Some(Flying::Put(request)) => {
                let bytes = end(request)?;
                self.puts += 1;
                // Refused for lack of room: put again, so that there is something to get next time.
                started(endpoint.get(target, vec![!0; bytes.len()]))?.map(Flying::Get)
            }
            Some(Flying::Get(request)) => {
                let bytes = end(request)?;
                self.gets += 1;
                self.compare(index, offset, &bytes);
                self.areas[nth].index += AREAS as u64;
                None
            }
        };
        self.areas[nth].flying = next;
        Ok(true)
    }

    /// What an area puts next: as many bytes of all orders of magnitude.
    fn bytes(&mut self, index: u64) -> Vec<u8> {
        let order = self.random.below(19) + 1;
        let size = self.random.below(1 << order) as usize;
        let mut bytes = vec![0; size.min(PUT_BYTES_MAX)];
        self.script.fill(index, 0, &mut bytes);
        bytes
    }

    fn compare(&mut self, index: u64, offset: usize, bytes: &[u8]) {
        let mut wanted = vec![0; bytes.len()];
        self.script.fill(index, 0, &mut wanted);
        if let Some(at) = bytes.iter().zip(&wanted).position(|(is, must)| is != must) {
            let text = format!("byte {at} of {} that were put at {offset}", bytes.len());
            self.mismatch.get_or_insert(text);
        }
    }

    /// Adds one to the other end's number, again and again. Operations of one node are done in the order of their posts, so
    /// what is fetched is known.
    fn add(&mut self, endpoint: &Endpoint, open: bool) -> anyhow::Result<bool> {
        let mut moved = false;
        while self.additions.front_mut().is_some_and(Request::test) {
            let Some(request) = self.additions.pop_front() else { break };
            let before = end(request)?.first();
            let first = *self.first.get_or_insert(before);
            if before != first + self.atomics {
                let text = format!("addition {} to {first} found {before}", self.atomics);
                self.mismatch.get_or_insert(text);
            }
            self.atomics += 1;
            moved = true;
        }
        while open && self.additions.len() < ADDITIONS {
            match started(endpoint.fetch_add(self.target, 1u64))? {
                Some(request) => self.additions.push_back(request),
                None => break,
            }
            moved = true;
        }
        Ok(moved)
    }
}

/// An operation under way, unless there is no room for it now.
fn started<B: Send + 'static>(
    posted: Result<Request<B>, Refused<B>>,
) -> anyhow::Result<Option<Request<B>>> {
    match posted {
        Ok(request) => Ok(Some(request)),
        Err(refused) if refused.reason.is_temporary() => Ok(None),
        Err(refused) => bail!("EMP refused a one-sided operation: {refused}"),
    }
}

/// The buffer of an operation that has ended.
fn end<B: Send + 'static>(request: Request<B>) -> anyhow::Result<B> {
    let done = request.wait(Duration::ZERO);
    done.map(|done| done.buffer).map_err(|error| anyhow!("{error}"))
}
