//! An endpoint's name, flags and options, and enabling it.

use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering;

use crate::av::put_address;
use crate::bindings::*;
use crate::endpoint::Ep;
use crate::entry::entry;
use crate::flags::{BindFlags, OpFlags};
use crate::info::{RX_FLAGS, TX_FLAGS};
use crate::objects::{aloud, object, store};

entry! {
    pub fn control(endpoint: Fid<Ep>, command: c_int, argument: *mut c_void) -> c_int {
        let inner = &endpoint.inner;
        match command {
            control::ENABLE => aloud("fi_enable", inner.enable().err().unwrap_or(0)),
            control::GETOPSFLAG | control::SETOPSFLAG => {
                // Two kinds in one: the flags of operations, and for which side they are.
                let bits: &u64 = object!(argument.cast::<u64>().cast_const());
                let sides = BindFlags::TRANSMIT.with(BindFlags::RECV);
                let (of, offered) = match BindFlags::from_c(*bits).only(sides) {
                    BindFlags::TRANSMIT => (&inner.tx_flags, TX_FLAGS),
                    BindFlags::RECV => (&inner.rx_flags, RX_FLAGS),
                    _ => return -libc::EINVAL,
                };
                if command == control::SETOPSFLAG {
                    let flags = OpFlags::from_c(*bits & !sides.bits());
                    if flags.exceeds(offered) {
                        return -error::BADFLAGS;
                    }
                    of.set(flags);
                } else {
                    store!(argument.cast::<OpFlags>(), of.get());
                }
                0
            }
            _ => -libc::ENOSYS,
        }
    }

    pub fn getname(endpoint: Fid<Ep>, into: *mut c_void, room: *mut usize) -> c_int {
        let domain = &endpoint.inner.domain;
        let address = domain.format.write(&domain.address(endpoint.inner.number));
        // SAFETY: libfabric's rules.
        unsafe { put_address(&address, into, room) }
    }

    pub fn getopt(
        endpoint: Fid<Ep>, level: c_int, name: c_int, into: *mut c_void, room: *mut usize,
    ) -> c_int {
        let given: &usize = object!(room.cast_const());
        if (level, name) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
            return -libc::ENOPROTOOPT;
        }
        if *given < size_of::<usize>() {
            return -error::TOOSMALL;
        }
        store!(into.cast::<usize>(), endpoint.inner.min_multi_recv.load(Ordering::Relaxed));
        store!(room, size_of::<usize>());
        0
    }

    pub fn setopt(
        endpoint: Fid<Ep>, level: c_int, name: c_int, value: *const c_void, len: usize,
    ) -> c_int {
        if (level, name) != (FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV) {
            return -libc::ENOPROTOOPT;
        }
        if len != size_of::<usize>() {
            return -libc::EINVAL;
        }
        let value: &usize = object!(value.cast::<usize>());
        endpoint.inner.min_multi_recv.store(*value, Ordering::Relaxed);
        0
    }
}
