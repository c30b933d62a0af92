//! What the faults do to frames, over the in-memory fabric.

use proptest::prelude::*;

use super::*;
use crate::{Fabric, SimLink};

const TAG: u16 = 5;
/// Frames of a run: enough that every fault strikes.
const FRAMES: usize = 2000;

fn wrapped(plan: &str) -> (FaultLink<SimLink>, FaultLink<SimLink>) {
    let fabric = Fabric::new(2).expect("there are descriptors");
    let plan: FaultPlan = plan.parse().expect("a plan");
    let link = |index, plan: &FaultPlan| {
        FaultLink::new(fabric.link(index, TAG).expect("a node of the fabric"), plan)
    };
    if plan.on_receive {
        (link(0, &FaultPlan::default()), link(1, &plan))
    } else {
        (link(0, &plan), link(1, &FaultPlan::default()))
    }
}

fn frame(number: usize) -> Vec<u8> {
    let mut frame = vec![0x24; 48];
    frame[4..6].copy_from_slice(&TAG.to_be_bytes());
    frame[32..40].copy_from_slice(&(number as u64).to_be_bytes());
    // So that no damage turns one frame into another.
    frame[40..48].copy_from_slice(&(!number as u64).to_be_bytes());
    frame
}

/// Sends numbered frames in batches of ten and returns what arrives within a bounded time.
fn run(plan: &str) -> (Vec<Vec<u8>>, FaultCounters) {
    run_by(plan, |link, batch| link.send(batch))
}

/// The same, with the way that a batch is sent; it says how many frames were taken.
fn run_by(
    plan: &str,
    send: impl Fn(&mut FaultLink<SimLink>, &[TxFrame<'_>]) -> usize,
) -> (Vec<Vec<u8>>, FaultCounters) {
    let (mut a, mut b) = wrapped(plan);
    let mut got = Vec::new();
    for batch in 0..FRAMES / 10 {
        let frames: Vec<Vec<u8>> = (0..10).map(|i| frame(batch * 10 + i)).collect();
        let parts: Vec<[IoSlice<'_>; 1]> = frames.iter().map(|f| [IoSlice::new(f)]).collect();
        let to = LinkAddress::index(1);
        let batch: Vec<TxFrame<'_>> = parts.iter().map(|parts| TxFrame { to, parts }).collect();
        assert_eq!(send(&mut a, &batch), 10);
        b.receive(7, &mut |bytes, _| got.push(bytes.to_vec()));
    }
    for _ in 0..1000 {
        let quiet = a.next_due().is_none() && b.next_due().is_none();
        a.wait(Some(Duration::from_micros(100)));
        if b.receive(100, &mut |bytes, _| got.push(bytes.to_vec())) == 0 && quiet {
            break;
        }
    }
    (got, FaultLink::faults(&a).plus(FaultLink::faults(&b)))
}

fn numbers(frames: &[Vec<u8>]) -> Vec<usize> {
    let number = |frame: &Vec<u8>| frame.get(32..40)?.first_chunk::<8>().copied();
    frames.iter().filter_map(number).map(|bytes| u64::from_be_bytes(bytes) as usize).collect()
}

#[test]
fn a_quiet_plan_changes_nothing() {
    let (got, counts) = run("seed:3");
    assert_eq!(numbers(&got), (0..FRAMES).collect::<Vec<_>>());
    assert_eq!(counts, FaultCounters::default());
}

#[test]
fn drops_lose_frames_and_keep_order() {
    for on in ["send", "receive"] {
        let (got, counts) = run(&format!("drop:0.2,on:{on}"));
        assert_eq!(got.len() as u64 + counts.dropped, FRAMES as u64);
        assert!((200..600).contains(&counts.dropped), "{counts:?}");
        assert!(numbers(&got).is_sorted());
    }
}

/// A frame of so many bytes that is sent in a link's longest way; how many of `FRAMES` arrive, and the counts.
fn survivors(plan: &str, bytes: usize, on: &str) -> (usize, FaultCounters) {
    let fabric = Fabric::new(2).expect("there are descriptors").with_long_frames(61_472);
    let plan: FaultPlan = format!("{plan},on:{on}").parse().expect("a plan");
    let link = |index| FaultLink::new(fabric.link(index, TAG).expect("a node"), &plan);
    let (mut a, mut b) = (link(0), link(1));
    let whole = [&frame(1)[..], &vec![7; bytes - 48]].concat();
    let parts = [IoSlice::new(&whole)];
    let mut arrived = 0;
    for _ in 0..FRAMES {
        a.send(&[TxFrame { to: LinkAddress::index(1), parts: &parts }]);
        b.receive(9, &mut |got, _| arrived += usize::from(got == whole));
    }
    (arrived, FaultLink::faults(&a).plus(FaultLink::faults(&b)))
}

#[test]
fn a_long_frame_is_lost_with_any_of_its_pieces() {
    for on in ["send", "receive"] {
        // 41 pieces of 1500 bytes: (1 - 0.02)^41 = 0.437 of them survive.
        let (arrived, counts) = survivors("drop:0.02", 61_472, on);
        assert!((780..970).contains(&arrived), "{arrived} of {FRAMES} arrived");
        assert_eq!(counts.frames, 41 * FRAMES as u64, "each piece was judged");
        let lost = counts.dropped as f64 / counts.frames as f64;
        assert!((0.015..0.025).contains(&lost), "the loss is what the plan says: {lost}");
        // A frame of one piece is judged as ever, and so is all but the loss of a long one.
        let (arrived, counts) = survivors("drop:0.02", 1500, on);
        assert_eq!((arrived as u64 + counts.dropped, counts.frames), (2000, 2000));
        let (_, counts) = survivors("corrupt:0.02", 61_472, on);
        assert!((20..70).contains(&counts.corrupted), "{counts:?}");
    }
}

#[test]
fn duplicates_come_twice() {
    for on in ["send", "receive"] {
        let (got, counts) = run(&format!("duplicate:0.1,on:{on}"));
        assert_eq!(got.len() as u64, FRAMES as u64 + counts.duplicated);
        assert!(counts.duplicated > 100, "{counts:?}");
    }
}

#[test]
fn reordered_frames_are_overtaken_but_not_lost() {
    for on in ["send", "receive"] {
        let (got, counts) = run(&format!("reorder:0.1@4,on:{on}"));
        let mut numbers = numbers(&got);
        assert!(!numbers.is_sorted(), "{on}");
        // Held for up to four frames, and at most a batch longer where others are held too.
        for (place, number) in numbers.iter().enumerate() {
            assert!(place.abs_diff(*number) <= 14, "frame {number} came as number {place}");
        }
        numbers.sort_unstable();
        assert_eq!(numbers, (0..FRAMES).collect::<Vec<_>>());
        assert!(counts.reordered > 100, "{counts:?}");
    }
}

#[test]
fn delayed_frames_come_in_time() {
    for on in ["send", "receive"] {
        let (got, counts) = run(&format!("delay:0.1@1ms..2ms,on:{on}"));
        let mut numbers = numbers(&got);
        numbers.sort_unstable();
        assert_eq!(numbers, (0..FRAMES).collect::<Vec<_>>());
        assert!(counts.delayed > 100, "{counts:?}");
    }
}

#[test]
fn damage_is_what_the_counters_say() {
    let (got, counts) = run("corrupt:0.1,seed:9");
    let whole: Vec<Vec<u8>> = (0..FRAMES).map(frame).collect();
    let flipped = |frame: &Vec<u8>| !whole.contains(frame);
    let damaged = got.iter().filter(|frame| flipped(frame)).count() as u64;
    // A bit flipped in the tag makes the frame another node's.
    let lost = FRAMES as u64 - got.len() as u64;
    assert_eq!(damaged + lost, counts.corrupted);
    let (got, counts) = run("truncate:0.1");
    let short = got.iter().filter(|frame| frame.len() < 48).count() as u64;
    assert_eq!(short + FRAMES as u64 - got.len() as u64, counts.truncated);
    assert!(counts.truncated > 100, "{counts:?}");
}

#[test]
fn only_the_kinds_named_are_struck() {
    // The frames above are of kind 4, data.
    let (got, counts) = run("drop:1,kinds:ack+pull");
    assert_eq!((got.len(), counts.frames), (FRAMES, 0));
    let (got, counts) = run("drop:1,kinds:data");
    assert_eq!((got.len(), counts.dropped), (0, FRAMES as u64));
}

/// Frames of the plan's kinds are met wherever in a link frame they are.
#[test]
fn kinds_are_looked_for_in_all_frames_of_a_link_frame() {
    let mut two = frame(0);
    two[2..4].copy_from_slice(&16u16.to_be_bytes());
    let ack = two.len();
    two.extend_from_slice(&frame(1));
    two[ack] = 0x25;
    for on in ["send", "receive"] {
        for (named, expected) in [("ack", 0), ("data", 0), ("pull", 1)] {
            let (mut a, mut b) = wrapped(&format!("drop:1,kinds:{named},on:{on}"));
            // In two parts that do not end where a frame does.
            let parts = [IoSlice::new(&two[..50]), IoSlice::new(&two[50..])];
            assert_eq!(a.send(&[TxFrame { to: LinkAddress::index(1), parts: &parts }]), 1);
            let mut got = 0;
            for _ in 0..10 {
                b.receive(10, &mut |bytes, _| {
                    assert_eq!(bytes, two);
                    got += 1;
                });
            }
            assert_eq!(got, expected, "{named} on {on}");
        }
    }
}

#[test]
fn a_held_frame_wakes_the_waiter() {
    let (mut a, mut b) = wrapped("delay:1ms,on:receive");
    let bytes = frame(1);
    assert!(send_one(&mut a, LinkAddress::index(1), &bytes));
    assert_eq!(b.receive(1, &mut |_, _| ()), 0);
    assert!(b.next_due().is_some_and(|due| due <= Duration::from_millis(1)));
    assert!(b.wait(Some(Duration::from_secs(10))));
    assert_eq!(b.receive(1, &mut |got, _| assert_eq!(got, bytes)), 1);
    assert_eq!(b.next_due(), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]
    #[test]
    fn the_same_seed_gives_the_same_faults(seed in any::<u64>()) {
        let plan = format!("drop:0.1,duplicate:0.1,corrupt:0.1,truncate:0.1,seed:{seed}");
        prop_assert_eq!(run(&plan), run(&plan));
    }

    #[test]
    fn frames_that_are_lent_are_struck_as_others_are(seed in any::<u64>()) {
        let plan = format!("drop:0.1,duplicate:0.1,corrupt:0.1,truncate:0.1,reorder:0.1,seed:{seed}");
        let lent = run_by(&plan, |link, batch| batch.iter().filter(|f| link.send_lent(f)).count());
        prop_assert_eq!(run(&plan), lent);
    }
}

/// A link that only tells whether it was asked for frames or for their payload in place.
struct Asked {
    inner: SimLink,
    placed: bool,
}

impl Link for Asked {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn send(&mut self, batch: &[TxFrame<'_>]) -> usize {
        self.inner.send(batch)
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn FnMut(&[u8], &LinkAddress)) -> usize {
        self.placed = false;
        self.inner.receive(budget, sink)
    }

    fn receive_into(&mut self, budget: usize, sink: &mut dyn FrameSink) -> usize {
        self.placed = true;
        self.inner.receive_into(budget, sink)
    }

    fn readiness(&self) -> Option<BorrowedFd<'_>> {
        self.inner.readiness()
    }

    fn wait(&mut self, timeout: Option<Duration>) -> bool {
        self.inner.wait(timeout)
    }

    fn statistics(&self) -> LinkStatistics {
        self.inner.statistics()
    }
}

struct Takes;

impl FrameSink for Takes {
    fn frame(&mut self, _: &[u8], _: &LinkAddress) {}
}

/// Losses on the way out leave what comes in to the link's quickest way; faults of what comes need each frame.
#[test]
fn only_faults_of_what_comes_need_whole_frames() {
    for (plan, placed) in
        [("drop:0.5", true), ("drop:0.5,on:receive", false), ("drop:0.5,on:both", false)]
    {
        let fabric = Fabric::new(1).expect("there are descriptors");
        let inner = fabric.link(0, TAG).expect("a node of the fabric");
        let plan: FaultPlan = plan.parse().expect("a plan");
        let mut link = FaultLink::new(Asked { inner, placed: false }, &plan);
        link.receive_into(8, &mut Takes);
        assert_eq!(link.inner().placed, placed, "{plan}");
    }
}
