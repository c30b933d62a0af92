//! A library that is loaded at run time, and stays for as long as this process lives.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::bail;

use crate::bail_user;

/// One of them.
pub struct Library(*mut c_void);

impl Library {
    /// Loads it.
    pub fn load(file: &Path) -> anyhow::Result<Self> {
        let path = CString::new(file.as_os_str().as_bytes())?;
        // SAFETY: the path ends with a zero.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            bail_user!("{} cannot be loaded", file.display());
        }
        Ok(Self(library))
    }

    /// A symbol of it.
    ///
    /// # Safety
    ///
    /// What the library has by that name is a pointer of type `F`.
    pub unsafe fn find<F: Copy>(&self, name: &CStr) -> anyhow::Result<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        // SAFETY: the library is loaded, and the name ends with a zero.
        let found = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        if found.is_null() {
            bail!("the library has no {}", name.to_string_lossy());
        }
        // SAFETY: the caller says that this is what it is.
        Ok(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&found) })
    }
}
