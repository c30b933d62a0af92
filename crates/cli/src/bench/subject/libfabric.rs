//! EMP through its libfabric provider: what an MPI calls. Only the ping-pong, to be compared with the host API's.

mod door;
mod interface;

use std::time::{Duration, Instant};

use anyhow::bail;

use self::door::Door;
use super::emp::pingpong_receives;
use super::opening::Opening;
use super::place::Place;
use super::{Role, Subject, memory};
use crate::bail_user;
use crate::bench::control::Card;
use crate::bench::job::{Job, LinkChoice, Measure, Pattern};
use crate::bench::patience::Patience;
use crate::mpi;

/// The variable by which the provider is told its link.
const LINK_VARIABLE: &str = "FI_EMP_LINK";

/// How long both ends go on making progress after a job, as for EMP itself: until the last acknowledgements are out.
const SETTLE: Duration = Duration::from_micros(400);

/// An endpoint that is open and knows no one yet.
pub struct LibfabricOpening {
    door: Door,
    link: LinkChoice,
}

impl LibfabricOpening {
    /// Opens the endpoint.
    pub fn open(link: LinkChoice, place: &Place) -> anyhow::Result<Self> {
        let told = std::env::var(LINK_VARIABLE).unwrap_or_else(|_| "auto".to_owned());
        if told != link.to_string() {
            bail_user!(
                "the libfabric provider takes its link from {LINK_VARIABLE}: set {LINK_VARIABLE}={link} at {}, where it is {told}",
                place.own
            );
        }
        let door = Door::open(&mpi::provider_file()?, &place.interface.name)?;
        Ok(Self { door, link })
    }
}

impl Opening for LibfabricOpening {
    fn card(&self) -> Card {
        // An end without an address can't be met, which the other end then says.
        Card {
            links: vec![self.link.to_string()],
            fabric: self.door.address().ok(),
            ..Card::default()
        }
    }

    fn connect(mut self: Box<Self>, other: &Card) -> anyhow::Result<Box<dyn Subject>> {
        let Some(address) = &other.fabric else {
            bail!("the other end has no libfabric address");
        };
        self.door.meet(address)?;
        Ok(Box::new(Libfabric { door: self.door, unposted: 0 }))
    }
}

/// One end of a pair of endpoints.
struct Libfabric {
    door: Door,
    /// Messages of the job for which no receive was posted yet.
    unposted: u64,
}

impl Libfabric {
    fn post_receive(&mut self, number: u64) -> anyhow::Result<()> {
        if self.unposted == 0 {
            return Ok(());
        }
        self.unposted -= 1;
        until(&mut self.door, |door| door.receive(number as usize % door.receives()))
    }

    /// Waits for the next message.
    fn arrival(&mut self) -> anyhow::Result<()> {
        until(&mut self.door, |door| Ok(door.read()?.is_some_and(|receives| receives > 0)))
    }

    /// Sends first and then posts the receive for the message after the next, while this one is on its way: as the host
    /// API's ping-pong does.
    fn ping(&mut self, job: &Job) -> anyhow::Result<()> {
        for number in 0..job.count {
            until(&mut self.door, Door::send)?;
            if number > 0 {
                self.post_receive(number - 1)?;
            }
            self.arrival()?;
        }
        self.drain()
    }

    fn pong(&mut self, job: &Job) -> anyhow::Result<()> {
        for number in 0..job.count {
            self.arrival()?;
            until(&mut self.door, Door::send)?;
            self.post_receive(number)?;
        }
        self.drain()
    }

    /// Waits for the ends of all sends.
    fn drain(&mut self) -> anyhow::Result<()> {
        until(&mut self.door, |door| {
            door.read()?;
            Ok(door.sends() == 0)
        })
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < SETTLE {
            self.door.read()?;
        }
        Ok(())
    }
}

/// Tries until it works.
#[inline]
fn until(
    door: &mut Door,
    mut attempt: impl FnMut(&mut Door) -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    let mut patience = Patience::default();
    while !attempt(door)? {
        patience.idle()?;
    }
    Ok(())
}

impl Subject for Libfabric {
    fn prepare(&mut self, _role: Role, job: &Job) -> anyhow::Result<()> {
        if job.pattern != Pattern::Pingpong {
            bail!("libfabric is only measured by ping-pongs");
        }
        self.door.resize(job.size, pingpong_receives(job.size))?;
        self.unposted = job.count;
        (0..self.door.receives() as u64).try_for_each(|number| self.post_receive(number))
    }

    fn leave_memory(&mut self, job: &Job) {
        if memory::is_shared(job) {
            self.door.leave_memory();
        }
    }

    fn active(&mut self, job: &Job) -> anyhow::Result<Measure> {
        let start = Instant::now();
        self.ping(job)?;
        let elapsed = start.elapsed();
        self.settle()?;
        Ok(Measure { job: *job, elapsed, arrived: 1.0 })
    }

    fn passive(&mut self, job: &Job) -> anyhow::Result<()> {
        self.pong(job)?;
        self.settle()
    }
}
