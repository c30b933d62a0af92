//! How a node's frames are divided between a link with rings and one that segments (decisions 16, 35).

use std::net::IpAddr;

use emp_firmware::{LinkCost, LinkIndex, LinkInfo};
use emp_link::{Capabilities, interfaces};
use emp_wire::LinkAddress;

use crate::links::costs::{PathCosts, measure_paths};
use crate::links::interfaces::LinkInterfaces;
use crate::links::set::is_ring;

/// The division of a node's frames.
pub(crate) struct Division {
    /// Index of the bulk link.
    pub(crate) bulk: usize,
    /// What was measured; `None` if the application named the threshold.
    pub(crate) costs: Option<PathCosts>,
    /// What the firmware compares. `None`: no train gains by the bulk link.
    links: Option<[LinkCost; 2]>,
}

/// Divides frames between a link with rings and one that segments, if there are both and they lead to the same nodes.
/// `forced`: the threshold that the application names instead of the measured one.
pub(crate) fn divide(links: &[Capabilities], forced: Option<u32>) -> Option<Division> {
    let ring = links.iter().find(|link| is_ring(link))?;
    let bulk = links.iter().position(|link| link.kind == "udp" && link.segmentation)?;
    let ip = links[bulk].address.as_udp()?.ip();
    if ip.is_loopback() {
        return None;
    }
    if let Some(frames) = forced {
        let links = Some(LinkCost::divided(frames.max(1), frames.max(1)));
        return Some(Division { bulk, costs: None, links });
    }
    let frame_bytes = ring.frame_bytes_max.min(links[bulk].frame_bytes_max);
    let costs = measure_paths((&ring.interface, ring.kind == "empd"), ip, frame_bytes)?;
    let gains = costs.threshold().or_else(|| costs.threshold_long()).is_some();
    Some(Division { bulk, costs: Some(costs), links: gains.then(|| costs.of_links()) })
}

impl Division {
    /// Tells the firmware what it must know: what frames cost, and what to tell peers of the bulk link's address.
    pub(crate) fn apply(
        &self,
        infos: &mut [LinkInfo],
        links: &[Capabilities],
        over: &LinkInterfaces,
    ) {
        let Some([small, bulk]) = self.links else { return };
        if over.are_several() {
            // One measurement holds for all: what differs between two cards of a host is noise, beside what differs between a ring and a socket.
            for (info, link) in infos.iter_mut().zip(links) {
                if is_ring(link) {
                    info.cost = Some(small);
                } else if link.kind == "udp" && link.segmentation {
                    info.cost = Some(bulk);
                }
            }
            return;
        }
        let Some(socket) = links[self.bulk].address.as_udp() else { return };
        infos[self.bulk].cost = Some(bulk);
        let all = interfaces().unwrap_or_default();
        for (info, link) in infos.iter_mut().zip(links).filter(|(_, link)| is_ring(link)) {
            info.cost = Some(small);
            let mut socket = socket;
            if socket.ip().is_unspecified() {
                let of = all.iter().find(|interface| interface.name == link.interface);
                let ips = of.map_or(&[][..], |interface| &interface.addresses);
                let same = |ip: &&IpAddr| ip.is_ipv4() == socket.is_ipv4() && !is_local(**ip);
                let Some(ip) = ips.iter().find(same) else { continue };
                socket.set_ip(*ip);
            }
            info.set_beside(LinkIndex(self.bulk as u8), LinkAddress::udp(socket));
        }
    }
}

/// Means nothing to other machines without more.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local())
}
