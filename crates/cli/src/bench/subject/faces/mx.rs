//! An endpoint of EMP's MX library, loaded at run time and called as its header has it (`faces/mx/include/myriexpress.h`).
//!
//! Invariant of this module: the library is the one that was built with this program, so its functions are those of the
//! header; buffers that were handed to a request live in [`Mx`] and are changed only when none is under way.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::ptr::{null_mut, without_provenance_mut};

use anyhow::{Context, bail};
use emp_host::PageBuffer;

use super::library::Library;
use super::port::{CONNECT_MS, Port};
use crate::bail_user;
use crate::bench::subject::memory;

/// `MX_API`
const API: c_int = 0x301;
/// `MX_ANY_ENDPOINT`
const ANY: u32 = 0xffff_ffff;
/// `MX_NIC_COUNT`, `MX_PART_NUMBER`: which board is on which interface.
const NIC_COUNT: u32 = 1;
const PART_NUMBER: u32 = 9;
/// `MX_MAX_STR_LEN`
const TEXT_BYTES: usize = 128;
/// Whom this program's endpoints let connect.
const FILTER: u32 = 0x6265_6e63;
/// The match bits of all messages.
const MATCH: u64 = 1;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Address([u64; 2]);

#[repr(C)]
struct Segment {
    pointer: *mut c_void,
    length: u32,
}

#[repr(C)]
struct Status {
    code: c_int,
    source: Address,
    match_info: u64,
    msg_length: u32,
    xfer_length: u32,
    context: *mut c_void,
}

type Endpoint = *mut c_void;
type Request = *mut c_void;

/// The functions that are called.
struct Calls {
    open: unsafe extern "C" fn(u32, u32, u32, *mut c_void, u32, *mut Endpoint) -> c_int,
    close: unsafe extern "C" fn(Endpoint) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    own: unsafe extern "C" fn(Endpoint, *mut Address) -> c_int,
    decompose: unsafe extern "C" fn(Address, *mut u64, *mut u32) -> c_int,
    connect: unsafe extern "C" fn(Endpoint, u64, u32, u32, u32, *mut Address) -> c_int,
    info: unsafe extern "C" fn(Endpoint, u32, *mut c_void, u32, *mut c_void, u32) -> c_int,
    send: unsafe extern "C" fn(
        Endpoint,
        *mut Segment,
        u32,
        Address,
        u64,
        *mut c_void,
        *mut Request,
    ) -> c_int,
    receive: unsafe extern "C" fn(
        Endpoint,
        *mut Segment,
        u32,
        u64,
        u64,
        *mut c_void,
        *mut Request,
    ) -> c_int,
    test: unsafe extern "C" fn(Endpoint, *mut Request, *mut Status, *mut u32) -> c_int,
    progress: unsafe extern "C" fn(Endpoint) -> c_int,
    text: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// An endpoint and the buffers of its requests.
struct Mx {
    calls: Calls,
    endpoint: Endpoint,
    peer: Address,
    out: PageBuffer,
    into: Vec<PageBuffer>,
    /// Requests that have not ended, in the order of their posts.
    sends: VecDeque<Request>,
    posted: VecDeque<Request>,
}

/// Opens an endpoint of the library in a file, on an interface.
pub fn open(file: &Path, interface: &str) -> anyhow::Result<Box<dyn Port>> {
    Ok(Box::new(Mx::open(file, interface)?))
}

impl Mx {
    fn open(file: &Path, interface: &str) -> anyhow::Result<Self> {
        let (calls, init) = load(file)?;
        let mut mx = Self {
            calls,
            endpoint: null_mut(),
            peer: Address::default(),
            out: PageBuffer::default(),
            into: Vec::new(),
            sends: VecDeque::new(),
            posted: VecDeque::new(),
        };
        // SAFETY: the library is there; pointers that are written are local.
        unsafe {
            mx.check("mx_init", init(API))?;
            let board = mx.board_on(interface)?;
            let mut endpoint = null_mut();
            let opened = (mx.calls.open)(board, ANY, FILTER, null_mut(), 0, &raw mut endpoint);
            mx.check("mx_open_endpoint", opened)?;
            mx.endpoint = endpoint;
        }
        Ok(mx)
    }

    /// The board on an interface; the only one, if memory is shared.
    fn board_on(&self, interface: &str) -> anyhow::Result<u32> {
        let mut count = 0u32;
        // SAFETY: there is room for the number.
        let result = unsafe {
            (self.calls.info)(null_mut(), NIC_COUNT, null_mut(), 0, (&raw mut count).cast(), 4)
        };
        self.check("mx_get_info", result)?;
        for mut board in 0..count {
            let mut text = [0u8; TEXT_BYTES];
            // SAFETY: the number is there, and so much room for the text, which ends with a zero.
            let result = unsafe {
                let (at, into) = ((&raw mut board).cast(), text.as_mut_ptr().cast());
                (self.calls.info)(null_mut(), PART_NUMBER, at, 4, into, TEXT_BYTES as u32)
            };
            self.check("mx_get_info", result)?;
            let text = CStr::from_bytes_until_nul(&text).unwrap_or_default().to_string_lossy();
            if text.ends_with(&format!(" on {interface}")) || text.starts_with("shm ") {
                return Ok(board);
            }
        }
        bail_user!(
            "the MX library has no board on {interface}; EMP_INTERFACE={interface} names it"
        );
    }

    fn check(&self, what: &str, code: c_int) -> anyhow::Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: returns a text for every number.
        let text = unsafe { CStr::from_ptr((self.calls.text)(code)) };
        bail!("{what}: {}", text.to_string_lossy())
    }

    /// Whether a request has ended; it is gone then.
    #[inline]
    fn ended(&self, mut request: Request) -> anyhow::Result<bool> {
        let (mut done, mut status) = (0u32, std::mem::MaybeUninit::<Status>::uninit());
        // SAFETY: the endpoint is open; pointers are to locals.
        let result = unsafe {
            (self.calls.test)(self.endpoint, &raw mut request, status.as_mut_ptr(), &raw mut done)
        };
        self.check("mx_test", result)?;
        if done == 0 {
            return Ok(false);
        }
        // SAFETY: filled, as the request has ended.
        let status = unsafe { status.assume_init() };
        let (code, length) = (status.code, status.msg_length as usize);
        if code != 0 || length != self.out.len() {
            bail!("a message of {length} bytes has ended with status {code}");
        }
        Ok(true)
    }
}

impl Port for Mx {
    fn address(&self) -> anyhow::Result<Vec<u8>> {
        let (mut own, mut nic, mut id) = (Address::default(), 0u64, 0u32);
        // SAFETY: the endpoint is open; pointers are to locals.
        unsafe {
            self.check("mx_get_endpoint_addr", (self.calls.own)(self.endpoint, &raw mut own))?;
            let taken = (self.calls.decompose)(own, &raw mut nic, &raw mut id);
            self.check("mx_decompose_endpoint_addr", taken)?;
        }
        Ok([&nic.to_be_bytes()[..], &id.to_be_bytes()[..]].concat())
    }

    fn meet(&mut self, address: &[u8]) -> anyhow::Result<()> {
        let (nic, id) = address.split_first_chunk().context("too short an address")?;
        let id = id.try_into().context("too long an address")?;
        let (nic, id) = (u64::from_be_bytes(*nic), u32::from_be_bytes(id));
        let mut peer = Address::default();
        // SAFETY: the endpoint is open; the pointer is to a local.
        let connected = unsafe {
            (self.calls.connect)(self.endpoint, nic, id, FILTER, CONNECT_MS, &raw mut peer)
        };
        self.peer = peer;
        self.check("mx_connect", connected)
    }

    fn resize(&mut self, size: usize, receives: usize) -> anyhow::Result<()> {
        if !self.sends.is_empty() || !self.posted.is_empty() {
            bail!("{} sends and {} receives have not ended", self.sends.len(), self.posted.len());
        }
        if self.out.len() != size || self.into.len() != receives {
            self.out = memory::filled(size)?;
            self.into = memory::several(receives, size)?;
        }
        Ok(())
    }

    fn leave_memory(&mut self) {
        if self.sends.is_empty() && self.posted.is_empty() {
            memory::leave_sent(std::mem::take(&mut self.out));
            memory::leave_received(std::mem::take(&mut self.into));
        }
    }

    #[inline]
    fn send(&mut self) -> anyhow::Result<()> {
        let pointer = self.out.as_ptr().cast_mut().cast::<c_void>();
        let mut segment = Segment { pointer, length: self.out.len() as u32 };
        let mut request = null_mut();
        // SAFETY: the endpoint is open, and the buffer stays as it is until the send has ended.
        let result = unsafe {
            let (segment, request) = (&raw mut segment, &raw mut request);
            (self.calls.send)(self.endpoint, segment, 1, self.peer, MATCH, null_mut(), request)
        };
        self.sends.push_back(request);
        self.check("mx_isend", result)
    }

    fn receives(&self) -> usize {
        self.into.len()
    }

    #[inline]
    fn receive(&mut self, number: usize) -> anyhow::Result<()> {
        let buffer = &mut self.into[number];
        let length = buffer.len() as u32;
        let mut segment = Segment { pointer: buffer.as_mut_ptr().cast(), length };
        let mut request = null_mut();
        // SAFETY: the endpoint is open, and the buffer is not touched until the receive has ended.
        let result = unsafe {
            let (segment, request) = (&raw mut segment, &raw mut request);
            let context = without_provenance_mut(number);
            (self.calls.receive)(self.endpoint, segment, 1, MATCH, u64::MAX, context, request)
        };
        self.posted.push_back(request);
        self.check("mx_irecv", result)
    }

    #[inline]
    fn arrived(&mut self) -> anyhow::Result<bool> {
        let Some(&first) = self.posted.front() else { bail!("no receive is posted") };
        if !self.ended(first)? {
            return Ok(false);
        }
        self.posted.pop_front();
        if let Some(&oldest) = self.sends.front()
            && self.ended(oldest)?
        {
            self.sends.pop_front();
        }
        Ok(true)
    }

    fn sent(&mut self) -> anyhow::Result<bool> {
        while let Some(&oldest) = self.sends.front()
            && self.ended(oldest)?
        {
            self.sends.pop_front();
        }
        Ok(self.sends.is_empty())
    }

    fn progress(&mut self) -> anyhow::Result<()> {
        // SAFETY: the endpoint is open.
        self.check("mx_progress", unsafe { (self.calls.progress)(self.endpoint) })
    }
}

impl Drop for Mx {
    fn drop(&mut self) {
        // SAFETY: the endpoint is open, or null, which is refused; closing it gives the buffers back.
        unsafe {
            (self.calls.close)(self.endpoint);
            (self.calls.finalize)();
        }
    }
}

/// Loads the library; with its `mx__init_api`, and with errors that are returned.
fn load(file: &Path) -> anyhow::Result<(Calls, unsafe extern "C" fn(c_int) -> c_int)> {
    type Handler = unsafe extern "C" fn(*mut c_char, c_int) -> c_int;
    let library = Library::load(file)?;
    // SAFETY: each symbol is what the header says.
    unsafe {
        let set: unsafe extern "C" fn(Handler) -> *mut c_void =
            library.find(c"mx_set_error_handler")?;
        let returning: *const Handler = library.find(c"MX_ERRORS_RETURN")?;
        set(*returning);
        let calls = Calls {
            open: library.find(c"mx_open_endpoint")?,
            close: library.find(c"mx_close_endpoint")?,
            finalize: library.find(c"mx_finalize")?,
            own: library.find(c"mx_get_endpoint_addr")?,
            decompose: library.find(c"mx_decompose_endpoint_addr")?,
            connect: library.find(c"mx_connect")?,
            info: library.find(c"mx_get_info")?,
            send: library.find(c"mx_isend")?,
            receive: library.find(c"mx_irecv")?,
            test: library.find(c"mx_test")?,
            progress: library.find(c"mx_progress")?,
            text: library.find(c"mx_strerror")?,
        };
        Ok((calls, library.find(c"mx__init_api")?))
    }
}
