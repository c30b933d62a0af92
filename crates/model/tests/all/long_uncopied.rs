//! Messages of one long frame that leave with their post and stay with their host until they are acknowledged (decision 31).

use crate::support::{count, finish, two_paths_with_long_frames};
use emp_firmware::limits::FRAME_SEGMENTS_MAX;
use emp_firmware::{CompletionMode, Counter, Span};
use emp_model::{FaultPlan, MessageSpec, Ppm, Rates, Verdict, Want};
use emp_wire::{Header, Kind};

/// How sends that are not over with their post are asked for: 40 KB is too long to be copied, and what is to be delivered never is.
const UNCOPIED: [(CompletionMode, u64); 3] = [
    (CompletionMode::Auto, 40_000),
    (CompletionMode::Delivered, 40_000),
    (CompletionMode::Delivered, 30_000),
];

#[test]
fn they_leave_as_one_frame_and_nothing_of_them_is_copied() {
    for (completion, bytes) in UNCOPIED {
        let mut world = two_paths_with_long_frames();
        let counters = [Counter::FramesLong, Counter::BytesCopied];
        let before = counters.map(|counter| count(&world, 0, counter));
        world.receive(1, Want::ANY, bytes);
        world.send(MessageSpec { completion, ..MessageSpec::plain(0, 1, bytes) });
        assert_eq!(count(&world, 0, Counter::FramesLong), before[0] + 1, "with its post");
        finish(&mut world);
        assert_eq!(counters.map(|counter| count(&world, 0, counter)), [before[0] + 1, before[1]]);
    }
}

/// What a receiver has no room for is pulled later, by the path for what is so long, in frames as long.
#[test]
fn those_that_are_pulled_after_all_come_by_bulk() {
    for (completion, bytes) in UNCOPIED {
        let mut world = two_paths_with_long_frames();
        for _ in 0..200 {
            world.send(MessageSpec { completion, ..MessageSpec::plain(0, 1, bytes) });
            world.pass(Span::ms(1));
        }
        let pulls = count(&world, 1, Counter::PullsSent);
        let bulk = count(&world, 0, Counter::FramesFurther);
        for _ in 0..200 {
            world.receive(1, Want::ANY, bytes);
        }
        finish(&mut world);
        assert_eq!(count(&world, 0, Counter::FramesSliced), 0);
        assert!(count(&world, 1, Counter::PullsSent) > pulls + 20, "the pool was full");
        assert!(count(&world, 0, Counter::FramesFurther) > bulk + 20);
    }
}

/// Of more pieces than a frame can name: what is sent again could not be one frame, as it is not copied next to a header. Such a one had
/// stayed behind for ever, and all that followed with it (`emp sim --seed 3105`).
#[test]
fn those_of_many_pieces_are_sent_again_all_the_same() {
    for (completion, bytes) in UNCOPIED {
        let mut world = two_paths_with_long_frames();
        let mut lost = 0;
        world.network_mut().set_script(Some(Box::new(move |_, from, _, frame| {
            let first = from == 0
                && Header::parse(frame).is_ok_and(|(header, _)| header.kind == Kind::Message);
            lost += u32::from(first);
            (first && lost == 1).then(|| Verdict { drop: true, ..Verdict::default() })
        })));
        for pieces in [FRAME_SEGMENTS_MAX + 1, FRAME_SEGMENTS_MAX] {
            world.receive(1, Want::ANY, bytes);
            world.send(MessageSpec { completion, pieces, ..MessageSpec::plain(0, 1, bytes) });
            finish(&mut world);
        }
        assert!(count(&world, 0, Counter::FramesResent) > 0, "one was lost");
    }
}

#[test]
fn losses_and_repetitions_do_them_no_harm() {
    for (completion, most) in UNCOPIED {
        let mut world = two_paths_with_long_frames();
        let (drop, duplicate, reorder) = (Ppm(20_000), Ppm(10_000), Ppm(10_000));
        let rates = Rates { drop, duplicate, reorder, ..Rates::default() };
        world.network_mut().set_faults(1, FaultPlan::uniform(rates));
        for round in 0..200 {
            for i in 0..=round % 4 {
                let bytes = 3_000 + (round * 997 + i * 7_919) % (most - 3_000);
                let message =
                    |from, to| MessageSpec { completion, ..MessageSpec::plain(from, to, bytes) };
                // Some before their receives.
                let early = round % 3 == 0;
                if early {
                    world.send(message(0, 1));
                }
                world.receive(1, Want::ANY, bytes);
                if !early {
                    world.send(message(0, 1));
                }
                world.receive(0, Want::ANY, bytes);
                world.send(message(1, 0));
            }
            finish(&mut world);
        }
        assert!(count(&world, 0, Counter::FramesResent) > 5);
    }
}
