//! By which interface datagrams leave, where a node has sockets on several interfaces of one subnet: by that of the socket's address. The kernel's routes
//! would have all leave by one of them (decision 90).
//!
//! A socket still takes what arrives for its address by another interface: on a switch a neighbour's question for the address may be answered by any of a
//! machine's cards.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

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
    /// An interface that was renamed is the same one. One that was deleted and made again has another number: datagrams leave by that.
    pub(super) fn follow_interface(&mut self) {
        let Some(owner) = &mut self.interface else { return };
        let fd = self.socket.as_fd();
        if let Some(name) = system::interface_name(fd, owner.number) {
            if name != owner.name {
                (owner.name, self.look_again) = (name, None);
            }
            return;
        }
        let gone = self.look_again.is_some_and(|at| Instant::now() < at);
        let identity = (!gone).then(|| device::identity(fd, &owner.name));
        let Some(Ok((number, _))) = identity else {
            // Its number may be another one's from now on.
            owner.number = 0;
            return;
        };
        let leaves = self.leaves_by.is_some();
        if leaves && leave_by(fd, self.local.is_ipv4(), number).is_err() {
            return;
        }
        owner.number = number;
        if leaves {
            self.leave_by_number(number);
        }
    }

    fn leave_by_number(&mut self, number: u32) {
        self.leaves_by = Some(number);
        if let Some(send_only) = &mut self.send_only {
            send_only.leave_by(number);
        }
        if self.past_ip.as_mut().is_some_and(|past_ip| !past_ip.leave_by(number)) {
            self.past_ip = None;
        }
    }
}
