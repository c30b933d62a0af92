//! The boundary to C, as libfabric's functions have it: what each of them returns if no call can be served.

use std::ffi::{c_char, c_int};

use emp_face::boundary::{self, Refusal};

use crate::bindings::{FiProvider, error};

/// What a function returns that could do nothing.
pub trait Failed {
    /// The value that says so; `code` is libfabric's, positive.
    fn failed(code: c_int) -> Self;
}

impl Failed for c_int {
    fn failed(code: c_int) -> Self {
        -code
    }
}

impl Failed for isize {
    fn failed(code: c_int) -> Self {
        -(code as isize)
    }
}

/// Counters have no value that is an error; waiting for them has.
impl Failed for u64 {
    fn failed(_: c_int) -> Self {
        0
    }
}

impl Failed for *const c_char {
    fn failed(_: c_int) -> Self {
        c"EMP is broken".as_ptr()
    }
}

/// A core passes a provider by that is not there.
impl Failed for *mut FiProvider {
    fn failed(_: c_int) -> Self {
        std::ptr::null_mut()
    }
}

/// Runs what C has called.
#[inline]
pub fn enter<R: Failed>(body: impl FnOnce() -> R) -> R {
    boundary::enter(body, |refusal| {
        R::failed(match refusal {
            Refusal::Broken => error::OTHER,
            Refusal::Forked => error::OPBADSTATE,
        })
    })
}

/// Defines functions that C calls. Each runs in [`enter`]. A first argument that is an object is looked up for the body, which
/// is not run without it: one of this type that is passed as such (`ep: &Ep`), or of this type among all kinds (`ep: Fid<Ep>`).
macro_rules! entry {
    () => {};
    (
        $(#[$doc:meta])* $vis:vis fn $name:ident(
            $self:ident: &$object:ty $(, $argument:ident: $type:ty)* $(,)?
        ) -> $result:ty $body:block $($rest:tt)*
    ) => {
        $crate::entry::entry! {
            $(#[$doc])* $vis fn $name($self: *mut $object $(, $argument: $type)*) -> $result {
                let $self: &$object = $crate::objects::object!($self.cast_const());
                $body
            }
            $($rest)*
        }
    };
    (
        $(#[$doc:meta])* $vis:vis fn $name:ident(
            $self:ident: Fid<$object:ty> $(, $argument:ident: $type:ty)* $(,)?
        ) -> $result:ty $body:block $($rest:tt)*
    ) => {
        $crate::entry::entry! {
            $(#[$doc])* $vis fn $name(
                $self: *mut $crate::bindings::Fid $(, $argument: $type)*
            ) -> $result {
                let $self: &$object = $crate::objects::downcast!($self);
                $body
            }
            $($rest)*
        }
    };
    (
        $(#[$doc:meta])* $vis:vis fn $name:ident(
            $($argument:ident: $type:ty),* $(,)?
        ) -> $result:ty $body:block $($rest:tt)*
    ) => {
        $(#[$doc])*
        ///
        /// # Safety
        ///
        /// The pointers follow libfabric's rules ([`crate::objects`]).
        $vis unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            $crate::entry::enter(|| -> $result { $body })
        }
        $crate::entry::entry! { $($rest)* }
    };
}
pub(crate) use entry;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_the_call() {
        let refused = |refusal| boundary::enter(|| 0isize, |_| refusal);
        assert_eq!(refused(-1), 0);
        assert_eq!(<isize as Failed>::failed(error::OTHER), -256);
        assert_eq!(<c_int as Failed>::failed(error::OTHER), -256);
    }

    #[test]
    fn every_entry_point_is_guarded() {
        // The macro itself, which is all that defines them but for these.
        let harmless = ["$name", "unsupported", "cleanup", "no_bind", "no_control", "no_tostr"];
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        assert_eq!(boundary::check_entry_points(sources, &harmless), Ok(1), "fi_prov_ini");
        let here = include_str!("entry.rs");
        assert!(here.contains("$crate::entry::enter(|| -> $result { $body })"));
    }
}
