use crate::tables::by_peer::Links;
use emp_wire::DoneStatus;

use super::*;

/// One that served another peer is as new for the next. Every field is named, so that none is forgotten.
#[test]
#[expect(clippy::too_many_lines, reason = "each field is named")]
fn a_restart_forgets_everything() {
    let now = Time(5);
    let mut active = Active::new();
    active.repairs = 4;
    (active.since_request, active.refusals, active.credit) = (1, 2, 3);
    (active.unacked, active.requested) = (Sequence(7), Sequence(8));
    (active.train_next, active.train_end) = (Sequence(9), Sequence(10));
    let flight = Flight { in_flight: 1, lost: 1, backoff: 9, strikes: 4, ..Flight::default() };
    let (waiting, lost, further) = (8, 4, true);
    active.flights = Flights { each: [flight; crate::limits::PATHS_MAX], waiting, lost, further };
    active.window[3] = Frame { state: FrameState::Lost, load: Load::SHORT, ..Frame::default() };
    active.controls.push_back(Control::Done { handle: 1, status: DoneStatus::Complete });
    active.pending = [1].into();
    Links::default().push_back(&mut active.awaiting, 2);
    active.blocks.push_back(What::Block { message: 1, pull: 1, offset: 0, bytes: 1, fragment: 1 });
    (active.long_from_us, active.suspected, active.message_turn) = (Some(3), true, true);
    (active.acked_at, active.heard_at, active.ready_at) = (Time(1), Time(2), Time(900));
    active.began = (Sequence(3), Time(3));
    active.parked.push((Sequence(8), Sequence(9)));
    (active.paced, active.lost_at) = (Some(Time(6)), Some(Time(7)));
    (active.copied_slots, active.alone) = (9, Some(Sequence(10)));
    active.restart(Sequence(70), now);
    let Active {
        window,
        records,
        pending,
        awaiting,
        blocks,
        controls,
        unacked,
        flights,
        since_request,
        requested,
        repairs,
        credit,
        refusals,
        long_from_us,
        acked_at,
        began,
        heard_at,
        ready_at,
        lost_at,
        paced,
        copied_slots,
        suspected,
        train_next,
        train_end,
        parked,
        alone,
        message_turn,
        tail: _,
    } = active;
    assert!(window.iter().all(|frame| frame.state == FrameState::Unsent && frame.load.bytes == 0));
    assert_eq!([records.len(), pending.len(), blocks.len(), parked.len()], [0; 4]);
    assert!(awaiting.first().is_none());
    assert_eq!([controls.len(), usize::from(suspected), usize::from(message_turn)], [0; 3]);
    assert_eq!([since_request, repairs, credit, refusals], [0; 4]);
    assert_eq!((copied_slots, alone), (0, None));
    assert_eq!([unacked, train_next, train_end], [Sequence(70); 3]);
    assert_eq!((requested, long_from_us, paced, lost_at), (Sequence(69), None, None, None));
    assert_eq!((acked_at, heard_at, ready_at), (now, now, Time(0)));
    assert_eq!(began, (Sequence(70), now));
    let Flights { each, waiting, lost, further } = flights;
    assert_eq!([waiting, lost, u32::from(further)], [0; 3]);
    for flight in each {
        let Flight {
            in_flight,
            lost,
            lost_so_far,
            order,
            began: counted_from,
            recovery,
            backoff,
            progress_at,
            doubt,
            left_at: _,
            delivered_at,
            strikes,
        } = flight;
        assert_eq!([in_flight, lost, backoff, strikes, doubt.asks], [0; 5]);
        assert!(doubt.next.is_none());
        assert_eq!(lost_so_far, 0);
        let arrived = recovery.arrived_order();
        assert_eq!([order, counted_from, arrived], [70; 3], "they count on from the numbers");
        assert_eq!((progress_at, delivered_at), (now, Time(0)));
    }
}
