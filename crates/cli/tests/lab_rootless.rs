//! `emp lab` for an ordinary user: everything inside a user namespace of its own.
//!
//! Run by root, the tests become user 65534 with `setpriv`; run by anyone else, they stay who they
//! are. Where the kernel forbids user namespaces they are skipped.

mod lab_support;

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use lab_support::{
    Need, mistake, processes_with, signal, skip, sleeps, succeed, unique, wait_until,
};
use tempfile::TempDir;

/// An ordinary user with a copy of `emp` they may run and a runtime directory of their own.
struct User {
    home: TempDir,
    becomes: &'static [&'static str],
}

impl User {
    fn new() -> Option<Self> {
        let home = tempfile::tempdir().unwrap();
        let root = is_root();
        let becomes: &[&str] = match root {
            true => &["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"],
            false => &["env"],
        };
        let user = Self { home, becomes };
        let open = |mode| Permissions::from_mode(mode);
        fs::set_permissions(user.home.path(), open(0o755)).unwrap();
        fs::copy(env!("CARGO_BIN_EXE_emp"), user.program()).unwrap();
        fs::set_permissions(user.program(), open(0o755)).unwrap();
        fs::create_dir(user.home.path().join("run")).unwrap();
        fs::set_permissions(user.home.path().join("run"), open(0o777)).unwrap();
        let allowed = user.command("unshare").args(["-Urnm", "true"]).output();
        match allowed {
            Ok(output) if output.status.success() => Some(user),
            other => {
                skip(
                    Need::Root,
                    &format!("no user namespace for an ordinary user here: {other:?}"),
                );
                None
            }
        }
    }

    fn program(&self) -> PathBuf {
        self.home.path().join("emp")
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(self.becomes[0]);
        command.args(&self.becomes[1..]).arg(program);
        command.env("XDG_RUNTIME_DIR", self.home.path().join("run"));
        command.env_remove("EMP_LAB").current_dir("/");
        command
    }

    fn emp(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(self.program());
        command.args(arguments);
        command
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

#[test]
fn a_private_lab_needs_no_root() {
    let Some(user) = User::new() else { return };
    let script = "uname -n; getent ahostsv4 emp-c | head -1; ls /sys/class/net | tr '\\n' ' '";
    for topology in ["switch", "ring", "mesh"] {
        let run = ["lab", "run", "--hosts", "4", "--topology", topology, "--", "sh", "-c", script];
        let said = succeed(&mut user.emp(&run));
        let lines: Vec<_> = said.lines().collect();
        assert_eq!(lines[0], "emp-a");
        assert!(lines[1].starts_with("10.77.0.3 "), "{said}");
        assert!(lines[2].starts_with("emp0 "), "{said}");
    }
    let code = user.emp(&["lab", "run", "--", "sh", "-c", "exit 5"]).status().unwrap();
    assert_eq!(code.code(), Some(5));
}

#[test]
fn killing_a_private_lab_leaves_no_process() {
    let Some(user) = User::new() else { return };
    let mark = format!("87654{}", std::process::id());
    for name_of_signal in ["TERM", "KILL"] {
        let mut child = user.emp(&["lab", "run", "sleep", &mark]).spawn().unwrap();
        wait_until("the sleeper sleeps", || sleeps(&mark));
        signal(&child, name_of_signal);
        assert!(!child.wait().unwrap().success());
        wait_until("the sleeper is gone", || processes_with(&mark) == 0);
    }
}

#[test]
fn a_lab_stays_up_without_root() {
    let Some(user) = User::new() else { return };
    let name = unique('r');
    let up = ["lab", "up", "--hosts", "3", "--topology", "ring", "--name", &name];
    succeed(&mut user.emp(&up));
    assert!(mistake(&mut user.emp(&up)).contains("is up already"));
    let keeper = format!("keep\0{name}");
    assert_eq!(processes_with(&keeper), 1);

    let exec = ["lab", "exec", "--name", &name, "10.77.0.3", "--", "sh", "-c", "uname -n; pwd"];
    assert_eq!(succeed(&mut user.emp(&exec)), "emp-c\n/\n");
    let program = user.program();
    let nested = ["lab", "exec", "--name", &name, "emp-a", program.to_str().unwrap()];
    let inside = succeed(user.emp(&nested).args(["lab", "exec", "emp-b", "uname", "-n"]));
    assert_eq!(inside, "emp-b\n");

    let status = succeed(&mut user.emp(&["lab", "status", "--json"]));
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status[0]["name"], *name);
    assert_eq!(status[0]["hosts"][2]["interfaces"][1]["state"], "up");
    assert!(succeed(&mut user.emp(&["lab", "status"])).contains("emp-c"));

    let mark = format!("65432{}", std::process::id());
    let sleeper = ["lab", "exec", "--name", &name, "emp-b", "--", "sleep", &mark];
    let mut sleeper = user.emp(&sleeper).spawn().unwrap();
    wait_until("the sleeper sleeps", || sleeps(&mark));
    let down = ["lab", "down", "--name", &name];
    let said = succeed(&mut user.emp(&down));
    // The sleeper, and a relay on each host.
    assert!(said.contains("is removed; 4 processes that ran inside were ended"), "{said}");
    assert!(!sleeper.wait().unwrap().success());
    wait_until("the keeper is gone", || processes_with(&keeper) == 0);
    assert!(succeed(&mut user.emp(&down)).contains("nothing to remove"));
    assert!(mistake(&mut user.emp(&exec)).contains("is not up"));
    assert!(succeed(&mut user.emp(&["lab", "status"])).contains("no lab is up"));
}

#[test]
fn a_lab_whose_keeper_was_killed_is_forgotten() {
    let Some(user) = User::new() else { return };
    let name = unique('s');
    succeed(&mut user.emp(&["lab", "up", "--name", &name]));
    let record = user.home.path().join(format!("run/emp/lab-{name}.json"));
    let record: serde_json::Value = serde_json::from_slice(&fs::read(record).unwrap()).unwrap();
    let kill = format!("kill -KILL {}", record["keeper"]["pid"]);
    succeed(Command::new("sh").args(["-c", &kill]));
    wait_until("the keeper is gone", || processes_with(&format!("keep\0{name}")) == 0);
    assert!(succeed(&mut user.emp(&["lab", "status"])).contains("stale"));
    // The kernel takes the command line away first and may take its time with the rest.
    let down = ["lab", "down", "--stale"];
    wait_until("the lab is forgotten", || succeed(&mut user.emp(&down)).contains(&name));
    assert!(succeed(&mut user.emp(&["lab", "status"])).contains("no lab is up"));
}
