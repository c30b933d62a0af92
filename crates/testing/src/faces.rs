//! How the faces' libraries are held to their interfaces: by C programs, which a script of each face builds against the library
//! that was built with the test, run alone, between two hosts, under loss, and as an ordinary user.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Bounds a run that hangs; the programs themselves give up earlier, and say where.
const LIMIT: Duration = Duration::from_secs(300);

/// What makes a host of its own for a program, with nothing but a loopback: places on a machine are one process's each, and several
/// tests run at once. Only root can; others take turns.
pub const OWN_HOST: [&str; 6] =
    ["unshare", "--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"];

/// Runs a program without any privilege.
pub const NOBODY: [&str; 4] = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];

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
    name: &'static str,
    library: &'static str,
    script: &'static str,
    built: OnceLock<PathBuf>,
}

impl Face {
    /// One with this library, whose programs are built by this script: given a directory with the library and `--build`.
    pub const fn new(name: &'static str, library: &'static str, script: &'static str) -> Self {
        Self { name, library, script, built: OnceLock::new() }
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
            std::fs::create_dir_all(&directory).expect("a directory for the test");
            remove_at_exit(&directory);
            std::fs::copy(library, directory.join(self.library)).expect("the library copied");
            self.build(&directory, "");
            directory
        })
    }

    /// Builds the programs in a directory that has the library, with these flags of the compiler.
    ///
    /// # Panics
    ///
    /// If they cannot be built.
    pub fn build(&self, directory: &Path, flags: &str) {
        let mut command = Command::new(self.script);
        let output = command.arg(directory).arg("--build").env("CFLAGS", flags).output();
        let output = output.expect("the script was started");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "the program was not built: {text}");
    }

    /// The program, with settings that no test inherits.
    ///
    /// # Panics
    ///
    /// As for [`built`](Self::built).
    pub fn program(&self, wrapper: &[&str], place: &Place) -> Command {
        command(&self.built().join("conformance"), wrapper, place)
    }

    /// Runs it alone under these wrappers, on a host of its own if that can be made.
    ///
    /// # Panics
    ///
    /// If a check fails.
    pub fn alone_under(
        &self,
        what: &str,
        wrapper: &[&str],
        place: &Place,
        settings: &[(&str, &str)],
    ) {
        let (_turn, host) = own_host();
        let mut command = self.program(&[host, wrapper].concat(), place);
        command.env("EMP_INTERFACE", "lo").envs(settings.iter().copied());
        passes(command.spawn().expect("the program starts"), what);
    }

    /// The same without wrappers.
    ///
    /// # Panics
    ///
    /// If a check fails.
    pub fn alone(&self, what: &str, settings: &[(&str, &str)]) {
        self.alone_under(what, &[], &self.place(what), settings);
    }

    /// A place for one test.
    ///
    /// # Panics
    ///
    /// If there is no room for it.
    pub fn place(&self, what: &str) -> Place {
        Place::new(&format!("{}-{what}", self.name))
    }
}

/// A program of a face.
///
/// # Panics
///
/// If its path is not of letters.
pub fn command(program: &Path, wrapper: &[&str], place: &Place) -> Command {
    let program = program.to_str().expect("a path of letters");
    let all: Vec<&str> = wrapper.iter().copied().chain([program]).collect();
    let mut command = Command::new(all[0]);
    command.args(&all[1..]).env("XDG_RUNTIME_DIR", &place.0);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    SETTINGS.iter().for_each(|name| {
        command.env_remove(name);
    });
    command
}

/// The beginning of a command for a host of its own, or what makes users take turns who cannot make one.
pub fn own_host() -> (Option<MutexGuard<'static, ()>>, &'static [&'static str]) {
    static TURN: Mutex<()> = Mutex::new(());
    match is_root() {
        true => (None, &OWN_HOST),
        false => (Some(TURN.lock().unwrap_or_else(PoisonError::into_inner)), &[]),
    }
}

/// True if this is root.
pub fn is_root() -> bool {
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
pub struct Place(pub PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let path = temporary(name);
        std::fs::create_dir_all(&path).expect("a place to meet");
        Self(path)
    }

    /// Gives it to nobody, for programs that run as that.
    ///
    /// # Panics
    ///
    /// If this is not root.
    pub fn give_to_nobody(&self) {
        std::os::unix::fs::chown(&self.0, Some(65534), Some(65534))
            .expect("root gives a directory");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits for the end.
///
/// # Panics
///
/// Unless the program got there and no check has failed.
pub fn passes(child: Child, what: &str) {
    let (success, text) = ends(child, what);
    assert!(success, "{what} has failed");
    assert!(text.contains(" 0 failed"), "{what}: the program did not get to its end");
}

/// Waits for the end: whether it is a good one, and all that was written.
///
/// # Panics
///
/// If the system refuses to say.
pub fn ends(mut child: Child, what: &str) -> (bool, String) {
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
