//! Interfaces whose MTU changes while nodes meet and talk (`LIMIT-1`, `SLICE-1`).

use crate::support::{count, finish, wait};
use emp_firmware::{Counter, Profile, Span};
use emp_model::{Action, MessageSpec, Want, World, WorldSetup};

/// The first frame of a message says who its sender is, its slices do not: who is not known yet is asked, and then taken for known.
#[test]
fn nodes_meet_although_the_first_frame_is_sliced() {
    for profile in Profile::ALL {
        let mut world = World::new(WorldSetup::lan(2, profile));
        world.network_mut().trace_mut().switch(true);
        world.receive(1, Want::ANY, 3_000);
        // Frames of the MTU are lost from the start; the receiver's host notices a little later.
        world.network_mut().set_limit(1, Some(900), 0);
        let message = world.send(MessageSpec::plain(0, 1, 3_000));
        world.pass(Span::ms(3));
        world.apply(Action::SetMtu { node: 1, frame_bytes: Some(900) });
        let took = wait(&mut world, Span::ms(5_000), |world| world.arrived(message));
        assert!(took < Span::ms(500), "{}: {} ms", profile.name, took.as_us() / 1_000);
        assert!(count(&world, 0, Counter::FramesSliced) > 0, "{}", profile.name);
        finish(&mut world);
    }
}
