//! Names of machines, and the numbers that stand for them.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use emp_face::machines::number_of;
use emp_face::pointers::{put_text, store};

use crate::abi::Code;
use crate::errors::{call, enter};
use crate::library::{Library, PROCESSES};

/// How long a question is repeated: several times the interval at which it is, so that a loss does no harm.
const ASK: Duration = Duration::from_millis(300);

/// Processes by which a machine is asked for its name: programs take the first numbers.
const NUMBERS_ASKED: u32 = 4;

impl Library {
    /// The number of a machine by its name or address.
    fn machine(&self, host: &str) -> Option<u64> {
        if host == self.name {
            return Some(self.machine);
        }
        let node = &self.face.node;
        let met = || {
            let peers = node.peers();
            let of = |peer: &emp_host::Peer| (peer.name == host).then_some(peer.node);
            let nodes = peers.iter().filter_map(of);
            nodes.filter_map(|node| PROCESSES.of(node)).map(|(machine, _)| machine).next()
        };
        let known = met().or_else(|| resolve(host).map(|ip| number_of(Some(ip), None)));
        known.or_else(|| {
            // Some other node of that name may answer; what matters is whether one of VMMC's has.
            let _ = node.find(host, ASK);
            met()
        })
    }

    /// The name of a machine by its number.
    fn host(&self, machine: u64) -> Option<String> {
        if machine == self.machine {
            return Some(self.name.clone());
        }
        let node = &self.face.node;
        let met = || {
            let of = |peer: &emp_host::Peer| {
                PROCESSES.of(peer.node).is_some_and(|(of, _)| of == machine)
            };
            let mut known = node.peers().into_iter().filter(of).map(|peer| peer.name);
            known.find(|name| !name.is_empty())
        };
        (0..NUMBERS_ASKED).find_map(|number| {
            met().or_else(|| {
                self.face.learn(&PROCESSES.whereabouts(machine, number));
                let _ = node.find(PROCESSES.node(machine, number), ASK / NUMBERS_ASKED);
                met()
            })
        })
    }
}

/// The IPv4 address of a machine. One that stands for this machine on every machine says nothing.
fn resolve(host: &str) -> Option<IpAddr> {
    let own = |ip: IpAddr| ip.is_loopback() && host.parse::<IpAddr>().is_err();
    let mut addresses = (host, 0).to_socket_addrs().ok()?.map(|address: SocketAddr| address.ip());
    addresses.find(|ip| ip.is_ipv4() && !own(*ip))
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_node(host: *const c_char, node: *mut u64) -> Code {
    enter(|| {
        call(|library| {
            if host.is_null() || node.is_null() {
                return Err(Code::ARGUMENT);
            }
            // SAFETY: the header's rules: a text.
            let host =
                unsafe { CStr::from_ptr(host) }.to_str().map_err(|_| Code::HOST_NOT_FOUND)?;
            let found = library.machine(host).ok_or(Code::HOST_NOT_FOUND)?;
            // SAFETY: not null, and by the header's rules valid.
            unsafe { store(node, found) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn vmmc_host(node: u64, host: *mut c_char, room: usize) -> Code {
    enter(|| {
        call(|library| {
            if host.is_null() || room == 0 {
                return Err(Code::ARGUMENT);
            }
            let found = library.host(node).ok_or(Code::HOST_NOT_FOUND)?;
            // SAFETY: not null, and by the header's rules so much room.
            unsafe { put_text(&found, host, room) };
            Ok(())
        })
    })
}

/// The machines with processes that were met so far, and this one.
#[unsafe(no_mangle)]
pub extern "C" fn vmmc_hosts(nodes: *mut u64, room: u32, count: *mut u32) -> Code {
    enter(|| {
        call(|library| {
            if count.is_null() || nodes.is_null() && room != 0 {
                return Err(Code::ARGUMENT);
            }
            let peers = library.face.node.peers();
            let met = peers.iter().filter_map(|peer| PROCESSES.of(peer.node));
            let others: BTreeSet<u64> = met.map(|(machine, _)| machine).collect();
            let others = others.into_iter().filter(|machine| *machine != library.machine);
            let all: Vec<u64> = std::iter::once(library.machine).chain(others).collect();
            // SAFETY: the header's rules: so much room, and a valid count.
            unsafe {
                for (place, machine) in all.iter().take(room as usize).enumerate() {
                    store(nodes.add(place), *machine);
                }
                store(count, all.len() as u32);
            }
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_stands_for_every_machine_is_nobodys() {
        assert_eq!(resolve("localhost"), None);
        assert_eq!(resolve("127.0.0.1"), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(resolve("10.1.2.3"), Some("10.1.2.3".parse().unwrap()));
    }
}
