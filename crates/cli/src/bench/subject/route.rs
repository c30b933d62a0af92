//! Which way the kernel would send to an address: one question over netlink.
//!
//! Invariant of this module: its unsafe call takes numbers and gives a descriptor that nobody else has.
#![allow(unsafe_code)]

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::{FromRawFd, OwnedFd};

/// Bytes of an answer: one route with a dozen attributes takes under 200.
const ANSWER_BYTES_MAX: usize = 4096;

/// Bytes of `struct nlmsghdr` and `struct rtmsg`.
const HEAD_BYTES: usize = 16 + 12;

/// Attributes of a route, from `<linux/rtnetlink.h>`.
const RTA_DST: u16 = 1;
const RTA_SRC: u16 = 2;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
/// The gateway of another address family than the route's: IPv4 over IPv6 neighbours.
const RTA_VIA: u16 = 18;

/// The route to an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// The number of the interface that it leaves by.
    pub interface: u32,
    /// The neighbour that it goes to, if that is not the destination itself.
    pub next_hop: Option<IpAddr>,
    /// The destination is this host.
    pub local: bool,
}

/// Asks for the route from one of this host's addresses to another one.
///
/// # Errors
///
/// The kernel's own: there is no route, or it does not answer such questions here.
pub fn between(from: IpAddr, to: IpAddr) -> io::Result<Route> {
    let flags = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: socket takes no pointers.
    let socket = unsafe { libc::socket(libc::AF_NETLINK, flags, libc::NETLINK_ROUTE) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made and belongs to no one else.
    let mut socket = File::from(unsafe { OwnedFd::from_raw_fd(socket) });
    // A socket that was not connected speaks with the kernel, which has answered before the write returns.
    socket.write_all(&question(from, to))?;
    let mut answer = [0; ANSWER_BYTES_MAX];
    let bytes = socket.read(&mut answer)?;
    understand(&answer[..bytes])
}

fn question(from: IpAddr, to: IpAddr) -> Vec<u8> {
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    };
    let (from, to) = (octets(from), octets(to));
    let family = if to.len() == 4 { libc::AF_INET } else { libc::AF_INET6 } as u8;
    let bits = |address: &[u8]| address.len() as u8 * 8;
    // rtmsg: family, bits of destination and source; the rest is not asked about.
    let mut body = vec![family, bits(&to), bits(&from), 0, 0, 0, 0, 0, 0, 0, 0, 0];
    for (kind, address) in [(RTA_DST, &to), (RTA_SRC, &from)] {
        body.extend((4 + address.len() as u16).to_ne_bytes());
        body.extend(kind.to_ne_bytes());
        body.extend(address);
    }
    let mut message = Vec::with_capacity(HEAD_BYTES + body.len());
    message.extend((16 + body.len() as u32).to_ne_bytes());
    message.extend(libc::RTM_GETROUTE.to_ne_bytes());
    message.extend((libc::NLM_F_REQUEST as u16).to_ne_bytes());
    // Number and sender: there is one question, and the kernel knows who asked.
    message.extend([0; 8]);
    message.extend(body);
    message
}

fn understand(answer: &[u8]) -> io::Result<Route> {
    let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let kind = u16::from_ne_bytes(field(answer, 4).ok_or_else(short)?);
    if i32::from(kind) == libc::NLMSG_ERROR {
        let error = i32::from_ne_bytes(field(answer, 16).ok_or_else(short)?);
        return Err(io::Error::from_raw_os_error(error.saturating_neg()));
    }
    let mut rest = answer.get(HEAD_BYTES..).ok_or_else(short)?;
    let local = answer[23] == libc::RTN_LOCAL;
    let mut route = Route { local, ..Route::default() };
    while let (Some(length), Some(kind)) = (field(rest, 0), field(rest, 2)) {
        let length = usize::from(u16::from_ne_bytes(length));
        let Some(value) = rest.get(4..length) else { break };
        match u16::from_ne_bytes(kind) {
            RTA_OIF => route.interface = u32::from_ne_bytes(field(value, 0).ok_or_else(short)?),
            RTA_GATEWAY => route.next_hop = address(value),
            // The family comes first.
            RTA_VIA => route.next_hop = value.get(2..).and_then(address),
            _ => {}
        }
        // Attributes begin at multiples of four bytes.
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(route)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(IpAddr::from(field::<4>(bytes, 0)?)),
        16 => Some(IpAddr::from(field::<16>(bytes, 0)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_is_reached_by_loopback() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let route = between(here, here).unwrap();
        assert!(route.local && route.interface > 0 && route.next_hop.is_none(), "{route:?}");
    }

    #[test]
    fn what_has_no_route_is_an_error() {
        // A source that is not this host's (TEST-NET-1) leads nowhere.
        assert!(between([192, 0, 2, 1].into(), [192, 0, 2, 2].into()).is_err());
    }

    #[test]
    fn answers_that_are_cut_short_are_no_routes_or_shorter_ones() {
        let mut answer = vec![0; HEAD_BYTES];
        for (kind, value) in [(RTA_OIF, 7u32.to_ne_bytes()), (RTA_GATEWAY, [10, 77, 1, 2])] {
            answer.extend(8u16.to_ne_bytes().into_iter().chain(kind.to_ne_bytes()).chain(value));
        }
        answer[4..6].copy_from_slice(&libc::RTM_NEWROUTE.to_ne_bytes());
        let whole = Route { interface: 7, next_hop: Some([10, 77, 1, 2].into()), local: false };
        assert_eq!(understand(&answer).unwrap(), whole);
        for bytes in 0..answer.len() {
            assert_ne!(understand(&answer[..bytes]).ok().as_ref(), Some(&whole));
        }
        // An attribute that is shorter than its own head ends the list.
        answer[HEAD_BYTES..][..2].fill(0);
        assert_eq!(understand(&answer).unwrap(), Route::default());
    }
}
