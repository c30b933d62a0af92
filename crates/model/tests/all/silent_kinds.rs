//! A peer that falls silent with as much of each thing as it may have costs others nothing that they would notice (`SHARE-1`): what they do
//! takes at most twice its usual time, 99 times of 100, from the silence on until the peer is given up and after it, and never waits for that.

use crate::support::acquainted_setup;
use emp_firmware::limits::{EARLY_MAX, GETS_MAX, POOL_SLOT_BYTES, SEND_POOL_BYTES};
use emp_firmware::{CompletionMode, NodeEvent, Profile, Span, Status};
use emp_model::{Deed, MessageSpec, Stop, Want, World, WorldSetup};

/// The one that others have to do with, one of these, and those that fall silent: the first of them, or all.
const SUBJECT: usize = 0;
const OTHER: usize = 1;
const SILENT: usize = 2;
const ALL_SILENT: core::ops::Range<usize> = 2..12;

/// It is given up within the time that is looked at.
const PATIENT: Profile = Profile { unreachable_after: Span::ms(1_000), ..Profile::DEFAULT };

/// Each thing is done so often, evenly over the time.
const ROUNDS: usize = 100;
const BETWEEN: Span = Span::ms(20);

/// What leaves for the silent one when it begins to owe answers is a burst of a few milliseconds on the wire at most, which others may meet once.
const NO_STALL: Span = Span::ms(5);

/// What is done with the other peer, and how long it may take before it counts as hanging.
const DEEDS: [&str; 10] = [
    "32 B out",
    "32 B in",
    "buffered",
    "200 KB out",
    "200 KB in",
    "unexpected",
    "put",
    "get",
    "fetch-add",
    "one of the other's",
];
const HANGS: Span = Span::ms(5_000);

fn until(world: &mut World, reached: impl FnMut(&World) -> bool) -> Span {
    let start = world.now();
    let stop = world.run_until(HANGS, reached);
    assert_eq!(stop, Stop::Reached, "{:?}", world.violation());
    world.now().since(start)
}

fn message(world: &mut World, (from, to): (usize, usize), bytes: u64) -> Span {
    expected(world, MessageSpec { tag: 7, ..MessageSpec::plain(from, to, bytes) })
}

fn expected(world: &mut World, spec: MessageSpec) -> Span {
    world.receive(spec.to, Want { from: Some(spec.from), ..Want::tag(spec.tag) }, spec.bytes);
    let message = world.send(spec);
    until(world, |world| world.arrived(message))
}

fn one_sided(world: &mut World, (from, to): (usize, usize), deed: Deed) -> Span {
    let deed = world.deed(from, to, deed).expect("there is a place for it");
    let took = until(world, |world| world.deed_ended(deed).is_some());
    assert_eq!(world.deed_ended(deed), Some(Status::Ok));
    took
}

/// Does each thing once.
fn round(world: &mut World) -> [Span; 10] {
    let unexpected = MessageSpec { tag: 8, ..MessageSpec::plain(OTHER, SUBJECT, 1_000) };
    let completion = CompletionMode::Buffered;
    let buffered = MessageSpec { completion, ..unexpected };
    let (here, there) = ((SUBJECT, OTHER), (OTHER, SUBJECT));
    [
        message(world, (SUBJECT, OTHER), 32),
        message(world, (OTHER, SUBJECT), 32),
        expected(
            world,
            MessageSpec { completion, tag: 7, ..MessageSpec::plain(SUBJECT, OTHER, 1_000) },
        ),
        message(world, (SUBJECT, OTHER), 200_000),
        message(world, (OTHER, SUBJECT), 200_000),
        {
            let (start, early) = (world.now(), world.send(buffered));
            world.pass(Span::us(200));
            world.receive(SUBJECT, Want { from: Some(OTHER), ..Want::tag(8) }, 1_000);
            until(world, |world| world.arrived(early));
            world.now().since(start)
        },
        one_sided(world, here, Deed::Put { bytes: 64, notify: true, follower: None }),
        one_sided(world, here, Deed::Get { bytes: 8_000, skip: 0 }),
        one_sided(world, here, Deed::Add { fetch: true }),
        one_sided(world, there, Deed::Add { fetch: true }),
    ]
}

/// The 99th percentile of each, and the longest: who waits for something that stands still is not done so often meanwhile, and the percentile alone
/// would not show it.
fn times(world: &mut World) -> [(Span, Span); 10] {
    let mut all: [Vec<Span>; 10] = Default::default();
    for _ in 0..ROUNDS {
        let start = world.now();
        for (all, took) in all.iter_mut().zip(round(world)) {
            all.push(took);
        }
        world.pass(Span(BETWEEN.0.saturating_sub(world.now().since(start).0)));
    }
    all.map(|mut all| {
        all.sort_unstable();
        (all[ROUNDS * 99 / 100 - 1], all[ROUNDS - 1])
    })
}

fn meet() -> World {
    let mut world = acquainted_setup(WorldSetup::lan(ALL_SILENT.end, &PATIENT));
    world.network_mut().trace_mut().switch(false);
    world.export_regions();
    // Long messages were exchanged, and one of each other kind, so that all know their windows.
    for _ in 0..3 {
        round(&mut world);
        message(&mut world, (SUBJECT, SILENT), 300_000);
        message(&mut world, (SILENT, SUBJECT), 300_000);
    }
    world
}

fn send(world: &mut World, (from, to): (usize, usize), count: usize, spec: &MessageSpec) {
    for _ in 0..count {
        world.send(MessageSpec { from, to, ..spec.clone() });
    }
}

fn silence(world: &mut World) {
    for silent in ALL_SILENT {
        for lives in [SUBJECT, OTHER] {
            world.cut(silent, lives, Span::ms(60_000));
            world.cut(lives, silent, Span::ms(60_000));
        }
    }
}

/// Has the peer hold what it may, and falls silent, before or after.
type Load = fn(&mut World);

/// What is held then by the subject, and how much of it at least.
type Held = (&'static str, usize);

const OUT: (usize, usize) = (SUBJECT, SILENT);
const IN: (usize, usize) = (SILENT, SUBJECT);

fn plain(bytes: u64) -> MessageSpec {
    MessageSpec { tag: 1, ..MessageSpec::plain(0, 0, bytes) }
}

fn deeds(world: &mut World, (from, to): (usize, usize), count: usize, deed: Deed) {
    for _ in 0..count {
        world.deed(from, to, deed).expect("there is a place for it");
    }
}

/// A little more than a peer's part of what is named by gets.
const GETS: usize = GETS_MAX / 9 + 20;

/// The same of what is copied for atomics.
const ATOMICS: usize = SEND_POOL_BYTES / POOL_SLOT_BYTES / 9 + 20;

const KINDS: [(&str, Held, Load); 14] = [
    ("gets that it was asked for", ("gets", GETS_MAX / 9), |world| {
        silence(world);
        deeds(world, OUT, GETS, Deed::Get { bytes: 8_000, skip: 0 });
    }),
    ("fetching atomics that it was asked for", ("gets", ATOMICS - 100), |world| {
        silence(world);
        deeds(world, OUT, ATOMICS, Deed::Add { fetch: true });
    }),
    ("atomics", ("sends", ATOMICS - 100), |world| {
        silence(world);
        deeds(world, OUT, ATOMICS, Deed::Add { fetch: false });
    }),
    ("puts", ("sends", 2_000), |world| {
        silence(world);
        deeds(world, OUT, 2_000, Deed::Put { bytes: 100, notify: true, follower: None });
    }),
    ("buffered sends", ("pool slots of sends", 3_000), |world| {
        silence(world);
        let buffered = MessageSpec { completion: CompletionMode::Buffered, ..plain(1_400) };
        send(world, OUT, 3_000, &buffered);
    }),
    ("sends", ("sends", 20_000), |world| {
        silence(world);
        send(world, OUT, 20_000, &plain(100));
    }),
    ("long sends, under way", ("sends", 32), |world| {
        for _ in 0..64 {
            world.receive(SILENT, Want::tag(1), 1 << 20);
        }
        send(world, OUT, 64, &plain(1 << 20));
        world.pass(Span::ms(5));
        silence(world);
    }),
    ("pulls of its long messages", ("pulls", 1), |world| {
        for _ in 0..64 {
            world.receive(SUBJECT, Want::tag(1), 1 << 20);
        }
        send(world, IN, 64, &plain(1 << 20));
        world.pass(Span::ms(5));
        silence(world);
    }),
    ("pulls that it has asked for and takes nothing of", ("sends", 32), |world| {
        for _ in 0..64 {
            world.receive(SILENT, Want::tag(1), 1 << 20);
        }
        send(world, OUT, 64, &plain(1 << 20));
        world.pass(Span::ms(5));
        world.cut(SUBJECT, SILENT, Span::ms(60_000));
    }),
    ("unexpected messages, short", ("incoming messages", 20_000), |world| {
        send(world, IN, 20_000, &plain(40));
        world.pass(Span::ms(100));
        silence(world);
    }),
    ("unexpected messages, more than the pool", ("incoming messages", 5_000), |world| {
        send(world, IN, 5_000, &plain(1_400));
        world.pass(Span::ms(100));
        silence(world);
    }),
    ("messages before their turn", ("early messages of a peer", 64), |world| {
        // The first is lost, and so is what is sent again: all behind it wait for it.
        world.cut(SILENT, SUBJECT, Span::us(3));
        send(world, IN, 1, &plain(100));
        world.pass(Span::us(3));
        send(world, IN, EARLY_MAX, &plain(1_400));
        world.pass(Span::us(150));
        silence(world);
    }),
    (
        "answers to fetching atomics that it does not acknowledge",
        ("frames under way", 256),
        |world| {
            for silent in ALL_SILENT {
                world.cut(SUBJECT, silent, Span::ms(60_000));
                deeds(world, (silent, SUBJECT), 2_048, Deed::Add { fetch: true });
            }
            world.pass(Span::ms(20));
            silence(world);
        },
    ),
    ("receives posted for it", ("receives", 20_000), |world| {
        for _ in 0..20_000 {
            world.receive(SUBJECT, Want { from: Some(SILENT), ..Want::tag(7) }, 1_000);
        }
        silence(world);
    }),
];

#[test]
fn one_silent_peer_of_any_kind_costs_others_no_time() {
    let usual = times(&mut meet());
    let row = |name: &str, all: [(Span, Span); 10]| {
        let us = |span: Span| span.0 as f64 / 1e3;
        let all =
            all.iter().map(|(most, longest)| format!("{:.1} ({:.1})", us(*most), us(*longest)));
        println!("| {name} | {} |", all.collect::<Vec<_>>().join(" | "));
    };
    println!("99th percentiles and longest, in virtual µs: {}", DEEDS.join(", "));
    row("nobody", usual);
    let mut slow = Vec::new();
    for (name, (what, least), load) in KINDS {
        let mut world = meet();
        load(&mut world);
        let holdings = world.firmware(SUBJECT).holdings();
        let held = holdings.iter().find(|held| held.name == what).map(|held| held.held);
        assert!(held >= Some(least), "{name}: {held:?} {what}, of {holdings:?}");
        let beside = times(&mut world);
        row(name, beside);
        for ((deed, usual), beside) in DEEDS.iter().zip(usual).zip(beside) {
            if beside.0.0 > 2 * usual.0.0 || beside.1 > NO_STALL {
                slow.push(format!("{deed} beside {name}: {beside:?}, usually {usual:?}"));
            }
        }
        assert!(world.violation().is_none(), "{name}: {:?}", world.violation());
        let unreachable = NodeEvent::Unreachable(world.id(SILENT));
        let given_up =
            world.events().iter().any(|(_, at, event)| *at == SUBJECT && *event == unreachable);
        // Who is heard, or owes nothing that is asked after, is not given up.
        let kept = name.starts_with("unexpected") || name.ends_with("takes nothing of");
        assert!(given_up || kept, "{name}: it is waited for still");
    }
    assert!(slow.is_empty(), "{}", slow.join("\n"));
}
