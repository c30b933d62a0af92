//! An application that posts and never asks for completions: it is told, and the node does not grow.

mod memory_link;

use emp_host::{
    CompletionMode, PostError, Profile, ReceiveDescriptor, SegmentList, Selector, SendDescriptor,
};

use memory_link::pair_with;

#[test]
fn posts_are_refused_when_too_many_completions_wait() {
    let few = Profile { operations_max: 4_096, ..Profile::DEFAULT };
    let (nodes, [from, to]) = pair_with(&few);
    let send = |context| SendDescriptor {
        to: nodes[1].id(),
        endpoint: 1,
        to_endpoint: 1,
        match_bits: 0,
        segments: SegmentList::empty(),
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        context,
    };
    let receive = || ReceiveDescriptor {
        endpoint: 1,
        selector: Selector::ANY,
        segments: SegmentList::empty(),
        claim: None,
        context: 0,
    };
    let mut arrived = Vec::with_capacity(64);
    let mut posted = 0usize;
    let refused = loop {
        // SAFETY: there is no memory in it.
        unsafe { to.post_receive_raw(receive()) }.expect("whoever asks is not refused");
        // SAFETY: as above.
        match unsafe { from.post_send_raw(send(posted as u64)) } {
            Ok(_) => posted += 1,
            Err(error) => break error,
        }
        assert!(posted <= few.completions_max(), "nothing stops the posts");
        arrived.clear();
        to.poll_completions(&mut arrived);
    };
    assert_eq!((refused, posted), (PostError::Busy, few.completions_max()));
    let mut done = Vec::with_capacity(1_024);
    assert_eq!(from.poll_completions(&mut done), 1_024);
    assert!(done.iter().enumerate().all(|(place, done)| done.context == place as u64));
    // SAFETY: as above.
    unsafe { from.post_send_raw(send(0)) }.expect("there is room again");
}
