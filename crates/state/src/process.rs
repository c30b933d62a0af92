//! Whether the process that wrote a file still runs, and what it does.

use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;

use crate::layout::Identity;

/// More than `/proc/PID/stat` has: 52 numbers of 20 digits, and a name of 64 bytes at most.
const STAT_BYTES: usize = 2_048;

/// What the system says of a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stat {
    /// `R` running, `S` sleeping, `D` in the kernel, `T` stopped, `t` held by a debugger, `Z` ended, …
    pub state: char,
    /// When it began, in clock ticks since the machine started.
    pub began: u64,
    /// Where its stack begins; 0 where this process may not know.
    pub stack: u64,
}

/// Whether a process is there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// It runs, or is in this state.
    Alive(Stat),
    /// It is gone, or runs another program now.
    Gone,
    /// It is in another process namespace, where this one cannot look.
    Elsewhere,
}

impl Stat {
    /// Of a process of this namespace.
    pub fn of(process: u32) -> Option<Self> {
        // One line, which the system makes anew for each read: it is read at once.
        let mut line = [0; STAT_BYTES];
        let mut file = fs::File::open(format!("/proc/{process}/stat")).ok()?;
        let got = file.read(&mut line).ok()?;
        Self::parse(&String::from_utf8_lossy(&line[..got]))
    }

    /// Of a line as `/proc/PID/stat` has it. The name in parentheses may have anything in it.
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        // The fields are numbered from 1; the state is the third.
        let threads: u32 = fields.nth(20 - 4)?.parse().ok()?;
        let began = fields.nth(22 - 21)?.parse().ok()?;
        let stack = fields.nth(28 - 23)?.parse().ok()?;
        // A first thread that has ended while others run is no end of the process.
        let state = if state == 'Z' && threads > 1 { 'S' } else { state };
        Some(Self { state, began, stack })
    }
}

/// The number of this process's process namespace; 0 where there is no telling.
pub fn pid_namespace() -> u64 {
    fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino())
}

/// The first bytes of the identity of the machine's run; 0 where there is no telling.
pub fn boot() -> u64 {
    let text = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).take(16).collect();
    u64::from_str_radix(&digits, 16).unwrap_or(0)
}

/// Nanoseconds of `CLOCK_MONOTONIC`, by which times in files are.
pub fn monotonic() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the value is this function's. The clock is always there.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Where this process is, by which is told which processes are its neighbours: the same for all files of one look.
#[derive(Clone, Copy)]
pub struct Here {
    namespace: u64,
    boot: u64,
}

impl Here {
    /// As the system tells it.
    pub fn now() -> Self {
        Self { namespace: pid_namespace(), boot: boot() }
    }

    /// What became of the process that a file is of.
    pub fn life(&self, of: &Identity) -> Life {
        life_by(of, self.namespace, self.boot, Stat::of)
    }

    /// The process is gone whose file has this name, as it must be told of files that another version of EMP has left.
    pub fn has_lost(&self, name: &OsStr) -> bool {
        named_of(name)
            .is_some_and(|of| self.life(&Identity { boot: self.boot, ..of }) == Life::Gone)
    }
}

/// What a file's name says of its process.
fn named_of(name: &OsStr) -> Option<Identity> {
    let mut numbers = name.to_str()?.split('-');
    let mut number = || numbers.next()?.parse::<u64>().ok();
    let (pid_namespace, process) = (number()?, number()?);
    let (process, process_began) = (u32::try_from(process).ok()?, number()?);
    Some(Identity { pid_namespace, process, process_began, ..Identity::default() })
}

fn life_by(of: &Identity, namespace: u64, boot: u64, stat: impl Fn(u32) -> Option<Stat>) -> Life {
    if of.boot != boot {
        return Life::Gone;
    }
    if of.pid_namespace != namespace || namespace == 0 {
        return Life::Elsewhere;
    }
    let Some(stat) = stat(of.process) else { return Life::Gone };
    let other = stat.began != of.process_began;
    let replaced = stat.stack != 0 && of.process_stack != 0 && stat.stack != of.process_stack;
    if other || replaced || matches!(stat.state, 'Z' | 'X') {
        return Life::Gone;
    }
    Life::Alive(stat)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_system_is_understood_whatever_the_program_is_called() {
        let line = "77 (a) b (c) T 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 1 21 4711 23 24 25 26 27 \
                    140737 29";
        let stat = Stat::parse(line).unwrap();
        assert_eq!(stat, Stat { state: 'T', began: 4711, stack: 140_737 });
        assert_eq!(Stat::parse("77 (a"), None);
        assert_eq!(Stat::parse("77 (a) T 1 2"), None);
        let own = Stat::of(std::process::id()).unwrap();
        assert!(own.began > 0 && own.stack > 0 && matches!(own.state, 'R' | 'S'));
    }

    #[test]
    fn a_name_tells_whose_file_it_is() {
        let here = Here::now();
        let own = std::process::id();
        let began = Stat::of(own).unwrap().began;
        let lost = |name: String| here.has_lost(OsStr::new(&name));
        assert!(!lost(format!("{}-{own}-{began}-0.state", here.namespace)), "it runs");
        assert!(lost(format!("{}-{own}-{}-0.state", here.namespace, began + 1)));
        // Nobody can look there; nor are these names.
        assert!(!lost(format!("{}-{own}-{}-0.state", here.namespace + 1, began + 1)));
        for name in ["", "7.state", "7-8.state", "a-b-c-d.state", "1-99999999999-3-0.state"] {
            assert!(!lost(name.into()), "{name}");
        }
    }

    #[test]
    fn who_is_another_now_is_gone() {
        let file = Identity {
            process: 7,
            process_began: 100,
            process_stack: 900,
            pid_namespace: 5,
            boot: 3,
            ..Identity::default()
        };
        let is = |began, stack, state| move |_: u32| Some(Stat { state, began, stack });
        let alive = Life::Alive(Stat { state: 'S', began: 100, stack: 900 });
        assert_eq!(life_by(&file, 5, 3, is(100, 900, 'S')), alive);
        assert_eq!(life_by(&file, 5, 3, |_| None), Life::Gone);
        assert_eq!(
            life_by(&file, 5, 3, is(101, 900, 'S')),
            Life::Gone,
            "the number was given again"
        );
        assert_eq!(life_by(&file, 5, 3, is(100, 901, 'S')), Life::Gone, "it runs another program");
        assert_eq!(
            life_by(&file, 5, 3, is(100, 900, 'Z')),
            Life::Gone,
            "nobody has asked for its end"
        );
        assert_eq!(
            life_by(&file, 5, 4, is(100, 900, 'S')),
            Life::Gone,
            "the machine was started anew"
        );
        assert_eq!(life_by(&file, 6, 3, |_| None), Life::Elsewhere);
        let unknown = Life::Alive(Stat { state: 'S', began: 100, stack: 0 });
        assert_eq!(life_by(&file, 5, 3, is(100, 0, 'S')), unknown, "its stack is not ours to know");
    }
}
