//! What can be asked of `emp bench`, and what of it makes no sense.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use emp_firmware::{Integrity, Profile};
use emp_host::Board;

use super::job::{DAEMON, LinkChoice, Pattern, Spec, SubjectKind};
use super::measure::Effort;
use super::named::first_of;
use super::pair::{MTU_DEFAULT, Pair, spares_beside};
use super::subject::Named;
use super::{Session, cpus};
use crate::bail_user;
use crate::error::user_error;
use crate::lab::Shape;
use crate::sizes;

/// Ways of waiting that `--wait` knows.
const WAITS: [&str; 3] = ["spin", "adaptive", "sleep"];

/// Slices per subject and size. Short slices, so that many of them pass without another program on the same core, and
/// an odd number, which has a middle.
const RUNS_DEFAULT: usize = 25;

/// Slices that `--runs` may ask for.
const RUNS_MAX: usize = 1_000;

/// Idle nodes that `--idle-nodes` may ask for: each has a receive ring of 2 MiB that the kernel doesn't swap.
const IDLE_NODES_MAX: usize = 500;

/// Seconds per subject and size.
const SECONDS_DEFAULT: f64 = 0.5;

/// Bytes of one atomic operation at most: what fits a frame of the usual Ethernet with room to spare.
const ATOMIC_BYTES_MAX: usize = 1024;

/// Seconds that `--seconds` may ask for: a day.
const SECONDS_MAX: f64 = 86_400.0;

/// Where the other end is.
#[derive(Args, Clone, Debug)]
pub struct WhereArgs {
    /// The host where `emp bench listen` runs: NAME, ADDRESS, or either with :PORT.
    #[arg(required_unless_present = "lab")]
    pub peer: Option<String>,
    /// Both ends here, in two network namespaces joined by a virtual cable.
    #[arg(long, conflicts_with = "peer")]
    pub lab: bool,
    /// Network interface of the packet link [default: the one that leads to PEER].
    #[arg(long, conflicts_with = "lab")]
    pub interface: Option<String>,
    /// Interfaces that EMP uses together, at most four, such as eth1,eth2; the first is that of --interface. Both ends need them; a lab has
    /// emp0, emp1 and emp2.
    #[arg(long, value_name = "INTERFACES", value_delimiter = ',', conflicts_with = "interface")]
    pub interfaces: Vec<String>,
    /// Other interfaces that lead to PEER, for what must not pass through EMP's XDP program on the first one: with --link xdp
    /// the bare link takes one and TCP one. Both ends need them, in the same order; a lab has more cables for it.
    #[arg(long, value_name = "INTERFACES", value_delimiter = ',', conflicts_with = "lab")]
    pub spare_interface: Vec<String>,
    /// Size of the largest packet in bytes [default: the interface's; 1500 in a lab].
    #[arg(long)]
    pub mtu: Option<usize>,
}

/// Frames of a collection that can be chosen: what is owed is counted in 16 bits.
const COLLECTIONS: std::ops::RangeInclusive<u32> = 1..=65_535;

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
    /// Frames (of openmx: messages) that one acknowledgement covers [default: the profile's].
    #[arg(long, value_name = "FRAMES")]
    pub collection: Option<u32>,
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
    /// Where the firmware runs: inline (in the caller), thread, split:io (in the caller, with the links' calls on a thread of their own), daemon
    /// (in the service empd, over whose links it sends).
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

/// Options of the patterns that are measured.
#[derive(Args, Clone, Debug)]
pub struct MeasureArgs {
    #[command(flatten)]
    pub place: WhereArgs,
    #[command(flatten)]
    pub emp: EmpArgs,
    /// Message sizes, such as 1,32,4K,1M or 4..1M (doubling).
    #[arg(long)]
    pub sizes: Option<String>,
    /// Seconds for each subject at each size.
    #[arg(long, default_value_t = SECONDS_DEFAULT)]
    pub seconds: f64,
    /// Slices that those seconds are cut into; figures are medians over slices.
    #[arg(long, default_value_t = RUNS_DEFAULT)]
    pub runs: usize,
    /// Messages outstanding [default: about 4 MiB of them, 4 to 256; 1 of put, get and atomic].
    #[arg(long, value_name = "N")]
    pub window: Option<usize>,
    /// Start so many other nodes of EMP at each end first, on the same interface; they sleep. What that costs a host with many ranks.
    #[arg(long, default_value_t = 0, hide_default_value = true, value_name = "N")]
    pub idle_nodes: usize,
    /// Measure these in turn with EMP: raw (the bare link), tcp (spinning), tcp-block (sleeping). TCP runs under cubic and under bbr,
    /// and the faster one counts, size by size. Faces of EMP may be named here as well.
    #[arg(long, value_delimiter = ',', value_name = "SUBJECTS")]
    pub vs: Vec<String>,
    /// Measure these faces in turn with EMP's own API, and say what each adds to it: libfabric (as MPIs call it), mx, vipl, vmmc (as
    /// programs for these do), host (that API itself, which is always measured), or all. Pingpong only; the libraries take their link
    /// from EMP_LINK and FI_EMP_LINK.
    #[arg(long, value_delimiter = ',', value_name = "FACES")]
    pub face: Vec<String>,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Draw throughput and signature curves to a file.
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// Options of `emp bench verify`.
#[derive(Args, Clone, Debug)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub place: WhereArgs,
    #[command(flatten)]
    pub emp: EmpArgs,
    /// Hosts of the lab: every pair of them is verified, each host with one other at a time.
    #[arg(long)]
    pub hosts: Option<usize>,
    /// How they are cabled: a name or a file, as `emp lab up` takes it [default: by a switch].
    #[arg(long, value_name = "NAME|FILE", value_parser = Shape::parse)]
    pub topology: Option<Shape>,
    /// How long each end starts new messages, with each other end.
    #[arg(long, default_value_t = 10.0)]
    pub seconds: f64,
    /// Largest message.
    #[arg(long, default_value = "4M", value_name = "SIZE")]
    pub size_max: String,
    /// Messages outstanding each way.
    #[arg(long, default_value_t = 24, value_name = "N")]
    pub window: usize,
    /// If nothing moves any more, have both ends tell all they know of it.
    #[arg(long)]
    pub verbose: bool,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Options of `emp bench bars`.
#[derive(Args, Clone, Debug)]
pub struct BarsArgs {
    #[command(flatten)]
    pub place: WhereArgs,
    /// Seconds for each subject of each bar.
    #[arg(long, default_value_t = 1.0)]
    pub seconds: f64,
    /// Slices that those seconds are cut into.
    #[arg(long, default_value_t = 101)]
    pub runs: usize,
    /// Only bars whose name holds this text.
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Write the figures to a file, for programs.
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

impl WhereArgs {
    /// Does work with the other end's address, in a lab of its own if that was asked for, with services on its hosts if those are needed.
    pub fn with_peer<T: Send>(
        &self,
        services: bool,
        work: impl FnOnce(&str) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        match &self.peer {
            Some(peer) if !self.lab => work(peer),
            _ => Pair::with_spares(self.mtu.unwrap_or(MTU_DEFAULT), &self.interfaces, services)?
                .run(work),
        }
    }

    /// Opens a session with that other end. A lab's interfaces have the MTU that was asked for already.
    pub fn open(&self, peer: &str, specs: Vec<Spec>) -> anyhow::Result<Session> {
        let mtu = if self.lab { None } else { self.mtu };
        let spares = match self.lab {
            true => spares_beside(&self.interfaces),
            false => self.spare_interface.clone(),
        };
        let (first, together) = first_of(&self.interface, &self.interfaces)?;
        Session::open(peer, specs, &Named { first, together, spares }, mtu)
    }

    /// Does work in one session.
    pub fn with_session<T: Send>(
        &self,
        mut specs: Vec<Spec>,
        work: impl FnOnce(&mut Session) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        // Here this process is not on one of them yet.
        let usable = if self.lab { cpus::usable_cpus() } else { Vec::new() };
        for spec in &mut specs {
            spec.cpus = spec.cpus.or_else(|| cpus::apart(&spec.board, &usable));
        }
        let services = specs.iter().any(Spec::needs_service);
        self.with_peer(services, |peer| work(&mut self.open(peer, specs)?))
    }
}

impl EmpArgs {
    /// EMP as asked for.
    pub fn spec(&self) -> anyhow::Result<Spec> {
        if Profile::by_name(&self.profile).is_none() {
            let known: Vec<_> = Profile::ALL.iter().map(|profile| profile.name).collect();
            bail_user!("there is no profile {}; there are {}", self.profile, known.join(", "));
        }
        if let Some(frames) = self.collection.filter(|frames| !COLLECTIONS.contains(frames)) {
            let (least, most) = (COLLECTIONS.start(), COLLECTIONS.end());
            bail_user!("a collection of {frames} frames is not possible; choose {least} to {most}");
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
            collection: self.collection,
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

/// The faces of these names; `host` is EMP itself, `all` all of them.
pub fn faces(names: &[String]) -> anyhow::Result<Vec<SubjectKind>> {
    let mut kinds = Vec::new();
    for name in names {
        match SubjectKind::yardsticks().find(|kind| kind.is_face() && kind.name() == name) {
            Some(face) => kinds.push(face),
            None if name == "host" => {}
            None if name == "all" => {
                kinds.extend(SubjectKind::yardsticks().filter(|kind| kind.is_face()));
            }
            None => {
                let known = SubjectKind::yardsticks().filter(|kind| kind.is_face());
                let known: Vec<_> = known.map(SubjectKind::name).collect();
                bail_user!("--face knows {}, host and all, not `{name}`", known.join(", "))
            }
        }
    }
    Ok(kinds)
}

impl MeasureArgs {
    /// What EMP is measured against.
    fn named(&self) -> anyhow::Result<Vec<SubjectKind>> {
        let mut kinds = Vec::new();
        for name in &self.vs {
            match SubjectKind::yardsticks().find(|kind| kind.name() == name) {
                Some(kind) => kinds.push(kind),
                None => {
                    let known: Vec<_> = SubjectKind::yardsticks().map(SubjectKind::name).collect();
                    bail_user!("--vs knows {}, not `{name}`", known.join(", "))
                }
            }
        }
        kinds.extend(faces(&self.face)?);
        Ok(kinds)
    }

    /// EMP first, then what it is measured against.
    pub fn specs(&self, pattern: Pattern) -> anyhow::Result<Vec<Spec>> {
        if self.idle_nodes > IDLE_NODES_MAX {
            bail_user!(
                "{} idle nodes are too many; choose up to {IDLE_NODES_MAX}",
                self.idle_nodes
            );
        }
        let emp = Spec { idle_nodes: self.idle_nodes, ..self.emp.spec()? };
        let mut specs = vec![emp.clone()];
        for kind in self.named()? {
            match kind {
                SubjectKind::Raw if pattern.one_sided() => {
                    bail_user!(
                        "a bare link cannot {}; compare with tcp, which asks and answers",
                        pattern.name()
                    )
                }
                face if face.is_face() && pattern != Pattern::Pingpong => {
                    bail_user!("{} is measured by pingpong only", face.name())
                }
                face if face.is_face() && emp.link == LinkChoice::Xdp => {
                    bail_user!(
                        "{} takes packet where EMP has the interface's xdp; compare over another link",
                        face.name()
                    )
                }
                kind if specs.iter().any(|spec| spec.kind == kind) => {}
                kind => specs.push(emp.against(kind)),
            }
        }
        Ok(specs)
    }

    /// The sizes, asked for or usual.
    pub fn sizes(&self, pattern: Pattern) -> anyhow::Result<Vec<usize>> {
        let usual = match pattern {
            Pattern::Rate => "8,64,256,1K",
            Pattern::Stream | Pattern::Bidir => "1K,8K,64K,1M,4M",
            Pattern::Put | Pattern::Get => "8,256,4K,64K,1M",
            Pattern::Atomic => "8,64,512",
            Pattern::Pingpong | Pattern::Verify => "1,32,256,1K,4K,16K,64K,256K,1M",
        };
        let sizes = sizes::parse(self.sizes.as_deref().unwrap_or(usual))?;
        let numbers = |size: &&usize| !size.is_multiple_of(8) || **size > ATOMIC_BYTES_MAX;
        match sizes.iter().find(numbers) {
            Some(size) if pattern == Pattern::Atomic => bail_user!(
                "atomics add numbers of 8 bytes, at most {ATOMIC_BYTES_MAX} bytes at once, not {size}"
            ),
            _ => Ok(sizes),
        }
    }

    /// The time to spend.
    pub fn effort(&self) -> anyhow::Result<Effort> {
        if self.window == Some(0) {
            bail_user!("a window of 0 messages would never send any; choose 1 or more");
        }
        effort(self.seconds, self.runs)
    }
}

/// The time to spend on each subject.
pub fn effort(seconds: f64, runs: usize) -> anyhow::Result<Effort> {
    check_seconds(seconds)?;
    if !(1..=RUNS_MAX).contains(&runs) {
        bail_user!("{runs} runs are not possible; choose 1 to {RUNS_MAX}");
    }
    Ok(Effort { slice: Duration::from_secs_f64(seconds / runs as f64), runs })
}

/// Refuses times that nobody means.
pub fn check_seconds(seconds: f64) -> anyhow::Result<()> {
    if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
        bail_user!(
            "{seconds} seconds are not possible; choose more than 0 and at most {SECONDS_MAX}"
        );
    }
    Ok(())
}

/// The command line, as it is recorded.
pub fn command_line() -> String {
    let arguments = std::env::args_os().skip(1);
    let words: Vec<String> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
    format!("emp {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::UserError;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: MeasureArgs,
    }

    fn args(line: &str) -> MeasureArgs {
        Line::try_parse_from(line.split(' ')).unwrap().args
    }

    #[test]
    fn subjects_follow_emp_once_each() {
        let specs =
            args("x peer --vs raw,tcp,raw --link udp --loss 0.1").specs(Pattern::Rate).unwrap();
        let kinds: Vec<_> = specs.iter().map(|spec| spec.kind).collect();
        assert_eq!(kinds, [SubjectKind::Emp, SubjectKind::Raw, SubjectKind::Tcp]);
        assert_eq!((specs[0].loss, specs[1].loss), (0.1, 0.0));
        assert_eq!(specs[1].link, LinkChoice::Udp);
    }

    #[test]
    fn mistakes_are_the_users_to_mend() {
        let all = |line: &str| {
            let args = args(line);
            let checks = args.specs(Pattern::Stream).map(drop).and(args.effort().map(drop));
            checks.and(args.sizes(Pattern::Stream).map(drop)).unwrap_err()
        };
        for (line, says) in [
            ("x peer --vs sctp", "not `sctp`"),
            ("x peer --vs libfabric", "libfabric is measured by pingpong only"),
            ("x peer --vs mx", "mx is measured by pingpong only"),
            ("x peer --face vmmc", "vmmc is measured by pingpong only"),
            (
                "x peer --face sctp",
                "--face knows libfabric, mx, vipl, vmmc, host and all, not `sctp`",
            ),
            ("x peer --profile fast", "there are default, emp2001"),
            ("x peer --collection 0", "a collection of 0 frames"),
            ("x peer --timeout 0", "choose 0.05 to 3600 seconds"),
            ("x peer --board daemon --link udp", "has the service's links"),
            ("x peer --board moon", "there are inline, thread, split:io, daemon"),
            ("x peer --board split:RO", "runs so in the simulator only"),
            ("x peer --board split:XY", "there is no scheme XY; there is io, and SO, RO"),
            ("x peer --board split:io --cpus 0", "--cpus names 1"),
            ("x peer --cpus 0,1", "inline takes its caller's"),
            ("x peer --integrity none", "there are carrier, end-to-end"),
            ("x peer --loss 1.5", "a loss of 1.5"),
            ("x peer --faults rain:1%", "`rain` is none of"),
            ("x peer --wait long", "there are spin, adaptive, sleep"),
            ("x peer --seconds -1", "-1 seconds"),
            ("x peer --seconds NaN", "NaN seconds"),
            ("x peer --runs 0", "0 runs"),
            ("x peer --window 0", "a window of 0"),
            ("x peer --sizes lots", "`lots` is not a size"),
        ] {
            let line = line.replace("--seconds -1", "--seconds=-1");
            let error = all(&line);
            assert!(error.is::<UserError>() && error.to_string().contains(says), "{error}");
        }
    }

    #[test]
    fn libfabric_is_compared_over_the_same_link() {
        let pingpong = |line: &str| args(line).specs(Pattern::Pingpong);
        assert_eq!(pingpong("x peer --vs libfabric").unwrap()[1].kind, SubjectKind::LIBFABRIC);
        let kinds = |line: &str| -> Vec<_> {
            pingpong(line).unwrap().iter().map(|spec| spec.kind.name()).collect()
        };
        assert_eq!(kinds("x peer --face host,mx,mx --vs tcp"), ["emp", "tcp", "mx"]);
        assert_eq!(kinds("x peer --face all"), ["emp", "libfabric", "mx", "vipl", "vmmc"]);
        let error = pingpong("x peer --link xdp --vs libfabric").unwrap_err();
        assert!(error.is::<UserError>() && error.to_string().contains("another link"), "{error}");
    }

    #[test]
    fn one_sided_patterns_have_limits_of_their_own() {
        let raw = args("x peer --vs raw").specs(Pattern::Put).unwrap_err();
        assert!(raw.is::<UserError>() && raw.to_string().contains("cannot put"), "{raw}");
        assert!(args("x peer --vs tcp").specs(Pattern::Get).is_ok());
        for sizes in ["12", "8,2K"] {
            let error = args(&format!("x peer --sizes {sizes}")).sizes(Pattern::Atomic);
            assert!(error.unwrap_err().is::<UserError>(), "{sizes}");
        }
        assert!(args("x peer --sizes 12").sizes(Pattern::Put).is_ok());
    }

    #[test]
    fn a_peer_or_a_lab_and_not_both() {
        assert!(Line::try_parse_from(["x"]).is_err());
        assert!(Line::try_parse_from(["x", "peer", "--lab"]).is_err());
        assert!(args("x --lab").place.lab);
    }
}
