//! Opening the packet link: options, and errors that say what to do.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;

use emp_rings::{PacketRing, RingShape};
use emp_wire::ETHERTYPE_DEFAULT;

use super::filter;
use super::group::Group;
use super::loan::{self, Loan};
use crate::gather::ETHERNET_HEADER_BYTES;
use crate::interfaces::{self, Interface};
use crate::{LinkError, TAG_ANY, aside, system};

/// Default size of the receive ring in bytes for MTU 1500: 1024 slots of 2 KiB, which is what
/// arrives in about 1 ms at a million frames a second. More would be kinder to a receiver that is
/// long away, but every frame walks to the next slot: a ring beyond the second-level cache (2 MiB)
/// and its TLB costs a lone frame 0.05 to 0.1 µs (measured: 0.72 µs one way at 1 MiB, 0.75 at 2,
/// 0.82 at 4).
const RING_BYTES: usize = 2 << 20;
/// Fewest slots of the default ring, so that jumbo frames (16 KiB slots) do not shrink it to
/// nothing: 256 slots of 9000 bytes are 2.3 MB of payload, 0.2 ms at 100 Gb/s.
const RING_SLOTS_MIN: usize = 256;
/// Largest default ring in bytes: unswappable kernel memory, so a few megabytes and no more.
const RING_BYTES_MAX: usize = 16 << 20;

/// How to open a [`PacketLink`](crate::PacketLink).
#[derive(Clone, Debug)]
pub struct PacketOptions {
    /// Network interface, such as `eth0`.
    pub interface: String,
    /// EtherType of EMP frames.
    pub ethertype: u16,
    /// This node's destination tag: frames with another one (and not everyone's) are filtered out
    /// in the kernel. [`TAG_ANY`](crate::TAG_ANY): those that are no other member's of the group.
    pub node_tag: u16,
    /// Share one look at each frame with the other nodes of the interface (decision 33). Else, and where that can't be had,
    /// the socket has a filter of its own, which costs every frame for every other node some 0.1 µs.
    pub group: bool,
    /// Size of the receive ring in bytes; `None` chooses by MTU (2 MiB at 1500, 4 MiB at 9000).
    pub ring_bytes: Option<usize>,
    /// Long messages come by another link: the ring that is chosen is half as large.
    pub small_frames_only: bool,
    /// The socket is lent by the service that listens here, and needs no privilege (decision 73). `None`: it is this process's own.
    pub lender: Option<PathBuf>,
    /// A relay's link: only searches come by it, those for nodes that are not on this interface (`RELAY-7`).
    pub searches_only: bool,
}

impl PacketOptions {
    /// The usual options for an interface.
    pub fn new(interface: impl Into<String>, node_tag: u16) -> Self {
        Self {
            interface: interface.into(),
            ethertype: ETHERTYPE_DEFAULT,
            node_tag,
            group: true,
            ring_bytes: None,
            small_frames_only: false,
            lender: None,
            searches_only: false,
        }
    }

    /// Those of a relay's link by which it hears searches.
    pub fn searches(interface: impl Into<String>) -> Self {
        Self { searches_only: true, ..Self::new(interface, TAG_ANY) }
    }
}

/// What opening gives to the link.
pub(super) struct Opened {
    pub(super) socket: OwnedFd,
    pub(super) ring: PacketRing,
    /// `None`: its own filter picks its frames, and costs every frame for every other node of the interface some 0.1 µs.
    pub(super) group: Option<Group>,
    /// The socket is lent.
    pub(super) loan: Option<Loan>,
    pub(super) interface: Interface,
}

/// What the link is called, for people.
pub(super) fn name_of(options: &PacketOptions) -> String {
    let lent = if options.lender.is_some() { "lent " } else { "" };
    format!("{lent}packet on {}", options.interface)
}

pub(super) fn open(options: &PacketOptions) -> Result<Opened, LinkError> {
    let name = name_of(options);
    // A node of this process that has just closed may have had this tag, and must have left the group.
    aside::settle();
    let interface = interfaces::find_for_frames(&name, &options.interface)?;
    if let Some(path) = &options.lender {
        let (socket, ring, loan) = loan::borrow_from(path, options)?;
        return Ok(Opened { socket, ring, group: None, loan: Some(loan), interface });
    }
    let bound = bound_socket(options, interface.index, interface.mtu);
    let (socket, ring) = bound.map_err(|(step, error)| refused(&name, step, error))?;
    let group = joined(options, socket.as_fd(), interface.index);
    Ok(Opened { socket, ring, group, loan: None, interface })
}

/// What could not be done, and why.
pub(super) type Step = (&'static str, io::Error);

/// A socket on the interface of this number with a ring for frames of its MTU, and a filter of its own.
pub(super) fn bound_socket(
    options: &PacketOptions,
    index: u32,
    mtu: usize,
) -> Result<(OwnedFd, PacketRing), Step> {
    // Protocol 0: no frame arrives before filter and ring are in place and `bind` names a protocol.
    let socket = system::socket(libc::AF_PACKET, libc::SOCK_RAW)
        .map_err(|error| ("opening a raw socket", error))?;
    let fd = socket.as_fd();
    let program = if options.searches_only {
        filter::searches(options.ethertype)
    } else {
        filter::own_frames(options.ethertype, options.node_tag)
    };
    system::attach_filter(fd, &program).map_err(|error| ("attaching the filter", error))?;
    let ring = PacketRing::new(fd, ring_shape(options, mtu))
        .map_err(|error| ("making the receive ring", error))?;
    let on: libc::c_int = 1;
    for (option, step) in [
        (libc::PACKET_IGNORE_OUTGOING, "ignoring own frames"),
        (libc::PACKET_QDISC_BYPASS, "bypassing the queueing discipline"),
    ] {
        system::set_option(fd, libc::SOL_PACKET, option, &on).map_err(|error| (step, error))?;
    }
    system::bind_packet(fd, index, options.ethertype)
        .map_err(|error| ("binding to the interface", error))?;
    Ok((socket, ring))
}

/// The group of the interface of this number, joined, if that is wanted and to be had.
pub(super) fn joined(options: &PacketOptions, fd: BorrowedFd<'_>, index: u32) -> Option<Group> {
    let join = || Group::join(fd, (index, options.ethertype), options.node_tag).ok();
    options.group.then(join).flatten()
}

fn ring_shape(options: &PacketOptions, mtu: usize) -> RingShape {
    let frame_bytes = mtu + ETHERNET_HEADER_BYTES;
    let slot_bytes = RingShape::new(0, frame_bytes).slot_bytes();
    let alone = (slot_bytes * RING_SLOTS_MIN).clamp(RING_BYTES, RING_BYTES_MAX);
    // It is most of the memory that a process of many on a host has of EMP, and a lone frame is 0.03 µs faster.
    let default = if options.small_frames_only { alone / 2 } else { alone };
    RingShape::new(options.ring_bytes.unwrap_or(default), frame_bytes)
}

pub(crate) fn refused(link: &str, step: &str, error: io::Error) -> LinkError {
    let privilege = matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    let advice = match error.raw_os_error() {
        _ if privilege => {
            "raw frames need CAP_NET_RAW: run as root, give the program the capability \
             (`setcap cap_net_raw+ep`), or use the udp link, which needs none"
        }
        Some(libc::ENOMEM | libc::ENOBUFS) => "ask for a smaller ring, or free memory",
        Some(libc::ENODEV | libc::ENXIO | libc::ENETDOWN) => {
            "the interface vanished or went down meanwhile: look at it with `ip link`"
        }
        Some(libc::EAFNOSUPPORT) => {
            "this kernel has no packet sockets (CONFIG_PACKET): use the udp link"
        }
        _ => "use the udp link, or report this with the kernel's version",
    };
    LinkError {
        link: link.into(),
        problem: format!("{step}: {error}"),
        advice: advice.into(),
        source: Some(error),
        privilege,
    }
}
