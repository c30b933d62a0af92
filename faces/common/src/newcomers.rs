//! Interfaces that appear while a face's node runs: it uses those that it would have used if they had been there at its start.

use emp_host::{Brings, Newcomers, NodeId, Opened};
use emp_link::{Capabilities, Interface, Link};

use crate::links::{open_raw, open_udp, with_faults};
use crate::settings::Settings;
use crate::ways::{Kind, Way, interfaces_now};

/// Opens links on them as the node's own were opened.
pub(crate) struct FaceNewcomers {
    pub(crate) settings: Settings,
    pub(crate) node: NodeId,
    pub(crate) kind: Kind,
}

impl FaceNewcomers {
    fn take(&self, opened: Result<impl Link + 'static, impl ToString>, into: &mut Opened) {
        match opened {
            Ok(link) => {
                let asks_everyone = link.capabilities().broadcast;
                into.links
                    .push((with_faults(link, &self.settings.fault, self.node), asks_everyone));
            }
            Err(error) => into.lines.push(error.to_string()),
        }
    }
}

impl Newcomers for FaceNewcomers {
    fn brings(&self, links: &[Capabilities]) -> Brings {
        let any = |kinds: &[&str]| links.iter().any(|link| kinds.contains(&link.kind));
        // AF_XDP takes an interface for one process: what others use is not theirs to take.
        Brings { ring: any(&["packet", "empd"]) && !any(&["xdp"]), socket: any(&["udp"]) }
    }

    fn qualifying(&self) -> Vec<Interface> {
        interfaces_now(&self.settings, self.kind)
    }

    fn open(&self, interface: &Interface, others: &[Interface], brings: Brings) -> Opened {
        let mut opened = Opened::default();
        let way = Way::of(self.kind, interface.clone());
        if brings.ring {
            let ring = open_raw(&way, self.settings.link, self.node);
            self.take(ring.map(|(link, _)| link), &mut opened);
        }
        if brings.socket {
            let others: Vec<_> = others.iter().collect();
            let socket = open_udp((&way, &others), &self.settings, self.node, 0);
            self.take(socket, &mut opened);
        }
        opened
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use emp_testing::lab::Lab;

    use super::*;
    use crate::node::{FaceNode, Identity};
    use crate::ways::ways;

    /// Long against anything that should happen, on a machine that has much else to do.
    const LONG: Duration = Duration::from_secs(60);

    /// How many links a node with these settings has, started on what a host of a lab has, and once a second cable is there.
    fn links(lab: &Lab, settings: &Settings) -> (usize, usize) {
        lab.inside(0, || {
            let way = ways(settings).into_iter().next().expect("a cable");
            let (name, node) = ("one".to_owned(), NodeId(4713));
            let identity = Identity { node, name, udp_port: 0, needs_port: false };
            let face = FaceNode::start(&way, settings, identity).expect("root may");
            let count = || face.node.link_statistics().len();
            let before = count();
            let second = format!("link add emp1 type veth peer name emp1 netns {}", lab.name(1));
            let lines = [&second, "address add 10.78.0.1/24 dev emp1", "link set emp1 up"];
            for line in lines {
                lab.ip(0, &line.split(' ').collect::<Vec<_>>());
            }
            lab.ip(1, &["link", "set", "emp1", "up"]);
            let start = Instant::now();
            // What is named alone stays so: it has the time in which the others joined.
            while count() == before && start.elapsed() < LONG && way.all {
                face.node.progress();
                std::thread::sleep(Duration::from_millis(5));
            }
            // The ring and the socket come together.
            let after = count();
            lab.ip(0, &["link", "delete", "emp1"]);
            (before, after)
        })
    }

    #[test]
    fn a_cable_that_appears_is_used() {
        let Some(lab) = Lab::build(1500) else { return };
        let settings = |name: &'static str, value: &'static str| {
            Settings::read(|asked| {
                let set = crate::settings::Set { variable: name.into(), value: value.into() };
                (asked == name).then_some(set)
            })
            .expect("it makes sense")
        };
        for (link, before, more) in [("auto", 3, 2), ("packet", 2, 1), ("udp", 1, 1)] {
            assert_eq!(links(&lab, &settings("LINK", link)), (before, before + more), "{link}");
        }
        // One that is offered by itself is used by itself.
        assert_eq!(links(&lab, &settings("INTERFACE", "emp0")), (3, 3));
    }
}
