//! EMP through its MX library: what programs for MX call. Only the ping-pong, to be compared with the host API's.

mod calls;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use self::calls::Mx;
use super::emp::pingpong_receives;
use super::opening::Opening;
use super::place::Place;
use super::{Role, Subject};
use crate::bail_user;
use crate::bench::control::Card;
use crate::bench::job::{Job, LinkChoice, Measure, Pattern};
use crate::bench::patience::Patience;

/// The variable by which the library is told its link.
const LINK_VARIABLE: &str = "EMP_LINK";

/// How long both ends go on making progress after a job, as for EMP itself: until the last acknowledgements are out.
const SETTLE: Duration = Duration::from_micros(400);

/// An endpoint that is open and knows no one yet.
pub struct MxOpening {
    mx: Mx,
    link: LinkChoice,
}

impl MxOpening {
    /// Opens the endpoint.
    pub fn open(link: LinkChoice, place: &Place) -> anyhow::Result<Self> {
        let told = std::env::var(LINK_VARIABLE).unwrap_or_else(|_| "auto".to_owned());
        if told != link.to_string() {
            bail_user!(
                "the MX library takes its link from {LINK_VARIABLE}: set {LINK_VARIABLE}={link} at {}, where it is {told}",
                place.own
            );
        }
        // Beside this program in a build; installed, they are in two directories.
        let program = std::env::current_exe().context("this program has a place")?;
        let directory = program.parent().context("a file is in a directory")?;
        let places = [directory.to_owned(), directory.join("../lib")];
        let found = places.map(|place| place.join("libmyriexpress.so"));
        let Some(file) = found.iter().find(|file| file.is_file()) else {
            bail_user!(
                "libmyriexpress.so is not beside this program; `make install` puts it there"
            );
        };
        Ok(Self { mx: Mx::open(file, &place.interface.name)?, link })
    }
}

impl Opening for MxOpening {
    fn card(&self) -> Card {
        // An end without an address can't be met, which the other end then says.
        let fabric = self.mx.address().ok();
        Card { links: vec![self.link.to_string()], fabric, ..Card::default() }
    }

    fn connect(mut self: Box<Self>, other: &Card) -> anyhow::Result<Box<dyn Subject>> {
        let Some(address) = &other.fabric else {
            bail!("the other end has no MX address");
        };
        self.mx.meet(address)?;
        Ok(Box::new(Measured { mx: self.mx, unposted: 0 }))
    }
}

/// One end of a pair of endpoints.
struct Measured {
    mx: Mx,
    /// Messages of the job for which no receive was posted yet.
    unposted: u64,
}

impl Measured {
    fn post_receive(&mut self, number: u64) -> anyhow::Result<()> {
        if self.unposted == 0 {
            return Ok(());
        }
        self.unposted -= 1;
        self.mx.receive(number as usize % self.mx.receives())
    }

    /// Waits for the next message.
    fn arrival(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        while !self.mx.arrived()? {
            patience.idle()?;
        }
        Ok(())
    }

    /// Sends first and then posts the receive for the message after the next, while this one is on its way: as the host
    /// API's ping-pong does.
    fn ping(&mut self, job: &Job) -> anyhow::Result<()> {
        for number in 0..job.count {
            self.mx.send()?;
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
            self.mx.send()?;
            self.post_receive(number)?;
        }
        self.drain()
    }

    /// Waits for the ends of all sends.
    fn drain(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        while !self.mx.sent()? {
            patience.idle()?;
        }
        Ok(())
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < SETTLE {
            self.mx.progress()?;
        }
        Ok(())
    }
}

impl Subject for Measured {
    fn prepare(&mut self, _role: Role, job: &Job) -> anyhow::Result<()> {
        if job.pattern != Pattern::Pingpong {
            bail!("mx is only measured by ping-pongs");
        }
        self.mx.resize(job.size, pingpong_receives(job.size))?;
        self.unposted = job.count;
        (0..self.mx.receives() as u64).try_for_each(|number| self.post_receive(number))
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
