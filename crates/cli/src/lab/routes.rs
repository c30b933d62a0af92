//! How hosts reach those that they have no cable to, by IP: shortest ways, by the cables that are plugged in.
//!
//! A lab plays the part of whoever configures hosts' routes: launchers of MPIs need them, whatever carries the messages.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use super::plan::{Place, Plan, Route};

/// Hosts that reach each other without a host between them: those of a cable, or of switches that are joined.
struct Segment {
    subnet: Ipv4Addr,
    prefix: u8,
    /// Hosts with their addresses on it.
    members: Vec<(usize, Ipv4Addr)>,
    /// No plug of it is out. Switches are always that.
    whole: bool,
}

/// How another host is reached.
#[derive(Clone, Copy)]
struct Gateway {
    /// The address of the first hop.
    via: Ipv4Addr,
    /// Segments on the way.
    hops: usize,
}

impl Plan {
    /// Gives every host the routes that it needs now.
    pub fn set_routes(&mut self) {
        let wanted = self.routed && self.has_stable_addresses();
        let segments = if wanted { self.segments() } else { Vec::new() };
        for host in 0..self.hosts.len() {
            self.hosts[host].routes = self.routes_from(host, &segments);
        }
    }

    /// For each switch the smallest number of those that it is joined with, by cables that are plugged in.
    pub fn joined_switches(&self) -> Vec<usize> {
        let mut group: Vec<usize> = (0..self.switches.len()).collect();
        // As often as a group may have to be handed on.
        for _ in 0..self.switches.len() {
            for cable in self.cables.iter().filter(|cable| cable.pulled.is_none()) {
                if cable.near.place == Place::Switch && cable.far.place == Place::Switch {
                    let (a, b) = (cable.near.switch, cable.far.switch);
                    let least = group[a].min(group[b]);
                    (group[a], group[b]) = (least, least);
                }
            }
        }
        group
    }

    /// Pairs of hosts, the smaller index first, that have a cable or switches between them and nothing else.
    pub fn neighbours(&self) -> Vec<(usize, usize)> {
        let segments = self.segments().into_iter().filter(|segment| segment.whole);
        let pairs = segments.flat_map(|segment| {
            let members = segment.members;
            let of = |(nth, (a, _)): (usize, &(usize, Ipv4Addr))| -> Vec<(usize, usize)> {
                let later = members[nth + 1..].iter();
                later.map(|(b, _)| (*a.min(b), *a.max(b))).filter(|(a, b)| a != b).collect()
            };
            members.iter().enumerate().flat_map(of).collect::<Vec<_>>()
        });
        let mut pairs: Vec<_> = pairs.collect();
        pairs.sort_unstable();
        pairs.dedup();
        pairs
    }

    fn segments(&self) -> Vec<Segment> {
        let group = self.joined_switches();
        let mut segments: Vec<Segment> = Vec::new();
        let mut of_group: Vec<Option<usize>> = vec![None; self.switches.len()];
        for cable in &self.cables {
            let ends = [&cable.near, &cable.far];
            let found = ends.into_iter().filter_map(|end| {
                let Place::Host(host) = end.place else { return None };
                let interface = self.interface(end)?;
                Some((host, interface.address?, interface.prefix))
            });
            let found: Vec<_> = found.collect();
            let Some(&(_, first, prefix)) = found.first() else { continue };
            let subnet = Ipv4Addr::from(u32::from(first) & (u32::MAX << (32 - prefix)));
            let members = found.iter().map(|(host, address, _)| (*host, *address));
            let switch = ends.into_iter().find(|end| end.place == Place::Switch);
            match switch.map(|end| group[end.switch]) {
                Some(_) if cable.pulled.is_some() => {}
                Some(number) => match of_group[number] {
                    Some(known) => segments[known].members.extend(members),
                    None => {
                        of_group[number] = Some(segments.len());
                        segments.push(Segment {
                            subnet,
                            prefix,
                            members: members.collect(),
                            whole: true,
                        });
                    }
                },
                None => segments.push(Segment {
                    subnet,
                    prefix,
                    members: members.collect(),
                    whole: cable.pulled.is_none(),
                }),
            }
        }
        segments
    }

    /// Shortest ways from one host to everything it has no cable to.
    fn routes_from(&self, start: usize, segments: &[Segment]) -> Vec<Route> {
        let ways = gateways_from(start, self.hosts.len(), segments);
        let hosts = self.hosts.iter().zip(&ways).filter_map(|(host, way)| {
            way.map(|way| Route { to: host.address, prefix: 32, via: way.via })
        });
        let subnets = segments.iter().flat_map(|segment| {
            if !segment.whole {
                // Its two ends are not on one subnet any more, whatever their addresses say.
                let apart = segment.members.iter().filter_map(|(host, address)| {
                    Some(Route { to: *address, prefix: 32, via: ways[*host]?.via })
                });
                return apart.collect::<Vec<_>>();
            }
            let ours = segment.members.iter().any(|(host, _)| *host == start);
            let reached = segment.members.iter().filter_map(|(host, _)| ways[*host]);
            let nearest = reached.min_by_key(|way| way.hops).filter(|_| !ours);
            let route =
                |way: Gateway| Route { to: segment.subnet, prefix: segment.prefix, via: way.via };
            nearest.map(route).into_iter().collect()
        });
        hosts.chain(subnets).collect()
    }
}

/// For each other host the shortest way there, found segment by segment.
fn gateways_from(start: usize, hosts: usize, segments: &[Segment]) -> Vec<Option<Gateway>> {
    let mut ways: Vec<Option<Gateway>> = vec![None; hosts];
    let mut queue = VecDeque::from([start]);
    while let Some(at) = queue.pop_front() {
        let here = |segment: &&Segment| {
            segment.whole && segment.members.iter().any(|(host, _)| *host == at)
        };
        for (next, address) in segments.iter().filter(here).flat_map(|one| &one.members) {
            if *next != start && ways[*next].is_none() {
                let (via, hops) = ways[at].map_or((*address, 0), |way| (way.via, way.hops));
                ways[*next] = Some(Gateway { via, hops: hops + 1 });
                queue.push_back(*next);
            }
        }
    }
    ways
}
