//! Who makes turns, and when: the lock, callers that wait, the guardian, the thread; and the seat, by which the API rooms reach them.

pub(crate) mod compose;
pub(crate) mod duty;
pub(crate) mod guardian;
pub(crate) mod lock;
pub(crate) mod seat;
pub(crate) mod thread;
pub(crate) mod wait;
