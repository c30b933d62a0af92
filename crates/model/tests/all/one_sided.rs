//! One-sided operations in the simulator: under every fault, over restarts, and when regions go away. The judges of the
//! world look at each end, each byte and each counter; what stands here is that there was something to look at.

use crate::support::{acquainted_setup, count, finish, settle, wait};
use emp_firmware::{Counter, Profile, Span, Status};
use emp_model::{
    Action, Deed, DeedId, FaultPlan, MessageSpec, Ppm, Rates, Stop, Want, World, WorldSetup,
};

/// Two nodes that export regions, on a network with these faults.
fn exporting(profile: &Profile, rates: Rates, seed: u64) -> World {
    let mut setup = WorldSetup::lan(2, profile);
    setup.seed = seed;
    setup.fabrics[0].faults = FaultPlan::uniform(rates);
    let mut world = World::new(setup);
    world.export_regions();
    world
}

const BAD: Rates = Rates {
    drop: Ppm(80_000),
    duplicate: Ppm(100_000),
    reorder: Ppm(150_000),
    delay: Ppm(20_000),
    corrupt: Ppm(10_000),
    truncate: Ppm(10_000),
    replay: Ppm(10_000),
};

const CALM: Rates = Rates {
    drop: Ppm::NEVER,
    duplicate: Ppm::NEVER,
    reorder: Ppm::NEVER,
    delay: Ppm::NEVER,
    corrupt: Ppm::NEVER,
    truncate: Ppm::NEVER,
    replay: Ppm::NEVER,
};

fn put(bytes: u64) -> Deed {
    Deed::Put { bytes, notify: true, follower: None }
}

fn all_ok(world: &World, deeds: &[DeedId]) -> bool {
    deeds.iter().all(|id| world.deed_ended(*id) == Some(Status::Ok))
}

/// Takes the regions back, which judges them, and then the whole run.
fn finish_regions(world: &mut World) {
    settle(world);
    for node in 0..2 {
        world.remove_region(node);
    }
    finish(world);
}

#[test]
fn each_operation_happens_once_whatever_the_network_does() {
    for profile in Profile::ALL {
        for seed in 0..4 {
            let mut world = exporting(profile, BAD, seed);
            let mut deeds = Vec::new();
            for round in 0..25u64 {
                for deed in [
                    put(round * 613),
                    Deed::Get { bytes: round * 2_000, skip: round },
                    Deed::Add { fetch: true },
                    Deed::Add { fetch: false },
                    Deed::Wrong { status: Status::NoRights, get: false },
                    Deed::Wrong { status: Status::BadKey, get: true },
                ] {
                    deeds.extend(world.deed(0, 1, deed));
                    deeds.extend(world.deed(1, 0, deed));
                }
            }
            settle(&mut world);
            assert!(deeds.iter().all(|id| world.deed_ended(*id).is_some()), "{}", profile.name);
            let resent = count(&world, 0, Counter::FramesResent);
            assert!(resent > 0, "the network was too kind");
            assert_eq!(count(&world, 1, Counter::AtomicsServed), 50, "{}", profile.name);
            finish_regions(&mut world);
        }
    }
}

/// A message that follows a put is told of when the put is there: the judge of followers looks at each (`PUT-4`).
#[test]
fn a_message_after_a_put_finds_it_there() {
    for profile in Profile::ALL {
        for seed in 0..10 {
            let mut world = exporting(profile, BAD, seed);
            let mut messages = Vec::new();
            for round in 0..8u64 {
                world.receive(1, Want::ANY, 100);
                let spec = MessageSpec::plain(0, 1, 100);
                let message = world.plan_follower(spec, 1 << (2 * round));
                messages.extend(message);
            }
            wait(&mut world, Span::ms(20_000), |world| messages.iter().all(|m| world.arrived(*m)));
            finish_regions(&mut world);
        }
    }
}

/// Whatever was under way ends; from the removal on the memory is not touched (a touch fails the run).
#[test]
fn a_region_can_be_removed_at_any_time() {
    let mut refused = 0;
    for profile in Profile::ALL {
        for after in 0..30 {
            let mut world = exporting(profile, CALM, 7);
            let deeds = [
                world.deed(0, 1, put(200_000)),
                world.deed(0, 1, Deed::Get { bytes: 100_000, skip: 0 }),
                world.deed(0, 1, Deed::Add { fetch: true }),
            ];
            world.pass(Span::us(20 * after));
            world.remove_region(1);
            settle(&mut world);
            let late =
                deeds.iter().flatten().filter(|id| world.deed_ended(**id) != Some(Status::Ok));
            refused += late.count();
            finish_regions(&mut world);
        }
    }
    assert!(refused > 50, "only {refused} operations were cut short");
}

#[test]
fn a_restarted_target_ends_what_was_under_way_and_serves_again() {
    let mut broken = 0;
    for after in [0u64, 30, 60, 100, 150, 300] {
        let mut setup = WorldSetup::lan(2, &Profile::DEFAULT);
        for node in &mut setup.nodes {
            node.profile.unreachable_after = Span::ms(500);
        }
        let mut world = acquainted_setup(setup);
        world.export_regions();
        let mut deeds = vec![world.deed(0, 1, put(300_000)), world.deed(0, 1, put(10))];
        deeds.push(world.deed(0, 1, Deed::Get { bytes: 120_000, skip: 0 }));
        for _ in 0..20 {
            deeds.push(world.deed(0, 1, Deed::Add { fetch: true }));
        }
        world.pass(Span::us(after));
        world.apply(Action::Stop { node: 1, goodbye: false });
        world.pass(Span::us(200));
        world.start(1);
        settle(&mut world);
        assert!(deeds.iter().flatten().all(|id| world.deed_ended(*id).is_some()), "after {after}");
        broken += deeds.iter().flatten().filter(|id| !all_ok(&world, &[**id])).count();
        // Where nothing was under way, the first operation is what finds out about the restart.
        let mut again = Vec::new();
        for _ in 0..2 {
            again = [put(3_000), Deed::Add { fetch: true }]
                .into_iter()
                .filter_map(|deed| world.deed(0, 1, deed))
                .collect();
            settle(&mut world);
        }
        assert!(all_ok(&world, &again), "after {after}");
        finish_regions(&mut world);
    }
    assert!(broken > 20, "only {broken} operations were under way");
}

/// Nodes do it to each other and to themselves at once, and nobody waits for anybody for ever.
#[test]
fn everybody_at_once() {
    let mut setup = WorldSetup::lan(4, &Profile::DEFAULT);
    setup.fabrics[0].faults = FaultPlan::uniform(Rates { drop: Ppm(10_000), ..CALM });
    let mut world = World::new(setup);
    world.export_regions();
    let mut deeds = Vec::new();
    for from in 0..4 {
        for to in 0..4 {
            for deed in [put(20_000), put(1), Deed::Get { bytes: 64_000, skip: 0 }] {
                deeds.extend(world.deed(from, to, deed));
            }
            for _ in 0..30 {
                deeds.extend(world.deed(from, to, Deed::Add { fetch: true }));
            }
        }
    }
    assert_eq!(world.run(Span::ms(60_000)), Stop::Idle, "{:?}", world.violation());
    assert!(all_ok(&world, &deeds));
    for node in 0..4 {
        world.remove_region(node);
    }
    finish(&mut world);
}
