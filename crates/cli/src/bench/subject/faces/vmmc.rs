//! A process of EMP's VMMC library, loaded at run time and called as its header has it (`faces/vmmc/include/vmmc.h`).
//!
//! The buffer that each end exports is never touched: what comes is redirected to the memory that all subjects share, of the size
//! of the job. Bytes are here when the notification is.
//!
//! Invariant of this module: the library is the one that was built with this program, so its functions are those of the
//! header; memory that was handed to it lives in [`Vmmc`] until it was taken back.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context, bail};
use emp_host::PageBuffer;

use super::library::Library;
use super::port::Port;
use crate::bench::subject::memory;

/// `VMMC_ANY_PROCESS`
const ANY: u32 = 0xffff_ffff;
/// The id of the buffer at either end.
const BUFFER: u32 = 1;
/// Its length: the longest messages that are measured. Only what is touched of it takes memory, and nothing is.
const BUFFER_BYTES: usize = 1 << 30;
/// Milliseconds for importing.
const IMPORT_MS: u32 = 10_000;
/// `VMMC_E_PENDING`
const PENDING: c_int = -16;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Process {
    node: u64,
    number: u32,
    zero: u32,
}

type Proxy = *mut c_char;
type Handler = unsafe extern "C" fn(*const c_void, *mut c_void);

/// The functions that are called.
struct Calls {
    init: unsafe extern "C" fn(u32) -> c_int,
    finalize: unsafe extern "C" fn() -> c_int,
    own: unsafe extern "C" fn(*mut Process) -> c_int,
    export: unsafe extern "C" fn(
        *mut c_void,
        usize,
        u32,
        *const Process,
        u32,
        Handler,
        *mut c_void,
    ) -> c_int,
    import: unsafe extern "C" fn(*const Process, u32, u32, *mut Proxy, *mut u64) -> c_int,
    send: unsafe extern "C" fn(*const c_void, Proxy, usize, c_int, *mut u64) -> c_int,
    test: unsafe extern "C" fn(*mut u64) -> c_int,
    poll: unsafe extern "C" fn() -> c_int,
    redirect: unsafe extern "C" fn(u32, u64, *mut c_void, usize, *mut u64) -> c_int,
    restore: unsafe extern "C" fn(u32, u64) -> c_int,
    text: unsafe extern "C" fn(c_int) -> *const c_char,
}

/// A process and its buffers.
struct Vmmc {
    calls: Calls,
    proxy: Proxy,
    exported: *mut c_void,
    /// Notifications that have come, and those that were waited for.
    told: Box<AtomicU64>,
    seen: u64,
    out: PageBuffer,
    into: Vec<PageBuffer>,
    /// Sends that were not over when they were started.
    sends: VecDeque<u64>,
}

/// Counts a notification.
///
/// # Safety
///
/// `context` is an `AtomicU64` that lives while the handler may be called.
unsafe extern "C" fn note(_notification: *const c_void, context: *mut c_void) {
    // SAFETY: the context that was given with this handler: it lives as long as the buffer is exported.
    unsafe { &*context.cast::<AtomicU64>() }.fetch_add(1, Ordering::Release);
}

/// Makes this process one of the library in a file. It takes the interface from `EMP_INTERFACE`, which says that of the lab's.
pub fn open(file: &Path, _interface: &str) -> anyhow::Result<Box<dyn Port>> {
    let library = Library::load(file)?;
    // SAFETY: each symbol is what the header says.
    let calls = unsafe {
        Calls {
            init: library.find(c"vmmc_init")?,
            finalize: library.find(c"vmmc_finalize")?,
            own: library.find(c"vmmc_self")?,
            export: library.find(c"vmmc_export")?,
            import: library.find(c"vmmc_import")?,
            send: library.find(c"vmmc_send_start")?,
            test: library.find(c"vmmc_send_test")?,
            poll: library.find(c"vmmc_poll")?,
            redirect: library.find(c"vmmc_redirect")?,
            restore: library.find(c"vmmc_restore")?,
            text: library.find(c"vmmc_error")?,
        }
    };
    let (protection, flags) =
        (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let flags = flags | libc::MAP_NORESERVE;
    // SAFETY: new memory, where the system likes.
    let exported =
        unsafe { libc::mmap(std::ptr::null_mut(), BUFFER_BYTES, protection, flags, -1, 0) };
    if exported == libc::MAP_FAILED {
        bail!("no addresses for a buffer: {}", std::io::Error::last_os_error());
    }
    let mut vmmc = Vmmc {
        calls,
        proxy: std::ptr::null_mut(),
        exported,
        told: Box::default(),
        seen: 0,
        out: PageBuffer::default(),
        into: Vec::new(),
        sends: VecDeque::new(),
    };
    let anyone = Process { node: 0, number: ANY, zero: 0 };
    let told = (&raw mut *vmmc.told).cast();
    // SAFETY: the buffer and the counter live until the library was finalized (`drop`).
    unsafe {
        vmmc.check("vmmc_init", (vmmc.calls.init)(ANY))?;
        let exported =
            (vmmc.calls.export)(exported, BUFFER_BYTES, BUFFER, &raw const anyone, 1, note, told);
        vmmc.check("vmmc_export", exported)?;
    }
    Ok(Box::new(vmmc))
}

impl Vmmc {
    fn check(&self, what: &str, code: c_int) -> anyhow::Result<()> {
        if code >= 0 {
            return Ok(());
        }
        // SAFETY: returns a text for every number.
        let text = unsafe { CStr::from_ptr((self.calls.text)(code)) };
        bail!("{what}: {}", text.to_string_lossy())
    }
}

impl Port for Vmmc {
    fn address(&self) -> anyhow::Result<Vec<u8>> {
        let mut own = Process::default();
        // SAFETY: a pointer to a local.
        self.check("vmmc_self", unsafe { (self.calls.own)(&raw mut own) })?;
        Ok([&own.node.to_be_bytes()[..], &own.number.to_be_bytes()[..]].concat())
    }

    fn meet(&mut self, address: &[u8]) -> anyhow::Result<()> {
        let (node, number) = address.split_first_chunk().context("too short an address")?;
        let number = u32::from_be_bytes(number.try_into().context("too long an address")?);
        let other = Process { node: u64::from_be_bytes(*node), number, zero: 0 };
        let (mut proxy, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: pointers to locals.
        let imported = unsafe {
            let (proxy, bytes) = (&raw mut proxy, &raw mut bytes);
            (self.calls.import)(&raw const other, BUFFER, IMPORT_MS, proxy, bytes)
        };
        self.proxy = proxy;
        self.check("vmmc_import", imported)
    }

    fn resize(&mut self, size: usize, receives: usize) -> anyhow::Result<()> {
        if !self.sends.is_empty() {
            bail!("{} sends have not ended", self.sends.len());
        }
        if size > BUFFER_BYTES {
            bail!("messages of {size} bytes are longer than the buffer");
        }
        if self.out.len() == size && self.into.len() == receives {
            return Ok(());
        }
        // SAFETY: takes no pointers. The first time nothing is redirected.
        unsafe { (self.calls.restore)(BUFFER, 0) };
        self.out = memory::filled(size)?;
        // One is used; the others are there so that all subjects find theirs alike.
        self.into = memory::several(receives, size)?;
        let into = self.into[0].as_mut_ptr().cast();
        // SAFETY: the memory stays until it is restored, above or by finalizing.
        let redirected =
            unsafe { (self.calls.redirect)(BUFFER, 0, into, size, std::ptr::null_mut()) };
        self.check("vmmc_redirect", redirected)
    }

    fn leave_memory(&mut self) {
        // SAFETY: takes no pointers.
        if self.sends.is_empty() && unsafe { (self.calls.restore)(BUFFER, 0) } >= 0 {
            memory::leave_sent(std::mem::take(&mut self.out));
            memory::leave_received(std::mem::take(&mut self.into));
        }
    }

    fn receives(&self) -> usize {
        self.into.len()
    }

    #[inline]
    fn send(&mut self) -> anyhow::Result<()> {
        let mut request = 0;
        // SAFETY: the buffer stays as it is until the send is over; a pointer to a local.
        let result = unsafe {
            let from = self.out.as_ptr().cast();
            (self.calls.send)(from, self.proxy, self.out.len(), 1, &raw mut request)
        };
        if request != 0 {
            self.sends.push_back(request);
        }
        self.check("vmmc_send_start", result)
    }

    fn receive(&mut self, _number: usize) -> anyhow::Result<()> {
        Ok(())
    }

    #[inline]
    fn arrived(&mut self) -> anyhow::Result<bool> {
        self.progress()?;
        if self.told.load(Ordering::Acquire) == self.seen {
            return Ok(false);
        }
        self.seen += 1;
        if !self.sends.is_empty() {
            self.sent()?;
        }
        Ok(true)
    }

    fn sent(&mut self) -> anyhow::Result<bool> {
        while let Some(oldest) = self.sends.front_mut() {
            // SAFETY: a pointer to a number.
            match unsafe { (self.calls.test)(oldest) } {
                PENDING => return Ok(false),
                code => self.check("vmmc_send_test", code)?,
            }
            self.sends.pop_front();
        }
        Ok(true)
    }

    #[inline]
    fn progress(&mut self) -> anyhow::Result<()> {
        // SAFETY: takes no pointers; the handler that may run is above.
        self.check("vmmc_poll", unsafe { (self.calls.poll)() })
    }
}

impl Drop for Vmmc {
    fn drop(&mut self) {
        // SAFETY: after the first nothing writes to the buffers any more; the second gives back what was mapped.
        unsafe {
            (self.calls.finalize)();
            libc::munmap(self.exported, BUFFER_BYTES);
        }
    }
}
