//! What a link has to say reaches the node's log.

mod common;

use std::sync::{Arc, Mutex};
use std::time::Instant;

use common::{LONG, on};
use emp_host::{Board, Node, NodeId};
use emp_link::{Capabilities, Fabric, Link, SimLink, TxFrame};

/// A link that something has befallen.
struct Befallen {
    inner: SimLink,
    notice: Option<String>,
}

impl Link for Befallen {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.inner.send(batch)
    }
    fn notice(&mut self) -> Option<String> {
        self.notice.take()
    }
    common::forward_to_inner!();
}

#[test]
fn what_befell_a_link_is_said_once() {
    let fabric = Fabric::new(2).expect("descriptors");
    let said: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = Arc::clone(&said);
    let inner = fabric.link(0, NodeId::from_name("a").destination_tag()).expect("a place");
    let board = Board::Inline { guardian: false };
    let a = Node::builder()
        .name("a")
        .link(Befallen { inner, notice: Some("it rained".into()) })
        .board(board)
        .notices(move |line: &str| log.lock().unwrap().push(line.into()))
        .start()
        .expect("the node starts");
    let b = on(&fabric, 1, "b").board(Board::Thread).start().expect("the node starts");
    let (from, to) = (a.endpoint(1).unwrap(), b.endpoint(1).unwrap());
    let start = Instant::now();
    while said.lock().unwrap().is_empty() && start.elapsed() < LONG {
        from.send_wait(to.address(), 0, vec![0; 100], LONG).unwrap();
    }
    from.send_wait(to.address(), 0, vec![0; 100], LONG).unwrap();
    assert_eq!(*said.lock().unwrap(), ["it rained"]);
}
