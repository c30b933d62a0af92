//! What a host asks and says beside its posts: claims that it gives up, notifications that its application has not taken, bases of
//! regions, questions to an address, and the names of profiles and ends.

use std::collections::BTreeSet;

use emp_firmware::*;
use emp_wire::{
    DONE_BYTES, Done, DoneStatus, Flags, Kind, LinkAddress, Message, NodeId, NotReadyCause,
    TAG_EVERYONE,
};

use crate::common::forge::*;
use crate::common::{HALF, Pair, ok};

/// Two nodes of which the second has claimed an unexpected message of so many bytes that the first sent.
fn claimed(bytes: u64) -> (Pair, ClaimId) {
    let mut pair = Pair::new(&Profile::DEFAULT);
    pair.send(0, 2, 9, bytes);
    pair.run(Span::us(300));
    let found = pair.nodes[1].firmware.probe(0, Selector::bits(9), true).expect("it is here");
    assert_eq!((found.total_bytes, found.from), (bytes, NodeId(1)));
    (pair, found.claim.expect("it was to be claimed"))
}

#[test]
fn a_claim_that_is_given_up_is_over_for_both_ends() {
    for bytes in [100, 300_000] {
        let (mut pair, claim) = claimed(bytes);
        assert!(pair.nodes[1].firmware.discard(pair.now, claim));
        assert!(
            !pair.nodes[1].firmware.discard(pair.now, claim),
            "there is no such claim any more"
        );
        pair.run(Span::ms(50));
        // A short one was delivered before; of a long one the sender hears that nobody wants it.
        let status = if bytes > 100_000 { Status::Abandoned } else { Status::Ok };
        assert_eq!(pair.nodes[0].done.iter().map(|end| end.status).collect::<Vec<_>>(), [status]);
        assert!(pair.nodes[1].done.is_empty());
        pair.check_idle();
    }
}

#[test]
fn a_claim_ends_with_its_endpoint() {
    let (mut pair, claim) = claimed(300_000);
    pair.nodes[1].firmware.close_endpoint(pair.now, 0);
    assert!(!pair.nodes[1].firmware.discard(pair.now, claim));
    pair.run(Span::ms(50));
    assert_eq!(pair.nodes[0].done[0].status, Status::Abandoned);
    pair.check_idle();
}

/// Notifications that the host has polled for an application that has not looked count until that has taken them.
#[test]
fn notifications_that_are_kept_hold_up_who_sends_more() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    let memory = Segment { address: HALF, bytes: 64 };
    pair.nodes[1].firmware.export_region(Some(4), memory, Rights::REMOTE_WRITE, 0).unwrap();
    let most = limits::NOTIFICATIONS_MAX;
    for _ in 0..most + 2 {
        put(&mut pair, 0);
    }
    let mut kept = 0;
    let mut keep_all = |pair: &mut Pair, span: Span| {
        let end = pair.now + span;
        while pair.now < end {
            crate::common::step(pair);
            let notified = ok(&pair.nodes[1].done, OpKind::Notified);
            (kept..notified).for_each(|_| pair.nodes[1].firmware.keep_notification());
            kept = notified;
        }
        kept
    };
    assert_eq!(keep_all(&mut pair, Span::ms(100)), most);
    pair.nodes[1].firmware.release_notifications(1);
    assert_eq!(keep_all(&mut pair, Span::ms(100)), most + 1);
    pair.nodes[1].firmware.release_notifications(most);
    assert_eq!(keep_all(&mut pair, Span::ms(100)), most + 2);
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Put), most + 2);
}

fn put(pair: &mut Pair, offset: u64) {
    let target = RemoteRegion { to: NodeId(2), to_endpoint: 0, key: 4, generation: 0, offset };
    let put = PutDescriptor {
        target,
        endpoint: 0,
        segments: SegmentList::one(Segment { address: 0, bytes: 8 }),
        immediate: Some(offset),
        completion: CompletionMode::Delivered,
        context: 0,
    };
    let node = &mut pair.nodes[0];
    node.firmware.post_put(pair.now, put, &mut node.memory).unwrap();
}

#[test]
fn offsets_count_from_a_regions_base() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    let memory = Segment { address: HALF, bytes: 64 };
    let other = &mut pair.nodes[1].firmware;
    other.export_region(Some(4), memory, Rights::REMOTE_WRITE, 0).unwrap();
    assert!(other.set_region_base(4, 0x1000) && !other.set_region_base(5, 0x1000));
    let before = pair.nodes[1].memory.0[HALF as usize..][..64].to_vec();
    for offset in [0, 0xFFF, 0x1000 + 57] {
        put(&mut pair, offset);
    }
    pair.run(Span::ms(10));
    let ends = pair.nodes[0].done.iter().map(|end| end.status);
    assert_eq!(ends.collect::<Vec<_>>(), [Status::OutOfBounds; 3]);
    assert_eq!(pair.nodes[1].memory.0[HALF as usize..][..64], before);
    put(&mut pair, 0x1000 + 56);
    pair.run(Span::ms(10));
    assert_eq!(ok(&pair.nodes[0].done, OpKind::Put), 1);
    let (sent, after) = (&pair.nodes[0].memory.0[..8], &pair.nodes[1].memory.0[HALF as usize..]);
    assert_eq!((&after[..56], &after[56..64]), (&before[..56], sent));
}

/// Who is to be asked for by name is asked by its tag, who is there at all by everyone's; by a link that is there.
#[test]
fn a_question_to_an_address_has_the_tag_of_whom_it_is_for() {
    let mut real = Real::new(&Profile::DEFAULT);
    let at = LinkAddress::index(77);
    real.firmware.resolve(real.now, LinkIndex(0), at, NodeId(9));
    real.firmware.resolve(real.now, LinkIndex(0), at, NodeId::ANY);
    real.firmware.resolve(real.now, LinkIndex(1), at, NodeId(10));
    let said = real.pass(Span::ms(500));
    let asked: Vec<_> = said.iter().map(|s| (s.kind(), s.to, s.header.destination_tag)).collect();
    let tags = [NodeId(9).destination_tag(), TAG_EVERYONE];
    assert_eq!(asked, tags.map(|tag| (Kind::Hello, at, tag)), "each once");
}

/// Who receives from one peer only waits for that one, and has to be looked after: posts of other kinds need no time for that then.
#[test]
fn a_node_that_waits_for_somebody_says_so() {
    for several in [false, true] {
        let mut real = Real::new(&Profile::DEFAULT);
        let peer = Forged::met(2, &mut real);
        real.pass(Span::ms(1_500));
        for (selector, watches) in
            [(Selector::ANY, false), (Selector { from: peer.node, ..Selector::ANY }, true)]
        {
            let segments = SegmentList::one(Segment { address: INTO, bytes: 100 });
            let receive =
                ReceiveDescriptor { endpoint: 0, selector, segments, claim: None, context: 0 };
            let Real { firmware, memory, now, .. } = &mut real;
            let posted = match several {
                true => firmware.post_multi_receive(*now, receive, 10, memory),
                false => firmware.post_receive(*now, receive, memory),
            };
            assert!(posted.is_ok());
            assert_eq!(firmware.is_watching(), watches, "several {several}");
        }
    }
}

/// A host that looks sleeps if there is nothing: what happened to a peer is news until it was polled, and a completion.
#[test]
fn there_is_no_news_of_nothing() {
    let mut real = Real::new(&Profile::DEFAULT);
    assert!(!real.firmware.has_news() && !real.firmware.has_transmit(real.now));
    let mut peer = Forged::met(2, &mut real);
    assert!(real.firmware.has_news(), "somebody was met");
    while real.firmware.poll_event().is_some() {}
    assert!(!real.firmware.has_news());
    real.receive(Selector::ANY, 10);
    let frame = peer.message(emp_wire::Flags(0), None, 0, b"x");
    let Real { firmware, memory, now, .. } = &mut real;
    firmware.handle_frame(*now, LinkIndex(0), peer.address(), &frame, memory);
    assert!(firmware.has_news(), "a message came");
    assert_eq!(firmware.first_completion().map(|first| first.bytes), Some(1));
    firmware.drop_first_completion();
    assert!(!firmware.has_news() && firmware.poll_completion().is_none());
}

#[test]
fn profiles_are_found_by_their_names() {
    for profile in Profile::ALL {
        assert_eq!(Profile::by_name(profile.name).map(|found| found.name), Some(profile.name));
    }
    assert!(Profile::by_name("").is_none() && Profile::by_name("xyzzy").is_none());
}

/// What leaves unasked is bounded for messages of whatever length, and never raised.
#[test]
fn eager_bounds_what_leaves_unasked() {
    let usual = u64::from(Profile::DEFAULT.unscheduled_bytes);
    for (bytes, unscheduled) in
        [(100, 100), (usual - 1, usual - 1), (usual, usual), (1 << 30, usual)]
    {
        let profile = Profile::DEFAULT.with_eager(bytes);
        assert_eq!((profile.eager_bytes, profile.long_eager_bytes), (bytes, bytes));
        assert_eq!(u64::from(profile.unscheduled_bytes), unscheduled, "{bytes}");
    }
}

const ENDS: [Status; 16] = [
    Status::Ok,
    Status::Truncated,
    Status::Cancelled,
    Status::Unreachable,
    Status::NotFound,
    Status::PeerRestarted,
    Status::GivenUp,
    Status::PeerClosed,
    Status::NoEndpoint,
    Status::EndpointClosed,
    Status::MemoryFault,
    Status::Abandoned,
    Status::BadKey,
    Status::OutOfBounds,
    Status::NoRights,
    Status::TooLong,
];

/// Each end is told apart, and a cable is suspected only where nothing was heard.
#[test]
fn ends_have_words_of_their_own() {
    let words: BTreeSet<&str> = ENDS.iter().map(|end| end.describe()).collect();
    assert_eq!(words.len(), ENDS.len());
    assert!(words.iter().all(|words| words.len() > 1));
    let silent = ENDS.into_iter().filter(|end| end.is_silence()).collect::<Vec<_>>();
    assert_eq!(silent, [Status::Unreachable, Status::NotFound, Status::GivenUp]);
}

/// Whoever posts a receive may have something to do at once if a message waits or arrives, or a get is under way.
#[test]
fn what_waits_or_arrives_is_told_before_a_receive_is_posted() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    assert!(!real.firmware.has_arrivals());
    let frame = peer.message(Flags(0), None, 1, b"waits");
    real.hear(&peer, &frame);
    assert!(real.firmware.has_arrivals());
    real.receive(Selector::ANY, 10);
    assert!(!real.firmware.has_arrivals(), "it has its receive");
    let target = RemoteRegion { to: peer.node, to_endpoint: 0, key: 4, generation: 0, offset: 0 };
    let segments = SegmentList::one(Segment { address: INTO, bytes: 8 });
    let get = GetDescriptor { target, endpoint: 0, segments, context: 0 };
    real.firmware.post_get(real.now, get, &mut real.memory).unwrap();
    assert!(real.firmware.has_arrivals(), "its bytes are to come");
}

/// A message that was over when it was copied is told of once. That its receiver had no room and pulled it later is nobody's news; that it
/// was lost is.
#[test]
fn what_was_over_with_its_post_is_not_told_of_again_unless_it_is_lost() {
    for arrives in [true, false] {
        let mut real = Real::new(&Profile::DEFAULT);
        let mut peer = Forged::met(2, &mut real);
        real.send_with(&peer, 10, CompletionMode::Buffered).unwrap();
        assert_eq!(real.done.iter().map(|end| end.status).collect::<Vec<_>>(), [Status::Ok]);
        let first = of_kind(&real.speak(), Kind::Message).remove(0);
        let handle = Message::parse(first.header.flags, &first.body).unwrap().0.handle;
        let sequence = first.header.sequence.0;
        real.hear(&peer, &peer.not_ready(first.header.word, sequence, NotReadyCause::NoRoom, 0));
        let status = if arrives { DoneStatus::Complete } else { DoneStatus::Abandoned };
        let mut body = [0; DONE_BYTES];
        Done { node: peer.node, status }.emit(&mut body);
        let done = peer.next(Kind::Done, Flags(0), handle, &body);
        real.hear(&peer, &done);
        let more: Vec<_> = real.done[1..].iter().map(|end| end.op.kind()).collect();
        let told = if arrives { vec![] } else { vec![OpKind::Undelivered] };
        assert_eq!(more, told);
        assert_eq!((real.firmware.undelivered().count(), real.slots_used()), (0, 0));
    }
}
