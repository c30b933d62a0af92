//! Waiting: threads that wait in calls, and descriptors on which applications wait by themselves.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::time::{Duration, Instant};

use emp_host::{Alarm, Endpoint, Node};

/// Threads that wait for what one object of a face will have: whoever of them makes progress may find what another one
/// waits for.
#[derive(Default)]
pub struct Waiters {
    waiting: AtomicU32,
}

/// A thread that waits, until this is dropped.
struct Waiting<'a>(&'a Waiters);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Waiters {
    /// Waits until `look` finds what it looks for, at most until `end` (`None`: without limit; a time that has passed: one
    /// look). `look` takes the completions of these endpoints of `node` and puts them where all threads find them; it returns
    /// what was found, and whether there was anything for others.
    pub fn wait<T>(
        &self,
        node: &Node,
        endpoints: &[&Endpoint],
        end: Option<Instant>,
        look: impl FnMut() -> (Option<T>, bool),
    ) -> Option<T> {
        self.wait_by(node, end, look, |nudges, left| {
            Endpoint::wait_completions_unless_nudged(endpoints, nudges, left);
        })
    }

    /// The same; between two looks, `sleep` waits for so long until there may be something, unless threads of the node were
    /// nudged more often than it is told.
    pub fn wait_by<T>(
        &self,
        node: &Node,
        end: Option<Instant>,
        mut look: impl FnMut() -> (Option<T>, bool),
        mut sleep: impl FnMut(u64, Option<Duration>),
    ) -> Option<T> {
        let mut waiting = None;
        loop {
            // Read before the look: what others find after it ends the wait.
            let nudges = node.nudges();
            let (found, news) = look();
            if news {
                self.tell(node, waiting.is_some());
            }
            if found.is_some() {
                return found;
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            if waiting.is_none() {
                self.waiting.fetch_add(1, Ordering::SeqCst);
                waiting = Some(Waiting(self));
                // What came between the look and the note that somebody waits was told to nobody. The note comes before
                // the next look in the order that all see, as in `tell` what was found comes before the note is read.
                fence(Ordering::SeqCst);
                continue;
            }
            sleep(nudges, left);
        }
    }

    /// True if threads wait: for who finds what they wait for under a lock that they hold after they began to, and before they look.
    #[inline]
    pub fn any(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Has waiting threads look again: something was found that is not for the finder, or what they wait for is over.
    #[inline]
    pub fn tell(&self, node: &Node, one_is_asking: bool) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > u32::from(one_is_asking) {
            node.nudge();
        }
    }
}

/// The end of a time-out that begins now; `None` if it never ends. Times beyond what a clock can show never end.
pub fn end_of(timeout: Option<Duration>) -> Option<Instant> {
    Instant::now().checked_add(timeout?)
}

/// A descriptor for an application's own `poll(2)`: readable when it was rung, and when frames have arrived that nobody has
/// taken yet. It says "look", not "there is something".
pub struct WaitFd {
    epoll: OwnedFd,
    alarm: Arc<Alarm>,
}

impl WaitFd {
    /// A new one, silent.
    ///
    /// # Errors
    ///
    /// No more descriptors are to be had.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes no pointers.
        let epoll = unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) };
        if epoll < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor was just made and belongs to no one else.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let fd = Self { epoll, alarm: Arc::new(Alarm::new()?) };
        fd.watch(fd.alarm.descriptor())?;
        Ok(fd)
    }

    /// The descriptor, for as long as this value lives.
    pub fn descriptor(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Makes it readable.
    #[inline]
    pub fn ring(&self) {
        self.alarm.ring();
    }

    /// Makes it unreadable, unless frames have arrived. Look for what may have rung it after this, not before.
    pub fn hush(&self) {
        self.alarm.hush();
    }

    /// Makes it readable whenever `other` is. Once is enough.
    fn watch(&self, other: RawFd) -> io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        // SAFETY: the event lives for the call.
        let result = unsafe {
            libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, other, &raw mut event)
        };
        let error = io::Error::last_os_error();
        if result == 0 || error.raw_os_error() == Some(libc::EEXIST) { Ok(()) } else { Err(error) }
    }

    /// Has everything ring that may end an operation of these endpoints of a node.
    ///
    /// # Errors
    ///
    /// A link cannot be watched: the guardian looks after it within some milliseconds, so waiting takes longer.
    pub fn join(&self, node: &Node, endpoints: &[&Endpoint]) -> io::Result<()> {
        for endpoint in endpoints {
            endpoint.add_alarm(&self.alarm);
        }
        node.link_descriptors().into_iter().try_for_each(|link| self.watch(link))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use emp_host::NodeId;
    use emp_host::link::Fabric;
    use std::sync::Mutex;

    /// One of two threads finds what the other one waits for: it is told, and does not sleep on.
    #[test]
    fn what_another_thread_found_ends_a_wait() {
        let fabric = Fabric::new(1).unwrap();
        let link = fabric.link(0, NodeId::from_name("ann").destination_tag()).unwrap();
        let node = Node::builder().name("ann").link(link).start().unwrap();
        let endpoint = node.endpoint(1).unwrap();
        let (waiters, found) = (Waiters::default(), Mutex::new(false));
        let start = Instant::now();
        let end = end_of(Some(Duration::from_secs(20)));
        std::thread::scope(|scope| {
            let wait = || {
                waiters.wait(&node, &[&endpoint], end, || {
                    (found.lock().unwrap().then_some("found"), false)
                })
            };
            let waiting = scope.spawn(wait);
            // Long enough for the thread to fall asleep; correct whether it does or not.
            std::thread::sleep(Duration::from_millis(50));
            *found.lock().unwrap() = true;
            waiters.tell(&node, false);
            assert_eq!(waiting.join().unwrap(), Some("found"));
        });
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn waits_end_with_their_time() {
        let fabric = Fabric::new(1).unwrap();
        let link = fabric.link(0, NodeId::from_name("bob").destination_tag()).unwrap();
        let node = Node::builder().name("bob").link(link).start().unwrap();
        let endpoint = node.endpoint(1).unwrap();
        let waiters = Waiters::default();
        let mut looks = 0;
        let nothing = waiters.wait::<()>(&node, &[&endpoint], Some(Instant::now()), || {
            looks += 1;
            (None, false)
        });
        assert_eq!((nothing, looks), (None, 1));
        let end = end_of(Some(Duration::from_millis(30)));
        let start = Instant::now();
        assert_eq!(waiters.wait::<()>(&node, &[&endpoint], end, || (None, false)), None);
        assert!(start.elapsed() >= Duration::from_millis(30));
        assert_eq!(waiters.waiting.load(Ordering::SeqCst), 0);
        assert_eq!(end_of(Some(Duration::MAX)), None);
        assert_eq!(end_of(None), None);
    }
}
