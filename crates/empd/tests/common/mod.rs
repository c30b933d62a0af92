//! A service for the tests: the program itself, started on a host of a lab.
#![allow(dead_code, reason = "each test uses its part")]

pub mod child;
pub mod lent;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use emp_testing::lab::Lab;

/// Far beyond what anything here takes on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A user without any privilege, and its group.
pub const NOBODY: u32 = 65_534;

/// A running service, which is killed with this value.
pub struct Service {
    child: Child,
    place: tempfile::TempDir,
}

impl Service {
    /// Starts one on a host of the lab with this configuration, and waits until it listens.
    pub fn start(lab: &Lab, side: usize, configuration: &str) -> Self {
        Self::start_at(lab, side, configuration, place())
    }

    /// The same in a directory.
    pub fn start_at(lab: &Lab, side: usize, configuration: &str, place: tempfile::TempDir) -> Self {
        fs::write(place.path().join("empd.toml"), configuration).expect("it is written");
        let log = fs::File::create(place.path().join("log"));
        let child = Command::new("ip")
            .args(["netns", "exec", lab.name(side), env!("CARGO_BIN_EXE_empd"), "--config"])
            .arg(place.path().join("empd.toml"))
            .arg("--socket")
            .arg(place.path().join("socket"))
            .stderr(log.expect("it is written"))
            .spawn()
            .expect("ip is installed");
        let service = Self { child, place };
        // It says so once it has given up its privileges and takes connections.
        until("the service listens", || {
            service.log().lines().any(|line| line.contains("listens at"))
        });
        service
    }

    pub fn socket(&self) -> PathBuf {
        self.place.path().join("socket")
    }

    /// What it has said.
    pub fn log(&self) -> String {
        fs::read_to_string(self.place.path().join("log")).unwrap_or_default()
    }

    pub fn is_up(&mut self) -> bool {
        self.child.try_wait().expect("it can be asked").is_none()
    }

    pub fn process(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to end.
    pub fn end(mut self) -> (io::Result<std::process::ExitStatus>, tempfile::TempDir) {
        signal(self.child.id(), libc::SIGTERM);
        let status = self.child.wait();
        let place = std::mem::replace(&mut self.place, place());
        (status, place)
    }

    /// Kills it; its directory stays for another.
    pub fn kill(mut self) -> tempfile::TempDir {
        let _ = self.child.kill();
        let _ = self.child.wait();
        std::mem::replace(&mut self.place, place())
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service that takes another's place, killed with this value.
pub struct Successor {
    child: Child,
    log: PathBuf,
}

impl Successor {
    /// Starts it on the same host with the same configuration.
    pub fn start(lab: &Lab, service: &Service) -> Self {
        let path = service.socket();
        let place = path.parent().expect("it is in a directory");
        let log = place.join("log-of-the-next");
        let child = Command::new("ip")
            .args([
                "netns",
                "exec",
                lab.name(0),
                env!("CARGO_BIN_EXE_empd"),
                "--replace",
                "--config",
            ])
            .arg(place.join("empd.toml"))
            .arg("--socket")
            .arg(&path)
            .stderr(fs::File::create(&log).expect("it is written"))
            .spawn()
            .expect("ip is installed");
        Self { child, log }
    }

    /// It has said so.
    pub fn listens(&self) -> bool {
        fs::read_to_string(&self.log).unwrap_or_default().contains("listens at")
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn signal(process: u32, signal: libc::c_int) {
    // SAFETY: no pointers; the process is a child of this one that was not waited for.
    unsafe { libc::kill(process as libc::pid_t, signal) };
}

/// A directory that everyone may look into.
pub fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().expect("a directory");
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(place.path(), open).expect("it is ours");
    place
}

/// Waits until something holds.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}: not in {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Takes all privilege from the calling thread alone: another user and group, no others, no capabilities.
pub fn become_nobody() {
    // SAFETY: no pointers but an empty list. The system calls themselves concern the calling thread; the C library's functions of these names
    // would have all threads do it.
    unsafe {
        assert_eq!(libc::syscall(libc::SYS_setgroups, 0, std::ptr::null::<libc::gid_t>()), 0);
        assert_eq!(libc::syscall(libc::SYS_setresgid, NOBODY, NOBODY, NOBODY), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
        // As if it had been executed as that user.
        assert_eq!(libc::prctl(libc::PR_SET_DUMPABLE, 1), 0);
    }
}

/// Starts a service that can't be, and gives what came of it.
pub fn fails(arguments: &[&str]) -> Output {
    let child = Command::new(env!("CARGO_BIN_EXE_empd"))
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it was built");
    child.wait_with_output().expect("it ends")
}

/// The group of [`NOBODY`] on this machine.
pub fn nobodys_group() -> &'static str {
    "group:65534"
}

/// For messages.
pub fn shown(path: &Path) -> String {
    path.display().to_string()
}
