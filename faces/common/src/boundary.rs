//! The boundary to C: nothing unwinds over it.
//!
//! Every function that C calls runs in [`enter`]. A panic there is a defect of EMP and leaves its state unknown, so from
//! then on every call fails at once: the application gets an error that it can report, not a process that is gone.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::log;

/// Why no call can be served any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// A call has panicked before.
    Broken,
    /// This is the child of a process that had nodes ([`crate::fork`]).
    Forked,
}

/// 0: calls are served.
static STATE: AtomicU8 = AtomicU8::new(0);
const BROKEN: u8 = 1;
const FORKED: u8 = 2;
/// The same, and the user was told.
const FORKED_TOLD: u8 = 3;

/// Runs what C has called; what `refused` gives is returned if no call can be served.
#[inline]
pub fn enter<R>(body: impl FnOnce() -> R, refused: impl FnOnce(Refusal) -> R) -> R {
    match STATE.load(Ordering::Relaxed) {
        0 => guard(&STATE, body, refused),
        state => refused(refuse(state)),
    }
}

/// What functions of a face return if no call can be served.
pub trait Failed {
    /// That value.
    fn failed() -> Self;
}

/// For functions whose result is otherwise not negative.
impl Failed for c_int {
    fn failed() -> Self {
        -1
    }
}

impl Failed for usize {
    fn failed() -> Self {
        0
    }
}

/// For texts: they are never null.
impl Failed for *const c_char {
    fn failed() -> Self {
        c"EMP is broken".as_ptr()
    }
}

impl<T> Failed for Option<T> {
    fn failed() -> Self {
        None
    }
}

/// As [`enter`], for results that say themselves what they are if no call can be served.
#[inline]
pub fn enter_or_fail<R: Failed>(body: impl FnOnce() -> R) -> R {
    enter(body, |_| R::failed())
}

/// From now on no call is served in this process. Does nothing that a child of a process with threads may not do.
pub(crate) fn lock_out_child() {
    STATE.store(FORKED, Ordering::Relaxed);
}

#[cold]
fn refuse(state: u8) -> Refusal {
    if state == BROKEN {
        return Refusal::Broken;
    }
    if STATE.swap(FORKED_TOLD, Ordering::Relaxed) == FORKED {
        // Its calls fail with a number that says nothing, so this is for everybody.
        log::error(
            "this process was forked from one that uses EMP, and cannot use it: open EMP after the fork, or start the program anew (exec)",
        );
    }
    Refusal::Forked
}

#[inline]
fn guard<R>(state: &AtomicU8, body: impl FnOnce() -> R, refused: impl FnOnce(Refusal) -> R) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => {
            state.store(BROKEN, Ordering::Relaxed);
            say(panic.as_ref());
            // Dropping a payload could panic in turn.
            std::mem::forget(panic);
            refused(Refusal::Broken)
        }
    }
}

#[cold]
fn say(panic: &(dyn std::any::Any + Send)) {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    log::warn(&format!(
        "EMP has a defect and fails every call from now on; please report it: {text}"
    ));
}

/// Looks through the sources of a face for functions that C calls and whose body is not in the face's `enter`, from which
/// a panic could unwind into C; for a test of each face. Returns how many are guarded.
///
/// `harmless` names functions that do next to nothing.
///
/// # Errors
///
/// The first function that is not guarded, or a source that cannot be read.
pub fn check_entry_points(sources: &str, harmless: &[&str]) -> Result<usize, String> {
    let mut seen = 0;
    for entry in std::fs::read_dir(sources).map_err(|error| format!("{sources}: {error}"))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            seen += check_entry_points(&path.to_string_lossy(), harmless)?;
            continue;
        }
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        for function in text.split("extern \"C\" fn ").skip(1) {
            // Types of function pointers have no name.
            let name: String = function.chars().take_while(|c| *c != '(').collect();
            let word = name.chars().all(|c| c.is_alphanumeric() || c == '_');
            if name.is_empty() || !word || harmless.contains(&&*name) {
                continue;
            }
            let body = function.split_once('{').map_or("", |(_, body)| body.trim_start());
            // Or a variant of it for calls that return something else.
            if !body.trim_start_matches("entry::").starts_with("enter") {
                return Err(format!("{name} in {} is not guarded", path.display()));
            }
            seen += 1;
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_at_the_boundary() {
        let state = AtomicU8::new(0);
        assert_eq!(guard(&state, || 5, |_| 6), 5);
        assert_eq!(state.load(Ordering::Relaxed), 0);
        let panics = || -> i32 { panic!("thrown by a test") };
        let refused = |why| if why == Refusal::Broken { -256 } else { 0 };
        assert_eq!(guard(&state, panics, refused), -256);
        assert_eq!(state.load(Ordering::Relaxed), BROKEN);
    }

    #[test]
    fn a_function_without_a_guard_is_found() {
        let directory = std::env::temp_dir().join(format!("emp-face-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let write = |text| std::fs::write(directory.join("a.rs"), text).unwrap();
        let check = || check_entry_points(&directory.to_string_lossy(), &["tiny"]);
        write("extern \"C\" fn good() { enter(|| 0) } extern \"C\" fn tiny() {}");
        assert_eq!(check(), Ok(1));
        write("extern \"C\" fn bad() { look() }");
        assert!(check().unwrap_err().starts_with("bad in "));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
