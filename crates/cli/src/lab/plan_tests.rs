//! Every property of a plan that needs no kernel to check.

use std::collections::HashSet;

use super::*;

const ALL: [Topology; 5] =
    [Topology::Link, Topology::Switch, Topology::Line, Topology::Ring, Topology::Mesh];

fn sizes(topology: Topology) -> Vec<usize> {
    (2..=MAX_HOSTS).filter(|n| Plan::new(*n, topology, 1500).is_ok()).collect()
}

#[test]
fn cables_are_as_many_as_the_topology_says() {
    let cables = |n, t| Plan::new(n, t, 1500).unwrap().cables.len();
    assert_eq!(cables(2, Topology::Link), 1);
    assert_eq!(cables(5, Topology::Switch), 5);
    assert_eq!(cables(5, Topology::Ring), 5);
    assert_eq!(cables(5, Topology::Line), 4);
    assert_eq!(cables(5, Topology::Mesh), 10);
    assert_eq!(cables(MAX_HOSTS, Topology::Mesh), MAX_HOSTS * (MAX_HOSTS - 1) / 2);
}

#[test]
fn a_spare_cable_is_apart_from_the_first() {
    let plan = Plan::new(2, Topology::Link, 1500).unwrap().with_spare_cable();
    assert_eq!(plan.cables.len(), 2);
    for host in &plan.hosts {
        let [first, spare] = &host.interfaces[..] else { panic!("{:?}", host.interfaces) };
        assert_eq!((first.name.as_str(), spare.name.as_str()), ("emp0", "emp1"));
        assert_eq!((first.address, spare.prefix), (Some(host.address), 30));
        assert_ne!(first.address.unwrap().octets()[2], spare.address.unwrap().octets()[2]);
        assert!(host.routes.is_empty());
    }
}

#[test]
fn sizes_out_of_range_are_the_users_mistake() {
    for (hosts, topology, mtu) in [
        (3, Topology::Link, 1500),
        (1, Topology::Switch, 1500),
        (2, Topology::Ring, 1500),
        (MAX_HOSTS + 1, Topology::Mesh, 1500),
        (2, Topology::Link, 60),
        (2, Topology::Link, 70000),
    ] {
        let error = Plan::new(hosts, topology, mtu).unwrap_err();
        assert!(error.downcast_ref::<crate::error::UserError>().is_some(), "{error}");
    }
    assert_eq!(
        Plan::new(3, Topology::Link, 1500).unwrap_err().to_string(),
        "a link lab has 2 hosts, not 3"
    );
}

#[test]
fn hosts_with_more_cables_than_a_node_takes_are_told_of() {
    let crowded = |hosts, topology| Plan::new(hosts, topology, 1500).unwrap().crowded();
    assert_eq!(crowded(INTERFACES_MAX + 1, Topology::Mesh), None);
    assert_eq!(crowded(MAX_HOSTS, Topology::Switch), None);
    let line = crowded(INTERFACES_MAX + 2, Topology::Mesh).unwrap();
    assert!(line.starts_with("6 hosts (emp-a to emp-f) have more than 4 cables"), "{line}");
    assert!(!line.contains('\n'), "{line}");
}

#[test]
fn names_go_beyond_the_alphabet() {
    let plan = Plan::new(28, Topology::Switch, 1500).unwrap();
    let names: Vec<_> = plan.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(
        (names[0], names[25], names[26], names[27]),
        ("emp-a", "emp-z", "emp-h27", "emp-h28")
    );
}

#[test]
fn addresses_and_interface_names_are_unique_and_fit() {
    for topology in ALL {
        for size in sizes(topology) {
            let plan = Plan::new(size, topology, 1500).unwrap();
            let mut addresses = HashSet::new();
            for host in &plan.hosts {
                let mut names = HashSet::new();
                for interface in &host.interfaces {
                    // IFNAMSIZ is 16 bytes, one of them for the end mark.
                    assert!(interface.name.len() <= 15);
                    assert!(names.insert(&interface.name));
                    assert!(addresses.insert(interface.address));
                }
                let apart = !host.interfaces.iter().any(|i| i.address == Some(host.address));
                assert_eq!(apart, plan.has_stable_addresses());
                assert!(!apart || addresses.insert(Some(host.address)));
            }
            let ends: HashSet<_> = plan
                .cables
                .iter()
                .flat_map(Cable::ends)
                .map(|e| format!("{:?}{}", e.place, e.interface))
                .collect();
            assert_eq!(ends.len(), 2 * plan.cables.len());
        }
    }
}

#[test]
fn both_ends_of_a_cable_are_on_one_subnet() {
    let subnet = |i: &Interface| u32::from(i.address.unwrap()) >> (32 - i.prefix);
    for topology in [Topology::Link, Topology::Line, Topology::Ring, Topology::Mesh] {
        let plan = Plan::new(sizes(topology)[0], topology, 1500).unwrap();
        let at = |end: &End| plan.interface(end).unwrap();
        for cable in &plan.cables {
            assert_eq!(subnet(at(&cable.near)), subnet(at(&cable.far)));
        }
    }
}

#[test]
fn following_the_routes_arrives_by_a_shortest_way() {
    for size in [3, 4, 7] {
        let plan = Plan::new(size, Topology::Ring, 1500).unwrap();
        for start in 0..size {
            for goal in (0..size).filter(|goal| *goal != start) {
                let (mut at, mut hops) = (start, 0);
                while at != goal {
                    let to = plan.hosts[goal].address;
                    let route = plan.hosts[at].routes.iter().find(|r| r.to == to).unwrap();
                    at = plan.find(&route.via.to_string()).unwrap();
                    hops += 1;
                }
                let clockwise = (goal + size - start) % size;
                assert_eq!(hops, clockwise.min(size - clockwise));
            }
        }
    }
}

#[test]
fn hosts_of_a_mesh_are_one_hop_apart() {
    let plan = Plan::new(5, Topology::Mesh, 1500).unwrap();
    for host in &plan.hosts {
        // To 4 hosts, and to the 6 of 10 cables between two of them.
        assert_eq!((host.interfaces.len(), host.routes.len()), (4, 4 + 6));
        for route in host.routes.iter().filter(|route| route.prefix == 32) {
            let neighbour = plan.find(&route.via.to_string()).unwrap();
            assert_eq!(plan.hosts[neighbour].address, route.to);
        }
    }
}

#[test]
fn every_address_is_routed_from_every_host() {
    let covers = |to: Ipv4Addr, prefix: u8, address: Ipv4Addr| {
        (u32::from(to) ^ u32::from(address)) >> (32 - prefix) == 0
    };
    for (size, topology) in [(7, Topology::Ring), (5, Topology::Mesh), (6, Topology::Line)] {
        let plan = Plan::new(size, topology, 1500).unwrap();
        for from in &plan.hosts {
            for to in plan.hosts.iter().filter(|to| to.name != from.name) {
                for address in to.interfaces.iter().filter_map(|i| i.address).chain([to.address]) {
                    let ours = from.interfaces.iter().map(|i| (i.address.unwrap(), i.prefix));
                    let routed = from.routes.iter().map(|r| (r.to, r.prefix));
                    let ways = ours.chain(routed).filter(|(to, bits)| covers(*to, *bits, address));
                    assert_eq!(ways.count(), 1, "{} to {address}", from.name);
                }
            }
        }
    }
}

#[test]
fn a_host_is_found_by_name_index_and_any_address() {
    let plan = Plan::new(3, Topology::Ring, 1500).unwrap();
    assert_eq!(plan.find("emp-b"), Some(1));
    assert_eq!(plan.find("2"), Some(2));
    assert_eq!(plan.find("10.77.0.1"), Some(0));
    assert_eq!(plan.find("10.77.1.2"), Some(1));
    assert_eq!((plan.find("3"), plan.find("emp-z"), plan.find("10.0.0.1")), (None, None, None));
}

#[test]
fn the_hosts_file_names_every_host_once() {
    let text = Plan::new(3, Topology::Mesh, 1500).unwrap().hosts_file();
    assert!(text.contains("127.0.0.1\tlocalhost\n"));
    for line in ["10.77.0.1\temp-a\n", "10.77.0.2\temp-b\n", "10.77.0.3\temp-c\n"] {
        assert_eq!(text.matches(line).count(), 1);
    }
}

#[test]
fn a_plan_survives_the_state_file() {
    let plan = Plan::new(4, Topology::Switch, 9000).unwrap();
    let text = serde_json::to_string(&plan).unwrap();
    assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
}

#[test]
fn a_pulled_cable_is_routed_around_and_its_ends_are_still_reached() {
    let mut plan = Plan::new(4, Topology::Ring, 1500).unwrap();
    assert_eq!(plan.neighbours(), [(0, 1), (0, 3), (1, 2), (2, 3)]);
    plan.cables[0].pulled = Some(Side::Near);
    plan.set_routes();
    assert_eq!(plan.neighbours(), [(0, 3), (1, 2), (2, 3)]);
    // All is reached by the one neighbour that is left, b's end of the pulled cable too.
    let a = &plan.hosts[0];
    let via = Some(plan.interface(&plan.cables[3].near).unwrap().address.unwrap());
    assert!(a.routes.iter().all(|route| Some(route.via) == via), "{:?}", a.routes);
    let b_end = plan.interface(&plan.cables[0].far).unwrap().address.unwrap();
    assert!(a.routes.iter().any(|route| (route.to, route.prefix) == (b_end, 32)));
    plan.cables[0].pulled = None;
    plan.set_routes();
    assert_eq!(plan, Plan::new(4, Topology::Ring, 1500).unwrap());
}

#[test]
fn hosts_without_routes_know_their_neighbours_only() {
    let plan = Plan::new(4, Topology::Line, 1500).unwrap().without_routes();
    assert!(!plan.routed && plan.hosts.iter().all(|host| host.routes.is_empty()));
    assert_eq!(plan.neighbours(), [(0, 1), (1, 2), (2, 3)]);
}

#[test]
fn cables_with_a_rate_go_by_the_panel() {
    let ports = Ports::parse("500mbit", "64K").unwrap();
    let plan = Plan::new(3, Topology::Line, 1500).unwrap().with_ports(ports).unwrap();
    assert!(plan.cables.iter().all(|cable| cable.limit == Some(ports) && cable.panel.is_some()));
    assert_eq!(plan.places().last(), Some(&Place::Switch));
    assert_ne!(plan.cables[0].panel, plan.cables[1].panel);
    let plan = Plan::new(3, Topology::Switch, 1500).unwrap().with_ports(ports).unwrap();
    assert!(plan.ports == Some(ports) && plan.cables.iter().all(|cable| cable.panel.is_none()));
    assert!(Plan::new(2, Topology::Link, 1500).unwrap().with_ports(ports).is_err());
}

#[test]
fn names_of_the_panels_ports_fit_the_kernel() {
    let plan = Plan::new(MAX_HOSTS, Topology::Mesh, 1500).unwrap().with_panel();
    let ports: HashSet<_> = plan.cables.iter().flat_map(Cable::ends).map(End::panel_port).collect();
    assert_eq!(ports.len(), 2 * plan.cables.len());
    assert!(ports.iter().all(|port| port.len() <= 15));
}
