use std::thread;

use emp_link::Fabric;
use emp_wire::NodeId;

use super::*;

/// Bytes of a frame, small so that a few kilobytes are many frames.
const FRAME: usize = 256;

/// Bytes of a long frame.
const LONG: usize = 1000;

/// Two ends over a fabric that sends long frames of so many bytes from either. If one does, both are told that they get through.
fn ends_with(long: [usize; 2]) -> [Raw; 2] {
    let fabric = Fabric::with_frame_bytes(2, FRAME).unwrap();
    let told = long.into_iter().max().unwrap();
    let fabrics = long.map(|long| fabric.clone().with_long_frames(long));
    let tags = [NodeId(1), NodeId(2)].map(NodeId::destination_tag);
    [0u32, 1].map(|own| {
        let other = 1 - own;
        let link = fabrics[own as usize].link(own, tags[own as usize]).unwrap();
        let to = LinkAddress::index(other);
        let mut end = Raw::new(Box::new(link), to, tags[other as usize], FRAME, told);
        // Nothing is lost here, however long a busy machine keeps a thread waiting.
        end.lost_after = Duration::from_secs(5);
        end
    })
}

fn ends() -> [Raw; 2] {
    ends_with([0; 2])
}

fn run(pattern: Pattern, size: usize, count: u64) -> Measure {
    run_over(ends(), pattern, size, count).0
}

/// Returns what was measured, and payload bytes of a frame of such messages.
fn run_over(ends: [Raw; 2], pattern: Pattern, size: usize, count: u64) -> (Measure, [usize; 2]) {
    let job = Job { pattern, size, count, window: 1 };
    let [mut active, mut passive] = ends;
    active.prepare(Role::Active, &job).unwrap();
    passive.prepare(Role::Passive, &job).unwrap();
    let other = thread::spawn(move || {
        passive.passive(&job).unwrap();
        passive
    });
    let measure = active.active(&job).unwrap();
    let passive = other.join().unwrap();
    (measure, [active, passive].map(|end| end.payload_of(size)))
}

#[test]
fn messages_longer_than_a_frame_go_in_long_ones_where_those_get_through() {
    for pattern in [Pattern::Pingpong, Pattern::Stream, Pattern::Bidir] {
        for (long, size, payload) in [
            ([LONG; 2], 10 * LONG, LONG - HEADER_BYTES),
            ([LONG; 2], FRAME, LONG - HEADER_BYTES),
            ([LONG; 2], 100, FRAME - HEADER_BYTES),
            // One way only, or none at all: both ends come to the same.
            ([LONG, 0], 10 * LONG, FRAME - HEADER_BYTES),
            ([0, LONG], 10 * LONG, FRAME - HEADER_BYTES),
            ([0, 0], 10 * LONG, FRAME - HEADER_BYTES),
        ] {
            let (measure, payloads) = run_over(ends_with(long), pattern, size, 60);
            assert_eq!(measure.arrived, 1.0, "{pattern:?} of {size}, long frames {long:?}");
            assert_eq!(payloads, [payload; 2], "{pattern:?} of {size}, long frames {long:?}");
        }
    }
}

#[test]
fn pingpongs_of_one_frame_and_of_many_come_back() {
    for size in [1, 32, FRAME, 10 * FRAME] {
        assert_eq!(run(Pattern::Pingpong, size, 50).arrived, 1.0, "size {size}");
    }
}

#[test]
fn streams_arrive_one_way_and_both() {
    for pattern in [Pattern::Stream, Pattern::Rate, Pattern::Bidir] {
        for size in [8, 5 * FRAME] {
            let arrived = run(pattern, size, 300).arrived;
            assert_eq!(arrived, 1.0, "{pattern:?} of {size}");
        }
    }
}

#[test]
fn jobs_follow_one_another() {
    let jobs = [Pattern::Stream, Pattern::Pingpong, Pattern::Bidir, Pattern::Pingpong]
        .map(|pattern| Job { pattern, size: 600, count: 40, window: 1 });
    let [mut active, mut passive] = ends();
    for job in jobs {
        active.prepare(Role::Active, &job).unwrap();
        passive.prepare(Role::Passive, &job).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| passive.passive(&job).unwrap());
            assert_eq!(active.active(&job).unwrap().arrived, 1.0);
        });
    }
}
