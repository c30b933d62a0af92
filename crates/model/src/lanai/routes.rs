//! Source-routed switches, and how a card finds the route to a node: by asking along ever longer routes who is there (V24 to V28).

/// What a port leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Nothing.
    Nothing,
    /// The node at this place.
    Node(u32),
    /// This port of this switch.
    Switch(usize, u8),
}

/// Which port of which switch leads where.
#[derive(Clone, Debug)]
pub struct Topology {
    /// Ports of each switch.
    pub switches: Vec<Vec<End>>,
    /// Switch and port that each node is plugged into.
    pub nodes: Vec<(usize, u8)>,
}

/// Longest route: switches on it.
const HOPS_MAX: usize = 4;

impl Topology {
    /// So many switches of eight ports in a row, the last ports of neighbours joined, and two nodes: one at each end of the row.
    pub fn row(switches: usize) -> Self {
        let mut topology =
            Self { switches: vec![vec![End::Nothing; 8]; switches], nodes: vec![(0, 0); 2] };
        for left in 1..switches {
            topology.switches[left - 1][7] = End::Switch(left, 6);
            topology.switches[left][6] = End::Switch(left - 1, 7);
        }
        topology.plug(0, 0, 2);
        topology.plug(1, switches - 1, 3);
        topology
    }

    /// Plugs a node in, out of where it was.
    pub fn plug(&mut self, node: u32, switch: usize, port: u8) {
        let here = End::Node(node);
        let ports = self.switches.iter_mut().flatten().filter(|end| **end == here);
        ports.for_each(|end| *end = End::Nothing);
        self.switches[switch][usize::from(port)] = here;
        self.nodes[node as usize] = (switch, port);
    }

    /// Where a packet ends that leaves a node with this route: each switch takes one byte off and sends it out by that port.
    pub(super) fn follow(&self, from: u32, route: &[u8]) -> End {
        let (mut switch, _) = self.nodes[from as usize];
        let mut end = End::Switch(switch, 0);
        for port in route {
            let End::Switch(at, _) = end else { return End::Nothing };
            switch = at;
            end = self.switches[switch].get(usize::from(*port)).copied().unwrap_or(End::Nothing);
        }
        end
    }

    /// Looks for a node along ever longer routes. Returns the route, and how many polls were answered, and how many not.
    pub(super) fn find(&self, from: u32, to: u32) -> (Option<Vec<u8>>, [u64; 2]) {
        let mut polls = [0, 0];
        let mut frontier = vec![Vec::new()];
        let mut seen = vec![self.nodes[from as usize].0];
        for _ in 0..HOPS_MAX {
            let mut further = Vec::new();
            for route in &frontier {
                for port in 0..8 {
                    let mut longer: Vec<u8> = route.clone();
                    longer.push(port);
                    match self.follow(from, &longer) {
                        End::Node(found) => {
                            polls[0] += 1;
                            if found == to {
                                return (Some(longer), polls);
                            }
                        }
                        End::Switch(switch, _) if !seen.contains(&switch) => {
                            polls[0] += 1;
                            seen.push(switch);
                            further.push(longer);
                        }
                        End::Switch(..) | End::Nothing => polls[1] += 1,
                    }
                }
            }
            frontier = further;
        }
        (None, polls)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes_are_found_over_several_switches_and_lead_there() {
        for switches in 1..=4 {
            let topology = Topology::row(switches);
            let (route, polls) = topology.find(0, 1);
            let route = route.unwrap();
            assert_eq!((route.len(), topology.follow(0, &route)), (switches, End::Node(1)));
            assert!(polls[0] + polls[1] <= 8 * switches as u64, "{polls:?}");
        }
        assert_eq!(Topology::row(5).find(0, 1).0, None, "too far");
    }

    #[test]
    fn a_node_that_moved_is_found_elsewhere() {
        let mut topology = Topology::row(2);
        let (old, _) = topology.find(0, 1);
        topology.plug(1, 0, 5);
        assert_eq!(topology.follow(0, &old.unwrap()), End::Nothing);
        assert_eq!(topology.find(0, 1).0, Some(vec![5]));
    }
}
