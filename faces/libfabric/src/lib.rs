//! EMP as a libfabric provider: `libemp-fi.so`, which unmodified MPI programs load.
//!
//! A call's way: an entry point ([`msg`], [`tagged`], [`rma`], [`atomic`]) names buffers and flags; [`transfer`] makes a descriptor of them
//! and posts it to the endpoint's node; reading a completion queue ([`cq`]) makes progress, and [`ended`] makes entries
//! of what has ended. [`info`] says what is on offer, and [`domain`] starts the node. What EMP's faces share is in `emp_face`.
//!
//! | here | libfabric |
//! |---|---|
//! | way ([`places`], [`asked`]) | a `fi_info`: an interface, and the kind of link by which frames leave it |
//! | node ([`domain`]) | `fid_domain`; its two endpoints of EMP make one `fid_ep` ([`endpoint`]) |
//! | service ([`ep_address`]) | the `src_addr` that was asked for with `FI_SOURCE` |
//! | number, entry ([`entries`]) | `fi_addr_t`, what `fi_av_insert` stored for it |
//! | nameless | an inject call: no context, no completion |
//! | lent, copy ([`lend`]) | a buffer until its completion, `FI_INJECT` |
//! | immediate | `FI_REMOTE_CQ_DATA` |
//! | pieces ([`pieces`]) | one read, write or atomic with several `fi_rma_iov` or `fi_rma_ioc` |
//! | event ([`events`]) | `FI_RMA_EVENT` |
//! | told, ended ([`ended`]) | a completion, and its flags |
//! | kinds of flags ([`flags`]) | bits that mean different things by where they stand |
//!
//! What is on offer: reliable datagrams (`FI_EP_RDM`) with tagged and untagged messages ([`transfer`]), remote memory and
//! atomics ([`remote`], [`mr`]). Functions that are not offered say so ([`tables`]).

#![warn(missing_docs)]
#![allow(missing_docs, reason = "names of a C interface that libfabric's manual pages explain")]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "entry points are called from C by the rules that `objects` states for all of them"
)]

mod asked;
mod atomic;
mod av;
mod bindings;
mod cntr;
mod core;
mod cq;
mod domain;
mod ended;
mod endpoint;
mod entries;
mod entry;
mod ep_address;
mod eq;
mod events;
mod fabric;
mod flags;
mod info;
mod inject;
mod lend;
mod mr;
mod msg;
mod neighbours;
mod nic;
mod objects;
mod offered;
mod operations;
mod options;
mod params;
mod pieces;
mod places;
mod remote;
mod rma;
mod status;
mod stx;
mod symmetric;
mod tables;
mod tagged;
mod transfer;
mod wait_objects;

use std::cell::UnsafeCell;

use bindings::{FiProvider, version};

/// Of two providers of one name, the core takes the one with the higher number.
const PROVIDER_VERSION: u32 = version(0, 1);

/// The provider as the core knows it: it writes there, so it is not a constant.
struct Shared(UnsafeCell<FiProvider>);

// SAFETY: written below before the core has it, and by the core alone from then on.
unsafe impl Sync for Shared {}

static PROVIDER: Shared = Shared(UnsafeCell::new(FiProvider {
    version: PROVIDER_VERSION,
    fi_version: 0,
    context: [std::ptr::null_mut(); 4],
    name: c"emp".as_ptr(),
    getinfo: info::getinfo,
    fabric: fabric::open,
    cleanup,
}));

/// # Safety
///
/// None is needed: the type in libfabric's table is that of an unsafe function.
unsafe extern "C" fn cleanup() {}

/// What a libfabric core calls when it has loaded this object.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut FiProvider {
    entry::enter(|| {
        let provider = PROVIDER.0.get();
        core::attach(provider);
        emp_face::log::redirect(core::say);
        // SAFETY: the core calls this function once, before it uses the provider.
        unsafe { (*provider).fi_version = core::fi_version() };
        params::define();
        provider
    })
}
