//! First frames that are copied to their place while they are summed are taken as those are that are summed first: with receives
//! in one piece of memory, where that is done, and in two, where it is not, the same frames leave the same counters, completions, answers
//! and bytes. Also if frames are lost, repeated, swapped or changed.

mod common;

use common::{HALF, Node, Pair};
use emp_firmware::*;
use emp_wire::{LinkAddress, NodeId};
use proptest::prelude::*;

/// Largest frame of the link in bytes: first frames have up to as much.
const FRAME_BYTES: usize = 9000;
/// Room for each message at either end.
const ROOM: u64 = 64 << 10;

#[derive(Clone, Debug)]
struct Plan {
    profile: usize,
    check_payload: bool,
    /// What may happen to a frame, in so many of a thousand: lost, twice, changed, swapped.
    trouble: [u64; 4],
    seed: u64,
    /// Each message's length, whether it is expected, and how many rounds pass after it.
    messages: Vec<(u64, bool, usize)>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let bytes = prop_oneof![1u64..5_000, 5_000u64..9_000, 9_000u64..ROOM];
    let message = (bytes, prop::bool::weighted(0.8), 0usize..6);
    let few = || prop_oneof![2 => Just(0u64), 1 => 1u64..80];
    let trouble = [few(), few(), few(), few()];
    let messages = prop::collection::vec(message, 1..12);
    (0..Profile::ALL.len(), any::<bool>(), trouble, any::<u64>(), messages).prop_map(
        |(profile, check_payload, trouble, seed, messages)| Plan {
            profile,
            check_payload,
            trouble,
            seed,
            messages,
        },
    )
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % limit.max(1)
    }
}

/// What a node sends now.
fn frames_of(pair: &mut Pair, index: usize) -> Vec<Vec<u8>> {
    let mut batch = TransmitBatch::new(FRAME_BYTES);
    let node = &mut pair.nodes[index];
    node.firmware.handle_timeout(pair.now, &mut node.memory);
    node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch);
    let frame = |at: usize, frame: &TransmitFrame| {
        let named = frame.segments().iter().flat_map(|segment| {
            let start = segment.address as usize;
            &node.memory.0[start..start + segment.bytes as usize]
        });
        batch.inline(at).iter().chain(named).copied().collect()
    };
    batch.frames().iter().enumerate().map(|(at, sent)| frame(at, sent)).collect()
}

/// What becomes of frames on the way.
fn on_the_way(frames: Vec<Vec<u8>>, trouble: [u64; 4], dice: &mut Dice) -> Vec<Vec<u8>> {
    let [lost, twice, changed, swapped] = trouble;
    let mut out: Vec<Vec<u8>> = Vec::new();
    for mut frame in frames {
        if dice.below(1000) < lost {
            continue;
        }
        if dice.below(1000) < twice {
            out.push(frame.clone());
        }
        if dice.below(1000) < changed {
            let at = dice.below(frame.len() as u64) as usize;
            frame[at] ^= 1 << dice.below(8);
        }
        out.push(frame);
        let end = out.len();
        if end > 1 && dice.below(1000) < swapped {
            out.swap(end - 1, end - 2);
        }
    }
    out
}

fn post(pair: &mut Pair, number: u64, (bytes, expected): (u64, bool), pieces: u64) {
    let now = pair.now;
    let receive = |pair: &mut Pair| {
        let start = HALF + number * ROOM;
        let first = if pieces == 1 { bytes } else { bytes / 3 };
        let cut = [
            Segment { address: start, bytes: first },
            Segment { address: start + first, bytes: bytes - first },
        ];
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector: Selector::bits(number % 3),
            segments: SegmentList::new(&cut[..pieces as usize]).unwrap(),
            claim: None,
            context: number,
        };
        let node = &mut pair.nodes[1];
        node.firmware.post_receive(now, receive, &mut node.memory).unwrap();
    };
    if expected {
        receive(pair);
    }
    let send = SendDescriptor {
        to: NodeId(2),
        endpoint: 0,
        to_endpoint: 0,
        match_bits: number % 3,
        segments: SegmentList::one(Segment { address: number * ROOM, bytes }),
        immediate: number.is_multiple_of(2).then_some(number),
        synchronous: number.is_multiple_of(5),
        completion: CompletionMode::Auto,
        context: number,
    };
    let node = &mut pair.nodes[0];
    node.firmware.post_send(now, send, &mut node.memory).unwrap();
    if !expected {
        receive(pair);
    }
}

/// The same posts and frames for two pairs; in the first, receives are one piece of memory.
struct Twins {
    pairs: [Pair; 2],
    dice: [Dice; 2],
    trouble: [u64; 4],
}

impl Twins {
    fn round(&mut self) -> Result<bool, TestCaseError> {
        let mut moved = false;
        for from in 0..2 {
            let [sent, same] = self.pairs.each_mut().map(|pair| frames_of(pair, from));
            prop_assert!(sent == same, "node {from} sends others");
            moved |= !sent.is_empty();
            let arriving = on_the_way(sent, self.trouble, &mut self.dice[from]);
            for pair in &mut self.pairs {
                let address = LinkAddress::index(pair.address[from]);
                let node = &mut pair.nodes[1 - from];
                for frame in &arriving {
                    let memory = &mut node.memory;
                    node.firmware.handle_frame(pair.now, LinkIndex(0), address, frame, memory);
                }
            }
        }
        for pair in &mut self.pairs {
            for node in &mut pair.nodes {
                node.done.extend(std::iter::from_fn(|| node.firmware.poll_completion()));
            }
        }
        let [one, other] = &mut self.pairs;
        for (one, other) in one.nodes.iter().zip(&other.nodes) {
            let all = [one, other].map(|node| node.firmware.counters().iter().collect::<Vec<_>>());
            prop_assert_eq!(&all[0], &all[1]);
            prop_assert!(one.done == other.done);
            prop_assert_eq!(one.firmware.poll_timeout(), other.firmware.poll_timeout());
        }
        let next = one.nodes.iter().filter_map(|node| node.firmware.poll_timeout()).min();
        let now = if moved { one.now + Span::us(5) } else { one.now.max(next.unwrap_or(one.now)) };
        (one.now, other.now) = (now, now);
        Ok(moved || next.is_some())
    }
}

fn run(plan: &Plan) -> Result<(), TestCaseError> {
    let profile =
        Profile { checksum_payload: plan.check_payload, ..Profile::ALL[plan.profile].clone() };
    let pairs = [0, 1].map(|_| Pair::over(&profile, LinkInfo::new(FRAME_BYTES, true)));
    let dice = [Dice(plan.seed | 1), Dice(plan.seed | 2)];
    let mut twins = Twins { pairs, dice, trouble: plan.trouble };
    for (number, (bytes, expected, rounds)) in (0u64..).zip(&plan.messages) {
        for (pair, pieces) in twins.pairs.iter_mut().zip([1, 2]) {
            post(pair, number, (*bytes, *expected), pieces);
        }
        for _ in 0..*rounds {
            twins.round()?;
        }
    }
    for _ in 0..1_500 {
        if !twins.round()? {
            break;
        }
    }
    let [one, other] = &twins.pairs;
    let received = &one.nodes[1].done;
    if received.len() == plan.messages.len() && received.iter().all(|c| c.status == Status::Ok) {
        prop_assert!(one.nodes[1].memory.0 == other.nodes[1].memory.0, "other bytes");
        // Without its checksum a payload may have been changed on the way.
        if plan.check_payload {
            let source = &one.nodes[0].memory.0[..plan.messages.len() * ROOM as usize];
            // Within one value of match bits messages are received in order, and in order of posts.
            for (number, (bytes, ..)) in plan.messages.iter().enumerate() {
                let (at, bytes) = (number * ROOM as usize, *bytes as usize);
                let got = &one.nodes[1].memory.0[HALF as usize + at..][..bytes];
                prop_assert!(*got == source[at..][..bytes], "message {number}");
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn first_frames_in_one_pass_are_taken_as_others_are(plan in plans()) {
        run(&plan)?;
    }
}

/// A frame whose checksum is wrong, and one that comes again, are neither delivered nor counted as anything else.
#[test]
fn what_is_not_right_is_not_taken() {
    let mut pair = Pair::over(&Profile::DEFAULT, LinkInfo::new(FRAME_BYTES, true));
    // The first leaves once the nodes know each other.
    for number in 0..2 {
        post(&mut pair, number, (8_000, true), 1);
    }
    let (mut first, mut taken) = (None, 0);
    for _ in 0..20 {
        for from in 0..2 {
            for frame in frames_of(&mut pair, from) {
                let (now, address) = (pair.now, LinkAddress::index(pair.address[from]));
                let node = &mut pair.nodes[1 - from];
                let give = |node: &mut Node, frame: &[u8]| {
                    let memory = &mut node.memory;
                    node.firmware.handle_frame(now, LinkIndex(0), address, frame, memory);
                };
                if from == 0 && frame.len() > 8_000 {
                    let mut changed = frame.clone();
                    changed[5_000] ^= 1;
                    give(node, &changed);
                    let at = HALF as usize + taken * ROOM as usize + 5_000 - (frame.len() - 8_000);
                    // Copied while it was summed: this is the way that is tested here. The first comes from a stranger.
                    assert_eq!(node.memory.0[at] == changed[5_000], taken == 1);
                    taken += 1;
                    first.get_or_insert(frame.clone());
                }
                give(node, &frame);
            }
        }
        pair.now = pair.now + Span::us(5);
    }
    let (now, address) = (pair.now, LinkAddress::index(pair.address[0]));
    let node = &mut pair.nodes[1];
    let again = first.expect("it was sent");
    node.firmware.handle_frame(now, LinkIndex(0), address, &again, &mut node.memory);
    let done: Vec<_> = std::iter::from_fn(|| node.firmware.poll_completion()).collect();
    let counters = node.firmware.counters();
    let get = |counter| counters.get(counter);
    assert!(done.len() == 2 && done.iter().all(|end| end.status == Status::Ok), "{done:?}");
    assert_eq!((get(Counter::DropChecksum), get(Counter::DropDuplicate)), (2, 1));
    assert_eq!((get(Counter::MessagesReceived), get(Counter::BytesPlaced)), (2, 16_000));
}
