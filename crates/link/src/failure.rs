//! What an error of the system means for the frame that met it.

use std::io;

/// What to do with a frame whose send failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendFailure {
    /// No room now: offer the frame again later.
    Full,
    /// A signal came between: try again at once.
    Again,
    /// This frame can never be sent.
    Refused,
    /// The frame is lost, as on a bad cable, and the link lives on.
    Lost,
}

impl SendFailure {
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.raw_os_error() {
            // EWOULDBLOCK is EAGAIN on Linux.
            Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Self::Full,
            Some(libc::EINTR) => Self::Again,
            Some(libc::EMSGSIZE | libc::EAFNOSUPPORT | libc::EDESTADDRREQ) => Self::Refused,
            _ => Self::Lost,
        }
    }
}
