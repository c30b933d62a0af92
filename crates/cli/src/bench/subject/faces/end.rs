//! EMP through its faces: what programs for their interfaces call. Only the ping-pong, to be compared with the host API's.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::libfabric::open as libfabric;
use super::port::Port;
use super::{mx, vipl, vmmc};
use crate::bail_user;
use crate::bench::job::{Job, LinkChoice, Measure, Pattern};
use crate::bench::patience::Patience;
use crate::bench::subject::emp::post::pingpong_receives;
use crate::bench::subject::kind::{Card, Opening, Role, Subject};
use crate::bench::subject::memory;
use crate::bench::subject::place::Place;
use crate::measured::{FACES, face_title};
use crate::{borrowed, mpi};

/// What opens an end of a library in a file, on an interface.
type Open = fn(&Path, &str) -> anyhow::Result<Box<dyn Port>>;

/// The variable by which the libraries are told their link.
const LINK_VARIABLE: &str = "EMP_LINK";

/// How long both ends go on making progress after a job, as for EMP itself: until the last acknowledgements are out.
const SETTLE: Duration = Duration::from_micros(400);

/// A way into EMP beside its own API: its name in [`FACES`], and how it is opened.
pub struct Face {
    name: &'static str,
    how: How,
}

/// How an end of it is opened.
enum How {
    /// As libfabric's clients do.
    Provider,
    /// By a library that is beside this program: its file, and what opens it.
    Library(&'static str, Open),
}

/// All of them: another one is a line here, one in [`FACES`], and a [`Port`].
const ALL: [Face; FACES.len()] = [
    Face { name: "libfabric", how: How::Provider },
    Face { name: "mx", how: How::Library("libmyriexpress.so", mx::open) },
    Face { name: "vipl", how: How::Library("libvipl.so", vipl::open) },
    Face { name: "vmmc", how: How::Library("libvmmc.so", vmmc::open) },
];

impl Face {
    /// A face by its name.
    pub fn named(name: &str) -> Option<&'static Self> {
        static FOUND: [Face; ALL.len()] = ALL;
        FOUND.iter().find(|face| face.name == name)
    }

    /// Opens an end.
    pub fn open(&self, link: LinkChoice, place: &Place) -> anyhow::Result<Box<dyn Opening>> {
        let (variable, open) = match self.how {
            How::Provider => (libfabric::LINK_VARIABLE, libfabric::open as Open),
            How::Library(_, open) => (LINK_VARIABLE, open),
        };
        let told = std::env::var(variable).unwrap_or_else(|_| "auto".to_owned());
        if told != link.to_string() {
            bail_user!(
                "{} on EMP takes its link from {variable}: set {variable}={link} at {}, where it is {told}",
                face_title(self.name),
                place.own
            );
        }
        if borrowed::there() {
            bail_user!(
                "this program has capabilities that its user has not, and loads no libraries with them: run `emp` as root"
            );
        }
        let port = open(&self.file()?, &place.interface.name)?;
        Ok(Box::new(FaceOpening { port, link, title: face_title(self.name) }))
    }

    /// The library.
    fn file(&self) -> anyhow::Result<PathBuf> {
        let How::Library(file, _) = self.how else { return mpi::provider_file() };
        // Beside this program in a build; installed, it is in another directory, by the name that has a version.
        let program = std::env::current_exe().context("this program has a place")?;
        let directory = program.parent().context("a file is in a directory")?;
        let installed = mpi::LIBRARIES.map(|place| directory.join(place).join(format!("{file}.0")));
        let mut places = std::iter::once(directory.join(file)).chain(installed);
        let Some(file) = places.find(|file| file.is_file()) else {
            bail_user!("{file} is not beside this program; `make install` puts it there");
        };
        Ok(file)
    }
}

/// A port that is open and knows no one yet.
struct FaceOpening {
    port: Box<dyn Port>,
    link: LinkChoice,
    title: &'static str,
}

impl Opening for FaceOpening {
    fn card(&self) -> Card {
        // An end without an address can't be met, which the other end then says.
        let fabric = self.port.address().ok();
        Card { links: vec![self.link.to_string()], fabric, ..Card::default() }
    }

    fn connect(mut self: Box<Self>, other: &Card) -> anyhow::Result<Box<dyn Subject>> {
        let Some(address) = &other.fabric else {
            bail!("the other end has no {} address", self.title);
        };
        self.port.meet(address)?;
        Ok(Box::new(Measured { port: self.port, unposted: 0 }))
    }
}

/// One end of a pair.
struct Measured {
    port: Box<dyn Port>,
    /// Messages of the job for which no receive was posted yet.
    unposted: u64,
}

impl Measured {
    fn post_receive(&mut self, number: u64) -> anyhow::Result<()> {
        if self.unposted == 0 {
            return Ok(());
        }
        self.unposted -= 1;
        self.port.receive(number as usize % self.port.receives())
    }

    /// Waits for the next message.
    fn arrival(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        while !self.port.arrived()? {
            patience.idle()?;
        }
        Ok(())
    }

    /// Sends first and then posts the receive for the message after the next, while this one is on its way: as the host
    /// API's ping-pong does.
    fn ping(&mut self, job: &Job) -> anyhow::Result<()> {
        for number in 0..job.count {
            self.port.send()?;
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
            self.port.send()?;
            self.post_receive(number)?;
        }
        self.drain()
    }

    /// Waits for the ends of all sends.
    fn drain(&mut self) -> anyhow::Result<()> {
        let mut patience = Patience::default();
        while !self.port.sent()? {
            patience.idle()?;
        }
        Ok(())
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        while start.elapsed() < SETTLE {
            self.port.progress()?;
        }
        Ok(())
    }
}

impl Subject for Measured {
    fn leave_memory(&mut self, job: &Job) {
        if memory::is_shared(job) {
            self.port.leave_memory();
        }
    }

    fn prepare(&mut self, _role: Role, job: &Job) -> anyhow::Result<()> {
        if job.pattern != Pattern::Pingpong {
            bail!("faces are only measured by ping-pongs");
        }
        self.port.resize(job.size, pingpong_receives(job.size))?;
        self.unposted = job.count;
        (0..self.port.receives() as u64).try_for_each(|number| self.post_receive(number))
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
