//! The libfabric core that has loaded this provider: its version, parameters and log.
//!
//! Nothing is imported at link time, so that one shared object loads into every core whatever symbol versions it has:
//! the few functions are looked up in the core when they are needed, and the provider does without those it lacks.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use emp_face::log::Level;

use crate::bindings::{FiProvider, version};

type FiVersion = unsafe extern "C" fn() -> u32;
type StrError = unsafe extern "C" fn(c_int) -> *const c_char;
type ParamDefine =
    unsafe extern "C" fn(*const FiProvider, *const c_char, c_int, *const c_char, ...) -> c_int;
type ParamGet = unsafe extern "C" fn(*mut FiProvider, *const c_char, *mut c_void) -> c_int;
type LogEnabled = unsafe extern "C" fn(*const FiProvider, c_int, c_int) -> c_int;
type Log =
    unsafe extern "C" fn(*const FiProvider, c_int, c_int, *const c_char, c_int, *const c_char, ...);

const PARAM_STRING: c_int = 0;
const LOG_WARN: c_int = 0;
const LOG_INFO: c_int = 2;
const SUBSYSTEM_CORE: c_int = 0;

/// Highest interface version that this provider was made for, for a core that does not say its own.
const VERSION_UNKNOWN: u32 = version(2, 99);

struct Core {
    version: Option<FiVersion>,
    strerror: Option<StrError>,
    param_define: Option<ParamDefine>,
    param_get: Option<ParamGet>,
    log_enabled: Option<LogEnabled>,
    log: Option<Log>,
    provider: usize,
}

static CORE: OnceLock<Core> = OnceLock::new();

/// A function of the core.
///
/// # Safety
///
/// Whatever the core has by that name is a function of type `F`.
unsafe fn find<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    // SAFETY: looks for an object that is loaded already and for a symbol; both texts end with a zero.
    let found = unsafe {
        let core = libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        let scope = if core.is_null() { libc::RTLD_DEFAULT } else { core };
        libc::dlsym(scope, name.as_ptr())
    };
    // SAFETY: the caller says that this is what the symbol is.
    (!found.is_null()).then(|| unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
}

/// Looks the core's functions up. `provider` lives for ever.
pub fn attach(provider: *mut FiProvider) {
    // SAFETY: libfabric declares these functions so (`fi_prov.h`, `fi_log.h`, `fabric.h`).
    CORE.get_or_init(|| unsafe {
        Core {
            version: find(c"fi_version"),
            strerror: find(c"fi_strerror"),
            param_define: find(c"fi_param_define"),
            param_get: find(c"fi_param_get"),
            log_enabled: find(c"fi_log_enabled"),
            log: find(c"fi_log"),
            provider: provider.expose_provenance(),
        }
    });
}

impl Core {
    fn provider(&self) -> *mut FiProvider {
        std::ptr::with_exposed_provenance_mut(self.provider)
    }
}

/// The core's interface version. What a provider says of itself must be at least what the application asks for, which is
/// at most this.
pub fn fi_version() -> u32 {
    let ask = CORE.get().and_then(|core| core.version);
    // SAFETY: takes nothing.
    ask.map_or(VERSION_UNKNOWN, |ask| unsafe { ask() })
}

/// The text of an error number, positive.
pub fn describe(code: c_int) -> String {
    let Some(ask) = CORE.get().and_then(|core| core.strerror) else {
        return format!("error {code}");
    };
    // SAFETY: any number has a text that stays, and ends with a zero.
    unsafe { CStr::from_ptr(ask(code)) }.to_string_lossy().into_owned()
}

/// Tells the core of a parameter, so that `fi_info -e` shows it.
pub fn define_parameter(name: &CStr, help: &CStr) {
    let Some(core) = CORE.get() else { return };
    if let Some(define) = core.param_define {
        // SAFETY: the provider lives for ever, the texts end with a zero, and the help has no place-holders.
        unsafe { define(core.provider(), name.as_ptr(), PARAM_STRING, help.as_ptr()) };
    }
}

/// The text of a parameter, from wherever the core takes them; from the environment if there is no such core.
pub fn parameter(name: &CStr) -> Option<String> {
    let provider = CORE.get().map_or(std::ptr::null_mut(), Core::provider);
    look(provider, name).unwrap_or_else(|| {
        let name = name.to_str().ok()?.to_uppercase();
        std::env::var(format!("FI_EMP_{name}")).ok()
    })
}

/// The providers that the user wants, or does not want, as `FI_PROVIDER` says.
pub fn chosen_providers() -> Option<String> {
    look(std::ptr::null_mut(), c"provider").unwrap_or_else(|| std::env::var("FI_PROVIDER").ok())
}

/// A parameter of a provider, or (null) of the core itself. `None`: the core cannot be asked.
fn look(provider: *mut FiProvider, name: &CStr) -> Option<Option<String>> {
    let get = CORE.get()?.param_get?;
    let mut text: *mut c_char = std::ptr::null_mut();
    // SAFETY: a text parameter's value is a pointer to a text that the core keeps.
    let result = unsafe { get(provider, name.as_ptr(), (&raw mut text).cast()) };
    if result != 0 || text.is_null() {
        return Some(None);
    }
    // SAFETY: as above; it ends with a zero.
    Some(Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()))
}

fn log(level: c_int, text: &str) -> bool {
    let Some(core) = CORE.get() else { return false };
    let (Some(enabled), Some(log)) = (core.log_enabled, core.log) else { return false };
    let Ok(text) = CString::new(format!("{text}\n")) else { return false };
    // SAFETY: the provider lives for ever, and the texts end with a zero and fit their place-holder.
    unsafe {
        let shown = enabled(core.provider(), level, SUBSYSTEM_CORE) != 0;
        if shown {
            let (provider, place) = (core.provider(), c"emp".as_ptr());
            log(provider, level, SUBSYSTEM_CORE, place, 0, c"%s".as_ptr(), text.as_ptr());
        }
        shown
    }
}

/// Says something by libfabric's log, to those who ask (`FI_LOG_LEVEL=warn` or `info`). True: it is shown.
pub fn say(level: Level, text: &str) -> bool {
    log(if level == Level::Warning { LOG_WARN } else { LOG_INFO }, text)
}
