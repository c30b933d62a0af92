//! Transfer redirection: what comes to part of an exported buffer goes to memory of the application's that is named late, when it
//! has asked for what the sender has sent, or is about to send, without knowing where to.

use std::ffi::c_void;

use emp_face::pointers::store;
use emp_host::{RedirectError, Segment};

use crate::abi::Code;
use crate::errors::{call, enter};

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_redirect(
    id: u32,
    offset: u64,
    to: *mut c_void,
    bytes: usize,
    copied: *mut u64,
) -> Code {
    enter(|| {
        call(|library| {
            let (address, bytes) = (to.expose_provenance() as u64, bytes as u64);
            if address == 0 || bytes == 0 || address >> 63 != 0 {
                return Err(Code::ARGUMENT);
            }
            let mut state = library.lock()?;
            let window = state.exports.get_mut(id).ok_or(Code::NO_BUFFER)?.window;
            state.keep_written(address, bytes)?;
            let to = Segment { address, bytes };
            // SAFETY: the header's rules: the memory stays until the redirection has ended or the buffer is unexported.
            let moved = unsafe { library.notices.redirect_raw(window, offset, to) };
            let moved = moved.map_err(|error| match error {
                RedirectError::NoWindow => Code::NO_BUFFER,
                RedirectError::OutOfBounds => Code::BOUNDS,
                RedirectError::Redirected => Code::REDIRECTED,
            });
            match (moved, state.exports.get_mut(id)) {
                (Ok(moved), Some(export)) => {
                    export.away.insert(offset, address);
                    // SAFETY: the header's rules: null or valid.
                    unsafe { store(copied, moved) };
                    Ok(())
                }
                (moved, _) => {
                    state.written.remove(&address);
                    moved.map(|_| ())
                }
            }
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_restore(id: u32, offset: u64) -> Code {
    enter(|| {
        call(|library| {
            let mut state = library.lock()?;
            let export = state.exports.get_mut(id).ok_or(Code::NO_BUFFER)?;
            let address = export.away.remove(&offset).ok_or(Code::NOT_REDIRECTED)?;
            library.notices.restore_raw(export.window, offset);
            state.written.remove(&address);
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_taken(id: u32, offset: u64, bytes: usize) -> Code {
    enter(|| {
        call(|library| {
            let mut state = library.lock()?;
            let export = state.exports.get_mut(id).ok_or(Code::NO_BUFFER)?;
            let bytes = bytes as u64;
            if offset.checked_add(bytes).is_none_or(|end| end > export.bytes) {
                return Err(Code::BOUNDS);
            }
            library.notices.taken_raw(export.window, offset, bytes);
            Ok(())
        })
    })
}
