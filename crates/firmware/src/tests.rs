//! What it costs to lose a peer: as much as it had to do with this node itself, whatever others have (RESEND-3, EPOCH-4). Measured in
//! looks into tables, which are the same in every run.

use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use emp_wire::{Checksum, LinkAddress, NodeId};

use crate::tables::slots::LOOKS;
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

fn send(from: &mut Firmware, to: u64, synchronous: bool) {
    let send = SendDescriptor {
        to: NodeId(to),
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 0,
        segments: SegmentList::empty(),
        immediate: None,
        synchronous,
        completion: CompletionMode::Delivered,
        context: 0,
    };
    from.post_send(NOW, send, &mut NoMemory).expect("there is room");
}

/// Carries frames between two nodes until both are silent.
fn carry(one: &mut Firmware, other: &mut Firmware) {
    let mut batch = TransmitBatch::new(1_500);
    let mut give = |from: &mut Firmware, to: &mut Firmware, address: u32| {
        batch.clear();
        from.handle_timeout(NOW, &mut NoMemory);
        from.poll_transmit(NOW, &mut NoMemory, &mut batch);
        for i in 0..batch.frames().len() {
            let (frame, address) = (batch.inline(i), LinkAddress::index(address));
            to.handle_frame(NOW, LinkIndex(0), address, frame, &mut NoMemory);
        }
        batch.is_empty()
    };
    let mut turns = 0..4 * WAITING;
    while !(give(one, other, 1) & give(other, one, 2)) {
        assert!(turns.next().is_some(), "they speak without end");
    }
}

/// A node for which many messages of one who lives wait.
fn crowded() -> (Firmware, Firmware) {
    let (mut hub, mut living) = (node(1), node(2));
    for _ in 0..WAITING {
        send(&mut living, 1, false);
    }
    carry(&mut hub, &mut living);
    assert_eq!(hub.unexpected_so_far(), WAITING);
    (hub, living)
}

fn receive_from(hub: &mut Firmware, peer: u64, context: u64) {
    let selector = Selector { from: NodeId(peer), ..Selector::bits(7) };
    let (segments, claim) = (SegmentList::empty(), None);
    let receive = ReceiveDescriptor { endpoint: 0, selector, segments, claim, context };
    hub.post_receive(NOW, receive, &mut NoMemory).expect("there is room");
}

#[test]
fn losing_a_peer_costs_what_it_had_and_no_more() {
    // Who lives has much: its messages wait here.
    let (mut hub, _) = crowded();
    for peer in 100..100 + PEERS {
        for context in 0..EACH {
            send(&mut hub, peer, false);
            let target =
                RemoteRegion { to: NodeId(peer), to_endpoint: 0, key: 1, generation: 0, offset: 0 };
            let get =
                GetDescriptor { target, endpoint: 0, segments: SegmentList::empty(), context };
            hub.post_get(NOW, get, &mut NoMemory).expect("there is room");
            receive_from(&mut hub, peer, context);
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

/// Messages that wait for a receive, and that their sender counts on, are taken off the lists of those that others wait in.
#[test]
fn messages_of_a_lost_peer_leave_those_of_others_alone() {
    let (mut hub, _) = crowded();
    for peer in 100..100 + PEERS {
        let mut other = node(peer);
        for _ in 0..EACH {
            send(&mut other, 1, true);
        }
        carry(&mut hub, &mut other);
    }
    let waiting = WAITING + PEERS * EACH;
    assert_eq!(hub.unexpected_so_far(), waiting);
    let before = LOOKS.get();
    for peer in 100..100 + PEERS {
        let index = hub.peers.peek(NodeId(peer)).expect("it sent something");
        hub.give_up(NOW, index, Status::Unreachable);
    }
    let looks = LOOKS.get() - before;
    assert!(looks < 20 * PEERS * EACH, "{looks} looks for {} messages", PEERS * EACH);
    assert!(hub.probe(0, Selector::ANY, true).is_some_and(|first| first.from == NodeId(2)));
}

/// Looking after those who owe something costs what they owe, not what waits; and so does the question whether something arrives.
#[test]
fn who_owes_nothing_costs_nothing() {
    let (mut hub, _) = crowded();
    for context in 0..WAITING {
        receive_from(&mut hub, 2, context);
    }
    // Each post is looked at once.
    let watch = |hub: &mut Firmware| {
        let before = LOOKS.get();
        hub.watch_at = Some(NOW);
        hub.handle_timeout(NOW, &mut NoMemory);
        assert!(hub.watch_at.is_some_and(|at| at > NOW), "one is awaited");
        assert!(!hub.is_receiving());
        LOOKS.get() - before
    };
    assert!(watch(&mut hub) < 4 * WAITING);
    let again = watch(&mut hub);
    assert!(again < 20, "{again} looks");
}

/// Those who owe a `done` are found without a walk over what others are sent.
#[test]
fn who_owes_a_done_is_found_among_those_alone() {
    let (mut hub, mut debtor) = (node(1), node(2));
    // What the other says brings the acknowledgement along.
    let owe = |hub: &mut Firmware, debtor: &mut Firmware| {
        send(hub, 2, true);
        carry(hub, debtor);
        send(debtor, 1, false);
        carry(hub, debtor);
    };
    owe(&mut hub, &mut debtor);
    // One who does not answer yet has much.
    for _ in 0..WAITING {
        send(&mut hub, 3, false);
    }
    let awaited = |hub: &mut Firmware| {
        let before = LOOKS.get();
        let peers: Vec<u32> = hub.send.peers_awaited().collect();
        (peers, LOOKS.get() - before)
    };
    let two = hub.peers.peek(NodeId(2)).expect("it was posted to");
    let (peers, looks) = awaited(&mut hub);
    assert_eq!(peers, [two]);
    assert!(looks < 10, "{looks} looks");
    let (segments, claim) = (SegmentList::empty(), None);
    let receive =
        ReceiveDescriptor { endpoint: 0, selector: Selector::ANY, segments, claim, context: 0 };
    debtor.post_receive(NOW, receive, &mut NoMemory).expect("there is room");
    carry(&mut hub, &mut debtor);
    assert_eq!(awaited(&mut hub), (vec![], 1), "it has said so");
    owe(&mut hub, &mut debtor);
    assert_eq!(awaited(&mut hub), (vec![two], 1), "it owes another");
}

/// Opening an endpoint costs what waits for it, not what waits for others.
#[test]
fn an_endpoint_that_opens_takes_its_own() {
    let (mut hub, mut peer) = (node(1), node(2));
    let mut to = |endpoint: u16, bits: u64| {
        let send = SendDescriptor {
            to: NodeId(1),
            endpoint: 0,
            to_endpoint: endpoint,
            match_bits: bits,
            segments: SegmentList::empty(),
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Delivered,
            context: 0,
        };
        peer.post_send(NOW, send, &mut NoMemory).expect("there is room");
    };
    (0..WAITING).for_each(|_| to(5, 0));
    (0..EACH).for_each(|bits| to(6, bits));
    carry(&mut hub, &mut peer);
    let open = |hub: &mut Firmware, endpoint: u16| {
        let before = LOOKS.get();
        hub.open_endpoint(endpoint).expect("there is room");
        LOOKS.get() - before
    };
    let looks = open(&mut hub, 7);
    assert!(looks < 10, "{looks} looks for nothing");
    let looks = open(&mut hub, 6);
    assert!(looks < 10 * EACH, "{looks} looks for {EACH} messages");
    // They wait there in the order in which they came.
    for bits in 0..EACH {
        let (segments, claim) = (SegmentList::empty(), None);
        let receive = ReceiveDescriptor {
            endpoint: 6,
            selector: Selector::ANY,
            segments,
            claim,
            context: bits,
        };
        hub.post_receive(NOW, receive, &mut NoMemory).expect("there is room");
        carry(&mut hub, &mut peer);
        let done = hub.poll_completion().expect("one waits");
        assert_eq!((done.context, done.match_bits), (bits, bits));
    }
    assert!(hub.poll_completion().is_none() && hub.unexpected_so_far() == EACH);
}

/// What is found among many costs no walk over them: receives that wait, and messages that wait for them.
#[test]
fn finding_one_of_many_costs_no_walk() {
    let (mut hub, mut other) = (node(1), node(2));
    let receive = |hub: &mut Firmware, bits| {
        let (segments, claim) = (SegmentList::empty(), None);
        // Some bits never count, as with MPIs.
        let selector = Selector { ignore_bits: 7 << 60, ..Selector::bits(bits) };
        let receive = ReceiveDescriptor { endpoint: 0, selector, segments, claim, context: 0 };
        hub.post_receive(NOW, receive, &mut NoMemory).expect("there is room");
    };
    let send_bits = |other: &mut Firmware, bits| {
        let send = SendDescriptor {
            to: NodeId(1),
            endpoint: 0,
            to_endpoint: 0,
            match_bits: bits,
            segments: SegmentList::empty(),
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Delivered,
            context: 0,
        };
        other.post_send(NOW, send, &mut NoMemory).expect("there is room");
    };
    // Each receive finds nothing yet; the last posted gets the first message, and so on.
    (0..WAITING).for_each(|bits| receive(&mut hub, bits));
    let before = LOOKS.get();
    (0..WAITING).rev().for_each(|bits| send_bits(&mut other, bits));
    carry(&mut hub, &mut other);
    let looks = LOOKS.get() - before;
    assert!(looks < 100 * WAITING, "{looks} looks for {WAITING} messages");
    let ends = |hub: &mut Firmware| core::iter::from_fn(|| hub.poll_completion()).count() as u64;
    assert_eq!(ends(&mut hub), WAITING);
    // The other way round.
    let before = LOOKS.get();
    (0..WAITING).for_each(|bits| send_bits(&mut other, bits));
    carry(&mut hub, &mut other);
    (0..WAITING).rev().for_each(|bits| receive(&mut hub, bits));
    carry(&mut hub, &mut other);
    let looks = LOOKS.get() - before;
    assert!(looks < 100 * WAITING, "{looks} looks for {WAITING} messages");
    assert_eq!(ends(&mut hub), WAITING);
}
