//! Types and constants of the MX interface, as C has them (`include/myriexpress.h`).

use std::ffi::{c_char, c_int, c_void};

/// High byte: what programs and library must agree on; low byte: what the library has since.
pub const API: c_int = 0x301;

pub const MAX_STR_LEN: usize = 128;
/// With the zero and `:board`.
pub const MAX_HOSTNAME_LEN: usize = 80;
pub const ANY: u32 = 0xffff_ffff;
pub const MAX_SEGMENTS: u32 = 256;
pub const CONTEXT_ID_BITS_MAX: u8 = 16;
pub const NET_ETHER: u32 = 1;
pub const LINE_SPEED_2G: u32 = 0;
pub const LINE_SPEED_10G: u32 = 1;
pub const INVALID_HANDLE: c_int = -1;

/// `mx_endpoint_t`: a pointer in C, a handle here.
pub type EndpointHandle = u64;
/// `mx_request_t`, likewise; 0 is no request.
pub type RequestHandle = u64;

/// `mx_endpoint_addr_t`: opaque to applications ([`crate::identities`]).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Address {
    pub stuff: [u64; 2],
}

/// `mx_segment_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct MxSegment {
    pub pointer: *mut c_void,
    pub length: u32,
}

/// `mx_status_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MxStatus {
    pub code: StatusCode,
    pub source: Address,
    pub match_info: u64,
    pub msg_length: u32,
    pub xfer_length: u32,
    pub context: *mut c_void,
}

/// `mx_param_t`: a key and a union.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Param {
    pub key: u32,
    pub value: ParamValue,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub union ParamValue {
    pub error_handler: Option<ErrorHandler>,
    pub unexp_queue_max: u32,
    pub context_id: ContextId,
}

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ContextId {
    pub bits: u8,
    pub shift: u8,
}

pub const PARAM_ERROR_HANDLER: u32 = 0;
pub const PARAM_UNEXP_QUEUE_MAX: u32 = 1;
pub const PARAM_CONTEXT_ID: u32 = 2;

/// `mx_mapper_state_t`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct MapperState {
    pub board_number: u32,
    pub mapper_mac: [u8; 6],
    pub iport: u16,
    pub map_version: u32,
    pub num_hosts: u32,
    pub network_configured: u32,
    pub routes_valid: u32,
    pub level: u32,
    pub flags: u32,
}

pub type ErrorHandler = unsafe extern "C" fn(*mut c_char, Return) -> Return;
pub type UnexpHandler = unsafe extern "C" fn(*mut c_void, Address, u64, u32, *mut c_void) -> c_int;
pub type MatchingCallback = unsafe extern "C" fn(*mut c_void, u64, c_int);

pub const RECV_CONTINUE: c_int = 0;
pub const RECV_FINISHED: c_int = 1;

/// `mx_return_t`: what a call returns.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Return(pub c_int);

/// `mx_status_code_t`: how an operation has ended.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusCode(pub c_int);

macro_rules! codes {
    ($kind:ident, $table:ident, $($name:ident = $number:literal, $text:literal;)*) => {
        impl $kind {
            $(pub const $name: Self = Self($number);)*
        }

        /// The codes with their names in C, without the prefix, and their texts.
        pub const $table: &[($kind, &str, &std::ffi::CStr)] =
            &[$(($kind::$name, stringify!($name), $text)),*];
    };
}

codes! { Return, RETURNS,
    SUCCESS = 0, c"success";
    BAD_BAD_BAD = 1, c"internal error";
    FAILURE = 2, c"failure";
    ALREADY_INITIALIZED = 3, c"the library is initialized already";
    NOT_INITIALIZED = 4, c"the library is not initialized";
    NO_DEV = 5, c"no interface can be used";
    NO_DRIVER = 6, c"no driver";
    NO_PERM = 7, c"no permission";
    BOARD_UNKNOWN = 8, c"there is no such board";
    BAD_ENDPOINT = 9, c"bad endpoint";
    BAD_SEG_LIST = 10, c"bad segment list";
    BAD_SEG_MEM = 11, c"bad segment memory";
    BAD_SEG_CNT = 12, c"too many segments";
    BAD_REQUEST = 13, c"bad request";
    BAD_MATCH_MASK = 14, c"match_info has bits that match_mask has not";
    NO_RESOURCES = 15, c"no resources";
    BAD_ADDR_LIST = 16, c"bad address list";
    BAD_ADDR_COUNT = 17, c"bad address count";
    BAD_ROOT = 18, c"bad root";
    NOT_COMPLETED = 19, c"not completed";
    BUSY = 20, c"busy: another endpoint has this number";
    BAD_INFO_KEY = 21, c"bad info key";
    BAD_INFO_VAL = 22, c"bad info value";
    BAD_NIC = 23, c"bad NIC";
    BAD_PARAM_LIST = 24, c"bad parameter list";
    BAD_PARAM_NAME = 25, c"bad parameter name";
    BAD_PARAM_VAL = 26, c"bad parameter value";
    BAD_HOSTNAME_ARGS = 27, c"bad host name arguments";
    HOST_NOT_FOUND = 28, c"host not found";
    REQUEST_PENDING = 29, c"the request is pending";
    TIMEOUT = 30, c"timed out";
    NO_MATCH = 31, c"no match";
    BAD_ENDPOINT_ID = 32, c"bad endpoint id";
    CONNECTION_FAILED = 33, c"connection failed: the remote endpoint is closed";
    BAD_CONNECTION_KEY = 34, c"bad connection key";
    BAD_INFO_LENGTH = 35, c"bad info length";
    NIC_NOT_FOUND = 36, c"NIC not found";
    BAD_KERNEL_VERSION = 37, c"bad kernel version";
    BAD_LIB_VERSION = 38, c"the program was built for another version of the library";
    NIC_DEAD = 39, c"NIC dead";
    CANCEL_NOT_SUPPORTED = 40, c"cancel not supported";
    CLOSE_IN_HANDLER = 41, c"an endpoint cannot be closed in its handler";
    BAD_MATCHING_FOR_CONTEXT_ID_MASK = 42, c"match_mask does not cover the context id";
    NOT_SUPPORTED_WITH_CONTEXT_ID = 43, c"not supported with context ids";
}

codes! { StatusCode, STATUSES,
    SUCCESS = 0, c"success";
    PENDING = 1, c"pending";
    BUFFERED = 2, c"buffered";
    REJECTED = 3, c"rejected";
    TIMEOUT = 4, c"timed out";
    TRUNCATED = 5, c"truncated";
    CANCELLED = 6, c"cancelled";
    ENDPOINT_UNKNOWN = 7, c"remote endpoint unknown";
    ENDPOINT_CLOSED = 8, c"remote endpoint closed";
    ENDPOINT_UNREACHABLE = 9, c"remote endpoint unreachable";
    BAD_SESSION = 10, c"bad session: the remote endpoint was closed and opened again";
    BAD_KEY = 11, c"bad connection key";
    BAD_ENDPOINT = 12, c"bad remote endpoint";
    BAD_RDMAWIN = 13, c"bad RDMA window";
    ABORTED = 14, c"aborted";
    EVENTQ_FULL = 15, c"event queue full";
    NO_RESOURCES = 16, c"no resources";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of};

    #[test]
    fn structures_have_the_layout_of_c() {
        assert_eq!((size_of::<Address>(), align_of::<Address>()), (16, 8));
        assert_eq!((size_of::<MxSegment>(), offset_of!(MxSegment, length)), (16, 8));
        assert_eq!((size_of::<Param>(), offset_of!(Param, value)), (16, 8));
        assert_eq!((size_of::<MxStatus>(), align_of::<MxStatus>()), (48, 8));
        assert_eq!((offset_of!(MxStatus, code), offset_of!(MxStatus, source)), (0, 8));
        assert_eq!((offset_of!(MxStatus, match_info), offset_of!(MxStatus, msg_length)), (24, 32));
        assert_eq!((offset_of!(MxStatus, xfer_length), offset_of!(MxStatus, context)), (36, 40));
        assert_eq!((size_of::<MapperState>(), align_of::<MapperState>()), (36, 4));
        assert_eq!(offset_of!(MapperState, iport), 10);
        assert_eq!(offset_of!(MapperState, flags), 32);
    }

    #[test]
    fn codes_are_numbered_without_gaps() {
        let returns = RETURNS.iter().map(|(code, _, _)| code.0);
        assert!(returns.eq(0..=43));
        let statuses = STATUSES.iter().map(|(code, _, _)| code.0);
        assert!(statuses.eq(0..=16));
    }
}
