//! libfabric's data structures and constants, as far as a provider meets them: its binary interface, written by hand.
//!
//! The layout is that of libfabric 1.17. Later cores have added members at the ends of some structures only; what is
//! handed to them is therefore allocated larger than it is here, and zero (see [`crate::info`]). `tests` below hold the
//! sizes and offsets that a C compiler gives.

use std::ffi::{c_char, c_int, c_void};

pub use libc::iovec;

use crate::flags::{
    AvFlags, Caps, CqFlags, CqOpenFlags, Directions, EqOpenFlags, InfoFlags, OpFlags,
};

/// An entry of an address vector.
pub type FiAddr = u64;

/// "Any" or "not known"; also "not to be had".
pub const FI_ADDR_UNSPEC: FiAddr = u64::MAX;

/// What `fi_version` returns.
pub const fn version(major: u32, minor: u32) -> u32 {
    (major << 16) | minor
}

/// The event that an insertion has ended.
pub const FI_AV_COMPLETE: u32 = 5;

pub const FI_ORDER_SAS: u64 = 1 << 8;
/// Atomics of one endpoint to one other, of each kind after each.
pub const FI_ORDER_ATOMIC: u64 = 0xF << 36;
/// Registered memory is reached by its address, not by offsets from its start.
pub const FI_MR_VIRT_ADDR: c_int = 1 << 4;
/// The provider chooses keys.
pub const FI_MR_PROV_KEY: c_int = 1 << 6;
/// An old name for several of these together.
pub const FI_MR_BASIC: c_int = 1;
/// An old name for none of them.
pub const FI_MR_SCALABLE: c_int = 2;
/// Of an endpoint's transmit contexts: it shares one.
pub const FI_SHARED_CONTEXT: usize = usize::MAX;
pub const FI_EP_RDM: u32 = 3;
pub const FI_THREAD_SAFE: u32 = 1;
pub const FI_PROGRESS_MANUAL: u32 = 2;
pub const FI_RM_ENABLED: u32 = 2;
pub const FI_AV_MAP: u32 = 1;
pub const FI_AV_TABLE: u32 = 2;
pub const FI_OPT_ENDPOINT: c_int = 0;
pub const FI_OPT_MIN_MULTI_RECV: c_int = 0;
/// Format of addresses and number of the wire protocol: values of this provider's own.
pub const FI_PROV_SPECIFIC: u32 = 1 << 31;
/// Addresses as texts.
pub const FI_ADDR_STR: u32 = 9;

/// Classes of objects.
pub mod class {
    pub const FABRIC: usize = 1;
    pub const DOMAIN: usize = 2;
    pub const EP: usize = 3;
    pub const STX: usize = 8;
    pub const AV: usize = 11;
    pub const MR: usize = 12;
    pub const EQ: usize = 13;
    pub const CQ: usize = 14;
    pub const CNTR: usize = 15;
    pub const NIC: usize = 20;
}

/// Commands of `fi_control`.
pub mod control {
    pub const GETOPSFLAG: i32 = 2;
    pub const SETOPSFLAG: i32 = 3;
    pub const GETWAIT: i32 = 5;
    pub const ENABLE: i32 = 6;
    pub const DUP: i32 = 15;
    pub const GETWAITOBJ: i32 = 16;
}

/// Wait objects.
pub mod wait {
    pub const NONE: u32 = 0;
    pub const UNSPEC: u32 = 1;
    pub const FD: u32 = 3;
    pub const YIELD: u32 = 5;
}

/// Formats of completion queue entries.
pub mod format {
    pub const UNSPEC: u32 = 0;
    pub const CONTEXT: u32 = 1;
    pub const MSG: u32 = 2;
    pub const DATA: u32 = 3;
    pub const TAGGED: u32 = 4;
}

/// Errors that libfabric has beside the system's.
pub mod error {
    pub const OTHER: i32 = 256;
    pub const TOOSMALL: i32 = 257;
    pub const OPBADSTATE: i32 = 258;
    pub const AVAIL: i32 = 259;
    pub const BADFLAGS: i32 = 260;
    pub const NOEQ: i32 = 261;
    pub const NOCQ: i32 = 263;
    pub const TRUNC: i32 = 265;
    pub const NOKEY: i32 = 266;
    pub const NOAV: i32 = 267;
    pub const OVERRUN: i32 = 268;
}

/// Common part of all objects.
#[repr(C)]
pub struct Fid {
    pub fclass: usize,
    pub context: *mut c_void,
    pub ops: *const crate::tables::FidOps,
}

#[repr(C)]
pub struct FiFabricAttr {
    pub fabric: *mut c_void,
    pub name: *mut c_char,
    pub prov_name: *mut c_char,
    pub prov_version: u32,
    pub api_version: u32,
}

#[repr(C)]
pub struct FiDomainAttr {
    pub domain: *mut c_void,
    pub name: *mut c_char,
    pub threading: u32,
    pub control_progress: u32,
    pub data_progress: u32,
    pub resource_mgmt: u32,
    pub av_type: u32,
    pub mr_mode: c_int,
    pub mr_key_size: usize,
    pub cq_data_size: usize,
    pub cq_cnt: usize,
    pub ep_cnt: usize,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub max_ep_tx_ctx: usize,
    pub max_ep_rx_ctx: usize,
    pub max_ep_stx_ctx: usize,
    pub max_ep_srx_ctx: usize,
    pub cntr_cnt: usize,
    pub mr_iov_limit: usize,
    pub caps: Caps,
    pub mode: u64,
    pub auth_key: *mut u8,
    pub auth_key_size: usize,
    pub max_err_data: usize,
    pub mr_cnt: usize,
    pub tclass: u32,
}

/// What follows it in cores from 2.5 on.
#[repr(C)]
pub struct FiDomainAttrSince25 {
    pub max_ep_auth_key: usize,
    pub max_group_id: u32,
    pub max_cntr_value: u64,
    pub max_err_cntr_value: u64,
}

#[repr(C)]
pub struct FiEpAttr {
    pub kind: u32,
    pub protocol: u32,
    pub protocol_version: u32,
    pub max_msg_size: usize,
    pub msg_prefix_size: usize,
    pub max_order_raw_size: usize,
    pub max_order_war_size: usize,
    pub max_order_waw_size: usize,
    pub mem_tag_format: u64,
    pub tx_ctx_cnt: usize,
    pub rx_ctx_cnt: usize,
    pub auth_key_size: usize,
    pub auth_key: *mut u8,
}

#[repr(C)]
pub struct FiTxAttr {
    pub caps: Caps,
    pub mode: u64,
    pub op_flags: OpFlags,
    pub msg_order: u64,
    pub comp_order: u64,
    pub inject_size: usize,
    pub size: usize,
    pub iov_limit: usize,
    pub rma_iov_limit: usize,
    pub tclass: u32,
}

#[repr(C)]
pub struct FiRxAttr {
    pub caps: Caps,
    pub mode: u64,
    pub op_flags: OpFlags,
    pub msg_order: u64,
    pub comp_order: u64,
    pub total_buffered_recv: usize,
    pub size: usize,
    pub iov_limit: usize,
}

#[repr(C)]
pub struct FiInfo {
    pub next: *mut FiInfo,
    pub caps: Caps,
    pub mode: u64,
    pub addr_format: u32,
    pub src_addrlen: usize,
    pub dest_addrlen: usize,
    pub src_addr: *mut c_void,
    pub dest_addr: *mut c_void,
    pub handle: *mut Fid,
    pub tx_attr: *mut FiTxAttr,
    pub rx_attr: *mut FiRxAttr,
    pub ep_attr: *mut FiEpAttr,
    pub domain_attr: *mut FiDomainAttr,
    pub fabric_attr: *mut FiFabricAttr,
    pub nic: *mut c_void,
}

#[repr(C)]
pub struct FiProvider {
    pub version: u32,
    pub fi_version: u32,
    /// The core's own.
    pub context: [*mut c_void; 4],
    pub name: *const c_char,
    pub getinfo: unsafe extern "C" fn(
        u32,
        *const c_char,
        *const c_char,
        InfoFlags,
        *const FiInfo,
        *mut *mut FiInfo,
    ) -> c_int,
    pub fabric: unsafe extern "C" fn(
        *mut FiFabricAttr,
        *mut *mut crate::fabric::Fabric,
        *mut c_void,
    ) -> c_int,
    pub cleanup: unsafe extern "C" fn(),
}

#[repr(C)]
pub struct FiAvAttr {
    pub kind: u32,
    pub rx_ctx_bits: c_int,
    pub count: usize,
    pub ep_per_node: usize,
    pub name: *const c_char,
    pub map_addr: *mut c_void,
    pub flags: AvFlags,
}

#[repr(C)]
pub struct FiCqAttr {
    pub size: usize,
    pub flags: CqOpenFlags,
    pub format: u32,
    pub wait_obj: u32,
    pub signaling_vector: c_int,
    pub wait_cond: u32,
    pub wait_set: *mut c_void,
}

#[repr(C)]
pub struct FiCqTaggedEntry {
    pub op_context: *mut c_void,
    pub flags: CqFlags,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
}

#[repr(C)]
pub struct FiCqErrEntry {
    pub op_context: *mut c_void,
    pub flags: CqFlags,
    pub len: usize,
    pub buf: *mut c_void,
    pub data: u64,
    pub tag: u64,
    pub olen: usize,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
}

/// The entry of programs for interface 1.5 and later, whose own is longer.
#[repr(C)]
pub struct FiCqErrEntrySince15 {
    pub before: FiCqErrEntry,
    pub err_data_size: usize,
}

#[repr(C)]
pub struct FiCntrAttr {
    pub events: u32,
    pub wait_obj: u32,
    pub wait_set: *mut c_void,
    pub flags: u64,
}

#[repr(C)]
pub struct FiEqAttr {
    pub size: usize,
    pub flags: EqOpenFlags,
    pub wait_obj: u32,
    pub signaling_vector: c_int,
    pub wait_set: *mut c_void,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct FiEqEntry {
    pub fid: *mut Fid,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct FiEqErrEntry {
    pub fid: *mut Fid,
    pub context: *mut c_void,
    pub data: u64,
    pub err: c_int,
    pub prov_errno: c_int,
    pub err_data: *mut c_void,
}

/// The same for interface 1.5 and later.
#[repr(C)]
pub struct FiEqErrEntrySince15 {
    pub before: FiEqErrEntry,
    pub err_data_size: usize,
}

#[repr(C)]
pub struct FiMsg {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: FiAddr,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct FiMsgTagged {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: FiAddr,
    pub tag: u64,
    pub ignore: u64,
    pub context: *mut c_void,
    pub data: u64,
}

/// Elements in local memory.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct FiIoc {
    pub addr: *mut c_void,
    pub count: usize,
}

/// A run of a peer's memory.
#[repr(C)]
pub struct FiRmaIov {
    pub addr: u64,
    pub len: usize,
    pub key: u64,
}

/// Elements in a peer's memory.
#[repr(C)]
pub struct FiRmaIoc {
    pub addr: u64,
    pub count: usize,
    pub key: u64,
}

#[repr(C)]
pub struct FiMsgRma {
    pub msg_iov: *const iovec,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: FiAddr,
    pub rma_iov: *const FiRmaIov,
    pub rma_iov_count: usize,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct FiMsgAtomic {
    pub msg_iov: *const FiIoc,
    pub desc: *mut *mut c_void,
    pub iov_count: usize,
    pub addr: FiAddr,
    pub rma_iov: *const FiRmaIoc,
    pub rma_iov_count: usize,
    pub datatype: u32,
    pub op: u32,
    pub context: *mut c_void,
    pub data: u64,
}

#[repr(C)]
pub struct FiAtomicAttr {
    pub count: usize,
    pub size: usize,
}

/// The part that all versions share.
#[repr(C)]
pub struct FiMrAttr {
    pub mr_iov: *const iovec,
    pub iov_count: usize,
    pub access: Directions,
    pub offset: u64,
    pub requested_key: u64,
    pub context: *mut c_void,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn structures_have_the_layout_of_c() {
        assert_eq!(size_of::<Fid>(), 24);
        assert_eq!(size_of::<FiInfo>(), 120);
        assert_eq!((offset_of!(FiInfo, tx_attr), offset_of!(FiInfo, nic)), (72, 112));
        assert_eq!(size_of::<FiTxAttr>(), 80);
        assert_eq!(offset_of!(FiTxAttr, tclass), 72);
        assert_eq!(size_of::<FiRxAttr>(), 64);
        assert_eq!(size_of::<FiEpAttr>(), 96);
        assert_eq!(offset_of!(FiEpAttr, mem_tag_format), 56);
        assert_eq!(size_of::<FiDomainAttr>(), 192);
        assert_eq!(offset_of!(FiDomainAttr, mr_mode), 36);
        assert_eq!(offset_of!(FiDomainAttr, cq_data_size), 48);
        assert_eq!(offset_of!(FiDomainAttr, caps), 136);
        assert_eq!(offset_of!(FiDomainAttr, tclass), 184);
        assert_eq!(size_of::<FiFabricAttr>(), 32);
        assert_eq!(size_of::<FiProvider>(), 72);
        assert_eq!(offset_of!(FiProvider, name), 40);
        assert_eq!(size_of::<FiAvAttr>(), 48);
        assert_eq!(size_of::<FiCqAttr>(), 40);
        assert_eq!(offset_of!(FiCqAttr, wait_set), 32);
        assert_eq!(size_of::<FiCqTaggedEntry>(), 48);
        assert_eq!(size_of::<FiCqErrEntrySince15>(), 80);
        assert_eq!(offset_of!(FiCqErrEntrySince15, err_data_size), 72);
        assert_eq!(size_of::<FiCntrAttr>(), 24);
        assert_eq!(size_of::<FiEqAttr>(), 32);
        assert_eq!(size_of::<FiEqEntry>(), 24);
        assert_eq!((size_of::<FiEqErrEntry>(), size_of::<FiEqErrEntrySince15>()), (40, 48));
        assert_eq!(size_of::<FiMsg>(), 48);
        assert_eq!(size_of::<FiMsgTagged>(), 64);
        assert_eq!(offset_of!(FiMsgTagged, data), 56);
        assert_eq!((size_of::<FiMsgRma>(), size_of::<FiMsgAtomic>()), (64, 72));
        assert_eq!(
            (size_of::<FiIoc>(), size_of::<FiRmaIov>(), size_of::<FiRmaIoc>()),
            (16, 24, 24)
        );
        assert_eq!(offset_of!(FiMrAttr, requested_key), 32);
    }
}
