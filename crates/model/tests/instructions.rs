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

use emp_testing::{Need, skip};
use exchange::Pair;

/// Instructions of a message of so many bytes, without optimisation across crates (`cargo test`) and with
/// (`cargo test --release`). The former lie between those of an incremental build (5,826 and 8,386) and of one that is not
/// (5,300 for 32 bytes), whose units of code are others.
const COMMITTED: [(u64, [u64; 2]); 2] = [(32, [5_560, 2_620]), (1_400, [8_300, 4_174])];

/// How far a figure may be off, in percent: other processors, other compilers.
const MARGIN_PERCENT: u64 = 10;

/// What tells the stepped process what to do: bytes of a message, and rounds.
const TASK: &str = "EMP_INSTRUCTIONS_TASK";

/// Rounds before any is counted: discovery is over, queues and tables have their memory.
const WARM_UP: u64 = 200;

/// Rounds in the two runs whose difference counts, so that what stopping costs falls out.
const ROUNDS: [u64; 2] = [1, 9];

fn main() -> ExitCode {
    if let Ok(task) = std::env::var(TASK) {
        return be_stepped(&task);
    }
    // As the usual harness does: only what was asked for, and a list is not a run.
    let words: Vec<String> = std::env::args().skip(1).collect();
    let asked = |word: &String| word.starts_with('-') || "instructions".contains(word.as_str());
    if words.iter().any(|word| word == "--list") || !words.iter().all(asked) {
        return ExitCode::SUCCESS;
    }
    if let Err(error) = a_child_that_dies_is_no_count() {
        println!("{error}");
        return ExitCode::FAILURE;
    }
    let mut worst = ExitCode::SUCCESS;
    for (bytes, figures) in COMMITTED {
        let committed = figures[usize::from(!cfg!(debug_assertions))];
        let counts = match ROUNDS.map(|rounds| count(bytes, rounds)) {
            [Ok(few), Ok(many)] if many > few => many - few,
            [Ok(few), Ok(many)] => {
                println!("{bytes} bytes: {many} instructions for more rounds than {few} were for");
                return ExitCode::FAILURE;
            }
            [Err(Uncounted::MayNotTrace(error)), _] | [_, Err(Uncounted::MayNotTrace(error))] => {
                skip(Need::Root, &format!("this process may not trace another: {error}"));
                return ExitCode::SUCCESS;
            }
            [Err(Uncounted::Failed(error)), _] | [_, Err(Uncounted::Failed(error))] => {
                println!("{bytes} bytes: the stepped process was not counted: {error}");
                return ExitCode::FAILURE;
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

/// The stepped process: stops itself before and after what is to be counted. It ends at once if there is nothing to do.
fn be_stepped(task: &str) -> ExitCode {
    let numbers: Vec<u64> = task.split(' ').filter_map(|word| word.parse().ok()).collect();
    let [bytes, rounds] = numbers[..] else { return ExitCode::FAILURE };
    let mut pair = Pair::new();
    (0..WARM_UP).for_each(|_| pair.exchange(bytes));
    stop();
    (0..rounds).for_each(|_| pair.exchange(bytes));
    stop();
    ExitCode::SUCCESS
}

fn stop() {
    // SAFETY: a signal to this thread, which stops until its tracer lets it go on.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Why there is no count.
enum Uncounted {
    /// The tester has not the right to trace.
    MayNotTrace(io::Error),
    /// The stepped process did not do what it was to do.
    Failed(io::Error),
}

impl From<io::Error> for Uncounted {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

/// A child that panics before its first stop must not look like one that may not be traced.
fn a_child_that_dies_is_no_count() -> Result<(), String> {
    match count_task("no task") {
        Err(Uncounted::Failed(error)) if error.to_string().contains("it ended") => Ok(()),
        Err(Uncounted::Failed(error)) => Err(format!("a child that died was told of as: {error}")),
        // Before it could die. The counts below are skipped for the same reason.
        Err(Uncounted::MayNotTrace(_)) => Ok(()),
        Ok(count) => Err(format!("a child that died executed {count} instructions")),
    }
}

/// Instructions that the stepped process executes between its two stops.
fn count(bytes: u64, rounds: u64) -> Result<u64, Uncounted> {
    count_task(&format!("{bytes} {rounds}"))
}

fn count_task(task: &str) -> Result<u64, Uncounted> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(TASK, task);
    // SAFETY: between fork and exec only a system call is made.
    unsafe {
        command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        });
    }
    let stepped = Stepped(command.spawn().map_err(|error| match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Uncounted::MayNotTrace(error),
        _ => Uncounted::Failed(error),
    })?);
    stepped.expect(libc::SIGTRAP, "its exec")?;
    stepped.go_on(libc::PTRACE_CONT)?;
    stepped.expect(libc::SIGSTOP, "its begin")?;
    let mut count = 0;
    let mut at = stepped.instruction();
    loop {
        stepped.go_on(libc::PTRACE_SINGLESTEP)?;
        match stepped.wait()? {
            libc::SIGTRAP => {
                let next = stepped.instruction();
                // A repeated string instruction (`rep movsb`) traps once for each byte and stays where it is; whether the
                // C library copies with it depends on the processor. It is one instruction.
                count += u64::from(next.is_none() || next != at);
                at = next;
            }
            libc::SIGSTOP => return Ok(count),
            other => return Err(io::Error::other(format!("it stopped for signal {other}")).into()),
        }
    }
}

/// A traced process that is stopped; it ends with this value.
struct Stepped(Child);

impl Stepped {
    fn id(&self) -> libc::pid_t {
        self.0.id() as libc::pid_t
    }

    /// Address of the instruction that is executed next, where this processor's is known.
    #[cfg(target_arch = "x86_64")]
    fn instruction(&self) -> Option<libc::c_long> {
        let offset = std::mem::offset_of!(libc::user_regs_struct, rip);
        // SAFETY: reads a word of the registers of a stopped child of ours; no memory of this process is named.
        Some(unsafe { libc::ptrace(libc::PTRACE_PEEKUSER, self.id(), offset, 0) })
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn instruction(&self) -> Option<libc::c_long> {
        None
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
