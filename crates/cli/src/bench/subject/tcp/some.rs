//! What a socket that does not block says.

use std::io::ErrorKind;

use anyhow::Context;

/// Makes "not now" a value; it is the one thing that a spinning socket says all the time.
#[inline]
pub(super) fn some(result: std::io::Result<usize>) -> anyhow::Result<Option<usize>> {
    match result {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error).context("TCP connection"),
    }
}
