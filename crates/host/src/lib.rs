//! The EMP API for Rust programs: nodes, endpoints, requests, and the boards that firmware runs on.
//!
//! # A first program
//!
//! Two nodes in one process, joined by a fabric in memory. On real machines each process starts one node, with
//! [`NodeBuilder::auto_links`] or a link of its choice; the rest is the same.
//!
//! ```
//! use std::time::Duration;
//! use emp_host::{Node, NodeId, Selector, link::Fabric};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fabric = Fabric::new(2)?;
//! let start = |place, name| {
//!     let tag = NodeId::from_name(name).destination_tag();
//!     let link = fabric.link(place, tag).expect("the fabric has two places");
//!     Node::builder().name(name).link(link).start()
//! };
//! let (ann, bob) = (start(0, "ann")?, start(1, "bob")?);
//!
//! // Messages go from endpoint to endpoint, and match by 64 bits and the sender. This returns when bob's node has it.
//! let (from, to) = (ann.endpoint(1)?, bob.endpoint(1)?);
//! let receive = to.receive(Selector::bits(42), vec![0; 100])?;
//! from.send_wait(("bob", 1), 42, "hello", Duration::from_secs(10))?;
//!
//! let got = receive.wait(Duration::from_secs(10))?;
//! assert_eq!(&got.buffer[..got.bytes()], b"hello");
//! assert_eq!(got.completion.peer, ann.id());
//! # Ok(())
//! # }
//! ```
//!
//! # Buffers
//!
//! The safe API is sound without lifetimes: [`Endpoint::send`] and [`Endpoint::receive`] take the buffer, the
//! [`Request`] owns it while the firmware uses its memory, and every end of the operation gives it back: success,
//! failure, a refused post, and a wait that timed out (which returns the request). So a buffer in flight cannot be
//! touched:
//!
//! ```compile_fail,E0382
//! # fn show(endpoint: &emp_host::Endpoint) {
//! let mut buffer = vec![0; 100];
//! let request = endpoint.receive(emp_host::Selector::ANY, buffer).unwrap();
//! buffer[0] = 1; // moved into the request
//! # }
//! ```
//!
//! nor can memory be lent that may go away before the operation ends:
//!
//! ```compile_fail,E0597
//! # fn show(endpoint: &emp_host::Endpoint) {
//! let bytes = [1u8; 100];
//! let request = endpoint.send(("peer", 1), 0, &bytes[..]).unwrap(); // not 'static
//! # }
//! ```
//!
//! Requests may be dropped (a receive is cancelled, a send goes on; the buffer is freed when the operation is over) and
//! forgotten (the buffer leaks). Several buffers make one message as [`Scatter`]. Faces that manage memory themselves
//! use the raw API ([`Endpoint::post_send_raw`] and its neighbours), which is `unsafe` and allocates nothing.
//!
//! # Memory that others reach
//!
//! A [`Region`] is memory of this node that other nodes read and write without its application having a part in it, by
//! [`Endpoint::put`], [`Endpoint::get`] and atomics. Its owner copies in and out ([`Region::read`], [`Region::write`]), for
//! peers may write at any time. Where it is ([`Region::remote`]) they learn by a message, or by a key agreed upon.
//!
//! ```
//! # use std::time::Duration;
//! # use emp_host::{Board, Node, NodeId, link::Fabric};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let fabric = Fabric::new(2)?;
//! # let start = |place, name| {
//! #     let tag = NodeId::from_name(name).destination_tag();
//! #     let link = fabric.link(place, tag).expect("the fabric has two places");
//! #     Node::builder().name(name).link(link).board(Board::Thread).start()
//! # };
//! # let (ann, bob) = (start(0, "ann")?, start(1, "bob")?);
//! # let long = Duration::from_secs(10);
//! let region = bob.export(vec![0; 4096])?;
//! let target = region.remote();
//!
//! let endpoint = ann.endpoint(1)?;
//! endpoint.put(target, "hello")?.wait(long)?;
//! assert_eq!(region.to_vec(0, 5), b"hello");
//! let got = endpoint.get(target, vec![0; 5])?.wait(long)?;
//! assert_eq!(got.buffer, b"hello");
//!
//! region.write(0, &41u64.to_le_bytes());
//! let before = endpoint.fetch_add(target, 1u64)?.wait(long)?;
//! assert_eq!(before.buffer.first(), 41);
//! # Ok(())
//! # }
//! ```
//!
//! # Progress and waiting
//!
//! A [`Board`] says where the firmware runs. With [`Board::Inline`] (the default) it runs in the application's calls,
//! and a *guardian* thread takes over when there has been none for a few milliseconds; without a guardian, nothing
//! moves between calls. With [`Board::Thread`] a thread of the node does the work; with
//! [`Board::Split`] the calls of the links, or a part of the engine, are another thread's.
//!
//! Waiting looks again and again for a moment ([`WaitMode`]), then sleeps on the links' descriptors until something
//! arrives or the firmware's next deadline comes. A quiet node uses no processor.
//!
//! All handles are `Send`, `Sync` and cheap to clone; any number of threads may post and wait at a time.
//!
//! # Errors
//!
//! Operations end with an [`OperationError`] that names the peer and the reason when the peer is unreachable, was
//! restarted, has closed its node, and so on; others are not affected. [`Node::wait_event`] tells of such things too, and so does the
//! log (`EMP_LOG=warn`; `docs/guide/log.md`). What a success means is in `docs/guide/delivery.md`.
//!
//! # Signals
//!
//! Threads of a node have all signals blocked but those of faults: a signal to the process reaches a thread of the application.
//!
//! # Processes that fork
//!
//! A node does not survive `fork(2)` in the child: its threads are not there and its sockets are shared with the parent.
//! The child must not use handles of the parent's nodes; dropping them does nothing there, and the parent's nodes go on. The child starts nodes of
//! its own, under other names. Descriptors are closed on `exec`.

#![allow(clippy::result_large_err, reason = "errors hand the request or buffer back")]

mod boards;
mod choices;
pub mod daemon;
mod endpoint;
mod flying;
mod links;
mod machine;
mod memory;
mod node;
mod raw;
mod told;
mod turn;

pub use choices::{Board, Collections, Scheme, StateFile, WaitMode};
pub use endpoint::blocking::CallError;
pub use endpoint::claim::Claim;
pub use endpoint::error::{Failed, OpenError, OperationError, Refused, RefusedReason};
pub use endpoint::mailbox::{Address, Endpoint, SendOptions};
pub use endpoint::one_sided::{Notification, Notifications, PutOptions};
pub use endpoint::region::{Region, RegionOptions};
pub use endpoint::request::{
    Finished, Pending, ReceiveRequest, Request, SendRequest, WaitError, wait_all, wait_any,
};
pub use flying::alarm::Alarm;
pub use links::choice::{Choice, Outcome, Rung};
pub use links::costs::{LinkCosts, PathCosts, measure_paths};
pub use links::error::BuildError;
pub use links::joining::{Brings, Newcomers, Opened};
pub use links::ladder::AutoLinks;
pub use links::peers::listed_peers;
pub use links::raw_frames::{PassedBy, RawFrames, RawSource};
pub use links::want::Want;
pub use machine::launcher::ranked_interfaces;
pub use machine::processors::stay_on_cpu;
pub use machine::signals::blocked as with_signals_blocked;
pub use memory::buffer::{ReceiveBuffer, Scatter, SendBuffer};
pub use memory::element::{Element, Values};
pub use memory::pages::PageBuffer;
pub use memory::windows::{RedirectError, Window};
pub use node::find::{NotFound, Stage, Who};
pub use node::running::Node;
pub use node::start::{NodeBuilder, Paths};
pub use raw::desk::Desk;
pub use raw::messages::{RawOp, RawSend};
pub use told::counters::HostCounters;
pub use told::directory::{Peer, PeerState};
pub use told::losses::CutShort;
pub use told::work::WorkTime;

/// The links that nodes are made of.
pub use emp_link as link;

/// What bounds a node's memory.
pub use emp_firmware::limits;
pub use emp_firmware::{
    AtomicDescriptor, AtomicOp, BufferPlace, ClaimId, Completion, CompletionMode, Counter,
    Counters, Datatype, GetDescriptor, Integrity, Limit, LinkIndex, NodeEvent, OpId, OpKind,
    PathInUse, PostError, ProbeInfo, Profile, PutDescriptor, ReceiveDescriptor, RegionId,
    RelayNeighbour, RemoteRegion, Rights, Segment, SegmentList, Selector, SendDescriptor, Span,
    Status,
};
pub use emp_wire::{Epoch, LinkAddress, NodeId};
