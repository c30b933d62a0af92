//! Who makes turns, and when: the lock, callers that wait, the guardian, the thread.

pub(crate) mod guardian;
pub(crate) mod lock;
pub(crate) mod thread;
pub(crate) mod wait;
