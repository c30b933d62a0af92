//! Something on the way loses long frames and lets short ones pass: the longest that gets through is found and said, and nothing is
//! lost (`LIMIT-3`, RFC 8899).

mod support;

use emp_firmware::{Counter, Profile, Span};
use emp_model::{MessageSpec, Want};
use support::{acquainted, count, finish, wait};

#[test]
fn the_longest_frame_that_gets_through_is_found() {
    for bytes in [1_400, 1_000, 600, 300] {
        let mut world = acquainted(2, &Profile::DEFAULT);
        world.network_mut().lose_longer(0, 0, 1, bytes);
        for length in [20_000, 200_000, 10] {
            world.receive(1, Want::ANY, length);
            let message = world.send(MessageSpec::plain(0, 1, length));
            let took = wait(&mut world, Span::ms(3_000), |world| world.arrived(message));
            assert!(took < Span::ms(1_500), "{length} bytes took {} ms", took.as_us() / 1_000);
        }
        assert_eq!(
            count(&world, 0, Counter::PathsLimited),
            1,
            "frames over {bytes} bytes are lost"
        );
        assert_eq!(count(&world, 1, Counter::PathsLimited), 0, "the other way is as it was");
        // What follows is cut to fit: nothing is lost any more.
        let before = count(&world, 0, Counter::FramesResent);
        world.receive(1, Want::ANY, 50_000);
        let message = world.send(MessageSpec::plain(0, 1, 50_000));
        wait(&mut world, Span::ms(100), |world| world.arrived(message));
        assert_eq!(count(&world, 0, Counter::FramesResent), before);
        finish(&mut world);
    }
}

#[test]
fn other_losses_are_not_taken_for_it() {
    let mut world = acquainted(2, &Profile::DEFAULT);
    // Nothing at all gets through for a while.
    world.receive(1, Want::ANY, 20_000);
    world.network_mut().cut(0, 0, 1, true);
    let message = world.send(MessageSpec::plain(0, 1, 20_000));
    world.pass(Span::ms(1_500));
    world.network_mut().cut(0, 0, 1, false);
    wait(&mut world, Span::ms(1_000), |world| world.arrived(message));
    world.pass(Span::ms(500));
    assert_eq!(count(&world, 0, Counter::PathsLimited), 0);
    finish(&mut world);
}
