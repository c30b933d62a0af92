//! `emp bench board`: what a crossing between a client and the service `empd` costs, alone: of a frame to another client, or of what an engine in
//! the service is asked; and what clients beside those that are measured cost them.

mod args;
mod engine;
mod flood;
mod frames;

use std::time::Instant;

use emp_link::service::socket_path;
use emp_wire::HEADER_BYTES;

use super::subject::allow_files;
use crate::error::{print, user_error};
pub use args::Args;
use flood::{Flood, Others};

/// What one user may attach unless the service's configuration says otherwise.
const CLIENTS_MAX: usize = 510;

/// What one user may have of engines unless the service's configuration says otherwise: a flood has two of them.
const ENGINES_MAX: usize = 254;

/// Open files of a client: its connection, its bell, what it waits on; and of one with an engine those of a node as well.
const FILES_OF_CLIENT: u64 = 4;
const FILES_OF_NODE: u64 = 12;

/// Rounds that are timed together: reading the clock costs a tenth of a crossing.
const SLICE: u32 = 64;

/// Microseconds of each slice, in order.
struct Times(Vec<f64>);

impl Times {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self(times)
    }

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
        let (most, files) =
            if self.engine { (ENGINES_MAX, FILES_OF_NODE) } else { (CLIENTS_MAX, FILES_OF_CLIENT) };
        if !(2..=most).contains(&self.clients) || self.turns == 0 {
            return Err(user_error(format!(
                "--clients: 2 to {most}, what one user may have; --turns: 1 or more"
            )));
        }
        allow_files(files * (self.clients as u64 + 2));
        if self.engine { self.engines() } else { self.frames() }
    }

    fn frames(&self) -> anyhow::Result<()> {
        let mut pair = frames::Pair::open(self)?;
        let bytes = HEADER_BYTES + self.size;
        let what = format!("{bytes} bytes from one of two clients to the other");
        self.compare(&what, || pair.round(self.sleep), || frames::others(self))
    }

    fn engines(&self) -> anyhow::Result<()> {
        let mut nodes = engine::Pair::open(self)?;
        if self.others() == 0 {
            let times = self.measure(1, self.rounds, || nodes.ask())?;
            self.tell("question and answer of an engine", &times)?;
            let times = self.measure(1, self.rounds, || nodes.loop_back())?;
            let what =
                format!("client, engine, client: a message of {} bytes to itself", self.size);
            self.tell(&what, &times)?;
        }
        let what = format!("a message of {} bytes from one of two engines to the other", self.size);
        self.compare(&what, || nodes.round(), || engine::others(self))
    }

    /// Clients beside those two.
    fn others(&self) -> usize {
        self.clients - 2 + usize::from(self.flood)
    }

    /// Times rounds of two ways each, alone and with others beside, in turn.
    fn compare(
        &self,
        two: &str,
        mut round: impl FnMut() -> anyhow::Result<()>,
        open: impl Fn() -> anyhow::Result<Others>,
    ) -> anyhow::Result<()> {
        if self.others() == 0 {
            return self.tell(two, &self.measure(2, self.rounds, round)?);
        }
        let (mut alone, mut beside, mut flooded) = (Vec::new(), Vec::new(), 0.0);
        let turns = u32::try_from(self.turns).unwrap_or(u32::MAX);
        let rounds = (self.rounds / turns).max(1);
        for _ in 0..self.turns {
            alone.extend(self.measure(2, rounds, &mut round)?.0);
            let others = open()?;
            let (since, before) = (Instant::now(), others.flood.as_ref().map_or(0, Flood::sent));
            beside.extend(self.measure(2, rounds, &mut round)?.0);
            let sent = others.flood.as_ref().map_or(0, Flood::sent) - before;
            flooded += sent as f64 / since.elapsed().as_secs_f64() / self.turns as f64;
        }
        let [alone, beside] = [alone, beside].map(Times::of);
        let flood = if self.flood { " and a flood" } else { "" };
        let what = format!("{} clients{flood}", self.clients);
        self.tell(two, &alone)?;
        self.tell(&format!("{two}, {what}"), &beside)?;
        let flood =
            if self.flood { format!("; the flood: {flooded:.0} a second") } else { String::new() };
        print(&format!("{what}, to two: {:.3}{flood}\n", beside.at(0.5) / alone.at(0.5)))
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
        Ok(Times::of(times))
    }
}
