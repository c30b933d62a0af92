//! `emp lab mpirun`: ranks of an MPI program on the hosts of a lab.
//!
//! The MPI's own launcher starts them; it believes that the hosts are machines and reaches them by a remote shell, which
//! here is `emp lab rsh`.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::io::{Read, Seek};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context;
use emp_firmware::limits::INTERFACES_MAX;
use signal_hook::consts::SIGTERM;

use super::args::MpirunArgs;
use super::commands::{join_kept, refuse_if_not_ours};
use super::host::Host;
use super::plan::{Plan, Topology};
use super::private::PrivateLab;
use super::scratch::Scratch;
use super::state::{self, NAME_VARIABLE, State};
use super::steer::Steering;
use super::{interrupt, offspring};
use crate::bail_user;
use crate::error::{PassThrough, user_error};
use crate::mpi::{self, Family, Mpi, Settings, Transport};
use crate::process;

/// Packet size of a lab made for one run: ordinary Ethernet's.
const MTU: u32 = 1500;

/// How long launchers may take to end their ranks, once they have been told or have ended themselves.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a launcher may take to hear of an interrupt by itself: the terminal tells it too.
const HEARSAY: Duration = Duration::from_secs(1);

/// Where the ranks go.
enum Lab {
    Private(PrivateLab),
    Up(Box<State>),
}

/// What is to be started.
struct Job<'a> {
    mpi: &'a Mpi,
    /// The environment that chooses the transport.
    settings: &'a Settings,
    /// Hosts with the ranks that each takes.
    places: &'a [(String, usize)],
    ranks: usize,
    program: &'a [OsString],
}

/// Runs `emp lab mpirun`.
pub fn run(args: MpirunArgs) -> anyhow::Result<()> {
    let mpi = mpi::choose(args.mpi)?;
    let settings = settings(&mpi, args.over, &args.interfaces)?;
    if let Some(warning) = args.program.first().and_then(|program| mpi::mismatch(&mpi, program)) {
        eprintln!("emp: {warning}");
    }
    let lab = Lab::find_or_make(args.name)?;
    match &lab {
        Lab::Private(lab) if args.empd => lab.start_services()?,
        Lab::Up(state) if args.empd => {
            let State { name, .. } = &**state;
            bail_user!("lab {name} is up: `emp lab up --empd` starts the service in one that stays")
        }
        _ => {}
    }
    let hosts = lab.hosts();
    check_interfaces(&args.interfaces, &hosts)?;
    let names: Vec<&str> = hosts.iter().map(Host::name).collect();
    let places = spread(args.n, args.ppn, &names)?;
    let job = Job {
        mpi: &mpi,
        settings: &settings,
        places: &places,
        ranks: args.n,
        program: &args.program,
    };
    let first = hosts.first().context("a lab without hosts")?;
    prepare_to_launch()?;
    let status = launch(first, &job)?;
    if !status.success() && args.over == Transport::Emp {
        tell_refusal(&hosts, &job);
    }
    drop(lab);
    interrupt::undivided(|| ());
    if status.success() { Ok(()) } else { Err(PassThrough(status).into()) }
}

/// The environment for a transport, or why there is none.
fn settings(mpi: &Mpi, over: Transport, interfaces: &[String]) -> anyhow::Result<Settings> {
    if over != Transport::Emp && !interfaces.is_empty() {
        bail_user!("--interfaces is for EMP; {} chooses its own", over.name(mpi));
    }
    if !over.is_there(mpi) {
        bail_user!("{} has no {}", mpi.name(), over.name(mpi));
    }
    let provider = match over {
        Transport::Emp => mpi::provider_directory()?,
        _ => PathBuf::new(),
    };
    Ok(Settings::on(mpi, over, &provider, interfaces).handing_on(mpi, mpi::names_set()))
}

/// Each is one of some host, and there are no more than a node uses.
fn check_interfaces(interfaces: &[String], hosts: &[Host<'_>]) -> anyhow::Result<()> {
    if interfaces.len() > INTERFACES_MAX {
        bail_user!(
            "EMP uses at most {INTERFACES_MAX} interfaces together; --interfaces has {}",
            interfaces.len()
        );
    }
    for name in interfaces {
        if !hosts.iter().any(|host| host.interfaces().iter().any(|one| one.name == *name)) {
            bail_user!("no host of this lab has an interface {name}; `emp lab status` shows them");
        }
    }
    Ok(())
}

impl Lab {
    fn find_or_make(name: Option<String>) -> anyhow::Result<Self> {
        let asked = name.is_some() || std::env::var_os(NAME_VARIABLE).is_some();
        let name = state::chosen_name(name)?;
        join_kept(&name)?;
        match State::load(&name)? {
            Some(state) => {
                refuse_if_not_ours(&name)?;
                Ok(Self::Up(Box::new(state)))
            }
            None if asked => {
                bail_user!(
                    "lab {name} is not up; `emp lab up{}` makes it",
                    state::name_option(&name)
                )
            }
            None => Ok(Self::Private(PrivateLab::create(Plan::new(2, Topology::Link, MTU)?)?)),
        }
    }

    fn hosts(&self) -> Vec<Host<'_>> {
        match self {
            Self::Private(lab) => lab.hosts().collect(),
            Self::Up(state) => {
                let names = state.plan.hosts.iter().map(|host| host.name.as_str());
                names.filter_map(|name| Host::find(state, name).ok()).collect()
            }
        }
    }
}

/// How many ranks each host takes: full hosts first, none without ranks.
fn spread(
    ranks: usize,
    each: Option<usize>,
    hosts: &[&str],
) -> anyhow::Result<Vec<(String, usize)>> {
    if ranks == 0 {
        bail_user!("0 ranks are nothing to start; choose 1 or more");
    }
    let each = each.unwrap_or_else(|| ranks.div_ceil(hosts.len().max(1)));
    if each.saturating_mul(hosts.len()) < ranks {
        bail_user!("{ranks} ranks do not fit on {} hosts with {each} each", hosts.len());
    }
    let mut left = ranks;
    let mut places = Vec::new();
    for host in hosts {
        let here = left.min(each);
        if here > 0 {
            places.push(((*host).to_owned(), here));
        }
        left -= here;
    }
    Ok(places)
}

/// Starts the launcher inside a host and waits until all that came of it has ended.
fn launch(first: &Host<'_>, job: &Job<'_>) -> anyhow::Result<ExitStatus> {
    let shell = RemoteShell::new()?;
    let mut command = first.command(&job.mpi.launcher)?;
    prepare(&mut command, job, &shell.path);
    // Known to whoever handles signals before there is anything to end.
    let child = interrupt::undivided(|| command.spawn());
    let mut child = child.map_err(|error| {
        user_error(format!("cannot run {}: {error}", job.mpi.launcher.display()))
    })?;
    let status = child.wait()?;
    offspring::end_all(PATIENCE);
    Ok(status)
}

/// Says it if EMP is the reason why a run failed: where a host's libfabric does not offer it, for a wrong `FI_EMP_…` perhaps,
/// Open MPI says only that it has no components.
fn tell_refusal(hosts: &[Host<'_>], job: &Job<'_>) {
    let (Some(library), Ok(program)) = (&job.mpi.libfabric, std::env::current_exe()) else {
        return;
    };
    let used = hosts.iter().filter(|host| job.places.iter().any(|(name, _)| name == host.name()));
    let refusal = used.filter_map(|host| {
        let reason = mpi::refusal(host.command(&program).ok()?, library, &job.settings.variables)?;
        Some((host.name(), reason))
    });
    if let Some((host, reason)) = { refusal }.next() {
        eprintln!("emp: libfabric does not offer EMP on {host}: {reason}");
    }
}

/// What came of a run whose output was kept.
pub struct Capture {
    /// Whether it ended well, in time.
    pub ended_well: bool,
    /// What it printed.
    pub printed: String,
    /// What it complained about.
    pub complained: String,
}

/// A program to run, and with what.
pub struct Launch {
    /// The environment that chooses the transport.
    pub settings: Settings,
    /// The program and its arguments.
    pub program: Vec<OsString>,
    /// What is to steer TCP's connections; `None`: as the hosts have it.
    pub congestion: Option<String>,
}

/// Runs programs one after the other, one rank on each of a lab's first two hosts, and keeps what they print. `next`
/// gives each the outcome of the one before (the first none) and ends the work by giving nothing more to run.
pub fn capture_each(
    mpi: &Mpi,
    limit: Duration,
    mut next: impl FnMut(Option<Capture>) -> anyhow::Result<Option<Launch>>,
) -> anyhow::Result<()> {
    let lab = Lab::find_or_make(None)?;
    let hosts = lab.hosts();
    let places: Vec<(String, usize)> =
        hosts.iter().take(2).map(|host| (host.name().to_owned(), 1)).collect();
    let first = hosts.first().context("a lab without hosts")?;
    prepare_to_launch()?;
    let steering = Steering::of(hosts.iter().take(2));
    let mut before = None;
    while let Some(Launch { settings, program, congestion }) = next(before.take())? {
        steering.choose(congestion.as_deref()).context("choosing what steers TCP")?;
        let job = Job {
            mpi,
            settings: &settings,
            places: &places,
            ranks: places.len(),
            program: &program,
        };
        before = Some(capture(first, &job, limit)?);
    }
    Ok(())
}

fn capture(first: &Host<'_>, job: &Job<'_>, limit: Duration) -> anyhow::Result<Capture> {
    let shell = RemoteShell::new()?;
    let mut command = first.command(&job.mpi.launcher)?;
    prepare(&mut command, job, &shell.path);
    // Files and not pipes: nothing has to be read while it runs, and nobody who outlives it can keep us waiting.
    let (mut printed, mut complained) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(printed.try_clone()?).stderr(complained.try_clone()?);
    let mut child = interrupt::undivided(|| command.spawn())?;
    let start = Instant::now();
    let status = loop {
        match child.try_wait()? {
            None if start.elapsed() < limit => sleep(Duration::from_millis(20)),
            ended => break ended,
        }
    };
    if status.is_none() {
        offspring::children().into_iter().for_each(|launcher| offspring::send(launcher, SIGTERM));
    }
    offspring::end_all(PATIENCE);
    let read = |file: &mut File| -> anyhow::Result<String> {
        let mut bytes = Vec::new();
        file.rewind()?;
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    Ok(Capture {
        ended_well: status.is_some_and(|status| status.success()),
        printed: read(&mut printed)?,
        complained: read(&mut complained)?,
    })
}

/// Prepares this process for launching: what is launched is found and ended to the last process, even by a signal.
fn prepare_to_launch() -> anyhow::Result<()> {
    offspring::adopt_orphans()?;
    interrupt::before_end(stop)
}

/// Ends launchers and all that came of them.
fn stop(signal: i32) {
    if signal != SIGTERM {
        offspring::wait_for_all(HEARSAY);
    }
    offspring::children().into_iter().for_each(|launcher| offspring::send(launcher, SIGTERM));
    offspring::end_all(PATIENCE);
}

/// The launcher's command line and environment.
fn prepare(command: &mut Command, job: &Job<'_>, shell: &Path) {
    let list = |separator: &str| -> String {
        let entries = job.places.iter().map(|(host, ranks)| format!("{host}{separator}{ranks}"));
        entries.collect::<Vec<_>>().join(",")
    };
    let ranks = job.ranks.to_string();
    command.envs(job.settings.variables.iter().map(|(name, value)| (name, value)));
    match job.mpi.family {
        Family::OpenMpi => {
            // It counts the cores of this machine once a host; ranks bound by that would share one.
            command.args([
                "--bind-to",
                "none",
                "--map-by",
                "slot",
                "--host",
                &list(":"),
                "-np",
                &ranks,
            ]);
            let agent = match job.mpi.major() {
                0..5 => ["--mca", "plm_rsh_agent"],
                _ => ["--prtemca", "plm_ssh_agent"],
            };
            command.args(agent).arg(shell);
            if process::effective_ids().0 == 0 {
                command
                    .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                    .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
                command
                    .env("PRTE_ALLOW_RUN_AS_ROOT", "1")
                    .env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            }
        }
        Family::Mpich => {
            command.args(["-launcher", "ssh", "-launcher-exec"]).arg(shell);
            command.args(["-hosts", &list(":"), "-n", &ranks]);
        }
        Family::Intel => {
            let each = job.places.first().map_or(1, |(_, ranks)| *ranks).to_string();
            let hosts: Vec<&str> = job.places.iter().map(|(host, _)| host.as_str()).collect();
            command.args(["-bootstrap", "ssh", "-bootstrap-exec"]).arg(shell);
            command.args(["-hosts", &hosts.join(","), "-ppn", &each, "-n", &ranks]);
            command.env("I_MPI_PIN", "0");
        }
    }
    command.args(job.program);
}

/// A script that is `emp lab rsh`: launchers want the path of one program.
struct RemoteShell {
    path: PathBuf,
    _directory: Scratch,
}

impl RemoteShell {
    fn new() -> anyhow::Result<Self> {
        let directory = Scratch::new("emp-rsh-")?;
        let path = directory.path().join("emp-rsh");
        let program = std::env::current_exe().context("finding this program")?;
        let quoted =
            program.as_os_str().as_bytes().split(|byte| *byte == b'\'').collect::<Vec<_>>();
        let mut script = b"#!/bin/sh\nexec '".to_vec();
        script.extend(quoted.join(&br"'\''"[..]));
        script.extend(b"' lab rsh \"$@\"\n");
        fs::write(&path, script).with_context(|| path.display().to_string())?;
        fs::set_permissions(&path, Permissions::from_mode(0o755))?;
        Ok(Self { path, _directory: directory })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_fill_hosts_in_order() {
        let places = |ranks, each| {
            let places = spread(ranks, each, &["a", "b", "c"]).unwrap();
            places
                .iter()
                .map(|(host, ranks)| format!("{host}:{ranks}"))
                .collect::<Vec<_>>()
                .join(",")
        };
        assert_eq!(places(3, None), "a:1,b:1,c:1");
        assert_eq!(places(4, None), "a:2,b:2");
        assert_eq!(places(5, Some(2)), "a:2,b:2,c:1");
        assert_eq!(places(1, Some(8)), "a:1");
        for (ranks, each) in [(0, None), (7, Some(2)), (1, Some(0))] {
            assert!(spread(ranks, each, &["a", "b", "c"]).is_err(), "{ranks} {each:?}");
        }
    }

    #[test]
    fn launchers_get_their_own_words() {
        let job = |family, version: &str| {
            let mpi = Mpi::example(family, version);
            let settings = Settings::new(&mpi, Transport::Emp, Path::new("/p"));
            let places = [("emp-a".to_owned(), 2), ("emp-b".to_owned(), 1)];
            let program = ["prog".into(), "-x".into()];
            let job = Job {
                mpi: &mpi,
                settings: &settings,
                places: &places,
                ranks: 3,
                program: &program,
            };
            let mut command = Command::new("launcher");
            prepare(&mut command, &job, Path::new("/shell"));
            let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
            words.join(" ")
        };
        assert_eq!(
            job(Family::Mpich, "5.0.2"),
            "-launcher ssh -launcher-exec /shell -hosts emp-a:2,emp-b:1 -n 3 prog -x"
        );
        let open = job(Family::OpenMpi, "4.1.4");
        assert!(open.contains("--host emp-a:2,emp-b:1 -np 3 --mca plm_rsh_agent /shell prog -x"));
        assert!(job(Family::OpenMpi, "5.0.11").contains("--prtemca plm_ssh_agent /shell"));
        assert!(job(Family::Intel, "2021.16").contains("-hosts emp-a,emp-b -ppn 2 -n 3 prog -x"));
    }
}
