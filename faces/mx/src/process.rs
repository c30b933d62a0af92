//! What a process has once: whether the library is initialized, its settings and boards.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use emp_face::log;
use emp_face::settings::{Settings, environment};

use crate::abi::{API, Return};
use crate::boards::{Board, boards};
use crate::errors::{call, enter};
use crate::names::Names;
use crate::open;

/// What is there between `mx_init` and `mx_finalize`.
pub struct Library {
    pub settings: Settings,
    pub boards: Vec<Board>,
    pub names: Names,
}

static LIBRARY: Mutex<Option<Arc<Library>>> = Mutex::new(None);

fn lock() -> MutexGuard<'static, Option<Arc<Library>>> {
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The library, if it is initialized.
pub fn library() -> Result<Arc<Library>, Return> {
    lock().clone().ok_or(Return::NOT_INITIALIZED)
}

impl Library {
    /// A board by its number.
    pub fn board(&self, number: u32) -> Result<&Board, Return> {
        self.boards.get(number as usize).ok_or(Return::BOARD_UNKNOWN)
    }

    /// The number of the board with this NIC id.
    pub fn board_of(&self, nic: u64) -> Option<u32> {
        self.boards.iter().position(|board| board.nic == nic).map(|number| number as u32)
    }
}

fn initialize(api: i32) -> Result<(), Return> {
    if api >> 8 != API >> 8 {
        return Err(Return::BAD_LIB_VERSION);
    }
    let mut library = lock();
    if library.is_some() {
        return Err(Return::ALREADY_INITIALIZED);
    }
    let settings = Settings::read(environment).map_err(|problem| {
        log::error(&problem);
        Return::FAILURE
    })?;
    let boards = boards(&settings);
    if boards.is_empty() {
        log::warn("MX: no interface is up that EMP can use (EMP_LINK, EMP_INTERFACE)");
        return Err(Return::NO_DEV);
    }
    *library = Some(Arc::new(Library { settings, boards, names: Names::default() }));
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn mx__init_api(api: i32) -> Return {
    enter(|| call(None, || initialize(api)))
}

/// Endpoints that are still open are closed, as nobody can name them any more.
#[unsafe(no_mangle)]
pub extern "C" fn mx_finalize() -> Return {
    enter(|| {
        call(None, || {
            let library = lock().take().ok_or(Return::NOT_INITIALIZED)?;
            open::close_all();
            drop(library);
            Ok(())
        })
    })
}
