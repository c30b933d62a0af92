//! Names: `machine:board` and NIC ids, of this machine's boards and of others.
//!
//! Nodes say their name when they are met. A name that was not met yet is asked for on all links on which everyone can be
//! asked, and of the system's resolver, as a NIC id is made of an address.

use std::collections::{BTreeSet, HashMap};
use std::ffi::{CStr, c_char};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use emp_face::log;
use emp_face::node::{FaceNode, Identity, random_identity};
use emp_face::pointers::{put_text, store};
use emp_host::{Node, NodeId};

use crate::abi::{MAX_HOSTNAME_LEN, Return};
use crate::errors::{call, enter};
use crate::identities::{endpoint_of, nic_of, node_of, port_of, whereabouts};
use crate::open;
use crate::process::{Library, library};

/// How long a question is repeated: several times the interval at which it is, so that a loss does no harm.
const ASK: Duration = Duration::from_millis(300);

/// How long a machine that the resolver knows is asked whether it has the board that is wanted.
const ASK_ADDRESS: Duration = Duration::from_millis(100);

/// Endpoint ids by which a NIC is looked for: programs take the first ones.
const IDS_ASKED: u32 = 4;

/// Names that are remembered: more than a cluster has machines.
const NAMES_MAX: usize = 65_536;

/// Names of others' boards, by NIC id.
#[derive(Default)]
pub struct Names(Mutex<HashMap<u64, String>>);

impl Names {
    /// Notes who was met.
    fn learn(&self, node: &Node) {
        let mut names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for peer in node.peers() {
            if let Some((nic, _)) = endpoint_of(peer.node)
                && !peer.name.is_empty()
                && names.len() < NAMES_MAX
            {
                names.insert(nic, peer.name);
            }
        }
    }

    fn nic(&self, name: &str) -> Option<u64> {
        let names = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        names.iter().find(|(_, known)| *known == name).map(|(nic, _)| *nic)
    }

    fn name(&self, nic: u64) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&nic).cloned()
    }
}

/// # Errors
///
/// The library is not initialized.
pub fn initialized() -> Result<(), Return> {
    library().map(|_| ())
}

impl Library {
    fn learn(&self) {
        open::all().iter().for_each(|endpoint| self.names.learn(&endpoint.face.node));
    }

    /// Asks with an endpoint that is open, or with a node that is there for this only.
    fn with_node<R>(&self, ask: impl FnOnce(&FaceNode) -> R) -> Option<R> {
        if let Some(endpoint) = open::all().first() {
            return Some(ask(&endpoint.face));
        }
        let node = random_identity().ok()?;
        let identity = Identity { node, name: "mx".into(), udp_port: 0, needs_port: false };
        match FaceNode::start(&self.boards.first()?.way, &self.settings, identity) {
            Ok(face) => {
                let answer = ask(&face);
                self.names.learn(&face.node);
                face.close();
                Some(answer)
            }
            Err(problem) => {
                log::warn(&format!("MX: nobody can be asked for a name: {problem}"));
                None
            }
        }
    }

    /// The NIC id of a board by its name.
    fn nic_of(&self, name: &str) -> Option<u64> {
        let ours = self.boards.iter().find(|board| board.hostname == name);
        if let Some(board) = ours {
            return Some(board.nic);
        }
        self.learn();
        if let Some(nic) = self.names.nic(name) {
            return Some(nic);
        }
        let resolved = resolve(name);
        self.with_node(|face| {
            // The first board of a machine has its first address, unless somebody there says otherwise.
            if let Some(ip) = resolved {
                let socket = SocketAddr::new(ip, port_of(0));
                let _ = face.node.resolve_socket(socket, ASK_ADDRESS);
                self.names.learn(&face.node);
            }
            if self.names.nic(name).is_none() {
                let _ = face.node.find(name, ASK);
                self.names.learn(&face.node);
            }
        });
        self.names.nic(name).or_else(|| resolved.map(|ip| nic_of(Some(ip), None)))
    }

    /// The name of a board by its NIC id.
    fn name_of(&self, nic: u64) -> Option<String> {
        if let Some(board) = self.board_of(nic) {
            return Some(self.boards[board as usize].hostname.clone());
        }
        self.learn();
        let known = self.names.name(nic);
        if known.is_some() {
            return known;
        }
        // Those that have connected to an endpoint here are there.
        let partners: BTreeSet<u32> =
            open::all().iter().flat_map(|one| one.partners(nic)).collect();
        self.with_node(|face| {
            let partners = partners.into_iter().map(|id| (id, ASK));
            for (id, patience) in partners.chain((0..IDS_ASKED).map(|id| (id, ASK / IDS_ASKED))) {
                face.learn(&whereabouts(nic, id));
                let wanted: NodeId = node_of(nic, id);
                let _ = face.node.find(wanted, patience);
                self.names.learn(&face.node);
                if self.names.name(nic).is_some() {
                    return;
                }
            }
        });
        self.names.name(nic)
    }
}

/// The IPv4 address of a machine, for its board 0.
fn resolve(name: &str) -> Option<IpAddr> {
    let machine = name.strip_suffix(":0")?;
    let mut addresses = (machine, 0).to_socket_addrs().ok()?;
    addresses.find(SocketAddr::is_ipv4).map(|address| address.ip())
}

/// The name that C passes, with its board.
///
/// # Safety
///
/// Null, or a text.
unsafe fn name_from(text: *const c_char) -> Result<String, Return> {
    if text.is_null() {
        return Err(Return::BAD_HOSTNAME_ARGS);
    }
    // SAFETY: not null, so a text, as the caller says.
    let name = unsafe { CStr::from_ptr(text) }.to_str().map_err(|_| Return::HOST_NOT_FOUND)?;
    Ok(complete(name))
}

/// A machine's name stands for its first board.
fn complete(name: &str) -> String {
    if name.contains(':') { name.into() } else { format!("{name}:0") }
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_hostname_to_nic_id(host: *const c_char, nic: *mut u64) -> Return {
    enter(|| {
        call(None, || {
            let library = library()?;
            // SAFETY: the header's rules: null or a text.
            let name = unsafe { name_from(host) }?;
            let found = library.nic_of(&name).ok_or(Return::HOST_NOT_FOUND)?;
            // SAFETY: the header's rules: null or valid.
            unsafe { store(nic, found) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_nic_id_to_hostname(nic: u64, host: *mut c_char) -> Return {
    enter(|| {
        call(None, || {
            let library = library()?;
            let name = library.name_of(nic).ok_or(Return::NIC_NOT_FOUND)?;
            // SAFETY: the header's rules: null or so much room.
            unsafe { put_text(&name, host, MAX_HOSTNAME_LEN) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_board_number_to_nic_id(board: u32, nic: *mut u64) -> Return {
    enter(|| {
        call(None, || {
            let found = library()?.board(board)?.nic;
            // SAFETY: the header's rules: null or valid.
            unsafe { store(nic, found) };
            Ok(())
        })
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn mx_nic_id_to_board_number(nic: u64, board: *mut u32) -> Return {
    enter(|| {
        call(None, || {
            let found = library()?.board_of(nic).ok_or(Return::NIC_NOT_FOUND)?;
            // SAFETY: the header's rules: null or valid.
            unsafe { store(board, found) };
            Ok(())
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_stands_for_its_first_board() {
        assert_eq!(complete("ann"), "ann:0");
        assert_eq!(complete("ann:1"), "ann:1");
        assert_eq!(resolve("127.0.0.1:0"), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(resolve("127.0.0.1:1"), None);
    }
}
