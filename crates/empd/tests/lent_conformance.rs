//! A lent link held to what every link must do. Alone in its program: a test beside it that starts a process has, for a moment, a copy of each
//! of its sockets in that process, and a group changes when such a copy goes.
//!
//! Needs root for the hosts and the service; says so where it is not to be had. Who borrows has no privilege.

mod common;

use common::lent::lends_to_nobodys_group;
use common::{Service, become_nobody};
use emp_link::conformance::{self, Pair};
use emp_link::{Link, PacketLink, PacketOptions};
use emp_testing::lab::{INTERFACE, Lab};

struct Lent<'l> {
    lab: &'l Lab,
    services: &'l [Service; 2],
}

impl Pair for Lent<'_> {
    fn name(&self) -> String {
        "lent packet".into()
    }

    fn open(&self, tags: [u16; 2]) -> Result<[Box<dyn Link>; 2], String> {
        let open = |side: usize| -> Result<Box<dyn Link>, String> {
            let usual = PacketOptions::new(INTERFACE, tags[side]);
            let lender = Some(self.services[side].socket());
            let link = self.lab.inside(side, || {
                become_nobody();
                PacketLink::open(&PacketOptions { lender, ..usual })
            });
            let link = link.map_err(|error| error.to_string())?;
            assert!(link.is_lent() && !link.capabilities().privileged);
            Ok(Box::new(link))
        };
        Ok([open(0)?, open(1)?])
    }

    fn set_up(&self, up: bool) -> bool {
        self.lab.ip(0, &["link", "set", INTERFACE, if up { "up" } else { "down" }]);
        true
    }
}

#[test]
fn a_lent_link_is_a_link() {
    for mtu in [1500, 9000] {
        let Some(lab) = Lab::build(mtu) else { return };
        let services = [0, 1].map(|side| Service::start(&lab, side, &lends_to_nobodys_group()));
        conformance::run(&Lent { lab: &lab, services: &services }).expect("it conforms");
    }
}
