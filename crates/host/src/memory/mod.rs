//! The application's memory and the process's: what operations read and write, and how it is copied.

pub(crate) mod buffer;
pub(crate) mod copy_sum;
pub(crate) mod element;
pub(crate) mod guarded;
pub(crate) mod in_order;
pub(crate) mod pages;
pub(crate) mod placing;
pub(crate) mod pointer;
pub(crate) mod process;
pub(crate) mod windows;
