//! The switch with clients: links through a service that this process runs.

mod conformance;
#[path = "../common/frames.rs"]
mod frames;
mod hostile;
mod service;
mod sharing;
