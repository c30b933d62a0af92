//! Which network namespace a thread is in.

use std::fs;
use std::os::unix::fs::MetadataExt;

/// A network namespace: interface numbers mean something in it only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Namespace(u64, u64);

impl Namespace {
    /// The calling thread's, if it can be known.
    pub(crate) fn current() -> Option<Self> {
        let file = fs::metadata("/proc/thread-self/ns/net").ok()?;
        Some(Self(file.dev(), file.ino()))
    }

    /// The number of the calling thread's (`lsns` shows it); 0 if it can't be known.
    pub(crate) fn number() -> u64 {
        Self::current().map_or(0, |Self(_, number)| number)
    }

    /// Whether the calling thread is in it.
    pub(crate) fn is_here(home: Option<Self>) -> bool {
        home.is_some() && home == Self::current()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_knows_where_it_is() {
        assert!(Namespace::is_here(Namespace::current()));
        assert!(!Namespace::is_here(None) && !Namespace::is_here(Some(Namespace(0, 0))));
    }
}
