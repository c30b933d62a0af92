//! Idle peers cost at most 256 bytes each (E48, E50): one node exchanges a message with 100,000 others,
//! which all go quiet, and its share of the heap is weighed.

#[path = "all/support/mod.rs"]
mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use emp_firmware::{
    LinkIndex, ReceiveDescriptor, SegmentList, Selector, Span, Status, Time, TransmitBatch,
};
use emp_model::SimMemory;
use emp_wire::{Header, Kind, LinkAddress, NodeId, Sequence};
use support::hub::{first_message, hub};

/// Counts the bytes that are allocated.
struct Weighing;

static HEAP_BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; beside it only a counter is moved.
unsafe impl GlobalAlloc for Weighing {
    // SAFETY: what `GlobalAlloc` asks of callers is what `System` asks; so for the others.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HEAP_BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as above.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        HEAP_BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc_zeroed`'s contract, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: as above.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        HEAP_BYTES.fetch_sub(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: `memory` came from `System` with this layout, as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Weighing = Weighing;

const PEERS: usize = 100_000;
const BYTES_PER_PEER_MAX: isize = 256;

#[test]
fn an_idle_peer_costs_at_most_256_bytes() {
    let mut hub = hub();
    let mut now = Time(1_000_000);
    let mut memory = SimMemory::new();
    let mut batch = TransmitBatch::new(1_500);
    let empty = HEAP_BYTES.load(Ordering::Relaxed);
    for number in 0..PEERS {
        let peer = NodeId(0x1000_0001 + number as u64);
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector: Selector::ANY,
            segments: SegmentList::empty(),
            claim: None,
            context: 0,
        };
        hub.post_receive(now, receive, &mut memory).unwrap();
        let frame = first_message(peer, &hub);
        let address = LinkAddress::index(number as u32);
        hub.handle_frame(now, LinkIndex(0), address, &frame, &mut memory);
        let received = hub.poll_completion().expect("the message arrived");
        assert_eq!((received.status, received.peer), (Status::Ok, peer));
        batch.clear();
        assert!(hub.catch_up(now), "no answer follows that its acknowledgement could ride on");
        assert_eq!(hub.poll_transmit(now, &mut memory, &mut batch), 1);
        let (answer, _) = Header::parse(batch.inline(0)).unwrap();
        assert_eq!((answer.kind, answer.acknowledge), (Kind::Ack, Sequence(1)));
        while hub.poll_event().is_some() {}
        now = now + Span::us(10);
    }
    assert_eq!(hub.peers(), PEERS);
    // A look after peers that no longer owe anything may still be due, once.
    for _ in 0..4 {
        let Some(due) = hub.poll_timeout() else { break };
        hub.handle_timeout(due, &mut memory);
        assert_eq!(hub.poll_transmit(due, &mut memory, &mut batch), 0);
    }
    assert_eq!(hub.poll_timeout(), None);
    let grown = HEAP_BYTES.load(Ordering::Relaxed) - empty;
    let each = grown / PEERS as isize;
    println!("{PEERS} idle peers cost {grown} bytes, {each} each");
    assert!(each <= BYTES_PER_PEER_MAX, "{each} bytes for each idle peer");
}
