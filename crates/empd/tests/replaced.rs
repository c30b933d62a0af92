//! A service takes another's place while frames cross: the clients that are there stay with the one that they have, others come to the new
//! one, and no frame is lost.
//!
//! Needs root for the hosts and the services; says so where it is not to be had.

mod common;
#[path = "common/frames.rs"]
mod frames;

use std::os::fd::AsFd;
use std::time::Duration;

use common::{NOBODY, Service, Successor, become_nobody, until};
use emp_link::service::protocol::{Answer, BUFFER_BYTES, Hello, Request, VERSION};
use emp_link::service::{ServiceLink, ServiceOptions, namespace, socket};
use emp_link::{Link, LinkError};
use emp_testing::lab::{INTERFACE, Lab};
use emp_wire::NodeId;
use frames::{frame, send};

/// Rounds of two frames with nobody but the new service.
const ROUNDS: u64 = 200;

fn options(service: &Service, node: u64) -> ServiceOptions {
    ServiceOptions { socket: service.socket(), ..ServiceOptions::new(INTERFACE, NodeId(node)) }
}

fn attach(lab: &Lab, side: usize, options: &ServiceOptions) -> Result<ServiceLink, LinkError> {
    lab.inside(side, || ServiceLink::open(options))
}

/// Two clients that answer each other.
struct Pair<'a> {
    links: [&'a mut ServiceLink; 2],
    nodes: [u64; 2],
}

impl Pair<'_> {
    /// One frame each way, which is there soon.
    fn round(&mut self, number: u64) {
        for (from, to) in [(0, 1), (1, 0)] {
            let tags = [from, to].map(|end: usize| NodeId(self.nodes[end]).source_tag());
            let sent = frame(tags[0], tags[1], number, (number % 1400) as usize);
            let address = self.links[to].capabilities().address;
            send(self.links[from], address, &sent);
            // One that two sockets got comes twice.
            while frames::receive(self.links[to]) != sent {}
        }
    }
}

#[test]
fn a_service_is_replaced_and_no_frame_is_lost() {
    let Some(lab) = Lab::build(1500) else { return };
    let (first, other) = (Service::start(&lab, 0, ""), Service::start(&lab, 1, ""));
    let mut here = attach(&lab, 0, &options(&first, 1)).expect("it is let in");
    let mut there = attach(&lab, 1, &options(&other, 2)).expect("it is let in");
    let mut pair = Pair { links: [&mut here, &mut there], nodes: [1, 2] };
    let mut number = 0;
    let mut rounds = |pair: &mut Pair<'_>, count| {
        for _ in 0..count {
            number += 1;
            pair.round(number);
        }
    };
    rounds(&mut pair, ROUNDS);
    let next = Successor::start(&lab, &first);
    until("the next one listens", || {
        rounds(&mut pair, 10);
        next.listens()
    });
    rounds(&mut pair, ROUNDS);
    let mut newcomer = attach(&lab, 0, &options(&first, 3)).expect("the next one lets it in");
    rounds(&mut pair, ROUNDS);
    let Pair { links: [here, there], .. } = pair;
    rounds(&mut Pair { links: [&mut newcomer, &mut *there], nodes: [3, 2] }, ROUNDS);
    rounds(&mut Pair { links: [&mut *here, &mut *there], nodes: [1, 2] }, ROUNDS);
    for link in [&*here, &*there, &newcomer] {
        let counts = link.statistics();
        assert_eq!(
            counts.receive_lost + counts.send_refused + counts.system_errors,
            0,
            "{counts:?}"
        );
    }
    // Nobody else gets the tag of a node that the first one serves.
    let others = |options: ServiceOptions| {
        lab.inside(0, || {
            become_nobody();
            ServiceLink::open(&options)
        })
    };
    let refused = others(options(&first, 1)).err().expect("it would read along");
    assert!(refused.to_string().contains("another user's"), "{refused}");
    assert!(first.log().contains("takes its place"), "{}", first.log());
    // The first ends with its last client, without a word to the others.
    drop(std::mem::replace(here, others(options(&first, 4)).expect("everyone may attach")));
    let mut first_ends = first;
    until("the first one ends", || !first_ends.is_up());
    assert!(first_ends.socket().exists(), "the place is the next one's");
    until("the tag is free", || others(options(&first_ends, 1)).is_ok());
    assert!(newcomer.is_attached());
}

/// It is the service's own user, or root, that takes its place, and there is one to take it.
#[test]
fn not_everyone_takes_a_services_place() {
    let Some(lab) = Lab::build(1500) else { return };
    let mut service = Service::start(&lab, 0, "");
    let refused = lab.inside(0, || {
        become_nobody();
        let connection = socket::connect(&service.socket()).expect("it listens");
        let hello = Hello { version: VERSION, namespace: namespace() };
        for request in [Request::Hello(hello), Request::Replace] {
            socket::send(connection.as_fd(), &request.emit(), &[]).expect("it takes them");
        }
        let (mut bytes, mut refused) = ([0; BUFFER_BYTES], None);
        until("it refuses", || {
            let got = socket::receive(connection.as_fd(), &mut bytes).unwrap_or(0);
            if let Ok(Answer::Refused(why)) = Answer::parse(&bytes[..got]) {
                refused = Some(why.reason);
            }
            refused.is_some()
        });
        refused.expect("it did")
    });
    assert!(refused.contains("its own user"), "{refused} ({NOBODY})");
    // Still there.
    std::thread::sleep(Duration::from_millis(20));
    assert!(service.is_up() && attach(&lab, 0, &options(&service, 1)).is_ok());
}
