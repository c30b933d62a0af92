//! EMP through its faces: what programs for their interfaces call.

pub mod end;
mod libfabric;
mod library;
mod mx;
mod port;
mod vipl;
mod vmmc;
