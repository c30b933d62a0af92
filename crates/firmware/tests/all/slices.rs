//! Frames that arrive in slices (`LIMIT-1`): what is said of them.

use crate::common::forge::*;
use emp_firmware::*;
use emp_wire::{Flags, Kind, SLICE_STEP_BYTES, SliceWord};

/// A copy of a frame that was taken is acknowledged again if its first slice comes, or its last: one of them may be lost. Those between
/// them say nothing, or each copy would be answered as often as it has slices.
#[test]
fn copies_of_what_was_taken_are_acknowledged_by_their_ends() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut peer = Forged::met(2, &mut real);
    real.receive(Selector::ANY, 1_300);
    let sequence = peer.sequence;
    let frame = peer.message(Flags(0), None, 7, &[5; 1_300]);
    let step = 4 * SLICE_STEP_BYTES;
    let slices = frame.len().div_ceil(step);
    assert!(slices >= 4, "{slices}");
    let acknowledged = |real: &mut Real, place: usize| {
        let (from, to) = (place * step, frame.len().min((place + 1) * step));
        let word = SliceWord { offset: from as u16, total: frame.len() as u16 }.emit();
        real.hear(&peer, &peer.frame(Kind::Slice, Flags(0), sequence, word, &frame[from..to]));
        let said = of_kind(&real.pass(Span::ms(1)), Kind::Ack);
        said.iter().filter(|ack| ack.header.acknowledge.0 == sequence + 1).count()
    };
    let first: Vec<usize> = (0..slices).map(|place| acknowledged(&mut real, place)).collect();
    assert_eq!((real.done.len(), first[slices - 1]), (1, 1), "{first:?}");
    for place in 0..slices {
        let ends = place == 0 || place == slices - 1;
        assert_eq!(acknowledged(&mut real, place), usize::from(ends), "slice {place} again");
    }
}

/// A frame ahead of one that is missing is put together by a profile that takes frames out of their order, and by no other (`SLICE-2`).
#[test]
fn frames_ahead_are_put_together_where_order_does_not_matter() {
    for (profile, taken) in [(Profile::DEFAULT, true), (Profile::VMMC2, false)] {
        let mut real = Real::new(&profile);
        let mut peer = Forged::met(2, &mut real);
        real.receive(Selector::ANY, 600);
        // The frame before it does not come.
        peer.sequence += 1;
        let sequence = peer.sequence;
        let frame = peer.message(Flags(0), None, 7, &[5; 600]);
        for from in (0..frame.len()).step_by(4 * SLICE_STEP_BYTES) {
            let to = frame.len().min(from + 4 * SLICE_STEP_BYTES);
            let word = SliceWord { offset: from as u16, total: frame.len() as u16 }.emit();
            real.hear(&peer, &peer.frame(Kind::Slice, Flags(0), sequence, word, &frame[from..to]));
        }
        assert_eq!(
            (real.done.len() == 1, real.count(Counter::FramesAssembled) == 1),
            (taken, taken)
        );
    }
}

/// What is put together is its slices' sender's, or nothing (`SLICE-2`): whoever lets frames out by the sender that they name looks at the
/// slices alone.
#[test]
fn slices_of_one_node_bring_no_frame_of_another() {
    let mut real = Real::new(&Profile::DEFAULT);
    let mut victim = Forged::met(2, &mut real);
    let mut thief = Forged::met(3, &mut real);
    real.receive(Selector::ANY, 600);
    real.receive(Selector::ANY, 600);
    let slice = |peer: &Forged, frame: &[u8], sequence: u32| {
        let word = SliceWord { offset: 0, total: frame.len() as u16 }.emit();
        peer.frame(Kind::Slice, Flags(0), sequence, word, frame)
    };
    let sequence = thief.sequence;
    assert_eq!(sequence, victim.sequence, "else the slice is dropped for that");
    let forged = victim.message(Flags(0), None, 7, &[5; 600]);
    real.hear(&thief, &slice(&thief, &forged, sequence));
    assert_eq!((real.done.len(), real.count(Counter::DropSlice)), (0, 1));
    let own = thief.message(Flags(0), None, 7, &[5; 600]);
    real.hear(&thief, &slice(&thief, &own, sequence));
    assert_eq!((real.done.len(), real.count(Counter::DropSlice)), (1, 1));
}
