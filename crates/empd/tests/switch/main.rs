//! The switch with clients: links through a service that this process runs.

mod conformance;
mod hostile;
mod service;
mod sharing;
