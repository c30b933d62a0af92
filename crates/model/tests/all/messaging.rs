//! Messages as applications see them: matching, order, probes, cancels, truncation, completion.

use crate::support::{acquainted, acquainted_setup, finish, lose_first, sent, settle, wait};
use emp_firmware::{CompletionMode, PostError, Profile, Segment, SegmentList, Span, Status};
use emp_model::{Action, ClaimUse, MessageSpec, ReceiveSpec, Want, WantBits, WorldSetup};
use emp_wire::Kind;

/// Profiles that keep unexpected messages.
fn keeping() -> impl Iterator<Item = &'static Profile> {
    Profile::ALL.into_iter().filter(|p| p.unexpected == emp_firmware::Unexpected::Pool)
}

/// Sizes around every border: nothing, one frame, several, eager, unscheduled, pulled.
const SIZES: [u64; 12] =
    [0, 1, 7, 1_023, 1_025, 1_416, 1_500, 32_768, 32_769, 65_536, 65_537, 1_000_000];

#[test]
fn every_size_arrives_posted_before_and_after() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        for bytes in SIZES {
            world.receive(1, Want::ANY, bytes);
            world.send(MessageSpec::plain(0, 1, bytes));
        }
        finish(&mut world);
        for bytes in SIZES {
            world.send(MessageSpec::plain(0, 1, bytes));
        }
        world.pass(Span::ms(5));
        for bytes in SIZES {
            world.receive(1, Want::ANY, bytes);
        }
        finish(&mut world);
    }
}

#[test]
fn a_message_to_the_node_itself_arrives() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        for bytes in SIZES {
            world.receive(0, Want::ANY, bytes);
            world.send(MessageSpec::plain(0, 0, bytes));
        }
        for synchronous in [false, true] {
            world.send(MessageSpec { synchronous, ..MessageSpec::plain(0, 0, 5_000) });
        }
        world.pass(Span::ms(1));
        world.receive(0, Want::ANY, 100);
        world.receive(0, Want::ANY, 9_000);
        finish(&mut world);
    }
}

/// A matching receive that was posted first gets the message, whatever is posted after.
#[test]
fn messages_match_in_post_order() {
    let mut world = acquainted(3, &Profile::DEFAULT);
    let wide = world.receive(0, Want::ANY, 100);
    let narrow = world.receive(0, Want::tag(5), 100);
    let first = world.send(MessageSpec { tag: 5, ..MessageSpec::plain(1, 0, 50) });
    let second = world.send(MessageSpec { tag: 5, ..MessageSpec::plain(1, 0, 60) });
    finish(&mut world);
    assert_eq!(world.received(wide).unwrap().total_bytes, 50);
    assert_eq!(world.received(narrow).unwrap().total_bytes, 60);
    assert!(world.arrived(first) && world.arrived(second));
}

/// A lost first message holds the second one back if both match the same receive (non-overtaking).
#[test]
fn a_lost_message_is_not_overtaken() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        lose_first(&mut world, 0, 1, |header| header.kind == Kind::Message);
        let receive = world.receive(1, Want::ANY, 100);
        let first = world.send(MessageSpec::plain(0, 1, 100));
        let second = world.send(MessageSpec::plain(0, 1, 99));
        wait(&mut world, Span::ms(1_000), |world| world.received(receive).is_some());
        assert!(world.arrived(first), "{}", profile.name);
        world.receive(1, Want::ANY, 100);
        wait(&mut world, Span::ms(1_000), |world| world.arrived(second));
        finish(&mut world);
    }
}

/// A short message may finish before a long one that matched before it: order is of matching, not of completion.
#[test]
fn selectors_choose_by_source_endpoint_and_bits() {
    let mut setup = WorldSetup::lan(3, &Profile::DEFAULT);
    for node in &mut setup.nodes {
        node.endpoints = vec![0, 1, 2];
    }
    let mut world = acquainted_setup(setup);
    let mut expected = Vec::new();
    for from in [1, 2] {
        for endpoint in [0, 1, 2] {
            for tag in [3, 4] {
                let spec = MessageSpec { endpoint, tag, ..MessageSpec::plain(from, 0, 10) };
                expected.push((from, endpoint, tag, world.send(spec)));
            }
        }
    }
    world.pass(Span::ms(1));
    expected.reverse();
    for (from, endpoint, tag, message) in expected {
        let want = Want {
            from: Some(from),
            from_endpoint: Some(endpoint),
            bits: WantBits::TagMasked(tag, 0xFFFF),
        };
        let receive = world.receive(0, want, 10);
        wait(&mut world, Span::ms(1), |world| world.received(receive).is_some());
        assert!(world.arrived(message));
    }
    finish(&mut world);
}

#[test]
fn endpoints_are_separate_mailboxes() {
    let mut setup = WorldSetup::lan(2, &Profile::DEFAULT);
    setup.nodes[1].endpoints = vec![0, 1];
    let mut world = acquainted_setup(setup);
    let wrong = world.receive(1, Want::ANY, 10);
    let message = world.send(MessageSpec { to_endpoint: 1, ..MessageSpec::plain(0, 1, 10) });
    world.pass(Span::ms(1));
    assert!(world.received(wrong).is_none());
    let spec = ReceiveSpec { node: 1, endpoint: 1, want: Want::ANY, bytes: 10, pieces: 1 };
    world.apply(Action::Receive(spec));
    wait(&mut world, Span::ms(1), |world| world.arrived(message));
    assert!(world.cancel_receive(wrong));
    finish(&mut world);
}

#[test]
fn a_longer_message_is_cut_and_reported() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        for (bytes, room) in
            [(1, 0), (100, 99), (5_000, 1_400), (5_000, 0), (70_000, 10), (1_000_000, 66_000)]
        {
            let receive = world.receive(1, Want::ANY, room);
            let message = world.send(MessageSpec::plain(0, 1, bytes));
            wait(&mut world, Span::ms(100), |world| {
                world.received(receive).is_some() && world.sent(message).is_some()
            });
            let done = world.received(receive).unwrap();
            assert_eq!(
                (done.status, done.bytes, done.total_bytes),
                (Status::Truncated, room, bytes)
            );
            assert_eq!(world.sent(message), Some(Status::Ok));
        }
        finish(&mut world);
    }
}

/// E45: gather on send, scatter on receive, in pieces that have nothing to do with frames or with each other.
#[test]
fn scattered_memory_is_sent_and_received() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        for (pieces, bytes) in [(2, 3), (3, 5_000), (40, 60_000), (256, 500_000), (256, 100)] {
            let spec =
                ReceiveSpec { node: 1, endpoint: 0, want: Want::ANY, bytes, pieces: pieces / 2 };
            world.apply(Action::Receive(spec));
            world.send(MessageSpec { pieces, ..MessageSpec::plain(0, 1, bytes) });
        }
        finish(&mut world);
    }
}

#[test]
fn a_synchronous_send_waits_for_its_match() {
    for profile in keeping() {
        for bytes in [0, 100, 5_000, 40_000, 1_000_000] {
            let mut world = acquainted(2, profile);
            let message =
                world.send(MessageSpec { synchronous: true, ..MessageSpec::plain(0, 1, bytes) });
            world.pass(Span::ms(50));
            assert_eq!(world.sent(message), None, "{} {bytes}", profile.name);
            world.receive(1, Want::ANY, bytes);
            wait(&mut world, Span::ms(50), |world| world.sent(message).is_some());
            finish(&mut world);
        }
    }
}

#[test]
fn buffered_sends_complete_at_once() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    let one = world.firmware(0).single_frame_bytes_max() as u64;
    let most = world.firmware(0).buffered_bytes_max() as u64;
    for bytes in [0, 1, one, one + 1, most] {
        let message = world.send(MessageSpec {
            completion: CompletionMode::Buffered,
            ..MessageSpec::plain(0, 1, bytes)
        });
        let took = wait(&mut world, Span::ms(1), |world| world.sent(message).is_some());
        assert_eq!(took, Span(0));
        world.receive(1, Want::ANY, bytes);
    }
    finish(&mut world);
    let refused = world.poke(0, |firmware, memory, now| {
        let content = vec![0; most as usize + 1];
        let (buffer, segments) = memory.post(&[most + 1], emp_model::Access::Read, &content);
        let to = emp_wire::NodeId::from_name("node-1");
        let send = emp_firmware::SendDescriptor {
            to,
            endpoint: 0,
            to_endpoint: 0,
            match_bits: 0,
            segments,
            immediate: None,
            synchronous: false,
            completion: CompletionMode::Buffered,
            context: 0,
        };
        let refused = firmware.post_send(now, send, memory);
        memory.release(buffer);
        refused
    });
    assert_eq!(refused.unwrap_err(), PostError::TooLong);
    finish(&mut world);
}

/// `Delivered`, even if small, waits for the peer.
#[test]
fn delivered_sends_wait_for_the_peer() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    world.receive(1, Want::ANY, 10);
    let message = world.send(MessageSpec {
        completion: CompletionMode::Delivered,
        ..MessageSpec::plain(0, 1, 10)
    });
    let took = wait(&mut world, Span::ms(1), |world| world.sent(message).is_some());
    assert!(took >= Span::us(10), "a round trip takes 10 µs, not {} ns", took.0);
    finish(&mut world);
}

#[test]
fn immediate_data_arrives_with_the_message() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        for bytes in SIZES {
            world.receive(1, Want::ANY, bytes);
            world.send(MessageSpec { immediate: true, ..MessageSpec::plain(0, 1, bytes) });
        }
        finish(&mut world);
    }
}

#[test]
fn probes_see_what_waits_and_claims_set_it_aside() {
    for profile in keeping() {
        let mut world = acquainted(2, profile);
        assert_eq!(world.probe(1, 0, &Want::ANY, None), None);
        let sizes = [100, 5_000, 200_000];
        let messages = sizes.map(|bytes| {
            let spec = MessageSpec { tag: 7, immediate: true, ..MessageSpec::plain(0, 1, bytes) };
            world.send(spec)
        });
        world.pass(Span::ms(1));
        assert_eq!(world.probe(1, 0, &Want::ANY, None), Some(messages[0]));
        assert_eq!(world.probe(1, 0, &Want::tag(8), None), None);
        // The first is claimed; the next receive gets the second.
        let claim = Some(ClaimUse::Receive(Span::ms(2)));
        assert_eq!(world.probe(1, 0, &Want::tag(7), claim), Some(messages[0]));
        assert_eq!(world.probe(1, 0, &Want::tag(7), None), Some(messages[1]));
        let receive = world.receive(1, Want::ANY, 5_000);
        wait(&mut world, Span::ms(1), |world| world.received(receive).is_some());
        assert!(world.arrived(messages[1]) && !world.arrived(messages[0]));
        // The third is given up; its sender is free.
        let give_up = Some(ClaimUse::Discard(Span::us(100)));
        assert_eq!(world.probe(1, 0, &Want::ANY, give_up), Some(messages[2]));
        finish(&mut world);
        assert!(world.arrived(messages[0]));
    }
}

#[test]
fn a_posted_receive_can_be_cancelled_once() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    let receive = world.receive(1, Want::ANY, 10);
    world.pass(Span::ms(1));
    assert!(world.cancel_receive(receive));
    assert!(!world.cancel_receive(receive), "it is over");
    finish(&mut world);
    assert_eq!(world.received(receive).unwrap().status, Status::Cancelled);
    let message = world.send(MessageSpec::plain(0, 1, 10));
    world.pass(Span::ms(1));
    assert!(!world.arrived(message));
    world.receive(1, Want::ANY, 10);
    finish(&mut world);
}

/// A send whose message has not left can be taken back; one that left cannot, or is never delivered.
#[test]
fn sends_can_be_cancelled_before_they_leave() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        // The peer is cut off, so that the window fills and later messages stay.
        world.cut(0, 1, Span::ms(100));
        let messages: Vec<_> = (0..400)
            .map(|_| {
                world.send(MessageSpec {
                    completion: CompletionMode::Delivered,
                    ..MessageSpec::plain(0, 1, 60_000)
                })
            })
            .collect();
        world.pass(Span::ms(1));
        let last = *messages.last().unwrap();
        assert!(world.cancel_send(last), "{}", profile.name);
        for message in &messages[..399] {
            world.cancel_send(*message);
        }
        for _ in &messages {
            world.receive(1, Want::ANY, 60_000);
        }
        settle(&mut world);
        assert_eq!(world.sent(last), Some(Status::Cancelled));
        for receive in 0..world.ledger().receives.len() {
            world.cancel_receive(receive);
        }
        finish(&mut world);
    }
}

#[test]
fn a_missing_endpoint_is_reported() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        world.history_mut().endpoint_closed(1, 9);
        let sizes = [100, 50_000, 1_000_000];
        let messages = sizes.map(|bytes| {
            world.send(MessageSpec {
                to_endpoint: 9,
                completion: CompletionMode::Delivered,
                ..MessageSpec::plain(0, 1, bytes)
            })
        });
        // Messages to endpoints that exist must not suffer.
        world.receive(1, Want::ANY, 10);
        let fine = world.send(MessageSpec::plain(0, 1, 10));
        wait(&mut world, Span::ms(1_000), |world| world.arrived(fine));
        finish(&mut world);
        for message in messages {
            assert_eq!(world.sent(message), Some(Status::NoEndpoint), "{}", profile.name);
        }
    }
}

#[test]
fn closing_an_endpoint_ends_its_receives_and_gives_its_messages_up() {
    for profile in Profile::ALL {
        let mut world = acquainted(2, profile);
        let idle = world.receive(1, Want::tag(3), 10);
        let busy = world.receive(1, Want::tag(4), 4 << 20);
        world.send(MessageSpec { tag: 4, ..MessageSpec::plain(0, 1, 4 << 20) });
        world.send(MessageSpec { tag: 5, ..MessageSpec::plain(0, 1, 1_000) });
        world.pass(Span::us(500));
        world.apply(Action::CloseEndpoint { node: 1, endpoint: 0 });
        finish(&mut world);
        for receive in [idle, busy] {
            assert_eq!(world.received(receive).unwrap().status, Status::EndpointClosed);
        }
    }
}

/// Descriptors that point nowhere end in an error; the node and its peer go on.
#[test]
fn bad_memory_fails_the_operation_alone() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    let nowhere = SegmentList::one(Segment { address: 1, bytes: 5_000 });
    let to = world.id(1);
    let send = emp_firmware::SendDescriptor {
        to,
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 0,
        segments: nowhere,
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Delivered,
        context: 0,
    };
    // A node of its own, outside the world's judges, with memory that always faults.
    let mut memory = Faulty;
    let done = world.poke(0, |firmware, _, now| {
        let mut batch = emp_firmware::TransmitBatch::new(1_500);
        if firmware.post_send(now, send, &mut memory).is_err() {
            return Some(Status::MemoryFault);
        }
        while firmware.poll_transmit(now, &mut memory, &mut batch) > 0 {
            batch.clear();
        }
        firmware.poll_completion().map(|done| done.status)
    });
    // Either the post was refused, or the operation failed, or the bytes are read later, by whoever sends the frame.
    assert!(matches!(done, None | Some(Status::MemoryFault)), "{done:?}");
    assert_eq!(sent(&world, 0, Kind::Close), 0);
}

struct Faulty;

impl emp_firmware::HostMemory for Faulty {
    fn read(&self, _: Segment, _: &mut [u8]) -> Result<(), emp_firmware::MemoryFault> {
        Err(emp_firmware::MemoryFault)
    }
    fn write(&mut self, _: Segment, _: &[u8]) -> Result<(), emp_firmware::MemoryFault> {
        Err(emp_firmware::MemoryFault)
    }
    fn checksum(
        &self,
        _: Segment,
        _: &mut emp_wire::Checksum,
    ) -> Result<(), emp_firmware::MemoryFault> {
        Err(emp_firmware::MemoryFault)
    }
}
