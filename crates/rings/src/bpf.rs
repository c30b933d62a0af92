//! Just enough of bpf(2): a map of AF_XDP sockets, an XDP program, running it on made-up frames, and
//! attaching it to an interface.
//!
//! # Invariant
//!
//! Each request is a `#[repr(C)]` structure of integers laid out as `union bpf_attr` is for that
//! command, given with its exact size. Pointers in it lead to live values of the calling function;
//! the kernel does not keep them after the call. What the kernel would run is checked by its own
//! verifier: no program can make the process or the kernel unsound.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::from_mut;

/// Commands, from `<linux/bpf.h>`.
const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const LINK_CREATE: libc::c_int = 28;
const LINK_DETACH: libc::c_int = 34;

const MAP_TYPE_XSKMAP: u32 = 17;
const PROG_TYPE_XDP: u32 = 6;
const ATTACH_TYPE_XDP: u32 = 37;
/// The program takes frames that lie in several pieces.
const XDP_HAS_FRAGS: u32 = 1 << 5;
/// A test run's frames are redirected for real.
const TEST_XDP_LIVE_FRAMES: u32 = 1 << 1;
const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// Bytes of what the verifier says about a program that it refuses.
const LOG_BYTES: usize = 16 * 1024;

/// The program's licence, as the kernel wants it: helpers are GPL.
const LICENSE: &std::ffi::CStr = c"Dual MIT/GPL";

/// One instruction, as `struct bpf_insn` lays it out.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BpfInstruction {
    /// What it does.
    pub code: u8,
    /// Destination register, and source register in the upper four bits (little-endian machines;
    /// [`BpfInstruction::new`] knows).
    pub registers: u8,
    /// Distance of a jump or a memory access.
    pub offset: i16,
    /// A constant.
    pub constant: i32,
}

impl BpfInstruction {
    /// An instruction on two registers.
    pub const fn new(code: u8, to: u8, from: u8, offset: i16, constant: i32) -> Self {
        let registers = if cfg!(target_endian = "little") {
            to & 0xF | from << 4
        } else {
            to << 4 | from & 0xF
        };
        Self { code, registers, offset, constant }
    }
}

/// A request's second argument: integers only, laid out as the module's invariant says.
///
/// # Safety
///
/// As the module's invariant says, for the command that it is used with.
unsafe fn bpf<T>(command: libc::c_int, request: &mut T) -> io::Result<libc::c_int> {
    // SAFETY: the caller vouches for the request; its size is exact.
    let result =
        unsafe { libc::syscall(libc::SYS_bpf, command, from_mut(request), size_of::<T>()) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as libc::c_int) }
}

/// Takes over a descriptor that a command has just returned.
fn own(fd: libc::c_int) -> OwnedFd {
    // SAFETY: only called with what the kernel has just returned for us; nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// A map from queue numbers to AF_XDP sockets.
#[derive(Debug)]
pub struct XskMap(OwnedFd);

#[repr(C)]
struct MapCreate {
    map_type: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

impl XskMap {
    /// A map for queues 0 to `queues` - 1. Needs CAP_NET_ADMIN with CAP_BPF, or CAP_SYS_ADMIN.
    pub fn new(queues: u32) -> io::Result<Self> {
        let mut request = MapCreate {
            map_type: MAP_TYPE_XSKMAP,
            key_size: 4,
            value_size: 4,
            max_entries: queues,
        };
        // SAFETY: the structure is the beginning of what MAP_CREATE takes, without pointers.
        unsafe { bpf(MAP_CREATE, &mut request) }.map(|fd| Self(own(fd)))
    }

    /// Sends the frames of a queue to a bound AF_XDP socket.
    pub fn set(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = number(socket);
        let mut request = MapUpdate {
            map: number(self.0.as_fd()),
            unused: 0,
            key: (&raw const queue) as u64,
            value: (&raw const value) as u64,
            flags: 0,
        };
        // SAFETY: MAP_UPDATE_ELEM reads a key and a value of the sizes that the map has: four bytes.
        unsafe { bpf(MAP_UPDATE_ELEM, &mut request) }.map(drop)
    }
}

impl AsFd for XskMap {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A loaded XDP program.
#[derive(Debug)]
pub struct XdpProgram(OwnedFd);

#[repr(C)]
struct ProgLoad {
    prog_type: u32,
    instructions: u32,
    instruction: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

#[repr(C)]
struct TestRun {
    program: u32,
    answer: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    unused: u32,
}

/// `struct xdp_md`: what a program sees of a frame.
#[repr(C)]
struct Context {
    data: u32,
    data_end: u32,
    data_meta: u32,
    interface: u32,
    queue: u32,
    egress: u32,
}

impl Context {
    fn new(frame: &[u8], (interface, queue): (u32, u32)) -> Self {
        let data_end = frame.len() as u32;
        Self { data: 0, data_end, data_meta: 0, interface, queue, egress: 0 }
    }
}

impl XdpProgram {
    /// Loads a program. With `several_pieces` it takes frames that do not lie in one piece, which
    /// interfaces with a large MTU want; kernels before 5.18 refuse that. The error holds what the
    /// verifier said, if it was that.
    pub fn load(instructions: &[BpfInstruction], several_pieces: bool) -> io::Result<Self> {
        let mut log = vec![0u8; LOG_BYTES];
        let mut request = ProgLoad {
            prog_type: PROG_TYPE_XDP,
            instructions: instructions.len() as u32,
            instruction: instructions.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: 1,
            log_bytes: LOG_BYTES as u32,
            log: log.as_mut_ptr() as u64,
            kernel_version: 0,
            flags: if several_pieces { XDP_HAS_FRAGS } else { 0 },
            name: *b"emp_redirect\0\0\0\0",
            interface: 0,
            attach_type: ATTACH_TYPE_XDP,
        };
        // SAFETY: the structure is the beginning of what PROG_LOAD takes; its pointers lead to
        // `instructions`, the licence and `log`, which outlive the call, with their lengths.
        let loaded = unsafe { bpf(PROG_LOAD, &mut request) };
        loaded.map(|fd| Self(own(fd))).map_err(|error| {
            let said = log.split(|byte| *byte == 0).next().unwrap_or_default();
            match String::from_utf8_lossy(said).trim() {
                "" => error,
                said => io::Error::new(error.kind(), format!("{error}: {said}")),
            }
        })
    }

    /// Runs the program on a frame and returns its verdict; the frame goes nowhere. `from`: the
    /// interface (of this thread's network namespace) and the queue that it seems to come from;
    /// `None`: loopback's queue 0.
    pub fn test(&self, frame: &[u8], from: Option<(u32, u32)>) -> io::Result<u32> {
        let context = from.map(|from| Context::new(frame, from));
        let mut request = TestRun { data_in: frame.as_ptr() as u64, ..self.run(frame.len(), 1) };
        if let Some(context) = &context {
            request.context_bytes_in = size_of::<Context>() as u32;
            request.context_in = std::ptr::from_ref(context) as u64;
        }
        // SAFETY: the structure is what PROG_TEST_RUN takes; its pointers lead to `frame` and
        // `context`, with their lengths.
        unsafe { bpf(PROG_TEST_RUN, &mut request) }?;
        Ok(request.answer)
    }

    /// Runs the program on `count` copies of a frame (at most some 3 KiB) as if they had arrived on
    /// an interface's queue 0, and does with them what it says: redirected ones reach their socket
    /// before this returns. Needs Linux 5.18, which feeds no other queue.
    pub fn inject(&self, frame: &[u8], count: u32, interface: u32) -> io::Result<()> {
        let context = Context::new(frame, (interface, 0));
        let mut request = TestRun {
            data_in: frame.as_ptr() as u64,
            context_bytes_in: size_of::<Context>() as u32,
            context_in: (&raw const context) as u64,
            flags: TEST_XDP_LIVE_FRAMES,
            ..self.run(frame.len(), count)
        };
        // SAFETY: as for `test`.
        unsafe { bpf(PROG_TEST_RUN, &mut request) }.map(drop)
    }

    fn run(&self, bytes: usize, repeat: u32) -> TestRun {
        TestRun {
            program: number(self.0.as_fd()),
            answer: 0,
            bytes_in: bytes as u32,
            bytes_out: 0,
            data_in: 0,
            data_out: 0,
            repeat,
            duration: 0,
            context_bytes_in: 0,
            context_bytes_out: 0,
            context_in: 0,
            context_out: 0,
            flags: 0,
            cpu: 0,
            batch: 0,
            unused: 0,
        }
    }

    /// Attaches the program to an interface of this thread's network namespace, in the driver
    /// (`native`) or behind it. An interface has one program: EBUSY if there is another.
    pub fn attach(&self, interface: u32, native: bool) -> io::Result<XdpAttachment> {
        let mut request = LinkCreate {
            program: number(self.0.as_fd()),
            interface,
            attach_type: ATTACH_TYPE_XDP,
            flags: if native { XDP_FLAGS_DRV_MODE } else { XDP_FLAGS_SKB_MODE },
        };
        // SAFETY: the structure is the beginning of what LINK_CREATE takes, without pointers.
        unsafe { bpf(LINK_CREATE, &mut request) }
            .map(|fd| XdpAttachment(own(fd), std::process::id()))
    }
}

/// A program's being attached. Ends with the value, and with the process, however that ends (a child
/// between `fork` and `exec` may hold it a little longer). The number is that of the process that made it: what another one, forked
/// from it, does with its copy of the value leaves the program where it is.
#[derive(Debug)]
pub struct XdpAttachment(OwnedFd, u32);

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

#[repr(C)]
struct LinkDetach {
    link: u32,
}

#[repr(C)]
struct ObjectInfo {
    fd: u32,
    bytes: u32,
    info: u64,
}

/// The beginning of `struct bpf_link_info`, for an XDP link.
#[repr(C)]
#[derive(Default)]
struct LinkInfo {
    link_type: u32,
    id: u32,
    program: u32,
    unused: u32,
    interface: u32,
    unused_too: u32,
}

impl XdpAttachment {
    /// The interface that it holds; `None` once it was detached by someone else, or the interface
    /// is gone. One system call.
    pub fn interface(&self) -> io::Result<Option<u32>> {
        let mut info = LinkInfo::default();
        let mut request = ObjectInfo {
            fd: number(self.0.as_fd()),
            bytes: size_of::<LinkInfo>() as u32,
            info: (&raw mut info) as u64,
        };
        // SAFETY: the structure is what OBJ_GET_INFO_BY_FD takes; its pointer leads to `info`, of
        // which the kernel fills at most the length given.
        unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut request) }?;
        Ok((info.interface != 0).then_some(info.interface))
    }

    /// Takes the program off the interface, and keeps the value, which then holds nothing.
    pub fn detach(&self) -> io::Result<()> {
        let mut request = LinkDetach { link: number(self.0.as_fd()) };
        // SAFETY: the structure is what LINK_DETACH takes, without pointers.
        unsafe { bpf(LINK_DETACH, &mut request) }.map(drop)
    }
}

impl Drop for XdpAttachment {
    fn drop(&mut self) {
        // Closing is not enough at once: a child that another thread is just starting holds all
        // descriptors until its `exec`. Failing means that it was detached already.
        if self.1 == std::process::id() {
            let _ = self.detach();
        }
    }
}
