//! Nodes that nobody is, looked for by the thousand over real links: each search ends, in about its time, and who is there is spoken to
//! meanwhile.

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use common::LONG;
use emp_host::{
    Board, CompletionMode, LinkIndex, Node, NodeId, Selector, SendOptions, Status, WaitError,
};
use emp_link::{ShmLink, ShmOptions, UdpLink, UdpOptions};
use emp_wire::LinkAddress;

/// More than are looked for at a time.
const STRANGERS: u64 = 5_000;

const PATIENCE: Duration = Duration::from_millis(600);

fn node(number: u64, directory: &std::path::Path) -> (Node, SocketAddr) {
    let id = NodeId(number);
    let memory = ShmOptions {
        directory: Some(directory.join("emp")),
        broadcast: true,
        same_network: false,
        number: Some(number),
        ..ShmOptions::new(id.destination_tag())
    };
    let udp = UdpLink::open(&UdpOptions {
        bind: Some(Ipv4Addr::LOCALHOST.into()),
        port: 0,
        ..UdpOptions::new(id.destination_tag())
    });
    let udp = udp.expect("anyone may");
    let at = udp.local_address();
    let builder = Node::builder().node_id(id).board(Board::Thread).unreachable_after(PATIENCE);
    let builder = builder.link(udp).link_with_peers(ShmLink::open(&memory).expect("memory"));
    (builder.start().expect("it starts"), at)
}

#[test]
fn thousands_of_nodes_that_nobody_is_are_looked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let (seeker, _) = node(1, directory.path());
    let (friend, at) = node(2, directory.path());
    seeker.hint(NodeId(2), LinkIndex(0), LinkAddress::udp(at));
    let (from, to) = (seeker.endpoint(1).unwrap(), friend.endpoint(1).unwrap());
    let delivered = SendOptions::default().completion(CompletionMode::Delivered);
    let start = Instant::now();
    let mut sends = Vec::new();
    for stranger in 0..STRANGERS {
        let id = NodeId(0x5000_0000 + stranger);
        let nowhere = SocketAddr::from((Ipv4Addr::new(127, 0, 0, 9), 10_000 + stranger as u16));
        seeker.hint(id, LinkIndex(0), LinkAddress::udp(nowhere));
        loop {
            match from.send_with((id, 1), 1, "hello", delivered) {
                Ok(send) => break sends.push(send),
                Err(refused) => assert!(refused.reason.is_temporary(), "{refused:?}"),
            }
            assert!(start.elapsed() < LONG, "{stranger} begun");
            std::thread::sleep(Duration::from_millis(1));
        }
        if stranger % 1_000 == 0 {
            println!("{stranger} begun after {:?}", start.elapsed());
        }
    }
    println!("begun after {:?}", start.elapsed());
    let spoken = Instant::now();
    let receive = to.receive(Selector::ANY, vec![0; 5]).unwrap();
    from.send_wait((NodeId(2), 1), 1, "there", LONG).unwrap();
    receive.wait(LONG).unwrap();
    println!("spoken within {:?}", spoken.elapsed());
    for send in sends {
        let Err(WaitError::Failed(failed)) = send.wait(LONG) else { panic!("nobody is there") };
        assert_eq!(failed.error.status(), Status::NotFound);
    }
    println!("ended after {:?}", start.elapsed());
    println!("{:?}", seeker.counters());
}
