//! Captures from within: every frame of a node's links in a pcapng file, with what the firmware made of each.

use std::fs::{OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use emp_firmware::Counters;
use emp_link::{CAPTURE_BYTES, CaptureFile, CaptureLink, Link, Pcapng};

/// The variable that names the file.
const VARIABLE: &str = "EMP_CAPTURE";

/// What counts frames that were not used, though that is not in their names.
const UNUSED: [&str; 2] = ["not_taken", "discarded_frames"];

/// Captures that are open in this process: its nodes share one of the same name.
static OPEN: Mutex<Vec<(PathBuf, CaptureFile)>> = Mutex::new(Vec::new());

/// The file that the environment asks for.
pub(crate) fn asked_for() -> Option<PathBuf> {
    std::env::var_os(VARIABLE).filter(|name| !name.is_empty()).map(PathBuf::from)
}

/// `%p` in a name is the process's number, so that those of a job have a file each.
fn named(path: &Path) -> PathBuf {
    match path.to_str() {
        Some(text) => text.replace("%p", &std::process::id().to_string()).into(),
        None => path.to_owned(),
    }
}

/// The capture of this name, made if this process has none.
///
/// # Errors
///
/// The file cannot be made, or another process writes to it; the text says which file, and what to do.
pub(crate) fn open(path: &Path) -> Result<CaptureFile, String> {
    let path = named(path);
    let mut open = OPEN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, file)) = open.iter().find(|(other, _)| *other == path) {
        return Ok(file.clone());
    }
    let problem = |why: String| format!("nothing is captured to {}: {why}", path.display());
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    let file = file.map_err(|error| problem(error.to_string()))?;
    // Not what another process of the job has written so far.
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            problem("another process writes to it; %p in the name gives each its own".to_owned())
        }
        TryLockError::Error(error) => problem(error.to_string()),
    })?;
    let file = file.set_len(0).and_then(|()| Pcapng::new(file, CAPTURE_BYTES));
    let file = file.map_err(|error| problem(error.to_string()))?;
    let file = CaptureFile::new(file, &path.display().to_string());
    open.push((path, file.clone()));
    Ok(file)
}

/// The link, with all that it carries written down.
pub(crate) fn of(link: Box<dyn Link>, file: &CaptureFile) -> Box<dyn Link> {
    Box::new(CaptureLink::share(link, file))
}

/// Says in a comment what was not taken of a link frame: which counters of frames that are dropped went up.
pub(crate) fn add_verdict(verdict: &mut String, before: &Counters, after: &Counters) {
    let went_up = before.iter().zip(after.iter());
    add_reasons(verdict, went_up.map(|((name, before), (_, after))| (name, after - before)));
}

fn add_reasons(verdict: &mut String, went_up: impl Iterator<Item = (&'static str, u64)>) {
    for (name, count) in went_up.filter(|(_, count)| *count > 0) {
        let reason = name.strip_prefix("drop_").or(UNUSED.contains(&name).then_some(name));
        let Some(reason) = reason else { continue };
        if !verdict.is_empty() {
            verdict.push_str(", ");
        }
        verdict.push_str(if name.starts_with("drop_") { "dropped: " } else { "" });
        reason.split('_').enumerate().for_each(|(index, word)| {
            verdict.push_str(if index > 0 { " " } else { "" });
            verdict.push_str(word);
        });
        if count > 1 {
            verdict.push_str(&format!(" ({count} frames)"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_are_words() {
        let mut verdict = String::new();
        add_reasons(&mut verdict, [("frames_received", 1), ("drop_duplicate", 0)].into_iter());
        assert_eq!(verdict, "", "it was taken");
        let counts = [("drop_stale_source", 1), ("drop_duplicate", 2), ("not_taken", 1)];
        add_reasons(&mut verdict, counts.into_iter());
        assert_eq!(verdict, "dropped: stale source, dropped: duplicate (2 frames), not taken");
    }

    #[test]
    fn a_file_is_one_process_s_and_said_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a-%p.pcapng");
        open(&path).unwrap();
        let file = directory.path().join(format!("a-{}.pcapng", std::process::id()));
        assert!(file.is_file());
        open(&path).expect("this process has it open already");
        let lost = open(Path::new("/nowhere/a.pcapng")).err().unwrap();
        assert!(lost.contains("/nowhere/a.pcapng") && lost.contains("No such file"), "{lost}");
    }
}
