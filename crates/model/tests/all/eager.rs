//! What leaves unasked is bounded by what the user says, in frames of the MTU and in longer ones.

use std::cell::Cell;
use std::rc::Rc;

use crate::support::{acquainted_setup, finish, wait};
use emp_firmware::{LinkInfo, Profile, Span};
use emp_model::{FabricSetup, MessageSpec, NodeSetup, Verdict, Want, World, WorldSetup};
use emp_wire::{Header, Kind};

const PIECE_BYTES: usize = 1_472;

/// Most bytes of the fields of a message's first frame.
const FIELDS_BYTES: u64 = 64;

/// Two nodes on a link that carries long frames, which are known to get through.
fn with_long_frames(profile: &Profile) -> World {
    let link = LinkInfo { segments: true, long_frames: true, ..LinkInfo::new(PIECE_BYTES, true) };
    let node = |index| NodeSetup { links: vec![link], ..NodeSetup::new(index, profile.clone()) };
    let fabric = FabricSetup { piece_bytes: PIECE_BYTES, ..FabricSetup::lan() };
    let setup = WorldSetup { fabrics: vec![fabric], nodes: (0..2).map(node).collect(), seed: 3 };
    let mut world = acquainted_setup(setup);
    for _ in 0..3 {
        world.receive(1, Want::ANY, 200_000);
        world.send(MessageSpec::plain(0, 1, 200_000));
        finish(&mut world);
    }
    world
}

/// Bytes of body and payload of frames of messages (not of blocks, which are asked for), and whether some frame was a long one.
fn count_unasked(world: &mut World) -> Rc<Cell<(u64, bool)>> {
    let unasked = Rc::new(Cell::new((0, false)));
    let counted = unasked.clone();
    world.network_mut().set_script(Some(Box::new(move |_, from, _, frame| {
        let headers = emp_wire::frames(frame).filter_map(|frame| Header::parse(frame).ok());
        for (header, _) in headers.filter(|_| from == 0) {
            let (mut bytes, long) = counted.get();
            if matches!(header.kind, Kind::Message | Kind::Data) {
                bytes += u64::from(header.length);
            }
            counted.set((bytes, long || frame.len() > PIECE_BYTES));
        }
        Some(Verdict::default())
    })));
    unasked
}

#[test]
fn no_more_leaves_unasked_than_the_user_allows() {
    for eager in [0, 70, 4_000, 30_000, 200_000, 1 << 20] {
        for bytes in [50, 3_000, 20_000, 100_000, 400_000, 2 << 20] {
            let mut world = with_long_frames(&Profile::DEFAULT.with_eager(eager));
            let unasked = count_unasked(&mut world);
            world.receive(1, Want::ANY, bytes);
            let message = world.send(MessageSpec::plain(0, 1, bytes));
            wait(&mut world, Span::ms(100), |world| world.arrived(message));
            let (left, long) = unasked.get();
            assert!(left <= eager + FIELDS_BYTES, "{left} of {bytes}, allowed were {eager}");
            if bytes <= eager {
                assert!(left >= bytes, "{left} of {bytes}, which may leave whole");
            }
            assert!(long || bytes < PIECE_BYTES as u64 * 3, "{bytes}: there are long frames");
            finish(&mut world);
        }
    }
}
