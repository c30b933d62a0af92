//! VIPL, the interface of the Virtual Interface Architecture 1.0, on EMP: `libvipl.so`.
//!
//! A NIC that is opened is an EMP node with one endpoint ([`nic`]). A VI ([`vi`]) is a pair of queues of descriptors
//! ([`queue`]) and, once connected ([`connect`], [`peer`]), a number at either node: the match bits of its messages. Descriptors
//! are read and checked when they are posted ([`descriptor`], [`post`]); [`progress`] takes what has ended in the node,
//! and tells of it in the queues' order. A message that no receive takes is an error in VIA: [`unexpected`]. RDMA goes to
//! regions that are exported under protection tag and handle ([`memory`]). Connections end by [`ending`].
//!
//! Connection points are a machine's, nodes are a process's: one process of a machine has the node that everyone can find,
//! and passes requests on ([`door`], [`listen`]). What happens while the application is not calling is the work of a
//! thread of each NIC ([`service`]), which also calls the application's handlers ([`notify`]).

#![warn(missing_docs)]
#![allow(missing_docs, reason = "names of a C interface that its header explains")]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "entry points are called from C: pointers are null or valid for the call, as the header says"
)]

#[cfg(not(target_pointer_width = "64"))]
compile_error!("handles of the VIPL face have 64 bits, as pointers have");

pub mod abi;
mod attributes;
mod complete;
mod connect;
mod connecting;
mod control;
mod cq;
mod descriptor;
mod door;
mod ending;
mod errors;
mod listen;
mod memory;
mod names;
mod nic;
mod notify;
mod open;
mod peer;
mod points;
mod post;
mod progress;
mod queue;
mod service;
mod state;
mod unexpected;
mod vi;
mod wire;
