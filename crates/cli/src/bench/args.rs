//! What can be asked of the patterns of `emp bench`, and what of it makes no sense.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::emp_args::EmpArgs;
use super::job::{LinkChoice, Pattern, Spec, SubjectKind};
use super::measure::Effort;
use super::where_args::WhereArgs;
use crate::bail_user;
use crate::lab::Shape;
use crate::sizes;

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
            (
                "x peer --board moon",
                "there are inline, thread, split:io, split:SO, split:RO, split:DSR, split:SR",
            ),
            (
                "x peer --board split:XY",
                "there is no scheme XY; there are io, SO, RO, DSR, SR, dynamic",
            ),
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
