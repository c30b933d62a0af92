//! The library held to VIPL by a C program (`tests/vipl`): alone, between two hosts, under loss, and as an
//! ordinary user.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use emp_testing::{Need, skip};

#[path = "../../mx/tests/lab/mod.rs"]
mod lab;

use lab::Lab;

/// Bounds a run that hangs; the program itself gives up earlier, and says where.
const LIMIT: Duration = Duration::from_secs(300);

/// A directory with the library that was built with this test, and the program. Readable by everyone.
fn built() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let here = std::env::current_exe().expect("this program has a path");
        let library = here.parent().expect("in a directory").join("libvipl.so");
        assert!(library.exists(), "{} was not built", library.display());
        // Ordinary users may not look into the directory of the build.
        let directory = directory();
        std::fs::create_dir_all(&directory).expect("a directory for the test");
        // SAFETY: the function stays, and does not unwind.
        unsafe { libc::atexit(remove_built) };
        std::fs::copy(library, directory.join("libvipl.so")).expect("the library copied");
        let output = Command::new(run()).arg(&directory).arg("--build").output();
        let output = output.expect("the script was started");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the program was not built: {text}");
        directory
    })
}

fn directory() -> PathBuf {
    std::env::temp_dir().join(format!("emp-vipl-{}", std::process::id()))
}

/// All tests of this program share it, so it goes with the program.
extern "C" fn remove_built() {
    let _ = std::fs::remove_dir_all(directory());
}

fn run() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vipl/run")
}

/// Where processes of one test find each other in shared memory, and nobody else.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("emp-vipl-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a place to meet");
        Self(path)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The program, with settings that no test inherits.
fn program(wrapper: &[&str], place: &Place) -> Command {
    let program = built().join("conformance");
    let program = program.to_str().expect("a path of letters");
    let all: Vec<&str> = wrapper.iter().copied().chain([program]).collect();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).env("XDG_RUNTIME_DIR", &place.0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    for name in ["EMP_LINK", "EMP_INTERFACE", "EMP_NAME", "EMP_FAULT", "EMP_PROFILE", "EMP_WAIT"] {
        command.env_remove(name);
    }
    command
}

/// Waits for the end; fails unless the program got there and no check has failed.
fn passes(mut child: Child, what: &str) {
    let start = Instant::now();
    while child.try_wait().expect("it is a child").is_none() {
        if start.elapsed() > LIMIT {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("it has ended");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("{what}:\n{text}{errors}");
    assert!(output.status.success(), "{what}: {}", output.status);
    assert!(text.contains(" 0 failed"), "{what}: the program did not get to its end");
}

/// What makes a host of its own for the program, with nothing but a loopback: endpoint ids are a machine's, and several
/// tests run at once. Only root can; others take turns.
const OWN_HOST: [&str; 6] =
    ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"];

static TURN: Mutex<()> = Mutex::new(());

fn is_root() -> bool {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn alone_under(name: &str, wrapper: &[&str], place: &Place, settings: &[(&str, &str)]) {
    let _turn = (!is_root()).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    let host = if is_root() { &OWN_HOST[..] } else { &[] };
    let mut command = program(&[host, wrapper].concat(), place);
    command.env("EMP_INTERFACE", "lo").envs(settings.iter().copied());
    passes(command.spawn().expect("the program starts"), name);
}

fn alone(name: &str, settings: &[(&str, &str)]) {
    alone_under(name, &[], &Place::new(name), settings);
}

#[test]
fn the_interface_is_kept() {
    alone("auto", &[]);
}

#[test]
fn it_is_kept_in_shared_memory() {
    alone("shm", &[("EMP_LINK", "shm")]);
}

#[test]
fn it_is_kept_by_datagrams_that_get_lost() {
    alone("loss", &[("EMP_LINK", "udp"), ("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_by_the_other_profile_asleep() {
    alone("openmx", &[("EMP_PROFILE", "openmx"), ("EMP_WAIT", "sleep")]);
}

/// Without any privilege, under a user's own identity. Root becomes nobody for that.
#[test]
fn it_is_kept_for_ordinary_users() {
    let place = Place::new("user");
    if !is_root() {
        return alone_under("user", &[], &place, &[]);
    }
    give_to_nobody(&place);
    alone_under("nobody", &NOBODY, &place, &[]);
}

const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

fn give_to_nobody(place: &Place) {
    std::os::unix::fs::chown(&place.0, Some(65534), Some(65534)).expect("root gives a directory");
}

/// No memory is used that is not there, and none is lost. But for the child of a fork, where memory of the parent's threads
/// is nobody's, and for what takes minutes so.
#[test]
fn valgrind_finds_nothing() {
    if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip(Need::Mpi, "valgrind is not installed");
    }
    let known = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/vipl/valgrind.supp");
    let known = format!("--suppressions={}", known.display());
    let wrapper = [
        "valgrind",
        &known,
        "--quiet",
        "--error-exitcode=33",
        "--leak-check=full",
        "--show-leak-kinds=definite",
        "--errors-for-leak-kinds=definite",
    ];
    let _turn = (!is_root()).then(|| TURN.lock().unwrap_or_else(PoisonError::into_inner));
    let host = if is_root() { &OWN_HOST[..] } else { &[] };
    let place = Place::new("valgrind");
    let mut command = program(&[host, &wrapper].concat(), &place);
    command.args(["layout", "nics", "tags", "memory", "vis", "vi_attributes", "names"]);
    command.args(["connecting", "requests", "agreement", "peers", "discriminators", "sizes"]);
    command.args(["segments", "immediate", "order", "queues", "cqs", "writes", "reads", "fence"]);
    command.args(["protection", "descriptors", "lengths", "no_receive", "disconnect"]);
    command.args(["deregister", "notify", "wrong_handles", "threads", "many"]);
    command.env("EMP_INTERFACE", "lo");
    passes(command.spawn().expect("valgrind is there"), "valgrind");
}

/// Two processes in two hosts; `settings` for both.
fn between_hosts(name: &str, user: bool, host: &str, settings: &[(&str, &str)]) {
    let Some(lab) = Lab::build(1500) else { return };
    let place = Place::new(name);
    if user {
        give_to_nobody(&place);
    }
    let start = |side: usize, name: &str, arguments: &[&str]| {
        let mut wrapper = vec!["ip", "netns", "exec", lab.name(side)];
        if user {
            wrapper.extend(NOBODY);
        }
        let mut command = program(&wrapper, &place);
        command
            .args(arguments)
            .env("EMP_NAME", name)
            .env("EMP_INTERFACE", "emp0")
            .envs(settings.iter().copied());
        command.spawn().expect("the program starts")
    };
    let passive = start(1, "bob", &["passive"]);
    let active = start(0, "ann", &["active", host]);
    passes(active, "active");
    passes(passive, "passive");
}

#[test]
fn it_is_kept_between_hosts() {
    between_hosts("hosts", false, "bob", &[]);
}

#[test]
fn it_is_kept_between_hosts_that_lose_frames() {
    between_hosts("losing", false, "bob", &[("EMP_FAULT", "drop:0.01")]);
}

#[test]
fn it_is_kept_between_hosts_for_ordinary_users() {
    between_hosts("users", true, "10.77.0.2", &[]);
}
