//! How often the bytes of a large message are copied in user space: once at most at either end, and hardly at all where the kernel
//! gathers and places them (`docs/decisions/0017-trains.md`).

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use common::{LONG, Pair, both, pattern, udp_links};
use emp_firmware::{Counter, Counters, Profile};
use emp_host::{Board, Node, NodeId, Selector};
use emp_link::{
    CAPTURE_BYTES, Capabilities, CaptureLink, Link, PacketLink, PacketOptions, TxFrame, UdpLink,
};
use emp_testing::lab::{INTERFACE, Lab};

/// Large against the part of a message that is sent before the receiver says where it goes.
const BYTES: usize = 4 << 20;
const MESSAGES: u64 = 8;

fn nodes(links: [Box<dyn Link>; 2]) -> Pair {
    nodes_of(&Profile::DEFAULT, links)
}

fn nodes_of(profile: &Profile, links: [Box<dyn Link>; 2]) -> Pair {
    let [a, b] = links;
    let start = |link, name: &str| {
        let board = Board::Inline { guardian: true };
        Node::builder()
            .name(name)
            .link_with_peers(link)
            .board(board)
            .profile(profile.clone())
            .start()
            .expect("the node starts")
    };
    Pair { a: start(a, "a"), b: start(b, "b") }
}

/// For each payload byte: user-space copies by the sender, and by the receiver; and the part that the kernel placed.
struct Copies {
    sender: f64,
    receiver: f64,
    landed: f64,
}

fn copies(pair: &Pair) -> Copies {
    let (a, b) = pair.endpoints();
    // During the first it is found out whether long frames get through.
    both(
        pair,
        || drop(a.send_wait(b.address(), MESSAGES, pattern(BYTES, 0), LONG).unwrap()),
        || drop(b.receive(Selector::ANY, vec![0; BYTES]).unwrap().wait(LONG).unwrap()),
    );
    let before = [pair.a.counters(), pair.b.counters()];
    both(
        pair,
        || {
            for bits in 0..MESSAGES {
                a.send_wait(b.address(), bits, pattern(BYTES, bits), LONG).unwrap();
            }
        },
        || {
            let post = |bits| b.receive(Selector::bits(bits), vec![0; BYTES]).unwrap();
            // The next one is posted before this one is looked at, as programs do that care for speed.
            let mut next = Some(post(0));
            for bits in 0..MESSAGES {
                let current = next.take().unwrap();
                next = (bits + 1 < MESSAGES).then(|| post(bits + 1));
                let got = current.wait(LONG).unwrap();
                assert!(got.buffer == pattern(BYTES, bits), "message {bits} differs");
            }
        },
    );
    let payload = MESSAGES as f64 * BYTES as f64;
    let ends = [pair.a.counters(), pair.b.counters()];
    let [sender, receiver] = [0, 1].map(|end| {
        let get = |counter| ends[end].get(counter) - before[end].get(counter);
        let by_hand = get(Counter::BytesPlaced) - get(Counter::BytesLanded);
        (by_hand + get(Counter::BytesCopied)) as f64 / payload
    });
    let landed = |ends: &[Counters; 2]| -> u64 {
        ends.iter().map(|end| end.get(Counter::BytesLanded)).sum()
    };
    let landed = (landed(&ends) - landed(&before)) as f64;
    Copies { sender, receiver, landed: landed / payload }
}

/// Once, but for what was lost and came again.
fn once(copies: f64) -> bool {
    (0.95..1.05).contains(&copies)
}

#[test]
fn on_udp_the_kernel_places_nearly_all_long_frames() {
    let short = Profile { long_frames: false, ..Profile::DEFAULT };
    for (mtu, profile) in [(1500, &Profile::DEFAULT), (9000, &Profile::DEFAULT), (9000, &short)] {
        let [a, b] = udp_links(mtu);
        let nodes = nodes_of(profile, [Box::new(a), Box::new(b)]);
        let Copies { sender, receiver, landed } = copies(&nodes);
        let copied = sender + receiver;
        // What is not placed is the first train of each message, and what comes after a loss.
        assert!(copied < 0.25, "{copied:.3} copies of each byte");
        assert!(landed > 0.75, "{landed:.3} of each byte placed");
        let long = nodes.a.counters().get(Counter::FramesLong);
        assert_eq!(long > 0, profile.long_frames, "{long} long frames");
    }
}

/// Frames of the MTU: pieces of 1440 bytes cost the kernel more than a copy that sums as it goes costs here.
#[test]
fn on_udp_short_frames_are_copied_once_at_either_end() {
    let [a, b] = udp_links(1500);
    let short = Profile { long_frames: false, ..Profile::DEFAULT };
    let nodes = nodes_of(&short, [Box::new(a), Box::new(b)]);
    let Copies { sender, receiver, landed } = copies(&nodes);
    assert_eq!(landed, 0.0);
    assert!(once(sender), "{sender:.3} copies of each byte by the sender");
    assert!(once(receiver), "{receiver:.3} copies of each byte by the receiver");
}

/// A message that leaves at once in one long frame is read where it is, and copied behind it for the case that it is lost; its owner
/// may write to it as soon as the post returns.
#[test]
fn on_udp_a_lone_message_is_read_where_it_is() {
    const LONE: usize = 24 << 10;
    let [a, b] = udp_links(1500);
    let nodes = nodes([Box::new(a), Box::new(b)]);
    let (a, b) = nodes.endpoints();
    let once = |bits: u64| {
        let post = b.receive(Selector::bits(bits), vec![0; LONE]).unwrap();
        let sent = a.send(b.address(), bits, pattern(LONE, bits)).unwrap().wait(LONG);
        let mut sent = sent.unwrap().buffer;
        sent.fill(0xFF);
        assert!(post.wait(LONG).unwrap().buffer == pattern(LONE, bits), "message {bits}");
        // The answer brings the acknowledgement: nothing is under way when the next one is posted.
        let post = a.receive(Selector::bits(bits), vec![0; 1]).unwrap();
        b.send(a.address(), bits, vec![1]).unwrap().wait(LONG).unwrap();
        post.wait(LONG).unwrap();
        drop(sent);
    };
    (0..10).for_each(once);
    let before = nodes.a.counters().get(Counter::BytesCopied);
    (10..110).for_each(once);
    let copied = nodes.a.counters().get(Counter::BytesCopied) - before;
    // Now and then one waits for something, is copied as it is posted, and again as it leaves.
    assert!((100..140).contains(&(copied / LONE as u64)), "{copied} bytes copied");
    assert_eq!(nodes.b.counters().get(Counter::DropChecksum), 0);
}

/// A link that is full whenever a frame is lent to it.
struct FullForLent {
    inner: UdpLink,
    refused: Arc<AtomicU64>,
}

impl Link for FullForLent {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.inner.send(batch)
    }

    fn send_lent(&mut self, _: &TxFrame<'_>) -> bool {
        self.refused.fetch_add(1, Ordering::Relaxed);
        false
    }

    common::forward_to_inner!();
}

/// What a full link did not take waits with the bytes that it had when it was posted.
#[test]
fn a_lone_message_that_a_full_link_refuses_waits_in_the_batch() {
    const LONE: usize = 24 << 10;
    let [a, b] = udp_links(1500);
    let refused = Arc::new(AtomicU64::new(0));
    let a = FullForLent { inner: a, refused: Arc::clone(&refused) };
    let nodes = nodes([Box::new(a), Box::new(b)]);
    let (a, b) = nodes.endpoints();
    for bits in 0..100 {
        let post = b.receive(Selector::bits(bits), vec![0; LONE]).unwrap();
        let sent = a.send(b.address(), bits, pattern(LONE, bits)).unwrap().wait(LONG);
        let mut sent = sent.unwrap().buffer;
        sent.fill(0xFF);
        assert!(post.wait(LONG).unwrap().buffer == pattern(LONE, bits), "message {bits}");
        let post = a.receive(Selector::bits(bits), vec![0; 1]).unwrap();
        b.send(a.address(), bits, vec![1]).unwrap().wait(LONG).unwrap();
        post.wait(LONG).unwrap();
    }
    let refused = refused.load(Ordering::Relaxed);
    assert!(refused > 50, "{refused} frames were lent");
    let counters = nodes.a.counters();
    let resent = counters.get(Counter::FramesResent);
    assert!(resent < refused / 4, "{resent} frames were sent again, not from the batch");
    assert_eq!(nodes.b.counters().get(Counter::DropChecksum), 0);
}

/// A wrapper that must see whole frames turns placement off, and nothing else changes.
#[test]
fn under_a_capture_the_receiver_copies_once() {
    let [a, b] = udp_links(9000);
    let file = tempfile::tempfile().expect("a file");
    let b = CaptureLink::new(b, file, CAPTURE_BYTES).expect("the head is written");
    let Copies { sender, receiver, landed } = copies(&nodes([Box::new(a), Box::new(b)]));
    assert_eq!(landed, 0.0);
    assert!(sender < 0.05, "{sender:.3} copies of each byte by the sender");
    assert!(once(receiver), "{receiver:.3} copies of each byte by the receiver");
}

#[test]
fn on_packet_each_byte_is_copied_once() {
    let Some(lab) = Lab::build(1500) else { return };
    let open = |side: usize, name: &str| -> Box<dyn Link> {
        let tag = NodeId::from_name(name).destination_tag();
        let options = PacketOptions::new(INTERFACE, tag);
        Box::new(lab.inside(side, || PacketLink::open(&options).expect("root may")))
    };
    let Copies { sender, receiver, .. } = copies(&nodes([open(0, "a"), open(1, "b")]));
    let copied = sender + receiver;
    // Heads with a little payload are written together; what is lost on the way is never counted as placed twice.
    assert!((0.95..=1.01).contains(&copied), "{copied:.3} copies of each byte");
}
