//! For how long a frame had been here before anyone looked: by the kernel's time stamps, which are times of day.

use std::os::fd::BorrowedFd;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::{FrameSink, system};

/// Tells the sink how long the frame that was stamped so, as a time of day since 1970, has waited. A clock that was set back meanwhile says nothing.
pub(crate) fn tell(sink: &mut dyn FrameSink, stamp: Duration) {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    if let Some(waited) = now.checked_sub(stamp) {
        sink.waited(waited);
    }
}

/// The same of what was received last by this socket, if the sink asks: one system call.
#[inline]
pub(crate) fn tell_of_last(sink: &mut dyn FrameSink, socket: BorrowedFd<'_>) {
    if sink.asks_what_waited()
        && let Some(stamp) = system::last_stamp(socket)
    {
        tell(sink, stamp);
    }
}
