//! By which interface datagrams leave, where a node has sockets on several interfaces of one subnet: by that of the socket's address. The kernel's routes
//! would have all leave by one of them (decision 90).
//!
//! A socket still takes what arrives for its address by another interface: on a switch a neighbour's question for the address may be answered by any of a
//! machine's cards.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use super::UdpLink;
use crate::{device, system};

/// `SO_BINDTOIFINDEX` (since Linux 5.0), free to any process for a socket that is not bound to an interface (5.7).
const SO_BINDTOIFINDEX: libc::c_int = 62;

/// What a socket that receives sends leaves by the interface of this number.
pub(super) fn leave_by(fd: BorrowedFd<'_>, ipv4: bool, interface: u32) -> io::Result<()> {
    let (level, name) = if ipv4 {
        (libc::IPPROTO_IP, libc::IP_UNICAST_IF)
    } else {
        (libc::IPPROTO_IPV6, libc::IPV6_UNICAST_IF)
    };
    system::set_option(fd, level, name, &interface.to_be())
}

/// The same of a socket that only sends. The option above holds for connected ones since Linux 6.1 only.
pub(super) fn bind_to(fd: BorrowedFd<'_>, interface: u32) -> io::Result<()> {
    let index = interface.cast_signed();
    system::set_option(fd, libc::SOL_SOCKET, SO_BINDTOIFINDEX, &index)
}

impl UdpLink {
    /// An interface that was deleted and made again has another number.
    pub(super) fn follow_interface(&mut self) {
        let (Some(number), Some((name, _))) = (self.leaves_by, &self.interface) else { return };
        let fd = self.socket.as_fd();
        let Ok((now, _)) = device::identity(fd, name) else { return };
        if now == number || leave_by(fd, self.local.is_ipv4(), now).is_err() {
            return;
        }
        self.leaves_by = Some(now);
        if let Some(send_only) = &mut self.send_only {
            send_only.leave_by(now);
        }
        if self.past_ip.as_mut().is_some_and(|past_ip| !past_ip.leave_by(now)) {
            self.past_ip = None;
        }
    }
}
