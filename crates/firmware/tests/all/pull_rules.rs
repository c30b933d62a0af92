//! Pulls: how much is asked for at a time (`PULL-2`), and whose blocks are taken (`PULL-3`).

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{DoneStatus, Flags, Kind, Message, NotReadyCause, Pull};

const NONE: Flags = Flags(0);
const FRAGMENT: u16 = 1_400;

/// Bytes of a message's block, so that wrong ones show.
fn pattern(seed: u64, offset: u64, bytes: u64) -> Vec<u8> {
    (offset..offset + bytes).map(|i| (i * 7 + seed * 13 + (i >> 8)) as u8).collect()
}

/// Begins a message of which all is to be pulled.
fn announce(real: &mut Real, peer: &mut Forged, bits: u64, total: u64) {
    let frame = peer.message(NONE, long(total, 0, FRAGMENT), bits, &[]);
    real.hear(peer, &frame);
}

/// Takes what the node says to a peer: its pulls. Everything is acknowledged.
fn listen(real: &mut Real, peer: &mut Forged) -> Vec<Pull> {
    let said: Vec<Said> =
        real.speak().into_iter().filter(|said| said.to == peer.address()).collect();
    let last =
        said.iter().filter(|said| said.kind().sequenced()).map(|s| s.header.sequence.0).max();
    if let Some(last) = last {
        peer.acknowledge = Some(last + 1);
        let frame = peer.ack(last + 1, last, 0);
        real.hear(peer, &frame);
    }
    of_kind(&said, Kind::Pull).iter().map(Said::pull).collect()
}

/// The frames of a block.
fn block_of(peer: &mut Forged, seed: u64, pull: &Pull) -> Vec<Vec<u8>> {
    let bytes = pattern(seed, pull.offset, pull.bytes.into());
    let parts: Vec<_> = bytes.chunks(FRAGMENT.into()).collect();
    parts.iter().enumerate().map(|(i, part)| peer.block(pull.pull, i as u16, part)).collect()
}

fn answer(real: &mut Real, peer: &mut Forged, seed: u64, pull: &Pull) {
    for frame in block_of(peer, seed, pull) {
        real.hear(peer, &frame);
    }
}

#[test]
fn one_message_has_so_many_blocks_under_way_and_no_more() {
    let Profile { pull_blocks, pull_block_bytes, .. } = Profile::DEFAULT;
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let total = 20 * u64::from(pull_block_bytes) + 17;
    real.receive(Selector::ANY, total);
    announce(&mut real, &mut peer, 5, total);
    let mut out = listen(&mut real, &mut peer);
    assert_eq!(out.len(), pull_blocks as usize);
    let mut asked = 0;
    while !out.is_empty() {
        let pull = out.remove(0);
        // In order, each whole but the last, and no byte twice.
        assert_eq!(pull.offset, asked);
        asked += u64::from(pull.bytes);
        assert_eq!(u64::from(pull.bytes), (total - pull.offset).min(pull_block_bytes.into()));
        assert!(listen(&mut real, &mut peer).is_empty(), "nothing is asked for before one is here");
        answer(&mut real, &mut peer, 5, &pull);
        out.extend(listen(&mut real, &mut peer));
        assert!(out.len() <= pull_blocks as usize);
        assert_eq!(out.len() as u64, (total - asked).div_ceil(pull_block_bytes.into()).min(4));
    }
    assert_eq!(asked, total);
    assert_eq!(real.done.len(), 1);
    assert!(real.bytes(INTO, total) == pattern(5, 0, total));
}

/// Incast: over all senders no more is asked for than the profile has, of four at a time, and all have their turn (`CREDIT-2`).
#[test]
fn all_senders_together_are_asked_for_so_much_and_no_more() {
    let Profile { pull_bytes_max, pull_block_bytes, .. } = Profile::DEFAULT;
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peers: Vec<Forged> = (2..14).map(|id| Forged::met(id, &mut real)).collect();
    let total = 10 * u64::from(pull_block_bytes);
    let mut out: Vec<(usize, Pull)> = Vec::new();
    let bytes = |out: &[(usize, Pull)]| out.iter().map(|(_, p)| u64::from(p.bytes)).sum::<u64>();
    let hear_all = |real: &mut Real, peers: &mut [Forged], out: &mut Vec<(usize, Pull)>| {
        // One turn of the node: what it says is for all of them.
        let said = real.speak();
        for (i, peer) in peers.iter_mut().enumerate() {
            let own: Vec<&Said> = said.iter().filter(|said| said.to == peer.address()).collect();
            for one in own.iter().filter(|said| said.kind().sequenced()) {
                let number = one.header.sequence.0;
                peer.acknowledge = Some(number + 1);
                let frame = peer.ack(number + 1, number, 0);
                real.hear(peer, &frame);
            }
            for one in own.iter().filter(|said| said.kind() == Kind::Pull) {
                out.push((i, one.pull()));
            }
        }
        assert!(bytes(out) <= pull_bytes_max, "{} bytes are asked for", bytes(out));
    };
    for peer in &mut peers {
        let bits = peer.node.0;
        real.receive(Selector::bits(bits), total);
        announce(&mut real, peer, bits, total);
    }
    hear_all(&mut real, &mut peers, &mut out);
    // The first were asked when there were no others.
    let room = pull_bytes_max / u64::from(pull_block_bytes);
    assert!((room / 2..=room).contains(&(out.len() as u64)), "an eighth of each: {}", out.len());
    let (mut turns, mut more) = (0u32, 0u32);
    while !out.is_empty() {
        let (i, pull) = out.remove(0);
        let seed = peers[i].node.0;
        answer(&mut real, &mut peers[i], seed, &pull);
        hear_all(&mut real, &mut peers, &mut out);
        let mut asked: Vec<usize> = out.iter().map(|(i, _)| *i).collect();
        asked.sort_unstable();
        asked.dedup();
        // One that waits may be asked for a block of as the oldest, and what is on its way of those before the four comes yet.
        turns += 1;
        more += u32::from(asked.len() > 5);
        assert!(asked.len() <= 8, "{asked:?}");
    }
    assert!(3 * more < turns, "more than five are asked in {more} of {turns} turns");
    assert_eq!(real.done.len(), peers.len());
    assert!(real.done.iter().all(|done| done.status == Status::Ok));
}

/// Of several senders that have something left each has its part of what is asked for.
#[test]
fn no_sender_has_more_than_its_part() {
    let Profile { pull_bytes_max, pull_block_bytes, .. } = Profile::DEFAULT;
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peers: Vec<Forged> = (2..10).map(|id| Forged::met(id, &mut real)).collect();
    let total = 30 * u64::from(pull_block_bytes);
    for peer in &mut peers {
        let bits = peer.node.0;
        real.receive(Selector::bits(bits), total);
        announce(&mut real, peer, bits, total);
    }
    let mut out: Vec<Vec<Pull>> = peers.iter().map(|_| Vec::new()).collect();
    let mut left = vec![total; peers.len()];
    for turn in 0..120 {
        let said = real.speak();
        let mut asked_now = vec![0; peers.len()];
        for (at, peer) in peers.iter_mut().enumerate() {
            let own: Vec<&Said> = said.iter().filter(|said| said.to == peer.address()).collect();
            for one in own.iter().filter(|said| said.kind().sequenced()) {
                let number = one.header.sequence.0;
                peer.acknowledge = Some(number + 1);
                let frame = peer.ack(number + 1, number, 0);
                real.hear(peer, &frame);
            }
            for pull in own.iter().filter(|s| s.kind() == Kind::Pull).map(|s| s.pull()) {
                asked_now[at] += u64::from(pull.bytes);
                out[at].push(pull);
            }
            left[at] -= asked_now[at];
        }
        let senders = left.iter().filter(|left| **left > 0).count().max(1) as u64;
        let part = (pull_bytes_max / senders).max(pull_block_bytes.into());
        for (out, asked) in out.iter().zip(&asked_now) {
            let bytes: u64 = out.iter().map(|pull| u64::from(pull.bytes)).sum();
            // The first were asked when there were no others.
            assert!(turn == 0 || *asked == 0 || bytes <= part, "{bytes} bytes of one of {senders}");
        }
        let longest = (0..out.len()).max_by_key(|at| out[*at].len()).expect("there are some");
        if !out[longest].is_empty() {
            let pull = out[longest].remove(0);
            let seed = peers[longest].node.0;
            answer(&mut real, &mut peers[longest], seed, &pull);
        }
    }
}

/// Senders that send what they were asked for, however slowly, keep their part; what one owes that sends nothing for 2 ms is asked of
/// another (`CREDIT-3`).
#[test]
fn a_slow_sender_is_not_a_silent_one() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peers: Vec<Forged> = (2..9).map(|id| Forged::met(id, &mut real)).collect();
    let total = 20 * u64::from(Profile::DEFAULT.pull_block_bytes);
    for peer in &mut peers {
        let bits = peer.node.0;
        real.receive(Selector::bits(bits), total);
        announce(&mut real, peer, bits, total);
    }
    let mut asked: std::collections::BTreeMap<u64, Vec<Pull>> = Default::default();
    let mut listen_to_all = |real: &mut Real, peers: &mut [Forged]| {
        let said = real.pass(Span::us(1));
        for peer in peers {
            let own: Vec<_> = said.iter().filter(|said| said.to == peer.address()).collect();
            for one in own.into_iter().filter(|said| said.kind().sequenced()) {
                let number = one.header.sequence.0;
                peer.acknowledge = Some(number + 1);
                let frame = peer.ack(number + 1, number, 0);
                real.hear(peer, &frame);
                if one.kind() == Kind::Pull {
                    asked.entry(peer.node.0).or_default().push(one.pull());
                }
            }
        }
        asked.clone()
    };
    let first = listen_to_all(&mut real, &mut peers);
    assert!(first.len() < peers.len(), "there is no room for all");
    // A frame of each once a millisecond.
    let mut blocks: Vec<(usize, Vec<Vec<u8>>)> = Vec::new();
    for (at, peer) in peers.iter_mut().enumerate() {
        if let Some(pulls) = first.get(&peer.node.0) {
            let seed = peer.node.0;
            blocks.push((at, block_of(peer, seed, &pulls[0])));
        }
    }
    for turn in 0..20 {
        for (at, frames) in &blocks {
            real.hear(&peers[*at], &frames[turn]);
        }
        real.now = real.now + Span::ms(1);
        real.firmware.handle_timeout(real.now, &mut real.memory);
        let now = listen_to_all(&mut real, &mut peers);
        assert_eq!(now.len(), first.len(), "after {turn} ms: what they owe is still to come");
    }
    real.now = real.now + Span::ms(2);
    real.firmware.handle_timeout(real.now, &mut real.memory);
    let now = listen_to_all(&mut real, &mut peers);
    assert_eq!(now.len(), peers.len(), "those that fell silent keep nobody waiting");
}

/// A message whose receive is closed under it is given up with its pulls. Blocks of these that still come are of nobody's
/// message, although another pull has their place in the table.
#[test]
fn a_late_block_is_not_taken_for_one_of_a_later_pull() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let total = 30_000;
    let mut late = Vec::new();
    let mut names = Vec::new();
    for round in 0..5 {
        real.receive(Selector::ANY, total);
        announce(&mut real, &mut peer, round, total);
        let pulls = listen(&mut real, &mut peer);
        assert_eq!(pulls.len(), 1);
        assert!(!names.contains(&pulls[0].pull), "an identifier is not used again so soon");
        names.push(pulls[0].pull);
        // All rounds' blocks were under way when their message was given up.
        late.extend(block_of(&mut peer, 100 + round, &pulls[0]));
        real.firmware.close_endpoint(real.now, 0);
        real.firmware.open_endpoint(0).unwrap();
        listen(&mut real, &mut peer);
    }
    real.receive(Selector::ANY, total);
    announce(&mut real, &mut peer, 9, total);
    let pulls = listen(&mut real, &mut peer);
    assert!(!names.contains(&pulls[0].pull));
    let done = real.done.len();
    for frame in &late {
        real.hear(&peer, frame);
    }
    assert_eq!(real.count(Counter::DropBadHandle), late.len() as u64);
    assert_eq!(real.done.len(), done, "nothing is complete by them");
    answer(&mut real, &mut peer, 9, &pulls[0]);
    assert_eq!(real.done.len(), done + 1);
    assert!(real.bytes(INTO, total) == pattern(9, 0, total), "only its own bytes are in it");
}

/// A block is of the peer that was asked: another node may guess the identifier, and that is all.
#[test]
fn a_third_nodes_block_is_not_taken() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let mut third = Forged::met(3, &mut real);
    let total = 30_000;
    real.receive(Selector::ANY, total);
    announce(&mut real, &mut peer, 5, total);
    let pulls = listen(&mut real, &mut peer);
    answer(&mut real, &mut third, 66, &pulls[0]);
    assert_eq!(real.count(Counter::DropBadHandle), block_of(&mut third, 0, &pulls[0]).len() as u64);
    assert!(real.done.is_empty());
    answer(&mut real, &mut peer, 5, &pulls[0]);
    assert_eq!(real.done.len(), 1);
    assert!(real.bytes(INTO, total) == pattern(5, 0, total));
}

/// A block's frames are of one train and of its length (`SEQ-4`): others are dropped, and counted.
#[test]
fn a_block_takes_only_frames_of_its_train_and_length() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    real.receive(Selector::ANY, 30_000);
    announce(&mut real, &mut peer, 5, 30_000);
    let pull = listen(&mut real, &mut peer).remove(0);
    let first = peer.sequence;
    let word = |index: u32| u32::from(pull.pull) << 16 | index;
    let part = |index: u64, bytes| pattern(5, index * u64::from(FRAGMENT), bytes);
    let frame = peer.frame(Kind::Block, NONE, first, word(0), &part(0, FRAGMENT.into()));
    real.hear(&peer, &frame);
    let bad = [
        // As if of a train that begins one number later.
        peer.frame(Kind::Block, NONE, first + 2, word(1), &part(1, FRAGMENT.into())),
        // A byte less, a byte more, and beyond the end.
        peer.frame(Kind::Block, NONE, first + 1, word(1), &part(1, 1_399)),
        peer.frame(Kind::Block, NONE, first + 1, word(1), &part(1, 1_401)),
        peer.frame(Kind::Block, NONE, first + 22, word(22), &part(22, FRAGMENT.into())),
    ];
    for (i, frame) in bad.iter().enumerate() {
        real.hear(&peer, frame);
        assert_eq!(real.count(Counter::DropBadPlace), i as u64 + 1);
    }
    for index in 1..22u64 {
        let bytes = u64::from(FRAGMENT).min(30_000 - index * u64::from(FRAGMENT));
        let (number, word) = (first + index as u32, word(index as u32));
        let frame = peer.frame(Kind::Block, NONE, number, word, &part(index, bytes));
        real.hear(&peer, &frame);
    }
    assert!(real.bytes(INTO, 30_000) == pattern(5, 0, 30_000));
    assert_eq!(real.done.len(), 1);
}

/// Once a message is under way into it, a receive cannot be cancelled.
#[test]
fn a_receive_with_a_message_under_way_is_not_cancelled() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let total = 30_000;
    let op = real.receive(Selector::ANY, total);
    announce(&mut real, &mut peer, 5, total);
    let pulls = listen(&mut real, &mut peer);
    assert!(!real.firmware.cancel(real.now, op));
    answer(&mut real, &mut peer, 5, &pulls[0]);
    assert_eq!(real.done.len(), 1);
    assert_eq!((real.done[0].op, real.done[0].status), (op, Status::Ok));
    assert!(real.bytes(INTO, total) == pattern(5, 0, total));
    assert!(!real.firmware.cancel(real.now, op), "nor when it is over");
    // One that nothing was matched to is.
    let other = real.receive(Selector::ANY, total);
    assert!(real.firmware.cancel(real.now, other));
    assert_eq!(real.firmware.poll_completion().map(|done| done.status), Some(Status::Cancelled));
}

/// What a peer's next incarnation is sent: nothing that was meant for the one before.
fn said_to_the_next(real: &mut Real, old: &Forged) -> Vec<Said> {
    let mut next = Forged::new(old.node.0);
    next.epoch = emp_wire::Epoch::new(old.epoch.0 ^ 0x5A5A_0000);
    // Its first frame makes the node ask; its answer ends the old pair.
    let frame = next.message(Flags::VOID, None, 0, &[]);
    real.hear(&next, &frame);
    let asked = of_kind(&real.pass(Span::ms(2)), Kind::Hello);
    let hello = emp_wire::Hello::parse(&asked[0].body).unwrap();
    let mut body = vec![0; emp_wire::HELLO_BODY_BYTES_MAX];
    let reply = emp_wire::Hello::new(next.node, OWN, hello.nonce, MTU as u16, "next");
    let bytes = reply.emit(&mut body);
    let reply = next.frame(Kind::HelloReply, NONE, 0, 0, &body[..bytes]);
    real.hear(&next, &reply);
    assert_eq!(real.count(Counter::PeersRestarted), 1);
    let frame = next.frame(Kind::Message, Flags::VOID, 0, 0, &frame[32..]);
    real.hear(&next, &frame);
    real.pass(Span::ms(50))
}

/// More long messages than may be pulled at a time: some wait for room when their sender restarts, and get it as the others end.
#[test]
fn pulls_that_waited_are_not_sent_to_the_next_incarnation() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    let total = 1 << 18;
    for bits in 0..8 {
        real.receive(Selector::ANY, total);
        announce(&mut real, &mut peer, bits, total);
    }
    // One message of a sender at a time.
    assert_eq!(listen(&mut real, &mut peer).len(), 4);
    let said = said_to_the_next(&mut real, &peer);
    assert_eq!(of_kind(&said, Kind::Pull).len(), 0, "{:?}", kinds(&said));
    assert_eq!(real.done.len(), 8);
    assert!(real.done.iter().all(|done| done.status == Status::PeerRestarted));
    // And whoever comes next has all the room.
    let mut other = Forged::met(3, &mut real);
    real.receive(Selector::ANY, total);
    announce(&mut real, &mut other, 5, total);
    assert_eq!(listen(&mut real, &mut other).len(), 4);
}

/// The same where gets have the room that messages wait for: it is theirs as soon as the gets have ended, which is before they
/// have ended themselves.
#[test]
fn pulls_that_get_the_room_of_gets_are_not_sent_to_the_next_incarnation() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    for _ in 0..5 {
        let target =
            RemoteRegion { to: peer.node, to_endpoint: 0, key: 4, generation: 0, offset: 0 };
        let segments = SegmentList::one(Segment { address: INTO, bytes: 1 << 18 });
        let get = GetDescriptor { target, endpoint: 0, segments, context: 0 };
        real.firmware.post_get(real.now, get, &mut real.memory).unwrap();
    }
    for bits in 0..4 {
        real.receive(Selector::ANY, 1 << 18);
        announce(&mut real, &mut peer, bits, 1 << 18);
    }
    assert!(listen(&mut real, &mut peer).is_empty(), "gets have all the room");
    let said = said_to_the_next(&mut real, &peer);
    assert_eq!(of_kind(&said, Kind::Pull).len(), 0, "{:?}", kinds(&said));
    assert_eq!(of_kind(&said, Kind::Get).len(), 0, "{:?}", kinds(&said));
    assert_eq!(real.done.len(), 9);
    assert!(real.done.iter().all(|done| done.status == Status::PeerRestarted));
}

/// A `done` that had not left yet when its message's sender restarted is not for the next incarnation either.
#[test]
fn a_done_that_was_due_is_not_sent_to_the_next_incarnation() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    for bits in 0..400 {
        real.receive(Selector::ANY, 100);
        // Synchronous: its sender waits for a `done`.
        let frame = peer.message(Flags::SYNCHRONOUS, None, bits, b"x");
        real.hear(&peer, &frame);
    }
    assert_eq!(real.done.len(), 400);
    // More than there are numbers for: the others wait for an acknowledgement, which does not come.
    let left = of_kind(&real.speak(), Kind::Done).len();
    assert!((1..=256).contains(&left), "{left} have left");
    let said = said_to_the_next(&mut real, &peer);
    assert_eq!(of_kind(&said, Kind::Done).len(), 0, "{:?}", kinds(&said));
    // The next one's own are sent.
    let mut next = Forged::new(2);
    next.epoch = emp_wire::Epoch::new(peer.epoch.0 ^ 0x5A5A_0000);
    (next.sequence, next.number) = (1, 1);
    real.receive(Selector::ANY, 100);
    let frame = next.message(Flags::SYNCHRONOUS, None, 9, b"x");
    real.hear(&next, &frame);
    let dones = of_kind(&real.speak(), Kind::Done);
    assert_eq!(dones.len(), 1);
    assert_eq!(emp_wire::Done::parse(&dones[0].body).unwrap().status, DoneStatus::Matched);
}

/// A message that was refused, and is to be sent again, is pulled after all: its receiver has its place in the order. It is not sent again,
/// and what waits behind it is.
#[test]
fn what_is_pulled_is_not_sent_again() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    real.send(&peer, 10);
    let first = of_kind(&real.speak(), Kind::Message).remove(0);
    let (message, _) = Message::parse(first.header.flags, &first.body).unwrap();
    let sequence = first.header.sequence.0;
    real.hear(&peer, &peer.not_ready(first.header.word, sequence, NotReadyCause::Full, 0));
    real.send(&peer, 20);
    let mut body = vec![0; emp_wire::PULL_BYTES];
    Pull { node: peer.node, offset: 0, bytes: 10, pull: 3 }.emit(&mut body);
    let pull = peer.next(Kind::Pull, NONE, message.handle, &body);
    real.hear(&peer, &pull);
    let said = real.pass(Span::us(200));
    let blocks = of_kind(&said, Kind::Block);
    assert_eq!(blocks.iter().map(|block| block.body.len()).collect::<Vec<_>>(), [10]);
    let messages: Vec<u32> =
        of_kind(&said, Kind::Message).iter().map(|said| said.header.word).collect();
    assert_eq!(messages, [first.header.word + 1]);
}
