//! A VI of EMP's VIPL library, loaded at run time and called as its header has it (`faces/vipl/include/vipl.h`): reliable
//! delivery, connected peer to peer, as both ends do the same.
//!
//! Invariant of this module: the library is the one that was built with this program, so its functions and layouts are those of
//! the header; memory that was handed to it lives in [`Vipl`] until it was deregistered or the NIC was closed.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_ulong, c_void};
use std::path::Path;

use anyhow::{Context, bail};
use emp_host::PageBuffer;

use super::library::Library;
use super::port::{CONNECT_MS, Port};
use crate::bench::subject::memory;

type Handle = *mut c_void;

/// Descriptors for receives, and behind them those for sends: more than are under way.
const RECEIVES: usize = 64;
const SENDS: usize = 64;
/// Receives that are posted at least: in VIA one must be there before its message, so the next one always is.
const POSTED_MIN: usize = 2;
/// `VIP_NOT_DONE`
const NOT_DONE: c_int = 1;
/// `VIP_DESCRIPTOR_ERROR`
const DESCRIPTOR_ERROR: c_int = 11;
/// `VIP_SERVICE_RELIABLE_DELIVERY`
const RELIABLE_DELIVERY: u16 = 2;
/// Where `VIP_NIC_ATTRIBUTES` has the length of the address, a pointer to it, and the longest transfer; and how long it is.
const NIC_BYTES: usize = 200;
const NIC_ADDRESS_LEN: usize = 80;
const NIC_ADDRESS: usize = 88;
const NIC_TRANSFER: usize = 168;

/// `VIP_DESCRIPTOR` with one data segment, which lie 64 bytes apart.
#[repr(C, align(64))]
#[derive(Clone, Copy, Default)]
struct Descriptor {
    next: u64,
    next_handle: u32,
    segments: u16,
    control: u16,
    reserved: u32,
    immediate: u32,
    length: u32,
    status: u32,
    address: u64,
    handle: u32,
    bytes: u32,
}

/// `VIP_VI_ATTRIBUTES`
#[repr(C)]
struct ViAttributes {
    reliability: u16,
    max_transfer: c_ulong,
    qos: Handle,
    tag: Handle,
    rdma_write: c_int,
    rdma_read: c_int,
}

/// `VIP_MEM_ATTRIBUTES`
#[repr(C)]
struct MemAttributes {
    tag: Handle,
    rdma_write: c_int,
    rdma_read: c_int,
}

type Post = unsafe extern "C" fn(Handle, *mut Descriptor, u32) -> c_int;
type Done = unsafe extern "C" fn(Handle, *mut *mut Descriptor) -> c_int;

/// The functions that are called.
struct Calls {
    open: unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int,
    close: unsafe extern "C" fn(Handle) -> c_int,
    query: unsafe extern "C" fn(Handle, *mut [u8; NIC_BYTES]) -> c_int,
    tag: unsafe extern "C" fn(Handle, *mut Handle) -> c_int,
    register:
        unsafe extern "C" fn(Handle, *mut c_void, c_ulong, *const MemAttributes, *mut u32) -> c_int,
    deregister: unsafe extern "C" fn(Handle, *mut c_void, u32) -> c_int,
    create: unsafe extern "C" fn(Handle, *const ViAttributes, Handle, Handle, *mut Handle) -> c_int,
    request: unsafe extern "C" fn(Handle, *const u8, *const u8, c_ulong) -> c_int,
    wait: unsafe extern "C" fn(Handle, *mut ViAttributes) -> c_int,
    post_send: Post,
    send_done: Done,
    post_receive: Post,
    receive_done: Done,
}

/// A VI and its buffers.
struct Vipl {
    calls: Calls,
    nic: Handle,
    tag: Handle,
    vi: Handle,
    /// The VI's own address, as the library has it.
    own: Vec<u8>,
    descriptors: Box<[Descriptor; RECEIVES + SENDS]>,
    descriptors_handle: u32,
    out: PageBuffer,
    into: Vec<PageBuffer>,
    /// Registered buffers: where, and by which handle.
    registered: Vec<(*mut c_void, u32)>,
    next_send: usize,
    under_way: usize,
}

fn check(what: &str, code: c_int) -> anyhow::Result<()> {
    if code == 0 { Ok(()) } else { bail!("{what}: VIP_RETURN {code}") }
}

/// Opens the NIC of an interface, and makes a VI there.
pub fn open(file: &Path, interface: &str) -> anyhow::Result<Box<dyn Port>> {
    let library = Library::load(file)?;
    // SAFETY: each symbol is what the header says.
    let calls = unsafe {
        Calls {
            open: library.find(c"VipOpenNic")?,
            close: library.find(c"VipCloseNic")?,
            query: library.find(c"VipQueryNic")?,
            tag: library.find(c"VipCreatePtag")?,
            register: library.find(c"VipRegisterMem")?,
            deregister: library.find(c"VipDeregisterMem")?,
            create: library.find(c"VipCreateVi")?,
            request: library.find(c"VipConnectPeerRequest")?,
            wait: library.find(c"VipConnectPeerWait")?,
            post_send: library.find(c"VipPostSend")?,
            send_done: library.find(c"VipSendDone")?,
            post_receive: library.find(c"VipPostRecv")?,
            receive_done: library.find(c"VipRecvDone")?,
        }
    };
    let name = CString::new(interface)?;
    let mut vipl = Vipl {
        calls,
        nic: std::ptr::null_mut(),
        tag: std::ptr::null_mut(),
        vi: std::ptr::null_mut(),
        own: Vec::new(),
        descriptors: Box::new([Descriptor::default(); RECEIVES + SENDS]),
        descriptors_handle: 0,
        out: PageBuffer::default(),
        into: Vec::new(),
        registered: Vec::new(),
        next_send: 0,
        under_way: 0,
    };
    let mut about = [0; NIC_BYTES];
    // SAFETY: pointers to what is here.
    unsafe {
        check("VipOpenNic", (vipl.calls.open)(name.as_ptr(), &raw mut vipl.nic))?;
        check("VipQueryNic", (vipl.calls.query)(vipl.nic, &raw mut about))?;
        check("VipCreatePtag", (vipl.calls.tag)(vipl.nic, &raw mut vipl.tag))?;
    }
    vipl.own = own_address(&about);
    let (start, bytes) = (vipl.descriptors.as_mut_ptr(), size_of_val(&*vipl.descriptors));
    vipl.descriptors_handle = vipl.register(start.cast(), bytes)?;
    let number =
        |at: usize| c_ulong::from_ne_bytes(about[at..at + 8].try_into().unwrap_or_default());
    let wanted = ViAttributes {
        reliability: RELIABLE_DELIVERY,
        max_transfer: number(NIC_TRANSFER),
        qos: std::ptr::null_mut(),
        tag: vipl.tag,
        rdma_write: 0,
        rdma_read: 0,
    };
    let none = std::ptr::null_mut();
    // SAFETY: pointers to what is here.
    let created =
        unsafe { (vipl.calls.create)(vipl.nic, &raw const wanted, none, none, &raw mut vipl.vi) };
    check("VipCreateVi", created)?;
    Ok(Box::new(vipl))
}

/// `VIP_NET_ADDRESS` of this process: that of the NIC, and this process's number.
fn own_address(about: &[u8; NIC_BYTES]) -> Vec<u8> {
    let length = u16::from_ne_bytes([about[NIC_ADDRESS_LEN], about[NIC_ADDRESS_LEN + 1]]);
    let pointer = &about[NIC_ADDRESS..NIC_ADDRESS + 8];
    let address = usize::from_ne_bytes(pointer.try_into().unwrap_or_default());
    let address = std::ptr::with_exposed_provenance::<u8>(address);
    // SAFETY: the library's address, so long, valid until the NIC is closed.
    let address = unsafe { std::slice::from_raw_parts(address, length.into()) };
    let discriminator = std::process::id().to_ne_bytes();
    let lengths = [length.to_ne_bytes(), (discriminator.len() as u16).to_ne_bytes()].concat();
    [&lengths, address, &discriminator].concat()
}

impl Vipl {
    fn register(&self, start: *mut c_void, bytes: usize) -> anyhow::Result<u32> {
        let attributes = MemAttributes { tag: self.tag, rdma_write: 0, rdma_read: 0 };
        let (bytes, mut handle) = (bytes as c_ulong, 0);
        // SAFETY: the memory stays until it is deregistered or the NIC is closed; pointers to locals.
        let registered = unsafe {
            (self.calls.register)(self.nic, start, bytes, &raw const attributes, &raw mut handle)
        };
        check("VipRegisterMem", registered)?;
        Ok(handle)
    }

    /// To be called when nothing is posted.
    fn deregister(&mut self) -> anyhow::Result<()> {
        for (start, handle) in self.registered.drain(..) {
            // SAFETY: nothing is posted, so nothing uses the memory.
            let gone = unsafe { (self.calls.deregister)(self.nic, start, handle) };
            check("VipDeregisterMem", gone)?;
        }
        Ok(())
    }

    /// Has a descriptor point to a buffer.
    fn point(&mut self, number: usize, buffer: usize) {
        let (address, handle) = self.registered[buffer];
        let bytes = self.out.len() as u32;
        let descriptor = &mut self.descriptors[number];
        *descriptor = Descriptor { segments: 1, length: bytes, handle, bytes, ..*descriptor };
        (descriptor.address, descriptor.status) = (address.expose_provenance() as u64, 0);
    }

    /// Takes the first descriptor of a queue, if it is done.
    #[inline]
    fn take(&self, what: &str, done: Done) -> anyhow::Result<bool> {
        let mut descriptor = std::ptr::null_mut();
        // SAFETY: a pointer to a local.
        match unsafe { done(self.vi, &raw mut descriptor) } {
            0 => Ok(true),
            NOT_DONE => Ok(false),
            DESCRIPTOR_ERROR if descriptor.is_null() => Ok(false),
            DESCRIPTOR_ERROR => {
                // SAFETY: one of ours, which is done.
                bail!("{what}: a descriptor ended with status {:#x}", unsafe {
                    (*descriptor).status
                })
            }
            code => bail!("{what}: VIP_RETURN {code}"),
        }
    }
}

impl Port for Vipl {
    fn address(&self) -> anyhow::Result<Vec<u8>> {
        Ok(self.own.clone())
    }

    fn meet(&mut self, address: &[u8]) -> anyhow::Result<()> {
        let length = |at: usize| -> Option<usize> {
            Some(usize::from(u16::from_ne_bytes([*address.get(at)?, *address.get(at + 1)?])))
        };
        let lengths = length(0).zip(length(2)).context("too short an address")?;
        if address.len() != 4 + lengths.0 + lengths.1 {
            bail!("an address of {} bytes", address.len());
        }
        // SAFETY: both addresses have as many bytes as they say; no attributes are asked for.
        unsafe {
            let (own, other) = (self.own.as_ptr(), address.as_ptr());
            let begun = (self.calls.request)(self.vi, own, other, CONNECT_MS.into());
            check("VipConnectPeerRequest", begun)?;
            check("VipConnectPeerWait", (self.calls.wait)(self.vi, std::ptr::null_mut()))
        }
    }

    fn resize(&mut self, size: usize, receives: usize) -> anyhow::Result<()> {
        if !self.sent()? {
            bail!("{} sends have not ended", self.under_way);
        }
        if receives > RECEIVES {
            bail!("{receives} receives are more than there are descriptors");
        }
        if self.out.len() == size && self.into.len() == receives {
            return Ok(());
        }
        self.deregister()?;
        self.out = memory::filled(size)?;
        self.into = memory::several(receives, size)?;
        // The message first, then the buffers to receive into.
        let starts = [&mut self.out].into_iter().chain(&mut self.into);
        let starts: Vec<*mut c_void> = starts.map(|buffer| buffer.as_mut_ptr().cast()).collect();
        for start in starts {
            let handle = self.register(start, size.max(1))?;
            self.registered.push((start, handle));
        }
        (0..self.receives()).for_each(|number| self.point(number, 1 + number % receives));
        (0..SENDS).for_each(|number| self.point(RECEIVES + number, 0));
        Ok(())
    }

    fn leave_memory(&mut self) {
        if self.under_way == 0 && self.deregister().is_ok() {
            memory::leave_sent(std::mem::take(&mut self.out));
            memory::leave_received(std::mem::take(&mut self.into));
        }
    }

    fn receives(&self) -> usize {
        self.into.len().max(POSTED_MIN)
    }

    #[inline]
    fn send(&mut self) -> anyhow::Result<()> {
        let number = RECEIVES + self.next_send % SENDS;
        if self.under_way == SENDS {
            bail!("{SENDS} sends are under way");
        }
        let handle = self.descriptors_handle;
        let descriptor = &raw mut self.descriptors[number];
        // SAFETY: descriptor and buffer stay, and are not touched until it is done.
        check("VipPostSend", unsafe { (self.calls.post_send)(self.vi, descriptor, handle) })?;
        self.next_send += 1;
        self.under_way += 1;
        Ok(())
    }

    #[inline]
    fn receive(&mut self, number: usize) -> anyhow::Result<()> {
        let handle = self.descriptors_handle;
        let descriptor = &raw mut self.descriptors[number];
        // SAFETY: descriptor and buffer stay, and are not touched until it is done.
        check("VipPostRecv", unsafe { (self.calls.post_receive)(self.vi, descriptor, handle) })
    }

    #[inline]
    fn arrived(&mut self) -> anyhow::Result<bool> {
        if !self.take("VipRecvDone", self.calls.receive_done)? {
            return Ok(false);
        }
        if self.under_way != 0 {
            self.sent()?;
        }
        Ok(true)
    }

    #[inline]
    fn sent(&mut self) -> anyhow::Result<bool> {
        while self.under_way != 0 {
            if !self.take("VipSendDone", self.calls.send_done)? {
                return Ok(false);
            }
            self.under_way -= 1;
        }
        Ok(true)
    }

    fn progress(&mut self) -> anyhow::Result<()> {
        // Nothing is done: this looks, and brings things on.
        self.take("VipRecvDone", self.calls.receive_done).map(drop)
    }
}

impl Drop for Vipl {
    fn drop(&mut self) {
        // SAFETY: after this nothing uses the memory any more.
        unsafe { (self.calls.close)(self.nic) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!((size_of::<Descriptor>(), align_of::<Descriptor>()), (64, 64));
        assert_eq!(std::mem::offset_of!(Descriptor, status), 28);
        assert_eq!(std::mem::offset_of!(Descriptor, address), 32);
        assert_eq!((size_of::<ViAttributes>(), size_of::<MemAttributes>()), (40, 16));
    }
}
