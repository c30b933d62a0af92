//! Looking on: a packet socket that sees the frames of EMP that an interface receives and sends, and takes none of them away.
//!
//! What leaves past the kernel's taps is not seen: frames of the `packet` link, which bypass queueing disciplines and with them the
//! taps of the sender (`PACKET_QDISC_BYPASS`), and what AF_XDP takes. They are seen where they arrive.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use emp_wire::{ETHERTYPE_DEFAULT, HEADER_BYTES, NodeId, UDP_PORT_DEFAULT};

use crate::capture::Direction;
use crate::gather::ETHERNET_HEADER_BYTES;
use crate::name::RawName;
use crate::packet::refused;
use crate::{LinkError, interfaces, system};

/// Most UDP ports that are looked for: the filter has two tests of each for every datagram.
pub const TAP_PORTS_MAX: usize = 16;

/// Bytes of the longest frame that a tap gets: what a kernel segments later it shows in one piece, up to 64 KB and headers.
const FRAME_BYTES_MAX: usize = 128 << 10;

/// Bytes that may wait in the kernel unless it allows only less: a tenth of a second at 5 Gb/s.
const WAITING_BYTES: libc::c_int = 64 << 20;

/// What a tap looks for.
#[derive(Clone, Debug)]
pub struct TapOptions {
    /// Network interface, such as `eth0`.
    pub interface: String,
    /// EtherType of raw frames.
    pub ethertype: u16,
    /// UDP ports, of either end. Empty: datagrams at all ports that begin as frames of EMP do and are whole frames.
    pub ports: Vec<u16>,
    /// Only frames from or to this node.
    pub node: Option<NodeId>,
}

impl TapOptions {
    /// All frames at the default EtherType and port.
    pub fn new(interface: impl Into<String>) -> Self {
        Self {
            interface: interface.into(),
            ethertype: ETHERTYPE_DEFAULT,
            ports: vec![UDP_PORT_DEFAULT],
            node: None,
        }
    }
}

/// One frame that was seen.
#[derive(Debug)]
pub struct Seen<'a> {
    /// When the kernel had it.
    pub time: SystemTime,
    /// Which way it went.
    pub direction: Direction,
    /// All of it, from its Ethernet header on.
    pub bytes: &'a [u8],
}

/// The socket.
#[derive(Debug)]
pub struct Tap {
    socket: OwnedFd,
    options: TapOptions,
    buffer: Vec<u8>,
    dropped: u64,
}

impl Tap {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// No such interface, or no privilege; the text says what to do.
    pub fn open(options: TapOptions) -> Result<Self, LinkError> {
        let name = format!("capture on {}", options.interface);
        let failed = |step: &str, error: io::Error| refused(&name, step, error);
        let interface = interfaces::find_for_frames(&name, &options.interface)?;
        let socket = system::socket(libc::AF_PACKET, libc::SOCK_RAW)
            .map_err(|error| failed("opening a raw socket", error))?;
        let fd = socket.as_fd();
        system::attach_filter(fd, &program(&options))
            .map_err(|error| failed("attaching the filter", error))?;
        // A loopback receives what it sends: once is enough.
        if interface.loopback {
            let on: libc::c_int = 1;
            system::set_option(fd, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &on)
                .map_err(|error| failed("ignoring own frames", error))?;
        }
        // Only root may go beyond the system's limit; with less, more is dropped, and counted.
        for option in [libc::SO_RCVBUF, libc::SO_RCVBUFFORCE] {
            let _ = system::set_option(fd, libc::SOL_SOCKET, option, &WAITING_BYTES);
        }
        let _ = system::last_stamp(fd);
        system::bind_packet(fd, interface.index, libc::ETH_P_ALL as u16)
            .map_err(|error| failed("binding to the interface", error))?;
        Ok(Self { socket, options, buffer: vec![0; FRAME_BYTES_MAX], dropped: 0 })
    }

    /// The next frame; `None` if none comes in this time.
    ///
    /// # Errors
    ///
    /// If the interface is gone or down.
    pub fn next(&mut self, timeout: Duration) -> io::Result<Option<Seen<'_>>> {
        let Self { socket, options, buffer, .. } = self;
        let fd = socket.as_fd();
        let mut waited = false;
        loop {
            let mut from = RawName::empty();
            match system::receive_from(fd, buffer, &mut from) {
                Ok(length) => {
                    let length = length.min(buffer.len());
                    if !is_wanted(&buffer[..length], options) {
                        continue;
                    }
                    let stamp = system::last_stamp(fd);
                    let time = stamp.map_or_else(SystemTime::now, |stamp| UNIX_EPOCH + stamp);
                    let direction = if from.is_outgoing() { Direction::Out } else { Direction::In };
                    return Ok(Some(Seen { time, direction, bytes: &buffer[..length] }));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && waited => {
                    return Ok(None);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    waited = system::poll(fd, Some(timeout)) == system::Polled::Nothing;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Frames that the kernel had no room for, so far.
    pub fn dropped(&mut self) -> u64 {
        /// Of `struct tpacket_stats`: packets, and those of them that were dropped, since it was last asked.
        const STATISTICS: libc::c_int = libc::PACKET_STATISTICS;
        let mut counts = [0u32; 2];
        let fd = self.socket.as_fd();
        if system::get_option(fd, libc::SOL_PACKET, STATISTICS, &mut counts).is_ok() {
            self.dropped += u64::from(counts[1]);
        }
        self.dropped
    }
}

/// Offsets and numbers of what is around a frame.
const ETHERTYPE_AT: usize = 12;
const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86DD;
const UDP: u8 = 17;
const IPV6_HEADER_BYTES: usize = 40;
const UDP_HEADER_BYTES: usize = 8;

/// The link frame that a frame on the wire carries: what stands behind the Ethernet header, or is in its datagram.
fn carried(bytes: &[u8], ethertype: u16) -> Option<(bool, &[u8])> {
    let kind = u16::from_be_bytes(*bytes.get(ETHERTYPE_AT..)?.first_chunk()?);
    let rest = bytes.get(ETHERNET_HEADER_BYTES..)?;
    if kind == ethertype {
        return Some((true, rest));
    }
    let header = match kind {
        IPV4 => usize::from(rest.first()? & 0x0F) * 4,
        IPV6 => IPV6_HEADER_BYTES,
        _ => return None,
    };
    Some((false, rest.get(header + UDP_HEADER_BYTES..)?))
}

/// The link frame that a captured frame of the default EtherType, or a datagram, carries.
pub fn carried_frame(bytes: &[u8]) -> Option<&[u8]> {
    carried(bytes, ETHERTYPE_DEFAULT).map(|(_, frame)| frame)
}

/// What the kernel's filter cannot ask.
fn is_wanted(bytes: &[u8], options: &TapOptions) -> bool {
    let Some((raw, frame)) = carried(bytes, options.ethertype) else { return false };
    if frame.len() < HEADER_BYTES {
        // Of no node; it shows that something is wrong.
        return options.node.is_none() && (raw || !options.ports.is_empty());
    }
    if !raw && options.ports.is_empty() && !consists_of_frames(frame) {
        return false;
    }
    options.node.is_none_or(|node| {
        let tag = u16::from_be_bytes([frame[4], frame[5]]);
        let source = u32::from_be_bytes([frame[8], frame[9], frame[10], frame[11]]);
        tag == node.destination_tag() || source == node.source_tag()
    })
}

/// Whether a datagram at an unknown port is EMP's: whole frames to its end, or the beginning of a long one (`LONG-1`).
fn consists_of_frames(mut datagram: &[u8]) -> bool {
    let mut first = true;
    while datagram.len() >= HEADER_BYTES {
        // Version 1, and a kind that is there.
        if !(0x21..=0x2F).contains(&datagram[0]) {
            return false;
        }
        let length = HEADER_BYTES + usize::from(u16::from_be_bytes([datagram[2], datagram[3]]));
        match datagram.get(length..) {
            Some(rest) => datagram = rest,
            // What a kernel has cut already is as long as the wire takes.
            None => return first && datagram.len() >= 1200,
        }
        first = false;
    }
    datagram.is_empty()
}

const LOAD_HALF: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_ABS;
const LOAD_BYTE: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_ABS;
const LOAD_HALF_AT: u32 = libc::BPF_LD | libc::BPF_H | libc::BPF_IND;
const LOAD_BYTE_AT: u32 = libc::BPF_LD | libc::BPF_B | libc::BPF_IND;
/// The index becomes four times the low half of a byte: the length of an IPv4 header.
const INDEX_OF_IPV4: u32 = libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH;
const INDEX: u32 = libc::BPF_LDX | libc::BPF_W | libc::BPF_IMM;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_BITS: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const AND: u32 = libc::BPF_ALU | libc::BPF_AND | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
/// More bytes than any frame has.
const TAKE_ALL: u32 = 0x4_0000;

const fn step(code: u32, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

const fn branch(code: u32, k: u32, yes: u8, no: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: yes, jf: no, k }
}

/// The filter: raw frames, and datagrams at the ports or, at any, those that begin with the version. Fragments behind the first
/// have no ports, and are not taken.
fn program(options: &TapOptions) -> Vec<libc::sock_filter> {
    let mut datagram = Vec::new();
    // The index is the length of the IP header.
    let udp = ETHERNET_HEADER_BYTES as u32;
    if options.ports.is_empty() {
        datagram.push(step(LOAD_BYTE_AT, udp + UDP_HEADER_BYTES as u32));
        datagram.push(step(AND, 0xE0));
        datagram.extend([branch(IF_EQUAL, 0x20, 0, 1), step(RETURN, TAKE_ALL)]);
    }
    for place in [0, 2] {
        datagram.push(step(LOAD_HALF_AT, udp + place));
        for port in options.ports.iter().take(TAP_PORTS_MAX) {
            datagram.extend([branch(IF_EQUAL, u32::from(*port), 0, 1), step(RETURN, TAKE_ALL)]);
        }
    }
    datagram.push(step(RETURN, 0));

    let ip = ETHERNET_HEADER_BYTES as u32;
    let mut ipv4 = vec![
        step(LOAD_BYTE, ip + 9),
        branch(IF_EQUAL, u32::from(UDP), 1, 0),
        step(RETURN, 0),
        step(LOAD_HALF, ip + 6),
        branch(IF_BITS, 0x1FFF, 0, 1),
        step(RETURN, 0),
        step(INDEX_OF_IPV4, ip),
    ];
    ipv4.extend(&datagram);
    let mut ipv6 = vec![
        step(LOAD_BYTE, ip + 6),
        branch(IF_EQUAL, u32::from(UDP), 1, 0),
        step(RETURN, 0),
        step(INDEX, IPV6_HEADER_BYTES as u32),
    ];
    ipv6.extend(datagram);
    let mut program = vec![
        step(LOAD_HALF, ETHERTYPE_AT as u32),
        branch(IF_EQUAL, u32::from(options.ethertype), 0, 1),
        step(RETURN, TAKE_ALL),
        branch(IF_EQUAL, u32::from(IPV4), 0, u8::try_from(ipv4.len()).unwrap_or(u8::MAX)),
    ];
    program.extend(ipv4);
    program.extend([branch(IF_EQUAL, u32::from(IPV6), 1, 0), step(RETURN, 0)]);
    program.extend(ipv6);
    program
}

#[cfg(test)]
mod tests;
