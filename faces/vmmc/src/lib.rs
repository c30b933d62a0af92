//! Virtual memory-mapped communication, as VMMC-2 has it, on EMP: `libvmmc.so`.
//!
//! A process is an EMP node whose identity is made of its machine and its number there ([`library`]). It *exports* buffers
//! ([`exports`]): windows that other nodes may write to who know their key, which is drawn at random. Those who may learn it by
//! *importing* the buffer ([`imports`], [`control`]): they get a *proxy*, a range of addresses that stand for it ([`proxies`]).
//! A *send* ([`sends`]) is a put to there; nobody at the receiving process has a part in it, but for the handler of those that
//! notify ([`notify`]). A thread answers imports and runs handlers while the application computes ([`service`]); what has ended
//! in the node is taken by whoever looks first ([`progress`]).

#![warn(missing_docs)]
#![allow(missing_docs, reason = "names of a C interface that its header explains")]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "entry points are called from C: pointers are null or valid for the call, as the header says"
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("proxies of the VMMC face have 64 bits, as pointers have");

pub mod abi;
mod control;
mod errors;
mod exports;
mod imports;
mod library;
mod names;
mod notify;
mod open;
mod peers;
mod progress;
mod proxies;
mod redirect;
mod sends;
mod service;
