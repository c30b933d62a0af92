//! Types and constants of VIPL, as C has them (`include/vipl.h`).

use std::ffi::{c_char, c_int, c_ulong, c_void};

/// `VIP_NIC_HANDLE` and the others: pointers in C, checked numbers here.
pub type Handle = u64;
/// `VIP_MEM_HANDLE`.
pub type MemHandle = u32;

pub const DESCRIPTOR_ALIGNMENT: usize = 64;
/// Bytes of a control segment, and of each segment behind it.
pub const CONTROL_BYTES: usize = 32;
pub const SEGMENT_BYTES: usize = 16;
/// `VIP_INFINITE`.
pub const INFINITE: c_ulong = 0xffff_ffff;

pub const UNRELIABLE: u16 = 1;
pub const RELIABLE_DELIVERY: u16 = 2;
pub const RELIABLE_RECEPTION: u16 = 4;

/// `VIP_RETURN`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Return(pub c_int);

impl Return {
    pub const SUCCESS: Self = Self(0);
    pub const NOT_DONE: Self = Self(1);
    pub const INVALID_PARAMETER: Self = Self(2);
    pub const ERROR_RESOURCE: Self = Self(3);
    pub const TIMEOUT: Self = Self(4);
    pub const REJECT: Self = Self(5);
    pub const INVALID_RELIABILITY_LEVEL: Self = Self(6);
    pub const INVALID_MTU: Self = Self(7);
    pub const INVALID_QOS: Self = Self(8);
    pub const INVALID_PTAG: Self = Self(9);
    pub const INVALID_RDMAREAD: Self = Self(10);
    pub const DESCRIPTOR_ERROR: Self = Self(11);
    pub const INVALID_STATE: Self = Self(12);
    pub const ERROR_NAMESERVICE: Self = Self(13);
    pub const NO_MATCH: Self = Self(14);
    pub const ERROR_NOT_SUPPORTED: Self = Self(16);
}

/// `VIP_NET_ADDRESS` up to its bytes.
#[repr(C)]
pub struct NetAddress {
    pub host_len: u16,
    pub discriminator_len: u16,
    pub bytes: [u8; 1],
    pub padding: [u8; 3],
}

/// `VIP_NIC_ATTRIBUTES`.
#[repr(C)]
pub struct NicAttributes {
    pub name: [c_char; 64],
    pub hardware_version: c_ulong,
    pub provider_version: c_ulong,
    pub address_len: u16,
    pub address: *const u8,
    pub thread_safe: c_int,
    pub max_discriminator_len: u16,
    pub max_register_bytes: c_ulong,
    pub max_register_regions: c_ulong,
    pub max_register_block_bytes: c_ulong,
    pub max_vi: c_ulong,
    pub max_descriptors_per_queue: c_ulong,
    pub max_segments_per_descriptor: c_ulong,
    pub max_cq: c_ulong,
    pub max_cq_entries: c_ulong,
    pub max_transfer_size: c_ulong,
    pub native_mtu: c_ulong,
    pub max_ptags: c_ulong,
    pub reliability_levels: u16,
    pub rdma_read_levels: u16,
}

/// `VIP_VI_ATTRIBUTES`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ViAttributes {
    pub reliability: u16,
    pub max_transfer_size: c_ulong,
    /// A pointer in C; null is the only one.
    pub qos: u64,
    pub ptag: Handle,
    pub rdma_write: c_int,
    pub rdma_read: c_int,
}

/// `VIP_MEM_ATTRIBUTES`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemAttributes {
    pub ptag: Handle,
    pub rdma_write: c_int,
    pub rdma_read: c_int,
}

/// `VIP_CONTROL_SEGMENT`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ControlSegment {
    pub next: u64,
    pub next_handle: MemHandle,
    pub segments: u16,
    pub control: u16,
    pub reserved: u32,
    pub immediate: u32,
    pub length: u32,
    pub status: u32,
}

/// `VIP_DATA_SEGMENT`, and `VIP_ADDRESS_SEGMENT`, which has no length.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DescriptorSegment {
    pub address: u64,
    pub handle: MemHandle,
    pub length: u32,
}

pub const OP_SENDRECV: u16 = 0;
pub const OP_RDMA_WRITE: u16 = 1;
pub const OP_RDMA_READ: u16 = 2;
pub const OP_MASK: u16 = 3;
pub const CONTROL_IMMEDIATE: u16 = 4;
pub const CONTROL_QFENCE: u16 = 8;
pub const CONTROL_RESERVED: u16 = 0xfff0;

pub const STATUS_DONE: u32 = 1;
pub const FORMAT_ERROR: u32 = 2;
pub const PROTECTION_ERROR: u32 = 4;
pub const LENGTH_ERROR: u32 = 8;
pub const FLUSHED_ERROR: u32 = 0x20;
pub const TRANSPORT_ERROR: u32 = 0x40;
pub const RDMA_PROT_ERROR: u32 = 0x80;
pub const REMOTE_DESC_ERROR: u32 = 0x100;
pub const STATUS_RECEIVE: u32 = 0x1_0000;
pub const STATUS_RDMA_WRITE: u32 = 0x2_0000;
pub const STATUS_REMOTE_RDMA_WRITE: u32 = 0x3_0000;
pub const STATUS_RDMA_READ: u32 = 0x4_0000;
pub const STATUS_IMMEDIATE: u32 = 0x8_0000;

pub const STATE_IDLE: c_int = 0;
pub const STATE_CONNECTED: c_int = 1;
pub const STATE_CONNECT_PENDING: c_int = 2;
pub const STATE_ERROR: c_int = 3;

/// `VIP_ERROR_CODE`.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ErrorCode(pub c_int);

impl ErrorCode {
    pub const POST_DESC: Self = Self(0);
    pub const CONN_LOST: Self = Self(1);
    pub const RECVQ_EMPTY: Self = Self(2);
    pub const RDMAW_PROT: Self = Self(4);
    pub const RDMAR_PROT: Self = Self(7);

    /// For people.
    pub const fn describe(self) -> &'static str {
        match self {
            Self::POST_DESC => "a descriptor ended in error",
            Self::CONN_LOST => "its connection is lost",
            Self::RECVQ_EMPTY => "a message came and no receive was posted",
            Self::RDMAW_PROT => "an RDMA write of the other side was refused",
            Self::RDMAR_PROT => "an RDMA read of the other side was refused",
            _ => "an error",
        }
    }
}

pub const RESOURCE_VI: c_int = 1;
pub const RESOURCE_DESCRIPTOR: c_int = 3;

/// `VIP_ERROR_DESCRIPTOR`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ErrorDescriptor {
    pub nic: Handle,
    pub vi: Handle,
    pub cq: Handle,
    /// Address of the descriptor, or 0.
    pub descriptor: u64,
    pub operation: c_ulong,
    pub resource: c_int,
    pub code: ErrorCode,
}

/// A handler of a queue's, of a completion queue's, of asynchronous errors. The unsafety is that of calling C.
pub type QueueHandler = unsafe extern "C" fn(*mut c_void, Handle, Handle, u64);
pub type CqHandler = unsafe extern "C" fn(*mut c_void, Handle, Handle, c_int);
pub type ErrorHandler = unsafe extern "C" fn(*mut c_void, *mut ErrorDescriptor);

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    #[test]
    fn layouts_are_those_of_the_header() {
        assert_eq!(size_of::<ControlSegment>(), CONTROL_BYTES);
        assert_eq!(size_of::<DescriptorSegment>(), SEGMENT_BYTES);
        assert_eq!(offset_of!(ControlSegment, control), 14);
        assert_eq!(offset_of!(ControlSegment, immediate), 20);
        assert_eq!(offset_of!(ControlSegment, status), 28);
        assert_eq!((size_of::<NetAddress>(), offset_of!(NetAddress, bytes)), (8, 4));
        assert_eq!(size_of::<NicAttributes>(), 200);
        assert_eq!(offset_of!(NicAttributes, address), 88);
        assert_eq!(offset_of!(NicAttributes, rdma_read_levels), 194);
        assert_eq!((size_of::<ViAttributes>(), offset_of!(ViAttributes, ptag)), (40, 24));
        assert_eq!(size_of::<MemAttributes>(), 16);
        assert_eq!((size_of::<ErrorDescriptor>(), offset_of!(ErrorDescriptor, code)), (48, 44));
    }
}
