//! Exports: buffers of this process that others may import, and who may.

use std::collections::HashMap;
use std::ffi::c_void;

use emp_face::node::random_identity;
use emp_face::pointers::slice;
use emp_host::{PostError, Segment, Window};

use crate::abi::{ANY_NODE, ANY_PROCESS, BUFFER_MAX, Code, Handler, Process};
use crate::control::Answer;
use crate::errors::{call, enter};
use crate::library::{Library, State};
use crate::notify::is_handling;

/// One of them.
pub struct Export {
    pub window: Window,
    pub address: u64,
    pub bytes: u64,
    key: u64,
    generation: u32,
    /// Whom it may be imported by.
    importers: Vec<Process>,
    pub handler: Option<Handler>,
    pub context: usize,
    /// Parts that are redirected: where each begins, and the address that it goes to.
    pub away: HashMap<u64, u64>,
}

/// All of them.
#[derive(Default)]
pub struct Exports {
    by_id: HashMap<u32, Export>,
    by_key: HashMap<u64, u32>,
}

/// A list of permissions says nothing of fields that have no meaning, and of any process by either half.
fn permits(importers: &[Process], who: Process) -> bool {
    importers.iter().any(|one| {
        (one.node == ANY_NODE || one.node == who.node)
            && (one.number == ANY_PROCESS || one.number == who.number)
    })
}

impl Exports {
    /// What somebody is told who asks for a buffer.
    ///
    /// # Errors
    ///
    /// `NO_BUFFER`: there is none (yet); `PERMISSION`.
    pub fn answer(&self, asker: Process, id: u32) -> Result<Answer, Code> {
        let export = self.by_id.get(&id).ok_or(Code::NO_BUFFER)?;
        if !permits(&export.importers, asker) {
            return Err(Code::PERMISSION);
        }
        let Export { key, generation, bytes, .. } = *export;
        Ok(Answer { key, generation, bytes })
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Export> {
        self.by_id.get_mut(&id)
    }

    /// The export of a region, and its id.
    pub fn of_key(&self, key: u64) -> Option<(u32, &Export)> {
        let id = *self.by_key.get(&key)?;
        self.by_id.get(&id).map(|export| (id, export))
    }
}

/// Who is listed, at the address that C passes.
fn importers(first: *const Process, count: u32) -> Result<Vec<Process>, Code> {
    if first.is_null() && count != 0 {
        return Err(Code::ARGUMENT);
    }
    // SAFETY: the header's rules: so many of them.
    Ok(unsafe { slice(first, count as usize) }.to_vec())
}

impl Library {
    fn export(
        &self,
        state: &mut State,
        (address, bytes): (u64, u64),
        id: u32,
        importers: Vec<Process>,
        (handler, context): (Option<Handler>, usize),
    ) -> Result<(), Code> {
        if state.exports.by_id.contains_key(&id) {
            return Err(Code::ID_IN_USE);
        }
        state.keep_written(address, bytes)?;
        let memory = Segment { address, bytes };
        let exported = loop {
            // Who does not know it cannot guess it: it is what the permission consists in.
            let Ok(key) = random_identity() else { break Err(Code::NO_RESOURCES) };
            // SAFETY: the header's rules: the buffer stays until it is unexported or the library is finalized.
            match unsafe { self.notices.export_window_raw(Some(key.0), memory) } {
                Err(PostError::KeyTaken) => {}
                exported => break exported.map_err(Code::refused),
            }
        };
        let (region, window) = exported.inspect_err(|_| {
            state.written.remove(&address);
        })?;
        let (key, generation) = (region.key, region.generation);
        let away = HashMap::new();
        let export =
            Export { window, address, bytes, key, generation, importers, handler, context, away };
        state.exports.by_id.insert(id, export);
        state.exports.by_key.insert(key, id);
        Ok(())
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_export(
    buffer: *mut c_void,
    bytes: usize,
    id: u32,
    first: *const Process,
    count: u32,
    handler: Option<Handler>,
    context: *mut c_void,
) -> Code {
    enter(|| {
        call(|library| {
            let importers = importers(first, count)?;
            let (address, bytes) = (buffer.expose_provenance() as u64, bytes as u64);
            if address == 0 || bytes == 0 || bytes >= BUFFER_MAX {
                return Err(Code::ARGUMENT);
            }
            if address >> 63 != 0 || (address + bytes) >> 63 != 0 {
                return Err(Code::ARGUMENT);
            }
            let told = (handler, context.expose_provenance());
            library.export(&mut *library.lock()?, (address, bytes), id, importers, told)
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_permit(id: u32, first: *const Process, count: u32) -> Code {
    enter(|| {
        call(|library| {
            let importers = importers(first, count)?;
            let mut state = library.lock()?;
            state.exports.get_mut(id).ok_or(Code::NO_BUFFER)?.importers = importers;
            Ok(())
        })
    })
}

/// Takes a buffer back. Once this returns, nothing is written to it any more, and its handler does not run.
#[unsafe(no_mangle)]
pub extern "C" fn vmmc_unexport(id: u32) -> Code {
    enter(|| {
        call(|library| {
            let mut state = library.lock()?;
            let export = state.exports.by_id.remove(&id).ok_or(Code::NO_BUFFER)?;
            state.exports.by_key.remove(&export.key);
            library.notices.remove_window_raw(export.window);
            state.written.remove(&export.address);
            for address in export.away.values() {
                state.written.remove(address);
            }
            state.notices.forget(id);
            // A handler of it that runs in another thread has the application's context.
            while state.notices.handling.is_some() && !is_handling(&state) {
                state =
                    library.resumed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            }
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permission_is_by_node_and_process() {
        let process = |node, number| Process { node, number, zero: 0 };
        let who = process(5, 1);
        assert!(!permits(&[], who));
        assert!(permits(&[process(4, 1), process(5, 1)], who));
        assert!(!permits(&[process(5, 2), process(4, 1)], who));
        assert!(permits(&[process(5, ANY_PROCESS)], who));
        assert!(permits(&[process(ANY_NODE, 1)], who));
        assert!(permits(&[process(ANY_NODE, ANY_PROCESS)], who));
        assert!(!permits(&[process(4, ANY_PROCESS)], who));
    }
}
