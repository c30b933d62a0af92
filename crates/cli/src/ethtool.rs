//! Asking a driver, the way the `ethtool` program does.
//!
//! Invariant of this module: the structure handed to a request is the one that request is defined
//! with, starts with the request's number, and is on the stack for the whole call.
#![allow(unsafe_code)]

use std::io;
use std::mem;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;

/// Request numbers, from `<linux/ethtool.h>`.
const DRIVER_INFO: u32 = 0x03;
const COALESCING: u32 = 0x0e;
const TSO: u32 = 0x1e;
const GSO: u32 = 0x23;
const FLAGS: u32 = 0x25;
const GRO: u32 = 0x2b;

/// The bit of [`FLAGS`] that is large receive offload.
const FLAG_LRO: u32 = 1 << 15;

/// Asks about interfaces. Any socket is good for that.
pub struct Ethtool {
    socket: UdpSocket,
}

#[repr(C)]
struct Value {
    request: u32,
    data: u32,
}

/// `struct ethtool_drvinfo`; the name is what we read.
#[repr(C)]
struct DriverInfo {
    request: u32,
    driver: [u8; 32],
    rest: [u8; 160],
}

/// `struct ethtool_coalesce`, all of whose fields are 32 bits; the first is what we read.
#[repr(C)]
struct Coalescing {
    request: u32,
    receive_microseconds: u32,
    rest: [u32; 21],
}

impl Ethtool {
    /// Ready to ask.
    pub fn new() -> io::Result<Self> {
        Ok(Self { socket: UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))? })
    }

    /// The driver's name.
    pub fn driver(&self, interface: &str) -> io::Result<String> {
        let mut info = DriverInfo { request: DRIVER_INFO, driver: [0; 32], rest: [0; 160] };
        self.ask(interface, &mut info)?;
        let name = info.driver.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// How long the card may hold a frame back to raise fewer interrupts, in microseconds.
    pub fn receive_delay(&self, interface: &str) -> io::Result<u32> {
        let mut answer = Coalescing { request: COALESCING, receive_microseconds: 0, rest: [0; 21] };
        self.ask(interface, &mut answer)?;
        Ok(answer.receive_microseconds)
    }

    /// Generic receive offload: the kernel joins arriving segments.
    pub fn gro(&self, interface: &str) -> io::Result<bool> {
        self.value(interface, GRO).map(|data| data != 0)
    }

    /// Generic segmentation offload: the kernel cuts what is sent, late.
    pub fn gso(&self, interface: &str) -> io::Result<bool> {
        self.value(interface, GSO).map(|data| data != 0)
    }

    /// TCP segmentation offload: the card cuts.
    pub fn tso(&self, interface: &str) -> io::Result<bool> {
        self.value(interface, TSO).map(|data| data != 0)
    }

    /// Large receive offload: the card joins, and changes frames on the way.
    pub fn lro(&self, interface: &str) -> io::Result<bool> {
        self.value(interface, FLAGS).map(|data| data & FLAG_LRO != 0)
    }

    fn value(&self, interface: &str, request: u32) -> io::Result<u32> {
        let mut value = Value { request, data: 0 };
        self.ask(interface, &mut value)?;
        Ok(value.data)
    }

    fn ask<Structure>(&self, interface: &str, structure: &mut Structure) -> io::Result<()> {
        // SAFETY: ifreq is made of integers and pointers, for which zero is a value.
        let mut request: libc::ifreq = unsafe { mem::zeroed() };
        if interface.len() >= request.ifr_name.len() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        for (to, from) in request.ifr_name.iter_mut().zip(interface.bytes()) {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_data = (&raw mut *structure).cast();
        // SAFETY: `request` names an interface with an end mark and points to a structure that, by
        // this module's invariant, is the one its own first field announces.
        match unsafe { libc::ioctl(self.socket.as_raw_fd(), SIOCETHTOOL, &raw mut request) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// The ioctl all requests go through, from `<linux/sockios.h>`.
const SIOCETHTOOL: libc::Ioctl = 0x8946;
