//! The application's side of libfabric's binary interface, as far as a tagged ping-pong needs it: the beginnings of its
//! structures and tables, which have kept their places since its first version.

use std::ffi::{c_char, c_int, c_void};

/// A function that is not called here.
pub type Other = *const c_void;

/// `struct fid`: what every object begins with.
#[repr(C)]
pub struct Fid {
    class: usize,
    context: *mut c_void,
    pub ops: *const FidOps,
}

/// `struct fi_ops`
#[repr(C)]
pub struct FidOps {
    size: usize,
    pub close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

/// An object that has one table besides its common part: a fabric, a domain, an address vector, a completion queue.
#[repr(C)]
pub struct Simple<Ops> {
    pub fid: Fid,
    pub ops: *const Ops,
}

/// `struct fi_info`
#[repr(C)]
pub struct Info {
    pub next: *mut Info,
    capabilities: u64,
    mode: u64,
    address_format: u32,
    source_length: usize,
    destination_length: usize,
    addresses: [*mut c_void; 2],
    handle: *mut c_void,
    transmit: *mut c_void,
    receive: *mut c_void,
    endpoint: *mut c_void,
    pub domain: *mut DomainAttributes,
    pub fabric: *mut c_void,
}

/// The beginning of `struct fi_domain_attr`.
#[repr(C)]
pub struct DomainAttributes {
    domain: *mut c_void,
    pub name: *mut c_char,
}

/// `struct fi_provider`
#[repr(C)]
pub struct Provider {
    versions: [u32; 2],
    context: [*mut c_void; 4],
    name: *const c_char,
    pub getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        u64,
        *const Info,
        *mut *mut Info,
    ) -> c_int,
    pub fabric: unsafe extern "C" fn(*mut c_void, *mut *mut Fabric, *mut c_void) -> c_int,
}

pub type Fabric = Simple<FabricOps>;
pub type Domain = Simple<DomainOps>;
pub type Vector = Simple<VectorOps>;
pub type Queue = Simple<QueueOps>;

/// `struct fi_ops_fabric`
#[repr(C)]
pub struct FabricOps {
    size: usize,
    pub domain:
        unsafe extern "C" fn(*mut Fabric, *mut Info, *mut *mut Domain, *mut c_void) -> c_int,
}

/// `struct fi_ops_domain`
#[repr(C)]
pub struct DomainOps {
    size: usize,
    pub av_open: unsafe extern "C" fn(
        *mut Domain,
        *mut VectorAttributes,
        *mut *mut Vector,
        *mut c_void,
    ) -> c_int,
    pub cq_open: unsafe extern "C" fn(
        *mut Domain,
        *mut QueueAttributes,
        *mut *mut Queue,
        *mut c_void,
    ) -> c_int,
    pub endpoint:
        unsafe extern "C" fn(*mut Domain, *mut Info, *mut *mut Endpoint, *mut c_void) -> c_int,
}

/// `struct fi_av_attr`
#[repr(C)]
#[derive(Default)]
pub struct VectorAttributes {
    kind: u32,
    receive_context_bits: c_int,
    counts: [usize; 2],
    /// A name and a map, of which there are none: null.
    none: [usize; 2],
    flags: u64,
}

/// `struct fi_cq_attr`
#[repr(C)]
#[derive(Default)]
pub struct QueueAttributes {
    pub size: usize,
    flags: u64,
    pub format: u32,
    wait_object: u32,
    signaling_vector: c_int,
    wait_condition: u32,
    /// None: null.
    wait_set: usize,
}

/// `struct fi_ops_av`
#[repr(C)]
pub struct VectorOps {
    size: usize,
    pub insert: unsafe extern "C" fn(
        *mut Vector,
        *const c_void,
        usize,
        *mut u64,
        u64,
        *mut c_void,
    ) -> c_int,
}

/// `struct fi_ops_cq`
#[repr(C)]
pub struct QueueOps {
    size: usize,
    pub read: unsafe extern "C" fn(*mut Queue, *mut Entry, usize) -> isize,
}

/// `struct fi_cq_tagged_entry`
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Entry {
    /// The operation's context: a pointer that is only a number here.
    pub context: usize,
    pub flags: u64,
    pub length: usize,
    buffer: usize,
    data: u64,
    tag: u64,
}

/// `struct fid_ep`
#[repr(C)]
pub struct Endpoint {
    pub fid: Fid,
    ops: *const c_void,
    pub cm: *const CmOps,
    msg: *const c_void,
    rma: *const c_void,
    pub tagged: *const TaggedOps,
}

/// `struct fi_ops_cm`
#[repr(C)]
pub struct CmOps {
    size: usize,
    setname: Other,
    pub getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

/// `struct fi_ops_tagged`
#[repr(C)]
pub struct TaggedOps {
    size: usize,
    pub receive: unsafe extern "C" fn(
        *mut Endpoint,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    receive_others: [Other; 2],
    pub send: unsafe extern "C" fn(
        *mut Endpoint,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    /// The offsets that a C compiler gives for libfabric's headers on 64-bit machines.
    #[test]
    fn the_layout_is_that_of_c() {
        assert_eq!((size_of::<Fid>(), offset_of!(FidOps, control)), (24, 24));
        assert_eq!((offset_of!(Info, domain), offset_of!(Info, fabric)), (96, 104));
        assert_eq!((offset_of!(Provider, getinfo), offset_of!(Provider, fabric)), (48, 56));
        assert_eq!(offset_of!(DomainAttributes, name), 8);
        assert_eq!((size_of::<VectorAttributes>(), size_of::<QueueAttributes>()), (48, 40));
        assert_eq!((offset_of!(QueueAttributes, format), size_of::<Entry>()), (16, 48));
        assert_eq!((offset_of!(Endpoint, cm), offset_of!(Endpoint, tagged)), (32, 56));
        assert_eq!((offset_of!(CmOps, getname), offset_of!(TaggedOps, send)), (16, 32));
    }
}
