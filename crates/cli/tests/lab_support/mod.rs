//! What the lab's tests share: running the real `emp`, and looking at what it leaves.
#![allow(dead_code, reason = "each test file uses a part")]

use std::path::Path;
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use emp_testing::{Need, skip};

/// Long enough for a loaded machine; only a failing test waits this long.
const PATIENCE: Duration = Duration::from_secs(20);

/// The program under test, not confused by the tester's own lab.
pub fn emp(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_emp"));
    command.args(arguments).env_remove("EMP_LAB");
    command
}

/// The program under test, to be interrupted. Whoever runs the tests in the background of a script has SIGINT ignored, and
/// `emp` leaves ignored what it finds ignored.
pub fn interruptible(arguments: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,TERM").arg(env!("CARGO_BIN_EXE_emp"));
    command.args(arguments).env_remove("EMP_LAB");
    command
}

/// Where the provider is that was built with these tests.
pub fn provider_directory() -> std::path::PathBuf {
    Path::new(env!("CARGO_BIN_EXE_emp")).with_file_name("deps")
}

/// Runs it to its end.
pub fn run(arguments: &[&str]) -> Output {
    emp(arguments).output().unwrap()
}

/// Runs it, wants success, gives what it printed.
pub fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// Runs it, wants exit code 2 and one line, gives the line.
pub fn mistake(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{command:?}: {said}");
    assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    assert!(said.starts_with("emp: "), "{said}");
    said
}

/// What a program complained about.
pub fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A lab name no other test or test run has.
pub fn unique(letter: char) -> String {
    format!("t{letter}{}", std::process::id())
}

/// Removes the lab of this name, should the test fail before it does.
pub struct Cleanup<'name>(pub &'name str);

impl Drop for Cleanup<'_> {
    fn drop(&mut self) {
        if is_recorded(self.0) {
            run(&["lab", "down", "--name", self.0]);
        }
    }
}

/// Gives false, loudly, where the tester has no privilege.
pub fn is_root() -> bool {
    let able = Command::new("unshare").args(["--net", "--mount", "true"]).output();
    let able = able.is_ok_and(|output| output.status.success());
    if !able {
        skip(Need::Root, "this needs CAP_SYS_ADMIN and CAP_NET_ADMIN");
    }
    able
}

/// The network namespaces of a lab that exist by name.
pub fn namespaces(lab: &str) -> Vec<String> {
    let prefix = format!("emp-{lab}-");
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return Vec::new() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(&prefix)).collect()
}

/// Whether the lab's record is there.
pub fn is_recorded(lab: &str) -> bool {
    Path::new(&format!("/run/emp/lab-{lab}.json")).exists()
}

/// Waits until something holds.
pub fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < PATIENCE, "{what}");
        sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to a process we started.
pub fn signal(child: &Child, name: &str) {
    let script = format!("kill -{name} {}", child.id());
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
}

/// Processes whose command line holds `mark`.
pub fn processes_with(mark: &str) -> usize {
    command_lines().filter(|line| line.contains(mark)).count()
}

/// Whether `sleep MARK` runs: not its parent, nor a child that is still a copy of that.
pub fn sleeps(mark: &str) -> bool {
    command_lines().any(|line| line == format!("sleep\0{mark}\0"))
}

fn command_lines() -> impl Iterator<Item = String> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned())
}

/// All processes.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The process that started it.
pub fn parent_of(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
