//! How the faces' libraries are held to their interfaces: by C programs, which `tests/faces/run` builds against the library that
//! was built with the test, run alone, between two hosts, under loss, as an ordinary user, with valgrind and AddressSanitizer.

use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::lab::{INTERFACE, Lab};
use crate::{Need, skip};

/// Bounds a run that hangs; the programs themselves give up earlier, and say where.
const LIMIT: Duration = Duration::from_secs(300);

/// What makes a host of its own for a program, with nothing but a loopback: places on a machine are one process's each, and several
/// tests run at once. Only root can; others take turns.
const OWN_HOST: [&str; 6] =
    ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"];

/// Runs a program without any privilege.
const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

/// Settings that no program of a test inherits.
const SETTINGS: [&str; 10] = [
    "EMP_LINK",
    "EMP_INTERFACE",
    "EMP_NAME",
    "EMP_FAULT",
    "EMP_PROFILE",
    "EMP_WAIT",
    "EMP_EAGER",
    "EMP_TIMEOUT",
    "EMP_LINGER",
    "EMP_LOG",
];

/// A face under test.
pub struct Face {
    /// The name of its folders: sources in `faces`, the conformance program in `tests`.
    name: &'static str,
    library: &'static str,
    /// For all runs.
    settings: &'static [(&'static str, &'static str)],
    built: OnceLock<PathBuf>,
}

/// Codes of a header, of which each is to be seen.
pub struct Codes {
    /// What the program calls them when it has seen one.
    pub kind: &'static str,
    /// The first of them; the others are in the lines behind it.
    pub first: &'static str,
    /// Those that nothing leads to, and why.
    pub never: &'static [(&'static str, &'static str)],
}

/// All headers in a directory.
fn header_text(directory: &Path) -> String {
    let mut text = String::new();
    for entry in std::fs::read_dir(directory).expect("headers").flatten() {
        let path = entry.path();
        if path.is_file() {
            text += &std::fs::read_to_string(path).expect("a text");
        }
    }
    text
}

/// The functions that headers declare, by how their names begin.
fn declared(headers: &str, begin: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let code: String =
        headers.split("/*").map(|part| part.split_once("*/").map_or(part, |p| p.1)).collect();
    for line in code.lines().filter(|line| !line.starts_with(['#', '\t', ' ', '}'])) {
        let Some((before, _)) = line.split_once('(') else { continue };
        let name = before.rsplit([' ', '*']).next().unwrap_or_default();
        if name.starts_with(begin) && !before.starts_with("typedef") && before.contains(' ') {
            names.insert(name.to_owned());
        }
    }
    names
}

/// Constants and their values: that of this name, and those of the lines behind it up to one that has none.
fn constants(headers: &str, first: &str) -> Vec<(String, i64)> {
    let words = |line: &str| -> Option<(String, i64)> {
        let line = line.trim().trim_start_matches("#define ");
        let (name, rest) = line.split_once([' ', '='])?;
        let value = rest.trim_start_matches([' ', '=', '(']);
        let end = value.find(|c: char| !(c.is_ascii_hexdigit() || c == '-' || c == 'x'));
        let value = &value[..end.unwrap_or(value.len())];
        let value = match value.strip_prefix("0x") {
            Some(hex) => i64::from_str_radix(hex, 16),
            None => value.parse(),
        };
        Some((name.to_owned(), value.ok()?))
    };
    let lines = headers.lines().map(words);
    let lines = lines.skip_while(|word| word.as_ref().is_none_or(|(name, _)| name != first));
    lines.map_while(|word| word).collect()
}

/// How one of two processes is run: on this side of the cable, called this, with these arguments.
pub struct Side<'a> {
    /// 0 or 1.
    pub side: usize,
    /// What its host is called.
    pub name: &'a str,
    /// Of the program.
    pub arguments: &'a [&'a str],
}

/// EMP's sources.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

impl Face {
    /// One with this library, whose programs run with these settings of the environment.
    pub const fn new(
        name: &'static str,
        library: &'static str,
        settings: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { name, library, settings, built: OnceLock::new() }
    }

    /// A directory with the library that was built with this test, and the programs. Readable by everyone; it goes with this
    /// process.
    ///
    /// # Panics
    ///
    /// If something cannot be built.
    pub fn built(&self) -> &Path {
        self.built.get_or_init(|| {
            let here = std::env::current_exe().expect("this program has a path");
            let library = here.parent().expect("in a directory").join(self.library);
            assert!(library.exists(), "{} was not built", library.display());
            // Ordinary users may not look into the directory of the build.
            let directory = temporary(self.name);
            remove_at_exit(&directory);
            self.build(&library, &directory, "");
            directory
        })
    }

    /// Builds the programs in a directory, which gets the library, with these flags of the compiler.
    fn build(&self, library: &Path, directory: &Path, flags: &str) {
        std::fs::create_dir_all(directory).expect("a directory for the test");
        std::fs::copy(library, directory.join(self.library)).expect("the library copied");
        let mut command = Command::new(root().join("tests/faces/run"));
        command.arg(self.name).arg(directory).arg("--build").env("CFLAGS", flags);
        let output = command.output().expect("the script was started");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the program was not built: {text}");
    }

    /// The program, with settings that no test inherits.
    fn program(&self, wrapper: &[&str], place: &Place) -> Command {
        self.program_at(&self.built().join("conformance"), wrapper, place)
    }

    fn program_at(&self, program: &Path, wrapper: &[&str], place: &Place) -> Command {
        let mut command = command(program, wrapper, place);
        command.envs(self.settings.iter().copied());
        command
    }

    /// Runs it alone, on a host of its own if that can be made; with settings of the environment. What it has written.
    ///
    /// # Panics
    ///
    /// If a check fails.
    pub fn alone(&self, what: &str, settings: &[(&str, &str)]) -> String {
        let (_turn, host) = own_host();
        let place = self.place(what);
        let mut command = self.program(host, &place);
        command.env("EMP_INTERFACE", "lo").envs(settings.iter().copied());
        passes(command.spawn().expect("the program starts"), what)
    }

    /// Holds a run of all tests to the headers of the face: the program uses every function, and every code was seen, but for
    /// those of which is said why none is.
    ///
    /// # Panics
    ///
    /// If one is missing, or was seen that never should.
    pub fn is_complete(&self, functions: &str, codes: &[Codes], written: &str) {
        let headers = header_text(&root().join("faces").join(self.name).join("include"));
        let used = Command::new("nm").arg("-D").arg(self.built().join("conformance")).output();
        let used = used.expect("nm is where the compiler is");
        let used = String::from_utf8_lossy(&used.stdout);
        let used: HashSet<&str> = used.split_whitespace().collect();
        let declared = declared(&headers, functions);
        assert!(declared.len() > 20, "functions of the headers: {declared:?}");
        let mut missing: Vec<String> =
            declared.into_iter().filter(|name| !used.contains(&**name)).collect();
        for codes in codes {
            let listed = constants(&headers, codes.first);
            assert!(listed.len() > 5, "codes from {} on: {listed:?}", codes.first);
            for (name, value) in &listed {
                let seen = written.contains(&format!("provoked {} {value}\n", codes.kind));
                if seen == codes.never.iter().any(|(never, _)| never == name) {
                    missing.push(format!("{name} ({})", if seen { "seen" } else { "not seen" }));
                }
            }
            for (never, _) in codes.never {
                assert!(listed.iter().any(|(name, _)| name == never), "{never} is no code");
            }
        }
        assert!(missing.is_empty(), "the conformance program is not complete: {missing:?}");
    }

    /// Runs it alone without any privilege, under a user's own identity. Root becomes nobody for that.
    ///
    /// # Panics
    ///
    /// If a check fails.
    pub fn for_ordinary_users(&self) {
        let (_turn, host) = own_host();
        let place = self.place("user");
        let user: &[&str] = if is_root() { &NOBODY } else { &[] };
        if is_root() {
            place.give_to_nobody();
        }
        let mut command = self.program(&[host, user].concat(), &place);
        passes(command.env("EMP_INTERFACE", "lo").spawn().expect("the program starts"), "user");
    }

    /// Runs these tests, by their names with spaces between, under valgrind: no memory is used that is not there, and none is
    /// lost. With the suppressions of the face, if it has a file `valgrind.supp` beside the program.
    ///
    /// # Panics
    ///
    /// If a check fails, or valgrind finds something.
    pub fn under_valgrind(&self, tests: &str) {
        if Command::new("valgrind").arg("--version").stdout(Stdio::null()).status().is_err() {
            return skip(Need::Mpi, "valgrind is not installed");
        }
        let known = root().join("tests").join(self.name).join("valgrind.supp");
        let known = known.exists().then(|| format!("--suppressions={}", known.display()));
        let valgrind = [
            "valgrind",
            "--quiet",
            "--fair-sched=yes", // else a program that computes in a loop keeps the library's threads from running
            "--error-exitcode=33",
            "--leak-check=full",
            "--show-leak-kinds=definite",
            "--errors-for-leak-kinds=definite",
        ];
        let known: Vec<&str> = known.as_deref().into_iter().collect();
        let (_turn, host) = own_host();
        let place = self.place("valgrind");
        let mut command =
            command(&self.built().join("conformance"), &[host, &valgrind, &known].concat(), &place);
        command.args(tests.split_whitespace()).env("EMP_INTERFACE", "lo");
        passes(command.spawn().expect("valgrind is there"), "valgrind");
    }

    /// Runs it with the program's memory, which the library writes to, watched by the compiler's checks: what C has called with
    /// it, and what is lost at the end. `tests`: these, all if it is empty.
    ///
    /// # Panics
    ///
    /// If a check fails, or the compiler's.
    pub fn with_sanitizers(&self, tests: &str) {
        let directory = self.built().join("sanitized");
        let flags = "-fsanitize=address,undefined -fno-sanitize-recover=all";
        self.build(&self.built().join(self.library), &directory, flags);
        let (_turn, host) = own_host();
        let place = self.place("sanitizer");
        let mut command = self.program_at(&directory.join("conformance"), host, &place);
        command.args(tests.split_whitespace()).env("EMP_INTERFACE", "lo");
        passes(command.spawn().expect("the program starts"), "AddressSanitizer");
    }

    /// Runs it in two processes in two hosts, the second of which is begun first; as ordinary users if `user`. If `joined`,
    /// what one writes the other reads, and only the first of them reports.
    ///
    /// # Panics
    ///
    /// If a check fails.
    pub fn between_hosts(
        &self,
        what: &str,
        (user, joined): (bool, bool),
        sides: [&Side<'_>; 2],
        settings: &[(&str, &str)],
    ) {
        let Some(lab) = Lab::build(1500) else { return };
        let place = self.place(what);
        if user {
            place.give_to_nobody();
        }
        let command = |side: &Side<'_>| {
            let mut wrapper = vec!["ip", "netns", "exec", lab.name(side.side)];
            if user {
                wrapper.extend(NOBODY);
            }
            let mut command = self.program(&wrapper, &place);
            command.args(side.arguments).env("EMP_NAME", side.name);
            command.env("EMP_INTERFACE", INTERFACE).envs(settings.iter().copied());
            command
        };
        let (mut active, mut passive) = (command(sides[0]), command(sides[1]));
        if joined {
            passive.stdin(Stdio::piped());
        }
        let mut passive = passive.spawn().expect("the program starts");
        if joined {
            let (to, from) = (passive.stdin.take(), passive.stdout.take());
            active.stdin(from.expect("piped")).stdout(to.expect("piped"));
        }
        let running = active.spawn().expect("the program starts");
        // With it go its ends of the pipes, for whose end the other one waits.
        drop(active);
        passes(running, what);
        let (good, text) = ends(passive, "the other side");
        assert!(good && (joined || text.contains(" 0 failed")), "the other side has failed");
    }

    /// Library, headers and tools as `make install` puts them, used from there by a script of the shell: `$root` is where they
    /// are, `$side` the process that it may leave behind, `flags NAME` what pkg-config's file has as libraries, `build NAME`
    /// builds a program of its input, `refuses COMMAND` is well if that is a mistake. What it has written.
    ///
    /// # Panics
    ///
    /// If the script fails.
    pub fn installed(&self, script: &str) -> String {
        // Each use has a place of its own, as those of one program run at once.
        static USES: AtomicU32 = AtomicU32::new(0);
        let use_number = USES.fetch_add(1, Ordering::Relaxed);
        let place = self.place(&format!("install{use_number}"));
        let to = place.0.join("root");
        let install = root().join("faces").join(self.name).join("install");
        // It builds the tools beside the library: not two of them at once.
        static INSTALLING: Mutex<()> = Mutex::new(());
        let turn = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
        let installed = Command::new(install).arg(self.built()).arg("/usr").arg(&to).output();
        let installed = installed.expect("the script was started");
        drop(turn);
        let text = String::from_utf8_lossy(&installed.stderr);
        assert!(installed.status.success(), "{text}");
        let script = format!("{INSTALLED}\n{script}");
        let (_turn, host) = own_host();
        let host = if host.is_empty() { &["env"] } else { host };
        let mut command = Command::new(host[0]);
        command.args(&host[1..]).args(["sh", "-c", &script, "sh"]).arg(to.join("usr"));
        command.env("XDG_RUNTIME_DIR", &place.0).env("EMP_NAME", "ann").env("EMP_INTERFACE", "lo");
        let output = command.output().expect("a shell");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {text}{errors}", output.status);
        text
    }

    /// A place for one test.
    fn place(&self, what: &str) -> Place {
        Place::new(&format!("{}-{what}", self.name))
    }
}

/// How scripts for what is installed begin.
const INSTALLED: &str = r#"
    set -eu
    root=$1 side=
    # Whatever fails, nobody is left waiting.
    trap '[ -z "$side" ] || kill $side 2>/dev/null || :' EXIT
    flags() { sed -n 's/^Libs: *//p' "$root/lib/pkgconfig/$1.pc" | grep -e "-l$1" >/dev/null; }
    build() { ${CC:-cc} -xc - -o "$root/$1" -I"$root/include" -L"$root/lib" $2; }
    refuses() { status=0; "$@" 2>/dev/null || status=$?; [ $status = 2 ]; }
    export LD_LIBRARY_PATH="$root/lib"
"#;

/// A program of a face.
fn command(program: &Path, wrapper: &[&str], place: &Place) -> Command {
    let program = program.to_str().expect("a path of letters");
    let all: Vec<&str> = wrapper.iter().copied().chain([program]).collect();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).env("XDG_RUNTIME_DIR", &place.0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    SETTINGS.iter().for_each(|name| {
        command.env_remove(name);
    });
    // Cargo's names the directory of an earlier build before the program's own, which has the library under test.
    command.env_remove("LD_LIBRARY_PATH");
    command
}

/// The beginning of a command for a host of its own, or what makes users take turns who cannot make one.
fn own_host() -> (Option<MutexGuard<'static, ()>>, &'static [&'static str]) {
    static TURN: Mutex<()> = Mutex::new(());
    match is_root() {
        true => (None, &OWN_HOST),
        false => (Some(TURN.lock().unwrap_or_else(PoisonError::into_inner)), &[]),
    }
}

/// True if this is root.
fn is_root() -> bool {
    // SAFETY: takes no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("emp-{name}-{}", std::process::id()))
}

fn remove_at_exit(directory: &Path) {
    static DIRECTORIES: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());
    extern "C" fn remove() {
        for directory in DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
    let mut directories = DIRECTORIES.lock().unwrap_or_else(PoisonError::into_inner);
    if directories.is_empty() {
        // SAFETY: the function stays, and does not unwind.
        unsafe { libc::atexit(remove) };
    }
    directories.push(directory.into());
}

/// Where processes of one test find each other in shared memory, and nobody else.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = temporary(name);
        std::fs::create_dir_all(&path).expect("a place to meet");
        Self(path)
    }

    /// Gives it to nobody, for programs that run as that; root may.
    fn give_to_nobody(&self) {
        std::os::unix::fs::chown(&self.0, Some(65534), Some(65534))
            .expect("root gives a directory");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits for the end: the program must get there, and no check may have failed. What it has written.
fn passes(child: Child, what: &str) -> String {
    let (success, text) = ends(child, what);
    assert!(success, "{what} has failed");
    assert!(text.contains(" 0 failed"), "{what}: the program did not get to its end");
    text
}

/// Waits for the end: whether it is a good one, and all that was written.
fn ends(mut child: Child, what: &str) -> (bool, String) {
    let start = Instant::now();
    while child.try_wait().expect("it is a child").is_none() {
        if start.elapsed() > LIMIT {
            let _ = child.kill();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().expect("it has ended");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    println!("{what}: {}\n{text}", output.status);
    (output.status.success(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "/* mx_none(1); */\n#define MX_A 1\n#define MX_B (-2) /* two */\n#define MX_C 0x10\n\n#define MX_D 4\n\
        typedef enum e {\n\tMX_OK = 0,\n\tMX_BAD = 7\n} e;\nint mx_one(int a,\n    int b);\nconst char *mx_two(int code);\n\
        typedef void (*mx_type)(int);\n\tmx_three(4);\n";

    #[test]
    fn headers_say_what_there_is() {
        let names: Vec<String> = declared(HEADER, "mx_").into_iter().collect();
        assert_eq!(names, ["mx_one", "mx_two"]);
        let pairs = |first| constants(HEADER, first);
        let named = |list: &[(&str, i64)]| -> Vec<(String, i64)> {
            list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
        };
        assert_eq!(pairs("MX_A"), named(&[("MX_A", 1), ("MX_B", -2), ("MX_C", 16)]));
        assert_eq!(pairs("MX_OK"), named(&[("MX_OK", 0), ("MX_BAD", 7)]));
        assert_eq!(pairs("MX_Z"), []);
    }
}
