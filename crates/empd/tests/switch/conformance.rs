//! The link conformance suite through services.

use emp_link::conformance::{self, Pair, source_tag_of};
use emp_link::service::protocol::Carrier;
use emp_link::service::{ServiceLink, ServiceOptions};
use emp_link::{Fabric, Link, PacketLink, PacketOptions, TAG_ANY, interfaces};
use emp_testing::lab::{INTERFACE, Lab};
use empd::switch::pace::Polling;

use crate::service::{MTU, Service, Setup, node_of};

type Ends = Result<[Box<dyn Link>; 2], String>;

fn open(service: &Service, interface: &str, tag: u16) -> Result<Box<dyn Link>, String> {
    let node = node_of(source_tag_of(tag));
    let socket = service.path.clone();
    let options = ServiceOptions { socket, ..ServiceOptions::new(interface, node) };
    Ok(Box::new(ServiceLink::open(&options).map_err(|error| error.to_string())?))
}

/// Two clients of one service, or each of its own.
struct Served {
    name: &'static str,
    services: Vec<Service>,
}

impl Pair for Served {
    fn name(&self) -> String {
        self.name.into()
    }

    fn open(&self, tags: [u16; 2]) -> Ends {
        let [first, .., last] = &self.services[..] else {
            let one = &self.services[0];
            return Ok([open(one, "sim", tags[0])?, open(one, "sim", tags[1])?]);
        };
        Ok([open(first, "sim", tags[0])?, open(last, "sim", tags[1])?])
    }
}

fn conform(pair: &dyn Pair) {
    if let Err(failures) = conformance::run(pair) {
        panic!("{failures}");
    }
}

#[test]
fn clients_of_one_service_conform() {
    for polling in [Polling::Adaptive, Polling::Sleeping] {
        let fabric = Fabric::new(1).expect("descriptors");
        let setup = Setup { polling, ..Setup::sim(&fabric, 0) };
        conform(&Served { name: "one service", services: vec![Service::start(setup)] });
    }
}

#[test]
fn clients_of_two_services_conform() {
    let fabric = Fabric::new(2).expect("descriptors");
    let start = |index| Service::start(Setup::sim(&fabric, index));
    conform(&Served { name: "two services", services: vec![start(0), start(1)] });
}

/// A service at each end of a cable.
struct Cabled<'l> {
    lab: &'l Lab,
    services: [Service; 2],
}

impl Pair for Cabled<'_> {
    fn name(&self) -> String {
        "services at both ends of a cable".into()
    }

    fn open(&self, tags: [u16; 2]) -> Ends {
        // Clients need not be where their service is.
        Ok([
            open(&self.services[0], INTERFACE, tags[0])?,
            open(&self.services[1], INTERFACE, tags[1])?,
        ])
    }

    fn set_up(&self, up: bool) -> bool {
        self.lab.ip(0, &["link", "set", INTERFACE, if up { "up" } else { "down" }]);
        true
    }
}

#[test]
fn clients_across_a_cable_conform() {
    let Some(lab) = Lab::build(MTU as usize) else { return };
    let start = |side: usize| {
        let found = lab.inside(side, || interfaces().expect("the kernel says"));
        let found = found.into_iter().find(|one| one.name == INTERFACE).expect("it is there");
        let carrier = Carrier {
            index: found.index,
            mtu: found.mtu as u32,
            mac: found.mac.expect("it is Ethernet"),
        };
        let setup = Setup {
            polling: Polling::Adaptive,
            rate: Box::new(|_| None),
            open: Box::new(move |interface, _, _| {
                let options = PacketOptions::new(interface, TAG_ANY);
                let link = PacketLink::open(&options).map_err(|error| error.to_string())?;
                Ok(Box::new(link))
            }),
            carrier,
            users: Vec::new(),
        };
        lab.inside(side, || Service::start(setup))
    };
    let services = [start(0), start(1)];
    conform(&Cabled { lab: &lab, services });
}
