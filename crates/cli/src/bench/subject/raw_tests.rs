use std::thread;

use emp_link::Fabric;
use emp_wire::NodeId;

use super::*;

/// Bytes of a frame, small so that a few kilobytes are many frames.
const FRAME: usize = 256;

fn ends() -> [Raw; 2] {
    let fabric = Fabric::with_frame_bytes(2, FRAME).unwrap();
    let tags = [NodeId(1), NodeId(2)].map(NodeId::destination_tag);
    [0u32, 1].map(|own| {
        let other = 1 - own;
        let link = fabric.link(own, tags[own as usize]).unwrap();
        let to = LinkAddress::index(other);
        let mut end = Raw::new(Box::new(link), to, tags[other as usize], FRAME);
        // Nothing is lost here, however long a busy machine keeps a thread waiting.
        end.lost_after = Duration::from_secs(5);
        end
    })
}

fn run(pattern: Pattern, size: usize, count: u64) -> Measure {
    let job = Job { pattern, size, count, window: 1 };
    let [mut active, mut passive] = ends();
    active.prepare(Role::Active, &job).unwrap();
    passive.prepare(Role::Passive, &job).unwrap();
    let other = thread::spawn(move || passive.passive(&job).unwrap());
    let measure = active.active(&job).unwrap();
    other.join().unwrap();
    measure
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
