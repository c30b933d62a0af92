//! Nodes of ordinary users whose only link is a service's.
#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;

use emp_host::{Board, Node, NodeId};
use emp_link::service::{ServiceLink, ServiceOptions};
use emp_testing::lab::{INTERFACE, Lab};

use crate::common::{Service, become_nobody};

/// A node on a host of the lab.
pub fn node(lab: &Lab, side: usize, service: &Service, name: &str, board: Board) -> Node {
    lab.inside(side, || {
        become_nobody();
        start(&service.socket(), name, board)
    })
}

/// One where the calling thread is.
pub fn start(socket: &Path, name: &str, board: Board) -> Node {
    let id = NodeId::from_name(name);
    let usual = ServiceOptions::new(INTERFACE, id);
    let options = ServiceOptions { socket: socket.to_path_buf(), ..usual };
    let link = ServiceLink::open(&options).expect("everyone may attach");
    Node::builder().name(name).node_id(id).board(board).link(link).start().expect("it starts")
}
