//! What the kernel knows of an interface and of its neighbours, asked by the name of the interface in the namespace of a socket.
//!
//! # Invariant
//!
//! Every pointer handed to the kernel here comes from a live value of the same function that is as long as the request writes at most; the kernel
//! does not keep it after the call returns.

use std::io;
use std::mem::zeroed;
use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::from_mut;

use crate::system::{self, SIOCETHTOOL};

/// The number of an interface and its Ethernet address, now.
pub(crate) fn identity(fd: BorrowedFd<'_>, interface: &str) -> io::Result<(u32, [u8; 6])> {
    let index = system::interface_request(fd, interface, libc::SIOCGIFINDEX)?;
    let address = system::interface_request(fd, interface, libc::SIOCGIFHWADDR)?;
    // SAFETY: the two requests fill in these members of the union.
    let (index, address) =
        unsafe { (index.ifr_ifru.ifru_ifindex, address.ifr_ifru.ifru_hwaddr.sa_data) };
    Ok((index.cast_unsigned(), mac(&address)))
}

/// The Ethernet address that the kernel's neighbour table has for an IP on an interface.
pub(crate) fn neighbour(fd: BorrowedFd<'_>, interface: &str, ip: Ipv4Addr) -> Option<[u8; 6]> {
    // SAFETY: all-zero is a valid `arpreq`.
    let mut request: libc::arpreq = unsafe { zeroed() };
    if interface.len() >= request.arp_dev.len() {
        return None;
    }
    request.arp_pa.sa_family = libc::AF_INET as libc::sa_family_t;
    // A `sockaddr_in` in a `sockaddr`: the port's two bytes, then the address.
    for (place, byte) in request.arp_pa.sa_data[2..].iter_mut().zip(ip.octets()) {
        *place = byte as libc::c_char;
    }
    for (place, byte) in request.arp_dev.iter_mut().zip(interface.bytes()) {
        *place = byte as libc::c_char;
    }
    // SAFETY: see the module's invariant; the request reads and writes one `arpreq`.
    let result =
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::SIOCGARP as _, from_mut(&mut request)) };
    let known = result == 0
        && request.arp_flags & libc::ATF_COM != 0
        && request.arp_ha.sa_family == libc::ARPHRD_ETHER;
    known.then(|| mac(&request.arp_ha.sa_data))
}

fn mac(address: &[libc::c_char; 14]) -> [u8; 6] {
    [0, 1, 2, 3, 4, 5].map(|at: usize| address[at] as u8)
}

/// What `<linux/ethtool.h>` calls the set of features, the bytes of a name in it, and the feature of devices that segment UDP by themselves or
/// pass it on whole.
const FEATURES: u32 = 4;
const NAME_BYTES: usize = 32;
const SEGMENTS_UDP: &[u8] = b"tx-udp-segmentation";
/// Most features that are read: kernels have some 70.
const FEATURES_MAX: usize = 256;

/// True if a device takes datagrams that are still to be segmented. For others the kernel does it, which copies what is in one piece.
pub(crate) fn segments_udp(fd: BorrowedFd<'_>, interface: &str) -> bool {
    feature(fd, interface, SEGMENTS_UDP).unwrap_or(false)
}

/// Whether a device has a feature, and it is on. Three requests: how many names there are, the names, and a bit for each.
fn feature(fd: BorrowedFd<'_>, interface: &str, name: &[u8]) -> Option<bool> {
    const GET_COUNTS: u32 = 0x37;
    const GET_NAMES: u32 = 0x1B;
    const GET_FEATURES: u32 = 0x3A;
    // Command, nothing, the sets that are asked for in two words, and a count for each.
    let mut counts = [GET_COUNTS, 0, 0, 0, 0];
    // As a 64-bit number in this machine's order of bytes.
    let asked = (1u64 << FEATURES).to_ne_bytes();
    let word =
        |at: usize| u32::from_ne_bytes([asked[at], asked[at + 1], asked[at + 2], asked[at + 3]]);
    (counts[2], counts[3]) = (word(0), word(4));
    ethtool(fd, interface, &mut counts)?;
    let count = usize::try_from(counts[4]).ok().filter(|count| *count <= FEATURES_MAX)?;
    // The kernel writes as many names as it has, whatever is said here: their number is fixed when it is built.
    let mut names = vec![0; 3 + FEATURES_MAX * NAME_BYTES / 4];
    names[..3].copy_from_slice(&[GET_NAMES, FEATURES, counts[4]]);
    ethtool(fd, interface, &mut names)?;
    let bytes: Vec<u8> = names[3..].iter().flat_map(|word| word.to_ne_bytes()).collect();
    let mut all = bytes.chunks_exact(NAME_BYTES).take(count);
    let at = all.position(|found| found.starts_with(name) && found[name.len()] == 0)?;
    // Command, and how many blocks of 32 features: of each those that could be, are wished for, are on, and never change.
    let blocks = FEATURES_MAX / 32;
    let mut bits = vec![0; 2 + 4 * blocks];
    bits[..2].copy_from_slice(&[GET_FEATURES, blocks as u32]);
    ethtool(fd, interface, &mut bits)?;
    Some(bits[2 + 4 * (at / 32) + 2] >> (at % 32) & 1 == 1)
}

/// One of ethtool's requests, whose structure begins with its command.
fn ethtool(fd: BorrowedFd<'_>, interface: &str, words: &mut [u32]) -> Option<()> {
    let mut request = system::named_request(interface).ok()?;
    request.ifr_ifru.ifru_data = words.as_mut_ptr().cast();
    // SAFETY: see the module's invariant; `feature` makes each structure long enough for any number of features up to `FEATURES_MAX`, which
    // it has compared with the kernel's before names are asked for.
    let result = unsafe { libc::ioctl(fd.as_raw_fd(), SIOCETHTOOL as _, from_mut(&mut request)) };
    (result == 0).then_some(())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn loopback_takes_datagrams_whole() {
        let socket = system::socket(libc::AF_INET, libc::SOCK_DGRAM).expect("anyone may");
        let fd = socket.as_fd();
        assert_eq!(feature(fd, "lo", b"tx-udp-segmentation"), Some(true));
        assert_eq!(feature(fd, "lo", b"tx-udp-segment"), None, "the front of a name");
        assert_eq!(feature(fd, "lo", b"hw-tc-offload"), Some(false));
        assert!(!segments_udp(fd, "no-such-device"));
        let (index, mac) = identity(fd, "lo").expect("it is there");
        assert_eq!((index, mac), (system::interface_index("lo"), [0; 6]));
        assert_eq!(neighbour(fd, "lo", Ipv4Addr::LOCALHOST), None);
    }
}
