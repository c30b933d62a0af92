//! What programs use of MX beside its documented interface: the state of a board's fabric, and the registration cache.

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Mutex, PoisonError};

use emp_face::pointers::store;

use crate::abi::*;
use crate::errors::{call, call_on, enter};
use crate::process::library;

/// Descriptors that stand for boards. One a board is enough; they are closed when the process ends.
static HANDLES: Mutex<Vec<(u32, OwnedFd)>> = Mutex::new(Vec::new());

fn handle_of(board: u32) -> Result<c_int, Return> {
    let mut handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, fd)) = handles.iter().find(|(of, _)| *of == board) {
        return Ok(fd.as_raw_fd());
    }
    // SAFETY: takes no pointers.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(Return::NO_RESOURCES);
    }
    // SAFETY: the descriptor was just made and belongs to no one else.
    handles.push((board, unsafe { OwnedFd::from_raw_fd(fd) }));
    Ok(fd)
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_open_board(board: c_int, handle: *mut c_int) -> Return {
    enter(|| {
        call(None, || {
            let number = u32::try_from(board).map_err(|_| Return::BOARD_UNKNOWN)?;
            library()?.board(number)?;
            let fd = handle_of(number)?;
            // SAFETY: the header's rules: null or valid.
            unsafe { store(handle, fd) };
            Ok(())
        })
    })
}

/// The fabric of a board, as far as Ethernet has such a thing: programs compare the mapper's address to find out which
/// boards reach each other. Boards of one number are taken to be on one network, and no others.
#[unsafe(no_mangle)]
pub extern "C" fn mx__get_mapper_state(handle: c_int, state: *mut MapperState) -> Return {
    enter(|| {
        call(None, || {
            let handles = HANDLES.lock().unwrap_or_else(PoisonError::into_inner);
            let found = handles.iter().find(|(_, fd)| fd.as_raw_fd() == handle);
            let board = found.map(|(board, _)| *board);
            drop(handles);
            library()?;
            let board_number = board.ok_or(Return::BOARD_UNKNOWN)?;
            let [high, low] = (board_number as u16).to_be_bytes();
            let found = MapperState {
                board_number,
                mapper_mac: [0x02, b'E', b'M', b'P', high, low],
                network_configured: 1,
                routes_valid: 1,
                ..MapperState::default()
            };
            // SAFETY: the header's rules: null or valid.
            unsafe { store(state, found) };
            Ok(())
        })
    })
}

/// There is no registration cache, so nothing to take out of it.
#[unsafe(no_mangle)]
pub extern "C" fn mx__regcache_clean(_memory: *mut c_void, _bytes: usize) -> c_int {
    enter(|| 0)
}

/// Declared by MX without a meaning that any reference knows.
fn no_one_sided(endpoint: EndpointHandle) -> Return {
    call_on(endpoint, |_| {
        emp_face::log::warn("MX: mx_iput and mx_iget are declared only, as in MX 1.2");
        Err(Return::FAILURE)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_iput(
    endpoint: EndpointHandle,
    _local: *mut c_void,
    _bytes: u32,
    _to: Address,
    _remote: u64,
    _context: *mut c_void,
    _request: *mut RequestHandle,
) -> Return {
    enter(|| no_one_sided(endpoint))
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_iget(
    endpoint: EndpointHandle,
    _local: *mut c_void,
    _bytes: u32,
    _to: Address,
    _remote: u64,
    _context: *mut c_void,
    _request: *mut RequestHandle,
) -> Return {
    enter(|| no_one_sided(endpoint))
}
