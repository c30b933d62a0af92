//! Frames of a train that are built in one go are, byte for byte, those that are built one by one; and everything that can be
//! seen of the nodes afterwards is the same. Over loss, so that retransmission gets in between; over all profiles.

use std::cell::{Cell, RefCell};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use crate::common::{HALF, Pair};
use emp_firmware::*;
use emp_wire::{Header, NodeId};
use proptest::prelude::*;

const KEY: u64 = 0xFEED;

/// Bytes that one operation moves, at most: several windows.
const BYTES_MAX: u64 = 600_000;

#[derive(Clone, Debug)]
enum Step {
    /// A message cut into pieces of user memory of this length; `expected`: its receive is posted before it is sent.
    Send {
        from: usize,
        bytes: u64,
        piece: u64,
        expected: bool,
    },
    Put {
        bytes: u64,
    },
    Get {
        bytes: u64,
    },
    /// Frames go both ways for so many microseconds.
    Run {
        us: u64,
    },
    /// The send that was posted last is cancelled, if that is still possible.
    Cancel,
}

#[derive(Clone, Debug)]
struct Plan {
    profile: usize,
    check_payload: bool,
    /// The link takes many frames in a call.
    segments: bool,
    /// Of 1000 frames so many are lost.
    loss: u64,
    seed: u64,
    steps: Vec<Step>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let bytes = prop_oneof![0u64..3_000, 3_000u64..80_000, 80_000u64..BYTES_MAX];
    // Pieces shorter than a frame, about as long, and longer than a train.
    let piece = prop_oneof![200u64..1_000, 1_300u64..1_600, Just(100_000u64), Just(BYTES_MAX)];
    let step = prop_oneof![
        4 => (0usize..2, bytes.clone(), piece, any::<bool>())
            .prop_map(|(from, bytes, piece, expected)| Step::Send { from, bytes, piece, expected }),
        1 => bytes.clone().prop_map(|bytes| Step::Put { bytes }),
        1 => bytes.prop_map(|bytes| Step::Get { bytes }),
        3 => (0u64..400).prop_map(|us| Step::Run { us }),
        1 => Just(Step::Cancel),
    ];
    let loss = prop_oneof![2 => Just(0u64), 1 => 1u64..60];
    let kind = (0..Profile::ALL.len(), any::<bool>(), any::<bool>());
    (kind, loss, any::<u64>(), prop::collection::vec(step, 1..12)).prop_map(
        |((profile, check_payload, segments), loss, seed, steps)| Plan {
            profile,
            check_payload,
            segments,
            loss,
            seed,
            steps,
        },
    )
}

/// What can be seen of a run.
#[derive(PartialEq, Debug)]
struct Seen {
    /// Frames of each node, in order: a hash of each.
    frames: Vec<(usize, u64)>,
    counters: Vec<Vec<(&'static str, u64)>>,
    completions: Vec<Vec<Completion>>,
    memory: u64,
    now: Time,
}

fn hash(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

/// Pieces of node memory, all within `start..start + BYTES_MAX`.
fn pieces(start: u64, bytes: u64, piece: u64) -> SegmentList {
    // At most as many as a list may have.
    let piece = piece.max(bytes.div_ceil(200)).max(1);
    let cut: Vec<Segment> = (0..bytes.div_ceil(piece))
        .map(|i| Segment { address: start + i * piece, bytes: piece.min(bytes - i * piece) })
        .collect();
    SegmentList::new(&cut).unwrap()
}

fn post(pair: &mut Pair, from: usize, segments: SegmentList) -> OpId {
    let (now, node) = (pair.now, &mut pair.nodes[from]);
    let send = SendDescriptor {
        to: NodeId(2 - from as u64),
        endpoint: 0,
        to_endpoint: 0,
        match_bits: 1,
        segments,
        immediate: None,
        synchronous: false,
        completion: CompletionMode::Auto,
        context: 0,
    };
    node.firmware.post_send(now, send, &mut node.memory).unwrap()
}

fn run(plan: &Plan, whole: bool) -> Seen {
    let profile =
        Profile { checksum_payload: plan.check_payload, ..Profile::ALL[plan.profile].clone() };
    let segments = plan.segments;
    let mut pair = Pair::over(&profile, LinkInfo { segments, ..LinkInfo::new(1500, true) });
    let frames = Rc::new(RefCell::new(Vec::new()));
    let (log, loss, mut x) = (Rc::clone(&frames), plan.loss, plan.seed | 1);
    pair.drop = Box::new(move |from, bytes| {
        log.borrow_mut().push((from, hash(bytes)));
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (x >> 33) % 1000 < loss
    });
    for node in &mut pair.nodes {
        node.firmware.set_whole_trains(whole);
    }
    let region = Segment { address: HALF + HALF / 2, bytes: BYTES_MAX };
    pair.nodes[1].firmware.export_region(Some(KEY), region, Rights::BOTH, 0).unwrap();
    let target = RemoteRegion { to: NodeId(2), to_endpoint: 0, key: KEY, generation: 0, offset: 0 };
    let mut last = None;
    for step in &plan.steps {
        let now = pair.now;
        match *step {
            Step::Send { from, bytes, piece, expected } => {
                if expected {
                    pair.receive(1 - from, Selector::ANY, BYTES_MAX);
                }
                last = Some((from, post(&mut pair, from, pieces(7, bytes, piece))));
                if !expected {
                    pair.receive(1 - from, Selector::ANY, BYTES_MAX);
                }
            }
            Step::Put { bytes } => {
                let node = &mut pair.nodes[0];
                let put = PutDescriptor {
                    target,
                    endpoint: 0,
                    segments: pieces(3, bytes, BYTES_MAX),
                    immediate: None,
                    completion: CompletionMode::Auto,
                    context: 0,
                };
                node.firmware.post_put(now, put, &mut node.memory).unwrap();
            }
            Step::Get { bytes } => {
                let node = &mut pair.nodes[0];
                let segments = pieces(HALF + 5, bytes, BYTES_MAX);
                let get = GetDescriptor { target, endpoint: 0, segments, context: 0 };
                node.firmware.post_get(now, get, &mut node.memory).unwrap();
            }
            Step::Run { us } => pair.run(Span::us(us)),
            Step::Cancel => {
                if let Some((from, op)) = last.take() {
                    pair.nodes[from].firmware.cancel(now, op);
                }
            }
        }
    }
    pair.run(Span::ms(2_000));
    let counters = |node: &crate::common::Node| node.firmware.counters().iter().collect();
    let frames = frames.borrow().clone();
    Seen {
        frames,
        counters: pair.nodes.iter().map(counters).collect(),
        completions: pair.nodes.iter().map(|node| node.done.clone()).collect(),
        memory: hash(pair.nodes.each_ref().map(|node| &node.memory.0)),
        now: pair.now,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn whole_trains_are_the_frames_one_by_one(plan in plans()) {
        let (whole, single) = (run(&plan, true), run(&plan, false));
        for (at, (one, other)) in whole.frames.iter().zip(&single.frames).enumerate() {
            prop_assert_eq!(one, other, "frame {}", at);
        }
        prop_assert!(whole == single, "{:?}\n{:?}", whole.counters, single.counters);
    }
}

/// The same where a train begins behind frames that are sent again: whether the batch still has room for it is asked there, too.
#[test]
fn a_train_behind_lost_frames_is_not_cut() {
    let send = |from, bytes, piece, expected| Step::Send { from, bytes, piece, expected };
    let plan = Plan {
        profile: 3,
        check_payload: false,
        segments: false,
        loss: 3,
        seed: 2_244_018_157_081_682_372,
        steps: vec![
            Step::Get { bytes: 4_526 },
            send(1, 456_019, 100_000, true),
            send(1, 46_725, 600_000, false),
            Step::Run { us: 160 },
            Step::Run { us: 242 },
            Step::Get { bytes: 116 },
            send(0, 198_015, 1_407, false),
            Step::Get { bytes: 49_223 },
            send(1, 367_147, 100_000, true),
            send(0, 116_197, 100_000, false),
            Step::Run { us: 348 },
        ],
    };
    assert_eq!(run(&plan, true), run(&plan, false));
}

/// The same for one long message without loss, of which nearly all is built in one go.
#[test]
fn a_long_message_is_mostly_middle() {
    let plan = Plan {
        profile: 0,
        check_payload: true,
        segments: false,
        loss: 0,
        seed: 1,
        steps: vec![Step::Send { from: 0, bytes: BYTES_MAX, piece: BYTES_MAX, expected: true }],
    };
    let seen = run(&plan, true);
    assert!(seen.frames.len() > 400, "{}", seen.frames.len());
    assert_eq!(seen, run(&plan, false));
    assert_eq!(seen.completions[1].len(), 1);
    assert_eq!(seen.completions[1][0].bytes, BYTES_MAX);
}

/// By a link that takes many frames in a call the same frames leave in several batches; their payload is copied together.
#[test]
fn a_long_message_leaves_in_parts() {
    let link = LinkInfo { segments: true, ..LinkInfo::new(1500, true) };
    for (bytes, parts, copied) in [(65_536, [22, 23, 0], 65_536), (BYTES_MAX, [17, 25, 0], 61_440)]
    {
        let mut pair = Pair::over(&Profile::DEFAULT, link);
        pair.receive(1, Selector::ANY, 1);
        // They know each other.
        pair.send(0, 2, 1, 1);
        pair.run(Span::ms(1));
        pair.receive(1, Selector::ANY, BYTES_MAX);
        pair.send(0, 2, 1, bytes);
        let node = &mut pair.nodes[0];
        let before = node.firmware.counters().get(Counter::BytesCopied);
        let mut batch = TransmitBatch::new(1500);
        let frames = [(); 3].map(|()| {
            batch.clear();
            node.firmware.poll_transmit(pair.now, &mut node.memory, &mut batch)
        });
        assert_eq!(frames, parts);
        assert_eq!(node.firmware.counters().get(Counter::BytesCopied) - before, copied);
    }
}

/// A link that ceases to carry frames longer than the MTU is sent none from then on, until it carries them again.
#[test]
fn long_frames_leave_only_while_their_link_carries_them() {
    let link = LinkInfo { long_frames: true, long_frames_held: 64, ..LinkInfo::new(1500, true) };
    let mut pair = Pair::over(&Profile::DEFAULT, link);
    let longest = Rc::new(Cell::new(0));
    let seen = longest.clone();
    pair.drop = Box::new(move |from, frame| {
        let sequenced = Header::parse(frame).is_ok_and(|(header, _)| header.kind.sequenced());
        if from == 0 && sequenced {
            seen.set(frame.len().max(seen.get()));
        }
        false
    });
    let carried = |pair: &mut Pair| {
        longest.set(0);
        for _ in 0..3 {
            pair.receive(1, Selector::ANY, 400_000);
            pair.send(0, 2, 1, 400_000);
            pair.run(Span::ms(50));
        }
        longest.get()
    };
    assert!(carried(&mut pair) > 10_000);
    let set = |pair: &mut Pair, link: u8, carries: bool| {
        pair.nodes[0].firmware.set_long_frames(LinkIndex(link), carries);
    };
    // A link that there is not changes nothing.
    set(&mut pair, 1, false);
    set(&mut pair, 9, true);
    assert!(carried(&mut pair) > 10_000);
    for _ in 0..2 {
        set(&mut pair, 0, false);
        assert_eq!(carried(&mut pair), 1_500);
        // A host that looks now and then says it again and again.
        (0..2).for_each(|_| set(&mut pair, 0, true));
        pair.run(Span::ms(2_000));
        assert!(carried(&mut pair) > 10_000);
    }
    // A profile that takes none is sent none, whatever its link carries.
    let mut pair = Pair::over(&Profile::EMP2001, LinkInfo::new(1500, true));
    set(&mut pair, 0, true);
    pair.receive(1, Selector::ANY, 100_000);
    pair.send(0, 2, 1, 100_000);
    pair.run(Span::ms(50));
    assert_eq!(pair.nodes[1].done.len(), 1);
    pair.check_quiet();
}
