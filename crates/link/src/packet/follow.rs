//! Following the interface while the link is in use: its state, its MTU and its address may change, and it may go and come back as another
//! one of the same name (deleted and made again, moved to another namespace and back, a driver that is loaded anew). One that is given
//! another name is the same interface, and the link's name changes with it.
//!
//! A packet socket is bound to one interface for good, and in a group it cannot be bound again. So the link opens another socket, with a ring
//! and a place in the new interface's group; who sleeps on the link's descriptor notices nothing of that.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_rings::PacketRing;
use emp_wire::LinkAddress;

use super::loan::{Asking, Loan};
use super::{PacketLink, PacketOptions, open};
use crate::condition::{Condition, GONE, trouble_of};
use crate::namespace::Namespace;
use crate::netlink::Changes;
use crate::{device, system};

/// How often the link looks whether its group still knows it, and, where the kernel does not tell of changes, at the interface: the group's
/// table is 3 KB, and nobody else's writing in it is the usual case.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Sleeps that ended without a frame for each look whether an error or a change of the interface ended them: mostly it was another
/// descriptor of whoever slept, and the look takes two system calls. Until it is looked, sleeps end at once.
const FRAMELESS_PER_LOOK: u32 = 4;

/// Another interface has the name, and this process may not open sockets on it, or looks from another namespace.
const UNUSABLE: &str = "is another one now, which this process cannot use";

/// What is known of the interface.
pub(super) struct Follower {
    options: PacketOptions,
    /// Interface numbers mean something in this namespace only.
    home: Option<Namespace>,
    /// `None`: this process may not be told, so it looks.
    changes: Option<Changes>,
    /// They have changed, and nobody was told.
    news: bool,
    /// Readable when a frame is there, or a change of the interface.
    ready: OwnedFd,
    /// Somebody has slept, or is about to.
    slept: Cell<bool>,
    /// Sleeps without a frame since the last look.
    frameless: u32,
    /// There may be something new.
    due: bool,
    looked: Instant,
    mtu: usize,
    trouble: Option<&'static str>,
    notice: Option<String>,
    /// The service that lent the socket is gone, which was said.
    forsaken: bool,
    /// The service was asked for another socket.
    asking: Option<Asking>,
}

impl Follower {
    /// Of a link that was just opened by this socket.
    pub(super) fn new(
        options: &PacketOptions,
        socket: BorrowedFd<'_>,
        mtu: usize,
    ) -> io::Result<Self> {
        let changes = Changes::open().ok();
        let watched = changes.as_ref().map(Changes::descriptor);
        Ok(Self {
            options: options.clone(),
            home: Namespace::current(),
            ready: system::any_of(watched.into_iter().chain([socket]))?,
            changes,
            slept: Cell::new(false),
            frameless: 0,
            due: false,
            news: false,
            looked: Instant::now(),
            mtu,
            trouble: None,
            notice: None,
            forsaken: false,
            asking: None,
        })
    }

    /// The descriptor to sleep on. Always the same one.
    pub(super) fn descriptor(&self) -> BorrowedFd<'_> {
        self.ready.as_fd()
    }

    pub(super) fn note_sleep(&self) {
        self.slept.set(true);
    }

    /// There was no frame. True if a sleep has ended before, and it is time to look why.
    #[inline]
    pub(super) fn looks_why_awake(&mut self) -> bool {
        if !self.slept.get() {
            return false;
        }
        self.slept.set(false);
        self.frameless += 1;
        let looks = self.frameless >= FRAMELESS_PER_LOOK;
        if looks {
            self.frameless = 0;
        }
        looks
    }

    /// Takes what the kernel says of changes.
    #[cold]
    pub(super) fn listen(&mut self) {
        let changed = self.changes.as_ref().is_some_and(Changes::take);
        self.due |= changed;
        self.news |= changed;
        self.due |= self.asking.is_some();
    }

    /// The interface is not what it was, by an error of a call.
    pub(super) fn suspect(&mut self) {
        // Of one that is down or gone more errors say nothing new, and the kernel tells when it is back.
        self.due |= self.trouble.is_none();
    }

    /// True if somebody should ask for [`PacketLink::condition`] soon.
    pub(super) fn is_due(&self) -> bool {
        self.due
    }

    /// Whether interfaces have changed, any of them, since this was last asked. `None`: the kernel does not tell.
    pub(super) fn take_news(&mut self) -> Option<bool> {
        self.changes.as_ref()?;
        Some(std::mem::take(&mut self.news))
    }

    pub(super) fn take_notice(&mut self) -> Option<String> {
        self.notice.take()
    }

    fn add_notice(&mut self, line: String) {
        self.notice = Some(match self.notice.take() {
            Some(first) => format!("{first}; {line}"),
            None => line,
        });
    }

    /// Frames have at most `most` bytes.
    pub(super) fn condition<'a>(&self, interface: &'a str, most: usize) -> Condition<'a> {
        Condition {
            interface,
            mtu: self.mtu,
            frame_bytes_max: self.mtu.min(most),
            trouble: self.trouble,
        }
    }

    fn is_at_home(&self) -> bool {
        Namespace::is_here(self.home)
    }
}

impl PacketLink {
    /// Looks at the interface, if there is a reason to.
    pub(super) fn follow(&mut self) {
        self.follower.listen();
        let now = Instant::now();
        let late = now.saturating_duration_since(self.follower.looked) >= LOOK_EVERY;
        let blind = self.follower.changes.is_none();
        if late || blind || self.follower.due {
            (self.follower.due, self.follower.looked) = (false, now);
            self.look(late);
        }
    }

    /// A socket stays bound to an interface that is renamed: the link is that one's, whoever has the old name now.
    fn take_name(&mut self) {
        let fd = self.socket.as_fd();
        let now = bound_interface(fd).and_then(|number| system::interface_name(fd, number));
        let Some(now) = now.filter(|now| *now != self.capabilities.interface) else { return };
        let line = format!("packet on {}: its interface is {now} now", self.capabilities.interface);
        self.follower.options.interface.clone_from(&now);
        self.capabilities.interface = now;
        self.follower.add_notice(line);
    }

    fn look(&mut self, at_group: bool) {
        self.take_name();
        let name = &self.capabilities.interface;
        let Ok((index, mac)) = device::identity(self.socket.as_fd(), name) else {
            self.follower.trouble = Some(GONE);
            return;
        };
        let is_lost = at_group && self.is_lost();
        let is_bound = bound_interface(self.socket.as_fd()) == Some(index);
        let asks = self.follower.asking.is_some();
        if !is_bound || is_lost || asks {
            let again = if self.loan.is_some() {
                self.borrow_again(index, is_bound)
            } else {
                self.bind_again(index, is_bound)
            };
            if let Err(problem) = again {
                if !is_bound && self.follower.trouble != Some(UNUSABLE) {
                    self.follower.trouble = Some(UNUSABLE);
                    self.follower.notice = Some(problem);
                } else if is_bound && !std::mem::replace(&mut self.follower.forsaken, true) {
                    self.follower.notice =
                        Some(format!("{problem}: goes on with the socket it has"));
                }
                return;
            }
        }
        if mac != self.framing.mac {
            self.take_address(mac);
        }
        let (fd, name) = (self.socket.as_fd(), &self.capabilities.interface);
        let seen = system::interface_flags(fd, name)
            .and_then(|flags| Ok((flags, system::interface_mtu(fd, name)?)));
        match seen {
            Ok((flags, mtu)) => {
                (self.follower.trouble, self.follower.mtu) = (trouble_of(flags), mtu)
            }
            Err(_) => self.follower.trouble = Some(GONE),
        }
    }

    /// Whether the group does not know this member, or the service does not.
    fn is_lost(&mut self) -> bool {
        let group = self.group.as_mut().is_some_and(|group| group.is_lost());
        group || self.loan.as_ref().is_some_and(Loan::is_over)
    }

    /// Asks the service for another socket, on the interface of this number, and takes it in place of this one's when it is there. Nothing
    /// here waits for the service.
    fn borrow_again(&mut self, index: u32, in_use: bool) -> Result<(), String> {
        let Follower { options, ready, asking, .. } = &mut self.follower;
        let mut asked = match asking.take() {
            Some(asked) => asked,
            None => {
                // The service takes the tag from a socket whose connection is closed.
                if let Some(loan) = &mut self.loan {
                    loan.end();
                }
                let asked = Asking::start(options).map_err(|error| error.to_string())?;
                // Failing means that somebody who sleeps is not woken by the answer, and looks later.
                let _ = system::add_to(ready.as_fd(), asked.descriptor());
                asked
            }
        };
        let Some((socket, ring, loan)) = asked.poll(options).map_err(|error| error.to_string())?
        else {
            *asking = Some(asked);
            return Ok(());
        };
        system::add_to(ready.as_fd(), socket.as_fd()).map_err(|error| error.to_string())?;
        let drops = PacketRing::drops_since_last(self.socket.as_fd()).unwrap_or(0);
        *self.ring_drops.get_mut() += u64::from(drops);
        (self.ring, self.socket, self.loan) = (ring, socket, Some(loan));
        self.follower.forsaken = false;
        let name = open::name_of(&self.follower.options);
        let why = if in_use { "the service is another" } else { "another interface has this name" };
        self.follower.notice = Some(format!("{name}: lent again, as {why} (number {index})"));
        Ok(())
    }

    /// Opens another socket, on the interface of this number, in place of this one's; `in_use`: that is on the same interface, whose group does not
    /// know it.
    fn bind_again(&mut self, index: u32, in_use: bool) -> Result<(), String> {
        let Follower { options, ready, .. } = &self.follower;
        let failed = |(step, error): (&str, io::Error)| {
            format!("packet on {}: {step}: {error}", options.interface)
        };
        if !self.follower.is_at_home() {
            return Err(failed((
                "from another network namespace",
                io::ErrorKind::Unsupported.into(),
            )));
        }
        // Frames do not become longer than the node was told, nor the ring's slots.
        let opened = open::bound_socket(options, index, self.capabilities.frame_bytes_max);
        let (socket, ring) = opened.map_err(failed)?;
        system::add_to(ready.as_fd(), socket.as_fd())
            .map_err(|error| failed(("watching the socket", error)))?;
        if let Some(mut group) = self.group.take() {
            // Failing means that the table names one member too many, until somebody mends it.
            let _ = if in_use { group.leave(self.socket.as_fd()) } else { group.abandon() };
        }
        let drops = PacketRing::drops_since_last(self.socket.as_fd()).unwrap_or(0);
        *self.ring_drops.get_mut() += u64::from(drops);
        // The old one is closed before the new one joins: a place in the group that is left is the last member's.
        (self.ring, self.socket) = (ring, socket);
        self.group = open::joined(&self.follower.options, self.socket.as_fd(), index);
        if !in_use {
            let name = &self.capabilities.interface;
            self.follower.notice = Some(format!(
                "packet on {name}: bound again, to the interface that has this name now (number {index})"
            ));
        }
        Ok(())
    }

    /// The interface has another Ethernet address: frames come from there from now on.
    fn take_address(&mut self, mac: [u8; 6]) {
        let before = std::mem::replace(&mut self.capabilities.address, LinkAddress::mac(mac));
        self.framing.mac = mac;
        let Self { capabilities, follower, .. } = self;
        let line = format!(
            "packet on {}: its address is {} now, {before} before; peers are told",
            capabilities.interface, capabilities.address
        );
        follower.add_notice(line);
    }
}

/// The interface that a packet socket is bound to. `None`: it is gone.
fn bound_interface(socket: BorrowedFd<'_>) -> Option<u32> {
    system::bound_address(socket).ok()?.interface()
}
