//! Asking a libfabric which providers it has, the way an MPI would: by loading it. Done by a process of its own, because
//! what is loaded runs, and providers of others may print, hang on to a device, or crash.
//!
//! Invariant of this module: the structures are the beginnings of libfabric's own, whose fields have kept their places
//! since its first version; what the library returns is only read, and lives until the process ends.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::borrowed;
use crate::error::print;

/// The name of the hidden subcommand.
pub const SUBCOMMAND: &str = "fi-probe";

/// Entries that are read of a list at most: a list that goes in circles must not keep us.
const LONGEST_LIST: usize = 10_000;

/// Options of the hidden subcommand.
#[derive(clap::Args)]
pub struct Args {
    /// The shared object to load.
    library: PathBuf,
}

/// What a libfabric says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The version of its interface, such as 1.17 or 2.5.
    pub version: (u32, u32),
    /// The providers that it offers in this environment, each once.
    pub providers: Vec<String>,
    /// The domains (interfaces) that EMP offers.
    pub domains: Vec<String>,
}

/// `struct fi_info`
#[repr(C)]
struct Info {
    next: *const Info,
    capabilities: u64,
    mode: u64,
    address_format: u32,
    source_length: usize,
    destination_length: usize,
    addresses: [*const c_void; 2],
    handle: *const c_void,
    transmit: *const c_void,
    receive: *const c_void,
    endpoint: *const c_void,
    domain: *const Named,
    fabric: *const Named,
}

/// The beginning of `struct fi_fabric_attr`, and, without the last field, of `struct fi_domain_attr`.
#[repr(C)]
struct Named {
    object: *const c_void,
    name: *const c_char,
    provider: *const c_char,
}

type Version = unsafe extern "C" fn() -> u32;
type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const c_void,
    *mut *const Info,
) -> c_int;

/// Runs the hidden subcommand.
pub fn run(args: &Args) -> anyhow::Result<()> {
    print(&(serde_json::to_string(&ask(args)?)? + "\n"))
}

fn ask(args: &Args) -> anyhow::Result<Answer> {
    // Who starts this chooses the library, and programs of MPIs have no capability of `emp`'s either.
    borrowed::give_back()?;
    let path = CString::new(args.library.as_os_str().as_bytes())?;
    // SAFETY: the path ends with a zero. The library's initialisers run; see the module's first lines.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
    if library.is_null() {
        bail!("{} cannot be loaded", args.library.display());
    }
    let symbol = |name: &CStr| {
        // SAFETY: the library is loaded, and the name ends with a zero.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        (!found.is_null()).then_some(found).context("it is not a libfabric")
    };
    // SAFETY: `fabric.h` declares these functions so.
    let (version, getinfo) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Version>(symbol(c"fi_version")?),
            std::mem::transmute::<*mut c_void, GetInfo>(symbol(c"fi_getinfo")?),
        )
    };
    // SAFETY: takes nothing.
    let number = unsafe { version() };
    let mut answer = Answer { version: (number >> 16, number & 0xffff), ..Answer::default() };
    let mut list: *const Info = std::ptr::null();
    let (none, nothing) = (std::ptr::null(), std::ptr::null());
    // SAFETY: no hints mean everything there is; `list` is writable. An error leaves it empty, as finding nothing does.
    if unsafe { getinfo(number, none, none, 0, nothing, &raw mut list) } == 0 {
        read(list, &mut answer);
    }
    Ok(answer)
}

fn read(mut list: *const Info, answer: &mut Answer) {
    for _ in 0..LONGEST_LIST {
        // SAFETY: null, or an entry of the list that the library returned.
        let Some(info) = (unsafe { list.as_ref() }) else { return };
        // SAFETY: the attributes of an entry are null or there.
        let (fabric, domain) = unsafe { (info.fabric.as_ref(), info.domain.as_ref()) };
        let provider = fabric.and_then(|fabric| text(fabric.provider)).unwrap_or_default();
        if provider == "emp" {
            answer.domains.extend(domain.and_then(|domain| text(domain.name)));
            answer.domains.dedup();
        }
        if !answer.providers.contains(&provider) {
            answer.providers.push(provider);
        }
        list = info.next;
    }
}

fn text(pointer: *const c_char) -> Option<String> {
    // SAFETY: names in libfabric's attributes are null or end with a zero.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(provider: &CStr, name: &CStr) -> Named {
        Named { object: std::ptr::null(), name: name.as_ptr(), provider: provider.as_ptr() }
    }

    fn info(next: *const Info, fabric: *const Named, domain: *const Named) -> Info {
        // SAFETY: all fields are integers and pointers, for which zero is a value.
        let empty: Info = unsafe { std::mem::zeroed() };
        Info { next, fabric, domain, ..empty }
    }

    #[test]
    fn providers_are_told_once_and_emps_domains_by_name() {
        let (emp, tcp) = (named(c"emp", c"fabric"), named(c"tcp", c"fabric"));
        let card = named(c"", c"eth0");
        let last = info(std::ptr::null(), &raw const tcp, std::ptr::null());
        let second = info(&raw const last, &raw const emp, &raw const card);
        let first = info(&raw const second, &raw const tcp, &raw const card);
        let mut answer = Answer::default();
        read(&raw const first, &mut answer);
        assert_eq!(answer.providers, ["tcp", "emp"]);
        assert_eq!(answer.domains, ["eth0"]);
    }

    #[test]
    fn what_is_no_libfabric_is_refused() {
        let ask = |path: &str| ask(&Args { library: path.into() }).unwrap_err().to_string();
        assert!(ask("/nowhere/libfabric.so.1").contains("cannot be loaded"));
        assert!(ask("libc.so.6").contains("not a libfabric"));
    }
}
