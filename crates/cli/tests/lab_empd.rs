//! The service on the hosts of a lab, and programs without privilege that use it.

mod lab_support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lab_support::{Need, emp, mistake, run, skip, stderr, succeed};

/// Far beyond what starting takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a program without any privilege.
const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// A lab with services, and copies of the programs that everyone may run.
struct Lab {
    name: String,
    place: tempfile::TempDir,
}

impl Lab {
    fn up(name: &str) -> Self {
        let place = tempfile::tempdir().expect("a directory");
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).expect("ours");
        let built = Path::new(env!("CARGO_BIN_EXE_emp"));
        assert!(
            built.with_file_name("empd").exists(),
            "empd was not built: cargo build -p emp-empd"
        );
        for program in ["emp", "empd"] {
            fs::copy(built.with_file_name(program), place.path().join(program)).expect("copied");
        }
        let name = format!("{name}{}", std::process::id());
        succeed(&mut emp(&["lab", "up", "--empd", "--name", &name]));
        Self { name, place }
    }

    fn program(&self) -> PathBuf {
        self.place.path().join("emp")
    }

    /// `emp` with these arguments on a host, as nobody.
    fn nobody(&self, host: &str, arguments: &[&str]) -> Command {
        let mut command = emp(&["lab", "exec", "--name", &self.name, host, "--"]);
        command.args(NOBODY).arg(self.program()).args(arguments);
        command
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        run(&["lab", "down", "--name", &self.name]);
    }
}

struct Listener(Child);

impl Drop for Listener {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As an ordinary user: raw frames by a lent socket and by the service, verified; and doctor says what there is.
#[test]
fn nobody_has_raw_frames() {
    // SAFETY: takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip(Need::Root, "labs whose users have no privilege are root's");
        return;
    }
    let lab = Lab::up("empd");
    let listening = lab
        .nobody("emp-b", &["bench", "listen", "--quiet"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let _listener = Listener(listening.expect("it starts"));
    for link in ["lent", "empd"] {
        let arguments = ["bench", "verify", "emp-b", "--link", link, "--seconds", "1"];
        let start = Instant::now();
        loop {
            let output = lab.nobody("emp-a", &arguments).output().expect("it runs");
            if output.status.success() {
                break;
            }
            // The listener takes its time.
            assert!(start.elapsed() < PATIENCE, "{link}: {}", stderr(&output));
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    wrong_places(&lab);
    few_descriptors(&lab);
    let said = succeed(&mut lab.nobody("emp-a", &["doctor"]));
    assert!(said.contains("empd lends a packet socket on it"), "{said}");
    assert!(said.contains("lends this user raw sockets"), "{said}");
}

/// Where there is no service, or something else, a link of it that was named is refused in one line, and a link that was not is the next rung's.
fn wrong_places(lab: &Lab) {
    let other = lab.place.path().join("other");
    let _other = UnixListener::bind(&other).expect("it listens");
    fs::set_permissions(&other, fs::Permissions::from_mode(0o666)).expect("ours");
    let file = lab.program();
    let missing = lab.place.path().join("missing");
    let at = |place: &Path, arguments: &[&str]| {
        let mut command = emp(&["lab", "exec", "--name", &lab.name, "emp-a", "--"]);
        command.args(NOBODY).arg("env").arg(format!("EMP_SERVICE={}", place.display()));
        command.arg(lab.program()).args(arguments);
        command
    };
    for place in [&missing, &file, &other] {
        for link in ["lent", "empd"] {
            let said = mistake(&mut at(place, &["bench", "verify", "emp-b", "--link", link]));
            assert!(said.contains(&place.display().to_string()), "{link}: {said}");
        }
        for seam in [&[][..], &["--engine"]] {
            let asked = [&["bench", "board", "--interface", "emp0"], seam].concat();
            let said = mistake(&mut at(place, &asked));
            assert!(said.contains(&place.display().to_string()), "{said}");
        }
        let asked = ["bench", "verify", "emp-b", "--board", "daemon"];
        let said = mistake(&mut at(place, &asked));
        assert!(said.contains(&place.display().to_string()), "{said}");
        succeed(&mut at(place, &["bench", "verify", "emp-b", "--seconds", "0.3"]));
    }
}

/// With as few descriptors as a program can start with, and more, it says what it lacks or does its work.
fn few_descriptors(lab: &Lab) {
    let program = lab.program();
    for most in 4..16 {
        let script = format!(
            "ulimit -n {most}; exec {} bench board --interface emp0 --rounds 64",
            program.display()
        );
        let mut command = emp(&["lab", "exec", "--name", &lab.name, "emp-a", "--"]);
        let output = command.args(NOBODY).args(["sh", "-c", &script]).output().expect("it runs");
        let said = stderr(&output);
        match output.status.code() {
            Some(0) => return,
            Some(2) => assert_eq!(said.trim_end().lines().count(), 1, "{most}: {said}"),
            _ => panic!("{most} descriptors: {:?}, {said}", output.status),
        }
    }
    panic!("16 descriptors are enough");
}

/// With no room at all in `/dev/shm`.
const FULL: &str = "mount -t tmpfs -o size=4k,mode=1777 none /dev/shm && \
    ! dd if=/dev/zero of=/dev/shm/all bs=4k count=2 2>/dev/null && \
    exec \"$1\" bench verify --lab --link \"$2\" --seconds 0.3";

#[test]
fn a_full_dev_shm_keeps_nobody_from_speaking() {
    // SAFETY: takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip(Need::Root, "it mounts a file system");
        return;
    }
    for link in ["empd", "auto"] {
        let mut script = Command::new("unshare");
        script.args(["--mount", "sh", "-c", FULL, "sh", env!("CARGO_BIN_EXE_emp"), link]);
        succeed(script.env_remove("EMP_LAB"));
    }
}

/// `--link lent` in a lab of its own.
#[test]
fn a_private_lab_has_the_service_that_a_link_needs() {
    // SAFETY: takes no arguments and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        skip(Need::Root, "the service opens packet sockets");
        return;
    }
    let arguments = ["bench", "verify", "--lab", "--link", "lent", "--seconds", "1"];
    let output = run(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
}
