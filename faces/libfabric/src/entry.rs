//! The boundary to C: nothing unwinds over it.
//!
//! Every function that C calls runs in [`enter`]. A panic there is a defect of EMP and leaves its state unknown, so from
//! then on every call fails at once: the application gets an error that it can report, not a process that is gone.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::bindings::{FiProvider, error};
use crate::core;

/// Why no call can be served any more; 0: they can.
static STATE: AtomicU8 = AtomicU8::new(0);
/// A panic was caught before.
const BROKEN: u8 = 1;
/// This is the child of a process that had nodes ([`crate::fork`]), and has not been told yet.
const FORKED: u8 = 2;
const FORKED_TOLD: u8 = 3;

/// What a function returns that could do nothing.
pub trait Failed {
    /// The value that says so; `code` is libfabric's, positive.
    fn failed(code: c_int) -> Self;
}

impl Failed for c_int {
    fn failed(code: c_int) -> Self {
        -code
    }
}

impl Failed for isize {
    fn failed(code: c_int) -> Self {
        -(code as isize)
    }
}

/// Counters have no value that is an error; waiting for them has.
impl Failed for u64 {
    fn failed(_: c_int) -> Self {
        0
    }
}

impl Failed for *const c_char {
    fn failed(_: c_int) -> Self {
        c"EMP is broken".as_ptr()
    }
}

/// A core passes a provider by that is not there.
impl Failed for *mut FiProvider {
    fn failed(_: c_int) -> Self {
        std::ptr::null_mut()
    }
}

/// Runs what C has called.
#[inline]
pub fn enter<R: Failed>(body: impl FnOnce() -> R) -> R {
    match STATE.load(Ordering::Relaxed) {
        0 => guard(&STATE, body),
        state => R::failed(refuse(state)),
    }
}

/// From now on no call is served in this process. Does nothing that a child of a process with threads may not do.
pub fn lock_out_child() {
    STATE.store(FORKED, Ordering::Relaxed);
}

#[cold]
fn refuse(state: u8) -> c_int {
    if state == BROKEN {
        return error::OTHER;
    }
    if STATE.swap(FORKED_TOLD, Ordering::Relaxed) == FORKED {
        core::warn(
            "this process was forked from one that uses EMP, and cannot use it: start the program anew (exec)",
        );
    }
    error::OPBADSTATE
}

#[inline]
fn guard<R: Failed>(state: &AtomicU8, body: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => {
            state.store(BROKEN, Ordering::Relaxed);
            say(panic.as_ref());
            // Dropping a payload could panic in turn.
            std::mem::forget(panic);
            R::failed(error::OTHER)
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
    core::warn(&format!(
        "EMP has a defect and fails every call from now on; please report it: {text}"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_at_the_boundary() {
        let state = AtomicU8::new(0);
        assert_eq!(guard(&state, || 5 as c_int), 5);
        assert_eq!(state.load(Ordering::Relaxed), 0);
        assert_eq!(guard(&state, || -> isize { panic!("thrown by a test") }), -256);
        assert_eq!(state.load(Ordering::Relaxed), BROKEN);
    }

    /// A body that is not in [`enter`] could unwind into C.
    #[test]
    fn every_entry_point_is_guarded() {
        let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
        let mut seen = 0;
        for path in sources.map(|entry| entry.unwrap().path()) {
            let text = std::fs::read_to_string(&path).unwrap();
            for function in text.split("extern \"C\" fn ").skip(1) {
                // Types of function pointers have no name; some functions do next to nothing.
                let name: String = function.chars().take_while(|c| *c != '(').collect();
                let harmless =
                    ["unsupported", "cleanup", "no_bind", "no_control", "no_tostr", "in_child"];
                let word = name.chars().all(|c| c.is_alphanumeric() || c == '_');
                if name.is_empty() || !word || harmless.contains(&&*name) {
                    continue;
                }
                let body = function.split_once('{').expect("a body").1.trim_start();
                assert!(
                    body.trim_start_matches("entry::").starts_with("enter("),
                    "{name} in {}",
                    path.display()
                );
                seen += 1;
            }
        }
        assert!(seen > 50, "only {seen} entry points were found");
    }
}
