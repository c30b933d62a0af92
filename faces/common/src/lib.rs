//! What the faces share: libraries by which programs that were written to another interface run on EMP.
//!
//! A face is a C library with the functions of its interface. Each call enters by the [`boundary`], finds its objects by
//! [`handles`], each of which it has [pinned](pins) meanwhile (or, where the interface makes C look into them, by pointers: [`pointers`]), and posts to an endpoint of a
//! node, which was started by [`node`] on one of the machine's [`ways`] as the user's [`settings`] have it; where interfaces
//! name peers by numbers, [`machines`] says who that is. Operations wait in [`slots`]; threads wait by [`waiting`]. `docs/guide/making-a-face.md` shows how a face is made of these.

#![warn(missing_docs)]

pub mod boundary;
pub mod claim;
pub mod fork;
pub mod handles;
mod links;
pub mod log;
pub mod machines;
mod newcomers;
pub mod node;
pub mod pins;
pub mod pointers;
pub mod settings;
pub mod slots;
pub mod users;
pub mod waiting;
pub mod ways;
pub mod whereabouts;
pub mod yielding;
