//! Several frames in one link frame (`BUNDLE-1`, `BUNDLE-2`).

use crate::common::{Pair, frames_of, give, ok};
use emp_firmware::{OpKind, Profile, Selector, Span};
use emp_wire::{Header, Kind};

/// Two nodes that know each other.
fn acquainted(profile: &Profile) -> Pair {
    let mut pair = Pair::new(profile);
    for (from, to) in [(0, 2), (1, 1)] {
        pair.receive(1 - from, Selector::ANY, 8);
        pair.send(from, to, 1, 8);
        pair.run(Span::ms(50));
    }
    pair.nodes.iter_mut().for_each(|node| node.done.clear());
    pair
}

/// The kinds in each link frame.
fn kinds(frames: &[Vec<u8>]) -> Vec<Vec<Kind>> {
    let kind = |frame: &[u8]| Header::parse(frame).expect("a frame").0.kind;
    frames.iter().map(|frame| emp_wire::frames(frame).map(kind).collect()).collect()
}

#[test]
fn small_messages_that_leave_together_share_link_frames() {
    let mut pair = acquainted(&Profile::DEFAULT);
    for bits in 0..40 {
        pair.receive(1, Selector::bits(bits), 64);
        pair.send(0, 2, bits, 64);
    }
    let frames = frames_of(&mut pair, 0);
    assert!(frames.len() <= 4, "40 messages of 64 bytes in {} link frames", frames.len());
    assert!(frames.iter().all(|frame| frame.len() <= 1_500));
    assert!(kinds(&frames).concat().iter().all(|kind| *kind == Kind::Message));
    frames.iter().for_each(|frame| give(&mut pair, 1, frame));
    pair.run(Span::ms(50));
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 40);
    pair.check_quiet();
}

#[test]
fn one_bad_frame_takes_no_other_along() {
    let mut pair = acquainted(&Profile::DEFAULT);
    for bits in 0..5 {
        pair.receive(1, Selector::bits(bits), 64);
        pair.send(0, 2, bits, 64);
    }
    let mut frame = frames_of(&mut pair, 0).remove(0);
    assert_eq!(emp_wire::frames(&frame).count(), 5);
    // A byte of the third one's payload.
    let third = emp_wire::frames(&frame).take(3).map(<[u8]>::len).sum::<usize>() - 1;
    frame[third] ^= 1;
    give(&mut pair, 1, &frame);
    let counters = pair.nodes[1].firmware.counters();
    assert_eq!(counters.get(emp_firmware::Counter::DropChecksum), 1);
    pair.run(Span::ms(50));
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 5, "the third came again");
    let resent = pair.nodes[0].firmware.counters().get(emp_firmware::Counter::FramesResent);
    assert!(resent <= 2, "{resent} frames resent for one");
}

#[test]
fn trains_and_profiles_of_old_stand_alone() {
    let mut pair = acquainted(&Profile::DEFAULT);
    pair.receive(1, Selector::bits(1), 4_000);
    pair.send(0, 2, 1, 4_000);
    pair.send(0, 2, 2, 64);
    pair.send(0, 2, 3, 64);
    let frames = frames_of(&mut pair, 0);
    assert_eq!(
        kinds(&frames),
        [vec![Kind::Message], vec![Kind::Data], vec![Kind::Data], vec![Kind::Message; 2]]
    );
    for profile in [&Profile::EMP2001, &Profile::OPENMX, &Profile::VMMC2] {
        let mut pair = acquainted(profile);
        pair.send(0, 2, 1, 64);
        pair.send(0, 2, 2, 64);
        assert_eq!(
            kinds(&frames_of(&mut pair, 0)),
            vec![vec![Kind::Message]; 2],
            "{}",
            profile.name
        );
    }
}

/// Nodes of one machine share its Ethernet address, and filters look at the first frame's destination: what is for one of
/// them never goes with what is for another.
#[test]
fn frames_for_two_nodes_never_share_a_link_frame() {
    let mut pair = acquainted(&Profile::DEFAULT);
    // The other end takes another identity at the same address; the first end knows both then.
    let third = crate::common::make(3, 80, &Profile::DEFAULT);
    let second = std::mem::replace(&mut pair.nodes[1].firmware, third);
    pair.nodes[1].firmware.open_endpoint(0).unwrap();
    pair.receive(1, Selector::ANY, 8);
    pair.send(0, 3, 1, 8);
    pair.run(Span::ms(50));
    assert_eq!(ok(&pair.nodes[1].done, OpKind::Receive), 1);
    drop(second);
    for to in [2, 3, 3, 2, 2, 3] {
        pair.send(0, to, 1, 64);
    }
    let frames = frames_of(&mut pair, 0);
    let mut together = 0;
    for frame in &frames {
        let tags: Vec<_> = emp_wire::frames(frame)
            .map(|frame| Header::parse(frame).expect("a frame").0.destination_tag)
            .collect();
        assert!(tags.iter().all(|tag| *tag == tags[0]), "{tags:?}");
        together += usize::from(tags.len() > 1);
    }
    assert!(together > 0, "those for one node still share");
}
