//! Idle peers cost at most 256 bytes each (DESIGN section 8; E48, E50): one node exchanges a message with 100,000 others,
//! which all go quiet, and its share of the heap is weighed.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicIsize, Ordering};

use emp_firmware::{
    Config, Firmware, LinkIndex, LinkInfo, Profile, ReceiveDescriptor, SegmentList, Selector,
    SendDescriptor, Span, Status, Time, TransmitBatch,
};
use emp_model::SimMemory;
use emp_wire::{LinkAddress, NodeId};

/// Counts the bytes that are allocated.
struct Weighing;

static HEAP_BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call goes to the system's allocator unchanged; beside it only a counter is moved.
unsafe impl GlobalAlloc for Weighing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HEAP_BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc`'s contract, which is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        HEAP_BYTES.fetch_add(layout.size() as isize, Ordering::Relaxed);
        // SAFETY: the caller keeps `alloc_zeroed`'s contract, which is the same.
        unsafe { System.alloc_zeroed(layout) }
    }

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
const LINK: LinkIndex = LinkIndex(0);
const HUB_ADDRESS: LinkAddress = LinkAddress::index(0);

fn node(id: NodeId) -> Firmware {
    let mut firmware = Firmware::new(Config {
        node: id,
        epoch: id.0 as u32,
        name: "idle".into(),
        profile: Profile::DEFAULT,
        links: vec![LinkInfo { frame_bytes_max: 1_500, broadcast: false }],
        seed: id.0,
    });
    firmware.open_endpoint(0).unwrap();
    firmware
}

/// Carries frames between the hub and one peer until neither has anything to send or to wait for.
fn exchange(hub: &mut Firmware, peer: &mut Firmware, address: LinkAddress, now: &mut Time) {
    let mut memory = SimMemory::new();
    let mut batch = TransmitBatch::new(1_500);
    // An exchange has about five steps; a thousand mean that it never ends.
    for _ in 0..1_000 {
        let mut moved = 0;
        for hub_sends in [true, false] {
            let (from, to) =
                if hub_sends { (&mut *hub, &mut *peer) } else { (&mut *peer, &mut *hub) };
            batch.clear();
            moved += from.poll_transmit(*now, &mut memory, &mut batch);
            let source = if hub_sends { HUB_ADDRESS } else { address };
            for i in 0..batch.frames().len() {
                to.handle_frame(*now, LINK, source, batch.inline(i), &mut memory);
            }
        }
        if moved > 0 {
            *now = *now + Span::us(1);
            continue;
        }
        let due = [hub.poll_timeout(), peer.poll_timeout()].into_iter().flatten().min();
        let Some(due) = due else { return };
        *now = due.max(*now);
        hub.handle_timeout(*now, &mut memory);
        peer.handle_timeout(*now, &mut memory);
    }
    panic!("an exchange of one message does not end");
}

#[test]
fn an_idle_peer_costs_at_most_256_bytes() {
    let hub_id = NodeId::from_name("hub");
    let mut hub = node(hub_id);
    let mut now = Time(1_000_000);
    let mut memory = SimMemory::new();
    let empty = HEAP_BYTES.load(Ordering::Relaxed);
    for number in 0..PEERS {
        let address = LinkAddress::index(number as u32 + 1);
        let mut peer = node(NodeId(0x1000_0000 + number as u64));
        peer.hint(hub_id, LINK, HUB_ADDRESS);
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector: Selector::ANY,
            segments: SegmentList::empty(),
            claim: None,
            context: number as u64,
        };
        hub.post_receive(now, receive, &mut memory).unwrap();
        let send = SendDescriptor {
            to: hub_id,
            endpoint: 0,
            to_endpoint: 0,
            match_bits: number as u64,
            segments: SegmentList::empty(),
            immediate: None,
            synchronous: false,
            completion: emp_firmware::CompletionMode::Delivered,
            context: 0,
        };
        peer.post_send(now, send, &mut memory).unwrap();
        exchange(&mut hub, &mut peer, address, &mut now);
        let received = hub.poll_completion().expect("the message arrived");
        assert_eq!((received.status, received.match_bits), (Status::Ok, number as u64));
        assert_eq!(peer.poll_completion().map(|done| done.status), Some(Status::Ok));
        while hub.poll_event().is_some() {}
    }
    assert_eq!(hub.peers(), PEERS);
    assert_eq!(hub.poll_timeout(), None);
    let grown = HEAP_BYTES.load(Ordering::Relaxed) - empty;
    let each = grown / PEERS as isize;
    println!("{PEERS} idle peers cost {grown} bytes, {each} each");
    assert!(each <= BYTES_PER_PEER_MAX, "{each} bytes for each idle peer");
}
