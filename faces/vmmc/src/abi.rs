//! Types and constants of the interface, as C has them (`include/vmmc.h`).

use std::ffi::{c_int, c_void};

/// `VMMC_ANY_PROCESS`.
pub const ANY_PROCESS: u32 = 0xffff_ffff;
/// `VMMC_ANY_NODE`.
pub const ANY_NODE: u64 = 0;
/// `VMMC_PROCESSES`: a process is a node of its own, with its links and threads that sleep. As many as anybody starts on one
/// machine, and few enough that a packet socket for each is no burden.
pub const PROCESSES_MAX: u32 = 128;
/// `VMMC_FOREVER`.
pub const FOREVER: u32 = 0xffff_ffff;
/// `VMMC_BUFFER_MAX`: bytes of a buffer that the offsets in a proxy address can tell apart.
pub const BUFFER_MAX: u64 = 1 << 38;

/// `vmmc_process_t`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Process {
    pub node: u64,
    pub number: u32,
    pub zero: u32,
}

/// `vmmc_notification_t`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Notification {
    pub from: Process,
    pub id: u32,
    pub zero: u32,
    pub offset: u64,
    pub bytes: u64,
}

/// `vmmc_import_info_t`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImportInfo {
    pub from: Process,
    pub id: u32,
    pub generation: u32,
    pub bytes: u64,
    pub state: c_int,
    pub zero: c_int,
}

/// `vmmc_handler_t`.
pub type Handler = unsafe extern "C" fn(*const Notification, *mut c_void);

/// `vmmc_proxy_t`: a pointer in C, an address of the destination space here ([`crate::proxies`]).
pub type Proxy = u64;

/// `vmmc_send_t`; 0 is none.
pub type SendHandle = u64;

/// What a call returns: 0, or a negative number that says what is wrong.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code(pub c_int);

macro_rules! codes {
    ($($name:ident = $number:literal, $text:literal;)*) => {
        impl Code {
            $(pub const $name: Self = Self($number);)*
        }

        /// The codes with their texts.
        pub const CODES: &[(Code, &std::ffi::CStr)] = &[$((Code::$name, $text)),*];
    };
}

codes! {
    OK = 0, c"success";
    NOT_INITIALIZED = -1, c"the library is not initialized";
    INITIALIZED = -2, c"the library is initialized already";
    ARGUMENT = -3, c"bad argument";
    SETTINGS = -4, c"a setting in the environment makes no sense";
    NO_NETWORK = -5, c"no interface can be used";
    PROCESS_IN_USE = -6, c"another process of this machine has this number";
    NO_RESOURCES = -7, c"no resources";
    HOST_NOT_FOUND = -8, c"host not found";
    ID_IN_USE = -9, c"a buffer of this id is exported already";
    NO_BUFFER = -10, c"no buffer of this id is exported";
    OVERLAP = -11, c"buffers overlap";
    PERMISSION = -12, c"the exporter does not permit this process to import the buffer";
    TIMEOUT = -13, c"timed out";
    PROXY = -14, c"not an address of an imported buffer";
    BOUNDS = -15, c"beyond the end of the buffer";
    PENDING = -16, c"not over yet";
    STALE = -17, c"the buffer is not exported any more: import it again";
    RESTARTED = -18, c"the exporter was restarted: import the buffer again";
    UNREACHABLE = -19, c"the exporter cannot be reached";
    CLOSED = -20, c"the exporter has ended";
    REQUEST = -21, c"bad request";
    IN_HANDLER = -22, c"not in a notification handler";
    FINALIZED = -23, c"the library was finalized meanwhile";
    NOT_REDIRECTED = -24, c"nothing is redirected there";
    REDIRECTED = -25, c"redirected already";
    BROKEN = -26, c"the library cannot be used any more in this process";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{align_of, offset_of};

    #[test]
    fn structures_have_the_layout_of_c() {
        assert_eq!((size_of::<Process>(), align_of::<Process>()), (16, 8));
        assert_eq!(offset_of!(Process, number), 8);
        assert_eq!((size_of::<Notification>(), offset_of!(Notification, id)), (40, 16));
        assert_eq!((offset_of!(Notification, offset), offset_of!(Notification, bytes)), (24, 32));
        assert_eq!((size_of::<ImportInfo>(), offset_of!(ImportInfo, id)), (40, 16));
        assert_eq!(offset_of!(ImportInfo, generation), 20);
        assert_eq!((offset_of!(ImportInfo, bytes), offset_of!(ImportInfo, state)), (24, 32));
    }

    #[test]
    fn codes_are_numbered_without_gaps() {
        assert!(CODES.iter().map(|(code, _)| -code.0).eq(0..CODES.len() as c_int));
    }
}
