//! The boundary to C, and what a call that fails says.

use emp_face::boundary;
use emp_face::log;

use crate::abi::Return;

/// Runs what C has called.
#[inline]
pub fn enter(body: impl FnOnce() -> Result<(), Return>) -> Return {
    let body = || match body() {
        Ok(()) => Return::SUCCESS,
        Err(code) => code,
    };
    boundary::enter(body, |_| Return::ERROR_RESOURCE)
}

/// The same for a call that returns a pointer: null, if it fails.
pub fn enter_or_null<T>(body: impl FnOnce() -> Result<*mut T, Return>) -> *mut T {
    boundary::enter(|| body().unwrap_or(std::ptr::null_mut()), |_| std::ptr::null_mut())
}

/// The same for a call that returns nothing.
pub fn enter_silently(body: impl FnOnce() -> Result<(), Return>) {
    boundary::enter(
        || {
            let _ = body();
        },
        |_| (),
    );
}

/// A mistake of the caller's that a return code does not tell: one line.
#[cold]
pub fn wrong(what: &str) -> Return {
    log::warn(&format!("VIPL: {what}"));
    Return::INVALID_PARAMETER
}

/// Something that is not to be had: one line.
#[cold]
pub fn lacking(what: &dyn std::fmt::Display) -> Return {
    log::warn(&format!("VIPL: {what}"));
    Return::ERROR_RESOURCE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_point_is_guarded() {
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        // All 46 functions of the header.
        assert_eq!(boundary::check_entry_points(sources, &[]), Ok(46));
    }

    #[test]
    fn what_a_body_returns_c_gets() {
        assert_eq!(enter(|| Ok(())), Return::SUCCESS);
        assert_eq!(enter(|| Err(Return::NO_MATCH)), Return::NO_MATCH);
        assert_eq!(wrong("a test"), Return::INVALID_PARAMETER);
        assert_eq!(lacking(&"a test"), Return::ERROR_RESOURCE);
    }
}
