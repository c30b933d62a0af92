//! The MX interface (Myrinet Express 1.2) on EMP: `libmyriexpress.so`, which programs written to Myricom's library or to
//! Open-MX link with and run on.
//!
//! An MX endpoint is an EMP node of its own, whose identity is made of the board's NIC id and the endpoint id
//! ([`identities`]): whoever knows these two can reach it, and nobody has to be asked. A call's way: an entry point
//! ([`transfer`], [`complete`], [`connect`], ...) finds the endpoint by its handle ([`open`]) and works on its state, which
//! one thread has at a time ([`endpoint`]); requests ([`requests`]) are posted to the node, and [`progress`] takes what has
//! ended there. The filter key of an endpoint is the key of a region that it exports: connecting writes to that region, so
//! the firmware checks the key by itself, whatever the application is doing ([`connect`]).

#![warn(missing_docs)]
#![allow(missing_docs, reason = "names of a C interface that its header explains")]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "entry points are called from C: pointers are null or valid for the call, as the header says"
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles of the MX face have 64 bits, as pointers have");

pub mod abi;
mod boards;
mod complete;
mod connect;
mod endpoint;
mod errors;
mod extensions;
mod identities;
mod info;
mod internal;
mod names;
mod open;
mod partners;
mod probing;
mod process;
mod progress;
mod requests;
mod transfer;
mod unexpected;
