//! How operations end, in libfabric's terms.

use std::ffi::CStr;

use emp_host::{PostError, Status};

use crate::bindings::error;

/// Error number, the provider's own number, and its text.
const TABLE: [(Status, i32, &CStr); 18] = [
    (Status::Truncated, error::TRUNC, c"message longer than the buffer"),
    (Status::Cancelled, libc::ECANCELED, c"cancelled"),
    (Status::Unreachable, libc::EHOSTUNREACH, c"peer unreachable"),
    (Status::PeerRestarted, libc::ECONNRESET, c"peer was restarted"),
    (
        Status::GivenUp,
        libc::ECONNRESET,
        c"peer heard nothing of this node for too long and gave it up",
    ),
    (Status::PeerClosed, libc::ECONNRESET, c"peer closed its node"),
    (Status::NoEndpoint, libc::ECONNREFUSED, c"peer has no such endpoint"),
    (Status::EndpointClosed, libc::ECANCELED, c"endpoint closed"),
    (Status::MemoryFault, libc::EFAULT, c"memory could not be reached"),
    (Status::Abandoned, libc::EIO, c"receiver gave the message up"),
    (Status::BadKey, error::NOKEY, c"target has no region of this key"),
    (Status::BadGeneration, error::NOKEY, c"target's region of this key is another one"),
    (Status::OutOfBounds, libc::EINVAL, c"operation reaches beyond the target's region"),
    (Status::NoRights, libc::EACCES, c"target's region does not allow the operation"),
    (Status::TooLong, libc::EMSGSIZE, c"operation does not fit one of the peer's frames"),
    (
        Status::ReceiverFull,
        libc::ENOBUFS,
        c"receiver has as many unexpected messages as it may (FI_EMP_UNEXPECTED), and receives none of them",
    ),
    (Status::NotFound, libc::EHOSTUNREACH, c"no such node was found"),
    (Status::PeerEnded, libc::ECONNRESET, c"peer's process has ended"),
];

/// The error numbers (general, own) of an end; `None` if all went well.
#[inline]
pub fn failure(status: Status) -> Option<(i32, i32)> {
    (status != Status::Ok).then(|| numbers(status))
}

#[cold]
fn numbers(status: Status) -> (i32, i32) {
    let place = TABLE.iter().position(|(known, _, _)| *known == status);
    place.map_or((libc::EIO, 0), |place| (TABLE[place].1, place as i32 + 1))
}

/// The text of an own number.
pub fn describe(detail: i32) -> &'static CStr {
    let place = usize::try_from(detail).ok().and_then(|detail| detail.checked_sub(1));
    place.and_then(|place| TABLE.get(place)).map_or(c"no details", |(_, _, text)| *text)
}

/// What a call returns whose operation could not be posted.
#[cold]
pub fn refusal(error: PostError) -> isize {
    let number = match error {
        PostError::Busy | PostError::PoolFull => libc::EAGAIN,
        PostError::Exhausted => libc::ENOBUFS,
        PostError::TooLong => libc::EMSGSIZE,
        PostError::NoClaim => libc::ENOMSG,
        PostError::TooManyPeers => libc::ENOMEM,
        PostError::MemoryFault => libc::EFAULT,
        PostError::NoEndpoint | PostError::Closing => error::OPBADSTATE,
        PostError::NoDestination => libc::EINVAL,
        PostError::KeyTaken => error::NOKEY,
        PostError::TooManyRegions | PostError::TooManyEndpoints => libc::ENOSPC,
        PostError::Unsupported | PostError::NotOnBoard => libc::EOPNOTSUPP,
    };
    -(number as isize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_a_text() {
        assert_eq!(failure(Status::Ok), None);
        for (status, number, text) in TABLE {
            let (error, detail) = failure(status).unwrap();
            assert_eq!((error, describe(detail)), (number, text));
        }
        assert_eq!(describe(0), c"no details");
        assert_eq!(describe(-1), c"no details");
        assert_eq!(describe(i32::MAX), c"no details");
    }
}
