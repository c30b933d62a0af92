//! What payloads are checked by (`CRC-3`, `CRC-5`): the carrier where it has a checksum, unless the profile wants more.

use crate::common::forge::*;
use crate::common::{HALF, Pair};
use emp_firmware::*;
use emp_wire::{Flags, HEADER_BYTES, Header, Kind, LinkAddress, NodeId};

const NONE: Flags = Flags(0);

fn carrier() -> LinkInfo {
    LinkInfo { sums: true, segments: true, ..LinkInfo::new(1500, true) }
}

fn end_to_end() -> Profile {
    Profile { integrity: Integrity::EndToEnd, ..Profile::DEFAULT }
}

/// Two nodes that know each other, with nothing under way.
fn acquainted(profile: &Profile, link: LinkInfo) -> Pair {
    let mut pair = Pair::over(profile, link);
    pair.receive(1, Selector::ANY, 8);
    pair.send(0, 2, 1, 8);
    pair.run(Span::ms(50));
    pair.nodes.iter_mut().for_each(|node| node.done.clear());
    pair
}

/// Frames with payload that leave for messages of several lengths.
fn payload_flags(profile: &Profile, link: LinkInfo) -> Vec<bool> {
    let mut pair = acquainted(profile, link);
    let mut seen = Vec::new();
    for bytes in [8, 1400, 5_000, 200_000] {
        pair.receive(1, Selector::ANY, bytes);
        pair.send(0, 2, 1, bytes);
        for frame in crate::common::frames_of(&mut pair, 0) {
            let header = Header::parse(&frame).unwrap().0;
            if matches!(header.kind, Kind::Message | Kind::Data | Kind::Block) {
                seen.push(header.flags.has(Flags::PAYLOAD_UNCHECKED));
            }
            crate::common::give(&mut pair, 1, &frame);
        }
        pair.run(Span::ms(200));
    }
    assert_eq!(crate::common::ok(&pair.nodes[1].done, OpKind::Receive), 4);
    let (from, to) = (&pair.nodes[0].memory.0, &pair.nodes[1].memory.0);
    assert!(from[..200_000] == to[HALF as usize..HALF as usize + 200_000]);
    assert!(seen.len() > 10);
    seen
}

#[test]
fn payloads_are_summed_where_nothing_else_sums_them_or_it_is_asked_for() {
    assert!(payload_flags(&Profile::DEFAULT, carrier()).iter().all(|unchecked| *unchecked));
    let raw = LinkInfo { sums: false, ..carrier() };
    assert!(payload_flags(&Profile::DEFAULT, raw).iter().all(|unchecked| !unchecked));
    assert!(payload_flags(&end_to_end(), carrier()).iter().all(|unchecked| !unchecked));
}

/// A byte that changes on the way: in a header it is noticed whatever the payload is checked by.
#[test]
fn headers_are_always_checked() {
    for (profile, noticed) in [(Profile::DEFAULT, false), (end_to_end(), true)] {
        for (changed, drops) in [(HEADER_BYTES + 18, true), (1_000, noticed)] {
            let mut pair = acquainted(&profile, carrier());
            pair.receive(1, Selector::ANY, 1_400);
            pair.send(0, 2, 1, 1_400);
            let mut frame = crate::common::frames_of(&mut pair, 0).remove(0);
            frame[changed] ^= 1;
            crate::common::give(&mut pair, 1, &frame);
            let counters = pair.nodes[1].firmware.counters();
            assert_eq!(counters.get(Counter::DropChecksum), u64::from(drops), "{changed}");
        }
    }
}

/// Nothing is acknowledged: no operation whose frames name its memory is over, whatever its length and mode, before its peer is given up.
#[test]
fn memory_that_a_link_may_read_is_the_firmwares_until_acknowledged() {
    let link = LinkInfo { long_frames: true, long_frames_held: 64, ..carrier() };
    let mut named = 0;
    for completion in [CompletionMode::Auto, CompletionMode::Delivered] {
        for bytes in [100, 1_400, 4_000, 9_000, 16 << 10, 20_000, 33_000, 64 << 10, 300_000] {
            let mut pair = acquainted(&Profile::DEFAULT, link);
            // Long frames get through from now on, where they are wanted.
            for _ in 0..3 {
                pair.receive(1, Selector::ANY, 400_000);
                pair.send(0, 2, 1, 400_000);
                pair.run(Span::ms(50));
            }
            let mut batch = TransmitBatch::new(1500);
            let send = |context| SendDescriptor {
                to: NodeId(2),
                endpoint: 0,
                to_endpoint: 0,
                match_bits: 5,
                segments: SegmentList::one(Segment { address: 0, bytes }),
                immediate: None,
                synchronous: false,
                completion,
                context,
            };
            // As programs do whose messages are answered: the receive is posted before.
            for turn in 0..4 {
                pair.receive(0, Selector::ANY, bytes);
                pair.receive(1, Selector::ANY, bytes);
                let [node, other] = &mut pair.nodes;
                let posted = crate::common::post_into(node, pair.now, send(turn), &mut batch);
                posted.unwrap();
                for (at, frame) in batch.frames().iter().enumerate() {
                    let mut all = batch.inline(at).to_vec();
                    for part in frame.segments() {
                        let start = part.address as usize;
                        all.extend_from_slice(&node.memory.0[start..start + part.bytes as usize]);
                    }
                    let from = LinkAddress::index(0);
                    other.firmware.handle_frame(
                        pair.now,
                        LinkIndex(0),
                        from,
                        &all,
                        &mut other.memory,
                    );
                }
                batch.clear();
                pair.send(1, 1, 1, bytes);
                pair.run(Span::ms(5));
            }
            pair.receive(0, Selector::ANY, bytes);
            let node = &mut pair.nodes[0];
            node.done.clear();
            let posted = crate::common::post_into(node, pair.now, send(9), &mut batch);
            let over = posted.unwrap().over.is_some();
            let (end, mut names, mut ended) = (pair.now + Span::ms(5_000), false, over);
            while pair.now < end {
                node.firmware.handle_timeout(pair.now, &mut node.memory);
                node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
                names |= batch.frames().iter().any(|frame| !frame.segments().is_empty());
                batch.clear();
                while let Some(done) = node.firmware.poll_completion() {
                    ended |= done.op.kind() == OpKind::Send;
                }
                pair.now = pair.now + Span::us(500);
            }
            assert!(!(names && ended), "{bytes} bytes, {completion:?}: over, and may be read");
            named += u32::from(names);
        }
    }
    assert!(named >= 6, "{named} named their memory");
}

/// A long frame that has waited here since before this node stood still for so long that its sender may have given up.
#[test]
fn what_may_have_changed_while_nobody_looked_is_not_taken() {
    let bytes = REFERRED_BYTES_MIN;
    for (absence_ms, taken) in [(100, true), (6_000, false)] {
        for unchecked in [true, false] {
            let mut real = Real::new(&Profile::DEFAULT);
            let mut peer = Forged::met(2, &mut real);
            peer.unchecked = unchecked;
            real.receive(Selector::ANY, 2 * u64::from(bytes));
            let first = peer.message(
                NONE,
                long(u64::from(bytes) + 8, u32::from(bytes) + 8, bytes),
                1,
                &[1; 8],
            );
            real.hear(&peer, &first);
            let data = peer.next(Kind::Data, Flags::LAST, 1, &vec![7; bytes.into()]);
            real.now = real.now + Span::ms(absence_ms);
            real.hear(&peer, &data);
            let taken = taken || !unchecked;
            assert_eq!(real.done.len(), usize::from(taken), "{absence_ms} ms, {unchecked}");
            assert_eq!(real.count(Counter::DropStalePayload), u64::from(!taken));
            // Its next copy comes after a look that found nothing.
            real.firmware.idle(real.now);
            real.hear(&peer, &data);
            assert_eq!(real.done.len(), 1);
        }
    }
}

/// The same where it is copied out of a train, or was put in its place.
#[test]
fn a_train_that_may_have_changed_is_not_taken() {
    let bytes = REFERRED_BYTES_MIN;
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    peer.unchecked = true;
    real.receive(Selector::ANY, 2 * u64::from(bytes));
    let first =
        peer.message(NONE, long(u64::from(bytes) + 8, u32::from(bytes) + 8, bytes), 1, &[1; 8]);
    real.hear(&peer, &first);
    let data = peer.next(Kind::Data, Flags::LAST, 1, &vec![7; bytes.into()]);
    real.now = real.now + Span::ms(6_000);
    let from: (LinkIndex, LinkAddress) = (LinkIndex(0), peer.address());
    let taken = real.firmware.handle_train(real.now, from, &data, data.len(), &mut real.memory);
    assert_eq!(taken, 0);
    real.hear(&peer, &data);
    assert_eq!((real.done.len(), real.count(Counter::DropStalePayload)), (0, 1));
}

/// What is sent again is checked as what was lost.
#[test]
fn lost_frames_are_made_good_whatever_checks_them() {
    for long_frames in [false, true] {
        let mut pair = acquainted(&Profile::DEFAULT, LinkInfo { long_frames, ..carrier() });
        let mut count = 0u32;
        pair.drop = Box::new(move |_, _| {
            count += 1;
            count.is_multiple_of(13)
        });
        for bytes in [8, 1_400, 5_000, 60_000, 200_000, 1_000_000] {
            pair.receive(1, Selector::ANY, HALF);
            pair.send(0, 2, 1, bytes);
            pair.run(Span::ms(2_000));
        }
        let done = crate::common::ok(&pair.nodes[1].done, OpKind::Receive);
        for node in &pair.nodes {
            assert_eq!(
                node.firmware.counters().get(Counter::DropChecksum),
                0,
                "long: {long_frames}, {done} done"
            );
        }
        assert_eq!(done, 6);
    }
}
