//! The boundary to C, and what calls return.

use std::ffi::{CStr, c_char, c_int};

use emp_face::boundary::Failed;
pub use emp_face::boundary::enter_or_fail as enter;
use emp_host::{PostError, Status};

use crate::abi::{CODES, Code};
use crate::library::{Library, library};

impl Failed for Code {
    fn failed() -> Self {
        Self::BROKEN
    }
}

/// Runs a call of a library that is initialized.
#[inline]
pub fn call(body: impl FnOnce(&Library) -> Result<(), Code>) -> Code {
    count(|library| body(library).map(|()| 0))
}

/// The same for calls that return a number.
#[inline]
pub fn count(body: impl FnOnce(&Library) -> Result<c_int, Code>) -> Code {
    match library().and_then(|library| body(&library)) {
        Ok(number) => Code(number),
        Err(code) => code,
    }
}

impl Code {
    /// Why an operation has failed that the network took; `None`: it has not.
    pub fn of(status: Status) -> Option<Self> {
        Some(match status {
            Status::Ok => return None,
            // Whoever is found under a key that nobody else can have drawn has unexported the buffer, or never exported it.
            Status::BadKey
            | Status::BadGeneration
            | Status::OutOfBounds
            | Status::NoRights
            | Status::Abandoned => Self::STALE,
            Status::PeerRestarted => Self::RESTARTED,
            Status::Unreachable | Status::NotFound | Status::GivenUp => Self::UNREACHABLE,
            Status::PeerClosed | Status::PeerEnded | Status::NoEndpoint => Self::CLOSED,
            Status::EndpointClosed | Status::Cancelled => Self::FINALIZED,
            Status::MemoryFault | Status::Truncated | Status::TooLong | Status::ReceiverFull => {
                Self::NO_RESOURCES
            }
        })
    }

    /// Why the network does not take an operation.
    pub const fn refused(error: PostError) -> Self {
        match error {
            PostError::Closing => Self::FINALIZED,
            _ => Self::NO_RESOURCES,
        }
    }
}

fn describe(code: c_int) -> &'static CStr {
    let found = CODES.iter().find(|(known, _)| known.0 == code);
    found.map_or(c"unknown error", |(_, text)| *text)
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_error(code: c_int) -> *const c_char {
    enter(|| describe(code).as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_face::boundary;

    #[test]
    fn every_entry_point_is_guarded() {
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let seen = boundary::check_entry_points(sources, &[]).unwrap();
        assert!(seen >= 25, "only {seen} entry points were found");
    }

    #[test]
    fn codes_have_texts() {
        assert_eq!(describe(-13), c"timed out");
        assert_eq!(describe(0), c"success");
        assert_eq!(describe(5), c"unknown error");
    }
}
