//! The raw API allocates nothing once it has warmed up.

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{LONG, both};
use emp_host::{
    Board, Completion, CompletionMode, Endpoint, NodeId, ReceiveDescriptor, Segment, SegmentList,
    Selector, SendDescriptor, Status, WaitMode,
};

/// Counts the allocations of each thread.
struct Counting;

thread_local!(static COUNT: Cell<u64> = const { Cell::new(0) });

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: what `GlobalAlloc` asks of callers is what `System` asks; so for the others.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: as above.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn segment(of: &mut [u8]) -> SegmentList {
    let address = of.as_mut_ptr().expose_provenance() as u64;
    SegmentList::one(Segment { address, bytes: of.len() as u64 })
}

fn send(endpoint: &Endpoint, to: NodeId, buffer: &mut [u8]) {
    let descriptor = SendDescriptor {
        to,
        endpoint: 1,
        to_endpoint: 1,
        match_bits: 3,
        segments: segment(buffer),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        context: 11,
    };
    // SAFETY: the buffer outlives the completion, which `complete` waits for.
    unsafe { endpoint.post_send_raw(descriptor) }.unwrap();
}

fn receive(endpoint: &Endpoint, buffer: &mut [u8]) {
    let descriptor = ReceiveDescriptor {
        endpoint: 1,
        selector: Selector::bits(3),
        segments: segment(buffer),
        claim: None,
        context: 22,
    };
    // SAFETY: as above.
    unsafe { endpoint.post_receive_raw(descriptor) }.unwrap();
}

/// Waits for two completions.
fn complete(endpoint: &Endpoint, done: &mut Vec<Completion>) {
    done.clear();
    while done.len() < 2 {
        assert!(endpoint.wait_completions(done, LONG) > 0, "nothing ended");
    }
    assert!(done.iter().all(|completion| completion.status == Status::Ok));
    let contexts: u64 = done.iter().map(|completion| completion.context).sum();
    assert_eq!(contexts, 33);
}

#[test]
fn a_warm_ping_pong_allocates_nothing() {
    let fabric = emp_link::Fabric::new(2).unwrap();
    let start = |index, name| {
        let builder = common::on(&fabric, index, name).wait_mode(WaitMode::Spin);
        builder.board(Board::Inline { guardian: false }).start().unwrap()
    };
    let pair = common::Pair { a: start(0, "a"), b: start(1, "b") };
    let (a, b) = (&pair.a, &pair.b);
    let side = |me: &emp_host::Node, other: NodeId, bytes: usize, first: bool| {
        let endpoint = me.endpoint(1).unwrap();
        let mut done = Vec::with_capacity(16);
        let (mut out, mut into) = (vec![1u8; bytes], vec![0u8; bytes]);
        let mut spent = 0;
        for round in 0..2000 {
            if round == 1000 {
                spent = COUNT.with(Cell::get);
            }
            receive(&endpoint, &mut into);
            if first || round > 0 {
                send(&endpoint, other, &mut out);
            }
            if !first && round == 0 {
                send(&endpoint, other, &mut out);
            }
            complete(&endpoint, &mut done);
        }
        COUNT.with(Cell::get) - spent
    };
    for bytes in [8, 1000, 10_000] {
        let (on_a, on_b) =
            both(&pair, || side(a, b.id(), bytes, true), || side(b, a.id(), bytes, false));
        // The fabric keeps frames in vectors; those that still grow are its own. Hence not exactly zero.
        assert!(on_a + on_b < 50, "{on_a} and {on_b} allocations in 1000 rounds of {bytes} bytes");
    }
}
