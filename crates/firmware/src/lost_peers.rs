//! What it costs to lose a peer: as much as it had to do with this node itself, whatever others have (RESEND-3, EPOCH-4). Measured in
//! looks into tables, which are the same in every run.

use alloc::string::String;
use alloc::vec;

use emp_wire::{Checksum, LinkAddress, NodeId};

use crate::slots::LOOKS;
use crate::{
    CompletionMode, Config, Firmware, GetDescriptor, HostMemory, LinkIndex, LinkInfo, MemoryFault,
    Profile, ReceiveDescriptor, RemoteRegion, Segment, SegmentList, Selector, SendDescriptor,
    Status, Time, TransmitBatch,
};

/// Peers that are lost, and what there is of each kind for each.
const PEERS: u64 = 100;
const EACH: u64 = 30;

/// Messages of one who lives that nobody has posted a receive for.
const WAITING: u64 = 1_000;

const NOW: Time = Time(1_000_000);

/// No message here has a byte.
struct NoMemory;

impl HostMemory for NoMemory {
    fn read(&self, _: Segment, _: &mut [u8]) -> Result<(), MemoryFault> {
        Ok(())
    }
    fn write(&mut self, _: Segment, _: &[u8]) -> Result<(), MemoryFault> {
        Ok(())
    }
    fn checksum(&self, _: Segment, _: &mut Checksum) -> Result<(), MemoryFault> {
        Ok(())
    }
}

fn node(id: u64) -> Firmware {
    let mut firmware = Firmware::new(Config {
        node: NodeId(id),
        epoch: 7,
        name: String::new(),
        profile: Profile::DEFAULT,
        links: vec![LinkInfo::new(1_500, true)],
        seed: id,
    });
    firmware.open_endpoint(0).expect("the first one");
    firmware
}

fn send(from: &mut Firmware, to: u64) {
    let send = SendDescriptor {
        to: NodeId(to),
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 0,
        segments: SegmentList::empty(),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Delivered,
        context: 0,
    };
    from.post_send(NOW, send, &mut NoMemory).expect("there is room");
}

/// Carries frames between two nodes until both are silent.
fn carry(nodes: &mut [Firmware; 2]) {
    let mut batch = TransmitBatch::new(1_500);
    for _ in 0..4 * WAITING {
        let mut silent = true;
        for from in 0..2 {
            batch.clear();
            nodes[from].poll_transmit(NOW, &mut NoMemory, &mut batch);
            let address = LinkAddress::index(from as u32);
            for i in 0..batch.frames().len() {
                silent = false;
                let frame = batch.inline(i);
                nodes[1 - from].handle_frame(NOW, LinkIndex(0), address, frame, &mut NoMemory);
            }
        }
        if silent {
            return;
        }
    }
    panic!("they speak without end");
}

#[test]
fn losing_a_peer_costs_what_it_had_and_no_more() {
    let mut nodes = [node(1), node(2)];
    // Who lives has much: sends to it wait for receives, and messages of it wait here.
    for _ in 0..WAITING {
        send(&mut nodes[1], 1);
    }
    carry(&mut nodes);
    let [hub, _] = &mut nodes;
    for peer in 100..100 + PEERS {
        for context in 0..EACH {
            send(hub, peer);
            let target =
                RemoteRegion { to: NodeId(peer), to_endpoint: 0, key: 1, generation: 0, offset: 0 };
            let get =
                GetDescriptor { target, endpoint: 0, segments: SegmentList::empty(), context };
            hub.post_get(NOW, get, &mut NoMemory).expect("there is room");
            let selector = Selector { from: NodeId(peer), ..Selector::ANY };
            let (segments, claim) = (SegmentList::empty(), None);
            let receive = ReceiveDescriptor { endpoint: 0, selector, segments, claim, context };
            hub.post_receive(NOW, receive, &mut NoMemory).expect("there is room");
        }
    }
    while hub.poll_completion().is_some() {}
    let before = LOOKS.get();
    for peer in 100..100 + PEERS {
        let index = hub.peers.peek(NodeId(peer)).expect("it was posted to");
        hub.give_up(NOW, index, Status::Unreachable);
    }
    let looks = LOOKS.get() - before;
    let mut ended = 0;
    while let Some(completion) = hub.poll_completion() {
        assert_eq!(completion.status, Status::Unreachable);
        ended += 1;
    }
    assert_eq!(ended, 3 * PEERS * EACH, "each ends once");
    // Each is looked at a few times; with a walk through all tables for each peer it was a hundred times as much.
    assert!(looks < 20 * ended, "{looks} looks for {ended} operations");
}
