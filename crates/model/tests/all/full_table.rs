//! A node whose table of peers is full: strangers are refused, until peers that have long left make room.

use crate::support::forger::{Forger, body};
use crate::support::hub::{first_message, hub};
use emp_firmware::limits::PEERS_MAX;
use emp_firmware::{
    Completion, Counter, Firmware, Limit, LinkIndex, NodeEvent, Profile, ReceiveDescriptor,
    SegmentList, Selector, Span, Status, Time, TransmitBatch,
};
use emp_model::SimMemory;
use emp_wire::{Close, Flags, Kind, LinkAddress, NodeId};

struct Hub {
    /// How often the host was told that no more peers are known.
    told: usize,
    firmware: Firmware,
    memory: SimMemory,
    now: Time,
}

impl Hub {
    fn new() -> Self {
        Self { told: 0, firmware: hub(), memory: SimMemory::new(), now: Time(1_000_000) }
    }

    fn hear(&mut self, from: NodeId, frame: &[u8]) {
        let address = LinkAddress::index(from.0 as u32);
        self.firmware.handle_frame(self.now, LinkIndex(0), address, frame, &mut self.memory);
        let mut batch = TransmitBatch::new(1_500);
        self.firmware.poll_transmit(self.now, &mut self.memory, &mut batch);
        while let Some(event) = self.firmware.poll_event() {
            let full = NodeEvent::LimitReached { limit: Limit::Peers, most: PEERS_MAX };
            self.told += usize::from(event == full);
        }
    }

    /// The first message of a peer that knows the hub's epoch; what it completes.
    fn meet(&mut self, from: NodeId) -> Option<Completion> {
        self.hear(from, &first_message(from, &self.firmware));
        self.firmware.poll_completion()
    }

    fn say_goodbye(&mut self, from: NodeId) {
        let forger = Forger::stranger(from, &self.firmware);
        let fields = body(|into| Close { node: from }.emit(into));
        self.hear(from, &forger.frame(Kind::Close, Flags::default(), &fields, |_| {}));
    }

    fn post_receive(&mut self) {
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector: Selector::ANY,
            segments: SegmentList::empty(),
            claim: None,
            context: 0,
        };
        self.firmware.post_receive(self.now, receive, &mut self.memory).unwrap();
    }

    fn count(&self, counter: Counter) -> u64 {
        self.firmware.counters().get(counter)
    }
}

fn peer(number: usize) -> NodeId {
    NodeId(0x1000_0001 + number as u64)
}

#[test]
fn peers_that_left_long_ago_make_room() {
    const LEAVING: usize = 10;
    let mut hub = Hub::new();
    for number in 0..PEERS_MAX {
        hub.post_receive();
        assert!(hub.meet(peer(number)).is_some(), "peer {number} is met");
    }
    hub.post_receive();
    assert!(hub.meet(peer(PEERS_MAX)).is_none(), "the table is full");
    assert_eq!(hub.count(Counter::DropTooManyPeers), 1);

    for number in 100..100 + LEAVING {
        hub.say_goodbye(peer(number));
    }
    assert!(hub.meet(peer(PEERS_MAX)).is_none(), "who has just left may still be heard of");
    let silence = Profile::DEFAULT.unreachable_after;
    hub.now = hub.now + Span(silence.0 * 3);
    assert!(hub.meet(peer(PEERS_MAX)).is_none(), "and for some time");
    hub.now = hub.now + Span(silence.0 * 2);
    for number in 0..LEAVING {
        let from = peer(PEERS_MAX + number);
        let completion = hub.meet(from).expect("who left makes room");
        assert_eq!((completion.status, completion.peer), (Status::Ok, from));
        let known = |node: NodeId| hub.firmware.route(node).is_some();
        assert!(known(from) && !known(peer(100 + number)), "one has the other's place");
        hub.post_receive();
    }
    assert!(hub.meet(peer(2 * PEERS_MAX)).is_none(), "nobody else has left");
    assert_eq!(hub.count(Counter::PeersForgotten), LEAVING as u64);
    assert_eq!(hub.firmware.peers(), PEERS_MAX);
    assert_eq!(hub.told, 1);
    assert!(hub.meet(peer(105)).is_none(), "a forgotten one is a stranger like others");
}
