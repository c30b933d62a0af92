//! What EMP is to be like, as it is asked for, and what of it makes no sense.

use clap::Args;
use emp_firmware::{Integrity, Profile};
use emp_host::{Board, Collections};

use super::cpus;
use super::job::{DAEMON, LinkChoice, Spec};
use crate::bail_user;
use crate::error::user_error;

/// Ways of waiting that `--wait` knows.
const WAITS: [&str; 3] = ["spin", "adaptive", "sleep"];

/// Seconds of silence that can be chosen: many round trips, and an hour.
const TIMEOUT_SECONDS: std::ops::RangeInclusive<f64> = 0.05..=3_600.0;

/// What EMP is to be like.
#[derive(Args, Clone, Debug)]
pub struct EmpArgs {
    /// The link that carries the frames.
    #[arg(long, value_enum, default_value_t = LinkChoice::Auto)]
    pub link: LinkChoice,
    /// Protocol parameters: default, emp2001, openmx, vmmc2.
    #[arg(long, default_value = "default")]
    pub profile: String,
    /// Frames (of openmx: messages) that one acknowledgement covers; PEER=FRAMES for one peer, as emp peers calls it; several separated by commas
    /// [default: the profile's].
    #[arg(long, value_name = "FRAMES")]
    pub collection: Option<String>,
    /// Seconds in which nothing is heard of the other end after which it is given up. Time in which the own interface has no carrier
    /// does not count, up to six times as much.
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0)]
    pub timeout: f64,
    /// What EMP's payloads are checked by over udp: carrier (UDP's checksum, as TCP's are), end-to-end (EMP's as well).
    #[arg(long, default_value = "carrier")]
    pub integrity: String,
    /// Over auto, long datagrams leave through the kernel's IP layer, as those of a process without privilege do.
    #[arg(long)]
    pub no_past_ip: bool,
    /// Where the firmware runs: inline (in the caller), thread, split:io (in the caller, with the links' calls on a thread of their own), split:SO,
    /// split:RO, split:DSR, split:SR and split:dynamic (in the caller; on a second thread what sends, what copies, what takes frames, what sends and
    /// copies, or what takes frames if there is time for it), daemon (in the service empd, over whose links it sends).
    #[arg(long, default_value = "inline")]
    pub board: String,
    /// The two CPUs of a split board, such as 0,1: of the engine, and of its other thread. Of a lab's two ends the second has them the other way
    /// round [default: in a lab four of this machine's where it has them, else both threads of an end share one, which makes them many times slower].
    #[arg(long, value_name = "CPUS", value_delimiter = ',')]
    pub cpus: Vec<usize>,
    /// Leave out the guardian thread of the inline board.
    #[arg(long)]
    pub no_guardian: bool,
    /// Say of each message of stream and rate that others follow, but of the last of a window: small ones share frames, and
    /// TCP's segments.
    #[arg(long)]
    pub bundle: bool,
    /// Part of EMP's frames that each end loses on purpose, such as 0.01.
    #[arg(long, default_value_t = 0.0, value_name = "P")]
    pub loss: f64,
    /// Other faults of EMP's frames, such as drop:1%,reorder:5%@4,duplicate:1%,corrupt:0.1%,delay:1%@50us..1ms.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "PLAN")]
    pub faults: String,
    /// How EMP waits: spin, adaptive (spins as long as recent waits make it worth while, then sleeps), sleep
    /// [default: spin; adaptive with board thread].
    #[arg(long)]
    pub wait: Option<String>,
    /// Seed of loss, faults and other random choices.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl EmpArgs {
    /// EMP as asked for.
    pub fn spec(&self) -> anyhow::Result<Spec> {
        if Profile::by_name(&self.profile).is_none() {
            let known: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
            bail_user!("there is no profile {}; there are {}", self.profile, known.join(", "));
        }
        if let Some(collections) = &self.collection {
            collections.parse::<Collections>().map_err(user_error)?;
        }
        if !Integrity::ALL.iter().any(|(name, _)| *name == self.integrity) {
            let known = Integrity::ALL.map(|(name, _)| name);
            bail_user!("there is no integrity {}; there are {}", self.integrity, known.join(", "));
        }
        Board::named(&self.board).map_err(user_error)?;
        let cpus = cpus::check(&self.cpus, &self.board)?;
        if !(0.0..1.0).contains(&self.loss) {
            bail_user!(
                "a loss of {} is not possible; choose 0 to 0.99, 0.01 is one frame in a hundred",
                self.loss
            );
        }
        if !TIMEOUT_SECONDS.contains(&self.timeout) {
            let (least, most) = (TIMEOUT_SECONDS.start(), TIMEOUT_SECONDS.end());
            bail_user!(
                "a timeout of {} is not possible; choose {least} to {most} seconds",
                self.timeout
            );
        }
        if let Some(wait) = self.wait.as_ref().filter(|wait| !WAITS.contains(&wait.as_str())) {
            bail_user!("there is no way of waiting called {wait}; there are {}", WAITS.join(", "));
        }
        let link = match self.link {
            LinkChoice::Auto if self.board == DAEMON => LinkChoice::Empd,
            link if self.board == DAEMON && link != LinkChoice::Empd => {
                bail_user!("--link {link}: an engine in empd has the service's links")
            }
            link => link,
        };
        let spec = Spec {
            profile: self.profile.clone(),
            collection: self.collection.clone(),
            timeout_ms: (self.timeout * 1e3) as u64,
            integrity: self.integrity.clone(),
            no_past_ip: self.no_past_ip,
            board: self.board.clone(),
            cpus,
            guardian: !self.no_guardian,
            bundle: self.bundle,
            wait: self.wait.clone(),
            loss: self.loss,
            faults: self.faults.clone(),
            seed: self.seed,
            ..Spec::emp(link)
        };
        spec.fault_plan()?;
        Ok(spec)
    }
}
