//! A raw socket that only sends: for timing what that costs, beside a node and before it starts.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use super::open::refused;
use crate::ethernet::Framing;
use crate::gather::Gather;
use crate::{LinkError, TxFrame, interfaces, system};

/// Most frames in one call.
const BATCH_MAX: usize = 64;
/// Most parts of one frame.
const PARTS_MAX: usize = 1;

/// A raw socket without ring, filter or group: making a ring waits for a grace period of the kernel's, 10 to 40 ms, and seconds while
/// many processes start on few cores. *Closing* waits for one as well, as with every raw socket.
pub struct PacketSender {
    socket: OwnedFd,
    framing: Framing,
    gather: Gather,
}

impl PacketSender {
    /// Opens it on an interface that exists and is up.
    ///
    /// # Errors
    ///
    /// As for [`PacketLink::open`](crate::PacketLink::open).
    pub fn open(interface: &str, ethertype: u16) -> Result<Self, LinkError> {
        let name = format!("packet on {interface}");
        let found = interfaces::find_for_frames(&name, interface)?;
        let failed = |step: &str, error: io::Error| refused(&name, step, error);
        let socket = system::socket(libc::AF_PACKET, libc::SOCK_RAW)
            .map_err(|error| failed("opening a raw socket", error))?;
        let on: libc::c_int = 1;
        system::set_option(socket.as_fd(), libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &on)
            .map_err(|error| failed("bypassing the queueing discipline", error))?;
        // Protocol 0: it takes no frames.
        system::bind_packet(socket.as_fd(), found.index, 0)
            .map_err(|error| failed("binding to the interface", error))?;
        let framing = Framing {
            mac: found.mac.unwrap_or_default(),
            ethertype,
            frame_bytes_max: found.mtu,
            parts_max: PARTS_MAX,
        };
        Ok(Self { socket, framing, gather: Gather::new(BATCH_MAX, BATCH_MAX * (PARTS_MAX + 1)) })
    }

    /// The interface's Ethernet address.
    pub fn mac(&self) -> [u8; 6] {
        self.framing.mac
    }

    /// Sends the first frames of a batch, as many as one call takes; returns their number. 0: it failed, or there was no room.
    pub fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let mut filling = self.gather.fill();
        for frame in batch {
            let Some(header) = self.framing.header(frame, frame.len()) else { break };
            if !filling.has_room(frame.parts.len() + 1) {
                break;
            }
            filling.begin();
            filling.prefix(header);
            filling.parts(frame.parts);
        }
        if filling.messages() == 0 {
            return 0;
        }
        filling.send(self.socket.as_fd(), 0).unwrap_or(0)
    }
}
