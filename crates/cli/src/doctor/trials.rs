//! Trying things on the kernel, and leaving no trace.
//!
//! Invariant of this module: each call owns what it opens and closes it before it returns; pointers
//! given to the kernel are to values on the stack whose size is given with them.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::ptr;

/// EMP's EtherType unless configured otherwise: IEEE's first for local experiments.
const ETHERTYPE: u16 = 0x88B5;

/// Whether any packet socket opens.
pub fn packet_socket() -> io::Result<()> {
    socket(libc::AF_PACKET).map(drop)
}

/// Whether a packet socket can be bound to the interface with this index.
pub fn packet_socket_on(index: i32) -> io::Result<()> {
    let socket = socket(libc::AF_PACKET)?;
    // SAFETY: sockaddr_ll is made of integers, for which zero is a value.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = ETHERTYPE.to_be();
    address.sll_ifindex = index;
    let size = mem::size_of_val(&address) as libc::socklen_t;
    // SAFETY: `address` is a sockaddr_ll of `size` bytes, the form this family takes.
    done(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size) })
}

/// Whether one call may send a train of datagrams.
pub fn udp_segment() -> io::Result<()> {
    // Any size will do: nothing is sent.
    udp_option(libc::UDP_SEGMENT, 1400)
}

/// Whether one call may receive a train of datagrams.
pub fn udp_gro() -> io::Result<()> {
    udp_option(libc::UDP_GRO, 1)
}

fn udp_option(option: libc::c_int, value: libc::c_int) -> io::Result<()> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    let size = mem::size_of_val(&value) as libc::socklen_t;
    let (fd, value) = (socket.as_raw_fd(), (&raw const value).cast());
    // SAFETY: `value` points to an int of `size` bytes.
    done(unsafe { libc::setsockopt(fd, libc::SOL_UDP, option, value, size) })
}

/// How many bytes this process may lock; `None` means no limit.
pub fn locked_memory_limit() -> io::Result<Option<u64>> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a writable rlimit.
    done(unsafe { libc::getrlimit(libc::RLIMIT_MEMLOCK, &raw mut limit) })?;
    Ok((limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur))
}

/// Whether the call that reads another process' memory is there at all, tried on ourselves.
pub fn process_memory() -> io::Result<()> {
    let source = 42_u8;
    let mut target = 0_u8;
    let from = libc::iovec { iov_base: (&raw const source).cast_mut().cast(), iov_len: 1 };
    let to = libc::iovec { iov_base: (&raw mut target).cast(), iov_len: 1 };
    let pid = std::process::id().cast_signed();
    // SAFETY: both vectors describe one byte; only `target` is written, and it is writable.
    let copied = unsafe { libc::process_vm_readv(pid, &raw const to, 1, &raw const from, 1, 0) };
    if copied == 1 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The IP addresses of every interface, by its name.
pub fn addresses() -> BTreeMap<String, Vec<IpAddr>> {
    let mut all = BTreeMap::<String, Vec<IpAddr>>::new();
    let mut first: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: `first` is a writable pointer; on success it heads a list that is ours.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return all;
    }
    let mut next = first;
    // SAFETY: `next` is null or an entry of the list, which is freed only below.
    while let Some(entry) = unsafe { next.as_ref() } {
        // SAFETY: the name of an entry has an end mark and lives as long as the list.
        let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
        // SAFETY: the address is null or a socket address, and lives as long as the list.
        all.entry(name).or_default().extend(unsafe { ip_address(entry.ifa_addr) });
        next = entry.ifa_next;
    }
    // SAFETY: the list came from getifaddrs, and nothing of it is kept.
    unsafe { libc::freeifaddrs(first) };
    all
}

/// # Safety
/// `address` is null or points to a socket address as large as its family says.
unsafe fn ip_address(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: as this function demands.
    let family = unsafe { address.as_ref() }?.sa_family;
    match i32::from(family) {
        libc::AF_INET => {
            // SAFETY: an address of this family is a sockaddr_in.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: an address of this family is a sockaddr_in6.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

fn socket(family: libc::c_int) -> io::Result<OwnedFd> {
    // Protocol 0: a packet socket that hears nothing until it is bound.
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    // SAFETY: socket takes no pointers.
    let fd = unsafe { libc::socket(family, kind, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given us this descriptor, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn done(result: libc::c_int) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_its_address() {
        assert!(addresses()["lo"].contains(&Ipv4Addr::LOCALHOST.into()));
    }

    #[test]
    fn probes_answer() {
        process_memory().unwrap();
        locked_memory_limit().unwrap();
        assert_eq!(packet_socket_on(1).is_ok(), packet_socket().is_ok());
    }
}
