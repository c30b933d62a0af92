//! Frames that no honest node sends, with right checksums: each is dropped for a reason that is counted, and nothing else
//! happens (DROP-1).

use crate::support::forger::{Forger, body};
use crate::support::{acquainted, count, finish, wait};
use emp_firmware::{Counter, LinkIndex, Profile, Span};
use emp_model::{MessageSpec, Stop, Want, World};
use emp_wire::{
    Ack, Close, Done, DoneStatus, Flags, Header, Hello, Kind, LinkAddress, LongPart, NodeId,
    NotReady, NotReadyCause, Pull,
};

fn inject(world: &mut World, frame: &[u8]) {
    let at = world.now() + Span::us(1);
    let from = world.network().address(0);
    world.network_mut().inject(at, 1, LinkIndex(0), from, frame);
}

/// Each kind of bad frame moves its own counter by one, and afterwards the two nodes talk as if nothing had been (`VERSION-1`).
#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_bad_frame_is_dropped_for_its_reason() {
    const ASKER: NodeId = NodeId(77);
    let mut world = acquainted(2, &Profile::DEFAULT);
    let forger = Forger::new(&mut world);
    let none = Flags::default();
    let (long_flags, long) = forger.message(None, 5);
    let own = forger.source.0.to_be_bytes().to_vec();
    let no_change = |_: &mut Header| {};
    let pull = |bytes: u32| {
        let mut fields =
            body(|into| Pull { node: forger.source, offset: 0, bytes: 1, pull: 3 }.emit(into));
        fields[16..20].copy_from_slice(&bytes.to_be_bytes());
        fields
    };
    let ack = body(|into| Ack { node: forger.source, sack: [0; 4], grant: None }.emit(into));
    let hello = |target| {
        let hello = Hello::new(ASKER, target, 1, 1_500, "forger");
        body(|into| hello.emit(into))
    };
    let good = forger.frame(Kind::Message, long_flags, &long, no_change);
    let spoiled = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    let data = vec![1, 2, 3];
    let cases: Vec<(&str, Counter, Vec<u8>)> = vec![
        ("nothing at all", Counter::DropTooShort, Vec::new()),
        ("a cut header", Counter::DropTooShort, good[..31].to_vec()),
        ("another version", Counter::DropVersion, spoiled(0, 0x43)),
        ("kind 0", Counter::DropKind, spoiled(0, 0x20)),
        ("kind 31", Counter::DropKind, spoiled(0, 0x3F)),
        (
            "a slice of nothing",
            Counter::DropField,
            forger.frame(Kind::Slice, none, &own, no_change),
        ),
        (
            "a slice from within a step",
            Counter::DropSlice,
            forger.frame(Kind::Slice, none, &own, |h| h.word = 100 << 16 | 1400),
        ),
        (
            "a slice of a frame longer than any",
            Counter::DropSlice,
            forger.frame(Kind::Slice, none, &own, |h| h.word = 65_535),
        ),
        ("length beyond the frame", Counter::DropLength, spoiled(2, 0xFF)),
        (
            "a body too short for a message",
            Counter::DropBodyShort,
            forger.frame(Kind::Message, none, &own, no_change),
        ),
        (
            "a pull of nothing",
            Counter::DropField,
            forger.frame(Kind::Pull, none, &pull(0), no_change),
        ),
        ("a flipped bit", Counter::DropChecksum, spoiled(good.len() - 1, 0)),
        (
            "another node's tag",
            Counter::DropWrongNode,
            forger.frame(Kind::Data, none, &data, |h| h.destination_tag ^= 1),
        ),
        (
            "an earlier incarnation of this node",
            Counter::DropStaleDestination,
            forger.frame(Kind::Data, none, &data, |h| h.destination_epoch ^= 1),
        ),
        (
            "an earlier incarnation of the sender",
            Counter::DropStaleSource,
            forger.frame(Kind::Message, long_flags, &long, |h| h.source_epoch.0 ^= 1),
        ),
        (
            "data of an earlier incarnation of the sender",
            Counter::DropUnknownPeer,
            forger.frame(Kind::Data, none, &data, |h| h.source_epoch.0 ^= 1),
        ),
        (
            "a stranger",
            Counter::DropUnknownPeer,
            forger.frame(Kind::Data, none, &data, |h| h.source_tag ^= 1),
        ),
        (
            "a sequence number far ahead",
            Counter::DropOutOfWindow,
            forger.frame(Kind::Message, long_flags, &long, |h| h.sequence = h.sequence.plus(5_000)),
        ),
        (
            "a sequence number half the circle away",
            Counter::DropOutOfWindow,
            forger.frame(Kind::Message, long_flags, &long, |h| {
                h.sequence = h.sequence.plus((1 << 31) - 1);
            }),
        ),
        (
            "a sequence number of before",
            Counter::DropDuplicate,
            forger.frame(Kind::Message, long_flags, &long, |h| h.sequence = h.sequence.minus(1)),
        ),
        (
            "an acknowledgement of what was never sent",
            Counter::DropBadAck,
            forger.frame(Kind::Ack, Flags::ACK, &ack, |h| h.acknowledge = h.acknowledge.plus(9)),
        ),
        (
            "a question for someone else",
            Counter::DropHello,
            forger.frame(Kind::Hello, none, &hello(NodeId(12_345)), |h| {
                (h.destination_tag, h.source_tag) = (emp_wire::TAG_EVERYONE, ASKER.source_tag());
            }),
        ),
        (
            "a question with somebody else's tag",
            Counter::DropField,
            forger.frame(Kind::Hello, none, &hello(forger.destination), no_change),
        ),
        (
            "an answer that no one asked for",
            Counter::DropBadReply,
            forger.frame(Kind::HelloReply, none, &hello(forger.destination), |h| {
                h.source_tag = ASKER.source_tag();
            }),
        ),
    ];
    for (what, counter, frame) in cases {
        let before = world.firmware(1).counters();
        inject(&mut world, &frame);
        world.pass(Span::ms(3));
        let after = world.firmware(1).counters();
        let moved: Vec<_> = Counter::ALL
            .iter()
            .filter(|c| c.name().starts_with("drop_") && after.get(**c) > before.get(**c))
            .collect();
        assert_eq!(moved, [&counter], "{what}");
        assert_eq!(after.get(counter), before.get(counter) + 1, "{what}");
    }
    for (from, to) in [(0, 1), (1, 0), (0, 1)] {
        world.receive(to, Want::ANY, 200_000);
        let message = world.send(MessageSpec::plain(from, to, 200_000));
        wait(&mut world, Span::ms(50), |world| world.arrived(message));
    }
    finish(&mut world);
}

/// Frames in sequence from a peer that lies: the pair may break, the node may not.
#[test]
fn a_lying_peer_breaks_nothing_but_its_own_pair() {
    for profile in Profile::ALL {
        let mut world = acquainted(3, profile);
        let forger = Forger::new(&mut world);
        world.pass(Span::ms(10));
        let absurd = LongPart {
            total_bytes: 1 << 62,
            unscheduled_bytes: u32::MAX,
            fragment_bytes: 1,
            pieces: 0,
        };
        let pulled = LongPart { unscheduled_bytes: 0, ..absurd };
        let small = LongPart {
            total_bytes: 3_000,
            unscheduled_bytes: 3_000,
            fragment_bytes: 1_000,
            pieces: 0,
        };
        let mut frames = Vec::new();
        for long in [absurd, pulled, small] {
            let payload = if long.unscheduled_bytes == 0 { 0 } else { 1_000 };
            let (flags, fields) = forger.message(Some(long), payload);
            frames.push((Kind::Message, flags, fields, 0));
        }
        // Frames of the small message: too long, overlapping, with absurd and repeated indices.
        for (index, bytes) in
            [(1, 1_400), (1, 999), (2, 2_000), (65_535, 10), (0, 1_000), (1, 1_000)]
        {
            frames.push((Kind::Data, Flags::default(), vec![3; bytes], index));
        }
        let node = forger.source;
        for handle in [0, 1, 0xFFFF_FFFF] {
            let pull = Pull { node, offset: u64::MAX - 5, bytes: u32::MAX, pull: 9 };
            frames.push((Kind::Pull, Flags::default(), body(|into| pull.emit(into)), handle));
            let done = Done { node, status: DoneStatus::Complete };
            frames.push((Kind::Done, Flags::default(), body(|into| done.emit(into)), handle));
        }
        for word in [0, 0x0001_0000, 0xFFFF_FFFF] {
            frames.push((Kind::Block, Flags::LAST, vec![5; 1_400], word));
        }
        let refusal = NotReady { node, cause: NotReadyCause::Full, backoff_us: u32::MAX };
        frames.push((Kind::NotReady, Flags::default(), body(|into| refusal.emit(into)), 12_345));

        for (i, (kind, flags, fields, word)) in frames.into_iter().enumerate() {
            let frame = forger.frame(kind, flags, &fields, |header| {
                header.sequence = header.sequence.plus(i as u32);
                header.word = word;
            });
            inject(&mut world, &frame);
            world.pass(Span::us(50));
        }
        // Others are served at once, and in the end all is quiet.
        for bytes in [10, 100_000] {
            world.receive(1, Want { from: Some(2), ..Want::ANY }, bytes);
            let message = world.send(MessageSpec::plain(2, 1, bytes));
            let took = wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
            assert!(took < Span::ms(5), "{}: {} µs", profile.name, took.as_us());
        }
        let stop = world.run(Span::ms(60_000));
        assert_eq!(stop, Stop::Idle, "{}", profile.name);
        assert!(world.firmware(1).peers() <= 2);
    }
}

/// A goodbye in another's name needs its epochs.
#[test]
fn a_forged_goodbye_of_an_old_epoch_means_nothing() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    let forger = Forger::new(&mut world);
    let close = body(|into| Close { node: forger.source }.emit(into));
    let stale = forger.frame(Kind::Close, Flags::default(), &close, |h| h.source_epoch.0 ^= 5);
    inject(&mut world, &stale);
    world.pass(Span::ms(5));
    assert_eq!(count(&world, 1, Counter::DropStaleSource), 1);
    world.receive(1, Want::ANY, 10);
    world.send(MessageSpec::plain(0, 1, 10));
    finish(&mut world);
}

/// Questions from thousands of names that do not exist grow nothing beyond its limit (`HELLO-4`).
#[test]
fn a_storm_of_strangers_is_bounded() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    let forger = Forger::new(&mut world);
    for i in 0..5_000u64 {
        let target = if i % 2 == 0 { NodeId::ANY } else { forger.destination };
        let hello = Hello::new(NodeId(1_000 + i), target, i, 1_500, "stranger");
        let frame =
            forger.frame(Kind::Hello, Flags::default(), &body(|into| hello.emit(into)), |header| {
                header.destination_tag = emp_wire::TAG_EVERYONE;
                header.source_tag = NodeId(1_000 + i).source_tag();
            });
        let address = LinkAddress::index(1_000 + i as u32);
        let at = world.now() + Span(i);
        world.network_mut().inject(at, 1, LinkIndex(0), address, &frame);
    }
    let before = world.network().totals().sent;
    world.pass(Span::ms(100));
    let answers = world.network().totals().sent - before;
    assert!(answers <= 5_000, "{answers} answers to 5,000 questions");
    world.receive(1, Want::ANY, 10);
    let message = world.send(MessageSpec::plain(0, 1, 10));
    wait(&mut world, Span::ms(10), |world| world.arrived(message));
}
