//! Credit for what is sent unasked (`CREDIT-4`, `CREDIT-5`).

use crate::support::count;
use crate::support::crew::{Crew, TEN_GIGABIT};
use emp_firmware::{Counter, Span};
use emp_model::{FaultPlan, MessageSpec, Ppm, Rates, Trace, Want};
use emp_wire::Kind;

/// First frames of messages of several frames, and what is asked for.
fn begun(trace: &Trace) -> (usize, usize) {
    let is = |kind| trace.lines().iter().filter(|line| line.is(kind)).count();
    (is(Kind::Message), is(Kind::Pull))
}

/// What is eager between two hosts stays so, and so does what two send to a third: nothing of it is asked for.
#[test]
fn two_senders_have_what_they_had() {
    for (senders, bytes, long) in
        [(1, 64 << 10, false), (2, 64 << 10, false), (1, 500_000, true), (2, 500_000, true)]
    {
        let mut crew = if long { Crew::long(2, TEN_GIGABIT) } else { Crew::new(2, TEN_GIGABIT) };
        (1..=senders).for_each(|from| crew.stream(from, bytes));
        crew.run(Span::ms(2), 4);
        crew.world.network_mut().trace_mut().switch(true);
        crew.run(Span::ms(20), 4);
        let (messages, pulls) = begun(crew.world.network().trace());
        assert!(messages > 40 && pulls == 0, "{pulls} pulls, {messages} messages");
    }
}

/// Bytes of acknowledgements say whether they grant: an item is behind all four words.
fn granting(trace: &Trace) -> usize {
    let grants = |bytes: usize| bytes >= 32 + 40 + 6;
    trace.lines().iter().filter(|line| line.is(Kind::Ack) && grants(line.bytes)).count()
}

/// 32 senders of eager messages to one receiver: as long as they are many all of their messages are pulled but for their part of the room; who is
/// left in the end sends them whole again. Acknowledgements may be lost.
#[test]
fn many_have_a_part_each_and_who_is_left_has_it_all() {
    for lost in [0, 20] {
        let mut crew = Crew::new(32, TEN_GIGABIT);
        let rates = Rates { drop: Ppm::percent(lost), ..Rates::default() };
        crew.world.network_mut().set_faults(0, FaultPlan::default().with(Kind::Ack, rates));
        (1..=32).for_each(|from| crew.stream(from, 64 << 10));
        crew.run(Span::ms(20), 4);
        let pulls = |crew: &Crew| count(&crew.world, 0, Counter::PullsSent);
        let sent = |crew: &Crew| {
            (1..=32).map(|node| count(&crew.world, node, Counter::MessagesSent)).sum::<u64>()
        };
        let before = (pulls(&crew), sent(&crew));
        let came = crew.measure(Span::ms(40), 4);
        let (part, jain) = crew.shares("32 x 64 KB", &came, Span::ms(40));
        let (pulled, all) = (pulls(&crew) - before.0, sent(&crew) - before.1);
        // Each is 64 KB, of which 16 KB are granted: a block each.
        assert!(pulled * 10 >= all * 9, "{pulled} of {all} pulled");
        assert!(part > 0.9 && jain > 0.9, "{part} of the port, Jain {jain}");
        crew.streams[1..].iter_mut().for_each(|stream| stream.stopped = true);
        crew.run(Span::ms(30), 4);
        crew.world.network_mut().trace_mut().switch(true);
        crew.run(Span::ms(10), 4);
        let trace = crew.world.network().trace();
        let (messages, pulls) = begun(trace);
        assert!(messages > 40 && pulls == 0, "{pulls} pulls, {messages} messages");
        assert_eq!(granting(trace), 0);
    }
}

/// Whatever is lost, repeated or late of messages that are cut anew, each arrives once and as it was sent; some when a receive is posted for them, some
/// before, and some are pulled.
#[test]
fn what_is_cut_anew_arrives_once() {
    let mut anew = 0;
    for seed in 0..6 {
        let mut crew = Crew::long(24, TEN_GIGABIT);
        let percent = Ppm::percent(seed % 3);
        let rates =
            Rates { drop: percent, duplicate: percent, reorder: percent, ..Rates::default() };
        crew.world.network_mut().set_faults(0, FaultPlan::uniform(rates));
        let lengths = [30_000, 64 << 10, 61_000, 400_000, 150_000, 1 << 20];
        let mut sent = Vec::new();
        for (i, bytes) in (0..4 * 24u64).zip(lengths.iter().cycle().skip(seed as usize)) {
            let from = 1 + i as usize % 24;
            if i % 3 > 0 {
                crew.world.receive(0, Want { from: Some(from), ..Want::ANY }, 1 << 20);
            }
            sent.push((from, crew.world.send(MessageSpec::plain(from, 0, *bytes))));
        }
        crew.world.pass(Span::ms(3));
        for (from, _) in sent.iter().step_by(3) {
            crew.world.receive(0, Want { from: Some(*from), ..Want::ANY }, 1 << 20);
        }
        crew.world.run_until(Span::ms(20_000), |world| {
            sent.iter().all(|(_, message)| world.arrived(*message))
        });
        assert!(crew.world.violation().is_none(), "{:?}", crew.world.violation());
        assert!(sent.iter().all(|(_, message)| crew.world.arrived(*message)), "seed {seed}");
        anew += (1..=24).map(|node| count(&crew.world, node, Counter::CutAnew)).sum::<u64>();
    }
    println!("{anew} cut anew");
    assert!(anew > 100, "{anew}");
}
