//! An endpoint of EMP's libfabric provider, opened and called the way an application does it: by the function tables that
//! libfabric's own calls (`fi_tsend`, `fi_trecv`, `fi_cq_read`) only look into.
//!
//! Invariant of this module: the provider is the one that was built with this program, so its structures are those of
//! [`super::interface`]; objects are closed once, in the order that libfabric wants (what was opened last first); buffers
//! that were handed to an operation live in the [`Door`] and are changed only when none is under way.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr::{null, null_mut};

use anyhow::{Context, bail};
use emp_host::PageBuffer;

use super::interface::{
    Domain, Endpoint, Entry, Fabric, Fid, Info, Provider, Queue, QueueAttributes, Vector,
    VectorAttributes,
};
use crate::bail_user;
use crate::bench::subject::memory;

/// Interface version that is asked for: libfabric 1.17.
const VERSION: u32 = (1 << 16) | 17;
/// `FI_CQ_FORMAT_TAGGED`
const FORMAT_TAGGED: u32 = 4;
/// `FI_TRANSMIT | FI_RECV`
const BOTH_WAYS: u64 = (1 << 11) | (1 << 10);
/// `FI_RECV`, of an entry.
const RECEIVED: u64 = 1 << 10;
/// `FI_ENABLE`
const ENABLE: c_int = 6;
/// Bytes of an address: libfabric's are shorter.
const ADDRESS_BYTES_MAX: usize = 64;
/// Entries read in one call, as MPIs do.
const ENTRIES: usize = 8;
/// The tag of all messages.
const TAG: u64 = 1;
/// An endpoint with its queue, and the buffers of its operations.
pub struct Door {
    endpoint: *mut Endpoint,
    queue: *mut Queue,
    vector: *mut Vector,
    /// Everything that is open, in the order of opening.
    objects: Vec<*mut Fid>,
    /// The other end in the address vector.
    peer: u64,
    /// Memory as the other subjects have it.
    out: PageBuffer,
    into: Vec<PageBuffer>,
    /// Operations that have not ended.
    sends: usize,
    receives: usize,
}

impl Door {
    /// Opens an endpoint of the provider in a file, on an interface.
    pub fn open(file: &Path, interface: &str) -> anyhow::Result<Self> {
        let provider = load(file)?;
        let info = choose(provider, interface)?;
        let mut door = Self {
            endpoint: null_mut(),
            queue: null_mut(),
            vector: null_mut(),
            objects: Vec::new(),
            peer: 0,
            out: PageBuffer::default(),
            into: Vec::new(),
            sends: 0,
            receives: 0,
        };
        // SAFETY: see the module's first lines. Pointers that are written are local variables; attributes are those of the
        // provider's own list, or local; what an object is made of is open.
        unsafe {
            let mut fabric: *mut Fabric = null_mut();
            check("fi_fabric", ((*provider).fabric)((*info).fabric, &raw mut fabric, null_mut()))?;
            door.objects.push(fabric.cast());
            let mut domain: *mut Domain = null_mut();
            let open = (*(*fabric).ops).domain;
            check("fi_domain", open(fabric, info, &raw mut domain, null_mut()))?;
            door.objects.push(domain.cast());
            let ops = (*domain).ops;
            let mut vector = VectorAttributes::default();
            let opened =
                ((*ops).av_open)(domain, &raw mut vector, &raw mut door.vector, null_mut());
            check("fi_av_open", opened)?;
            door.objects.push(door.vector.cast());
            let mut queue = QueueAttributes::default();
            queue.format = FORMAT_TAGGED;
            let opened = ((*ops).cq_open)(domain, &raw mut queue, &raw mut door.queue, null_mut());
            check("fi_cq_open", opened)?;
            door.objects.push(door.queue.cast());
            let opened = ((*ops).endpoint)(domain, info, &raw mut door.endpoint, null_mut());
            check("fi_endpoint", opened)?;
            door.objects.push(door.endpoint.cast());
            let (own, common) = (door.endpoint.cast::<Fid>(), (*door.endpoint).fid.ops);
            check("binding a vector", ((*common).bind)(own, door.vector.cast(), 0))?;
            check("binding a queue", ((*common).bind)(own, door.queue.cast(), BOTH_WAYS))?;
            check("fi_enable", ((*common).control)(own, ENABLE, null_mut()))?;
        }
        Ok(door)
    }

    /// This end's address.
    pub fn address(&self) -> anyhow::Result<Vec<u8>> {
        let (mut bytes, mut length) = (vec![0; ADDRESS_BYTES_MAX], ADDRESS_BYTES_MAX);
        // SAFETY: the endpoint is open, and there is room for as much as is said.
        let result = unsafe {
            let getname = (*(*self.endpoint).cm).getname;
            getname(self.endpoint.cast(), bytes.as_mut_ptr().cast(), &raw mut length)
        };
        check("fi_getname", result)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// Learns the other end's address.
    pub fn meet(&mut self, address: &[u8]) -> anyhow::Result<()> {
        let mut padded = [0; ADDRESS_BYTES_MAX];
        let Some(place) = padded.get_mut(..address.len()) else { bail!("too long an address") };
        place.copy_from_slice(address);
        // SAFETY: the vector is open, the address is at least as long as those of the provider, the number is a local.
        let inserted = unsafe {
            let insert = (*(*self.vector).ops).insert;
            insert(self.vector, padded.as_ptr().cast(), 1, &raw mut self.peer, 0, null_mut())
        };
        if inserted != 1 { bail!("fi_av_insert: {inserted}") } else { Ok(()) }
    }

    /// Makes messages so long, and buffers for so many receives. To be called when nothing is under way.
    pub fn resize(&mut self, size: usize, receives: usize) -> anyhow::Result<()> {
        if self.sends + self.receives > 0 {
            bail!("{} sends and {} receives have not ended", self.sends, self.receives);
        }
        if self.out.len() != size || self.into.len() != receives {
            self.out = memory::filled(size)?;
            self.into = memory::several(receives, size)?;
        }
        Ok(())
    }

    /// Leaves the buffers to others ([`memory`]), unless something is under way.
    pub fn leave_memory(&mut self) {
        if self.sends + self.receives == 0 {
            memory::leave_sent(std::mem::take(&mut self.out));
            memory::leave_received(std::mem::take(&mut self.into));
        }
    }

    /// Posts a send of the message. False if there is no room for it now.
    #[inline]
    pub fn send(&mut self) -> anyhow::Result<bool> {
        let (buffer, length) = (self.out.as_ptr().cast::<c_void>(), self.out.len());
        // SAFETY: the endpoint is open, and the buffer stays as it is until the send has ended.
        let result = unsafe {
            let send = (*(*self.endpoint).tagged).send;
            send(self.endpoint, buffer, length, null_mut(), self.peer, TAG, null_mut())
        };
        let posted = posted("fi_tsend", result)?;
        self.sends += usize::from(posted);
        Ok(posted)
    }

    /// Receives that can be posted at a time.
    pub fn receives(&self) -> usize {
        self.into.len()
    }

    /// Posts a receive into one of the buffers, of which no other is posted. False if there is no room for it now.
    #[inline]
    pub fn receive(&mut self, number: usize) -> anyhow::Result<bool> {
        let buffer = &mut self.into[number];
        let (length, context) = (buffer.len(), std::ptr::without_provenance_mut(number));
        let buffer = buffer.as_mut_ptr().cast::<c_void>();
        // SAFETY: the endpoint is open, and the buffer is not touched until the receive has ended.
        let result = unsafe {
            let receive = (*(*self.endpoint).tagged).receive;
            receive(self.endpoint, buffer, length, null_mut(), self.peer, TAG, 0, context)
        };
        let posted = posted("fi_trecv", result)?;
        self.receives += usize::from(posted);
        Ok(posted)
    }

    /// Reads what has ended, and returns how many of it are receives; or that nothing has.
    #[inline]
    pub fn read(&mut self) -> anyhow::Result<Option<usize>> {
        let mut entries = [Entry::default(); ENTRIES];
        // SAFETY: the queue is open, and there is room for so many entries.
        let read = unsafe {
            let read = (*(*self.queue).ops).read;
            read(self.queue, entries.as_mut_ptr(), ENTRIES)
        };
        if read == -(libc::EAGAIN as isize) {
            return Ok(None);
        }
        let Some(ended) = usize::try_from(read).ok().and_then(|count| entries.get(..count)) else {
            bail!("fi_cq_read: {read}");
        };
        let receives = ended.iter().filter(|entry| entry.flags & RECEIVED != 0);
        if receives.clone().any(|entry| entry.length != self.out.len()) {
            bail!("a message of another length has arrived");
        }
        let receives = receives.count();
        self.receives -= receives.min(self.receives);
        self.sends -= (ended.len() - receives).min(self.sends);
        Ok(Some(receives))
    }

    /// Sends that have not ended.
    pub fn sends(&self) -> usize {
        self.sends
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        for object in self.objects.drain(..).rev() {
            // SAFETY: it is open, and all that was opened from it or bound to it is closed. Closing the endpoint, which comes
            // first, gives its buffers back.
            unsafe { ((*(*object).ops).close)(object) };
        }
    }
}

/// Loads the provider, which stays for as long as this process lives.
fn load(file: &Path) -> anyhow::Result<*mut Provider> {
    let path = CString::new(file.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero, and the object is the provider.
    let provider = unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            bail_user!("{} cannot be loaded", file.display());
        }
        let init = libc::dlsym(library, c"fi_prov_ini".as_ptr());
        if init.is_null() {
            bail_user!("{} is no libfabric provider", file.display());
        }
        std::mem::transmute::<*mut c_void, extern "C" fn() -> *mut Provider>(init)()
    };
    if provider.is_null() { bail!("the provider is broken") } else { Ok(provider) }
}

/// What the provider offers on an interface, by whichever link it takes there. The list is never given back: its owner
/// would be libfabric's core, which is not there, and it is some hundred bytes.
fn choose(provider: *mut Provider, interface: &str) -> anyhow::Result<*mut Info> {
    let mut list: *mut Info = null_mut();
    // SAFETY: the provider is there; no hints mean everything; `list` is a local.
    let result =
        unsafe { ((*provider).getinfo)(VERSION, null(), null(), 0, null(), &raw mut list) };
    if result != 0 {
        // Which is no matter of this interface alone: a setting that makes no sense, or nothing at all that is up.
        bail_user!(
            "the libfabric provider offers nothing (fi_getinfo: {result}): its line above says why, or one with EMP_LOG=warn"
        );
    }
    let wanted = [interface.to_owned(), format!("{interface}-udp"), "shm".to_owned()];
    let mut at = list;
    while !at.is_null() {
        // SAFETY: an entry of the provider's list; its attributes are there, and names end with a zero.
        let (next, name) = unsafe { ((*at).next, CStr::from_ptr((*(*at).domain).name)) };
        if wanted.iter().any(|wanted| wanted.as_bytes() == name.to_bytes()) {
            return Ok(at);
        }
        at = next;
    }
    bail_user!(
        "the libfabric provider offers nothing on {interface}; FI_EMP_IFACE={interface} names it"
    );
}

fn check(what: &str, result: c_int) -> anyhow::Result<()> {
    let error = std::io::Error::from_raw_os_error(-result);
    if result == 0 { Ok(()) } else { Err(error).with_context(|| what.to_owned()) }
}

#[inline]
fn posted(what: &str, result: isize) -> anyhow::Result<bool> {
    match result {
        0 => Ok(true),
        again if again == -(libc::EAGAIN as isize) => Ok(false),
        other => bail!("{what}: {other}"),
    }
}
