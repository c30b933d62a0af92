//! A node with more peers than one turn has frames for: all of them are told that it closes.

use std::collections::{HashSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use emp_host::{Board, Counter, Node, NodeId};
use emp_link::{Capabilities, Fabric, Link, LinkAddress, LinkStatistics, SimLink, TxFrame};
use emp_wire::{
    Epoch, Flags, HEADER_BYTES, Header, Kind, Largest, Message, Seed, Sequence, begin_checksum,
    covered_bytes, store_checksum,
};

/// More than the frames of one turn: 32 batches of 128.
const PEERS: u32 = 5_000;

const EPOCH: u32 = 77;

const LONG: Duration = Duration::from_secs(60);

/// Whom goodbyes went to.
type Told = Arc<Mutex<HashSet<LinkAddress>>>;

/// A link on which thousands of nodes have sent their first message, and that takes whatever is sent.
struct Crowd {
    inner: SimLink,
    coming: VecDeque<(LinkAddress, Vec<u8>)>,
    told: Told,
}

impl Link for Crowd {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        let mut told = self.told.lock().unwrap();
        for frame in batch {
            let bytes: Vec<u8> = frame.parts.iter().flat_map(|part| part.iter().copied()).collect();
            let mut all = emp_wire::frames(&bytes).filter_map(|one| Header::parse(one).ok());
            if all.any(|(header, _)| header.kind == Kind::Close) {
                told.insert(frame.to);
            }
        }
        batch.len()
    }
    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        let some = budget.min(self.coming.len());
        self.coming.drain(..some).for_each(|(from, frame)| sink(&frame, &from));
        some
    }
    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        None
    }
    fn wait(&mut self, _: Option<Duration>) -> bool {
        !self.coming.is_empty()
    }
    fn statistics(&self) -> LinkStatistics {
        self.inner.statistics()
    }
}

/// The first frame of a node that knows this one's epoch: an empty message.
fn first_message(from: NodeId, to: NodeId) -> Vec<u8> {
    let message = Message {
        node: from,
        source_endpoint: 1,
        destination_endpoint: 1,
        match_bits: 0,
        largest: Largest::from(1_500),
        handle: 0xFFFF_FFFF,
        long: None,
        immediate: None,
    };
    let mut fields = vec![0; 128];
    let end = message.emit(&mut fields);
    fields.truncate(end);
    let header = Header {
        kind: Kind::Message,
        flags: message.flags().with(Flags::LAST).with(Flags::ACK_REQUEST),
        length: fields.len() as u16,
        destination_tag: to.destination_tag(),
        destination_epoch: Epoch::new(EPOCH).check(),
        source_tag: from.source_tag(),
        source_epoch: Epoch::new(from.0 as u32),
        sequence: Sequence(0),
        acknowledge: Sequence(0),
        word: 0,
    };
    let mut frame = vec![0; HEADER_BYTES];
    header.emit((&mut frame[..]).try_into().expect("a header's bytes"));
    let covered = covered_bytes(&header).min(fields.len());
    frame.extend_from_slice(&fields[..covered]);
    let sum = begin_checksum(&mut frame, Seed::between(from, to, Epoch::new(EPOCH)));
    frame.extend_from_slice(&fields[covered..]);
    store_checksum(&mut frame, sum);
    frame
}

#[test]
fn thousands_of_peers_are_told_that_a_node_closes() {
    let own = NodeId::from_name("hub");
    let fabric = Fabric::new(1).expect("descriptors");
    let inner = fabric.link(0, own.destination_tag()).expect("a place");
    let peer = |number: u32| NodeId(0x1000_0001 + u64::from(number));
    let first = |number| (LinkAddress::index(number), first_message(peer(number), own));
    let told = Told::default();
    let link = Crowd { inner, coming: (1..=PEERS).map(first).collect(), told: Arc::clone(&told) };
    let builder = Node::builder().name("hub").epoch(EPOCH).link(link);
    let node = builder.board(Board::Inline { guardian: false }).start().expect("it starts");
    let endpoint = node.endpoint(1).expect("opens");
    let start = Instant::now();
    while node.counters().get(Counter::FramesReceived) < u64::from(PEERS) {
        assert!(start.elapsed() < LONG, "they are not heard");
        node.progress();
    }
    drop(endpoint);
    // What is not received is nobody's loss here.
    let _ = node.close(Duration::ZERO);
    assert_eq!(told.lock().unwrap().len(), PEERS as usize);
}
