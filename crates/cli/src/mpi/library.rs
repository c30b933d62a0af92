//! One libfabric: its version, where it looks for providers, whether it finds EMP.

use std::fs;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::probe::{self, Answer};

/// How long a libfabric may look for its devices. Providers that probe hardware take a second.
const PATIENCE: Duration = Duration::from_secs(20);

/// Bytes of a log that are read: some hundred lines.
const LONGEST_COMPLAINT: u64 = 64 << 10;

/// The first version that reads a file of parameters.
const READS_FILE: (u32, u32) = (1, 18);

/// Bytes. No libfabric is larger; a file that is will not be searched.
const LARGEST: u64 = 256 << 20;

/// Where a libfabric looks without being told, as it was compiled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Places {
    /// The directory whose `*fi.so` it loads.
    pub directory: Option<PathBuf>,
    /// The file of parameters that it reads; `None` for versions that read none.
    pub file: Option<PathBuf>,
}

/// Asks a libfabric, loaded by a process of its own with these variables besides ours; `None` if it gives no answer.
pub fn ask(library: &Path, variables: &[(String, String)]) -> Option<Answer> {
    ask_by(Command::new("/proc/self/exe"), library, variables, Stdio::null())
}

/// Why a libfabric does not offer EMP to a process that `command` makes of this program; `None` if it does, or if it gives
/// no answer. MPIs keep that to themselves, and say only that they found nothing.
pub fn refusal(command: Command, library: &Path, variables: &[(String, String)]) -> Option<String> {
    let mut complaints = tempfile::tempfile().ok()?;
    let level = ("FI_LOG_LEVEL".to_owned(), "warn".to_owned());
    let variables: Vec<_> = variables.iter().cloned().chain([level]).collect();
    let answer = ask_by(command, library, &variables, complaints.try_clone().ok()?.into())?;
    if answer.providers.iter().any(|provider| provider == "emp") {
        return None;
    }
    let mut text = String::new();
    complaints.rewind().ok()?;
    // Others may print what they like.
    complaints.take(LONGEST_COMPLAINT).read_to_string(&mut text).ok()?;
    Some(reasons(&text))
}

/// What EMP's provider said in a log of libfabric's, each thing once: layers of others ask it several times.
fn reasons(log: &str) -> String {
    let mut told: Vec<&str> = Vec::new();
    for line in log.lines().filter(|line| line.contains(":emp:")) {
        let said = line.split_once("<warn> ").map(|(_, said)| said.trim());
        told.extend(said.filter(|said| !told.contains(said)));
    }
    match told.as_slice() {
        [] => "it does not say why; `emp doctor` may know".to_owned(),
        told => told.join("; "),
    }
}

fn ask_by(
    mut command: Command,
    library: &Path,
    variables: &[(String, String)],
    complaints: Stdio,
) -> Option<Answer> {
    let mut child = command
        .arg(probe::SUBCOMMAND)
        .arg(library)
        .envs(variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(complaints)
        .spawn()
        .ok()?;
    let start = Instant::now();
    // The answer is shorter than a pipe holds, so the child never waits for us to read.
    while child.try_wait().ok()?.is_none() {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        sleep(Duration::from_millis(5));
    }
    let mut text = String::new();
    child.stdout.take()?.read_to_string(&mut text).ok()?;
    // Providers may print too; the answer is the last line.
    serde_json::from_str(text.lines().last()?).ok()
}

/// Finds out where a libfabric looks.
pub fn places(library: &Path, version: (u32, u32)) -> Places {
    let small = fs::metadata(library).is_ok_and(|file| file.len() <= LARGEST);
    let bytes = if small { fs::read(library).unwrap_or_default() } else { Vec::new() };
    let mut places = find_places(&bytes);
    places.file = places.file.filter(|_| version >= READS_FILE);
    places
}

/// The two paths are texts of their own among the library's constants.
fn find_places(bytes: &[u8]) -> Places {
    let texts = || bytes.split(|byte| *byte == 0).filter(|text| text.starts_with(b"/"));
    let ending = |end: &str| {
        let text = texts().find(|text| text.ends_with(end.as_bytes()))?;
        Some(PathBuf::from(str::from_utf8(text).ok()?))
    };
    Places { directory: ending("/libfabric"), file: ending("/libfabric.conf") }
}

/// The libfabrics that programs of this machine load when they are not told otherwise.
pub fn of_system() -> Vec<PathBuf> {
    let ldconfig = ["/sbin/ldconfig", "/usr/sbin/ldconfig"];
    let listing = ldconfig.iter().find_map(|path| super::program::output(Path::new(path), &["-p"]));
    let listing = listing.unwrap_or_default();
    let entries = listing.lines().filter(|line| line.trim_start().starts_with("libfabric.so.1 "));
    entries
        .filter_map(|line| line.split_once(" => "))
        .map(|(_, path)| PathBuf::from(path))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_log_only_what_emp_says_is_told_and_once() {
        let log = "libfabric:1:2::core:core:verify_filter_names():554<warn> provider emp is unknown?\n\
                   libfabric:1:2:ofi_rxm:emp:core:emp():0<warn> FI_EMP_LINK=x: must be auto\n\
                   libfabric:1:2::emp:core:emp():0<warn> FI_EMP_LINK=x: must be auto\n\
                   libfabric:1:2::emp:core:emp():0<warn> no card\n";
        assert_eq!(reasons(log), "FI_EMP_LINK=x: must be auto; no card");
        assert!(reasons("nothing").contains("emp doctor"));
    }

    #[test]
    fn places_are_read_from_the_library() {
        let bytes =
            b"\x7fELF\0lib\0/usr/lib/x/libfabric\0see /etc/y/libfabric.conf\0/etc/libfabric.conf\0";
        let found = find_places(bytes);
        assert_eq!(found.directory, Some(PathBuf::from("/usr/lib/x/libfabric")));
        assert_eq!(found.file, Some(PathBuf::from("/etc/libfabric.conf")));
        assert_eq!(find_places(b"/nothing\0here"), Places::default());
    }

    #[test]
    fn old_versions_read_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let library = dir.path().join("libfabric.so.1");
        fs::write(&library, b"\0/etc/libfabric.conf\0").unwrap();
        assert_eq!(places(&library, (1, 17)).file, None);
        assert_eq!(places(&library, (1, 18)).file, Some(PathBuf::from("/etc/libfabric.conf")));
        assert_eq!(places(Path::new("/nowhere"), (2, 0)), Places::default());
    }
}
