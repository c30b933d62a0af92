//! A thread with a table of descriptors of its own.
//!
//! An engine reaches for memory of its client's, and a page of that may be one that somebody serves: a file of FUSE's whose server does not answer
//! keeps the thread in the kernel, and not even SIGKILL ends it. With a table that it shares, all that this process has open would then stay open
//! after its end: the bells by which other clients learn of that, and the raw sockets. So it has a table of its own, with what it needs.
//!
//! # Invariant
//!
//! A [`Share`] owns descriptors of the thread that made it, by number, whose owners have moved to the other thread. Whoever calls
//! [`leave`] uses no others from then on but those that it opens itself.

use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Standard input, output and error stay.
const STANDARD: RawFd = 2;

/// Descriptors that another thread takes over.
pub(super) struct Share {
    numbers: Vec<RawFd>,
    taken: Receiver<bool>,
}

/// The other thread's word.
pub(super) struct Taker {
    numbers: Vec<RawFd>,
    say: Sender<bool>,
}

/// Of descriptors whose owners move to another thread.
pub(super) fn share(of: &[BorrowedFd<'_>]) -> (Share, Taker) {
    let numbers: Vec<_> = of.iter().map(AsRawFd::as_raw_fd).collect();
    let (say, taken) = channel();
    (Share { numbers: numbers.clone(), taken }, Taker { numbers, say })
}

impl Share {
    /// Waits until the other thread has a table of its own, and closes them in this one. It has none if the kernel has no such call (before
    /// 5.9), or if it has ended.
    pub(super) fn close(self) {
        if self.taken.recv() == Ok(true) {
            for number in self.numbers {
                // SAFETY: open in this table since before the other thread copied it, and nobody's here: its owner closes the other table's.
                drop(unsafe { OwnedFd::from_raw_fd(number) });
            }
        }
    }
}

impl Taker {
    /// Takes them over: from now on this thread has these descriptors, `others`, and those that it opens.
    pub(super) fn leave(self, others: &[BorrowedFd<'_>]) {
        let mut keep = self.numbers;
        keep.extend(others.iter().map(AsRawFd::as_raw_fd));
        keep.sort_unstable();
        let last = keep.last().copied().unwrap_or(STANDARD);
        let mut ranges = Vec::new();
        let mut from = STANDARD + 1;
        for number in keep {
            ranges.push((from, number - 1));
            from = from.max(number + 1);
        }
        // With the first call it has a table of its own, or none does anything.
        let apart = close_range(last + 1, RawFd::MAX, libc::CLOSE_RANGE_UNSHARE);
        if apart {
            for (from, to) in ranges.into_iter().filter(|(from, to)| from <= to) {
                close_range(from, to, 0);
            }
        }
        // Nobody waits for it any more only if that thread has panicked.
        let _ = self.say.send(apart);
    }
}

fn close_range(from: RawFd, to: RawFd, flags: libc::c_uint) -> bool {
    // SAFETY: no pointers. What it closes is in a table that is this thread's alone, since the first of these calls, where nobody owns it.
    unsafe { libc::syscall(libc::SYS_close_range, from, to, flags) == 0 }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn what_is_taken_over_is_the_other_threads_alone() {
        let (mut near, far) = UnixStream::pair().expect("two ends");
        let (mut other, kept) = UnixStream::pair().expect("two more");
        let (share, taker) = share(&[far.as_fd()]);
        let (go, gone) = channel::<()>();
        let thread = std::thread::spawn(move || {
            let mut far = far;
            taker.leave(&[]);
            // The other pair is not in this table.
            let number = kept.as_raw_fd();
            std::mem::forget(kept);
            let at = format!("/proc/thread-self/fd/{number}");
            assert!(std::fs::read_link(at).is_err());
            far.write_all(b"here").expect("it is open");
            let _ = gone.recv();
        });
        share.close();
        let mut bytes = [0; 4];
        near.read_exact(&mut bytes).expect("it comes");
        assert_eq!(&bytes, b"here");
        other.set_nonblocking(true).expect("set");
        let open = other.read(&mut bytes).expect_err("this table has its other end");
        assert_eq!(open.kind(), std::io::ErrorKind::WouldBlock);
        drop(go);
        thread.join().expect("ends");
        assert_eq!(near.read(&mut bytes).expect("its end is seen"), 0);
    }
}
