//! Many senders and one port: the port is full, its queue is not, everybody has a share (`WINDOW-1` to `WINDOW-6`, `CREDIT-1`).

use crate::support::crew::{Crew, HALF_GIGABIT, TEN_GIGABIT};
use emp_firmware::{Span, Time};
use emp_model::{MessageSpec, PortSetup, Want};

/// In frames of the MTU. One long frame of each sender alone is 32 times what the queue holds.
#[test]
fn an_incast_of_256_takes_hardly_longer_than_the_wire() {
    let mut crew = Crew::new(256, TEN_GIGABIT);
    let bytes = 64 << 10;
    for from in 1..=256 {
        crew.world.receive(0, Want { from: Some(from), ..Want::ANY }, bytes);
    }
    let (began, before) = (crew.world.now(), crew.timeouts().1);
    let messages: Vec<_> =
        (1..=256).map(|from| crew.world.send(MessageSpec::plain(from, 0, bytes))).collect();
    crew.world.run_until(Span::ms(2_000), |world| messages.iter().all(|m| world.arrived(*m)));
    let took = crew.world.now().since(began);
    let wire = crew.wire(256.0 * bytes as f64);
    let totals = crew.world.network().port(0, 0);
    let (worst, all) = crew.timeouts();
    println!(
        "256 x 64 KB: {} µs, the wire {} µs; {} frames, {} dropped; {} time-outs, {worst} at most",
        took.as_us(),
        wire.as_us(),
        totals.frames,
        totals.dropped,
        all - before
    );
    assert!(took.0 as f64 <= 1.3 * wire.0 as f64);
    // The aim is 1: the first windows of all together are 36 times what the queue holds.
    assert!(worst <= 6, "a sender waited for a time-out {worst} times");
}

#[test]
fn sixteen_senders_fill_a_port_and_share_it() {
    for (long, bytes) in [(false, 32 << 10), (false, 1 << 20), (true, 32 << 10), (true, 1 << 20)] {
        let mut crew = if long { Crew::long(16, TEN_GIGABIT) } else { Crew::new(16, TEN_GIGABIT) };
        (1..=16).for_each(|from| crew.stream(from, bytes));
        crew.run(Span::ms(60), 4);
        let before = crew.world.network().port(0, 0);
        let span = Span::ms(100);
        let came = crew.measure(span, 4);
        let (part, jain) = crew.shares(&format!("16 x {bytes}, long {long}"), &came, span);
        let after = crew.world.network().port(0, 0);
        let (frames, dropped) = (after.frames - before.frames, after.dropped - before.dropped);
        assert!(part >= 0.9 && jain >= 0.95);
        assert!(dropped as f64 <= 0.005 * frames as f64, "{dropped} of {frames}");
    }
}

/// As the lab has it.
#[test]
fn eight_senders_share_the_port_of_the_lab() {
    for (long, bytes) in [(false, 32 << 10), (false, 1 << 20), (true, 32 << 10), (true, 1 << 20)] {
        let mut crew = if long { Crew::long(8, HALF_GIGABIT) } else { Crew::new(8, HALF_GIGABIT) };
        (1..=8).for_each(|from| crew.stream(from, bytes));
        crew.run(Span::ms(500), 4);
        let before = crew.world.network().port(0, 0);
        let span = Span::ms(2_000);
        let came = crew.measure(span, 4);
        let (part, jain) = crew.shares(&format!("8 x {bytes}, long {long}"), &came, span);
        let after = crew.world.network().port(0, 0);
        let (frames, dropped) = (after.frames - before.frames, after.dropped - before.dropped);
        assert!(part >= 0.9 && jain >= 0.95);
        assert!(dropped as f64 <= 0.005 * frames as f64, "{dropped} of {frames}");
    }
}

/// A switch that marks early, at less than delay alone would leave: then hardly anything has to be marked, and the port is full.
#[test]
fn a_switch_that_marks_keeps_its_queue_short() {
    let port = PortSetup { ecn_bytes: Some(12 << 10), ..HALF_GIGABIT };
    for bytes in [32 << 10, 1 << 20] {
        let mut crew = Crew::new(8, port);
        (1..=8).for_each(|from| crew.stream(from, bytes));
        crew.run(Span::ms(500), 4);
        let before = crew.world.network().port(0, 0);
        let span = Span::ms(1_000);
        let came = crew.measure(span, 4);
        let (part, jain) = crew.shares(&format!("8 x {bytes}, marked"), &came, span);
        let after = crew.world.network().port(0, 0);
        let (frames, marked) = (after.frames - before.frames, after.marked - before.marked);
        println!("{marked} of {frames} frames marked");
        assert!(part >= 0.85 && jain >= 0.95);
        assert_eq!(after.dropped, before.dropped);
        assert!(marked > 0 && marked * 2 < frames, "{marked} of {frames} frames marked");
    }
}

#[test]
fn flows_that_start_one_after_the_other_become_equal() {
    for (count, bytes) in [(2, 32 << 10), (2, 1 << 20), (8, 32 << 10), (8, 1 << 20)] {
        let mut crew = Crew::new(count, TEN_GIGABIT);
        for from in 1..=count {
            crew.stream(from, bytes);
            crew.run(Span::ms(3), 4);
        }
        crew.run(Span::ms(50), 4);
        let span = Span::ms(100);
        let came = crew.measure(span, 4);
        let (part, jain) = crew.shares(&format!("{count} of {bytes} bytes"), &came, span);
        assert!(part >= 0.9 && jain >= 0.95);
    }
}

/// A small message now and then beside streams of long ones: what waits before it in the port's queue.
#[test]
fn a_mouse_beside_an_elephant_waits_little() {
    for (long, port) in
        [(false, TEN_GIGABIT), (true, TEN_GIGABIT), (false, HALF_GIGABIT), (true, HALF_GIGABIT)]
    {
        let mut crew = if long { Crew::long(2, port) } else { Crew::new(2, port) };
        crew.stream(1, 1 << 20);
        crew.run(Span::ms(100), 2);
        let mut waits = Vec::new();
        for _ in 0..200 {
            crew.world.receive(0, Want { from: Some(2), ..Want::ANY }, 64);
            let began = crew.world.now();
            let mouse = crew.world.send(MessageSpec::plain(2, 0, 64));
            let end: Time = began + Span::ms(50);
            while !crew.world.arrived(mouse) && crew.world.now() < end {
                crew.run(Span::us(20), 2);
            }
            waits.push(crew.world.now().since(began).as_us());
            crew.run(Span::us(500), 2);
        }
        waits.sort_unstable();
        let full_us = port.queue_bytes * 8_000_000 / port.bits_per_second;
        let (half, most) = (waits[100], waits[197]);
        println!(
            "mouse: median {half} µs, 99th percentile {most}; a full queue takes {full_us}, long {long}"
        );
        // TCP keeps it full.
        assert!(most * 2 <= full_us.max(800));
    }
}
