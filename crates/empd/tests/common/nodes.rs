//! Nodes of ordinary users who have nothing but a service: its link, or an engine in it ([`Board::Daemon`]).
#![allow(dead_code, reason = "each test uses its part")]

use std::path::Path;

use emp_host::{Board, Node, NodeId};
use emp_link::service::{ServiceLink, ServiceOptions};
use emp_testing::lab::{INTERFACE, Lab};

use crate::common::{Service, become_nobody};

/// Services whose nodes use the one cable that there is.
pub const ONE_CABLE: &str = "interfaces = ['emp0']\n";

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
    let builder = Node::builder().name(name).node_id(id).board(board);
    if matches!(board, Board::Daemon) {
        return builder.service(socket).start().expect("everyone may have an engine");
    }
    let usual = ServiceOptions::new(INTERFACE, id);
    let options = ServiceOptions { socket: socket.to_path_buf(), ..usual };
    let link = ServiceLink::open(&options).expect("everyone may attach");
    builder.link(link).start().expect("it starts")
}
