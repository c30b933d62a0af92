//! The service's side of lent sockets: what it has lent of one interface, and the group that these sockets form (decision 73).
//!
//! All sockets of the group are made here, in one process, so that the order in which the kernel has them, on which the group's program
//! goes, is known and needs no table beside it:
//!
//! - a socket that joins is the last; when one leaves, the last takes its place. A holder can't leave but by closing the socket, and
//!   while this side has it as well, it leaves when this side closes it. A holder may keep it after that: then it is *kept*, counts on,
//!   and is looked after until it is gone;
//! - when the interface goes down the kernel takes all out, and when it comes up it takes them in again in the order in which they were
//!   made.
//!
//! The first socket is this side's own: it has the program set, which a holder can't, as its filter is locked; and it is given what is for
//! nobody here. Its own filter drops all. The filter of a lent socket takes its node's frames alone, so that others' don't reach it
//! even while the program is being changed. Each ring stays mapped here as well: while it is, the kernel refuses another, with
//! which a holder could change the order, and take more of the kernel's memory.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_rings::PacketRing;

use super::demux::{MEMBERS_MAX, program_behind_first};
use super::open::{self, Step};
use super::{PacketOptions, filter, group};
use crate::interfaces::{self, Interface};
use crate::netlink::{Change, Changes};
use crate::service::protocol::{Carrier, Lent};
use crate::{LinkError, device, system};

/// A loan, for as long as there is one; never used again.
pub type LoanNumber = u64;

/// What is asked for.
#[derive(Clone, Copy, Debug)]
pub struct LoanOptions {
    /// Destination tag of the borrower's node.
    pub tag: u16,
    /// Long messages come by another link: half a ring will do.
    pub small_frames_only: bool,
}

/// A socket of the group but the first.
#[derive(Debug)]
struct Socket {
    loan: LoanNumber,
    /// How many were made before it.
    made: u64,
    /// Its number in the kernel's list of sockets.
    inode: u64,
    /// `None`: it is the holder's alone, who has kept it after the end of the loan.
    lent: Option<Held>,
}

#[derive(Debug)]
struct Held {
    tag: u16,
    // Unmapped before the socket is closed.
    _ring: PacketRing,
    socket: OwnedFd,
}

/// What the service has lent of one interface and EtherType.
#[derive(Debug)]
pub struct Lender {
    interface: Interface,
    ethertype: u16,
    /// The group's first socket.
    first: OwnedFd,
    /// The kernel's number of the group.
    group: u16,
    /// In the kernel's order, from its second place on.
    sockets: Vec<Socket>,
    made: u64,
    /// The kernel does not go by this order yet.
    changed: bool,
}

impl Lender {
    /// Begins a group on an interface that exists and is up.
    ///
    /// # Errors
    ///
    /// As for [`PacketLink::open`](crate::PacketLink::open).
    pub fn open(interface: &str, ethertype: u16) -> Result<Self, LinkError> {
        let name = format!("lending packet on {interface}");
        let interface = interfaces::find_for_frames(&name, interface)?;
        let made = first_socket(interface.index, ethertype);
        let (first, group) = made.map_err(|(step, error)| open::refused(&name, step, error))?;
        let (sockets, made, changed) = (Vec::new(), 0, false);
        Ok(Self { interface, ethertype, first, group, sockets, made, changed })
    }

    /// Name of the interface.
    pub fn interface(&self) -> &str {
        &self.interface.name
    }

    /// The number by which the kernel knows it.
    pub fn index(&self) -> u32 {
        self.interface.index
    }

    /// EtherType of the frames.
    pub fn ethertype(&self) -> u16 {
        self.ethertype
    }

    /// Sockets that are lent or kept.
    pub fn count(&self) -> usize {
        self.sockets.len()
    }

    /// Takes the name that the interface has now: one that is renamed is the same.
    pub fn follow_name(&mut self) {
        // A socket's number is void once its interface is gone.
        let number = system::bound_address(self.first.as_fd()).ok().and_then(|at| at.interface());
        let now = number.and_then(|number| system::interface_name(self.first.as_fd(), number));
        if let Some(now) = now {
            self.interface.name = now;
        }
    }

    /// Whether this interface still has its name.
    pub fn is_current(&self) -> bool {
        device::identity(self.first.as_fd(), &self.interface.name)
            .is_ok_and(|(index, _)| index == self.interface.index)
    }

    /// The loan of a node with this tag.
    pub fn loan_of(&self, tag: u16) -> Option<LoanNumber> {
        let is_its = |socket: &&Socket| socket.lent.as_ref().is_some_and(|held| held.tag == tag);
        self.sockets.iter().find(is_its).map(|socket| socket.loan)
    }

    /// Whether a loan's socket is still somebody's.
    pub fn has(&self, loan: LoanNumber) -> bool {
        self.sockets.iter().any(|socket| socket.loan == loan)
    }

    /// Makes a socket for a borrower. It gets its frames once [`publish`](Self::publish) was called. Waits for the kernel, for some tens
    /// of milliseconds.
    ///
    /// # Errors
    ///
    /// A line for the borrower.
    pub fn lend(&mut self, loan: LoanNumber, wanted: LoanOptions) -> Result<Lent, String> {
        let name = &self.interface.name;
        if self.loan_of(wanted.tag).is_some() {
            return Err(format!("a node with the same tag has a socket of {name} already"));
        }
        if self.sockets.len() + 1 >= MEMBERS_MAX {
            return Err(format!("all {} sockets of {name} are lent", MEMBERS_MAX - 1));
        }
        let (held, mut lent) = self
            .member(wanted)
            .map_err(|(step, error)| format!("a socket of {name}: {step}: {error}"))?;
        let inode = inode_of(held.socket.as_fd()).map_err(|error| error.to_string())?;
        lent.carrier.index = self.interface.index;
        self.sockets.push(Socket { loan, made: self.made, inode, lent: Some(held) });
        self.made += 1;
        self.changed = true;
        Ok(lent)
    }

    fn member(&self, wanted: LoanOptions) -> Result<(Held, Lent), Step> {
        let mut options = PacketOptions::new(self.interface.name.clone(), wanted.tag);
        options.ethertype = self.ethertype;
        options.small_frames_only = wanted.small_frames_only;
        let asks = |error| ("asking for the interface's properties", error);
        let fd = self.first.as_fd();
        let mtu = system::interface_mtu(fd, &self.interface.name).map_err(asks)?;
        let (_, mac) = device::identity(fd, &self.interface.name).map_err(asks)?;
        let (socket, ring) = open::bound_socket(&options, self.interface.index, mtu)?;
        group::enter(socket.as_fd(), Some(self.group))
            .map_err(|error| ("joining the group", error))?;
        lock_filter(socket.as_fd())?;
        let shape = ring.shape();
        let lent = Lent {
            carrier: Carrier { index: self.interface.index, mtu: mtu as u32, mac },
            slot_bytes: shape.slot_bytes() as u32,
            slots: shape.slots() as u32,
        };
        Ok((Held { tag: wanted.tag, _ring: ring, socket }, lent))
    }

    /// The socket of a loan, to be sent.
    pub fn descriptor(&self, loan: LoanNumber) -> Option<BorrowedFd<'_>> {
        let socket = self.sockets.iter().find(|socket| socket.loan == loan)?;
        socket.lent.as_ref().map(|held| held.socket.as_fd())
    }

    /// Ends loans. Waits for the kernel, for some tens of milliseconds each.
    ///
    /// # Errors
    ///
    /// The order is not known any more: this value is of no use, and its loans are over.
    pub fn end(&mut self, loans: &[LoanNumber]) -> Result<(), OrderLost> {
        self.look()?;
        // From the last on: where those that stay are before those that go, nobody's place changes.
        for place in (0..self.sockets.len()).rev() {
            if !loans.contains(&self.sockets[place].loan) {
                continue;
            }
            self.changed = true;
            self.sockets[place].lent = None;
            if is_gone_soon(self.sockets[place].inode)? {
                self.sockets.swap_remove(place);
            }
        }
        Ok(())
    }

    /// Looks whether sockets that were kept are gone. True: there are some left.
    ///
    /// # Errors
    ///
    /// As for [`end`](Self::end): two are gone, and who was first is not known.
    pub fn look(&mut self) -> Result<bool, OrderLost> {
        let is_kept = |socket: &Socket| socket.lent.is_none();
        if !self.sockets.iter().any(is_kept) {
            return Ok(false);
        }
        let there = listed()?;
        let is_gone = |socket: &Socket| is_kept(socket) && !there.contains(&socket.inode);
        let gone: Vec<usize> =
            (0..self.sockets.len()).filter(|place| is_gone(&self.sockets[*place])).collect();
        match gone[..] {
            [] => {}
            [place] => {
                self.sockets.swap_remove(place);
                self.changed = true;
            }
            _ => return Err(OrderLost),
        }
        Ok(self.sockets.iter().any(is_kept))
    }

    /// The interface went down: when it comes up again the kernel's order is that in which the sockets were made.
    pub fn went_down(&mut self) {
        self.sockets.sort_by_key(|socket| socket.made);
        self.changed = true;
    }

    /// Has the kernel go by the present order, if it does not. Waits for it, for some tens of milliseconds.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn publish(&mut self) -> io::Result<()> {
        if !self.changed {
            return Ok(());
        }
        let tag_of =
            |(place, socket): (usize, &Socket)| Some((socket.lent.as_ref()?.tag, place as u16 + 1));
        let mut members: Vec<_> = self.sockets.iter().enumerate().filter_map(tag_of).collect();
        members.sort_unstable();
        let program = program_behind_first(&members, self.sockets.len() as u16 + 1);
        let option = libc::PACKET_FANOUT_DATA;
        system::set_program(self.first.as_fd(), libc::SOL_PACKET, option, &program)?;
        self.changed = false;
        Ok(())
    }
}

/// Tells of interfaces that go down.
#[derive(Debug)]
pub struct Watch(Changes);

impl Watch {
    /// In the calling thread's network namespace. Needs no privilege.
    ///
    /// # Errors
    ///
    /// The system's.
    pub fn open() -> io::Result<Self> {
        Changes::open().map(Self)
    }

    /// Readable when something has changed.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.descriptor()
    }

    /// Tells by their numbers which interfaces have gone down since this was last asked; `None`: some may have, unseen.
    pub fn take(&self, mut down: impl FnMut(Option<u32>)) {
        self.0.take_each(|change| match change {
            Change::Interface(_, flags) if flags & libc::IFF_UP as u32 != 0 => {}
            Change::Interface(index, _) => down(Some(index)),
            Change::Unknown => down(None),
        });
    }
}

/// The order in which the kernel has a group's sockets is not known any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderLost;

impl From<io::Error> for OrderLost {
    /// What sockets there are can't be known.
    fn from(_: io::Error) -> Self {
        Self
    }
}

/// The socket that begins a group and drops what it is given; and the group's number.
fn first_socket(index: u32, ethertype: u16) -> Result<(OwnedFd, u16), Step> {
    let socket = system::socket(libc::AF_PACKET, libc::SOCK_RAW)
        .map_err(|error| ("opening a raw socket", error))?;
    let fd = socket.as_fd();
    system::attach_filter(fd, &filter::NONE).map_err(|error| ("attaching the filter", error))?;
    system::bind_packet(fd, index, ethertype)
        .map_err(|error| ("binding to the interface", error))?;
    let (group, _) = group::enter(fd, None).map_err(|error| ("beginning a group", error))?;
    Ok((socket, group))
}

fn lock_filter(fd: BorrowedFd<'_>) -> Result<(), Step> {
    let on: libc::c_int = 1;
    system::set_option(fd, libc::SOL_SOCKET, libc::SO_LOCK_FILTER, &on)
        .map_err(|error| ("locking the filter", error))
}

fn inode_of(fd: BorrowedFd<'_>) -> io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata(format!("/proc/self/fd/{}", fd.as_raw_fd()))?.ino())
}

/// How long a holder's copy of a socket may stay after the end of its loan before it counts as kept: in a process that is being killed, or in a
/// child that is about to execute something else.
const GOING: Duration = Duration::from_millis(50);

/// How often it is looked whether it is gone.
const GOING_LOOK: Duration = Duration::from_millis(1);

/// Waits a moment for a socket to be gone.
fn is_gone_soon(inode: u64) -> io::Result<bool> {
    let since = Instant::now();
    while listed()?.contains(&inode) {
        if since.elapsed() >= GOING {
            return Ok(false);
        }
        std::thread::sleep(GOING_LOOK);
    }
    Ok(true)
}

/// The numbers of all packet sockets of this thread's network namespace: the last column of the kernel's list.
fn listed() -> io::Result<Vec<u64>> {
    let text = fs::read_to_string("/proc/thread-self/net/packet")?;
    let number = |line: &str| line.split_ascii_whitespace().last()?.parse().ok();
    Ok(text.lines().skip(1).filter_map(number).collect())
}
