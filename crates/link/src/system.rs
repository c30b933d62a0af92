//! The few socket calls that the links need, wrapped once so that the links themselves hold no
//! `unsafe`.
//!
//! # Invariant
//!
//! Every pointer handed to the kernel here comes from a live reference in the same function and is
//! given with its exact size; the kernel does not keep it after the call returns.

use std::ffi::CString;
use std::io;
use std::mem::{MaybeUninit, size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::{from_mut, from_ref, null};
use std::time::{Duration, Instant};

use crate::name::{RawName, SocketName};

/// `Ok(value)` unless the call returned -1.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// A new nonblocking, close-on-exec socket.
pub(crate) fn socket(domain: libc::c_int, kind: libc::c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no pointers; a non-negative result is a fresh descriptor that nobody else owns.
    unsafe {
        let fd = check(libc::socket(domain, kind, 0))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// A socket for routing netlink.
pub(crate) fn netlink_socket() -> io::Result<OwnedFd> {
    socket(libc::AF_NETLINK, libc::SOCK_RAW)
}

/// Sets a socket option to a plain value.
pub(crate) fn set_option<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &T,
) -> io::Result<()> {
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: see the module's invariant.
    check(unsafe {
        libc::setsockopt(fd.as_raw_fd(), level, name, from_ref(value).cast(), length)
    })?;
    Ok(())
}

/// Reads a socket option into a value made of integers; returns the bytes that the kernel wrote.
pub(crate) fn get_option<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    value: &mut T,
) -> io::Result<usize> {
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: see the module's invariant; callers pass integers and arrays of them, for which every
    // bit pattern is valid.
    check(unsafe {
        libc::getsockopt(fd.as_raw_fd(), level, name, from_mut(value).cast(), &raw mut length)
    })?;
    Ok(length as usize)
}

/// Takes the pending asynchronous error off a socket, if there is one.
pub(crate) fn take_error(fd: BorrowedFd<'_>) -> Option<io::Error> {
    let mut code: libc::c_int = 0;
    get_option(fd, libc::SOL_SOCKET, libc::SO_ERROR, &mut code).ok()?;
    (code != 0).then(|| io::Error::from_raw_os_error(code))
}

/// Attaches a classic BPF program to a socket.
pub(crate) fn attach_filter(fd: BorrowedFd<'_>, program: &[libc::sock_filter]) -> io::Result<()> {
    set_program(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)
}

/// Takes a socket's filter off.
pub(crate) fn detach_filter(fd: BorrowedFd<'_>) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_DETACH_FILTER, &0)
}

/// Sets a socket option whose value is a classic BPF program.
pub(crate) fn set_program(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    name: libc::c_int,
    program: &[libc::sock_filter],
) -> io::Result<()> {
    let filter =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    set_option(fd, level, name, &filter)
}

/// Binds an AF_PACKET socket to one interface and one EtherType.
pub(crate) fn bind_packet(fd: BorrowedFd<'_>, index: u32, ethertype: u16) -> io::Result<()> {
    // SAFETY: all-zero is a valid `sockaddr_ll`.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ethertype.to_be();
    address.sll_ifindex = index as libc::c_int;
    bind(fd, &address, size_of::<libc::sockaddr_ll>())
}

/// Binds a socket to the first `length` bytes of a socket address structure.
pub(crate) fn bind<T: Copy>(fd: BorrowedFd<'_>, address: &T, length: usize) -> io::Result<()> {
    debug_assert!(length <= size_of::<T>());
    let length = length.min(size_of::<T>()) as libc::socklen_t;
    // SAFETY: see the module's invariant.
    check(unsafe { libc::bind(fd.as_raw_fd(), from_ref(address).cast(), length) })?;
    Ok(())
}

/// Connects a socket to an address.
pub(crate) fn connect(fd: BorrowedFd<'_>, to: &SocketName) -> io::Result<()> {
    let length = to.length as libc::socklen_t;
    // SAFETY: see the module's invariant.
    check(unsafe { libc::connect(fd.as_raw_fd(), from_ref(&to.raw).cast(), length) })?;
    Ok(())
}

/// The address that a socket is bound to.
pub(crate) fn bound_address(fd: BorrowedFd<'_>) -> io::Result<RawName> {
    let mut address = RawName::empty();
    let mut length = size_of::<RawName>() as libc::socklen_t;
    // SAFETY: see the module's invariant; the kernel writes a socket address or a part of one.
    check(unsafe {
        libc::getsockname(fd.as_raw_fd(), from_mut(&mut address).cast(), &raw mut length)
    })?;
    Ok(address)
}

/// Result of a raw system call that counts bytes or messages.
#[inline]
fn counted(result: libc::c_long) -> io::Result<usize> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as usize) }
}

// The calls on the way of a lone frame are made directly: the C library's versions are points
// where threads can be cancelled, and switching that on and off costs 30 ns of a 700 ns way.

/// Sends one contiguous datagram on a bound socket, without blocking.
#[inline]
pub(crate) fn send(fd: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    // SAFETY: see the module's invariant; no address is given, so none is read.
    counted(unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            libc::MSG_DONTWAIT,
            null::<libc::sockaddr>(),
            0,
        )
    })
}

/// Sends one contiguous datagram to an address, without blocking.
#[inline]
pub(crate) fn send_to(fd: BorrowedFd<'_>, bytes: &[u8], to: &SocketName) -> io::Result<usize> {
    // SAFETY: see the module's invariant.
    counted(unsafe {
        libc::syscall(
            libc::SYS_sendto,
            fd.as_raw_fd(),
            bytes.as_ptr(),
            bytes.len(),
            libc::MSG_DONTWAIT,
            from_ref(&to.raw),
            to.length as libc::socklen_t,
        )
    })
}

/// Receives one datagram without blocking, and tells who it came from. Gives its whole length, which may be more than the buffer's.
#[inline]
pub(crate) fn receive_from(
    fd: BorrowedFd<'_>,
    buffer: &mut [u8],
    from: &mut RawName,
) -> io::Result<usize> {
    let mut length = size_of::<RawName>() as libc::socklen_t;
    // SAFETY: see the module's invariant; the kernel writes a socket address or a part of one.
    counted(unsafe {
        libc::syscall(
            libc::SYS_recvfrom,
            fd.as_raw_fd(),
            buffer.as_mut_ptr(),
            buffer.len(),
            libc::MSG_DONTWAIT | libc::MSG_TRUNC,
            from_mut(from),
            &raw mut length,
        )
    })
}

/// Receives one message, without blocking; what there is no room for is lost.
pub(crate) fn receive(fd: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: see the module's invariant.
    let got = unsafe {
        libc::recv(fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len(), libc::MSG_DONTWAIT)
    };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// Sends one gathered message, without blocking.
///
/// # Safety
///
/// What the header points to is alive and as long as the header says.
#[inline]
pub(crate) unsafe fn send_message(fd: BorrowedFd<'_>, message: &libc::msghdr) -> io::Result<usize> {
    let message = from_ref(message);
    // SAFETY: the caller vouches for the header; the kernel only reads what it points to.
    counted(unsafe {
        libc::syscall(libc::SYS_sendmsg, fd.as_raw_fd(), message, libc::MSG_DONTWAIT)
    })
}

/// Receives one message, without blocking.
///
/// # Safety
///
/// What the header points to is alive, as long as the header says, writable, and borrowed by
/// nobody.
#[inline]
pub(crate) unsafe fn receive_message(
    fd: BorrowedFd<'_>,
    message: &mut libc::msghdr,
) -> io::Result<usize> {
    // SAFETY: the caller vouches for the header.
    unsafe { receive_message_with(fd, message, 0) }
}

/// The same with these flags too.
///
/// # Safety
///
/// As for [`receive_message`].
#[inline]
pub(crate) unsafe fn receive_message_with(
    fd: BorrowedFd<'_>,
    message: &mut libc::msghdr,
    flags: libc::c_int,
) -> io::Result<usize> {
    let message = from_mut(message);
    // SAFETY: the caller vouches for the header.
    counted(unsafe {
        libc::syscall(libc::SYS_recvmsg, fd.as_raw_fd(), message, libc::MSG_DONTWAIT | flags)
    })
}

/// When the kernel received what this socket received last, as a time of day since 1970. The first call switches the
/// socket's stamps on, and answers with now, as it does for what has none.
pub(crate) fn last_stamp(fd: BorrowedFd<'_>) -> Option<Duration> {
    /// `SIOCGSTAMPNS_NEW` of `<linux/sockios.h>` (since Linux 5.1): seconds and nanoseconds of 64 bits each.
    const LAST_STAMP: libc::Ioctl = libc::_IOR::<[i64; 2]>(0x89, 0x07);
    let mut stamp = [0i64; 2];
    // SAFETY: see the module's invariant; the request fills in two numbers of 64 bits.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), LAST_STAMP, stamp.as_mut_ptr()) }).ok()?;
    let [seconds, nanoseconds] = stamp;
    Some(Duration::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?))
}

/// Time since some moment, exact to a few milliseconds and read for a third of what an exact one costs.
#[inline]
pub(crate) fn coarse_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: see the module's invariant. This clock cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, from_mut(&mut time)) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// What [`poll`] saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Polled {
    /// There is something to read.
    Readable,
    /// The socket holds an error.
    Error,
    /// The time is over (or a signal came: callers look at their own clock).
    Nothing,
}

/// Sleeps until the descriptor is readable or `timeout` has passed; `None` waits without end.
pub(crate) fn poll(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> Polled {
    let mut entry = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = timeout.map(|time| libc::timespec {
        tv_sec: time.as_secs().min(i32::MAX as u64) as libc::time_t,
        tv_nsec: time.subsec_nanos() as libc::c_long,
    });
    let limit = limit.as_ref().map_or(null(), from_ref);
    // SAFETY: see the module's invariant; a null time limit and a null signal mask are allowed.
    let ready = unsafe { libc::ppoll(&raw mut entry, 1, limit, null()) };
    match ready {
        1 if entry.revents & libc::POLLIN != 0 => Polled::Readable,
        1 => Polled::Error,
        _ => Polled::Nothing,
    }
}

/// How long to sleep when a descriptor is "ready" with an error that does not go away.
const ERROR_PAUSE: Duration = Duration::from_millis(1);

/// Sleeps until the socket is readable or `timeout` has passed, whatever signals come. Errors that
/// wake it are taken off the socket and told to `outlived`; it then sleeps on.
pub(crate) fn poll_until(
    fd: BorrowedFd<'_>,
    timeout: Option<Duration>,
    mut outlived: impl FnMut(io::Error),
) -> Polled {
    // A time too long for the clock is no limit.
    let deadline = timeout.and_then(|time| Instant::now().checked_add(time));
    loop {
        let left = deadline.map(|end| end.saturating_duration_since(Instant::now()));
        match poll(fd, left) {
            Polled::Readable => return Polled::Readable,
            Polled::Error => match take_error(fd) {
                Some(error) => outlived(error),
                // An error that cannot be cleared must not turn waiting into spinning.
                None => std::thread::sleep(left.unwrap_or(ERROR_PAUSE).min(ERROR_PAUSE)),
            },
            Polled::Nothing => {}
        }
        if deadline.is_some_and(|end| Instant::now() >= end) {
            return Polled::Nothing;
        }
    }
}

/// An eventfd with count zero.
pub(crate) fn event() -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a non-negative result is a fresh descriptor that nobody else owns.
    unsafe {
        let fd = check(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))?;
        Ok(OwnedFd::from_raw_fd(fd))
    }
}

/// Makes an eventfd readable.
pub(crate) fn event_set(fd: BorrowedFd<'_>) {
    let one = 1u64;
    // SAFETY: see the module's invariant. Failure means the count is at its limit: readable anyway.
    unsafe { libc::write(fd.as_raw_fd(), from_ref(&one).cast(), size_of::<u64>()) };
}

/// Makes an eventfd unreadable.
pub(crate) fn event_clear(fd: BorrowedFd<'_>) {
    let mut count = 0u64;
    // SAFETY: see the module's invariant. Failure means the count is zero: unreadable already.
    unsafe { libc::read(fd.as_raw_fd(), from_mut(&mut count).cast(), size_of::<u64>()) };
}

/// A request about the interface `name`.
pub(crate) fn named_request(name: &str) -> io::Result<libc::ifreq> {
    let name = CString::new(name)?;
    let bytes = name.as_bytes();
    if bytes.len() >= libc::IFNAMSIZ {
        return Err(io::Error::from_raw_os_error(libc::ENODEV));
    }
    // SAFETY: all-zero is a valid `ifreq`.
    let mut answer: libc::ifreq = unsafe { zeroed() };
    for (to, from) in answer.ifr_name.iter_mut().zip(bytes) {
        *to = *from as libc::c_char;
    }
    Ok(answer)
}

/// Asks the interface layer about `name` in the namespace of the socket `fd`.
pub(crate) fn interface_request(
    fd: BorrowedFd<'_>,
    name: &str,
    request: libc::c_ulong,
) -> io::Result<libc::ifreq> {
    let mut answer = named_request(name)?;
    // SAFETY: see the module's invariant; the requests used read and write one `ifreq`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, from_mut(&mut answer)) })?;
    Ok(answer)
}

/// Largest packet in bytes that an interface carries after its link header.
pub(crate) fn interface_mtu(fd: BorrowedFd<'_>, name: &str) -> io::Result<usize> {
    let answer = interface_request(fd, name, libc::SIOCGIFMTU)?;
    // SAFETY: SIOCGIFMTU fills in this member of the union.
    Ok(unsafe { answer.ifr_ifru.ifru_mtu }.max(0) as usize)
}

/// The interface's `IFF_` flags.
pub(crate) fn interface_flags(fd: BorrowedFd<'_>, name: &str) -> io::Result<libc::c_int> {
    let answer = interface_request(fd, name, libc::SIOCGIFFLAGS)?;
    // SAFETY: SIOCGIFFLAGS fills in this member of the union.
    Ok(libc::c_int::from(unsafe { answer.ifr_ifru.ifru_flags }))
}

/// Receive queues of an interface; `None` if its driver does not say.
pub(crate) fn receive_queues(fd: BorrowedFd<'_>, name: &str) -> Option<u32> {
    /// `ETHTOOL_GCHANNELS` and its `struct ethtool_channels`, from `<linux/ethtool.h>`: most
    /// receive, send, other and combined queues, then how many there are of each now.
    const GET_CHANNELS: u32 = 0x3C;
    let mut channels = [GET_CHANNELS, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut request = named_request(name).ok()?;
    request.ifr_ifru.ifru_data = channels.as_mut_ptr().cast();
    // SAFETY: see the module's invariant; the request leads to the structure that its first word
    // announces, which is live and of its full size.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL as _, from_mut(&mut request)) };
    let [_, _, _, _, _, receive, _, _, combined] = channels;
    (result == 0).then(|| receive.saturating_add(combined)).filter(|queues| *queues > 0)
}

/// The request that carries all of ethtool's, from `<linux/sockios.h>`.
pub(crate) const SIOCETHTOOL: libc::c_ulong = 0x8946;

/// One descriptor that is readable when any of several is.
pub(crate) fn any_of<'a>(all: impl IntoIterator<Item = BorrowedFd<'a>>) -> io::Result<OwnedFd> {
    // SAFETY: no pointers; a non-negative result is a fresh descriptor that nobody else owns.
    let any = unsafe {
        let fd = check(libc::epoll_create1(libc::EPOLL_CLOEXEC))?;
        OwnedFd::from_raw_fd(fd)
    };
    all.into_iter().try_for_each(|fd| add_to(any.as_fd(), fd))?;
    Ok(any)
}

/// Adds a descriptor to those of [`any_of`], for as long as it is open.
pub(crate) fn add_to(any: BorrowedFd<'_>, fd: BorrowedFd<'_>) -> io::Result<()> {
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    let (any, fd) = (any.as_raw_fd(), fd.as_raw_fd());
    // SAFETY: see the module's invariant.
    check(unsafe { libc::epoll_ctl(any, libc::EPOLL_CTL_ADD, fd, from_mut(&mut event)) })?;
    Ok(())
}

/// The number by which the kernel knows an interface, or 0 if there is none of that name.
pub(crate) fn interface_index(name: &str) -> u32 {
    // SAFETY: the pointer is to a live string that ends with a zero byte.
    CString::new(name).map_or(0, |name| unsafe { libc::if_nametoindex(name.as_ptr()) })
}

/// The same of the calling thread's namespace.
pub(crate) fn interface_called(number: u32) -> Option<String> {
    interface_name(socket(libc::AF_INET, libc::SOCK_DGRAM).ok()?.as_fd(), number)
}

/// The name that the interface of this number has now, in the namespace of the socket `fd`. `None`: there is none.
pub(crate) fn interface_name(fd: BorrowedFd<'_>, number: u32) -> Option<String> {
    // SAFETY: all-zero is a valid `ifreq`.
    let mut request: libc::ifreq = unsafe { zeroed() };
    request.ifr_ifru.ifru_ifindex = number.cast_signed();
    let asked = from_mut(&mut request);
    // SAFETY: see the module's invariant; SIOCGIFNAME reads and writes one `ifreq`.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGIFNAME as _, asked) }).ok()?;
    let bytes = request.ifr_name.iter().map(|byte| *byte as u8).take_while(|byte| *byte != 0);
    String::from_utf8(bytes.collect()).ok()
}

/// The kernel's release, `6.1.0-13-amd64`; empty if it does not say.
pub(crate) fn kernel_release() -> String {
    // SAFETY: all-zero is a valid `utsname`.
    let mut names: libc::utsname = unsafe { zeroed() };
    // SAFETY: see the module's invariant.
    if unsafe { libc::uname(from_mut(&mut names)) } != 0 {
        return String::new();
    }
    let bytes = names.release.iter().map(|byte| *byte as u8);
    String::from_utf8_lossy(&bytes.take_while(|byte| *byte != 0).collect::<Vec<u8>>()).into_owned()
}

/// One entry of the kernel's interface list: name, flags, and an address in raw form.
pub(crate) struct InterfaceEntry {
    pub(crate) name: String,
    pub(crate) flags: libc::c_int,
    pub(crate) address: Option<InterfaceAddress>,
}

/// An address that an interface has.
pub(crate) enum InterfaceAddress {
    Mac([u8; 6]),
    /// With the bits of its subnet's prefix; all of the address's, if the kernel does not say.
    Ip(std::net::IpAddr, u8),
}

/// The kernel's interface list, one entry per interface and address family.
pub(crate) fn interface_entries() -> io::Result<Vec<InterfaceEntry>> {
    let mut first = MaybeUninit::<*mut libc::ifaddrs>::uninit();
    // SAFETY: see the module's invariant; on success the pointer was written.
    let first = unsafe {
        check(libc::getifaddrs(first.as_mut_ptr()))?;
        first.assume_init()
    };
    let mut entries = Vec::new();
    let mut at = first;
    // SAFETY: the list is well formed and ours until `freeifaddrs`; entries are copied out of it.
    while let Some(entry) = unsafe { at.as_ref() } {
        // SAFETY: every entry names its interface with a string that ends with a zero byte.
        let name = unsafe { std::ffi::CStr::from_ptr(entry.ifa_name) };
        entries.push(InterfaceEntry {
            name: name.to_string_lossy().into_owned(),
            flags: entry.ifa_flags as libc::c_int,
            address: entry_address(entry),
        });
        at = entry.ifa_next;
    }
    // SAFETY: `first` is what `getifaddrs` returned, freed once, and nothing points into it any
    // more.
    unsafe { libc::freeifaddrs(first) };
    Ok(entries)
}

fn entry_address(entry: &libc::ifaddrs) -> Option<InterfaceAddress> {
    // SAFETY: the address pointer is null or points to a socket address in the list.
    let family = unsafe { entry.ifa_addr.as_ref() }?.sa_family;
    match libc::c_int::from(family) {
        libc::AF_PACKET => {
            // SAFETY: the family says that this is a `sockaddr_ll`; the list need not align it.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_ll>().read_unaligned() };
            let mac = address.sll_addr.first_chunk::<6>()?;
            (address.sll_halen == 6).then_some(InterfaceAddress::Mac(*mac))
        }
        libc::AF_INET => {
            // SAFETY: the family says that this is a `sockaddr_in`.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in>().read_unaligned() };
            let octets = address.sin_addr.s_addr.to_ne_bytes();
            let mask = entry.ifa_netmask.cast::<libc::sockaddr_in>();
            // SAFETY: a netmask that is there is a socket address of the same family.
            let mask = (!mask.is_null()).then(|| unsafe { mask.read_unaligned() });
            let bits = mask.map_or(32, |mask| mask.sin_addr.s_addr.count_ones());
            Some(InterfaceAddress::Ip(octets.into(), bits as u8))
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that this is a `sockaddr_in6`.
            let address = unsafe { entry.ifa_addr.cast::<libc::sockaddr_in6>().read_unaligned() };
            let mask = entry.ifa_netmask.cast::<libc::sockaddr_in6>();
            // SAFETY: a netmask that is there is a socket address of the same family.
            let mask = (!mask.is_null()).then(|| unsafe { mask.read_unaligned() });
            let ones = |mask: &libc::sockaddr_in6| mask.sin6_addr.s6_addr.map(u8::count_ones);
            let bits = mask.map_or(128, |mask| ones(&mask).iter().sum());
            Some(InterfaceAddress::Ip(address.sin6_addr.s6_addr.into(), bits as u8))
        }
        _ => None,
    }
}
