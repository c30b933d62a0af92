//! Who joins while somebody else has the kernel go by the table.

use emp_testing::lab::{INTERFACE, Lab};
use emp_wire::ETHERTYPE_DEFAULT;

use super::{PROGRAM_LOCK, Table};
use crate::{PacketLink, PacketOptions, system};

/// Setting the group's program takes a grace period of the kernel's: those who join meanwhile leave it to whoever sets it, and wait for nothing.
#[test]
fn who_joins_while_the_program_is_set_does_not_wait_for_it() {
    let Some(lab) = Lab::build(1500) else { return };
    let open = |tag| {
        let options = PacketOptions { group: true, ..PacketOptions::new(INTERFACE, tag) };
        PacketLink::open(&options).expect("root opens it")
    };
    let nodes = lab.inside(0, || {
        let first = open(1);
        let carrier = (system::interface_index(INTERFACE), ETHERTYPE_DEFAULT);
        let table = Table::open_locked(carrier).expect("it is there");
        drop(table.held());
        assert!(table.claim(PROGRAM_LOCK).expect("a lock"), "nobody sets it");
        // Whoever waited for the program would do so without end, and do without the group.
        let others = (2..20).map(open);
        [first].into_iter().chain(others).collect::<Vec<_>>()
    });
    assert!(nodes.iter().all(PacketLink::is_grouped));
}
