//! Links that keep to their network namespace: they take peers of the same one, and of no other.

use emp_testing::lab::Lab;

use super::*;

fn open(world: &World, node_tag: u16) -> ShmLink {
    let directory = Some(world.directory());
    let options = ShmOptions { directory, same_network: true, ..ShmOptions::new(node_tag) };
    ShmLink::open(&options).expect("anyone may")
}

#[test]
fn neighbours_in_the_same_network_are_welcome() {
    let world = World::new();
    let (mut a, mut b) = (open(&world, 7), open(&world, 8));
    send(&mut a, b.capabilities.address, &frame(8, 1));
    receive(&mut b, &frame(8, 1));
    works(&world, &mut a);
}

/// Which network a link is in, the thread says that opened it: one process may have nodes in several.
#[test]
fn one_process_may_be_in_several_networks() {
    let Some(lab) = Lab::build(1500) else { return };
    let world = World::new();
    let inside = |side, node_tag| lab.inside(side, || open(&world, node_tag));
    let (mut a, mut b, mut far) = (inside(0, 7), inside(0, 8), inside(1, 9));
    let everyone = LinkAddress::EVERYONE;
    for (link, tag) in [(&mut a, 8), (&mut b, 7), (&mut far, 8)] {
        send(link, everyone, &frame(tag, tag as u8));
    }
    receive(&mut b, &frame(8, 8));
    receive(&mut a, &frame(7, 7));
    send(&mut a, far.capabilities.address, &frame(9, 9));
    // Nothing else comes.
    [&mut a, &mut b, &mut far].into_iter().for_each(settle);
    assert!(!a.connections.is_empty() && far.connections.is_empty());
}
