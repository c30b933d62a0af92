//! The engine in halves: each on a thread of its own, what they do together is what the whole engine would.

use std::thread;

use emp_firmware::*;

use crate::common::*;

/// What came of many messages both ways.
struct Ran {
    pair: Pair,
    /// Frames that a half took, and that were left to the whole engine.
    taken: u64,
    left: u64,
    /// Frames that a half sent while the other was at work.
    sent_beside: u64,
}

const MESSAGES: u64 = 40;

/// Where a message's bytes come from and go to; so long are they.
fn place(message: u64) -> (u64, u64) {
    let bytes = [0, 5, 300, 1_400, 9_000, 70_000, 200_000, 48][message as usize % 8];
    (message * 200_000, bytes)
}

fn post_all(pair: &mut Pair) {
    for (node, to) in [(0, 2), (1, 1)] {
        for message in 0..MESSAGES {
            let (at, bytes) = place(message);
            let now = pair.now;
            let Node { firmware, memory, .. } = &mut pair.nodes[node];
            let segment = |from| SegmentList::one(Segment { address: from + at, bytes });
            let receive = ReceiveDescriptor {
                endpoint: 0,
                selector: Selector::bits(message),
                segments: segment(HALF),
                claim: None,
                context: message,
            };
            firmware.post_receive(now, receive, memory).unwrap();
            let send = SendDescriptor {
                to: emp_wire::NodeId(to),
                endpoint: 0,
                to_endpoint: 0,
                match_bits: message,
                segments: segment(0),
                immediate: None,
                synchronous: message % 3 == 0,
                completion: CompletionMode::Auto,
                context: message,
            };
            firmware.post_send(now, send, memory).unwrap();
        }
    }
}

fn frames_in(batch: &TransmitBatch, memory: &Memory) -> Vec<Vec<u8>> {
    let frame = |(index, frame): (usize, &TransmitFrame)| {
        let mut bytes = batch.inline(index).to_vec();
        for part in frame.segments() {
            let at = part.address as usize;
            bytes.extend_from_slice(&memory.0[at..at + part.bytes as usize]);
        }
        bytes
    };
    batch.frames().iter().enumerate().map(frame).collect()
}

/// Takes the frames and sends what there is, each half on a thread. Gives what was sent.
fn turn(ran: &mut Ran, at: usize, came: Vec<Vec<u8>>, source: &Memory) -> Vec<Vec<u8>> {
    let (now, from) = (ran.pair.now, ran.pair.link_address(1 - at));
    let Node { firmware, memory, done } = &mut ran.pair.nodes[at];
    let mut batch = TransmitBatch::new(1500);
    let mut next = (0, 0);
    if let Some((mut sends, mut receives)) = firmware.halves(now) {
        thread::scope(|scope| {
            let taking = scope.spawn(|| {
                for (index, frame) in came.iter().enumerate() {
                    let taken = receives.handle_frame(now, LinkIndex(0), &from, frame, memory);
                    if let Err(at) = taken {
                        return (index, at);
                    }
                }
                (came.len(), 0)
            });
            if sends.has_transmit() {
                sends.poll_transmit(now, source, &mut batch);
            }
            next = taking.join().unwrap();
        });
        firmware.join();
    }
    ran.taken += next.0 as u64;
    ran.left += (came.len() - next.0) as u64;
    ran.sent_beside += if next.0 > 0 { batch.frames().len() as u64 } else { 0 };
    for frame in &came[next.0..] {
        let rest = &frame[std::mem::take(&mut next.1)..];
        firmware.handle_frame(now, LinkIndex(0), from, rest, memory);
    }
    if firmware.poll_timeout().is_some_and(|due| due <= now) {
        firmware.handle_timeout(now, memory);
    }
    let mut sent = frames_in(&batch, source);
    batch.clear();
    firmware.poll_transmit(now, memory, &mut batch);
    sent.extend(frames_in(&batch, source));
    take_completions(firmware, done);
    sent
}

/// All messages, of every thousand frames so many lost and so many overtaken by the next.
fn run(profile: &Profile, lost: u64, overtaken: u64) -> Ran {
    let mut ran = Ran { pair: Pair::new(profile), taken: 0, left: 0, sent_beside: 0 };
    let sources = [0, 1].map(|node| Memory(ran.pair.nodes[node].memory.0.clone()));
    post_all(&mut ran.pair);
    let mut x = 9u64;
    let mut draw = move || {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) % 1_000
    };
    let mut air = [Vec::new(), Vec::new()];
    for _ in 0..200_000 {
        for at in 0..2 {
            let came = std::mem::take(&mut air[at]);
            let mut sent = turn(&mut ran, at, came, &sources[at]);
            sent.retain(|_| draw() >= lost);
            (1..sent.len()).for_each(|i| {
                if draw() < overtaken {
                    sent.swap(i - 1, i)
                }
            });
            air[1 - at].extend(sent);
        }
        ran.pair.now = ran.pair.now + Span::us(3);
        if air.iter().all(Vec::is_empty) {
            let due = ran.pair.nodes.iter().filter_map(|node| node.firmware.poll_timeout()).min();
            let ended = ran.pair.nodes.iter().all(|node| node.done.len() as u64 == 2 * MESSAGES);
            match due {
                _ if ended => break,
                Some(due) => ran.pair.now = ran.pair.now.max(due),
                None => break,
            }
        }
    }
    ran
}

fn check(ran: &mut Ran) {
    for at in 0..2 {
        let node = &ran.pair.nodes[at];
        assert_eq!(ok(&node.done, OpKind::Send), MESSAGES as usize, "{}", show(&ran.pair));
        assert_eq!(ok(&node.done, OpKind::Receive), MESSAGES as usize, "{}", show(&ran.pair));
        for message in 0..MESSAGES {
            let (at_byte, bytes) = place(message);
            let part = |memory: &Memory, from: u64| {
                memory.0[(from + at_byte) as usize..][..bytes as usize].to_vec()
            };
            let other = &ran.pair.nodes[1 - at].memory;
            assert!(part(&node.memory, HALF) == part(other, 0), "message {message} at node {at}");
        }
    }
    assert!(ran.taken > 20 * ran.left, "{} taken, {} left", ran.taken, ran.left);
    assert!(ran.sent_beside > 0, "none was sent meanwhile");
}

#[test]
fn halves_on_two_threads_deliver_every_byte() {
    let mut ran = run(&Profile::DEFAULT, 0, 0);
    check(&mut ran);
    assert!(ran.sent_beside > ran.taken / 10, "{} of {}", ran.sent_beside, ran.taken);
    ran.pair.check_idle();
}

#[test]
fn halves_make_good_what_is_lost_and_overtaken() {
    for profile in Profile::ALL {
        let mut ran = run(profile, 10, 20);
        check(&mut ran);
        ran.pair.check_idle();
    }
}

#[test]
fn what_halves_cannot_do_is_left_to_the_whole_engine() {
    let mut pair = Pair::new(&Profile::DEFAULT);
    assert!(pair.nodes[0].firmware.halves(pair.now).is_some());
    // A stranger's frame: nobody has met.
    pair.send(0, 2, 4, 10);
    let first = frames_of(&mut pair, 0).remove(0);
    let from = pair.link_address(0);
    let (now, node) = (pair.now, &mut pair.nodes[1]);
    let (_, mut receives) = node.firmware.halves(now).unwrap();
    let taken = receives.handle_frame(now, LinkIndex(0), &from, &first, &mut node.memory);
    assert_eq!(taken, Err(0));
    node.firmware.join();
    give(&mut pair, 1, &first);
    // Exported memory is both halves'.
    let firmware = &mut pair.nodes[1].firmware;
    let memory = Segment { address: 0, bytes: 64 };
    firmware.export_region(Some(7), memory, Rights::REMOTE_READ, 0).unwrap();
    assert!(firmware.halves(pair.now).is_none());
    assert!(firmware.remove_region(pair.now, 7));
    assert!(firmware.halves(pair.now).is_some());
    firmware.close(pair.now);
    assert!(firmware.halves(pair.now).is_none(), "goodbyes");
}
