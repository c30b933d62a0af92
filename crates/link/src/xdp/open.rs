//! Opening the xdp link: the ladder of modes, and errors that say what to do.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use emp_rings::{XdpAttachment, XdpProgram, Xsk, XskBind, XskMap, XskShape};
use emp_wire::ETHERTYPE_DEFAULT;

use super::program;
use super::self_test::Subject;
use crate::ethernet::Framing;
use crate::gather::ETHERNET_HEADER_BYTES;
use crate::interfaces::{self, Interface};
use crate::{LinkError, system};

/// Most parts of one frame, as for the packet link.
const PARTS_MAX: usize = 16;
/// Chunks for received frames of queue 0: what arrives in about 1 ms at a million frames a second,
/// as the packet link has it; 341 jumbo frames.
const RECEIVE_CHUNKS: usize = 1024;
/// Chunks for received frames of each other queue. Cards spread by IP headers, which our frames
/// have not: all of ours come by one queue, which is nearly always the first.
const OTHER_RECEIVE_CHUNKS: usize = 256;
/// Chunks for frames to send: two batches of 64 jumbo frames (3 chunks each), as a power of two.
const SEND_CHUNKS: usize = 512;
/// Most queues. Each costs a socket and 0.5 to 1 MiB of pinned memory.
const QUEUES_MAX: u32 = 16;
/// A card that gets a program may start anew, and is without carrier meanwhile: seconds.
const CARRIER_PATIENCE: Duration = Duration::from_secs(4);
const CARRIER_PAUSE: Duration = Duration::from_millis(5);
/// How long a queue may stay taken after its last socket was closed: the kernel waits for readers
/// and a worker thread, some 10 ms, more under load.
const BIND_PATIENCE: Duration = Duration::from_secs(1);
const BIND_PAUSE: Duration = Duration::from_millis(2);
/// Frames in one busy poll of the driver: the kernel's own default (BUSY_POLL_BUDGET is 8) is made
/// for sockets that share a queue.
const BUSY_POLL_BUDGET: libc::c_int = 64;

/// How frames get between the interface and our memory, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// The driver runs the program, and reads and writes our memory itself.
    ZeroCopy,
    /// The driver runs the program; the kernel copies.
    Native,
    /// The kernel runs the program behind the driver, and copies. Works with every driver.
    Generic,
}

impl fmt::Display for XdpMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ZeroCopy => "native, zero-copy",
            Self::Native => "native, copying",
            Self::Generic => "generic, copying",
        })
    }
}

/// How to open an [`XdpLink`](crate::XdpLink).
#[derive(Clone, Debug)]
pub struct XdpOptions {
    /// Network interface, such as `eth0`.
    pub interface: String,
    /// EtherType of EMP frames.
    pub ethertype: u16,
    /// This node's destination tag: frames with another one (and not everyone's) go to the kernel.
    pub node_tag: u16,
    /// Modes to try, in the order given; one that fails its self-test is passed by.
    pub modes: Vec<XdpMode>,
    /// How long a look for frames may poll the driver itself instead of waiting for its interrupt;
    /// needs a system call for each look. `None`: not at all. Drivers that cannot ignore it.
    pub busy_poll: Option<Duration>,
}

impl XdpOptions {
    /// The usual options for an interface.
    pub fn new(interface: impl Into<String>, node_tag: u16) -> Self {
        Self {
            interface: interface.into(),
            ethertype: ETHERTYPE_DEFAULT,
            node_tag,
            modes: vec![XdpMode::ZeroCopy, XdpMode::Native, XdpMode::Generic],
            busy_poll: None,
        }
    }
}

/// What opening gives to the link. Taken apart in this order, so that no frame is redirected to a
/// socket that is gone.
pub(super) struct Opened {
    pub(super) attachment: XdpAttachment,
    pub(super) program: XdpProgram,
    pub(super) map: XskMap,
    /// By queue.
    pub(super) sockets: Vec<Xsk>,
    /// Readable when any of the sockets is; `None` if there is one only.
    pub(super) any: Option<OwnedFd>,
    pub(super) mode: XdpMode,
    pub(super) framing: Framing,
    pub(super) interface: u32,
    /// Modes that were tried before, and why they were not kept.
    pub(super) passed_by: Vec<String>,
}

/// Why a mode is not to be had.
struct Problem {
    step: &'static str,
    error: io::Error,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.step, self.error)
    }
}

fn problem(step: &'static str) -> impl Fn(io::Error) -> Problem {
    move |error| Problem { step, error }
}

/// What all modes have in common.
struct Opening<'a> {
    options: &'a XdpOptions,
    /// A socket for questions about the interface.
    asking: OwnedFd,
    interface: Interface,
    queues: u32,
    shape: XskShape,
    /// The program takes frames in several pieces.
    pieces: bool,
    program: XdpProgram,
    map: XskMap,
}

pub(super) fn open(options: &XdpOptions) -> Result<Opened, LinkError> {
    let link = format!("xdp on {}", options.interface);
    let interface = interfaces::find_for_frames(&link, &options.interface)?;
    let failed = |problem: Problem| refused(&link, &problem, &[]);
    let shape = XskShape::new(interface.mtu + ETHERNET_HEADER_BYTES, RECEIVE_CHUNKS, SEND_CHUNKS);
    // AF_XDP sockets answer no questions about interfaces.
    let asking = system::socket(libc::AF_INET, libc::SOCK_DGRAM)
        .map_err(problem("asking about the interface"))
        .map_err(failed)?;
    let queues = queues(&link, &options.interface, &asking)?;
    let (map, program, pieces) =
        load(options.ethertype, options.node_tag, queues).map_err(failed)?;
    Opening { options, asking, interface, queues, shape, pieces, program, map }.climb(&link)
}

/// The program, its map, and whether it takes frames in several pieces.
fn load(ethertype: u16, node_tag: u16, queues: u32) -> Result<(XskMap, XdpProgram, bool), Problem> {
    let map = XskMap::new(queues).map_err(problem("making a map of sockets"))?;
    let code = program::redirect(ethertype, node_tag, map.as_fd().as_raw_fd());
    let (program, pieces) = XdpProgram::load(&code, true)
        .map(|program| (program, true))
        .or_else(|_| XdpProgram::load(&code, false).map(|program| (program, false)))
        .map_err(problem("loading the program"))?;
    Ok((map, program, pieces))
}

/// See [`XdpLink::probe`](crate::XdpLink::probe).
pub(super) fn probe() -> Result<(), LinkError> {
    let socket = Xsk::new(XskShape::new(0, 0, 0)).map_err(problem("opening an AF_XDP socket"));
    socket
        .and_then(|_| load(ETHERTYPE_DEFAULT, 0, 1))
        .map(drop)
        .map_err(|problem| refused("xdp", &problem, &[]))
}

fn queues(link: &str, name: &str, asking: &OwnedFd) -> Result<u32, LinkError> {
    // Drivers that do not say have one.
    let queues = system::receive_queues(asking.as_fd(), name).unwrap_or(1);
    if queues <= QUEUES_MAX {
        return Ok(queues);
    }
    Err(LinkError {
        link: link.into(),
        problem: format!("the interface has {queues} receive queues; {QUEUES_MAX} can be attached"),
        advice: format!(
            "lower their number with `ethtool -L {name} combined {QUEUES_MAX}`, or use the packet \
             link"
        ),
        source: None,
        privilege: false,
    })
}

impl Opening<'_> {
    /// Tries the modes. The program stays attached between two that want it in the same place: some
    /// cards start anew each time.
    fn climb(self, link: &str) -> Result<Opened, LinkError> {
        let mut attached: Option<(bool, XdpAttachment)> = None;
        let mut passed_by = Vec::new();
        let mut last =
            Problem { step: "choosing a mode", error: io::ErrorKind::InvalidInput.into() };
        for mode in &self.options.modes {
            let native = *mode != XdpMode::Generic;
            if attached.as_ref().is_none_or(|(at, _)| *at != native) {
                // The old one goes first: an interface has one program.
                drop(attached.take());
                match self.attach(native) {
                    Ok(attachment) => attached = Some((native, attachment)),
                    Err(problem) => {
                        let hopeless = is_hopeless(&problem.error);
                        passed_by.push(format!("{mode}: {problem}"));
                        last = problem;
                        if hopeless {
                            break;
                        }
                        continue;
                    }
                }
            }
            match self.sockets(*mode) {
                Ok((sockets, framing)) => {
                    let Some((_, attachment)) = attached else { continue };
                    return self.done(link, attachment, sockets, framing, *mode, passed_by);
                }
                Err(problem) => {
                    passed_by.push(format!("{mode}: {problem}"));
                    last = problem;
                }
            }
        }
        Err(refused(link, &last, &passed_by))
    }

    fn done(
        self,
        link: &str,
        attachment: XdpAttachment,
        sockets: Vec<Xsk>,
        framing: Framing,
        mode: XdpMode,
        passed_by: Vec<String>,
    ) -> Result<Opened, LinkError> {
        let any = (sockets.len() > 1)
            .then(|| system::any_of(sockets.iter().map(AsFd::as_fd)))
            .transpose()
            .map_err(problem("waiting for several queues"))
            .map_err(|problem| refused(link, &problem, &[]))?;
        let (program, map, interface) = (self.program, self.map, self.interface.index);
        Ok(Opened { attachment, program, map, sockets, any, mode, framing, interface, passed_by })
    }

    fn attach(&self, native: bool) -> Result<XdpAttachment, Problem> {
        let step = if native {
            "attaching the program to the driver"
        } else {
            "attaching the program behind the driver"
        };
        self.program.attach(self.interface.index, native).map_err(problem(step))
    }

    /// Sockets for all queues, tested.
    fn sockets(&self, mode: XdpMode) -> Result<(Vec<Xsk>, Framing), Problem> {
        let long = self.interface.mtu + ETHERNET_HEADER_BYTES > self.shape.single_bytes_max();
        // Without frames in several chunks the link still works, with shorter ones.
        let tries: &[bool] = if long && self.pieces { &[true, false] } else { &[false] };
        let mut last = None;
        for several in tries {
            // Zero-copy with short frames is no better than copying with long ones.
            if long && !several && mode == XdpMode::ZeroCopy {
                continue;
            }
            match self.sockets_with(mode, *several) {
                Ok(sockets) => return Ok(sockets),
                Err(problem) => last = Some(problem),
            }
        }
        Err(last.unwrap_or_else(|| Problem {
            step: "frames in several pieces",
            error: io::ErrorKind::Unsupported.into(),
        }))
    }

    fn sockets_with(&self, mode: XdpMode, several: bool) -> Result<(Vec<Xsk>, Framing), Problem> {
        let most =
            if several { self.shape.joined_bytes_max() } else { self.shape.single_bytes_max() };
        let framing = Framing {
            mac: self.interface.mac.unwrap_or_default(),
            ethertype: self.options.ethertype,
            frame_bytes_max: self.interface.mtu.min(most - ETHERNET_HEADER_BYTES),
            parts_max: PARTS_MAX,
        };
        let mut sockets = Vec::new();
        for queue in 0..self.queues {
            sockets.push(self.socket(mode, several, queue)?);
        }
        let subject = Subject {
            program: &self.program,
            framing: &framing,
            node_tag: self.options.node_tag,
            interface: self.interface.index,
            carrier: self.interface.running && self.carrier(),
        };
        for (queue, socket) in (0..).zip(&mut sockets) {
            subject.test(socket, queue).map_err(io::Error::other).map_err(problem("self-test"))?;
        }
        Ok((sockets, framing))
    }

    fn socket(&self, mode: XdpMode, several_chunks: bool, queue: u32) -> Result<Xsk, Problem> {
        let frame_bytes = self.interface.mtu + ETHERNET_HEADER_BYTES;
        let shape = match queue {
            0 => self.shape,
            _ => XskShape::new(frame_bytes, OTHER_RECEIVE_CHUNKS, 0),
        };
        let xsk = Xsk::new(shape).map_err(problem("making the rings"))?;
        // Best effort: other kernels send 32 frames a call.
        let _ = xsk.set_send_budget(shape.send_chunks() as u32);
        if let Some(time) = self.options.busy_poll {
            busy_poll(&xsk, time);
        }
        let zero_copy = mode == XdpMode::ZeroCopy;
        let interface = self.interface.index;
        let to = XskBind { interface, queue, zero_copy, several_chunks };
        bind(&xsk, &to).map_err(problem("binding a socket to a queue"))?;
        self.map.set(queue, xsk.as_fd()).map_err(problem("putting a socket into the map"))?;
        Ok(xsk)
    }

    /// Whether frames can leave, after some time for a card that starts anew.
    fn carrier(&self) -> bool {
        let start = Instant::now();
        loop {
            let flags = system::interface_flags(self.asking.as_fd(), &self.interface.name);
            if flags.is_ok_and(|flags| flags & libc::IFF_RUNNING != 0) {
                return true;
            }
            if start.elapsed() > CARRIER_PATIENCE {
                return false;
            }
            std::thread::sleep(CARRIER_PAUSE);
        }
    }
}

/// Binds, and is patient with a queue that is taken: the kernel lets go of a closed socket's queue
/// some time after the socket is closed.
fn bind(xsk: &Xsk, to: &XskBind) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match xsk.bind(to) {
            Err(error)
                if error.raw_os_error() == Some(libc::EBUSY) && start.elapsed() < BIND_PATIENCE =>
            {
                std::thread::sleep(BIND_PAUSE);
            }
            bound => return bound,
        }
    }
}

/// Asks for busy polling, as far as kernel and driver know it.
fn busy_poll(xsk: &Xsk, time: Duration) {
    let time = libc::c_int::try_from(time.as_micros()).unwrap_or(libc::c_int::MAX);
    for (option, value) in [
        (libc::SO_PREFER_BUSY_POLL, 1),
        (libc::SO_BUSY_POLL, time),
        (libc::SO_BUSY_POLL_BUDGET, BUSY_POLL_BUDGET),
    ] {
        // Best effort, as promised.
        let _ = system::set_option(xsk.as_fd(), libc::SOL_SOCKET, option, &value);
    }
}

/// Errors of attaching that the next mode would meet too.
fn is_hopeless(error: &io::Error) -> bool {
    let code = error.raw_os_error();
    matches!(code, Some(libc::EPERM | libc::EACCES | libc::EBUSY | libc::EEXIST | libc::ENODEV))
}

fn refused(link: &str, problem: &Problem, passed_by: &[String]) -> LinkError {
    let code = problem.error.raw_os_error();
    let attaching = problem.step.starts_with("attaching") || problem.step.starts_with("binding");
    let privilege = matches!(code, Some(libc::EPERM | libc::EACCES));
    let advice = match code {
        _ if privilege => {
            "AF_XDP needs CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF in the first user namespace: run \
             as root, or use the packet or udp link"
        }
        Some(libc::EBUSY | libc::EEXIST) if attaching => {
            "the interface already has an XDP program or an AF_XDP socket (perhaps another EMP \
             node's): `ip link show` names the program; end its owner, or use the packet link, \
             which does not mind"
        }
        Some(libc::ENOSPC | libc::ERANGE) if attaching => {
            "the driver cannot attach to the queues or the MTU as they are: set as many receive \
             queues as the other end has send queues (`ethtool -L`), or use the packet link"
        }
        Some(libc::ENOMEM | libc::ENOBUFS) => {
            "raise the limit of locked memory (`ulimit -l`), or use the packet link"
        }
        Some(libc::ENODEV | libc::ENXIO | libc::ENETDOWN) => {
            "the interface vanished or went down meanwhile: look at it with `ip link`"
        }
        Some(libc::EAFNOSUPPORT | libc::ENOSYS) => {
            "this kernel has no AF_XDP (CONFIG_XDP_SOCKETS): use the packet link"
        }
        _ => "use the packet link",
    };
    let problem_text = match passed_by {
        [] | [_] => problem.to_string(),
        several => several.join("; "),
    };
    LinkError {
        link: link.into(),
        problem: problem_text,
        advice: advice.into(),
        source: Some(code.map_or_else(
            || io::Error::new(problem.error.kind(), problem.error.to_string()),
            io::Error::from_raw_os_error,
        )),
        privilege,
    }
}
