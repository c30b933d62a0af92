//! A node whose own interface has no carrier for a while: what it does not hear then is no peer's silence (`RESEND-8`).

use crate::support::{acquainted_setup, finish, settle, wait};
use emp_firmware::{LinkIndex, NodeEvent, Profile, Span, Status};
use emp_model::{Action, FabricSetup, MessageSpec, NodeSetup, Want, World, WorldSetup};

/// How long node 0 hears nothing before it gives a peer up.
const PATIENCE: Span = Span::ms(1_000);

/// How long it has no carrier: four times that.
const OUTAGE: Span = Span::ms(4_000);

/// Node 0 is impatient, the other waits for much longer.
fn setup(fabrics: usize) -> WorldSetup {
    let profile = |patience| Profile { unreachable_after: patience, ..Profile::DEFAULT };
    let mut nodes =
        vec![NodeSetup::new(0, profile(PATIENCE)), NodeSetup::new(1, profile(Span::ms(60_000)))];
    for node in &mut nodes {
        node.links = vec![node.links[0]; fabrics];
    }
    WorldSetup { fabrics: (0..fabrics).map(|_| FabricSetup::lan()).collect(), nodes, seed: 5 }
}

fn carrier(world: &mut World, link: u8, there: bool) {
    world.poke(0, |firmware, _, now| firmware.set_carrier(now, LinkIndex(link), there));
}

/// Node 0 loses its only carrier for that long, and gets it back.
fn outage(world: &mut World, span: Span) {
    world.cut(0, 1, span);
    world.cut(1, 0, span);
    carrier(world, 0, false);
    world.pass(span);
    carrier(world, 0, true);
}

/// A send that is over when its message was received.
fn delivered(from: usize, to: usize) -> MessageSpec {
    MessageSpec { synchronous: true, ..MessageSpec::plain(from, to, 100) }
}

fn lost(world: &World) -> Option<&NodeEvent> {
    let mut events = world.events().iter().map(|(_, _, what)| what);
    events.find(|what| !matches!(what, NodeEvent::Found { .. }))
}

#[test]
fn a_message_that_is_under_way_outlives_an_outage() {
    for bytes in [100, 4 << 20] {
        for after_us in [0, 400] {
            let mut world = acquainted_setup(setup(1));
            world.receive(1, Want::ANY, bytes);
            let message = world.send(MessageSpec::plain(0, 1, bytes));
            world.pass(Span::us(after_us));
            outage(&mut world, OUTAGE);
            wait(&mut world, Span::ms(500), |world| world.arrived(message));
            assert_eq!(lost(&world), None);
            finish(&mut world);
        }
    }
}

/// A message that is asked for by name, and one that is to be asked for; the outage comes when both have waited for long.
#[test]
fn who_waits_for_a_peer_outlives_an_outage() {
    for waits_ms in [300, 3_000] {
        let mut world = acquainted_setup(setup(1));
        let receive = world.receive(0, Want { from: Some(1), ..Want::ANY }, 100);
        let sent = world.send(delivered(0, 1));
        world.pass(Span::ms(waits_ms));
        outage(&mut world, OUTAGE);
        world.pass(Span::ms(700));
        world.receive(1, Want::ANY, 100);
        let message = world.send(MessageSpec::plain(1, 0, 100));
        wait(&mut world, Span::ms(500), |world| {
            world.arrived(message) && world.sent(sent).is_some()
        });
        assert!(world.received(receive).is_some_and(|end| end.status == Status::Ok));
        assert_eq!(lost(&world), None);
        finish(&mut world);
    }
}

/// Nobody can be found without a carrier either.
#[test]
fn a_search_outlives_an_outage() {
    let mut world = World::new(setup(1));
    world.receive(1, Want::ANY, 100);
    let message = world.send(MessageSpec::plain(0, 1, 100));
    outage(&mut world, OUTAGE);
    wait(&mut world, Span::ms(500), |world| world.arrived(message));
    assert_eq!(lost(&world), None);
    finish(&mut world);
}

/// An outage that does not end is told in the end, and how long that takes follows the limit.
#[test]
fn an_outage_without_end_is_told() {
    let mut world = acquainted_setup(setup(1));
    world.cut(0, 1, Span::ms(60_000));
    world.cut(1, 0, Span::ms(60_000));
    carrier(&mut world, 0, false);
    let message = world.send(delivered(0, 1));
    let took = wait(&mut world, Span::ms(8_000), |world| world.sent(message).is_some());
    assert_eq!(world.sent(message), Some(Status::Unreachable));
    assert!(took > Span::ms(6_500), "{} ms", took.0 / 1_000_000);
}

/// A peer that ends during an outage is given up in the usual time after it.
#[test]
fn an_end_during_an_outage_is_noticed_after_it() {
    let mut world = acquainted_setup(setup(1));
    world.receive(0, Want { from: Some(1), ..Want::ANY }, 100);
    let message = world.send(delivered(0, 1));
    world.apply(Action::Stop { node: 1, goodbye: false });
    outage(&mut world, OUTAGE);
    assert_eq!(world.sent(message), None);
    wait(&mut world, Span::ms(1_500), |world| world.sent(message).is_some());
    assert_eq!(world.sent(message), Some(Status::Unreachable));
    settle(&mut world);
}

/// Time counts while another link to the same peer could bring something.
#[test]
fn the_carrier_of_another_link_excuses_nobody() {
    let mut world = acquainted_setup(setup(2));
    carrier(&mut world, 1, false);
    world.apply(Action::Stop { node: 1, goodbye: false });
    let message = world.send(delivered(0, 1));
    wait(&mut world, Span::ms(1_500), |world| world.sent(message).is_some());
    assert_eq!(world.sent(message), Some(Status::Unreachable));
}

/// Who was given up learns that, and not that its peer was restarted.
#[test]
fn who_is_given_up_is_told_so() {
    let mut world = acquainted_setup(setup(1));
    let receive = world.receive(0, Want { from: Some(1), ..Want::ANY }, 100);
    world.cut(0, 1, Span::ms(3_000));
    world.cut(1, 0, Span::ms(3_000));
    let late = world.send(delivered(1, 0));
    wait(&mut world, Span::ms(5_000), |world| world.sent(late).is_some());
    assert_eq!(world.sent(late), Some(Status::GivenUp));
    assert!(world.received(receive).is_some());
    let own = world.id(0);
    assert!(world.events().contains(&(world.now(), 1, NodeEvent::GaveUp(own))));
    assert!(!world.events().iter().any(|(_, _, what)| matches!(what, NodeEvent::Restarted(_))));
}
