//! Trains that a link places, or fetches in one piece, are taken as frames that it hands up: the same frames by either way leave the same counters, the
//! same bytes, the same completions, and the same answers. Also if frames are lost, repeated, swapped, changed, or come in the
//! middle of another train; and nothing is ever written outside the posted buffer.

use crate::common::{HALF, Memory, Pair};
use emp_firmware::*;
use emp_wire::{HEADER_BYTES, Header, LinkAddress, NodeId};
use proptest::prelude::*;

const KEY: u64 = 0xFEED;
const BYTES_MAX: u64 = 400_000;
/// Frames of one merged train, as the kernel merges them.
const MERGED_MAX: usize = 44;

#[derive(Clone, Debug)]
enum Step {
    Send {
        bytes: u64,
        capacity: u64,
        piece: u64,
        expected: bool,
    },
    Get {
        bytes: u64,
    },
    Put {
        bytes: u64,
    },
    Run {
        rounds: usize,
    },
    /// The receive that was posted last is cancelled.
    Cancel,
}

/// What may happen to frames on the way, each in so many of a thousand.
#[derive(Clone, Copy, Debug, Default)]
struct Trouble {
    lost: u64,
    twice: u64,
    swapped: u64,
    changed: u64,
    foreign: u64,
    seed: u64,
}

#[derive(Clone, Debug)]
struct Plan {
    profile: usize,
    check_payload: bool,
    trouble: Trouble,
    steps: Vec<Step>,
}

fn plans() -> impl Strategy<Value = Plan> {
    let bytes = prop_oneof![0u64..3_000, 3_000u64..80_000, 80_000u64..BYTES_MAX];
    let piece = prop_oneof![200u64..1_000, 1_300u64..1_600, Just(20_000u64), Just(BYTES_MAX)];
    let capacity = prop_oneof![3 => Just(BYTES_MAX), 1 => 0u64..BYTES_MAX];
    let step = prop_oneof![
        5 => (bytes.clone(), capacity, piece, any::<bool>()).prop_map(
            |(bytes, capacity, piece, expected)| Step::Send { bytes, capacity, piece, expected }
        ),
        2 => bytes.clone().prop_map(|bytes| Step::Get { bytes }),
        1 => bytes.prop_map(|bytes| Step::Put { bytes }),
        3 => (0usize..12).prop_map(|rounds| Step::Run { rounds }),
        1 => Just(Step::Cancel),
    ];
    let few = || prop_oneof![2 => Just(0u64), 1 => 1u64..40];
    let trouble = (few(), few(), few(), few(), few(), any::<u64>()).prop_map(
        |(lost, twice, swapped, changed, foreign, seed)| Trouble {
            lost,
            twice,
            swapped,
            changed,
            foreign,
            seed,
        },
    );
    (0..Profile::ALL.len(), any::<bool>(), trouble, prop::collection::vec(step, 1..8)).prop_map(
        |(profile, check_payload, trouble, steps)| Plan { profile, check_payload, trouble, steps },
    )
}

struct Dice(u64);

impl Dice {
    fn roll(&mut self, of_thousand: u64) -> bool {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % 1000 < of_thousand
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// What becomes of frames on the way.
fn on_the_way(frames: Vec<Vec<u8>>, trouble: &Trouble, dice: &mut Dice) -> Vec<Vec<u8>> {
    let mut out: Vec<Vec<u8>> = Vec::new();
    for mut frame in frames {
        if dice.roll(trouble.lost) {
            continue;
        }
        if dice.roll(trouble.twice) {
            out.push(frame.clone());
        }
        if dice.roll(trouble.changed) {
            let at = dice.below(frame.len());
            frame[at] ^= 1 << dice.below(8);
        }
        if dice.roll(trouble.foreign) {
            // As long as its neighbours, and nothing that anyone sent.
            out.push((0..frame.len()).map(|i| (i * 7) as u8).collect());
        }
        out.push(frame);
        let end = out.len();
        if end > 1 && dice.roll(trouble.swapped) {
            out.swap(end - 1, end - 2);
        }
    }
    out
}

/// Runs of frames that the kernel would merge: one length, at most one shorter at the end.
fn merged(frames: &[Vec<u8>]) -> Vec<&[Vec<u8>]> {
    let mut rest = frames;
    let mut trains = Vec::new();
    while let Some(first) = rest.first() {
        let alike = rest.iter().take(MERGED_MAX).take_while(|f| f.len() == first.len()).count();
        let tail = rest.get(alike).is_some_and(|f| f.len() < first.len() && alike < MERGED_MAX);
        let (train, others) = rest.split_at(alike + usize::from(tail));
        trains.push(train);
        rest = others;
    }
    trains
}

/// Hands frames to a node as a link that places trains does. Returns how many frames landed.
fn give_landing(pair: &mut Pair, to: usize, frames: &[Vec<u8>]) -> usize {
    let from = LinkAddress::index(pair.address[1 - to]);
    let (now, node) = (pair.now, &mut pair.nodes[to]);
    let mut landed = 0;
    for train in merged(frames) {
        let head: [u8; HEADER_BYTES] = *train[0].first_chunk().expect("longer than a head");
        let bytes = train.iter().map(Vec::len).sum();
        let frame_bytes = train[0].len();
        let arriving = Arriving { link: LinkIndex(0), from, head: &head, frame_bytes, bytes };
        let mut rest = train;
        if train.len() > 1
            && let Some(landing) = node.firmware.plan_landing(&arriving)
        {
            let (placed, others) = train.split_at(landing.frames());
            place(&mut node.memory, &landing, placed);
            let heads: Vec<_> = placed.iter().map(|f| *f.first_chunk().expect("a head")).collect();
            node.firmware.take_landed(now, &landing, &heads, &mut node.memory);
            (rest, landed) = (others, landed + placed.len());
        }
        for frame in rest {
            node.firmware.handle_frame(now, LinkIndex(0), from, frame, &mut node.memory);
        }
    }
    landed
}

/// The same, each frame by itself, as long ones come: also those in whose place others are missing. Returns how many of these landed.
fn give_landing_alone(pair: &mut Pair, to: usize, frames: &[Vec<u8>]) -> usize {
    let from = LinkAddress::index(pair.address[1 - to]);
    let (now, node) = (pair.now, &mut pair.nodes[to]);
    let (mut landed, mut next) = (0, None);
    for frame in frames {
        let head: [u8; HEADER_BYTES] = *frame.first_chunk().expect("longer than a head");
        let bytes = frame.len();
        let arriving =
            Arriving { link: LinkIndex(0), from, head: &head, frame_bytes: bytes, bytes };
        let sequence = u32::from_be_bytes(*head[16..].first_chunk().expect("4 of 16"));
        if let Some(landing) = node.firmware.plan_landing(&arriving) {
            place(&mut node.memory, &landing, std::slice::from_ref(frame));
            node.firmware.take_landed(now, &landing, &[head], &mut node.memory);
            landed += usize::from(next.is_some_and(|next| next != sequence));
        } else {
            node.firmware.handle_frame(now, LinkIndex(0), from, frame, &mut node.memory);
        }
        next = Some(sequence.wrapping_add(1));
    }
    landed
}

/// Hands frames to a node as a link that fetches trains in one piece does. Returns how many were taken as trains.
fn give_trains(pair: &mut Pair, to: usize, frames: &[Vec<u8>]) -> usize {
    let from = LinkAddress::index(pair.address[1 - to]);
    let (now, node) = (pair.now, &mut pair.nodes[to]);
    let mut taken = 0;
    for train in merged(frames) {
        let (frame_bytes, bytes) = (train[0].len(), train.concat());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let from = (LinkIndex(0), from);
            let many = node.firmware.handle_train(now, from, rest, frame_bytes, &mut node.memory);
            assert!(many <= rest.len() && (many % frame_bytes == 0 || many == rest.len()));
            taken += many.div_ceil(frame_bytes);
            if many == 0 {
                let (frame, others) = rest.split_at(frame_bytes.min(rest.len()));
                let (link, from) = from;
                node.firmware.handle_frame(now, link, from, frame, &mut node.memory);
                rest = others;
            } else {
                rest = &rest[many..];
            }
        }
    }
    taken
}

/// What the kernel does.
fn place(memory: &mut Memory, landing: &Landing, frames: &[Vec<u8>]) {
    let Segment { address, bytes } = landing.memory();
    let payload: Vec<u8> = frames.iter().flat_map(|f| f[HEADER_BYTES..].to_vec()).collect();
    assert_eq!(payload.len() as u64, bytes, "frames and memory agree");
    let inside = |start: u64, end: u64| address >= start && address + bytes <= end;
    assert!(inside(HALF, HALF + BYTES_MAX), "only posted memory is named");
    let start = address as usize;
    memory.0[start..start + payload.len()].copy_from_slice(&payload);
}

fn give_single(pair: &mut Pair, to: usize, frames: &[Vec<u8>]) {
    for frame in frames {
        crate::common::give(pair, to, frame);
    }
}

/// All counters but those that say which way bytes went.
fn counters(pair: &Pair, node: usize) -> Vec<(&'static str, u64)> {
    let ways = [Counter::BytesLanded.name(), Counter::BytesCopied.name()];
    let all = pair.nodes[node].firmware.counters();
    all.iter().filter(|(name, _)| !ways.contains(name)).collect()
}

fn pieces(start: u64, bytes: u64, piece: u64) -> SegmentList {
    let piece = piece.max(bytes.div_ceil(200)).max(1);
    let cut: Vec<Segment> = (0..bytes.div_ceil(piece))
        .map(|i| Segment { address: start + i * piece, bytes: piece.min(bytes - i * piece) })
        .collect();
    SegmentList::new(&cut).unwrap()
}

/// How node 1 of the first pair gets trains. Returns how many frames it took as such.
type Deliver = fn(&mut Pair, usize, &[Vec<u8>]) -> usize;

/// The two pairs, which get the same posts and the same frames; node 1 of the first takes trains in one go.
struct Twins {
    way: Deliver,
    pairs: [Pair; 2],
    dice: [Dice; 2],
    trouble: Trouble,
    landed: usize,
    last: Option<OpId>,
}

impl Twins {
    fn new(plan: &Plan, way: Deliver) -> Self {
        let profile =
            Profile { checksum_payload: plan.check_payload, ..Profile::ALL[plan.profile].clone() };
        let pairs = [0, 1].map(|_| {
            let mut pair = Pair::new(&profile);
            let region = Segment { address: HALF + HALF / 2, bytes: BYTES_MAX };
            for node in &mut pair.nodes {
                node.firmware.export_region(Some(KEY), region, Rights::BOTH, 0).unwrap();
            }
            pair
        });
        let seed = plan.trouble.seed | 1;
        let dice = [Dice(seed), Dice(seed ^ 0xABCD)];
        Self { way, pairs, dice, trouble: plan.trouble, landed: 0, last: None }
    }

    fn post(&mut self, step: &Step) {
        let mut ops = Vec::new();
        for pair in &mut self.pairs {
            let now = pair.now;
            match *step {
                Step::Send { bytes, capacity, piece, expected } => {
                    let mut receive = |pair: &mut Pair| {
                        let node = &mut pair.nodes[1];
                        let receive = ReceiveDescriptor {
                            endpoint: 0,
                            selector: Selector::ANY,
                            segments: pieces(HALF, capacity, piece),
                            claim: None,
                            context: 0,
                        };
                        ops.push(node.firmware.post_receive(now, receive, &mut node.memory));
                    };
                    if expected {
                        receive(pair);
                    }
                    pair.send(0, 2, 1, bytes);
                    if !expected {
                        receive(pair);
                    }
                }
                Step::Get { bytes } => {
                    let target = region_of(1);
                    let segments = pieces(HALF + 5, bytes.min(BYTES_MAX - 5), BYTES_MAX);
                    let get = GetDescriptor { target, endpoint: 0, segments, context: 0 };
                    let node = &mut pair.nodes[1];
                    node.firmware.post_get(now, get, &mut node.memory).unwrap();
                }
                Step::Put { bytes } => {
                    let node = &mut pair.nodes[0];
                    let put = PutDescriptor {
                        target: region_of(2),
                        endpoint: 0,
                        segments: pieces(3, bytes, BYTES_MAX),
                        immediate: None,
                        completion: CompletionMode::Auto,
                        context: 0,
                    };
                    node.firmware.post_put(now, put, &mut node.memory).unwrap();
                }
                Step::Run { .. } => {}
                Step::Cancel => {
                    if let Some(op) = self.last {
                        pair.nodes[1].firmware.cancel(now, op);
                    }
                }
            }
        }
        self.last = ops.first().and_then(|op| (*op).ok()).or(self.last);
    }

    /// One exchange in both pairs. Fails if they differ; false: nothing moved.
    fn round(&mut self) -> Result<bool, TestCaseError> {
        let mut moved = false;
        let frames: Vec<[Vec<Vec<u8>>; 2]> = self
            .pairs
            .iter_mut()
            .map(|pair| [0, 1].map(|node| crate::common::frames_of(pair, node)))
            .collect();
        for (from, sent) in frames[0].iter().enumerate() {
            prop_assert!(*sent == frames[1][from], "node {} sends others", from);
            let arriving = on_the_way(sent.clone(), &self.trouble, &mut self.dice[from]);
            moved |= !sent.is_empty();
            if from == 0 {
                self.landed += (self.way)(&mut self.pairs[0], 1, &arriving);
            } else {
                give_single(&mut self.pairs[0], 0, &arriving);
            }
            give_single(&mut self.pairs[1], 1 - from, &arriving);
        }
        for pair in &mut self.pairs {
            for node in &mut pair.nodes {
                while let Some(completion) = node.firmware.poll_completion() {
                    node.done.push(completion);
                }
            }
        }
        let [one, other] = &mut self.pairs;
        for node in 0..2 {
            prop_assert_eq!(counters(one, node), counters(other, node));
            prop_assert!(one.nodes[node].done == other.nodes[node].done);
            let times = [&*one, &*other].map(|pair| pair.nodes[node].firmware.poll_timeout());
            prop_assert_eq!(times[0], times[1]);
        }
        let next = one.nodes.iter().filter_map(|node| node.firmware.poll_timeout()).min();
        let now = if moved { one.now + Span::us(5) } else { one.now.max(next.unwrap_or(one.now)) };
        (one.now, other.now) = (now, now);
        Ok(moved || next.is_some())
    }
}

fn region_of(node: u64) -> RemoteRegion {
    RemoteRegion { to: NodeId(node), to_endpoint: 0, key: KEY, generation: 0, offset: 0 }
}

fn run(plan: &Plan, way: Deliver) -> Result<Twins, TestCaseError> {
    let mut twins = Twins::new(plan, way);
    for step in &plan.steps {
        twins.post(step);
        if let Step::Run { rounds } = step {
            for _ in 0..*rounds {
                twins.round()?;
            }
        }
    }
    // Enough for what is posted; a watched receive that nothing comes for would go on for ever.
    for _ in 0..1_500 {
        if !twins.round()? {
            break;
        }
    }
    let outside = |pair: &Pair| {
        let memory = &pair.nodes[1].memory.0;
        [memory[..HALF as usize].to_vec(), memory[(HALF + BYTES_MAX) as usize..].to_vec()]
    };
    prop_assert!(outside(&twins.pairs[0]) == outside(&twins.pairs[1]), "outside what was posted");
    // What was not given back is undefined in between, and the same in the end: everything that completed is.
    let done = &twins.pairs[0].nodes[1].done;
    let quiet = twins.pairs.iter().all(|pair| !pair.nodes[1].firmware.is_receiving());
    if quiet && done.iter().all(|completion| completion.status == Status::Ok) {
        let [one, other] = &twins.pairs;
        prop_assert!(one.nodes[1].memory.0 == other.nodes[1].memory.0, "other bytes");
    }
    Ok(twins)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn landed_trains_are_taken_as_frames_are(plan in plans()) {
        run(&plan, give_landing)?;
    }

    #[test]
    fn frames_that_land_alone_are_taken_as_others_are(plan in plans()) {
        run(&plan, give_landing_alone)?;
    }

    #[test]
    fn trains_in_one_piece_are_taken_as_frames_are(plan in plans()) {
        run(&plan, give_trains)?;
    }
}

/// The tests above mean something only if trains are taken as such.
#[test]
fn of_a_long_message_nearly_all_is_taken_in_one_go() {
    let send =
        Step::Send { bytes: BYTES_MAX, capacity: BYTES_MAX, piece: BYTES_MAX, expected: true };
    let plan = Plan {
        profile: 0,
        check_payload: true,
        trouble: Trouble::default(),
        steps: vec![send, Step::Run { rounds: 400 }],
    };
    for (way, copied) in
        [(give_landing as Deliver, 0..BYTES_MAX / 4), (give_trains, BYTES_MAX..BYTES_MAX + 1)]
    {
        let twins = run(&plan, way).unwrap();
        let counters = twins.pairs[0].nodes[1].firmware.counters();
        let get = |counter| counters.get(counter);
        assert_eq!(get(Counter::BytesPlaced), BYTES_MAX);
        let by_hand =
            get(Counter::BytesPlaced) - get(Counter::BytesLanded) + get(Counter::BytesCopied);
        assert!(copied.contains(&by_hand), "{by_hand} bytes by hand");
        assert!(twins.landed > 200, "{} frames", twins.landed);
    }
}

/// What is said of the frame behind one is true of it.
#[test]
fn the_length_of_the_frame_behind_is_known() {
    for bytes in [10_000, 70_000, BYTES_MAX - 123] {
        let mut pair = Pair::new(&Profile::DEFAULT);
        let node = &mut pair.nodes[1];
        let receive = ReceiveDescriptor {
            endpoint: 0,
            selector: Selector::ANY,
            segments: pieces(HALF, BYTES_MAX, BYTES_MAX),
            claim: None,
            context: 0,
        };
        node.firmware.post_receive(pair.now, receive, &mut node.memory).unwrap();
        pair.send(0, 2, 1, bytes);
        let (mut right, mut said) = (0, None);
        for _ in 0..400 {
            for frame in crate::common::frames_of(&mut pair, 0) {
                let header = Header::parse_head(frame.first_chunk().unwrap()).unwrap();
                if let Some((sequence, payload)) = said.take()
                    && header.sequence == sequence
                {
                    assert_eq!(frame.len() - HEADER_BYTES, payload, "of {bytes}");
                    right += 1;
                }
                crate::common::give(&mut pair, 1, &frame);
                let behind = pair.nodes[1].firmware.following(frame.first_chunk().unwrap());
                said = behind.map(|payload| (header.sequence.plus(1), payload));
            }
            for frame in crate::common::frames_of(&mut pair, 1) {
                crate::common::give(&mut pair, 0, &frame);
            }
            pair.now = pair.now + Span::us(5);
        }
        let done = pair.nodes[1].firmware.poll_completion().expect("it is all here");
        assert_eq!((done.status, done.bytes), (Status::Ok, bytes));
        // A message that comes whole in usual frames is not placed, and nothing is said of it.
        assert!(if bytes > 60_000 { right > 20 } else { right == 0 }, "{right} of {bytes}");
    }
}

/// While a frame is missing those behind it land all the same, and so does what is sent again.
#[test]
fn what_comes_behind_a_lost_frame_lands() {
    let send =
        Step::Send { bytes: BYTES_MAX, capacity: BYTES_MAX, piece: BYTES_MAX, expected: true };
    let plan = Plan {
        profile: 0,
        check_payload: true,
        trouble: Trouble { lost: 20, swapped: 20, seed: 5, ..Trouble::default() },
        steps: vec![send, Step::Run { rounds: 400 }],
    };
    let twins = run(&plan, give_landing_alone).unwrap();
    let counters = twins.pairs[0].nodes[1].firmware.counters();
    assert_eq!(counters.get(Counter::BytesPlaced), BYTES_MAX);
    // All but the message's first frame, of the usual length.
    assert!(counters.get(Counter::BytesLanded) > BYTES_MAX - 1_500);
    assert!(twins.landed > 10, "{} frames", twins.landed);
}
