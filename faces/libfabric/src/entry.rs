//! The boundary to C: nothing unwinds over it.
//!
//! Every function that C calls runs in [`enter`]. A panic there is a defect of EMP and leaves its state unknown, so from
//! then on every call fails at once: the application gets an error that it can report, not a process that is gone.

use std::ffi::{c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::bindings::{FiProvider, error};
use crate::core;

/// A panic was caught before.
static BROKEN: AtomicBool = AtomicBool::new(false);

/// What a function returns that could do nothing.
pub trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -error::OTHER;
}

impl Failed for isize {
    const FAILED: Self = -(error::OTHER as isize);
}

/// Counters have no value that is an error; waiting for them has.
impl Failed for u64 {
    const FAILED: Self = 0;
}

impl Failed for *const c_char {
    const FAILED: Self = c"EMP is broken".as_ptr();
}

/// A core passes a provider by that is not there.
impl Failed for *mut FiProvider {
    const FAILED: Self = std::ptr::null_mut();
}

/// Runs what C has called.
#[inline]
pub fn enter<R: Failed>(body: impl FnOnce() -> R) -> R {
    if BROKEN.load(Ordering::Relaxed) {
        return R::FAILED;
    }
    guard(&BROKEN, body)
}

#[inline]
fn guard<R: Failed>(broken: &AtomicBool, body: impl FnOnce() -> R) -> R {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(result) => result,
        Err(panic) => {
            broken.store(true, Ordering::Relaxed);
            say(panic.as_ref());
            // Dropping a payload could panic in turn.
            std::mem::forget(panic);
            R::FAILED
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
        let broken = AtomicBool::new(false);
        assert_eq!(guard(&broken, || 5 as c_int), 5);
        assert!(!broken.load(Ordering::Relaxed));
        assert_eq!(guard(&broken, || -> isize { panic!("thrown by a test") }), -256);
        assert!(broken.load(Ordering::Relaxed));
    }

    /// A body that is not in [`enter`] could unwind into C.
    #[test]
    fn every_entry_point_is_guarded() {
        let sources = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src")).unwrap();
        let mut seen = 0;
        for path in sources.map(|entry| entry.unwrap().path()) {
            let text = std::fs::read_to_string(&path).unwrap();
            for function in text.split("extern \"C\" fn ").skip(1) {
                // Types of function pointers have no name; two functions do nothing at all.
                let name: String = function.chars().take_while(|c| *c != '(').collect();
                let harmless = ["unsupported", "cleanup", "no_bind", "no_control", "no_tostr"];
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
