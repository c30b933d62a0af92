//! Whose frames reach whom, as sockets are lent and taken back. Alone in its program, for the reason that `lent_conformance` has: the links of this
//! test are used from another network than theirs, and so can't ask again.
//!
//! Needs root for the hosts and the service; says so where it is not to be had. Who borrows has no privilege.

mod common;

use common::Service;
use common::lent::{borrow, lends_to_nobodys_group, options, reaches};
use emp_link::{PacketLink, PacketOptions};
use emp_testing::lab::{INTERFACE, Lab};

/// Nodes of a host get their own frames, whoever comes and goes, and whatever the interface does.
#[test]
fn each_borrower_has_its_frames() {
    let Some(lab) = Lab::build(1500) else { return };
    let service = Service::start(&lab, 1, &lends_to_nobodys_group());
    let mut from = lab.inside(0, || PacketLink::open(&PacketOptions::new(INTERFACE, 9)));
    let from = from.as_mut().expect("root may");
    let lend = |tag| borrow(&lab, 1, &options(&service.socket(), tag)).expect("it is lent");
    let mut links: Vec<(u16, PacketLink)> = (100..106).map(|tag| (tag, lend(tag))).collect();
    let mut number = 0;
    let mut all = |links: &mut [(u16, PacketLink)]| {
        for (tag, link) in links {
            number += 1;
            reaches(from, link, *tag, number);
        }
    };
    all(&mut links);
    // One from the midst goes: the last takes its place. One comes. One takes a tag that was another's.
    drop(links.remove(1));
    all(&mut links);
    drop(links.remove(2));
    links.push((101, lend(101)));
    all(&mut links);
    // The kernel takes all in again, in another order than they came to be in.
    lab.ip(1, &["link", "set", INTERFACE, "down"]);
    lab.ip(1, &["link", "set", INTERFACE, "up"]);
    all(&mut links);
    drop(links.remove(0));
    all(&mut links);
}
