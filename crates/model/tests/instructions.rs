//! What a message costs the firmware, in instructions: sender and receiver together, in virtual time, so that the same
//! happens in every run. Another process runs the exchange and is stepped through it one instruction at a time.
//!
//! The committed figures are for x86-64. Copies and checksums take other instructions on other processors of that kind:
//! hence the margin. Who makes a path longer by more than that finds out here; who makes it shorter lowers the figure.

#[path = "../../firmware/examples/exchange/mod.rs"]
mod exchange;

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitCode};

use exchange::Pair;

/// Instructions of a message of so many bytes, without optimisation across crates (`cargo test`) and with
/// (`cargo test --release`).
const COMMITTED: [(u64, [u64; 2]); 2] = [(32, [4_985, 2_685]), (1_400, [7_596, 4_048])];

/// How far a figure may be off, in percent: other processors, other compilers.
const MARGIN_PERCENT: u64 = 25;

/// What tells the stepped process what to do: bytes of a message, and rounds.
const TASK: &str = "EMP_INSTRUCTIONS_TASK";

/// Rounds before any is counted: discovery is over, queues and tables have their memory.
const WARM_UP: u64 = 200;

/// Rounds in the two runs whose difference counts, so that what stopping costs falls out.
const ROUNDS: [u64; 2] = [1, 9];

fn main() -> ExitCode {
    if let Ok(task) = std::env::var(TASK) {
        be_stepped(&task);
        return ExitCode::SUCCESS;
    }
    // As the usual harness does: only what was asked for, and a list is not a run.
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = |word: &String| word.starts_with('-') || "instructions".contains(word.as_str());
    if words.iter().any(|word| word == "--list") || !words.iter().all(asked) {
        return ExitCode::SUCCESS;
    }
    let mut worst = ExitCode::SUCCESS;
    for (bytes, figures) in COMMITTED {
        let committed = figures[usize::from(!cfg!(debug_assertions))];
        let counts = match ROUNDS.map(|rounds| count(bytes, rounds)) {
            [Ok(few), Ok(many)] => many - few,
            [Err(error), _] | [_, Err(error)] => {
                println!("skipped: this process may not trace another: {error}");
                return ExitCode::SUCCESS;
            }
        };
        let each = counts / (ROUNDS[1] - ROUNDS[0]) / 2;
        let off = each.abs_diff(committed) * 100 / committed;
        println!(
            "{bytes} bytes: {each} instructions a message, {committed} committed, {off} % off"
        );
        if cfg!(target_arch = "x86_64") && off > MARGIN_PERCENT {
            println!(
                "more than {MARGIN_PERCENT} %: if that is as it should be, commit the new figure"
            );
            worst = ExitCode::FAILURE;
        }
    }
    worst
}

/// The stepped process: stops itself before and after what is to be counted.
fn be_stepped(task: &str) {
    let numbers: Vec<u64> = task.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [bytes, rounds] = numbers[..] else { panic!("`{task}` is not two numbers") };
    let mut pair = Pair::new();
    (0..WARM_UP).for_each(|_| pair.exchange(bytes));
    stop();
    (0..rounds).for_each(|_| pair.exchange(bytes));
    stop();
}

fn stop() {
    // SAFETY: a signal to this thread, which stops until its tracer lets it go on.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Instructions that the stepped process executes between its two stops.
fn count(bytes: u64, rounds: u64) -> io::Result<u64> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(TASK, format!("{bytes} {rounds}"));
    // SAFETY: between fork and exec only a system call is made.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let stepped = Stepped(command.spawn()?);
    stepped.expect(libc::SIGTRAP, "its exec")?;
    stepped.go_on(libc::PTRACE_CONT)?;
    stepped.expect(libc::SIGSTOP, "its begin")?;
    let mut count = 0;
    loop {
        stepped.go_on(libc::PTRACE_SINGLESTEP)?;
        match stepped.wait()? {
            libc::SIGTRAP => count += 1,
            libc::SIGSTOP => return Ok(count),
            other => return Err(io::Error::other(format!("it stopped for signal {other}"))),
        }
    }
}

/// A traced process that is stopped; it ends with this value.
struct Stepped(Child);

impl Stepped {
    fn id(&self) -> libc::pid_t {
        self.0.id() as libc::pid_t
    }

    fn go_on(&self, request: libc::c_uint) -> io::Result<()> {
        // SAFETY: resumes a stopped child of ours; no memory of this process is named.
        match unsafe { libc::ptrace(request, self.id(), 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Waits until it stops; the signal that it stopped for.
    fn wait(&self) -> io::Result<libc::c_int> {
        let mut status = 0;
        // SAFETY: the pointer is to a live integer; the child is ours.
        if unsafe { libc::waitpid(self.id(), &raw mut status, 0) } < 0 {
            return Err(io::Error::last_os_error());
        }
        if libc::WIFSTOPPED(status) {
            Ok(libc::WSTOPSIG(status))
        } else {
            Err(io::Error::other(format!("it ended with status {status:#x}")))
        }
    }

    fn expect(&self, signal: libc::c_int, what: &str) -> io::Result<()> {
        match self.wait()? {
            got if got == signal => Ok(()),
            got => Err(io::Error::other(format!("{what} was to stop it, and signal {got} did"))),
        }
    }
}

impl Drop for Stepped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
