//! What a link's interface is like now: its MTU and its cable may change while the link is in use.

use std::io;
use std::os::fd::BorrowedFd;

use crate::system;

/// What a link's interface is like now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition<'a> {
    /// Its name.
    pub interface: &'a str,
    /// Its MTU in bytes.
    pub mtu: usize,
    /// Largest EMP frame, in bytes, that both the link and its interface take now.
    pub frame_bytes_max: usize,
    /// Why nothing can cross it: "is down", "has no carrier", "is gone", "is another one that this process cannot use", "has no service".
    pub trouble: Option<&'static str>,
}

impl<'a> Condition<'a> {
    /// Of an interface that is not there, with `headers` bytes of the MTU that are not the frame's, and frames of at most `most`.
    pub(crate) fn gone(interface: &'a str, headers: usize, most: usize) -> Self {
        Self { interface, mtu: most + headers, frame_bytes_max: most, trouble: Some(GONE) }
    }

    /// There is no such interface any more.
    pub fn is_gone(&self) -> bool {
        self.trouble == Some(GONE)
    }

    /// What carried its frames, another process, has ended.
    pub fn is_unserved(&self) -> bool {
        self.trouble == Some(NO_SERVICE)
    }

    /// Why nothing can cross it, for people: "interface eth0 is down".
    pub fn trouble(&self) -> Option<String> {
        self.trouble.map(|trouble| format!("interface {} {trouble}", self.interface))
    }
}

pub(crate) const GONE: &str = "is gone";

pub(crate) const NO_SERVICE: &str = "has no service";

/// Looks at an interface in the namespace of the socket `fd`: two system calls, 0.5 µs. `headers` bytes of its MTU are not
/// the frame's, and frames were of at most `most` bytes when the link was opened.
pub(crate) fn condition<'a>(
    fd: BorrowedFd<'_>,
    interface: &'a str,
    headers: usize,
    most: usize,
) -> Condition<'a> {
    let seen = system::interface_flags(fd, interface)
        .and_then(|flags| Ok((flags, system::interface_mtu(fd, interface)?)));
    judge(interface, seen, headers, most)
}

fn judge(
    interface: &str,
    seen: io::Result<(libc::c_int, usize)>,
    headers: usize,
    most: usize,
) -> Condition<'_> {
    let Ok((flags, mtu)) = seen else {
        return Condition::gone(interface, headers, most);
    };
    let trouble = trouble_of(flags);
    Condition { interface, mtu, frame_bytes_max: mtu.saturating_sub(headers).min(most), trouble }
}

/// Why nothing can cross an interface with these flags.
pub(crate) fn trouble_of(flags: libc::c_int) -> Option<&'static str> {
    match (flags & libc::IFF_UP, flags & libc::IFF_RUNNING) {
        (0, _) => Some("is down"),
        (_, 0) => Some("has no carrier"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_is_judged_by_flags_and_mtu() {
        let (up, running) = (libc::IFF_UP, libc::IFF_RUNNING);
        let of = |flags, mtu| judge("emp0", Ok((flags, mtu)), 28, 1472);
        assert_eq!(
            (of(up | running, 1500).frame_bytes_max, of(up, 9000).frame_bytes_max),
            (1472, 1472)
        );
        assert_eq!(of(up | running, 1000).frame_bytes_max, 972);
        assert_eq!(of(up | running, 1500).trouble, None);
        assert_eq!(of(up, 1500).trouble, Some("has no carrier"));
        assert_eq!(of(0, 1500).trouble, Some("is down"));
        let gone = judge("emp0", Err(io::Error::from_raw_os_error(libc::ENODEV)), 28, 1472);
        assert_eq!((gone.trouble, gone.frame_bytes_max), (Some("is gone"), 1472));
    }
}
