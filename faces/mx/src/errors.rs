//! The boundary to C, and what happens when a call fails: the error handler is asked, the endpoint's or the process's.

use std::ffi::{CStr, CString, c_char};
use std::sync::atomic::{AtomicUsize, Ordering};

use emp_face::boundary::Failed;
pub use emp_face::boundary::enter_or_fail as enter;
use emp_face::log;

use crate::abi::{ErrorHandler, RETURNS, Return, STATUSES, StatusCode};
use crate::endpoint::Endpoint;
use crate::open::endpoint;
use crate::process::library;

impl Failed for Return {
    fn failed() -> Self {
        Self::BAD_BAD_BAD
    }
}

/// The handler for calls that are not about an endpoint; 0: none was set, so errors are fatal.
static HANDLER: AtomicUsize = AtomicUsize::new(0);

fn handler_of(bits: usize) -> Option<ErrorHandler> {
    // SAFETY: the bits are those of a handler or zero, which is none.
    unsafe { std::mem::transmute::<usize, Option<ErrorHandler>>(bits) }
}

/// The process's handler.
fn handler() -> ErrorHandler {
    handler_of(HANDLER.load(Ordering::Acquire)).unwrap_or(errors_are_fatal)
}

/// Runs a call; if it fails, asks the handler what to return. Nothing may be locked: a handler may call the library.
#[inline]
pub fn call(endpoint: Option<&Endpoint>, body: impl FnOnce() -> Result<(), Return>) -> Return {
    match body() {
        Ok(()) => Return::SUCCESS,
        Err(code) => report(endpoint, code),
    }
}

/// The same for a call about an endpoint.
#[inline]
pub fn call_on(handle: u64, body: impl FnOnce(&Endpoint) -> Result<(), Return>) -> Return {
    match endpoint(handle) {
        Some(endpoint) => call(Some(&endpoint), || body(&endpoint)),
        None => report(None, library().err().unwrap_or(Return::BAD_ENDPOINT)),
    }
}

#[cold]
fn report(endpoint: Option<&Endpoint>, code: Return) -> Return {
    let handler = endpoint.and_then(|endpoint| endpoint.error_handler).unwrap_or_else(handler);
    // Handlers take a text that they might write to.
    let mut text = CString::new(format!("MX: {}", describe(code).to_string_lossy()))
        .unwrap_or_default()
        .into_bytes_with_nul();
    // SAFETY: the handler is one that the application has set, or one of the two below; the text ends with a zero.
    unsafe { handler(text.as_mut_ptr().cast(), code) }
}

/// Prints and ends the process.
///
/// # Safety
///
/// `text` is null or a text that ends with a zero.
unsafe extern "C" fn errors_are_fatal(text: *mut c_char, code: Return) -> Return {
    enter(|| {
        // SAFETY: a text, or null from an application that calls this itself.
        let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy());
        log::warn(&format!("{} (code {}): ending", text.unwrap_or_default(), code.0));
        // SAFETY: takes no pointers. As MX does, with the handlers of the process's end.
        unsafe { libc::exit(-1) }
    })
}

/// The code becomes what the call returns.
///
/// # Safety
///
/// None is needed: `unsafe` as the type of handlers is.
unsafe extern "C" fn errors_return(_text: *mut c_char, code: Return) -> Return {
    enter(|| code)
}

/// The handlers that applications name. Data, not functions, in C: programs that were linked elsewhere may have copies.
#[unsafe(no_mangle)]
pub static MX_ERRORS_ARE_FATAL: ErrorHandler = errors_are_fatal;
#[unsafe(no_mangle)]
pub static MX_ERRORS_RETURN: ErrorHandler = errors_return;

/// Returns the handler before; null sets the first one again.
#[unsafe(no_mangle)]
pub extern "C" fn mx_set_error_handler(new: Option<ErrorHandler>) -> Option<ErrorHandler> {
    enter(|| {
        let before = handler();
        HANDLER.store(new.map_or(0, |new| new as usize), Ordering::Release);
        Some(before)
    })
}

fn describe(code: Return) -> &'static CStr {
    let found = RETURNS.iter().find(|(known, _, _)| *known == code);
    found.map_or(c"unknown return code", |(_, _, text)| *text)
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_strerror(code: Return) -> *const c_char {
    enter(|| describe(code).as_ptr())
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_strstatus(code: StatusCode) -> *const c_char {
    enter(|| {
        let found = STATUSES.iter().find(|(known, _, _)| *known == code);
        found.map_or(c"unknown status code", |(_, _, text)| *text).as_ptr()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_face::boundary;

    #[test]
    fn every_entry_point_is_guarded() {
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let seen = boundary::check_entry_points(sources, &[]).unwrap();
        assert!(seen >= 50, "only {seen} entry points were found");
    }

    #[test]
    fn codes_have_texts() {
        assert_eq!(describe(Return::TIMEOUT), c"timed out");
        assert_eq!(describe(Return(99)), c"unknown return code");
        assert_eq!(describe(Return(-1)), c"unknown return code");
    }

    #[test]
    fn handlers_are_set_and_given_back() {
        let returning = mx_set_error_handler(Some(MX_ERRORS_RETURN)).unwrap();
        assert_eq!(returning as usize, errors_are_fatal as *const () as usize);
        assert_eq!(call(None, || Err(Return::BUSY)), Return::BUSY);
        assert_eq!(call(None, || Ok(())), Return::SUCCESS);
        let before = mx_set_error_handler(None).unwrap();
        assert_eq!(before as usize, errors_return as *const () as usize);
    }
}
