//! A peer that falls silent while its long messages are on their way costs the others nothing (`CREDIT-3`).

use crate::support::crew::{Crew, TEN_GIGABIT};
use emp_firmware::Span;

/// Eight peers send five long messages each; one is cut off in the middle.
#[test]
fn a_silent_peer_costs_the_others_nothing() {
    for long in [false, true] {
        let goodput = |silent: bool| {
            let mut crew =
                if long { Crew::long(8, TEN_GIGABIT) } else { Crew::new(8, TEN_GIGABIT) };
            (1..=8).for_each(|from| crew.stream(from, 1 << 20));
            crew.run(Span::ms(40), 5);
            if silent {
                crew.world.network_mut().cut(0, 8, 0, true);
                crew.streams[7].stopped = true;
            }
            crew.measure(Span::ms(100), 5)[..7].iter().sum::<f64>()
        };
        let (all, without) = (goodput(false), goodput(true));
        println!("seven of eight: {all}, with the eighth silent {without}, long {long}");
        // They may have its share as well.
        assert!(without >= 0.97 * all, "{without} instead of {all}");
    }
}

/// Eight senders are asked at a time, those of which least is left: eight that are silent would keep all turns from who sends longer messages.
#[test]
fn who_is_silent_keeps_no_turn() {
    let goodput = |silent: bool| {
        let mut crew = Crew::new(10, TEN_GIGABIT);
        (9..=10).for_each(|from| crew.stream(from, 4 << 20));
        if silent {
            (1..=8).for_each(|from| crew.stream(from, 1 << 20));
            crew.run(Span::ms(20), 5);
            for from in 1..=8 {
                crew.world.network_mut().cut(0, from, 0, true);
                crew.streams[from + 1].stopped = true;
            }
        }
        let rates = crew.measure(Span::ms(100), 5);
        rates[..2].iter().sum::<f64>()
    };
    let (alone, beside) = (goodput(false), goodput(true));
    println!("two of ten: alone {alone}, with eight silent {beside}");
    assert!(beside >= 0.9 * alone, "{beside} instead of {alone}");
}

/// A rack falls silent in the middle of its long messages: what it was asked for is never more than there are names for, and who still
/// answers is asked on.
#[test]
fn hundreds_that_are_silent_leave_names_for_the_others() {
    const SILENT: usize = 300;
    let mut crew = Crew::new(SILENT + 1, TEN_GIGABIT);
    (1..=SILENT).for_each(|from| crew.stream(from, 1 << 20));
    crew.run(Span::ms(5), 1);
    for from in 1..=SILENT {
        crew.world.network_mut().cut(0, from, 0, true);
        crew.streams[from - 1].stopped = true;
    }
    // Long enough for all of them to have been asked.
    crew.run(Span::ms(400), 1);
    crew.stream(SILENT + 1, 4 << 20);
    let came = crew.measure(Span::ms(100), 5)[SILENT];
    println!("beside {SILENT} that are silent: {came}");
    assert!(crew.wire(came) >= Span::ms(80), "{came}");
}
