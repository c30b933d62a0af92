//! Frames become too long for the way of two paths, with traffic on it, and fit again after a while: both paths and long frames are in
//! use again at once, however often they were looked for without an answer meanwhile (`LIMIT-2`).

use crate::support::two_paths_with_long_frames;
use emp_firmware::{Counter, LinkIndex, Span};
use emp_model::{MessageSpec, Verdict, Want, World};

/// What fits, bytes, while it is less.
const SHORT: usize = 572;

/// From when long frames fit again to when they are used: some round trips and questions, and no back-off that was learned before.
const USED_WITHIN: Span = Span::ms(150);

/// Answered messages of 100 KB for so long.
fn talk(world: &mut World, span: Span) {
    let end = world.now() + span;
    while world.now() < end {
        for (from, to) in [(0, 1), (1, 0)] {
            world.receive(to, Want::ANY, 100_000);
            let message = world.send(MessageSpec::plain(from, to, 100_000));
            world.run_until(Span::ms(200), |world| world.arrived(message));
        }
        assert!(world.violation().is_none(), "{:?}", world.violation());
    }
}

fn long_frames(world: &World) -> u64 {
    (0..2).map(|node| world.firmware(node).counters().get(Counter::FramesLong)).sum()
}

#[test]
fn what_fits_again_is_used_at_once() {
    for short_ms in [20, 800] {
        let mut world = two_paths_with_long_frames();
        world.network_mut().trace_mut().switch(false);
        world.frames_may_shrink();
        world.network_mut().set_script(Some(Box::new(|_, _, _, frame| {
            Some(Verdict { drop: frame.len() > SHORT, ..Verdict::default() })
        })));
        talk(&mut world, Span::ms(30));
        for node in 0..2 {
            world.poke(node, |firmware, _, now| {
                firmware.limit_frame_bytes(now, LinkIndex(0), SHORT)
            });
        }
        talk(&mut world, Span::ms(short_ms));
        world.network_mut().set_script(None);
        for node in 0..2 {
            world.poke(node, |firmware, _, now| {
                firmware.raise_frame_bytes(now, LinkIndex(0), usize::MAX)
            });
        }
        let (start, before) = (world.now(), long_frames(&world));
        while long_frames(&world) < before + 20 {
            talk(&mut world, Span::ms(1));
            let took = world.now().since(start);
            assert!(took < USED_WITHIN, "after {short_ms} ms: {} ms", took.0 / 1_000_000);
        }
        for node in 0..2 {
            let to = world.id(1 - node);
            assert!(world.firmware(node).paths(to).len() > 1);
        }
    }
}
