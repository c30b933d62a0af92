//! The name service: machines by name. Nodes that everyone can find are called as their machines are (`EMP_NAME`); others are
//! asked of the system's resolver, as a NIC's address is made of its IPv4 address.

use std::ffi::{CStr, c_char, c_ulong, c_void};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use emp_face::machines::number_of;
use emp_face::pointers::put_text;

use crate::abi::*;
use crate::errors::enter;
use crate::nic::{Nic, nic};
use crate::points::{Point, door_at, door_of, host_of};

/// How long a question is repeated: several times the interval at which it is, so that a loss does no harm.
const ASK: Duration = Duration::from_millis(300);

/// The addresses that the resolver has for a name, IPv4 only.
fn resolve(name: &str) -> Vec<u64> {
    let found = (name, 0).to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    let mut hosts: Vec<u64> = Vec::new();
    for ip in found.iter().map(SocketAddr::ip).filter(IpAddr::is_ipv4) {
        let host = number_of(Some(ip), None);
        if !hosts.contains(&host) {
            hosts.push(host);
        }
    }
    hosts
}

impl Nic {
    /// All addresses of a name.
    fn hosts_of(&self, name: &str) -> Vec<u64> {
        if name == self.machine {
            return vec![self.host];
        }
        // What is written as an address need not be asked for.
        if name.parse::<IpAddr>().is_ok() {
            return resolve(name);
        }
        let met = |name: &str| {
            let peers = self.face.node.peers();
            peers.iter().filter(|peer| peer.name == name).find_map(|peer| host_of(peer.node))
        };
        if let Some(host) = met(name) {
            return vec![host];
        }
        match self.face.node.find(name, ASK) {
            Ok(peer) => host_of(peer.node).or_else(|| met(name)).map(|host| vec![host]),
            Err(_) => None,
        }
        .unwrap_or_else(|| resolve(name))
    }

    /// What a NIC's machine is called.
    fn name_of(&self, host: u64) -> Option<String> {
        if host == self.host {
            return Some(self.machine.clone());
        }
        let door = door_of(host);
        let met = || {
            let peers = self.face.node.peers();
            peers.into_iter().find(|peer| peer.node == door).map(|peer| peer.name)
        };
        if let Some(name) = met().filter(|name| !name.is_empty()) {
            return Some(name);
        }
        self.face.learn(&door_at(host));
        let found = self.face.node.find(door, ASK).ok()?;
        Some(found.name).filter(|name| !name.is_empty())
    }
}

/// A NIC whose name service is there.
fn with_names(handle: Handle) -> Result<emp_face::pins::Pinned<Nic>, Return> {
    let nic = nic(handle)?;
    let names = nic.lock()?.names;
    if names { Ok(nic) } else { Err(Return::ERROR_NAMESERVICE) }
}

#[unsafe(no_mangle)]
pub extern "C" fn VipNSInit(handle: Handle, _info: *mut c_void) -> Return {
    enter(|| {
        nic(handle)?.lock()?.names = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipNSShutdown(handle: Handle) -> Return {
    enter(|| {
        with_names(handle)?.lock()?.names = false;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipNSGetHostByName(
    handle: Handle,
    name: *const c_char,
    address: *mut NetAddress,
    index: c_ulong,
) -> Return {
    enter(|| {
        let nic = with_names(handle)?;
        if name.is_null() || address.is_null() {
            return Err(Return::INVALID_PARAMETER);
        }
        // SAFETY: not null, so by the header's rules a text.
        let name =
            unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| Return::ERROR_NAMESERVICE)?;
        let index = usize::try_from(index).map_err(|_| Return::ERROR_NAMESERVICE)?;
        let host = nic.hosts_of(name).get(index).copied().ok_or(Return::ERROR_NAMESERVICE)?;
        // SAFETY: not null, and by the header's rules with room for an address.
        unsafe { Point { host, discriminator: Vec::new() }.write(address) };
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipNSGetHostByAddr(
    handle: Handle,
    address: *const NetAddress,
    name: *mut c_char,
    length: *mut c_ulong,
) -> Return {
    enter(|| {
        let nic = with_names(handle)?;
        // SAFETY: the header's rules: null or valid.
        let point = unsafe { Point::read(address) }?;
        if name.is_null() || length.is_null() {
            return Err(Return::INVALID_PARAMETER);
        }
        let found = nic.name_of(point.host).ok_or(Return::ERROR_NAMESERVICE)?;
        // SAFETY: not null, and by the header's rules valid, with so much room.
        unsafe {
            let room = usize::try_from(*length).unwrap_or(0);
            *length = (found.len() + 1) as c_ulong;
            if found.len() + 1 > room {
                return Err(Return::INVALID_PARAMETER);
            }
            put_text(&found, name, room);
        }
        Ok(())
    })
}
